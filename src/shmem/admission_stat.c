/*
 * shmem/admission_stat.c - what is known and counted of an admission key: retries, failures of its
 * server, who waits, and the figures of infer.stat_admission.
 */
#include "postgres.h"

#include "storage/lwlock.h"

#include "core/retry_budget.h"
#include "pg/clock.h"
#include "pg/guc.h"
#include "shmem/admission_private.h"

#define NOBODY INFER_NOBODY

/* --- Retries --- */

bool
infer_admission_retry(InferKey key, bool exempt)
{
	InferAdmissionEntry *entry = infer_admission_entry(key);
	bool allowed;

	LWLockAcquire(infer_admission_lock(key), LW_EXCLUSIVE);
	allowed = exempt || infer_guc_retry_budget >= INFER_RETRY_BUDGET_OFF ||
			  infer_retry_budget_spend(&entry->budget);
	if (allowed)
		entry->retries++;
	else
		entry->retries_denied++;
	LWLockRelease(infer_admission_lock(key));
	return allowed;
}

void
infer_admission_abandoned(InferKey key, InferExecution proof)
{
	LWLockAcquire(infer_admission_lock(key), LW_EXCLUSIVE);
	infer_admission_entry(key)->abandoned[proof]++;
	LWLockRelease(infer_admission_lock(key));
}

/* --- Failures --- */

/* Partition lock held. */
static InferFailing
read_failing(const InferMonitor *monitor, int64 now)
{
	return (InferFailing){.failures = monitor->failures,
						  .reason = monitor->reason,
						  .for_us = infer_monitor_failing_us(monitor, now),
						  .cools = infer_monitor_cools(monitor),
						  .next_us = infer_monitor_opens_us(monitor, now) - now};
}

InferFailing
infer_admission_failing(InferKey key)
{
	InferFailing result;

	LWLockAcquire(infer_admission_lock(key), LW_SHARED);
	result = read_failing(&infer_admission_entry(key)->admission.monitor, infer_now_us());
	LWLockRelease(infer_admission_lock(key));
	return result;
}

bool
infer_admission_shut(InferKey key)
{
	bool shut;

	LWLockAcquire(infer_admission_lock(key), LW_SHARED);
	shut = infer_admission_is_shut(&infer_admission_entry(key)->admission, infer_now_us());
	LWLockRelease(infer_admission_lock(key));
	return shut;
}

bool
infer_admission_failed_for(InferKey key, int64 sustained_us)
{
	InferFailing failing = infer_admission_failing(key);

	return failing.for_us > 0 && failing.for_us >= sustained_us;
}

/* --- Statistics --- */

static int64
least_known(int64 a, int64 b)
{
	return a < 0 ? b : b < 0 ? a : Min(a, b);
}

/* What is left of the key's minute: by our own count, and as the server said last. */
static void
stat_rate(InferRateLimit *rate, InferAdmissionStat *stat, int64 now)
{
	int64 requests = -1;
	int64 tokens = -1;

	(void) infer_ratelimit_room(rate, now); /* forgets what is older than a minute */
	if (rate->rpm > 0)
		requests = Max(rate->rpm - rate->all_requests, 0);
	if (rate->tpm > 0)
		tokens = Max(rate->tpm - rate->all_tokens, 0);
	stat->requests_left = least_known(requests, rate->requests_left);
	stat->tokens_left = least_known(tokens, rate->tokens_left);
	stat->config.rpm = rate->rpm;
	stat->config.tpm = rate->tpm;
}

int
infer_admission_waiters(int i, InferWaiter *waiters, int size, char *key)
{
	InferAdmission *admission;
	InferAdmissionNode *line;
	int n = 0;

	if (i < 0 || i >= infer_admission_count_keys())
		return -1;
	admission = &infer_admission_entry(i)->admission;
	line = infer_admission_line(i);
	strlcpy(key, infer_admission_entry(i)->key, INFER_ADMISSION_KEY_MAX);
	LWLockAcquire(infer_admission_lock(i), LW_SHARED);
	for (int p = INFER_PRIORITY_COUNT - 1; p >= 0; p--)
		for (int k = admission->head[p]; k != NOBODY; k = line[k].next)
		{
			if (line[k].passed)
				continue;
			if (n < size)
			{
				waiters[n] = (InferWaiter){.wanted = line[k].want,
										   .priority = line[k].priority,
										   .duration = line[k].duration,
										   .since_us = line[k].since_us,
										   .deadline_us = line[k].deadline_us};
				infer_waiter_process(&waiters[n], k);
			}
			n++;
		}
	LWLockRelease(infer_admission_lock(i));
	return n;
}

bool
infer_admission_stat(int i, InferAdmissionStat *stat)
{
	InferAdmissionEntry *entry;
	InferAdmission *admission;
	const InferLimiter *limiter;
	int64 now = infer_now_us();
	int64 held_until;

	if (i < 0 || i >= infer_admission_count_keys())
		return false;

	entry = infer_admission_entry(i);
	admission = &entry->admission;
	limiter = &admission->limiter;
	LWLockAcquire(infer_admission_lock(i), LW_EXCLUSIVE);
	memcpy(stat->key, entry->key, sizeof(stat->key));
	memcpy(stat->waiting, admission->waiting, sizeof(stat->waiting));
	memcpy(stat->verdicts, entry->verdicts, sizeof(stat->verdicts));
	stat->retries = entry->retries;
	stat->retries_denied = entry->retries_denied;
	memcpy(stat->abandoned, entry->abandoned, sizeof(stat->abandoned));
	stat->config.limiter = limiter->config;
	stat->limit = limiter->config.adaptive ? limiter->window : limiter->config.ceiling;
	stat->in_flight = limiter->in_flight;
	stat->peak = limiter->peak;
	stat->low_water = limiter->low_water;
	stat->epoch = limiter->epoch;
	stat->decreases = limiter->decreases;
	stat->granted = limiter->granted;
	stat->paced = limiter->paced;
	stat->over_limit = limiter->over_limit;
	stat_rate(&admission->rate, stat, now);
	stat->failing = read_failing(&admission->monitor, now);
	held_until = Max(limiter->hold_until_us, admission->rate.hold_until_us);
	LWLockRelease(infer_admission_lock(i));
	stat->held_for_us = held_until > now ? held_until - now : 0;
	return true;
}

void
infer_admission_stat_reset(void)
{
	int nkeys = infer_admission_count_keys();

	for (InferKey key = 0; key < nkeys; key++)
	{
		InferAdmissionEntry *entry = infer_admission_entry(key);

		LWLockAcquire(infer_admission_lock(key), LW_EXCLUSIVE);
		infer_limiter_stat_reset(&entry->admission.limiter);
		memset(entry->verdicts, 0, sizeof(entry->verdicts));
		entry->retries = 0;
		entry->retries_denied = 0;
		memset(entry->abandoned, 0, sizeof(entry->abandoned));
		LWLockRelease(infer_admission_lock(key));
	}
}
