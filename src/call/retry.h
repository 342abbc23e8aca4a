/*
 * call/retry.h - sending again: whether and when (retry.c), under which key (idempotency.c), from
 * whose memory (retained.c); and what is known of a request that is given up (abandoned.c).
 */
#ifndef INFER_CALL_RETRY_H
#define INFER_CALL_RETRY_H

#include "postgres.h"

#include "call/types.h"
#include "core/proof.h"
#include "core/types.h"

/*
 * After an attempt that failed and has landed: repeats the loose batch, later or at another place,
 * if the policy of its calls allows that.  declined: the server says that it did nothing.
 * retry_after_ms: the pause that it asks for; -1 = none.  False: this failure is the last, the
 * batch is still loose, and *reason may be another one now.
 */
extern bool infer_retry_later(InferBatch *batch, const InferFinding *finding, bool declined,
							  int64 retry_after_ms, InferReason *reason);
/* How long calls of the class go on waiting for a server that fails, in microseconds. */
extern int64 infer_retry_patience_us(const InferClass *class);
/* Is a pause that the server asks for longer than a call may take? Then nobody waits for it. */
extern bool infer_retry_pause_is_too_long(const InferClass *class, int64 us);

/* Makes the key of a batch whose body is new, if its calls ask for one.  False: it could not be
 * made, and the batch has been failed. */
extern bool infer_idempotency_prepare(InferBatch *batch);

/* Charges a new body to pg_inference.retained_memory, if it may be sent again.  False: there is no
 * room, and the batch has been failed. */
extern bool infer_retain(InferBatch *batch);
/* The body is not needed any more. Raises nothing. */
extern void infer_retain_end(InferBatch *batch);

/* A batch is about to be freed: counts it if it has unanswered calls, and stops its transfer.
 * Raises nothing. */
extern void infer_abandon(InferBatch *batch);

#endif
