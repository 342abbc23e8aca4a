/*
 * shmem/admission.h - permits per admission key, shared by all backends.
 *
 * A permit is the right to have one request in flight under a key.  It is taken before anything
 * leaves and given back exactly once.  What a key allows, who waits and who goes first is decided
 * by core/admission.h; here are its memory, its locks and its latches.  The first configuration of
 * a key wins, and may be changed by whose it is; a different one is reported once.  The table has
 * pg_inference.max_admission_keys entries; when it is full, new keys are refused (fail closed: the
 * call raises, names the setting).
 *
 * Locks: `table lock` (LWLock) for the keys: shared to look one up, exclusive to insert; one of the
 * partition locks, by entry number, for an entry and its line of waiters.  Never two at a time;
 * nothing that can raise or allocate happens inside any.  What each process holds is in shared
 * memory under the partition lock too, so that its exit can give back what is left, and others can
 * take what has expired.
 *
 * Use: take; who gets nothing is in the key's line afterwards, and sleeps in infer_wait() until its
 * latch is set or its alarm is due, and takes again.  Leave the line when nothing is wanted any
 * more: who is in line is expected to come when called.
 *
 * Time is infer_now_us() of pg/clock.h.
 */
#ifndef INFER_SHMEM_ADMISSION_H
#define INFER_SHMEM_ADMISSION_H

#include <stdint.h>

#include "core/admission.h"
#include "shmem/waiter.h"

#define INFER_ADMISSION_KEY_MAX 128 /* bytes with the NUL; longer keys are hashed by the caller */

typedef int InferKey; /* index into the table; valid for the life of the postmaster's memory */

/* Finds or makes the entry. Returns -1 when the table is full. *conflict is set once per process
 * and key when it had been configured otherwise before and keeps that: see InferConfigurer. */
extern InferKey infer_admission_key(const char *key, const InferAdmissionConfig *config,
									const InferConfigurer *by, bool *conflict);
/* Is it there, or room for it? */
extern bool infer_admission_has_room(const char *key);
/* Who has configured it; all zero if nobody has yet. */
extern InferConfigurer infer_admission_configurer(const char *key);
extern InferAdmissionConfig infer_admission_config(InferKey key);
/* The key's limit now, and how a new scan's window begins; see infer_limiter_begin_window(). */
extern int infer_admission_limit(InferKey key, int64_t least, InferWindowConfig *window);

/* A request's permit, and what must be remembered for giving it back. */
typedef struct InferTicket
{
	InferPermit permit;
	int64_t stamp;  /* of the key's minute */
	int64_t tokens; /* charged there */
	int limit;      /* of the key, when it was taken */
	bool first;     /* the first attempt of its call was made with it: retries may follow */
} InferTicket;

/* What an answer says of the key's minute. */
typedef struct InferRateNews
{
	int64_t tokens; /* that the request used; -1 = not known */
	InferRateHeader requests;
	InferRateHeader remaining_tokens;
	int64_t retry_after_us; /* of a refusal that means the minute, not load; -1 = none */
} InferRateNews;

/* Takes up to ask->want permits at once, returns how many; the ticket serves for each of them. With
 * fewer than wanted the process is in the line, if ask->wait. INFER_ADMISSION_GIVES_UP: the key's
 * server has been failing for ask->patience_us or longer, and is left alone now. */
extern int infer_admission_try_acquire(InferKey key, const InferAsk *ask, InferTicket *ticket);
/* Instead of taking, where something else is lacking: the process is in the line with its place,
 * and is passed over until it takes.  False: GIVES_UP. */
extern bool infer_admission_stand_by(InferKey key, const InferAsk *ask);
/* Gives one back, with what the controllers should hear first. Ignored if the process holds none
 * (it gave back everything before). Returns the key's limit afterwards. */
extern int infer_admission_release(InferKey key, const InferTicket *ticket,
								   const InferOutcome *outcome, const InferRateNews *news);
/* Is this process in the key's line? Takes no lock. */
extern bool infer_admission_waits(InferKey key);
/* Leaves the key's line (idempotent). */
extern void infer_admission_wait_end(InferKey key);
/* For a process in line that is going to sleep: when to look by itself; INT64_MAX = when woken. */
extern int64_t infer_admission_alarm(InferKey key);
/* Gives back all this process holds and leaves all lines (at process exit; also callable). */
extern void infer_admission_release_all(void);

/* What is known of the failures of a key's server, since its last answer that was none. */
typedef struct InferFailing
{
	int failures;       /* in a row */
	InferReason reason; /* of the last one that there ever was; NONE = there was none */
	int64_t for_us;     /* since the first; 0 = it is not failing, as far as is known */
	bool cools;         /* it is left alone, or its probe is due */
	int64_t next_us;    /* until it is tried again; 0 = it is not left alone, or that is now */
} InferFailing;

/* May a request of the key be repeated, by the key's share of retries (core/retry_budget.h)?
 * Counts it either way; exempt: it costs nothing. */
extern bool infer_admission_retry(InferKey key, bool exempt);

/* Counts a request that was given up before its answer came. */
extern void infer_admission_abandoned(InferKey key, InferExecution proof);

/* Since when its server has failed, as of now. */
extern InferFailing infer_admission_failing(InferKey key);
/* Does nothing of the key leave now because its server fails, or cannot be connected to? */
extern bool infer_admission_shut(InferKey key);
/*
 * Has the key's server been failing for so long, without an answer in between?  For those who want
 * to wait for a server unless it has failed for a while.  Failures are watched with
 * failure_threshold = 0, too.  A server that nobody has asked for a minute, and that is not left
 * alone, counts as not failing.
 */
extern bool infer_admission_failed_for(InferKey key, int64_t sustained_us);

typedef struct InferAdmissionStat
{
	char key[INFER_ADMISSION_KEY_MAX];
	InferAdmissionConfig config;
	double limit;
	int in_flight;
	int waiting[INFER_PRIORITY_COUNT]; /* processes */
	int peak;
	double low_water;
	int64_t epoch;     /* overload epochs since the key was made */
	int64_t decreases; /* since the reset, as all below */
	int64_t granted;   /* permits */
	int64_t paced;
	int64_t over_limit; /* in a dry run */
	int64_t verdicts[INFER_VERDICT_IGNORE + 1];
	/* -1 = no limit is known */
	int64_t requests_left;
	int64_t tokens_left;
	int64_t held_for_us; /* all requests, for a Retry-After; 0 = not */
	InferFailing failing;
	int64_t retries; /* since the reset, as the next */
	int64_t retries_denied;
	int64_t abandoned[INFER_EXECUTED + 1]; /* by proof */
} InferAdmissionStat;

/* Copies up to size of those who wait under entry i, in order, without those that are passed over,
 * and the key into a buffer of INFER_ADMISSION_KEY_MAX.  Returns how many there are; -1 beyond the
 * last entry. */
extern int infer_admission_waiters(int i, InferWaiter *waiters, int size, char *key);
/* Copies entry i; false when i is beyond the last. */
extern bool infer_admission_stat(int i, InferAdmissionStat *stat);
/* Counters, peaks and low-water marks, not the keys and what they have learnt. */
extern void infer_admission_stat_reset(void);

/* For segment.c: memory, LWLocks, and where they are. found: another process filled them. */
#define INFER_ADMISSION_PARTITIONS 16
#define INFER_ADMISSION_LOCKS      (1 + INFER_ADMISSION_PARTITIONS)
union LWLockPadded;
extern size_t infer_admission_shmem_size(void);
extern void infer_admission_shmem_attach(void *memory, union LWLockPadded *locks, bool found);

#endif
