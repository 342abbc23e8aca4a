/*
 * call/finish.h - the end of a request, and of its calls.
 *
 * A transfer ends in infer_finish_transfer(), which passes it on: to infer_finish_reply() if it has
 * a good status, else to infer_finish_failure().  Whichever way, the batch is repeated or freed,
 * and a failure stays in its answers until their rows are due.  Reading the server's key may raise;
 * the batch is told again then (infer_pump_collect).
 */
#ifndef INFER_CALL_FINISH_H
#define INFER_CALL_FINISH_H

#include "postgres.h"

#include "call/types.h"
#include "core/limiter.h"
#include "core/proof.h"
#include "core/types.h"
#include "http/transport.h"
#include "provider/provider.h"

/* The end of a running batch's transfer. The result stays the transfer's; its body may be
 * converted. */
extern void infer_finish_transfer(InferBatch *batch, const InferHttpResult *result);
/*
 * Fails all answers of a loose or ready batch for good, and frees it; a copy is only freed, for its
 * answers are another batch's.  execution: of the last attempt; what is known of earlier ones is
 * added.  http_status: 0 = none.  detail: in the database's encoding, copied; NULL = none.
 */
extern void infer_finish_fail(InferBatch *batch, InferReason reason, InferExecution execution,
							  int http_status, const char *detail);
/* The attempt is over, whatever comes of it; tokens = -1: the answer does not say. */
extern void infer_finish_landed(InferBatch *batch, InferReason reason, InferVerdict verdict,
								const InferHttpResult *result, int64 tokens);

/* reply.c */
/* A good status: fills the answers, each by its place in the reply. */
extern void infer_finish_reply(InferBatch *batch, const InferHttpResult *result);
/* Counts what an answer of whatever status says of its usage, and leaves it with the batch's
 * answers. Returns the tokens, -1 = it says nothing. */
extern int64 infer_finish_usage(InferBatch *batch, const InferReply *reply);

/* failure.c */
/* Anything else: the batch is repeated, in parts if it was too large, or fails. */
extern void infer_finish_failure(InferBatch *batch, const InferFinding *finding,
								 const InferHttpResult *result);
/* The same for one of two requests, while the other one is still under way: the batch is loose
 * afterwards. */
extern void infer_finish_lost(InferBatch *batch, const InferFinding *finding,
							  const InferHttpResult *result);

/* One answer has failed; it still is to be resolved. */
extern void infer_answer_fail(InferAnswer *answer, InferReason reason, InferExecution execution,
							  const char *detail);
/* The last words on one answer of a batch that landed. */
extern void infer_answer_resolve(InferBatch *batch, InferAnswer *answer, int http_status,
								 int64 elapsed_us);
/* The server that an answer came from, or was asked of last; NULL: none of several. */
extern const char *infer_answer_server(const InferAnswer *answer);

/* echo.c */
/* Words in UTF-8, of at most 512 bytes: leaves out what they repeat of the batch's inputs and of
 * the key; never makes them longer.  Reads the key, and so looks into catalogs. */
extern void infer_echo_mask(const InferBatch *batch, char *words);

#endif
