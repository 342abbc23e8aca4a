/*
 * core/limiter.h - how many requests of one admission key may be in flight, over all sessions.
 *
 * The reference's shared limiter, generation S3 (async-rpc.md section 3.4, statements B and D): a
 * fractional window w; overload multiplies it, once an epoch; success grows it as
 * sqrt(w^2 + 2 * units), one a round trip; below one it paces single requests, horizon / w apart
 * from start to start.  What a request tells is applied before its place is given to another.
 *
 * With rules = 0 that is all, and the numbered statements are tested so.  The rules are what
 * measurement added (adaptive.md, design 6.6); each is one bit, so that the simulator can show what
 * happens without it:
 *
 * SLOW_START  starts at `start` and doubles with each round trip (from 64 on: grows by a half)
 *             until latency rises or overload shows.
 * USED        a limit that is not used does not grow: in this or the last round of answers, at some
 *             time four fifths of it must have been in flight.
 * MEANS       rule 1, in core/service.h.
 * USEFUL      rules 2 and 8: no growth beyond 1.25 times what is of use (in slow start: 3 times up
 *             to 64, from there on 1.5 times); at the end of slow start, back to that.
 * SPREAD      rule 3: growth opens little by little over one latency, not at the moment when a wave
 *             of answers arrives.  So the first refusal is read before the others are sent.
 * LEVEL       rule 4: the cut is computed from what was in flight when the refused request was
 *             sent.  If nine tenths of that has just been proved to hold, the refusal answers our
 *             own probe, and the probe is taken back (15/16); else decrease_factor.  Below the
 *             level that failed last, the next probe waits eight times as long.
 * ENDING      rule 5: no growth when the caller's rest would be done before a refused request could
 *             come back; in two thirds of that time, if none has been refused yet.  A refusal is
 *             forgotten after ten such pauses.
 * OWN_PAUSE   rule 6: Retry-After holds back the request that got it, not the others; except at the
 *             floor, where there is nothing smaller to go on with.
 * FLOOR16     rule 7: the estimate of use does not bind below 16.
 *
 * Rule 9 is that this structure outlives the statement.
 *
 * FOR THE CALLER.  Part of InferAdmission (core/admission.h), which calls all of this; under the
 * key's lock.  Time is passed in, monotonic microseconds, common to all processes.
 */
#ifndef INFER_CORE_LIMITER_H
#define INFER_CORE_LIMITER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/monitor.h"
#include "core/peer.h"
#include "core/service.h"
#include "core/types.h"
#include "core/window.h"

#define INFER_RULE_SLOW_START (1u << 0)
#define INFER_RULE_USED       (1u << 1)
#define INFER_RULE_MEANS      (1u << 2)
#define INFER_RULE_USEFUL     (1u << 3)
#define INFER_RULE_SPREAD     (1u << 4)
#define INFER_RULE_LEVEL      (1u << 5)
#define INFER_RULE_ENDING     (1u << 6)
#define INFER_RULE_OWN_PAUSE  (1u << 7)
#define INFER_RULE_FLOOR16    (1u << 8)
#define INFER_RULES_ALL       ((1u << 9) - 1)

typedef struct InferLimiterConfig
{
	int ceiling;            /* >= 1 */
	int start;              /* 0 = min(200, ceiling) */
	double floor;           /* 0.001 .. ceiling; below 1 it paces */
	double decrease_factor; /* 0.01 .. 0.99 */
	bool adaptive;          /* else the limit is the ceiling */
	bool dry_run;           /* works out and shows the limit, and holds nobody to it */
	uint32_t rules;
} InferLimiterConfig;

/* What a request in flight remembers; kept by its owner, flat. */
typedef struct InferPermit
{
	uint32_t epoch;
	uint32_t answered; /* for the estimate of use */
	int32_t level;     /* in flight when it was sent, it included */
	int64_t sent_us;
	/* set by infer_admission_take() */
	InferMonitorMark mark;
	InferDialMark dial;
} InferPermit;

