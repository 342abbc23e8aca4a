/*
 * sim/test_limiter.c - the shared limiter: the reference's statements rpc_B*, rpc_C*, rpc_D*, with
 * the reference's configuration (no rules of ours, its own starts); what they say of waiters is in
 * test_admission.c under the same numbers.  Our own rules are proved by the simulator.
 *
 * What is decided otherwise, and the statements that are tested with a server (B18, B20), are in
 * ../docs/conformance.md.  Of B1 the tokens that move, and of B5 the built-in default of 20, are
 * not ours; the rest of both is tested.  C1 and C3 state what the fractional limiter does in their
 * case.
 */
#include "core/limiter.h"
#include "tap.h"

#include <math.h>
#include <string.h>

#define MS INT64_C(1000)

static InferLimiter l;
static int64_t now;

static void
setup_with(int ceiling, double floor, double factor, bool adaptive)
{
	InferLimiterConfig config = {
		.ceiling = ceiling, .floor = floor, .decrease_factor = factor, .adaptive = adaptive};
	bool tell;

	memset(&l, 0, sizeof(l));
	now = 1000000;
	CHECK(infer_limiter_configure(&l, &config, &tell));
	CHECK(!tell);
}

static void
setup(int ceiling, double floor)
{
	setup_with(ceiling, floor, 0.5, true);
}

static InferPermit
permit(void)
{
	return (InferPermit){.epoch = l.epoch, .level = 1, .sent_us = now};
}

/* Untagged: as of a request of this epoch. */
static void
overload(void)
{
	InferPermit p = permit();
	InferOutcome outcome = {.verdict = INFER_VERDICT_OVERLOADED, .retry_after_us = -1};

	infer_limiter_feedback(&l, &p, &outcome, now);
}

static void
succeed(const InferPermit *p, int units, int64_t rtt)
{
	InferOutcome outcome = {
		.verdict = INFER_VERDICT_SUCCESS, .units = units, .rtt_us = rtt, .left = -1};

	infer_limiter_feedback(&l, p, &outcome, now);
}

static void
success(int units)
{
	InferPermit p = permit();

	succeed(&p, units, 0);
}

#define ROOM()       infer_limiter_room(&l, now)
#define LIMIT()      infer_limiter_limit(&l)
#define NEAR(a, b)   (fabs((a) - (b)) < 0.001)
#define OPENS()      (infer_limiter_opens_us(&l, now) - now)
#define TAKE(n)      infer_limiter_take(&l, n, now)
#define GIVE(n)      infer_limiter_release(&l, n)
#define NEVER_ITSELF (INT64_MAX - now)

static void
test_rpc_B1(void)
{
	setup(4, 1);
	(void) TAKE(1);
	CHECK(l.in_flight == 1);
	(void) TAKE(2);
	CHECK(l.in_flight == 3);
	GIVE(3);
	CHECK(l.in_flight == 0);
}

static void
test_rpc_B2(void)
{
	setup(2, 1);
	(void) TAKE(1);
	CHECK(ROOM() == 1);
	(void) TAKE(1);
	CHECK(ROOM() == 0);
	CHECK(OPENS() == NEVER_ITSELF);
}

static void
test_rpc_B4(void)
{
	InferLimiter other;

	setup_with(16, 1, 0.25, true);
	other = l;
	setup(16, 1);
	overload();
	(void) TAKE(3);
	CHECK(LIMIT() == 8 && l.in_flight == 3);
	CHECK(infer_limiter_limit(&other) == 16 && other.in_flight == 0);
	l = other;
	overload();
	CHECK(LIMIT() == 4);
}

static void
test_rpc_B5(void)
{
	setup(7, 1);
	CHECK(LIMIT() == 7);
	setup(0, 1);
	CHECK(LIMIT() == 1);
	setup(100000, 1);
	CHECK(LIMIT() == 200);
}

