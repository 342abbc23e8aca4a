/*
 * core/retry.c - may this attempt be followed by another, and when?  The rules: core/retry.h.
 */
#include "core/retry.h"

#define FIRST_BACKOFF_MS 50
#define MAX_BACKOFF_MS   1000

/* Reasons that may have gone away by the next attempt. */
static bool
reason_is_passing(InferReason reason, const InferRetryRule *rule)
{
	switch (reason)
	{
		case INFER_REASON_LOOKUP_FAILED:
		case INFER_REASON_CONNECT_FAILED:
		case INFER_REASON_TLS_FAILED:
		case INFER_REASON_TIMEOUT:
		case INFER_REASON_DISCONNECTED:
		case INFER_REASON_DRAINING: /* to another server */
		case INFER_REASON_OVERLOADED:
		case INFER_REASON_SERVER_ERROR:
		case INFER_REASON_INCOMPLETE_REPLY:
			return true;
		case INFER_REASON_CONFLICT: /* the earlier copy is still in progress */
			return rule->key_honoured;
		default:
			return false;
	}
}

/* May what may have been executed be sent again? */
static bool
ambiguity_is_permitted(const InferRetryRule *rule, const InferFinding *finding)
{
	if (rule->delivery != INFER_DELIVERY_SINGLE)
	{
		if (finding->lost)
			return true;
		if (finding->reason == INFER_REASON_TIMEOUT)
			return false;
	}
	return rule->policy == INFER_RETRY_AMBIGUOUS || rule->key_honoured;
}

bool
infer_retry_allowed(const InferRetryRule *rule, int attempts, const InferFinding *finding)
{
	if (attempts >= rule->max_attempts || rule->policy == INFER_RETRY_NEVER ||
		!reason_is_passing(finding->reason, rule))
		return false;
	switch (finding->execution)
	{
		case INFER_NOT_ADMITTED:
			return true;
		case INFER_MAYBE_EXECUTED:
			return ambiguity_is_permitted(rule, finding);
		case INFER_EXECUTED:
			break;
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
