/*
 * core/tally.c - how the calls of a statement ended.
 */
#include "core/tally.h"

void
infer_tally_note(InferTally *tally, InferReason reason, InferExecution execution)
{
	tally->finished++;
	if (execution > tally->execution)
		tally->execution = execution;
	if (reason == INFER_REASON_NONE)
		return;
	tally->failed++;
	tally->failed_by[reason]++;
}

bool
infer_tally_exceeds(const InferTally *tally, double ratio)
{
	int64_t of = tally->finished > INFER_TALLY_LEAST ? tally->finished : INFER_TALLY_LEAST;

	/* 29 of 100 are not more than 0.29, whatever 0.29 is in binary */
	return (double) tally->failed > ratio * (double) of * (1 + 1e-12);
}

InferReason
infer_tally_most(const InferTally *tally)
{
	InferReason most = INFER_REASON_NONE;

	for (int reason = 0; reason < INFER_REASON_COUNT; reason++)
		if (tally->failed_by[reason] > tally->failed_by[most])
			most = (InferReason) reason;
	return most;
}
