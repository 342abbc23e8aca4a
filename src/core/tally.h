/*
 * core/tally.h - how the calls of a statement ended, and whether too many of them failed.
 *
 * Pure; zeroed memory is an empty tally.
 */
#ifndef INFER_CORE_TALLY_H
#define INFER_CORE_TALLY_H

#include "core/types.h"

/* A share is judged over at least so many calls. */
#define INFER_TALLY_LEAST 100

typedef struct InferTally
{
	int64_t finished; /* calls that ended, whatever came of them */
	int64_t failed;
	int64_t failed_by[INFER_REASON_COUNT];
	InferExecution execution; /* the most that is proved of any of them */
} InferTally;

/* One more call ended; reason NONE = it was answered. */
extern void infer_tally_note(InferTally *tally, InferReason reason, InferExecution execution);

/*
 * Have more failed than the ratio (0..1) allows?  Of fewer than INFER_TALLY_LEAST calls as many may
 * fail as of that number: else the first calls, which are few, would decide by chance.  So a ratio
 * of 0.1 stands for 10 failures at first, however soon they come; 0 for none; 1 for any number.
 */
extern bool infer_tally_exceeds(const InferTally *tally, double ratio);

/* Of what most have failed, the first in the order of the enum if several are as many; NONE if none
 * did. */
extern InferReason infer_tally_most(const InferTally *tally);

#endif