static void
test_rpc_B6(void)
{
	setup_with(16, 1, 0.5, false);
	overload();
	CHECK(LIMIT() == 16 && ROOM() == 16);
	success(100);
	CHECK(LIMIT() == 16);
	CHECK(l.decreases == 0);
}

static void
test_rpc_B7(void)
{
	setup(16, 1);
	overload();
	CHECK(LIMIT() == 8);
	overload();
	CHECK(LIMIT() == 4);
	setup(16, 4);
	for (int i = 0; i < 10; i++)
		overload();
	CHECK(LIMIT() == 4);
}

static void
test_rpc_B8(void)
{
	setup(4, 1);
	overload();
	(void) TAKE(2);
	CHECK(ROOM() == 0);
}

static void
test_rpc_B9(void)
{
	setup_with(8, 100, 0, true);
	CHECK(l.config.floor == 8 && l.config.decrease_factor == 0.01);
	overload();
	CHECK(LIMIT() == 8);
	setup_with(8, 0, 5, true);
	CHECK(l.config.floor == 0.001 && l.config.decrease_factor == 0.99);
}

static void
test_rpc_B10(void)
{
	setup(16, 1);
	(void) TAKE(16);
	overload();
	CHECK(l.in_flight == 16 && ROOM() == 0);
	GIVE(9);
	CHECK(ROOM() == 1);
}

static void
test_rpc_B11(void)
{
	setup(4, 1);
	(void) TAKE(2);
	setup(4, 1);
	GIVE(2);
	CHECK(l.in_flight == 0);
}

static void
test_rpc_B12(void)
{
	setup(16, 1);
	success(10);
	CHECK(l.low_water == 16);
	overload();
	overload();
	success(1000);
	CHECK(LIMIT() == 16 && l.low_water == 4);
}

static void
test_rpc_B14(void)
{
	setup(16, 1);
	CHECK(ROOM() == 16);
	(void) TAKE(ROOM() < 64 ? ROOM() : 64);
	CHECK(l.in_flight == 16 && l.peak == 16);
}

/* Whose limit governs goes up with it; nothing in flight is touched. */
static void
test_rpc_B16(void)
{
	setup(2, 1);
	(void) TAKE(2);
	CHECK(ROOM() == 0);
	infer_limiter_set_ceiling(&l, 5);
	CHECK(ROOM() == 3);
	infer_limiter_set_ceiling(&l, 1);
	CHECK(ROOM() == 0 && l.in_flight == 2);
}

static void
test_rpc_B19(void)
{
	InferLimiterConfig other = {
		.ceiling = 99, .floor = 1, .decrease_factor = 0.5, .adaptive = true};
	InferLimiterConfig same = {
		.ceiling = 16, .floor = -3, .start = 500, .decrease_factor = 0.5, .adaptive = true};
	bool tell;

	setup(16, 0);
	/* equal after clamping */
	CHECK(!infer_limiter_configure(&l, &same, &tell) && !tell);
	CHECK(!infer_limiter_configure(&l, &other, &tell) && tell);
	CHECK(!infer_limiter_configure(&l, &other, &tell) && !tell);
	CHECK(LIMIT() == 16);
}

static void
test_rpc_C1(void)
{
	setup(16, 1);
	overload();
	success(1);
	CHECK(LIMIT() == 8);
	success(1000);
	CHECK(LIMIT() == 16);
}

static void
test_rpc_C3(void)
{
	setup(64, 1);
	for (int i = 0; i < 5; i++)
		overload();
	CHECK(LIMIT() == 2);
	for (int i = 0; i < 4; i++)
		success(1); /* a flush of 16 rows is one unit */
	CHECK(NEAR(l.window, sqrt(12)));
}

static void
test_rpc_D1(void)
{
	setup(1000000, 0.01);
	CHECK(LIMIT() == 200 && ROOM() == 200);
	success(400);
	CHECK(NEAR(l.window, 201.990));
}

static void
test_rpc_D2(void)
{
	setup(16, 0.01);
	overload();
	CHECK(LIMIT() == 8);
	success(1);
	CHECK(NEAR(l.window, 8.124) && LIMIT() == 8);
	success(1000);
	CHECK(l.window == 16);
}

