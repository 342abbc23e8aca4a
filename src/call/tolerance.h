/*
 * call/tolerance.h - pg_inference.max_error_ratio: how many failures a statement goes past.
 */
#ifndef INFER_CALL_TOLERANCE_H
#define INFER_CALL_TOLERANCE_H

#include "postgres.h"

#include "call/types.h"
#include "core/tally.h"

/* What a statement's calls have come to. */
typedef struct InferTolerance
{
	InferTally tally;
	bool stopped;    /* too many failed */
	double ratio;    /* ... than this */
	InferTally when; /* ... then */
} InferTolerance;

/* A call of the statement has ended; which may stop it. Raises nothing. */
extern void infer_tolerance_note(const InferAnswer *answer);
/* May the batch, ready or loose, be sent? Else its calls fail, it is freed, and false returned. */
extern bool infer_tolerance_allows(InferBatch *batch);
/* Is the answer's statement stopped, so that whoever wants a result is to get the error? */
extern bool infer_tolerance_stopped(const InferAnswer *answer);
/* That error. */
extern void infer_tolerance_raise(const InferAnswer *answer) __attribute__((noreturn));

#endif
