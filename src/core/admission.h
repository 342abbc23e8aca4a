/*
 * core/admission.h - one admission key: who may send now, who waits, who is to be woken.
 *
 * InferAdmission holds the key's limiter (core/limiter.h), its minute (core/ratelimit.h), what is
 * known of its server's failures (core/monitor.h), its dials (core/peer.h) and the line; an array
 * of InferAdmissionNode, one for each process, what that process holds and its place in the line.
 * Numbers instead of pointers, no allocation: both live in shared memory as they are.
 *
 * Who goes first.  Strictly by priority: nobody takes what a waiting process of higher priority
 * wants.  Within a priority, the process that holds least gets the next permit, so that a scan with
 * ten batches does not starve one with one row, and the shares of those who wait even out; among
 * equals, who has waited longest.  Newcomers count as the last of their priority.  A lone process
 * gets all.  Part of what was wanted is granted rather than nothing; who got a part goes to the
 * end.
 *
 * Invariants, true whenever the lock is free (and checked by the simulator):
 *   1. limiter.in_flight = sum of held, and <= the limit when granted.
 *   2. Every waiter to whom a free permit is due has been woken since it tried last (woken_us !=
 * 0). So no wake-up is lost, and nobody is woken for nothing.
 *   3. While only time keeps the permits back (pacing, a rate limit, spreading, a dial), one has an
 *      alarm (alarm), or has been woken to set one.
 *
 * The failing.  While the server cools, one request may leave in a period, whoever's turn it is.
 * Who waits gives up when the server has been failing for longer than it would wait.  After a
 * connection that could not be made one request leaves at a time, at growing intervals, until one
 * gets through: fifty processes dial a dead host as often as one would.  Each time that it shuts
 * so, all in line are woken, for they may have somewhere else to go.
 *
 * The absent.  Who was woken should try at once.  One that has not done so after 100 ms does not
 * count until it tries, so that its share is not idle.  The expired.  A permit lasts as long as its
 * request may; what a process holds for a second longer is taken for lost by those who wait, and
 * not counted again when it comes back.  Both are for processes that do not look: stopped, or with
 * a client that reads no rows.
 *
 * FOR THE CALLER (shmem/admission.c).  All functions under the key's partition lock; none raises,
 * allocates or sleeps.  now_us: monotonic, the same clock in all processes.
 *
 *   take      before a request leaves, after the scan's own window (core/window.h) has room.  If it
 *             grants less than wanted and ask.wait is set, the process is in the line afterwards;
 *             deciding and joining are one step, so there is nothing to look at again.  Without
 *             ask.wait it is in line for what it was before, less what is granted; requests of
 *             another priority or duration than it stands there for come last of theirs, and leave
 *             its place alone.  GIVES_UP: it is not in the line for this request, and should not
 *             ask again for it.
 *   pass      instead of take, where something else is lacking: keeps the place, keeps nobody back.
 *   give      exactly once for each permit, when the request has ended, before anything of the next
 *             request.  What it tells is applied first, then the place is free.
 *   leave     when the process no longer wants (cancel, enough rows, something else to do that may
 *             take long).  Idempotent.
 *   reclaim   at process exit, for the process or by anybody who finds it dead.
 *   wake      after each of those, before unlocking, again and again until it returns less than
 *             size: set the latches of those it names.
 *   alarm_us  before a process in line sleeps: when to look again by itself; INT64_MAX: when woken.
 *             (A sleeper should look once a second anyway.)
 *
 * Wait for own requests before the line: their end frees a place for sure, and results that are
 * ready go before any gate.
 */
#ifndef INFER_CORE_ADMISSION_H
#define INFER_CORE_ADMISSION_H

#include "core/limiter.h"
#include "core/monitor.h"
#include "core/ratelimit.h"

typedef enum InferPriority
{
	INFER_PRIORITY_VLOW,
	INFER_PRIORITY_LOW,
	INFER_PRIORITY_NORMAL,
	INFER_PRIORITY_HIGH,
	INFER_PRIORITY_VHIGH,
	INFER_PRIORITY_COUNT
} InferPriority;

#define INFER_NOBODY (-1)

/* Instead of a number of permits: the server has been failing for longer than patience_us. */
#define INFER_ADMISSION_GIVES_UP (-1)

