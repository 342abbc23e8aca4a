/*
 * call/retry.c - whether a failed attempt is followed by another one, and when.
 *
 * The rules are core/retry's; what they need is gathered here.  The batch sleeps meanwhile: it
 * holds neither permit nor connection.
 */
#include "postgres.h"

#include "common/hashfn.h"

#include "call/internal.h"
#include "pg/random.h"

/* The draw of the pause: by the first input and the attempt, so that a seed fixes it. */
static double
draw_jitter(const InferBatch *batch)
{
	const InferAnswer *first = batch->answers[0];

	return infer_random_draw(hash_bytes_extended((const unsigned char *) first->input,
												 (int) first->input_len, batch->attempts));
}

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

/*
 * After an attempt that failed and has landed: repeats the batch later, if the call's policy allows
 * it.  False: this failure is the last, the batch is loose, and *reason may be another
 * one now.
 */
bool
infer_retry_later(InferBatch *batch, const InferFinding *finding, int64 retry_after_ms,
				  InferReason *reason)
{
	const InferCallOptions *options = &batch->class->options;
	int64 delay_ms;

	if (infer_retry_pause_is_too_long(batch->class, retry_after_ms * 1000) ||
		!infer_retry_allowed(&options->rule, batch->attempts, finding))
		return false;
	if (options->rule.delivery == INFER_DELIVERY_UNLESS_FAILED &&
		infer_admission_failed_for(batch->place->key, infer_retry_patience_us(batch->class)))
	{
		*reason = INFER_REASON_SERVER_FAILED;
		return false;
	}
	/* refusals for overload are paced by the key's limit already */
	if (!infer_admission_retry(batch->place->key, finding->reason == INFER_REASON_OVERLOADED &&
													  finding->execution == INFER_NOT_ADMITTED))
	{
		batch->retry_denied = true;
		return false;
	}
	batch->client->stats.retries++;
	batch->client->stats.retries_by[finding->reason]++;
	batch->floor = infer_proof_floor(finding->execution, batch->floor);
	delay_ms = infer_retry_delay_ms(batch->attempts, retry_after_ms, draw_jitter(batch));
	elog(DEBUG2, "pg_inference: attempt %d failed (%s, %s), the next one in " INT64_FORMAT " ms",
		 batch->attempts, infer_reason_name(finding->reason),
		 infer_execution_name(finding->execution), delay_ms);
	infer_batch_sleep(batch, delay_ms);
	return true;
}
