/*
 * sim/test_batch.c - when a batch leaves, and how far a scan reads ahead: core/batch, core/ramp.
 *
 * rpc_*: the statements of the reference.
 */
#include "core/batch.h"
#include "core/ramp.h"
#include "tap.h"

#include <string.h>

/* rpc_F27: a size that is none, or more than the server takes, is clamped. */
static void
test_rpc_F27_batch_limits(void)
{
	const InferBatchLimits provider = {.max_items = 128, .max_bytes = 1000};

	CHECK(infer_batch_limits(INFER_MODE_AUTOMATIC, -1, provider).max_items == 128);
	CHECK(infer_batch_limits(INFER_MODE_BATCH, 0, provider).max_items == 128);
	CHECK(infer_batch_limits(INFER_MODE_BATCH, 16, provider).max_items == 16);
	CHECK(infer_batch_limits(INFER_MODE_BATCH, 500, provider).max_items == 128);
	CHECK(infer_batch_limits(INFER_MODE_PER_ROW, 16, provider).max_items == 1);
	CHECK(infer_batch_limits(INFER_MODE_BATCH, 16, provider).max_bytes == 1000);
	CHECK(infer_batch_limits(INFER_MODE_BATCH, -1, (InferBatchLimits){.max_items = 0}).max_items ==
		  1);
	CHECK(infer_batch_limits(INFER_MODE_BATCH, -1, (InferBatchLimits){.max_items = 0}).max_bytes ==
		  1);
}

static void
test_batch_accepts(void)
{
	const InferBatchLimits limits = {.max_items = 3, .max_bytes = 100};

	CHECK(infer_batch_accepts(limits, 0, 0, 5000)); /* the first always fits */
	CHECK(infer_batch_accepts(limits, 1, 60, 40));
	CHECK(!infer_batch_accepts(limits, 1, 60, 41));
	CHECK(!infer_batch_accepts(limits, 1, 5000, 1));
	CHECK(!infer_batch_accepts(limits, 3, 10, 1));
	CHECK(!infer_batch_accepts(limits, 1, 60, SIZE_MAX));
}

/* A batch that is made for several servers suits each of them. */
static void
test_batch_tightest(void)
{
	const InferBatchLimits limits[] = {
		{.max_items = 4, .max_bytes = 40},
		{.max_items = 8, .max_bytes = 20},
		{.max_items = 8, .max_bytes = 40, .max_tokens = 10},
		{.max_items = 8, .max_bytes = 40, .max_tokens = 10, .bytes_per_token = 4},
		{.max_items = 8, .max_bytes = 40, .max_tokens = 8, .bytes_per_token = 3},
		{.max_items = 8, .max_bytes = 40, .both_items = 6, .both_bytes = 16},
		{.max_items = 8, .max_bytes = 40, .both_items = 4, .both_bytes = 32},
	};
	const int n = sizeof(limits) / sizeof(limits[0]);
	char row[64];
	int fit = 0;

	for (int i = 0; i < n * n; i++)
	{
		const InferBatchLimits a = limits[i / n];
		const InferBatchLimits b = limits[i % n];
		const InferBatchLimits both = infer_batch_tightest(a, b);

		for (int items = 2; items <= 9; items++)
			for (size_t bytes = items; bytes <= 42; bytes++)
			{
				if (!infer_batch_fits(both, items, bytes))
					continue;
				fit++;
				snprintf(row, sizeof(row), "%d items, %zu bytes, limits %d and %d", items, bytes,
						 i / n, i % n);
				CHECK_ROW(infer_batch_fits(a, items, bytes) && infer_batch_fits(b, items, bytes),
						  row);
			}
	}
	CHECK(fit > 1000);
	CHECK(infer_batch_fits(infer_batch_tightest(limits[0], limits[1]), 4, 20));
	CHECK(infer_batch_fits(infer_batch_tightest(limits[3], limits[0]), 4, 40));
	CHECK(infer_batch_fits(infer_batch_tightest(limits[0], limits[3]), 4, 40));
}

/* rpc_F5: what size 0 and the end of the input mean for a batch. */
static void
test_rpc_F5_batch_leaves(void)
{
	const InferBatchLimits limits = {.max_items = 3, .max_bytes = 100};
	const struct
	{
		const char *name;
		InferStreamingMode mode;
		int size;
		int items;
		size_t bytes;
		bool ended;
		bool starved;
		bool leaves;
	} rows[] = {
		{"empty", INFER_MODE_AUTOMATIC, -1, 0, 0, true, true, false},
		{"per row", INFER_MODE_PER_ROW, -1, 1, 1, false, false, true},
		{"full", INFER_MODE_AUTOMATIC, -1, 3, 5, false, false, true},
		{"full of bytes", INFER_MODE_BATCH, -1, 1, 100, false, false, true},
		{"waits for rows", INFER_MODE_AUTOMATIC, -1, 2, 5, false, false, false},
		{"starved", INFER_MODE_AUTOMATIC, -1, 2, 5, false, true, true},
		{"end of input", INFER_MODE_AUTOMATIC, -1, 2, 5, true, false, true},
		{"batch mode waits though starved", INFER_MODE_BATCH, -1, 2, 5, false, true, false},
		{"batch mode at the end", INFER_MODE_BATCH, -1, 2, 5, true, false, true},
		{"size 0 waits for the end", INFER_MODE_AUTOMATIC, 0, 2, 5, false, true, false},
		{"size 0 at the end", INFER_MODE_AUTOMATIC, 0, 2, 5, true, true, true},
		{"size 0 when full", INFER_MODE_AUTOMATIC, 0, 3, 5, false, false, true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_ROW(infer_batch_leaves(rows[i].mode, rows[i].size, limits, rows[i].items,
									 rows[i].bytes, rows[i].ended,
									 rows[i].starved) == rows[i].leaves,
				  rows[i].name);
}

static void
test_ramp(void)
{
	InferRamp w;

	infer_ramp_init(&w, 16, 100);
	CHECK(w.rows == 16);
	infer_ramp_grow(&w);
	CHECK(w.rows == 32);
	infer_ramp_grow(&w);
	infer_ramp_grow(&w);
	CHECK(w.rows == 100);
	infer_ramp_grow(&w);
	CHECK(w.rows == 100);
	infer_ramp_init(&w, 500, 100);
	CHECK(w.rows == 100);
	infer_ramp_init(&w, 0, 0);
	CHECK(w.rows == 1);
	infer_ramp_grow(&w);
	CHECK(w.rows == 1);
	infer_ramp_init(&w, INT64_MAX / 2 + 1, INT64_MAX);
	infer_ramp_grow(&w);
	CHECK(w.rows == INT64_MAX);
}

int
main(void)
{
	TEST(rpc_F27_batch_limits);
	TEST(batch_accepts);
	TEST(batch_tightest);
	TEST(rpc_F5_batch_leaves);
	TEST(ramp);
	return tap_done();
}
