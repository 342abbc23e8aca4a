/*
 * shmem/admission.c - permits per admission key, shared by all backends.
 *
 * Memory.  A fixed table of keys (entries are appended, never removed; found through an open
 * addressing index), and for each entry one node per process.  A node says what that process holds
 * of that key, and is at the same time its place in the entry's line, a doubly linked list in order
 * of arrival.  Everything is indexes, nothing is a pointer.
 *
 *   header | index buckets | entries[capacity] | nodes[capacity][nprocs]
 *
 * Invariants, true whenever the partition lock is free:
 *   1. in_flight = sum of held over the entry's nodes, 0 <= in_flight <= cap.
 *   2. waiting = length of the line; a process is in it at most once.
 *   3. If permits are free, the first processes in the line, as many as permits are free, have
 *      been woken (woken_at is set) since they last tried: wake_line() after every change.
 *
 * The share of a process that asks (grantable()): what is free, less one permit for each *other*
 * process in line.  One of the first in line, as far as the free permits reach, gets at least one.
 * So nobody overtakes, a process that wants many does not starve one that wants one, and a lone
 * process gets all.  Who got part of what it wanted moves to the end of the line.
 *
 * The absent.  Who was woken is expected to try at once.  One that has not done so after ABSENT_MS
 * (stopped, swapped out, or busy with something else while in line) does not count any more until
 * it tries, so that its share does not lie idle; sleepers behind it look by themselves once a
 * second (pg/wait.c).
 *
 * The expired.  A permit is for one request, and no request lasts longer than its timeout.  A
 * process that holds permits for longer does not look: its client reads no more rows, its cursor is
 * idle in a transaction, or it sorts for hours.  Its requests have ended without it, so those who
 * wait take its permits for lost; when it comes to give them back, they are not counted again.
 *
 * Full table: new keys are refused (fail closed), for an unlimited key would be the very storm that
 * permits are there to prevent.
 *
 * Exit: an on_shmem_exit callback gives back what is left.  Not before_shmem_exit, for those run
 * newest first, so ours would come before the transaction's abort, which cancels the transfers
 * and gives back their permits in order.  LWLocks and shared memory are usable until ProcKill,
 * which is older than any callback of ours.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "utils/timestamp.h"

#include "pg/compat.h"
#include "pg/guc.h"
#include "shmem/admission.h"

#define ABSENT_MS  100
#define EXPIRED_MS 1000 /* after the timeout; also the time between two looks */
#define NOBODY     (-1)

typedef struct AdmissionNode
{
	int32 held;
	int32 expired;          /* taken away, still to be given back by the process */
	TimestampTz good_until; /* of what is held */
	/* the line */
	int32 prev; /* process numbers, NOBODY at the ends */
	int32 next;
	bool in_line;
	TimestampTz woken_at; /* 0 = has tried since it was woken last */
	/* written and read by its process only */
	bool conflict_told;
} AdmissionNode;

typedef struct AdmissionEntry
{
	/* set when the key is made */
	char key[INFER_ADMISSION_KEY_MAX];
	int cap;
	/* permits */
	int in_flight;
	TimestampTz expired_look; /* when somebody looked for expired ones last */
	/* the line */
	int waiting;
	int32 head;
	int32 tail;
	/* statistics */
	int peak;
	int64 granted;
	int64 verdicts[INFER_VERDICT_IGNORE + 1];
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
static AdmissionNode *nodes = NULL;
static LWLockPadded *locks = NULL;

static bool exit_registered = false;

#define table_lock()        (&locks[0].lock)
#define partition_lock(key) (&locks[1 + (key) % INFER_ADMISSION_PARTITIONS].lock)

/* Sizes ---------------------------------------------------------------------------------------- */

static int
count_processes(void)
{
	return MaxBackends + NUM_AUXILIARY_PROCS;
}

static int
count_buckets(int capacity)
{
	int n = 16;

	while (n < 2 * capacity)
		n *= 2;
	return n;
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
					mul_size(nnodes, sizeof(AdmissionNode)));
}

void
infer_admission_shmem_attach(void *memory, LWLockPadded *tranche, bool found)
{
	int capacity = infer_guc_max_admission_keys;

	locks = tranche;
	table = memory;
	entries = (AdmissionEntry *) ((char *) memory + table_size(capacity));
	nodes = (AdmissionNode *) ((char *) entries + entries_size(capacity));
	if (found)
		return;

	memset(memory, 0, infer_admission_shmem_size());
	table->capacity = capacity;
	table->nprocs = count_processes();
	table->nbuckets = count_buckets(capacity);
	for (int i = 0; i < table->nbuckets; i++)
		table->buckets[i] = NOBODY;
}

/* Exit ------------------------------------------------------------------------------------------
 */

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

