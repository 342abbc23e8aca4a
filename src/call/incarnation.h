/*
 * call/incarnation.h - which run of its server answers a call, and whether that one may.
 */
#ifndef INFER_CALL_INCARNATION_H
#define INFER_CALL_INCARNATION_H

#include "postgres.h"

#include "call/types.h"
#include "http/transport.h"

/* A new place: where its answers say it, and whom to expect. */
extern void infer_incarnation_prepare(InferPlace *place);
/* The header in which answers of the place say which one gave them; NULL: in none. */
extern const char *infer_incarnation_header(const InferPlace *place);
/* What an answer says, or the route table, where answers cannot; "" = nothing. */
extern void infer_incarnation_said(const InferPlace *place, const InferHttpResult *result,
								   char *said);
/* May calls go to the place, as far as the route table knows? */
extern bool infer_incarnation_fits(InferPlace *place);
/* ... and if not, is it for others to answer? */
extern bool infer_incarnation_leaves_out(InferPlace *place);
/* Has that become so since the batch got its permit and was counted? Then it has neither any more,
 * and stays ready. */
extern bool infer_incarnation_came_between(InferBatch *batch);
/* Is there nowhere to go for that? Then says so, in the batch's hints as well. */
extern bool infer_incarnation_left_nothing(InferBatch *batch, char *detail, size_t size);
/* May this loose batch go to its place? If not, it is finished. */
extern bool infer_incarnation_allows(InferBatch *batch);
/* Has another one than expected given a good answer? Notes whom to expect. */
extern bool infer_incarnation_is_wrong(InferPlace *place, const InferHttpResult *result);
/* Is the other incarnation's answer no more than a reason to ask elsewhere? */
extern bool infer_incarnation_repeats(const InferBatch *batch, const InferFinding *finding);
/* The batch fails for one of these: what to do. */
extern void infer_incarnation_hint(InferBatch *batch);
/* The batch fails for that, or is repeated. */
extern void infer_incarnation_discard(InferBatch *batch, const InferFinding *finding,
									  const InferHttpResult *result);

#endif
