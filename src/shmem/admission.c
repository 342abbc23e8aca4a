/*
 * shmem/admission.c - permits per admission key, shared by all backends.
 *
 * What a permit is and who gets one is decided in core/admission.c; here it gets memory, locks and
 * latches, and is called in the right order.
 *
 * Memory.  A fixed table of keys (entries are appended, never removed; found through an open
 * addressing index), and for each entry one node per process, which says what that process holds of
 * that key and where it is in the line.  Everything is indexes, nothing is a pointer.
 *
 *   header | index buckets | entries[capacity] | nodes[capacity][nprocs]
 *
 * Every change under a partition lock ends with wake_line(), which sets the latches of those who
 * can go now; so no free permit waits for nobody, whichever way it came free.
 *
 * Full table: new keys are refused (fail closed), for an unlimited key would be the very storm that
 * permits are there to prevent.
 *
 * Exit: an on_shmem_exit callback gives back what is left.  Not before_shmem_exit, for those run
 * newest first, so ours would come before the transaction's abort, which cancels the transfers
 * and gives back their permits in order; what comes here is left of an abort that failed half-way,
 * in a callback of another extension say (t/057_exit.pl).  LWLocks and shared memory are usable
 * until ProcKill, which is older than any callback of ours.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "utils/memutils.h"

#include "core/retry_budget.h"
#include "pg/clock.h"
#include "pg/compat.h"
#include "pg/guc.h"
#include "pg/random.h"
#include "shmem/admission.h"

#define NOBODY     INFER_NOBODY
#define WAKE_BATCH 16

typedef struct AdmissionEntry
{
	char key[INFER_ADMISSION_KEY_MAX]; /* set when the key is made */
	InferAdmission admission;
	int64 verdicts[INFER_VERDICT_IGNORE + 1];
	InferRetryBudget budget;
	int64 retries;
	int64 retries_denied;
	int64 abandoned[INFER_EXECUTED + 1];
} AdmissionEntry;

typedef struct AdmissionTable
{
	int capacity;
	int nprocs;
	int nbuckets;                         /* a power of two, at least twice the capacity */
	int nkeys;                            /* table lock */
	int32 buckets[FLEXIBLE_ARRAY_MEMBER]; /* entry number or NOBODY; table lock */
} AdmissionTable;

/* Where they are in this process. */
static AdmissionTable *table = NULL;
static AdmissionEntry *entries = NULL;
static InferAdmissionNode *nodes = NULL;
static LWLockPadded *locks = NULL;

static bool exit_registered = false;
static bool *conflict_told = NULL; /* by key: this session has been told */

#define table_lock()        (&locks[0].lock)
#define partition_lock(key) (&locks[1 + (key) % INFER_ADMISSION_PARTITIONS].lock)

/* --- Sizes --- */

static int
count_processes(void)
{
	return MaxBackends + NUM_AUXILIARY_PROCS;
}

static int
count_buckets(int capacity)
{
	return (int) pg_nextpower2_32(2 * capacity);
}

static Size
table_size(int capacity)
{
	return MAXALIGN(add_size(offsetof(AdmissionTable, buckets),
							 mul_size(count_buckets(capacity), sizeof(int32))));
}

static Size
entries_size(int capacity)
{
	return MAXALIGN(mul_size(capacity, sizeof(AdmissionEntry)));
}

size_t
infer_admission_shmem_size(void)
{
	int capacity = infer_guc_max_admission_keys;
	Size nnodes = mul_size(capacity, count_processes());

	return add_size(add_size(table_size(capacity), entries_size(capacity)),
					mul_size(nnodes, sizeof(InferAdmissionNode)));
}