/* Keys ----------------------------------------------------------------------------------------- */

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
insert_key(const char *key, int cap)
{
	int bucket;
	InferKey result;

	LWLockAcquire(table_lock(), LW_EXCLUSIVE);
	bucket = find_bucket(key);
	result = table->buckets[bucket];
	if (result == NOBODY && table->nkeys < table->capacity)
	{
		AdmissionEntry *entry;

		result = table->nkeys++;
		entry = &entries[result];
		strlcpy(entry->key, key, sizeof(entry->key));
		entry->cap = cap;
		entry->head = entry->tail = NOBODY;
		table->buckets[bucket] = result;
	}
	LWLockRelease(table_lock());
	return result;
}

static AdmissionNode *
entry_nodes(InferKey key)
{
	return nodes + (size_t) key * table->nprocs;
}

InferKey
infer_admission_key(const char *key, int cap, bool *conflict)
{
	InferKey result;
	AdmissionNode *mine;

	*conflict = false;
	if (strlen(key) >= INFER_ADMISSION_KEY_MAX || cap < 1)
		elog(ERROR, "invalid admission key or limit");

	result = lookup_key(key);
	if (result == NOBODY)
		result = insert_key(key, cap);
	if (result == NOBODY)
		return -1;

	mine = &entry_nodes(result)[infer_my_proc_number()];
	if (entries[result].cap != cap && !mine->conflict_told)
	{
		register_exit();
		mine->conflict_told = true;
		*conflict = true;
	}
	return result;
}

int
infer_admission_cap(InferKey key)
{
	return entries[key].cap;
}

/* The line; partition lock held ---------------------------------------------------------------- */

static void
line_append(AdmissionEntry *entry, AdmissionNode *line, int proc)
{
	AdmissionNode *node = &line[proc];

	node->in_line = true;
	node->woken_at = 0;
	node->next = NOBODY;
	node->prev = entry->tail;
	if (entry->tail != NOBODY)
		line[entry->tail].next = proc;
	else
		entry->head = proc;
	entry->tail = proc;
	entry->waiting++;
}

static void
line_remove(AdmissionEntry *entry, AdmissionNode *line, int proc)
{
	AdmissionNode *node = &line[proc];

	if (node->prev != NOBODY)
		line[node->prev].next = node->next;
	else
		entry->head = node->next;
	if (node->next != NOBODY)
		line[node->next].prev = node->prev;
	else
		entry->tail = node->prev;
	node->in_line = false;
	node->woken_at = 0;
	entry->waiting--;
}

static bool
is_absent(const AdmissionNode *node, TimestampTz now)
{
	return node->woken_at != 0 && TimestampDifferenceExceeds(node->woken_at, now, ABSENT_MS);
}

/* Invariant 3: wakes the first in line, as many as permits are free. */
static void
wake_line(AdmissionEntry *entry, AdmissionNode *line, TimestampTz now)
{
	int left = entry->cap - entry->in_flight;

	for (int proc = entry->head; proc != NOBODY && left > 0; proc = line[proc].next)
	{
		if (is_absent(&line[proc], now))
			continue;
		if (line[proc].woken_at == 0)
		{
			line[proc].woken_at = now;
			SetLatch(&GetPGProcByNumber(proc)->procLatch);
		}
		left--;
	}
}

/* How many permits may `proc` take now? See the top of the file. */
static int
grantable(const AdmissionEntry *entry, const AdmissionNode *line, int proc, TimestampTz now)
{
	int left = entry->cap - entry->in_flight;
	int others = 0;
	bool reached = false;

	for (int i = entry->head; i != NOBODY && others < left; i = line[i].next)
	{
		if (i == proc)
			reached = true;
		else if (!is_absent(&line[i], now))
			others++;
	}
	return reached ? Max(left - others, 1) : left - others;
}

/* Takes back what processes hold that do not look; for a process that waits in vain. */
static void
take_expired(AdmissionEntry *entry, AdmissionNode *line, int me, TimestampTz now)
{
	if (!TimestampDifferenceExceeds(entry->expired_look, now, EXPIRED_MS))
		return;
	entry->expired_look = now;
	for (int proc = 0; proc < table->nprocs; proc++)
	{
		AdmissionNode *node = &line[proc];

		if (node->held == 0 || proc == me ||
			!TimestampDifferenceExceeds(node->good_until, now, EXPIRED_MS))
			continue;
		entry->in_flight -= node->held;
		node->expired += node->held;
		node->held = 0;
	}
}

/* The clock is needed only where somebody waits. */
static TimestampTz
line_clock(const AdmissionEntry *entry)
{
	return entry->waiting > 0 ? GetCurrentTimestamp() : 0;
}

/* Permits -------------------------------------------------------------------------------------- */