static void
test_rpc_D3(void)
{
	double once;

	setup(1000000, 0.01);
	success(400);
	once = l.window;
	setup(1000000, 0.01);
	for (int i = 0; i < 400; i++)
		success(1);
	CHECK(NEAR(l.window, once));
	setup(8, 0.01);
	for (int i = 0; i < 9; i++)
		overload();
	success(20);
	once = l.window;
	setup(8, 0.01);
	for (int i = 0; i < 9; i++)
		overload();
	CHECK(l.window < 0.02);
	for (int i = 0; i < 20; i++)
		success(1);
	CHECK(NEAR(l.window, once) && once > 1);
}

static void
test_rpc_D4(void)
{
	const double down[] = {1, 0.5, 0.25, 0.25};

	setup(2, 0.25);
	for (int i = 0; i < 4; i++)
	{
		overload();
		CHECK(l.window == down[i]);
	}
	success(1);
	CHECK(l.window == 0.5);
	success(1);
	CHECK(l.window == 1);
}

static void
test_rpc_D5(void)
{
	InferPermit a;
	InferPermit b;
	InferOutcome overloaded = {.verdict = INFER_VERDICT_OVERLOADED, .retry_after_us = -1};

	setup(1000000, 0.01);
	a = TAKE(1);
	b = TAKE(1);
	infer_limiter_complete(&l, &a, 1, &overloaded, now);
	infer_limiter_complete(&l, &b, 1, &overloaded, now);
	CHECK(LIMIT() == 100 && l.decreases == 1 && l.overloads == 2);
	a = TAKE(1);
	infer_limiter_complete(&l, &a, 1, &overloaded, now);
	CHECK(LIMIT() == 50);
}

static void
test_rpc_D6(void)
{
	InferPermit p;
	InferOutcome overloaded = {.verdict = INFER_VERDICT_OVERLOADED, .retry_after_us = -1};

	setup(16, 0.01);
	p = TAKE(3);
	infer_limiter_complete(&l, &p, 3, &overloaded, now);
	infer_limiter_complete(&l, &p, 3, &overloaded, now);
	CHECK(l.in_flight == 0 && LIMIT() == 8);
}

static void
test_rpc_D7(void)
{
	InferPermit p;
	InferOutcome overloaded = {.verdict = INFER_VERDICT_OVERLOADED, .retry_after_us = -1};

	setup(16, 0.01);
	p = TAKE(1);
	infer_limiter_set_ceiling(&l, 32);
	infer_limiter_complete(&l, &p, 1, &overloaded, now);
	CHECK(LIMIT() == 16);
}

/* To this limit, with one start now. */
static void
paced(double limit)
{
	setup(1, 0.01);
	for (int i = 0; i < 20 && l.window > limit; i++)
		overload();
	CHECK(l.window == limit || limit == 0.01);
}

static void
test_rpc_D8(void)
{
	paced(0.5);
	CHECK(ROOM() == 1);
	(void) TAKE(1);
	CHECK(ROOM() == 0);
	now += 10000 * MS;
	CHECK(ROOM() == 0); /* single flight */
	CHECK(OPENS() == NEVER_ITSELF);
	paced(0.5);
	(void) TAKE(1);
	GIVE(1);
	CHECK(OPENS() == 2000 * MS);
	now += 1999 * MS;
	CHECK(ROOM() == 0);
	now += MS;
	CHECK(ROOM() == 1);
}

static void
learn(int64_t rtt)
{
	InferPermit stale = {.epoch = l.epoch - 1};

	succeed(&stale, 1, rtt);
}

static void
test_rpc_D9(void)
{
	paced(0.25);
	learn(100 * MS);
	(void) TAKE(1);
	GIVE(1);
	CHECK(OPENS() == 400 * MS);
}