void
infer_admission_shmem_attach(void *memory, LWLockPadded *tranche, bool found)
{
	int capacity = infer_guc_max_admission_keys;

	locks = tranche;
	table = memory;
	entries = (AdmissionEntry *) ((char *) memory + table_size(capacity));
	nodes = (InferAdmissionNode *) ((char *) entries + entries_size(capacity));
	if (found)
		return;

	memset(memory, 0, infer_admission_shmem_size());
	table->capacity = capacity;
	table->nprocs = count_processes();
	table->nbuckets = count_buckets(capacity);
	for (int i = 0; i < table->nbuckets; i++)
		table->buckets[i] = NOBODY;
}

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

/* --- Keys --- */

/* The bucket that holds the key, or the empty one where it would go. Table lock held. */
static int
find_bucket(const char *key)
{
	uint32 mask = table->nbuckets - 1;
	uint32 i = hash_bytes((const unsigned char *) key, strlen(key)) & mask;

	while (table->buckets[i] != NOBODY && strcmp(entries[table->buckets[i]].key, key) != 0)
		i = (i + 1) & mask;
	return i;
}

static InferKey
lookup_key(const char *key)
{
	InferKey found;

	LWLockAcquire(table_lock(), LW_SHARED);
	found = table->buckets[find_bucket(key)];
	LWLockRelease(table_lock());
	return found;
}

/* Appends the key unless another process was faster; NOBODY when the table is full. */
static InferKey
insert_key(const char *key)
{
	int bucket;
	InferKey result;

	LWLockAcquire(table_lock(), LW_EXCLUSIVE);
	bucket = find_bucket(key);
	result = table->buckets[bucket];
	if (result == NOBODY && table->nkeys < table->capacity)
	{
		result = table->nkeys++;
		strlcpy(entries[result].key, key, sizeof(entries[result].key));
		table->buckets[bucket] = result;
	}
	LWLockRelease(table_lock());
	return result;
}

static InferAdmissionNode *
entry_nodes(InferKey key)
{
	return nodes + (size_t) key * table->nprocs;
}

/* Sets the latches of those who can go now. Partition lock held. */
static void
wake_line(InferAdmission *admission, InferAdmissionNode *line, int64 now)
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

/* The configuration may be late by a moment, when another process has just made the key; whoever
 * comes first configures it. */
InferKey
infer_admission_key(const char *key, const InferAdmissionConfig *config, const InferConfigurer *by,
					bool *conflict)
{
	InferAdmission *admission;
	InferKey result;
	int64 now = infer_now_us();

	*conflict = false;
	if (strlen(key) >= INFER_ADMISSION_KEY_MAX || config->limiter.ceiling < 1)
		elog(ERROR, "invalid admission key or limit");
	if (conflict_told == NULL)
		conflict_told =
			MemoryContextAllocZero(TopMemoryContext, sizeof(bool) * infer_guc_max_admission_keys);

	result = lookup_key(key);
	if (result == NOBODY)
		result = insert_key(key);
	if (result == NOBODY)
		return -1;

	admission = &entries[result].admission;
	LWLockAcquire(partition_lock(result), LW_EXCLUSIVE);
	/* the core tells of a conflict once; here that means once a session */
	admission->limiter.told = conflict_told[result];
	infer_admission_configure(admission, table->nprocs, config, by, now, conflict);
	wake_line(admission, entry_nodes(result), now);
	LWLockRelease(partition_lock(result));
	conflict_told[result] |= *conflict;
	return result;
}

InferConfigurer
infer_admission_configurer(const char *name)
{
	InferKey key = lookup_key(name);
	InferConfigurer by = {0};

	if (key == NOBODY)
		return by;
	LWLockAcquire(partition_lock(key), LW_SHARED);
	by = entries[key].admission.by;
	LWLockRelease(partition_lock(key));
	return by;
}

InferAdmissionConfig
infer_admission_config(InferKey key)
{
	const InferAdmission *admission = &entries[key].admission;
	InferAdmissionConfig config;

	LWLockAcquire(partition_lock(key), LW_SHARED);
	config.limiter = admission->limiter.config;
	config.rpm = admission->rate.rpm;
	config.tpm = admission->rate.tpm;
	config.monitor = admission->monitor.config;
	LWLockRelease(partition_lock(key));
	return config;
}