int
infer_admission_try_acquire(InferKey key, int want, int lasts_ms)
{
	AdmissionEntry *entry = &entries[key];
	AdmissionNode *line = entry_nodes(key);
	int me = infer_my_proc_number();
	int granted;
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz good_until = TimestampTzPlusMilliseconds(now, (int64) lasts_ms);

	if (want <= 0)
		return 0;
	register_exit();

	LWLockAcquire(partition_lock(key), LW_EXCLUSIVE);
	line[me].woken_at = 0;
	if (line[me].in_line && entry->in_flight >= entry->cap)
		take_expired(entry, line, me, now);
	granted = Min(want, grantable(entry, line, me, now));
	if (granted > 0)
	{
		bool was_in_line = line[me].in_line;

		if (line[me].held == 0 || line[me].good_until < good_until)
			line[me].good_until = good_until;
		line[me].held += granted;
		entry->in_flight += granted;
		entry->granted += granted;
		entry->peak = Max(entry->peak, entry->in_flight);
		if (was_in_line)
			line_remove(entry, line, me);
		if (was_in_line && granted < want)
			line_append(entry, line, me);
	}
	wake_line(entry, line, now);
	LWLockRelease(partition_lock(key));
	return granted;
}

/* Takes n permits, or as many as it has, from a process. Partition lock held. */
static void
give_back(AdmissionEntry *entry, AdmissionNode *node, int n, InferVerdict verdict)
{
	int gone = Min(n, node->expired);
	int held = Min(n - gone, node->held);

	node->expired -= gone;
	node->held -= held;
	entry->in_flight -= held;
	entry->verdicts[verdict] += gone + held;
}

void
infer_admission_release(InferKey key, int n, InferVerdict verdict, int64_t latency_us)
{
	AdmissionEntry *entry = &entries[key];
	AdmissionNode *line = entry_nodes(key);
	AdmissionNode *mine = &line[infer_my_proc_number()];

	LWLockAcquire(partition_lock(key), LW_EXCLUSIVE);
	give_back(entry, mine, n, verdict);
	wake_line(entry, line, line_clock(entry));
	LWLockRelease(partition_lock(key));
}

/* Wakes itself if a permit came free since the caller looked. */
void
infer_admission_wait_begin(InferKey key)
{
	AdmissionEntry *entry = &entries[key];
	AdmissionNode *line = entry_nodes(key);
	int me = infer_my_proc_number();

	register_exit();
	LWLockAcquire(partition_lock(key), LW_EXCLUSIVE);
	if (!line[me].in_line)
	{
		line_append(entry, line, me);
		wake_line(entry, line, line_clock(entry));
	}
	LWLockRelease(partition_lock(key));
}

/* Whoever leaves passes on the wake-up that it may have got. */
void
infer_admission_wait_end(InferKey key)
{
	AdmissionEntry *entry = &entries[key];
	AdmissionNode *line = entry_nodes(key);
	int me = infer_my_proc_number();

	/* only we write it, so that this look needs no lock */
	if (!line[me].in_line)
		return;
	LWLockAcquire(partition_lock(key), LW_EXCLUSIVE);
	line_remove(entry, line, me);
	wake_line(entry, line, line_clock(entry));
	LWLockRelease(partition_lock(key));
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
		AdmissionNode *line = entry_nodes(key);

		/* the next process with our number is to be told anew */
		line[me].conflict_told = false;
		LWLockAcquire(partition_lock(key), LW_EXCLUSIVE);
		give_back(entry, &line[me], line[me].held + line[me].expired, INFER_VERDICT_IGNORE);
		if (line[me].in_line)
			line_remove(entry, line, me);
		wake_line(entry, line, line_clock(entry));
		LWLockRelease(partition_lock(key));
	}
}

/* Statistics ----------------------------------------------------------------------------------- */

bool
infer_admission_stat(int i, InferAdmissionStat *stat)
{
	const AdmissionEntry *entry;

	if (i < 0 || i >= count_keys())
		return false;

	entry = &entries[i];
	LWLockAcquire(partition_lock(i), LW_SHARED);
	memcpy(stat->key, entry->key, sizeof(stat->key));
	stat->cap = entry->cap;
	stat->in_flight = entry->in_flight;
	stat->waiting = entry->waiting;
	stat->peak = entry->peak;
	stat->granted = entry->granted;
	stat->succeeded = entry->verdicts[INFER_VERDICT_SUCCESS];
	stat->overloaded = entry->verdicts[INFER_VERDICT_OVERLOADED];
	stat->failed = entry->verdicts[INFER_VERDICT_ERROR];
	stat->ignored = entry->verdicts[INFER_VERDICT_IGNORE];
	LWLockRelease(partition_lock(i));
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
		entry->peak = entry->in_flight;
		entry->granted = 0;
		memset(entry->verdicts, 0, sizeof(entry->verdicts));
		LWLockRelease(partition_lock(key));
	}
}
