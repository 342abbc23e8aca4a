/*
 * core/monitor.h - does the server of an admission key fail, and when may it be tried again?
 *
 * The limiter hears of overload; this hears of a server that is broken or gone: no connection, no
 * answer, an answer cut short, 500, 502, 504.  After `threshold` such failures in a row the key
 * cools: nothing is sent for cooldown_us, then for twice that, up to eight times; at the end of
 * each such period one request may leave, the probe.  A burst of failures inside one period moves
 * its end, and raises the step once.  Jitter shortens, never lengthens.  (The reference excludes an
 * endpoint so: failures.md section 5.1, P49.)
 *
 * An answer that shows the server alive ends the run of failures and the cooldown: a result, but
 * also a refusal (4xx, 429, 503).  Failures of requests that were sent before it change nothing any
 * more.  A timeout is the limiter's, and neither; but a probe that runs into one has failed.
 *
 * Who waits need not wait for ever: a caller gives up when the server has been failing for longer
 * than it would wait, and that is fresh: no probe is on its way or due.
 *
 * FOR THE CALLER.  Part of InferAdmission (core/admission.h), which calls all of this; under the
 * key's lock.  Time is passed in, monotonic microseconds > 0; the draw for the jitter too.
 */
#ifndef INFER_CORE_MONITOR_H
#define INFER_CORE_MONITOR_H

#include <stdbool.h>
#include <stdint.h>

#include "core/types.h"

typedef struct InferMonitorConfig
{
	int threshold;       /* failures in a row; 0 = it is watched, but never cools */
	int64_t cooldown_us; /* the first; > 0 */
} InferMonitorConfig;

/* What the end of a request says of its server. */
typedef enum InferHealth
{
	INFER_HEALTH_UNKNOWN,
	INFER_HEALTH_ALIVE,
	INFER_HEALTH_FAILING
} InferHealth;

/* What a request in flight remembers; kept by its owner, flat. */
typedef struct InferMonitorMark
{
	uint32_t epoch;
	bool probe;
} InferMonitorMark;

typedef struct InferMonitor
{
	InferMonitorConfig config;
	uint32_t epoch;     /* counts answers that showed it alive */
	int32_t failures;   /* since the last of them */
	InferReason reason; /* of the last failure; kept when it is well again */
	int64_t since_us;   /* the first failure */
	int64_t heard_us;   /* the last one */
	/* cooling: step_us > 0 */
	int64_t step_us;
	int64_t raise_us; /* a failure from then on raises the step */
	int64_t until_us; /* the next probe */
	int64_t probe_us; /* when the last one was sent; 0 = none yet */
} InferMonitor;

/* Memory must be zero before the first; later ones replace it, and 0 ends a cooldown. */
extern void infer_monitor_configure(InferMonitor *m, const InferMonitorConfig *config);

/* Is the server left alone, be it that its probe is due? */
extern bool infer_monitor_cools(const InferMonitor *m);
/* How many requests may leave now: INT32_MAX when it does not cool, else 1 (the probe) or 0. */
extern int infer_monitor_room(const InferMonitor *m, int64_t now_us);
/* When there is room. */
extern int64_t infer_monitor_opens_us(const InferMonitor *m, int64_t now_us);
/* Requests leave, as many as there was room for. */
extern InferMonitorMark infer_monitor_take(InferMonitor *m, int64_t now_us);

/* What a request that ended so says of the server. */
extern InferHealth infer_monitor_health(InferReason reason, InferVerdict verdict);
/* A request has ended; draw in [0, 1). */
extern void infer_monitor_hear(InferMonitor *m, const InferMonitorMark *mark, InferReason reason,
							   InferVerdict verdict, int64_t now_us, double draw);
/* ... or never left: if it was the probe, another one may be. */
extern void infer_monitor_unsent(InferMonitor *m, const InferMonitorMark *mark, int64_t now_us);

/* Is it of no use to wait, for one who would wait so long? And when will that be, if nothing is
 * heard: INT64_MAX = not by time alone. */
extern bool infer_monitor_gives_up(const InferMonitor *m, int64_t patience_us, int64_t now_us);
extern int64_t infer_monitor_gives_up_us(const InferMonitor *m, int64_t patience_us,
										 int64_t now_us);

/* For how long it has been failing, without an answer in between: since the first failure; 0 = it
 * is not, as far as is known. What was heard a minute ago or more, outside a cooldown, is not. */
extern int64_t infer_monitor_failing_us(const InferMonitor *m, int64_t now_us);

#endif
