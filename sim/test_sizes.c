/*
 * sim/test_sizes.c - src/core/sizes and the limits of src/core/batch: what refusals teach, and what
 * they must not.
 */
#include "core/sizes.h"
#include "tap.h"

#define HOUR_US ((int64_t) 3600 * 1000 * 1000)

static const InferBatchLimits wide = {.max_items = 128, .max_bytes = 1 << 20};

static bool
fits(const InferSizes *sizes, int items, size_t bytes)
{
	return infer_batch_fits(infer_sizes_limits(sizes, wide), items, bytes);
}

static void
refused(InferSizes *sizes, int items, int64_t bytes)
{
	infer_sizes_refused(sizes, (InferSize){items, bytes}, INFER_SIZE_ANY, true, 0);
}

static void
taken(InferSizes *sizes, int items, int64_t bytes)
{
	infer_sizes_taken(sizes, (InferSize){items, bytes}, -1);
}

static void
test_nothing_known(void)
{
	InferSizes sizes = {0};

	CHECK(fits(&sizes, 128, 1 << 20));
	CHECK(!fits(&sizes, 129, 10));
	CHECK(!fits(&sizes, 2, (1 << 20) + 1));
	CHECK(fits(&sizes, 1, (size_t) 1 << 40)); /* one input cannot be made smaller */
}

/* A server that takes 37: never as many again as were refused. */
static void
test_fault_F41_items(void)
{
	InferSizes sizes = {0};

	taken(&sizes, 32, 3200);
	refused(&sizes, 64, 6400);
	refused(&sizes, 128, 12800);
	CHECK(fits(&sizes, 32, 3200));
	CHECK(!fits(&sizes, 64, 6400));
	CHECK(!fits(&sizes, 33, 3300));
	/* it may have been the bytes */
	CHECK(!fits(&sizes, 64, 3200));
	CHECK(fits(&sizes, 64, 800));
	refused(&sizes, 64, 800);
	CHECK(!fits(&sizes, 33, 100));
	CHECK(fits(&sizes, 32, 1 << 20));
}

static void
test_bytes(void)
{
	InferSizes sizes = {0};

	taken(&sizes, 64, 1000);
	refused(&sizes, 20, 100000);
	CHECK(!fits(&sizes, 2, 100000));
	CHECK(!fits(&sizes, 20, 50001));
	CHECK(fits(&sizes, 20, 50000));
	CHECK(fits(&sizes, 128, 50000));
}

/* Of a pair that was too much, a later answer shows which one it was. */
static void
test_pair_is_settled(void)
{
	InferSizes sizes = {0};

	refused(&sizes, 100, 10000);
	taken(&sizes, 10, 10000);
	CHECK(!fits(&sizes, 100, 10) && fits(&sizes, 50, 1 << 20));
	sizes = (InferSizes){0};
	refused(&sizes, 100, 10000);
	taken(&sizes, 100, 10);
	CHECK(!fits(&sizes, 10, 10000) && fits(&sizes, 128, 5000));
}

static void
test_words_tell(void)
{
	InferSizes sizes = {0};

	infer_sizes_refused(&sizes, (InferSize){64, 10}, INFER_SIZE_ITEMS, true, 0);
	CHECK(!fits(&sizes, 64, 1) && fits(&sizes, 32, 1 << 20));
	sizes = (InferSizes){0};
	infer_sizes_refused(&sizes, (InferSize){64, 1000}, INFER_SIZE_BYTES, true, 0);
	CHECK(!fits(&sizes, 2, 1000) && fits(&sizes, 128, 500));
}

/* fault_F42: what is no larger than what was taken is refused for something else. */
static void
test_fault_F42_poison(void)
{
	InferSizes sizes = {0};
	InferSize size = {64, 640};

	taken(&sizes, 128, 1280);
	CHECK(!infer_sizes_refused(&sizes, size, INFER_SIZE_ANY, false, 0));
	CHECK(fits(&sizes, 128, 1280));
	/* but three proofs are proof: the server takes less now */
	refused(&sizes, 64, 640);
	refused(&sizes, 128, 1280);
	CHECK(fits(&sizes, 128, 1280));
	CHECK(infer_sizes_refused(&sizes, size, INFER_SIZE_ANY, true, 0));
	CHECK(!fits(&sizes, 64, 640) && fits(&sizes, 32, 320));
	CHECK(infer_sizes_refused(&sizes, (InferSize){48, 480}, INFER_SIZE_ANY, false, 0));
}

/* A server that refuses by chance what it takes otherwise teaches nothing. */
static void
test_bad_moments(void)
{
	InferSizes sizes = {0};

	for (int i = 0; i < 1000; i++)
	{
		taken(&sizes, 128, 1280 + i % 100);
		if (i % 10 < 2)
			refused(&sizes, 128, 1280 + i % 90);
	}
	CHECK(fits(&sizes, 128, 1380));
	/* what is much smaller is no sign that it was one */
	refused(&sizes, 128, 1280);
	taken(&sizes, 128, 1000);
	refused(&sizes, 128, 1280);
	taken(&sizes, 64, 1280);
	CHECK(fits(&sizes, 128, 1280));
	refused(&sizes, 128, 1280);
	CHECK(!fits(&sizes, 128, 1280) && fits(&sizes, 64, 640));
}

static void
test_forgotten(void)
{
	InferSizes sizes = {0};

	infer_sizes_refused(&sizes, (InferSize){64, 640}, INFER_SIZE_ITEMS, true, HOUR_US);
	infer_sizes_age(&sizes, 2 * HOUR_US);
	CHECK(!fits(&sizes, 64, 640));
	infer_sizes_age(&sizes, 2 * HOUR_US + 1);
	CHECK(fits(&sizes, 128, 640));
	/* what is taken is not too large */
	infer_sizes_refused(&sizes, (InferSize){64, 640}, INFER_SIZE_ITEMS, true, HOUR_US);
	taken(&sizes, 64, 640);
	CHECK(fits(&sizes, 128, 640));
}

/* fault_F40: a token is a byte until answers say otherwise. */
static void
test_fault_F40_tokens(void)
{
	InferBatchLimits limits = {.max_items = 128, .max_bytes = 1 << 20, .max_tokens = 1000};
	InferSizes sizes = {0};

	CHECK(infer_batch_fits(limits, 10, 980) && !infer_batch_fits(limits, 10, 981));
	CHECK(infer_batch_accepts(limits, 9, 900, 80) && !infer_batch_accepts(limits, 9, 900, 81));
	infer_sizes_taken(&sizes, (InferSize){10, 980}, 245);
	infer_sizes_taken(&sizes, (InferSize){10, 980}, 200);
	infer_sizes_taken(&sizes, (InferSize){10, 15}, 15); /* too short to tell */
	limits = infer_sizes_limits(&sizes, limits);
	CHECK(infer_batch_fits(limits, 10, 3000) && !infer_batch_fits(limits, 10, 3001));
}

int
main(void)
{
	TEST(nothing_known);
	TEST(fault_F41_items);
	TEST(bytes);
	TEST(pair_is_settled);
	TEST(words_tell);
	TEST(fault_F42_poison);
	TEST(bad_moments);
	TEST(forgotten);
	TEST(fault_F40_tokens);
	return tap_done();
}
