/*
 * shmem/admission_private.h - the memory of the admission keys; for shmem/admission*.c only.
 *
 * A fixed table of keys (entries are appended, never removed; found through an open addressing
 * index), and for each entry one node per process, which says what that process holds of that key
 * and where it is in the line.  Everything is indexes, nothing is a pointer.
 *
 *   header | index buckets | entries[capacity] | nodes[capacity][nprocs]
 *
 * Locks.  The table's, for its header and index: shared to find a key, exclusive to insert one.
 * One of the partition locks, chosen by the key's number, for its entry and its line.  Never two of
 * them at a time; under one nothing raises, allocates, sleeps or calls anything but core/.
 */
#ifndef INFER_SHMEM_ADMISSION_PRIVATE_H
#define INFER_SHMEM_ADMISSION_PRIVATE_H

#include "postgres.h"

#include "storage/lwlock.h"

#include "core/retry_budget.h"
#include "shmem/admission.h"

/* Partition lock, but for the key. */
typedef struct InferAdmissionEntry
{
	char key[INFER_ADMISSION_KEY_MAX]; /* set when the key is made, under the table's lock */
	InferAdmission admission;
	int64 verdicts[INFER_VERDICT_IGNORE + 1];
	InferRetryBudget budget;
	int64 retries;
	int64 retries_denied;
	int64 abandoned[INFER_EXECUTED + 1];
} InferAdmissionEntry;

/* Where it is in this process. */
typedef struct InferAdmissionMemory
{
	InferAdmissionEntry *entries;
	InferAdmissionNode *nodes;
	int nprocs;
	LWLockPadded *locks;
} InferAdmissionMemory;

extern InferAdmissionMemory infer_admission_memory;

static inline InferAdmissionEntry *
infer_admission_entry(InferKey key)
{
	return &infer_admission_memory.entries[key];
}

/* The nodes of all processes at that key. */
static inline InferAdmissionNode *
infer_admission_line(InferKey key)
{
	return infer_admission_memory.nodes + (size_t) key * infer_admission_memory.nprocs;
}

/* The key's partition lock. */
static inline LWLock *
infer_admission_lock(InferKey key)
{
	return &infer_admission_memory.locks[1 + key % INFER_ADMISSION_PARTITIONS].lock;
}

/* How many keys there are; takes the table's lock. */
extern int infer_admission_count_keys(void);
/* Sets the latches of those who can go now; after each change, with the partition lock held. */
extern void infer_admission_wake_line(InferAdmission *admission, InferAdmissionNode *line,
									  int64 now);

#endif