int
infer_admission_limit(InferKey key, int64_t least, InferWindowConfig *window)
{
	const InferAdmission *admission = &entries[key].admission;
	int limit;

	LWLockAcquire(partition_lock(key), LW_SHARED);
	limit = infer_limiter_limit(&admission->limiter);
	infer_limiter_begin_window(&admission->limiter, least, window);
	LWLockRelease(partition_lock(key));
	return limit;
}

/* --- Permits --- */

int
infer_admission_try_acquire(InferKey key, const InferAsk *ask, InferTicket *ticket)
{
	InferAdmission *admission = &entries[key].admission;
	InferAdmissionNode *line = entry_nodes(key);
	int64 now = infer_now_us();
	int granted;

	register_exit();
	LWLockAcquire(partition_lock(key), LW_EXCLUSIVE);
	granted = infer_admission_take(admission, line, infer_my_proc_number(), ask, now,
								   &ticket->permit, &ticket->stamp);
	ticket->limit = infer_limiter_limit(&admission->limiter);
	wake_line(admission, line, now);
	LWLockRelease(partition_lock(key));
	ticket->tokens = ask->tokens;
	return granted;
}

bool
infer_admission_stand_by(InferKey key, const InferAsk *ask)
{
	InferAdmission *admission = &entries[key].admission;
	InferAdmissionNode *line = entry_nodes(key);
	int64 now = infer_now_us();
	bool waits;

	register_exit();
	LWLockAcquire(partition_lock(key), LW_EXCLUSIVE);
	waits = infer_admission_pass(admission, line, infer_my_proc_number(), ask, now);
	wake_line(admission, line, now);
	LWLockRelease(partition_lock(key));
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
	AdmissionEntry *entry = &entries[key];
	InferAdmission *admission = &entry->admission;
	InferAdmissionNode *line = entry_nodes(key);
	InferOutcome told = *outcome;
	int me = infer_my_proc_number();
	int64 now = infer_now_us();
	int limit;

	told.draw = infer_random_draw(outcome->reason);
	LWLockAcquire(partition_lock(key), LW_EXCLUSIVE);
	feed_rate(&admission->rate, ticket, news, now);
	told.left = left_of_key(admission, &line[me], outcome->left);
	infer_admission_give(admission, line, me, &ticket->permit, 1, &told, now);
	entry->verdicts[outcome->verdict]++;
	if (ticket->first && infer_guc_retry_budget < INFER_RETRY_BUDGET_OFF)
		infer_retry_budget_earn(&entry->budget, infer_guc_retry_budget);
	limit = infer_limiter_limit(&admission->limiter);
	wake_line(admission, line, now);
	LWLockRelease(partition_lock(key));
	return limit;
}

/* Only the process itself writes it. */
bool
infer_admission_waits(InferKey key)
{
	return entry_nodes(key)[infer_my_proc_number()].want > 0;
}

/* Whoever leaves passes on the wake-up that it may have got. */
void
infer_admission_wait_end(InferKey key)
{
	InferAdmission *admission = &entries[key].admission;
	InferAdmissionNode *line = entry_nodes(key);
	int me = infer_my_proc_number();

	if (!infer_admission_waits(key))
		return;
	LWLockAcquire(partition_lock(key), LW_EXCLUSIVE);
	infer_admission_leave(admission, line, me);
	wake_line(admission, line, infer_now_us());
	LWLockRelease(partition_lock(key));
}

int64
infer_admission_alarm(InferKey key)
{
	InferAdmission *admission = &entries[key].admission;
	int64 alarm;

	LWLockAcquire(partition_lock(key), LW_EXCLUSIVE);
	alarm = infer_admission_alarm_us(admission, entry_nodes(key), infer_my_proc_number(),
									 infer_now_us());
	LWLockRelease(partition_lock(key));
	return alarm;
}

