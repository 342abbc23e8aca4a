/*
 * sim/test_service.c - latency and useful concurrency of one key's server (core/service).
 *
 * What the limiter makes of them: test_limiter.c, and adaptive_* in test_scenarios.c.
 */
#include "core/service.h"
#include "tap.h"

#include <math.h>

#define GROUP      32 /* answers of a limit up to that */
#define NEAR(a, b) (fabs((a) - (b)) < 1e-6)

static InferService s;

static void
begin(void)
{
	infer_service_init(&s, false);
}

/* So many answers, each of a request that was sent when `during` fewer had come. */
static int
answers(int n, int64_t rtt_us, uint32_t during)
{
	int groups = 0;

	for (int i = 0; i < n; i++)
		groups += infer_service_answer(&s, rtt_us, s.answered + 1 - during, 16);
	return groups;
}

/* Half of a group takes one time, half another. */
static void
mixed_group(int64_t a_us, int64_t b_us)
{
	for (int i = 0; i < GROUP / 2; i++)
	{
		(void) infer_service_answer(&s, a_us, s.answered, 16);
		(void) infer_service_answer(&s, b_us, s.answered, 16);
	}
}

static void
test_horizon(void)
{
	begin();
	CHECK(NEAR(s.horizon, 1000000));
	answers(1, 800, 1);
	CHECK(NEAR(s.horizon, 800));
	answers(1, 1600, 1);
	CHECK(NEAR(s.horizon, 900));
	answers(1, 0, 1); /* at least a microsecond */
	CHECK(NEAR(s.horizon, 900 - 899.0 / 8));
}

/* A group is as many answers as the limit, from 32 to 64. */
static void
test_groups(void)
{
	const struct
	{
		double limit;
		int size;
	} rows[] = {{1, 32}, {32, 32}, {40, 40}, {64, 64}, {500, 64}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		begin();
		for (int n = 1; n < rows[i].size; n++)
			CHECK(!infer_service_answer(&s, 1000, 0, rows[i].limit));
		CHECK(infer_service_answer(&s, 1000, 0, rows[i].limit));
		CHECK(!infer_service_answer(&s, 1000, 0, rows[i].limit));
	}
}

/* The best mean, with its error; it only falls. A queue is a mean that is surely 1.2 times that. */
static void
test_best(void)
{
	begin();
	mixed_group(600, 1400);
	CHECK(NEAR(s.best, 1000 + 400 / sqrt(GROUP)));
	answers(GROUP, 1000, 1);
	CHECK(NEAR(s.best, 1000));
	CHECK(!infer_service_queues(&s));
	answers(GROUP, 1200, 1);
	CHECK(NEAR(s.best, 1000) && !infer_service_queues(&s));
	answers(GROUP, 1210, 1);
	CHECK(infer_service_queues(&s));
	/* 1300, but it might be less than 1200 */
	mixed_group(900, 1700);
	CHECK(!infer_service_queues(&s));
	mixed_group(1100, 1500); /* surely 1229 */
	CHECK(infer_service_queues(&s));
	/* with rule 1 off it is the fastest answer */
	infer_service_init(&s, true);
	mixed_group(600, 1400);
	CHECK(NEAR(s.best, 600));
}

/* What came during a request, less what it waited; of this group or the one before. */
static void
test_useful(void)
{
	begin();
	answers(GROUP, 1000, 20);
	CHECK(NEAR(infer_service_useful(&s), 20));
	answers(1, 2000, 30);
	CHECK(NEAR(infer_service_useful(&s), 20)); /* 15 */
	answers(1, 2000, 50);
	CHECK(NEAR(infer_service_useful(&s), 25));
	answers(1, 899, 90); /* a short life says nothing */
	CHECK(NEAR(infer_service_useful(&s), 25));
	answers(1, 900, 18);
	CHECK(NEAR(infer_service_useful(&s), 25));
	answers(GROUP - 4, 1000, 4);
	CHECK(NEAR(infer_service_useful(&s), 25)); /* the group is over */
	answers(GROUP - 1, 1000, 4);
	CHECK(NEAR(infer_service_useful(&s), 25));
	answers(1, 1000, 4);
	CHECK(NEAR(infer_service_useful(&s), 4)); /* ... and forgotten */
}

static void
blocked_groups(int n)
{
	for (int i = 0; i < n; i++)
	{
		infer_service_blocks(&s);
		for (int n = 1; n <= GROUP; n++)
		{
			answers(1, 2000, 1);
			if (n < GROUP)
				infer_service_blocks(&s); /* counts once a group */
		}
	}
}

/*
 * A server that has become slower looks like one that queues, for the best is of another time.
 * After 64 groups that kept growth back its queue is drained for three groups, and the best set
 * anew, a quarter higher at most.
 */
static void
test_renewal(void)
{
	begin();
	answers(GROUP, 1000, 1);
	blocked_groups(63);
	CHECK(s.draining == 0);
	blocked_groups(1);
	CHECK(s.draining == 3 && s.blocked == 0);
	answers(2 * GROUP, 2000, 1);
	CHECK(s.draining == 1 && NEAR(s.best, 1000));
	answers(GROUP, 2000, 1);
	CHECK(s.draining == 0 && NEAR(s.best, 1250));
	/* less than that is taken as it is */
	blocked_groups(64);
	CHECK(s.draining == 3);
	answers(2 * GROUP, 1600, 1);
	answers(GROUP, 1400, 1);
	CHECK(s.draining == 0 && NEAR(s.best, 1400));
}

int
main(void)
{
	TEST(horizon);
	TEST(groups);
	TEST(best);
	TEST(useful);
	TEST(renewal);
	return tap_done();
}
