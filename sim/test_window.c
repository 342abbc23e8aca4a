/*
 * sim/test_window.c - the driver window: statements rpc_A1 to rpc_A25 and the golden vectors of the
 * reference, and our additions (window_*).
 *
 * The statements are tested with the reference's configuration.  They speak of windows that are
 * used, so in_flight is the limit there; what an idle window does is window_idle.
 */
#include "core/window.h"
#include "tap.h"

#include <math.h>

static InferWindow w;

static void
start(int64_t first, int64_t max, int64_t min, double coef)
{
	InferWindowConfig config = infer_window_reference(false, max);

	config.start = first;
	config.max = max;
	config.min = min;
	config.step_coef = coef;
	infer_window_init(&w, &config);
}

static void
group(int n, int64_t rtt)
{
	for (int i = 0; i < 8 * n; i++)
		infer_window_sample(&w, rtt, infer_window_limit(&w));
}

static int64_t
after_overload(void)
{
	infer_window_overload(&w, w.epoch);
	return infer_window_limit(&w);
}

static int64_t
after_group(int64_t rtt)
{
	group(1, rtt);
	return infer_window_limit(&w);
}

#define LIMIT() infer_window_limit(&w)

static void
test_rpc_A1(void)
{
	start(4, 64, 1, 1);
	CHECK(LIMIT() == 4);
}

static void
test_rpc_A2(void)
{
	start(8, 64, 1, 1);
	CHECK(after_overload() == 4);
	CHECK(after_overload() == 2);
	CHECK(after_overload() == 1);
	CHECK(after_overload() == 1);
}

static void
test_rpc_A3(void)
{
	start(16, 64, 4, 1);
	CHECK(after_overload() == 8);
	CHECK(after_overload() == 4);
	CHECK(after_overload() == 4);
}

static void
test_rpc_A4(void)
{
	start(2, 2, 1, 1);
	CHECK(LIMIT() == 2);
	CHECK(after_overload() == 1);
}

static void
test_rpc_A5(void)
{
	start(4, 64, 1, 1);
	CHECK(after_group(1000) == 4);
	CHECK(after_group(1000) == 6);
}

static void
test_rpc_A6(void)
{
	start(4, 64, 1, 2);
	group(1, 1000);
	CHECK(after_group(1000) == 8);
}

static void
test_rpc_A7(void)
{
	start(2, 64, 0, 1);
	after_overload();
	CHECK(after_overload() == 1);
}

static void
test_rpc_A8(void)
{
	start(8, 64, 100, 1);
	CHECK(LIMIT() == 64);
	CHECK(after_overload() == 64);
	group(1, 1000);
	CHECK(after_group(1000) == 64);
}

static void
test_rpc_A9(void)
{
	start(4, 64, 1, -2);
	group(1, 1000);
	CHECK(after_group(1000) == 4);
}

static void
test_rpc_A10(void)
{
	InferWindowConfig config = {.start = 2, .max = 0, .min = 1, .step_coef = 1};

	infer_window_init(&w, &config);
	CHECK(LIMIT() == 1);
}

static void
test_rpc_A11(void)
{
	start(500, 256, 1, 1);
	CHECK(LIMIT() == 256);
	start(1, 64, 4, 1);
	CHECK(LIMIT() == 4);
}

static void
test_rpc_A12(void)
{
	start(16, 64, 1, 1);
	group(1, 1000000);
	CHECK(after_group(4000000) == 12);
}

static void
test_rpc_A13(void)
{
	start(60, 64, 1, 1);
	group(1, 1000);
	CHECK(after_group(1000) == 64);
}

static void
test_rpc_A14(void)
{
	start(16, 64, 1, 1);
	CHECK(after_overload() == 8);
}

static void
test_rpc_A15(void)
{
	start(16, 64, 1, 1);
	group(1, 1000);
	for (int i = 0; i < 7; i++)
		infer_window_sample(&w, 9000, 16);
	CHECK(LIMIT() == 16);
	CHECK(w.baseline == 1000);
}

