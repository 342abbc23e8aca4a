/*
 * core/histogram.h - how long answers took, in buckets.
 *
 * Each bucket is wider than the one before: four of them to a factor of two, from 64 us to 18
 * minutes, with one below and one above.  So a quantile is wrong by less than a fifth of itself.
 * Kept twice: all since the start, and of late.  Of late is this period of two minutes and the one
 * before, so between two minutes and four; without news, nothing.
 *
 * FOR THE CALLER.  Flat, lives in shared memory, under its lock.  Memory must be zero before the
 * first use.  Time is passed in, monotonic microseconds > 0.
 */
#ifndef INFER_CORE_HISTOGRAM_H
#define INFER_CORE_HISTOGRAM_H

#include <stdint.h>

#define INFER_HISTOGRAM_BUCKETS   98
#define INFER_HISTOGRAM_PERIOD_US INT64_C(120000000)

typedef struct InferHistogram
{
	uint64_t all[INFER_HISTOGRAM_BUCKETS];
	uint32_t recent[2][INFER_HISTOGRAM_BUCKETS]; /* by the period's number, modulo 2 */
	int64_t period;                              /* of the last answer */
} InferHistogram;

/* The bucket of a time, and where a bucket begins; one past the last begins nowhere: INT64_MAX. */
extern int infer_histogram_bucket(int64_t us);
extern int64_t infer_histogram_begin_us(int bucket);

/* One more, into all and into what is recent. */
extern void infer_histogram_note(InferHistogram *h, int64_t us, int64_t now_us);
/* What of late is, now. */
extern void infer_histogram_recent(const InferHistogram *h, int64_t now_us,
								   uint64_t counts[INFER_HISTOGRAM_BUCKETS]);
/* The time that a share p (0 to 1) of those counted did not exceed; -1: none are. */
extern int64_t infer_histogram_quantile_us(const uint64_t counts[INFER_HISTOGRAM_BUCKETS],
										   double p);

#endif