/* How a request ended. */
typedef struct InferOutcome
{
	InferVerdict verdict;
	InferReason reason;     /* what the monitor and the dials hear; NONE of a success */
	bool unsent;            /* the permit was not used */
	double draw;            /* [0, 1), for the jitter of a cooldown or a dial */
	int64_t rtt_us;         /* of a success; <= 0: not known, moves the limit only */
	int units;              /* of a success: admission units, usually 1 */
	int64_t retry_after_us; /* of an overload; < 0 = none given */
	int64_t left;           /* requests the caller still has to send; -1 = not known */
} InferOutcome;

typedef struct InferLimiter
{
	InferLimiterConfig config; /* clamped */
	bool sealed;               /* configured by somebody */
	bool told;                 /* that somebody else wants another configuration */
	double window;
	bool slow_start;
	uint32_t epoch;
	int in_flight;
	/* a round is a window's worth of answers */
	int round_count;
	int round_size;
	double round_most; /* slow start ends here in this round */
	/* most in flight in this round and in the last one */
	int used;
	int used_before;
	/* spreading: how far the window is open, and since when */
	double open;
	int64_t open_us;
	/* levels: proved to hold since the last cut, and refused last (0 = none) */
	int proven;
	int failed;
	int64_t cut_us; /* when */
	/* time gates */
	int64_t last_start_us; /* INT64_MIN = none yet */
	int64_t hold_until_us;
	int64_t retry_after_us; /* seen last */
	InferService service;
	/* statistics */
	int peak;
	double low_water;
	int64_t granted;
	int64_t released;
	int64_t successes;
	int64_t overloads;
	int64_t decreases;
	int64_t paced;      /* refusals because of time alone */
	int64_t over_limit; /* granted in a dry run, and would not have been else */
} InferLimiter;

/* The first configuration is taken (true). A later one is not; false, and *tell the first time that
 * it differs, after clamping. Memory must be zero before the first. */
extern bool infer_limiter_configure(InferLimiter *l, const InferLimiterConfig *config, bool *tell);
/*
 * Another configuration, of somebody who may change it.  What is learnt stays where it fits; a
 * limit that nothing but its ceiling or its slow start has kept down begins no lower than a new one
 * would. Nothing in flight is touched.  Wake the line afterwards.
 */
extern void infer_limiter_reconfigure(InferLimiter *l, const InferLimiterConfig *config);
/* Administration: nothing in flight is touched. Wake the line afterwards. */
extern void infer_limiter_set_ceiling(InferLimiter *l, int ceiling);
extern void infer_limiter_set_adaptive(InferLimiter *l, bool adaptive);

/* The limit: floor(window), 1 .. ceiling. */
extern int infer_limiter_limit(const InferLimiter *l);
/* How a new scan's window begins: where the limit is, but at `least`, and in slow start if the
 * limit is, or if nothing is known yet. Sets these two of *window. */
extern void infer_limiter_begin_window(const InferLimiter *l, int64_t least,
									   InferWindowConfig *window);
/* How many may be sent now, >= 0. In a dry run any number: take() counts what is over the limit. */
extern int infer_limiter_room(InferLimiter *l, int64_t now_us);
/* When there may be room without any release; INT64_MAX = only a release helps. */
extern int64_t infer_limiter_opens_us(InferLimiter *l, int64_t now_us);
/* n (<= room) leave. */
extern InferPermit infer_limiter_take(InferLimiter *l, int n, int64_t now_us);
/* A request has ended: what it tells, then its n places. */
extern void infer_limiter_complete(InferLimiter *l, const InferPermit *permit, int n,
								   const InferOutcome *outcome, int64_t now_us);
/* The parts of it, for those whose places are gone already. */
extern void infer_limiter_feedback(InferLimiter *l, const InferPermit *permit,
								   const InferOutcome *outcome, int64_t now_us);
extern void infer_limiter_release(InferLimiter *l, int n);
/* Counters start at zero, peak and low water at what is now; nothing that is learnt is lost. */
extern void infer_limiter_stat_reset(InferLimiter *l);

#endif
