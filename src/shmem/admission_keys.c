/*
 * shmem/admission_keys.c - the table of admission keys: its memory, finding and making one, and how
 * it is configured.
 *
 * Full table: new keys are refused (fail closed), for an unlimited key would be the very storm that
 * permits are there to prevent.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/proc.h"
#include "utils/memutils.h"

#include "pg/clock.h"
#include "pg/guc.h"
#include "shmem/admission_private.h"

#define NOBODY INFER_NOBODY

typedef struct AdmissionTable
{
	int capacity;
	int nbuckets;                         /* a power of two, at least twice the capacity */
	int nkeys;                            /* table lock */
	int32 buckets[FLEXIBLE_ARRAY_MEMBER]; /* entry number or NOBODY; table lock */
} AdmissionTable;

InferAdmissionMemory infer_admission_memory;

static AdmissionTable *table = NULL;
static bool *conflict_told = NULL; /* by key: this session has been told */

#define table_lock() (&infer_admission_memory.locks[0].lock)

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
	return MAXALIGN(mul_size(capacity, sizeof(InferAdmissionEntry)));
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
	InferAdmissionEntry *entries;

	table = memory;
	entries = (InferAdmissionEntry *) ((char *) memory + table_size(capacity));
	infer_admission_memory = (InferAdmissionMemory){
		.entries = entries,
		.nodes = (InferAdmissionNode *) ((char *) entries + entries_size(capacity)),
		.nprocs = count_processes(),
		.locks = tranche,
	};
	if (found)
		return;

	memset(memory, 0, infer_admission_shmem_size());
	table->capacity = capacity;
	table->nbuckets = count_buckets(capacity);
	for (int i = 0; i < table->nbuckets; i++)
		table->buckets[i] = NOBODY;
}

/* --- Keys --- */

/* The bucket that holds the key, or the empty one where it would go. Table lock held. */
static int
find_bucket(const char *key)
{
	uint32 mask = table->nbuckets - 1;
	uint32 i = hash_bytes((const unsigned char *) key, strlen(key)) & mask;

	while (table->buckets[i] != NOBODY &&
		   strcmp(infer_admission_entry(table->buckets[i])->key, key) != 0)
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

bool
infer_admission_has_room(const char *key)
{
	bool has_room;

	LWLockAcquire(table_lock(), LW_SHARED);
	has_room = table->nkeys < table->capacity || table->buckets[find_bucket(key)] != NOBODY;
	LWLockRelease(table_lock());
	return has_room;
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
		strlcpy(infer_admission_entry(result)->key, key, INFER_ADMISSION_KEY_MAX);
		table->buckets[bucket] = result;
	}
	LWLockRelease(table_lock());
	return result;
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

	admission = &infer_admission_entry(result)->admission;
	LWLockAcquire(infer_admission_lock(result), LW_EXCLUSIVE);
	/* the core tells of a conflict once; here that means once a session */
	admission->limiter.told = conflict_told[result];
	infer_admission_configure(admission, infer_admission_memory.nprocs, config, by, now, conflict);
	infer_admission_wake_line(admission, infer_admission_line(result), now);
	LWLockRelease(infer_admission_lock(result));
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
	LWLockAcquire(infer_admission_lock(key), LW_SHARED);
	by = infer_admission_entry(key)->admission.by;
	LWLockRelease(infer_admission_lock(key));
	return by;
}

InferAdmissionConfig
infer_admission_config(InferKey key)
{
	const InferAdmission *admission = &infer_admission_entry(key)->admission;
	InferAdmissionConfig config;

	LWLockAcquire(infer_admission_lock(key), LW_SHARED);
	config.limiter = admission->limiter.config;
	config.rpm = admission->rate.rpm;
	config.tpm = admission->rate.tpm;
	config.monitor = admission->monitor.config;
	LWLockRelease(infer_admission_lock(key));
	return config;
}

int
infer_admission_limit(InferKey key, int64_t least, InferWindowConfig *window)
{
	const InferAdmission *admission = &infer_admission_entry(key)->admission;
	int limit;

	LWLockAcquire(infer_admission_lock(key), LW_SHARED);
	limit = infer_limiter_limit(&admission->limiter);
	infer_limiter_begin_window(&admission->limiter, least, window);
	LWLockRelease(infer_admission_lock(key));
	return limit;
}

int
infer_admission_count_keys(void)
{
	int n;

	LWLockAcquire(table_lock(), LW_SHARED);
	n = table->nkeys;
	LWLockRelease(table_lock());
	return n;
}
