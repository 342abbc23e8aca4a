/*
 * call/tolerance.c - pg_inference.max_error_ratio: how many failures a statement goes past.
 *
 * With on_error = null and in outcomes a failure is a value, so that a server that is down turns a
 * table into NULLs.  The memo counts how the statement's calls ended, a distinct input once; when
 * more have failed than the setting allows, the statement is stopped: nothing further is sent, and
 * whoever asks for the next result gets the error, whatever became of that call.  Not earlier, for
 * a row that LIMIT cuts off raises nothing, nor later: no row waits for an answer any more.  The
 * ERROR then gives back what is still on its way, as any other.
 *
 * A failure that raises by itself goes first, for it says more.
 */
#include "postgres.h"

#include "call/batch.h"
#include "call/class.h"
#include "call/client.h"
#include "call/finish.h"
#include "call/memo.h"
#include "call/pump.h"
#include "call/tolerance.h"
#include "core/proof.h"
#include "core/tally.h"
#include "core/types.h"
#include "pg/guc.h"
#include "pg/report.h"

/* A call of the statement has ended. */
void
infer_tolerance_note(const InferAnswer *answer)
{
	InferTolerance *tolerance = infer_memo_tolerance(answer->memo);

	if (answer->reason == INFER_REASON_ERROR_RATIO)
		return; /* a consequence */
	infer_tally_note(&tolerance->tally, answer->reason, answer->execution);
	if (tolerance->stopped || answer->reason == INFER_REASON_NONE ||
		!infer_tally_exceeds(&tolerance->tally, infer_guc_max_error_ratio))
		return;
	tolerance->stopped = true;
	tolerance->ratio = infer_guc_max_error_ratio;
	tolerance->when = tolerance->tally;
}

/* May it be sent? Else it fails, and false is returned. */
bool
infer_tolerance_allows(InferBatch *batch)
{
	if (!infer_memo_tolerance(batch->class->memo)->stopped)
		return true;
	infer_finish_fail(batch, INFER_REASON_ERROR_RATIO, INFER_NOT_ADMITTED, 0, NULL);
	return false;
}

bool
infer_tolerance_stopped(const InferAnswer *answer)
{
	return infer_memo_tolerance(answer->memo)->stopped;
}

/* What is proved of the statement's calls together; what is in flight is given up. */
static InferExecution
proof(const InferTolerance *tolerance)
{
	dlist_iter iter;

	dlist_foreach(iter, infer_pump_clients())
	{
		if (dlist_container(InferClient, node, iter.cur)->nrunning > 0)
			return infer_proof_floor(tolerance->tally.execution, INFER_MAYBE_EXECUTED);
	}
	return tolerance->tally.execution;
}

void
infer_tolerance_raise(const InferAnswer *answer)
{
	const InferTolerance *tolerance = infer_memo_tolerance(answer->memo);
	const InferTally *when = &tolerance->when;
	InferReason most = infer_tally_most(when);

	ereport(
		ERROR,
		(errcode(infer_report_sqlstate(INFER_REASON_ERROR_RATIO, proof(tolerance))),
		 errmsg("too many calls of the statement failed"),
		 errdetail(INT64_FORMAT
				   " of " INT64_FORMAT " calls failed, " INT64_FORMAT
				   " of them for this reason: %s. pg_inference.max_error_ratio is %g, judged over "
				   "at least %d calls. Nothing further was sent.",
				   when->failed, when->finished, when->failed_by[most], infer_report_reason(most),
				   tolerance->ratio, INFER_TALLY_LEAST),
		 errhint("infer.statement_errors() tells the causes. Raise pg_inference.max_error_ratio to "
				 "go past more failures.")));
}
