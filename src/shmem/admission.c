/*
 * shmem/admission.c - permits per admission key, shared by all backends.
 *
 * What a permit is and who gets one is decided in core/admission.c; here it gets locks and latches,
 * and is called in the right order.  Memory and locks: shmem/admission_private.h.
 *
 * Every change under a partition lock ends with infer_admission_wake_line(), which sets the latches
 * of those who can go now; so no free permit waits for nobody, whichever way it came free.
 *
 * Exit: an on_shmem_exit callback gives back what is left.  Not before_shmem_exit, for those run
 * newest first, so ours would come before the transaction's abort, which cancels the transfers
 * and gives back their permits in order; what comes here is left of an abort that failed half-way,
 * in a callback of another extension say (t/057_exit.pl).  LWLocks and shared memory are usable
 * until ProcKill, which is older than any callback of ours.
 */
#include "postgres.h"

#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"

#include "pg/clock.h"
#include "pg/compat.h"
#include "pg/guc.h"
#include "pg/random.h"
#include "shmem/admission_private.h"

#define WAKE_BATCH 16

static bool exit_registered = false;

/* --- Exit --- */

static void
release_at_exit(int code, Datum arg)
{
	infer_admission_release_all();
}

/* Before the first thing that must be given back is taken. */
static void
register_exit(void)
{
	if (exit_registered)
		return;
	on_shmem_exit(release_at_exit, 0);
	exit_registered = true;
}

/* --- Permits --- */

void
infer_admission_wake_line(InferAdmission *admission, InferAdmissionNode *line, int64 now)
{
	int32 who[WAKE_BATCH];
	int n;

	do
	{
		n = infer_admission_wake(admission, line, now, who, WAKE_BATCH);
		for (int i = 0; i < n; i++)
			SetLatch(&GetPGProcByNumber(who[i])->procLatch);
	} while (n == WAKE_BATCH);
}

int
infer_admission_try_acquire(InferKey key, const InferAsk *ask, InferTicket *ticket)
{
	InferAdmission *admission = &infer_admission_entry(key)->admission;
	InferAdmissionNode *line = infer_admission_line(key);
	int64 now = infer_now_us();
	int granted;

	register_exit();
	LWLockAcquire(infer_admission_lock(key), LW_EXCLUSIVE);
	granted = infer_admission_take(admission, line, infer_my_proc_number(), ask, now,
								   &ticket->permit, &ticket->stamp);
	ticket->limit = infer_limiter_limit(&admission->limiter);
	infer_admission_wake_line(admission, line, now);
	LWLockRelease(infer_admission_lock(key));
	ticket->tokens = ask->tokens;
	return granted;
}

bool
infer_admission_stand_by(InferKey key, const InferAsk *ask)
{
	InferAdmission *admission = &infer_admission_entry(key)->admission;
	InferAdmissionNode *line = infer_admission_line(key);
	int64 now = infer_now_us();
	bool waits;

	register_exit();
	LWLockAcquire(infer_admission_lock(key), LW_EXCLUSIVE);
	waits = infer_admission_pass(admission, line, infer_my_proc_number(), ask, now);
	infer_admission_wake_line(admission, line, now);
	LWLockRelease(infer_admission_lock(key));
	return waits;
}

/*
 * The key's minute hears of an answer.  A refusal with a pause closes it only where there is such a
 * minute; elsewhere a refusal means load, and the pause is that request's own.
 */
static void
feed_rate(InferRateLimit *rate, const InferTicket *ticket, const InferRateNews *news, int64 now)
{
	bool has_minute = rate->rpm > 0 || rate->tpm > 0 || news->requests.left >= 0 ||
					  news->remaining_tokens.left >= 0;

	if (news->tokens >= 0)
		infer_ratelimit_correct(rate, ticket->stamp, ticket->tokens, news->tokens, now);
	infer_ratelimit_headers(rate, news->requests, news->remaining_tokens, now);
	if (has_minute && news->retry_after_us > 0)
		infer_ratelimit_hold(rate, now + news->retry_after_us);
}

/* What the process still has to send, in terms of the whole key: those of others come between. */
static int64
left_of_key(const InferAdmission *admission, const InferAdmissionNode *mine, int64 left)
{
	return left > 0 && mine->held > 0 ? left * admission->limiter.in_flight / mine->held : left;
}

int
infer_admission_release(InferKey key, const InferTicket *ticket, const InferOutcome *outcome,
						const InferRateNews *news)
{
	InferAdmissionEntry *entry = infer_admission_entry(key);
	InferAdmission *admission = &entry->admission;
	InferAdmissionNode *line = infer_admission_line(key);
	InferOutcome told = *outcome;
	int me = infer_my_proc_number();
	int64 now = infer_now_us();
	int limit;

	told.draw = infer_random_draw(outcome->reason);
	LWLockAcquire(infer_admission_lock(key), LW_EXCLUSIVE);
	feed_rate(&admission->rate, ticket, news, now);
	told.left = left_of_key(admission, &line[me], outcome->left);
	infer_admission_give(admission, line, me, &ticket->permit, 1, &told, now);
	entry->verdicts[outcome->verdict]++;
	if (ticket->first && infer_guc_retry_budget < INFER_RETRY_BUDGET_OFF)
		infer_retry_budget_earn(&entry->budget, infer_guc_retry_budget);
	limit = infer_limiter_limit(&admission->limiter);
	infer_admission_wake_line(admission, line, now);
	LWLockRelease(infer_admission_lock(key));
	return limit;
}

/* Only the process itself writes it. */
bool
infer_admission_waits(InferKey key)
{
	return infer_admission_line(key)[infer_my_proc_number()].want > 0;
}

/* Whoever leaves passes on the wake-up that it may have got. */
void
infer_admission_wait_end(InferKey key)
{
	InferAdmission *admission = &infer_admission_entry(key)->admission;
	InferAdmissionNode *line = infer_admission_line(key);
	int me = infer_my_proc_number();

	if (!infer_admission_waits(key))
		return;
	LWLockAcquire(infer_admission_lock(key), LW_EXCLUSIVE);
	infer_admission_leave(admission, line, me);
	infer_admission_wake_line(admission, line, infer_now_us());
	LWLockRelease(infer_admission_lock(key));
}

int64
infer_admission_alarm(InferKey key)
{
	InferAdmission *admission = &infer_admission_entry(key)->admission;
	int64 alarm;

	LWLockAcquire(infer_admission_lock(key), LW_EXCLUSIVE);
	alarm = infer_admission_alarm_us(admission, infer_admission_line(key), infer_my_proc_number(),
									 infer_now_us());
	LWLockRelease(infer_admission_lock(key));
	return alarm;
}

void
infer_admission_release_all(void)
{
	int nkeys = infer_admission_count_keys();
	int me = infer_my_proc_number();

	for (InferKey key = 0; key < nkeys; key++)
	{
		InferAdmissionEntry *entry = infer_admission_entry(key);
		InferAdmissionNode *line = infer_admission_line(key);
		InferAdmissionNode *mine = &line[me];

		LWLockAcquire(infer_admission_lock(key), LW_EXCLUSIVE);
		entry->verdicts[INFER_VERDICT_IGNORE] += mine->held + mine->expired;
		infer_admission_reclaim(&entry->admission, line, me);
		infer_admission_wake_line(&entry->admission, line, infer_now_us());
		LWLockRelease(infer_admission_lock(key));
	}
}