static int
count_keys(void)
{
	int n;

	LWLockAcquire(table_lock(), LW_SHARED);
	n = table->nkeys;
	LWLockRelease(table_lock());
	return n;
}

void
infer_admission_release_all(void)
{
	int nkeys = count_keys();
	int me = infer_my_proc_number();

	for (InferKey key = 0; key < nkeys; key++)
	{
		AdmissionEntry *entry = &entries[key];
		InferAdmissionNode *line = entry_nodes(key);
		InferAdmissionNode *mine = &line[me];

		LWLockAcquire(partition_lock(key), LW_EXCLUSIVE);
		entry->verdicts[INFER_VERDICT_IGNORE] += mine->held + mine->expired;
		infer_admission_reclaim(&entry->admission, line, me);
		wake_line(&entry->admission, line, infer_now_us());
		LWLockRelease(partition_lock(key));
	}
}

/* --- Retries --- */

bool
infer_admission_retry(InferKey key, bool exempt)
{
	AdmissionEntry *entry = &entries[key];
	bool allowed;

	LWLockAcquire(partition_lock(key), LW_EXCLUSIVE);
	allowed = exempt || infer_guc_retry_budget >= INFER_RETRY_BUDGET_OFF ||
			  infer_retry_budget_spend(&entry->budget);
	if (allowed)
		entry->retries++;
	else
		entry->retries_denied++;
	LWLockRelease(partition_lock(key));
	return allowed;
}

void
infer_admission_abandoned(InferKey key, InferExecution proof)
{
	LWLockAcquire(partition_lock(key), LW_EXCLUSIVE);
	entries[key].abandoned[proof]++;
	LWLockRelease(partition_lock(key));
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

	LWLockAcquire(partition_lock(key), LW_SHARED);
	result = read_failing(&entries[key].admission.monitor, infer_now_us());
	LWLockRelease(partition_lock(key));
	return result;
}

bool
infer_admission_shut(InferKey key)
{
	bool shut;

	LWLockAcquire(partition_lock(key), LW_SHARED);
	shut = infer_admission_is_shut(&entries[key].admission, infer_now_us());
	LWLockRelease(partition_lock(key));
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

	if (i < 0 || i >= count_keys())
		return -1;
	admission = &entries[i].admission;
	line = entry_nodes(i);
	strlcpy(key, entries[i].key, INFER_ADMISSION_KEY_MAX);
	LWLockAcquire(partition_lock(i), LW_SHARED);
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
	LWLockRelease(partition_lock(i));
	return n;
}

bool
infer_admission_stat(int i, InferAdmissionStat *stat)
{
	AdmissionEntry *entry;
	InferAdmission *admission;
	const InferLimiter *limiter;
	int64 now = infer_now_us();
	int64 held_until;

	if (i < 0 || i >= count_keys())
		return false;

	entry = &entries[i];
	admission = &entry->admission;
	limiter = &admission->limiter;
	LWLockAcquire(partition_lock(i), LW_EXCLUSIVE);
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
	LWLockRelease(partition_lock(i));
	stat->held_for_us = held_until > now ? held_until - now : 0;
	return true;
}

void
infer_admission_stat_reset(void)
{
	int nkeys = count_keys();

	for (InferKey key = 0; key < nkeys; key++)
	{
		AdmissionEntry *entry = &entries[key];

		LWLockAcquire(partition_lock(key), LW_EXCLUSIVE);
		infer_limiter_stat_reset(&entry->admission.limiter);
		memset(entry->verdicts, 0, sizeof(entry->verdicts));
		entry->retries = 0;
		entry->retries_denied = 0;
		memset(entry->abandoned, 0, sizeof(entry->abandoned));
		LWLockRelease(partition_lock(key));
	}
}
