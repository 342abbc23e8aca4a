/*
 * core/queue_model.h - what is known of one server by those who choose among several.
 *
 * One model for each slot of the route table: how much is outstanding there, how long its answers
 * take, how dear it says it is (penalty), and whether it is to be left alone for a while
 * (exclusion).  failures.md 5.1, in moonpool's form; P46 to P49.
 *
 * Outstanding.  A request weighs what the penalty is when it leaves, and takes exactly that back:
 * a penalty that changes meanwhile leaves nothing behind.  When nothing is in flight it is 0.
 *
 * Latency.  Two figures for each task, both smoothed: of a whole request, and of one of its units,
 * where the units are known (embed and rerank: rows of the batch; text: generated tokens).  An
 * answer of 500 tokens is not slower than one of 5.  Two deviations from the reference, which takes
 * raw round trips and replaces the old one by the new one: answers of models differ too much for
 * that, so they are divided by their units, and a clean one moves the figure by a fourth.  The
 * first one sets it; so does the first after ten seconds without one, for what is known is of
 * another time, and a server that was slow then would get a request now and then, and each would
 * move it by a fourth.  What is not clean never lowers a figure: it counts where it is larger,
 * until the next clean one.
 *
 * Exclusion.  Behind and overloaded ones are left alone for 1, 2, 4, 8 seconds; the step rises once
 * in a period, however many refusals come in it; the jitter (a fourth) only shortens; a Retry-After
 * that is longer counts instead, up to an hour.  A clean answer resets the step.  It does not end
 * the exclusion: it may have been asked for before the refusal.
 *
 *              latency               exclusion
 *   clean      follows               the next one starts at 1 s again
 *   behind     only up               extended
 *   overloaded only up               extended
 *   failed     only up               -
 *   dropped    -                     -
 *
 * FOR THE CALLER.  Flat, lives in shared memory; under the slot's lock.  Nothing here allocates,
 * raises or sleeps.  Time is passed in (monotonic microseconds > 0), and the draw for the jitter.
 * Exactly one of release and drop for each reserve; release is idempotent by itself.
 */
#ifndef INFER_CORE_QUEUE_MODEL_H
#define INFER_CORE_QUEUE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/types.h"

/* Until something is known. */
#define INFER_QUEUE_LATENCY_US INT64_C(1000)
/* What was heard so long ago is of another time. */
#define INFER_QUEUE_OLD_US INT64_C(10000000)
/* From this penalty on a server counts as bad where bad ones are counted (spill). */
#define INFER_QUEUE_BAD_PENALTY 1.001

/* How a request ended, as far as choosing is concerned. */
typedef enum InferQueueEnd
{
	INFER_QUEUE_CLEAN,
	INFER_QUEUE_BEHIND, /* it answers, but is loading, or serves another revision */
	INFER_QUEUE_OVERLOADED,
	INFER_QUEUE_FAILED,
	INFER_QUEUE_DROPPED, /* given up by us, or never sent: says nothing */
	INFER_QUEUE_END_COUNT
} InferQueueEnd;

/* Of the requests of one task; 0 = none seen. */
typedef struct InferQueueLatency
{
	double whole_us; /* clean ones, smoothed */
	double unit_us;
	double worst_whole_us; /* others since the last clean one, the largest */
	double worst_unit_us;
	int64_t heard_us; /* the last sample of either kind */
	int64_t clean_us; /* the last clean one */
} InferQueueLatency;

typedef struct InferQueueModel
{
	double outstanding;
	int32_t in_flight;
	uint32_t epoch; /* counts incarnations */
	double penalty; /* 1 .. 1000 */
	InferQueueLatency latency[INFER_TASK_COUNT];
	/* exclusion */
	int64_t step_us;  /* 0 = the next one is the first */
	int64_t raise_us; /* a refusal from then on raises the step */
	int64_t excluded_until_us;
	/* statistics: reserved = the sum of ended + in_flight */
	int64_t reserved;
	int64_t ended[INFER_QUEUE_END_COUNT];
} InferQueueModel;

/* What a request in flight remembers; kept by its owner, flat. */
typedef struct InferReservation
{
	bool held;
	uint32_t epoch;
	double weight;
	int64_t sent_us;
} InferReservation;

/* What its end tells. */
typedef struct InferQueueReport
{
	InferQueueEnd end;
	InferTask task;
	int64_t units;          /* rows, or generated tokens; <= 0 = not known */
	int64_t elapsed_us;     /* <= 0 = not known, no sample */
	int64_t retry_after_us; /* <= 0 = none given */
	double penalty;         /* the server's own word; NAN or <= 0 = none */
	double draw;            /* [0, 1) */
} InferQueueReport;

/* Memory of any content becomes a fresh model. */
extern void infer_queue_init(InferQueueModel *m);
/* Another incarnation answers there: what was learnt is forgotten, what is in flight still counts
 * until it ends, but tells nothing any more. */
extern void infer_queue_renew(InferQueueModel *m);

/* A request leaves for it. */
extern InferReservation infer_queue_reserve(InferQueueModel *m, int64_t now_us);
/* False: it was not held (any more), and nothing was done. */
extern bool infer_queue_release(InferQueueModel *m, InferReservation *reservation,
								const InferQueueReport *report, int64_t now_us);
/* n reservations of a process that is gone, by the sum of their weights. */
extern void infer_queue_drop(InferQueueModel *m, int32_t n, double weight);

/* What the server says of itself, also out of turn; nonsense is ignored, the rest clamped. */
extern void infer_queue_penalty(InferQueueModel *m, double penalty);
/* A refusal that was no request of ours: a probe that hears "loading", a drain. */
extern void infer_queue_exclude(InferQueueModel *m, int64_t retry_after_us, int64_t now_us,
								double draw);
extern bool infer_queue_excluded(const InferQueueModel *m, int64_t now_us);

/* What a request of so many units is expected to take; units <= 0: not known, a usual one. */
extern int64_t infer_queue_latency_us(const InferQueueModel *m, InferTask task, int64_t units);

/* When that was heard; 0 = never: what a server took long ago is no reason to avoid it. */
extern int64_t infer_queue_heard_us(const InferQueueModel *m, InferTask task);

/* ... and it was no clean one. */
extern bool infer_queue_doubted(const InferQueueModel *m, InferTask task);

/* loading: the refusal (503) says that the model is not there yet. */
extern InferQueueEnd infer_queue_end(InferReason reason, InferVerdict verdict, bool loading);

#endif