static void
test_rpc_D10(void)
{
	paced(0.5);
	learn(100 * MS);
	CHECK(l.window == 0.5);
	(void) TAKE(1);
	GIVE(1);
	CHECK(OPENS() == 200 * MS);
	/* a moving average, weight one eighth */
	learn(900 * MS);
	CHECK(NEAR(l.service.horizon, 200.0 * MS));
}

static void
test_rpc_D11(void)
{
	paced(0.01);
	CHECK(NEAR(l.window, 0.01));
	(void) TAKE(1);
	GIVE(1);
	CHECK(OPENS() == 100000 * MS);
}

static void
test_rpc_D13(void)
{
	paced(0.5);
	(void) TAKE(1);
	GIVE(1);
	CHECK(OPENS() == 2000 * MS);
	overload();
	CHECK(OPENS() == 4000 * MS);
	success(1);
	CHECK(OPENS() == 2000 * MS);
	success(1);
	CHECK(OPENS() == 0 && ROOM() == 1);
}

static void
test_rpc_D14(void)
{
	paced(0.5);
	(void) TAKE(1);
	now += 5000 * MS;
	GIVE(1);
	CHECK(ROOM() == 1);
	/* and idle time does not add up */
	now += 60000 * MS;
	(void) TAKE(1);
	GIVE(1);
	CHECK(OPENS() == 2000 * MS);
}

static void
test_rpc_D16(void)
{
	setup(16, 1);
	for (int i = 0; i < 10; i++)
		overload();
	CHECK(l.window == 1);
	(void) TAKE(1);
	GIVE(1);
	CHECK(ROOM() == 1);
	paced(0.25);
	(void) TAKE(1);
	GIVE(1);
	CHECK(ROOM() == 0);
	infer_limiter_set_adaptive(&l, false);
	CHECK(ROOM() == 1);
	CHECK(l.low_water == 0.25);
	infer_limiter_set_adaptive(&l, true);
	CHECK(ROOM() == 0 && l.low_water == 0.25);
}

/* Verdicts that say nothing of load move nothing (G7). */
static void
test_rpc_G7(void)
{
	InferPermit p;
	InferLimiter before;
	InferOutcome outcome = {.rtt_us = 5000, .units = 1, .retry_after_us = -1};

	setup(16, 1);
	overload();
	p = permit();
	before = l;
	outcome.verdict = INFER_VERDICT_ERROR;
	infer_limiter_feedback(&l, &p, &outcome, now);
	outcome.verdict = INFER_VERDICT_IGNORE;
	infer_limiter_feedback(&l, &p, &outcome, now);
	CHECK(memcmp(&before, &l, sizeof(l)) == 0);
	/* a success without a latency moves the limit only */
	outcome.verdict = INFER_VERDICT_SUCCESS;
	outcome.rtt_us = 0;
	infer_limiter_feedback(&l, &p, &outcome, now);
	CHECK(l.window > before.window && l.service.samples == 0);
}

/* --- ours --- */

/* Refuses nothing, and says what it would have refused. */
static void
test_limiter_dry_run(void)
{
	InferLimiterConfig config = {
		.ceiling = 4, .floor = 1, .decrease_factor = 0.5, .adaptive = true, .dry_run = true};
	bool tell;

	memset(&l, 0, sizeof(l));
	infer_limiter_configure(&l, &config, &tell);
	overload();
	CHECK(LIMIT() == 2);
	(void) TAKE(5);
	CHECK(l.over_limit == 3);
	(void) TAKE(1);
	CHECK(l.over_limit == 4 && l.in_flight == 6);
}

/* What a later statement starts with. */
static void
test_limiter_warm(void)
{
	InferWindowConfig window = {0};

	setup(16, 1);
	infer_limiter_begin_window(&l, 4, &window);
	CHECK(window.start == 16 && window.slow_start);
	overload();
	learn(1000);
	infer_limiter_begin_window(&l, 4, &window);
	CHECK(window.start == 8 && !window.slow_start);
	infer_limiter_begin_window(&l, 12, &window);
	CHECK(window.start == 12 && !window.slow_start);
	/* nothing has ended the limit's slow start */
	l.slow_start = true;
	infer_limiter_begin_window(&l, 4, &window);
	CHECK(window.slow_start);
	infer_limiter_set_adaptive(&l, false);
	infer_limiter_begin_window(&l, 4, &window);
	CHECK(!window.slow_start);
}