static void
test_rpc_A16(void)
{
	start(16, 64, 1, 1);
	group(1, 1000);
	CHECK(after_group(100000) < 16);
	CHECK(LIMIT() >= 1);
	group(3, 100000);
	CHECK(LIMIT() < 16 && LIMIT() >= 1);
}

static void
test_rpc_A17(void)
{
	start(4, 64, 1, 1);
	for (int i = 0; i < 20; i++)
	{
		infer_window_sample(&w, 0, 4);
		infer_window_sample(&w, -5, 4);
	}
	CHECK(LIMIT() == 4);
	CHECK(w.count == 0);
}

static void
test_rpc_A18(void)
{
	start(16, 64, 1, 1);
	group(1, 1000); /* the baseline: it is the fastest that counts */
	for (int g = 0; g < 10; g++)
		for (int i = 0; i < 8; i++)
			infer_window_sample(&w, i == g % 8 ? 1000 : 50000 + 1000 * i, LIMIT());
	CHECK(LIMIT() > 16);
	CHECK(w.shrinks == 0);
}

static void
test_rpc_A19(void)
{
	start(16, 64, 1, 1);
	group(1, 1000000);
	infer_window_sample(&w, 1, 16);
	CHECK(after_overload() == 8);
	CHECK(after_group(10000000) == 6);
}

static void
test_rpc_A20(void)
{
	start(16, 64, 1, 1);
	group(1, 1000);
	group(60, 2000);
	CHECK(LIMIT() > 4);
	CHECK(LIMIT() > 16);
}

static void
test_rpc_A21(void)
{
	start(1, 1024, 1, 1);
	group(1, 1000000);
	CHECK((group(5, 1250000), LIMIT()) == 7);
	CHECK((group(195, 1250000), LIMIT()) == 1024);
}

static void
test_rpc_A22(void)
{
	start(1, 64, 1, 1);
	for (int g = 0; g < 60; g++)
	{
		int64_t at = LIMIT() < 6 ? LIMIT() : 6;

		group(1, 12000 / at);
	}
	CHECK(LIMIT() >= 6);
}

static void
test_rpc_A23(void)
{
	start(16, 64, 1, 0);
	w.size = 16.9;
	group(1, 1000000);
	group(1, 1040000);
	CHECK(w.size < 16.9 && LIMIT() == 16);
	CHECK(w.shrinks == 0);
	start(1, 64, 1, 1);
	after_overload();
	CHECK(w.shrinks == 0 && w.overload_shrinks == 0);
	start(8, 64, 1, 1);
	after_overload();
	CHECK(w.shrinks == 1 && w.overload_shrinks == 1);
}

static void
test_rpc_A24(void)
{
	start(INT64_MAX - 1, INT64_MAX - 1, 1, 1);
	CHECK(LIMIT() == (int64_t) 1 << 53);
	group(5, 1000);
	CHECK(LIMIT() == (int64_t) 1 << 53);
}

static void
test_rpc_A25(void)
{
	InferWindowConfig config = infer_window_reference(true, 0);

	infer_window_init(&w, &config);
	CHECK(LIMIT() == 100);
	group(20, 1000);
	CHECK(LIMIT() == 100);
	config = infer_window_reference(false, 0);
	infer_window_init(&w, &config);
	CHECK(LIMIT() == 2);
	group(60, 1000);
	CHECK(LIMIT() == 256);
	config = infer_window_reference(true, 7);
	infer_window_init(&w, &config);
	CHECK(LIMIT() == 7);
}

/* --- golden vectors --- */

static void
check_groups(const int *limits, int n, int64_t rtt)
{
	for (int i = 0; i < n; i++)
		CHECK_ROW(after_group(rtt) == limits[i], "golden vector");
}

#define CHECK_GROUPS(limits, rtt) check_groups(limits, sizeof(limits) / sizeof(limits[0]), rtt)

/* What the ledger's gate (in flight < limit) makes of it: shut by an overload, open again when the
 * window has recovered.
 */
