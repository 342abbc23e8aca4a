/*
 * core/retry.c - may this attempt be followed by another, and when?
 *
 * Two independent questions: does repeating make sense for the reason (a request that was refused
 * for its contents is refused again), and does the proof permit it under the caller's policy.
 */
#include "core/retry.h"

#define FIRST_BACKOFF_MS 50
#define MAX_BACKOFF_MS   1000

/* Reasons that may have gone away by the next attempt. */
static bool
reason_is_passing(InferReason reason)
{
	switch (reason)
	{
		case INFER_REASON_LOOKUP_FAILED:
		case INFER_REASON_CONNECT_FAILED:
		case INFER_REASON_TLS_FAILED:
		case INFER_REASON_TIMEOUT:
		case INFER_REASON_DISCONNECTED:
		case INFER_REASON_OVERLOADED:
		case INFER_REASON_SERVER_ERROR:
		case INFER_REASON_INCOMPLETE_REPLY:
			return true;
		default:
			return false;
	}
}

bool
infer_retry_allowed(InferRetryPolicy policy, int attempts, int max_attempts, InferReason reason,
					InferExecution execution)
{
	if (attempts >= max_attempts || !reason_is_passing(reason))
		return false;
	switch (policy)
	{
		case INFER_RETRY_NEVER:
			return false;
		case INFER_RETRY_NOT_ADMITTED:
			return execution == INFER_NOT_ADMITTED;
		case INFER_RETRY_AMBIGUOUS:
			return execution != INFER_EXECUTED;
	}
	return false;
}

int64_t
infer_retry_delay_ms(int attempts, int64_t retry_after_ms, double draw)
{
	int64_t backoff = FIRST_BACKOFF_MS;
	int64_t delay;

	for (int i = 1; i < attempts && backoff < MAX_BACKOFF_MS; i++)
		backoff *= 2;
	if (backoff > MAX_BACKOFF_MS)
		backoff = MAX_BACKOFF_MS;

	delay = (int64_t) ((double) backoff * (0.5 + draw / 2));
	return delay > retry_after_ms ? delay : retry_after_ms;
}
