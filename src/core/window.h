/*
 * core/window.h - the driver window: how many requests one scan may have in flight.
 *
 * The reference's congestion controller (async-rpc.md section 2, source generation S2, statements
 * A1 to A25): answers are taken in groups of eight; the group's fastest answer is compared with a
 * slowly following baseline, and the window becomes w * gradient + step_coef * sqrt(w).  Overload
 * halves it.  A double, of which floor(w) counts.  The window knows latency, the shared limiter
 * (core/limiter.h) knows overload; a request needs room in both.
 *
 * Three additions, each of which a caller may leave out (infer_window_reference() leaves out all,
 * and is what the numbered statements are tested with):
 *
 * slow_start     doubles with each window's worth of answers until latency rises or overload shows.
 * means          rule 1 of adaptive.md: a group is a window's worth of answers (at least eight, the
 *                first one twice that, for the first answers to come are the short ones) and its
 *                mean is compared, less twice its standard error, not its fastest; one step a round
 *                trip.  Answers of a model differ in length, so that eight of them say little.  The
 *                baseline begins as the plain mean of its groups.
 * latency_floor  rule 7: latency alone does not take the window below this; overload does.
 * idle growth    a window that is not used does not grow.  Used is a group in which at some answer
 *                at least half of the window was in flight (that answer's request counts).  The
 *                statements A hold for a window that is used.
 *
 * Overload is one event however many requests tell of it: a request carries the window's epoch from
 * when it was sent, and only the first of an epoch halves.  With one request at a time (as in A)
 * every one halves.
 *
 * FOR THE CALLER.  Lives in the scan (one per client and class), needs no lock.  In this order:
 *   on sending       epoch = window.epoch, kept with the request; allowed while in flight <
 *                    infer_window_limit(); ask the limiter after that.
 *   on an answer     exactly one of: infer_window_sample() for a success with a latency,
 *                    infer_window_overload() for an overload; nothing for any other verdict.
 *                    in_flight is what this scan has in flight, the answered request included.
 *   at a new scan    infer_limiter_begin_window() of the key's limiter.
 */
#ifndef INFER_CORE_WINDOW_H
#define INFER_CORE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#define INFER_WINDOW_GROUP 8

typedef struct InferWindowConfig
{
	int64_t start;
	int64_t min; /* clamped to 1 .. max */
	int64_t max; /* clamped to 1 .. 2^53 */
	double step_coef;
	int64_t latency_floor;
	bool slow_start;
	bool means;
	bool grows_idle;
} InferWindowConfig;

typedef struct InferWindow
{
	InferWindowConfig config; /* clamped */
	double size;
	uint32_t epoch; /* overloads that counted */
	bool slow_start;
	/* the group */
	int64_t group; /* answers that make it */
	int64_t count;
	int64_t fastest;
	double sum;
	double squares;
	bool used;
	/* 0 = no group yet */
	int64_t baseline;
	int64_t groups;
	/* statistics */
	int64_t shrinks; /* the limit fell */
	int64_t overload_shrinks;
	int64_t least; /* lowest limit */
} InferWindow;

/* What the reference does; per_row: starts at its maximum of 100, else 2 up to 256; max 0 = that.
 */
extern InferWindowConfig infer_window_reference(bool per_row, int64_t max);
extern void infer_window_init(InferWindow *w, const InferWindowConfig *config);
extern int64_t infer_window_limit(const InferWindow *w);
/* rtt <= 0 is ignored; its unit is the caller's. */
extern void infer_window_sample(InferWindow *w, int64_t rtt, int64_t in_flight);
/* epoch: the window's when the request was sent. Returns whether it counted. */
extern bool infer_window_overload(InferWindow *w, uint32_t epoch);

#endif