/* Another configuration keeps what has been learnt. */
static void
test_limiter_reconfigure(void)
{
	InferLimiterConfig config;

	/* told: it has never been less, so it goes with what is told */
	setup(16, 1);
	config = l.config;
	config.ceiling = config.start = 32;
	infer_limiter_reconfigure(&l, &config);
	CHECK(LIMIT() == 32);
	config.ceiling = config.start = 8;
	infer_limiter_reconfigure(&l, &config);
	CHECK(LIMIT() == 8 && l.low_water == 8);
	/* overload has cut it: it stays there, and grows by itself */
	overload();
	CHECK(LIMIT() == 4);
	config.ceiling = config.start = 64;
	infer_limiter_reconfigure(&l, &config);
	CHECK(LIMIT() == 4 && l.config.ceiling == 64);
	/* not told any more */
	config.ceiling = 1024;
	config.start = 16;
	infer_limiter_reconfigure(&l, &config);
	CHECK(LIMIT() == 4);
	/* fixed, and back */
	config.adaptive = false;
	config.ceiling = 24;
	infer_limiter_reconfigure(&l, &config);
	CHECK(LIMIT() == 24);
	config.adaptive = true;
	config.ceiling = config.start = 12;
	infer_limiter_reconfigure(&l, &config);
	CHECK(LIMIT() == 12);
}

/* A random life: in flight is never above the limit when granted, and zero at the end. */
static void
test_rpc_B13(void)
{
	uint32_t random = 1;
	int held[16] = {0};
	bool fine = true;

	setup(24, 1);
	for (int i = 0; i < 16 * 20000; i++)
	{
		int who;
		int want;

		random = random * 1664525 + 1013904223;
		who = (random >> 16) % 16;
		want = 1 + (random >> 24) % 4;
		if (random & (1u << 12))
		{
			int n = want < ROOM() ? want : ROOM();

			if (n == 0)
				continue;
			(void) TAKE(n);
			held[who] += n;
			fine &= l.in_flight <= LIMIT();
		}
		else if (held[who] > 0)
		{
			GIVE(1);
			held[who]--;
			if (random % 1000 == 0)
				overload();
			else
				success(1);
		}
	}
	CHECK(fine && l.peak <= 24);
	for (int i = 0; i < 16; i++)
		GIVE(held[i]);
	CHECK(l.in_flight == 0 && l.granted == l.released);
}

int
main(void)
{
	TEST(rpc_B1);
	TEST(rpc_B2);
	TEST(rpc_B4);
	TEST(rpc_B5);
	TEST(rpc_B6);
	TEST(rpc_B7);
	TEST(rpc_B8);
	TEST(rpc_B9);
	TEST(rpc_B10);
	TEST(rpc_B11);
	TEST(rpc_B12);
	TEST(rpc_B13);
	TEST(rpc_B14);
	TEST(rpc_B16);
	TEST(rpc_B19);
	TEST(rpc_C1);
	TEST(rpc_C3);
	TEST(rpc_D1);
	TEST(rpc_D2);
	TEST(rpc_D3);
	TEST(rpc_D4);
	TEST(rpc_D5);
	TEST(rpc_D6);
	TEST(rpc_D7);
	TEST(rpc_D8);
	TEST(rpc_D9);
	TEST(rpc_D10);
	TEST(rpc_D11);
	TEST(rpc_D13);
	TEST(rpc_D14);
	TEST(rpc_D16);
	TEST(rpc_G7);
	TEST(limiter_dry_run);
	TEST(limiter_warm);
	TEST(limiter_reconfigure);
	return tap_done();
}
