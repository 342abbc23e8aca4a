/*
 * call/retry.c - whether a failed attempt is followed by another one, and when.
 *
 * The rules are core/retry's; what they need is gathered here.  The batch sleeps meanwhile: it
 * holds neither permit nor connection.
 */
#include "postgres.h"

#include "call/batch.h"
#include "call/class.h"
#include "call/client.h"
#include "call/place.h"
#include "call/retry.h"
#include "call/route.h"
#include "core/proof.h"
#include "core/stages.h"
#include "core/types.h"
#include "pg/clock.h"
#include "pg/guc.h"
#include "shmem/admission.h"

/*
 * A call goes on waiting for a server that fails until it has failed for so long.  Somebody may sit
 * before it, so that is not long, unless the delivery asks for more.  A reliable one waits for
 * ever: it ends by an answer, its max_attempts, or a cancel.
 */
int64
infer_retry_patience_us(const InferClass *class)
{
	InferDelivery delivery = class->options.rule.delivery;
	int timeout_ms = class->options.timeout_ms;

	if (delivery == INFER_DELIVERY_RELIABLE)
		return PG_INT64_MAX;
	if (delivery == INFER_DELIVERY_SINGLE)
		timeout_ms = Min(timeout_ms, infer_guc_failure_patience);
	return (int64) timeout_ms * 1000;
}

bool
infer_retry_pause_is_too_long(const InferClass *class, int64 us)
{
	return us > (int64) class->options.timeout_ms * 1000;
}

/* Retries are a share of what a server gets.  To go on to another one is none for it, and refusals
 * for overload are paced by the key's limit already. */
static bool
is_exempt(const InferBatch *batch, const InferFinding *finding)
{
	return batch->stages.rounds == 0 ||
		   (finding->reason == INFER_REASON_OVERLOADED && finding->execution == INFER_NOT_ADMITTED);
}

/*
 * After an attempt that failed and has landed: repeats the batch, later or at another place, if the
 * call's policy allows it.  declined: it says that it did nothing.  False: this failure is the
 * last, the batch is loose, and *reason may be another one now.
 */
bool
infer_retry_later(InferBatch *batch, const InferFinding *finding, bool declined,
				  int64 retry_after_ms, InferReason *reason)
{
	const InferClass *class = batch->class;
	bool alone = class->nplaces == 1;
	const InferStagesStep *step;
	int64 delay_us;

	if (alone && infer_retry_pause_is_too_long(class, retry_after_ms * 1000))
		return false;
	infer_route_ended(batch, finding, declined, retry_after_ms);
	step = infer_route_next(batch);
	if (step->action == INFER_STAGES_END ||
		(batch->deadline_us > 0 && step->until_us > batch->deadline_us))
		return false;
	if (alone && class->options.rule.delivery == INFER_DELIVERY_UNLESS_FAILED &&
		infer_admission_failed_for(batch->place->key, infer_retry_patience_us(class)))
	{
		*reason = INFER_REASON_SERVER_FAILED;
		return false;
	}
	if (!infer_admission_retry(batch->place->key, is_exempt(batch, finding)))
	{
		batch->retry_denied = true;
		return false;
	}
	batch->client->stats.retries++;
	batch->client->stats.retries_by[finding->reason]++;
	batch->floor = infer_proof_floor(finding->execution, batch->floor);
	delay_us = step->action == INFER_STAGES_SEND ? 0 : Max(step->until_us - infer_now_us(), 0);
	elog(DEBUG2, "pg_inference: attempt %d failed (%s, %s), the next one in " INT64_FORMAT " ms",
		 batch->attempts, infer_reason_name(finding->reason),
		 infer_execution_name(finding->execution), (delay_us + 999) / 1000);
	if (step->action == INFER_STAGES_SEND)
		infer_batch_ready(batch);
	else
		infer_batch_sleep(batch, step->until_us);
	return true;
}
