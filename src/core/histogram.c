/*
 * core/histogram.c - how long answers took, in buckets.
 */
#include <string.h>

#include "core/histogram.h"

#define LEAST_BITS 6 /* 64 us */
#define MOST_BITS  30
#define STEPS      4 /* to a factor of two */
#define LAST       (INFER_HISTOGRAM_BUCKETS - 1)

int
infer_histogram_bucket(int64_t us)
{
	int bits = LEAST_BITS;

	if (us < (INT64_C(1) << LEAST_BITS))
		return 0;
	if (us >= (INT64_C(1) << MOST_BITS))
		return LAST;
	while ((us >> bits) > 1)
		bits++;
	/* the two bits behind the first one */
	return 1 + (bits - LEAST_BITS) * STEPS + (int) ((us >> (bits - 2)) & (STEPS - 1));
}

int64_t
infer_histogram_begin_us(int bucket)
{
	int step = (bucket - 1) % STEPS;
	int bits = LEAST_BITS + (bucket - 1) / STEPS;

	if (bucket <= 0)
		return 0;
	if (bucket > LAST)
		return INT64_MAX;
	return (INT64_C(1) << bits) + step * (INT64_C(1) << (bits - 2));
}

/* Forgets periods that are over. */
static void
turn(InferHistogram *h, int64_t period)
{
	if (period <= h->period)
		return;
	if (period > h->period + 1)
		memset(h->recent, 0, sizeof(h->recent));
	else
		memset(h->recent[period % 2], 0, sizeof(h->recent[0]));
	h->period = period;
}

void
infer_histogram_note(InferHistogram *h, int64_t us, int64_t now_us)
{
	int bucket = infer_histogram_bucket(us);

	turn(h, now_us / INFER_HISTOGRAM_PERIOD_US);
	h->all[bucket]++;
	h->recent[h->period % 2][bucket]++;
}

void
infer_histogram_recent(const InferHistogram *h, int64_t now_us,
					   uint64_t counts[INFER_HISTOGRAM_BUCKETS])
{
	int64_t period = now_us / INFER_HISTOGRAM_PERIOD_US;

	memset(counts, 0, sizeof(uint64_t) * INFER_HISTOGRAM_BUCKETS);
	for (int64_t p = h->period - 1; p <= h->period; p++)
	{
		if (p < 0 || p < period - 1)
			continue;
		for (int i = 0; i < INFER_HISTOGRAM_BUCKETS; i++)
			counts[i] += h->recent[p % 2][i];
	}
}

int64_t
infer_histogram_quantile_us(const uint64_t counts[INFER_HISTOGRAM_BUCKETS], double p)
{
	uint64_t sum = 0;
	double wanted;
	double before = 0;

	for (int i = 0; i < INFER_HISTOGRAM_BUCKETS; i++)
		sum += counts[i];
	if (sum == 0)
		return -1;
	wanted = p * (double) sum;
	for (int i = 0; i < LAST; i++)
	{
		double begin = (double) infer_histogram_begin_us(i);
		double end = (double) infer_histogram_begin_us(i + 1);

		/* as if those of one bucket were spread evenly over it */
		if (counts[i] > 0 && before + (double) counts[i] >= wanted)
			return (int64_t) (begin + (end - begin) * (wanted - before) / (double) counts[i]);
		before += (double) counts[i];
	}
	return infer_histogram_begin_us(LAST);
}
