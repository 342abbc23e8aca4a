/*
 * sim/test_histogram.c - src/core/histogram: buckets, quantiles, and what is of late.
 */
#include <stdbool.h>

#include "core/histogram.h"
#include "tap.h"

#define PERIOD INFER_HISTOGRAM_PERIOD_US
#define START  (1000 * PERIOD)

/* Every time is in the bucket that begins at or before it, and ends after it. */
static void
test_buckets(void)
{
	int wrong = 0;
	int64_t widest = 0;

	for (int64_t us = 0; us < (INT64_C(1) << 31); us += 1 + us / 1000)
	{
		int bucket = infer_histogram_bucket(us);

		wrong += us < infer_histogram_begin_us(bucket);
		wrong += us >= infer_histogram_begin_us(bucket + 1);
		wrong += bucket < 0 || bucket >= INFER_HISTOGRAM_BUCKETS;
	}
	CHECK(wrong == 0);
	CHECK(infer_histogram_bucket(-5) == 0);
	CHECK(infer_histogram_bucket(INT64_MAX) == INFER_HISTOGRAM_BUCKETS - 1);
	CHECK(infer_histogram_begin_us(0) == 0);
	CHECK(infer_histogram_begin_us(1) == 64);
	CHECK(infer_histogram_begin_us(INFER_HISTOGRAM_BUCKETS - 1) == INT64_C(1) << 30);
	/* no bucket is wider than a fourth of where it begins */
	for (int i = 1; i < INFER_HISTOGRAM_BUCKETS - 1; i++)
	{
		int64_t begin = infer_histogram_begin_us(i);
		int64_t width = infer_histogram_begin_us(i + 1) - begin;

		widest = width * 1000 / begin > widest ? width * 1000 / begin : widest;
	}
	CHECK(widest == 250);
}

static int64_t
recent_quantile(const InferHistogram *h, double p, int64_t now)
{
	uint64_t counts[INFER_HISTOGRAM_BUCKETS];

	infer_histogram_recent(h, now, counts);
	return infer_histogram_quantile_us(counts, p);
}

static bool
is_near(int64_t a, int64_t b)
{
	return a > b - b / 5 && a < b + b / 5;
}

static void
test_quantiles(void)
{
	InferHistogram h = {0};

	CHECK(infer_histogram_quantile_us(h.all, 0.5) == -1);
	/* 1 ms to 1 s */
	for (int i = 1; i <= 1000; i++)
		infer_histogram_note(&h, i * 1000, START);
	CHECK(is_near(infer_histogram_quantile_us(h.all, 0.5), 500 * 1000));
	CHECK(is_near(infer_histogram_quantile_us(h.all, 0.9), 900 * 1000));
	CHECK(is_near(infer_histogram_quantile_us(h.all, 0.99), 990 * 1000));
	CHECK(infer_histogram_quantile_us(h.all, 1) >= 1000 * 1000 * 4 / 5);
	CHECK(infer_histogram_quantile_us(h.all, 0) <= 1250);
	/* two in a hundred are slow: the 99th is one of them, the 95th is not */
	h = (InferHistogram){0};
	for (int i = 0; i < 100; i++)
		infer_histogram_note(&h, i < 2 ? 30 * 1000 * 1000 : 10 * 1000, START);
	CHECK(is_near(infer_histogram_quantile_us(h.all, 0.95), 10 * 1000));
	CHECK(is_near(infer_histogram_quantile_us(h.all, 0.99), 30 * 1000 * 1000));
	/* beyond the last bucket nothing is known but that */
	infer_histogram_note(&h, INT64_MAX, START);
	CHECK(infer_histogram_quantile_us(h.all, 1) == INT64_C(1) << 30);
}

static void
test_of_late(void)
{
	InferHistogram h = {0};

	for (int i = 0; i < 100; i++)
		infer_histogram_note(&h, 1000 * 1000, START);
	CHECK(is_near(recent_quantile(&h, 0.5, START), 1000 * 1000));
	CHECK(is_near(recent_quantile(&h, 0.5, START + PERIOD), 1000 * 1000));
	CHECK(recent_quantile(&h, 0.5, START + 2 * PERIOD) == -1);
	/* it became faster: of late says so, all does not */
	for (int i = 0; i < 100; i++)
		infer_histogram_note(&h, 1000, START + PERIOD);
	for (int i = 0; i < 10; i++)
		infer_histogram_note(&h, 1000, START + 2 * PERIOD);
	CHECK(is_near(recent_quantile(&h, 0.99, START + 2 * PERIOD), 1200));
	CHECK(is_near(infer_histogram_quantile_us(h.all, 0.99), 1000 * 1000));
	/* after a long silence nothing is left of the old ones */
	infer_histogram_note(&h, 100, START + 50 * PERIOD);
	CHECK(recent_quantile(&h, 1, START + 50 * PERIOD) < 130);
	/* a clock that another process read a little earlier does no harm */
	infer_histogram_note(&h, 100, START + 50 * PERIOD - 1);
	CHECK(recent_quantile(&h, 1, START + 50 * PERIOD) < 130);
}

int
main(void)
{
	TEST(buckets);
	TEST(quantiles);
	TEST(of_late);
	return tap_done();
}
