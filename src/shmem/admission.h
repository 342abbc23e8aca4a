/*
 * shmem/admission.h - permits per admission key, shared by all backends.
 *
 * A permit is the right to have one request in flight under a key.  It is taken before anything
 * leaves and given back exactly once.  Fixed cap per key for now: the first configuration of a key
 * wins, a different later one is reported once.  The table has pg_inference.max_admission_keys
 * entries; when it is full, new keys are refused (fail closed: the call raises, names the setting).
 *
 * Locks: `table lock` (LWLock) for the keys: shared to look one up, exclusive to insert; one of the
 * partition locks, by entry number, for an entry's counters and its line of waiters.  Never two at
 * a time; nothing that can raise or allocate happens inside any.  What each process holds is in
 * shared memory under the partition lock too, so that its exit can give back what is left, and
 * others can take what has expired.
 *
 * Waiting: a process that got no permit is in the entry's line (infer_admission_wait_begin) and
 * sleeps in infer_wait(); a release sets the latch of the longest-waiting processes, as many as
 * there are free permits.  A wake-up is a hint, not a reservation; while somebody waits, newcomers
 * do not overtake (try_acquire grants them only what the line leaves free).
 *
 * Use: try_acquire; when that gives nothing, wait_begin and infer_wait, and around again (whoever
 * joins the line while a permit is free is woken at once, so no release is missed).  Leave the
 * line (wait_end) before doing anything that may take long, such as returning rows to the
 * client: who is in line is expected to come when called.
 */
#ifndef INFER_SHMEM_ADMISSION_H
#define INFER_SHMEM_ADMISSION_H

#include <stdint.h>

#include "core/types.h"

#define INFER_ADMISSION_KEY_MAX 128 /* bytes with the NUL; longer keys are hashed by the caller */

typedef int InferKey; /* index into the table; valid for the life of the postmaster's memory */

/* Finds or makes the entry. cap >= 1. Returns -1 when the table is full. *conflict is set once per
 * process and key when another cap had been configured before (then the first one stays). */
extern InferKey infer_admission_key(const char *key, int cap, bool *conflict);
extern int infer_admission_cap(InferKey key);
/* Takes up to want permits at once, returns how many. Leaves the line if all were granted; with
 * fewer, goes to its end.  lasts_ms: the request's timeout; who holds permits for longer than that,
 * because nobody reads its answers, loses them to those who wait. */
extern int infer_admission_try_acquire(InferKey key, int want, int lasts_ms);
/* Gives back n permits, with what the controllers should hear first. latency_us <= 0: none. More
 * than this process holds (it gave back everything before) is ignored. */
extern void infer_admission_release(InferKey key, int n, InferVerdict verdict, int64_t latency_us);
/* Joins / leaves the key's line (idempotent). */
extern void infer_admission_wait_begin(InferKey key);
extern void infer_admission_wait_end(InferKey key);
/* Gives back all this process holds and leaves all lines (at process exit; also callable). */
extern void infer_admission_release_all(void);

typedef struct InferAdmissionStat
{
	char key[INFER_ADMISSION_KEY_MAX];
	int cap;
	int in_flight;
	int waiting; /* processes */
	int peak;
	int64_t granted; /* permits ever */
	int64_t succeeded;
	int64_t overloaded;
	int64_t failed;
	int64_t ignored;
} InferAdmissionStat;

/* Copies entry i; false when i is beyond the last. */
extern bool infer_admission_stat(int i, InferAdmissionStat *stat);
extern void infer_admission_stat_reset(void); /* counters and peaks, not the keys */

/* For segment.c: memory, LWLocks, and where they are. found: another process filled them. */
#define INFER_ADMISSION_PARTITIONS 16
#define INFER_ADMISSION_LOCKS      (1 + INFER_ADMISSION_PARTITIONS)
union LWLockPadded;
extern size_t infer_admission_shmem_size(void);
extern void infer_admission_shmem_attach(void *memory, union LWLockPadded *locks, bool found);

#endif