static void
test_rpc_E10(void)
{
	const int64_t in_flight = 4;

	start(8, 64, 1, 1);
	CHECK(in_flight < LIMIT());
	CHECK(after_overload() == 4 && in_flight >= LIMIT());
	group(1, 1000000);
	CHECK(in_flight >= LIMIT());
	group(1, 1000000);
	CHECK(in_flight < LIMIT());
}

static void
test_rpc_A_golden_shrinking(void)
{
	const int limits[] = {12, 9, 7, 6, 5, 5};
	const double sizes[] = {12, 9.4641, 7.8084, 6.6986, 5.9905, 5.7851};
	const int64_t baselines[] = {1300000, 1570000, 1813000, 2031700, 2228530, 2405677};

	start(16, 64, 1, 1);
	group(1, 1000000);
	for (int i = 0; i < 6; i++)
	{
		CHECK(after_group(4000000) == limits[i]);
		CHECK(fabs(w.size - sizes[i]) < 0.0001);
		CHECK(w.baseline == baselines[i]);
	}
}

static void
test_rpc_A_golden_batch(void)
{
	const int limits[] = {2, 3, 5, 7, 10, 13, 17, 21, 25, 31, 36, 42};

	start(2, 256, 1, 1);
	CHECK_GROUPS(limits, 1000);
}

static void
test_rpc_A_golden_per_row(void)
{
	const int overloads[] = {50, 25, 12, 6, 3};
	const int limits[] = {4, 7, 9, 12, 16, 20, 25, 30, 35, 41, 47, 54, 62, 70, 78, 87};

	start(100, 100, 1, 1);
	group(1, 1000);
	for (int i = 0; i < 5; i++)
		CHECK(after_overload() == overloads[i]);
	CHECK_GROUPS(limits, 1000);
}

static int
groups_until(int64_t limit)
{
	int n = 0;

	group(1, 1000); /* the baseline */
	for (; LIMIT() < limit; n++)
		group(1, 1000);
	return n;
}

static void
test_rpc_A_golden_recovery(void)
{
	start(50, 100, 1, 1);
	CHECK(groups_until(100) == 7);
	start(1, 100, 1, 1);
	CHECK(groups_until(100) == 20);
	start(2, 256, 1, 1);
	CHECK(groups_until(256) == 31);
}

static void
test_rpc_A_golden_latency_step(void)
{
	const int limits[] = {60, 37, 25, 17, 12, 10, 8, 7, 7, 7};

	start(100, 100, 1, 1);
	group(1, 1000000);
	CHECK_GROUPS(limits, 10000000);
}

/* --- ours --- */

/* An overload that many requests of one time tell of is one. */
static void
test_window_overload_once(void)
{
	uint32_t sent;

	start(64, 64, 1, 1);
	sent = w.epoch;
	CHECK(infer_window_overload(&w, sent));
	for (int i = 0; i < 30; i++)
		CHECK(!infer_window_overload(&w, sent));
	CHECK(LIMIT() == 32);
	CHECK(infer_window_overload(&w, w.epoch));
	CHECK(LIMIT() == 16);
}

static void
flat(int n, int in_flight)
{
	for (int i = 0; i < n; i++)
		infer_window_sample(&w, 1000, in_flight);
}

/* Used is half of it, once in a group. */
static void
test_window_idle(void)
{
	InferWindowConfig config = {.start = 16, .max = 64, .min = 1, .step_coef = 1};

	infer_window_init(&w, &config);
	flat(80, 7);
	CHECK(LIMIT() == 16);
	flat(7, 7);
	flat(1, 8);
	CHECK(LIMIT() == 20);
	/* it still shrinks */
	for (int i = 0; i < 8; i++)
		infer_window_sample(&w, 4000, 1);
	CHECK(LIMIT() < 20);
}

