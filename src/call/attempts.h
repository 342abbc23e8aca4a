/*
 * call/attempts.h - what became of the attempts of a batch, for the error that its calls may end
 * with.
 */
#ifndef INFER_CALL_ATTEMPTS_H
#define INFER_CALL_ATTEMPTS_H

#include "postgres.h"

#include "call/types.h"
#include "core/types.h"

/* One attempt, as told of afterwards. */
typedef struct InferAttempt
{
	const InferPlace *place;
	InferReason reason;
	InferExecution execution;
} InferAttempt;

/* Of a call's attempts, the last so many are told of one by one. */
#define INFER_ATTEMPTS_TOLD 8

/* Notes an attempt that failed, which may be the last. detail is copied; it may be NULL. */
extern void infer_attempts_note(InferBatch *batch, InferReason reason, InferExecution execution,
								int http_status, const char *detail);
/* part gets what the other has noted. */
extern void infer_attempts_copy(InferBatch *part, const InferBatch *of);
/* "tried: a1 (overloaded, not_admitted), b1 ...", palloc'd; NULL = there is nothing to tell. */
extern char *infer_attempts_tell(const InferBatch *batch);
/* With the batch. */
extern void infer_attempts_free(InferBatch *batch);

#endif
