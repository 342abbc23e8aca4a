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
extern bool infer_incarnation_fits(const InferPlace *place);
/* ... and this loose batch to its own?  If not, it is finished. */
extern bool infer_incarnation_allows(InferBatch *batch);
/* Has another one than expected given a good answer? Notes whom to expect. */
extern bool infer_incarnation_is_wrong(InferPlace *place, const InferHttpResult *result);
/* The batch fails for that. */
extern void infer_incarnation_discard(InferBatch *batch, const InferHttpResult *result);

#endif