static void
test_window_slow_start(void)
{
	InferWindowConfig config = {
		.start = 16, .max = 1024, .min = 1, .step_coef = 1, .slow_start = true, .means = true};

	infer_window_init(&w, &config);
	flat(16, 16);
	CHECK(LIMIT() == 32);
	flat(32, 32);
	CHECK(LIMIT() == 64);
	/* not used, no growth: once the group is over in which it was */
	while (w.count > 0)
		flat(1, 10);
	CHECK(w.slow_start);
	w.size = 64;
	flat(64, 10);
	CHECK(LIMIT() == 64);
	/* overload ends it */
	infer_window_overload(&w, w.epoch);
	CHECK(LIMIT() == 32);
	flat(32, 32);
	CHECK(LIMIT() < 40);
	/* and so does a rise of latency */
	infer_window_init(&w, &config);
	flat(40, 16);
	CHECK(w.slow_start);
	for (int i = 0; i < 200; i++)
		infer_window_sample(&w, 4000, 64);
	CHECK(!w.slow_start);
}

/* Rule 1: answers that differ in length by nature do not shrink it. */
static void
test_window_means(void)
{
	InferWindowConfig config = {.start = 64, .max = 256, .min = 1, .step_coef = 1, .means = true};
	uint32_t random = 12345;

	infer_window_init(&w, &config);
	for (int i = 0; i < 20000; i++)
	{
		random = random * 1664525 + 1013904223;
		/* one in four is five times as long */
		infer_window_sample(&w, random >> 30 == 0 ? 500000 : 100000, LIMIT());
	}
	CHECK(LIMIT() > 128);
}

/* What is compared is the mean less two standard errors, over as many answers as the window has. */
static void
test_window_means_exactly(void)
{
	InferWindowConfig config = {.start = 16, .max = 256, .min = 1, .step_coef = 1, .means = true};

	infer_window_init(&w, &config);
	for (int i = 0; i < 32; i++) /* twice as many for the first baseline */
		infer_window_sample(&w, 1600, 16);
	CHECK(w.count == 0 && w.baseline == 1600);
	for (int i = 0; i < 16; i++)
		infer_window_sample(&w, i % 2 == 0 ? 1000 : 5000, 16);
	/* 3000 less 2 x 2000 / 4, so 0.8 of 16 and the root of it */
	CHECK(w.count == 0 && fabs(w.size - 16.8) < 1e-9);
	/* the plain mean of both groups */
	CHECK(w.baseline == 2300);
}

/* Rule 7: latency stops at the floor, overload does not. */
static void
test_window_latency_floor(void)
{
	InferWindowConfig config = {
		.start = 32, .max = 64, .min = 1, .step_coef = 1, .latency_floor = 16};
	int64_t rtt = 1000;

	infer_window_init(&w, &config);
	for (int i = 0; i < 30; i++, rtt *= 2)
		group(1, rtt);
	CHECK(LIMIT() == 16);
	CHECK(w.least == 16);
	infer_window_overload(&w, w.epoch);
	CHECK(LIMIT() == 8);
	for (int i = 0; i < 5; i++, rtt *= 2)
		group(1, rtt);
	CHECK(LIMIT() == 8);
}

int
main(void)
{
	TEST(rpc_A1);
	TEST(rpc_A2);
	TEST(rpc_A3);
	TEST(rpc_A4);
	TEST(rpc_A5);
	TEST(rpc_A6);
	TEST(rpc_A7);
	TEST(rpc_A8);
	TEST(rpc_A9);
	TEST(rpc_A10);
	TEST(rpc_A11);
	TEST(rpc_A12);
	TEST(rpc_A13);
	TEST(rpc_A14);
	TEST(rpc_A15);
	TEST(rpc_A16);
	TEST(rpc_A17);
	TEST(rpc_A18);
	TEST(rpc_A19);
	TEST(rpc_A20);
	TEST(rpc_A21);
	TEST(rpc_A22);
	TEST(rpc_A23);
	TEST(rpc_A24);
	TEST(rpc_A25);
	TEST(rpc_E10);
	TEST(rpc_A_golden_shrinking);
	TEST(rpc_A_golden_batch);
	TEST(rpc_A_golden_per_row);
	TEST(rpc_A_golden_recovery);
	TEST(rpc_A_golden_latency_step);
	TEST(window_overload_once);
	TEST(window_idle);
	TEST(window_slow_start);
	TEST(window_means);
	TEST(window_means_exactly);
	TEST(window_latency_floor);
	return tap_done();
}