/* Memory must be zero. */
typedef struct InferAdmissionNode
{
	int32_t held;
	int32_t expired; /* taken away, still to be given back */
	int64_t good_until_us;
	/* the line; want > 0 = in it */
	int32_t want;
	int32_t priority;
	int64_t tokens; /* of the next request */
	int64_t patience_us;
	int32_t prev;
	int32_t next;
	int64_t woken_us; /* 0 = has tried since */
	int32_t share;    /* scratch of one call */
	bool passed;      /* waits for something else, and is passed over here */
	bool elsewhere;   /* may be served by others as well */
	int32_t duration;
	/* as told, for those who look */
	int64_t since_us;
	int64_t deadline_us;
} InferAdmissionNode;

/*
 * Who configures: a server object, in the version that its definition has now.  The first one
 * counts for all who share the key; it alone may configure it again, each time that it has changed.
 * Not with a version that has been replaced: a process may not have heard of the change yet.
 */
typedef struct InferConfigurer
{
	uint32_t database;
	uint32_t server;  /* 0 = no server: nobody may change it */
	uint32_t version; /* 0 = not settled yet: serves for the first time only */
	bool insists;     /* counts, whoever was first */
} InferConfigurer;

typedef struct InferAdmission
{
	InferLimiter limiter;
	InferConfigurer by;
	uint32_t replaced; /* the version before; 0 = none */
	InferRateLimit rate;
	InferMonitor monitor;
	InferDial dial;
	int32_t nnodes;
	int32_t head[INFER_PRIORITY_COUNT];
	int32_t tail[INFER_PRIORITY_COUNT];
	int32_t waiting[INFER_PRIORITY_COUNT];
	int32_t alarm; /* who looks when time alone opens */
	int64_t alarm_us;
	int32_t token_first; /* refused for its tokens: others of its rank do not pass it */
	int64_t expired_look_us;
	bool stirs; /* it has shut: those that may go elsewhere are to be woken */
} InferAdmission;

typedef struct InferAsk
{
	int want;
	InferPriority priority;
	int64_t tokens;      /* guess, of each request */
	int64_t lasts_us;    /* the request's timeout */
	int64_t patience_us; /* with a server that has been failing for so long it does not wait */
	bool wait;
	bool elsewhere; /* others than this key's server may serve it */
	bool probe; /* all servers of the call have failed: cooling does not keep it back, dials do */
	InferDuration duration;
	int64_t deadline_us; /* for those who look at the line; 0 = none */
} InferAsk;

typedef struct InferAdmissionConfig
{
	InferLimiterConfig limiter;
	int64_t rpm; /* 0 = no limit */
	int64_t tpm;
	InferMonitorConfig monitor;
} InferAdmissionConfig;

/* The first one counts, and changes of who that was; of the monitor's, the last one. Returns
 * whether it was taken; *tell as in infer_limiter_configure(). Wake the line afterwards. */
extern bool infer_admission_configure(InferAdmission *a, int nnodes,
									  const InferAdmissionConfig *config, const InferConfigurer *by,
									  int64_t now_us, bool *tell);
/* Returns how many permits were granted, or GIVES_UP; *permit then serves for each of them, *stamp
 * for infer_ratelimit_correct(). */
extern int infer_admission_take(InferAdmission *a, InferAdmissionNode *nodes, int me,
								const InferAsk *ask, int64_t now_us, InferPermit *permit,
								int64_t *stamp);
extern void infer_admission_give(InferAdmission *a, InferAdmissionNode *nodes, int me,
								 const InferPermit *permit, int n, const InferOutcome *outcome,
								 int64_t now_us);
/* In line as take() would leave it, but passed over until it takes again: it waits for something
 * else that it needs as well (core/dispatch.h).  False: it gives up, as in take(). */
extern bool infer_admission_pass(InferAdmission *a, InferAdmissionNode *nodes, int me,
								 const InferAsk *ask, int64_t now_us);
/* Does nothing leave now, because the server fails, whatever the limit is? */
extern bool infer_admission_is_shut(const InferAdmission *a, int64_t now_us);
extern void infer_admission_leave(InferAdmission *a, InferAdmissionNode *nodes, int me);
extern void infer_admission_reclaim(InferAdmission *a, InferAdmissionNode *nodes, int me);
extern int infer_admission_wake(InferAdmission *a, InferAdmissionNode *nodes, int64_t now_us,
								int32_t *who, int size);
extern int64_t infer_admission_alarm_us(InferAdmission *a, InferAdmissionNode *nodes, int me,
										int64_t now_us);

#endif
