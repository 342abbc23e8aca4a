/*
 * sim/test_scenarios.c - what the controllers must reach in the simulated world.
 *
 * job_*        the bars of the design's table (J2, J3, J6), over several seeds
 * adaptive_R*  the rules of adaptive.md: each scenario is run with the rule and without it, and
 *              must fail without
 * must_*       what else is promised: recovery, fairness, priority, the minute
 * sim_*        random worlds: no violation in any, and one in each that is broken on purpose
 */
#include "scenarios.h"
#include "tap.h"

#define SEEDS        5
#define RANDOM_SEEDS 200
#define BROKEN_SEEDS 40

#define VARIANT(...) (&(Variant){.seed = seed, __VA_ARGS__})
#define EACH_SEED(n) for (uint64_t seed = 0; seed < (n); seed++)

/* A row in the log, and no violation. */
static Result
seen(const char *name, Result r)
{
	CHECK_ROW(r.violations == 0, r.first_violation[0] != '\0' ? r.first_violation : name);
	return r;
}

static void
test_job_J2_cold(void)
{
	EACH_SEED(SEEDS)
	{
		Result r = seen("J2 cold", job_J2(2000, VARIANT(.blind = seed % 2)));

		CHECK(r.ratio >= 0.93);
		CHECK(r.peak <= 2 * 64);
	}
}

static void
test_job_J2_warm(void)
{
	EACH_SEED(SEEDS)
	{
		Result r = seen("J2 warm", job_J2(2000, VARIANT(.warm = true)));

		CHECK(r.ratio >= 0.965);
		CHECK(r.peak <= 2 * 64);
	}
}

/*
 * With answers of different length.  The last one alone may take a tenth of the whole, so that the
 * mean over the seeds is judged; the best fixed number reaches 0.95 of the ideal.
 */
static void
test_job_J2_jitter(void)
{
	double cold = 0;
	double warm = 0;

	EACH_SEED(20)
	{
		Result r = seen("jitter", job_J2(2000, VARIANT(.jitter = 0.5)));

		cold += r.ratio / 20;
		CHECK(r.ratio >= 0.80);
		CHECK(r.peak <= 3 * 64);
		r = seen("jitter, warm", job_J2(2000, VARIANT(.jitter = 0.5, .warm = true)));
		warm += r.ratio / 20;
		CHECK(r.ratio >= 0.85);
	}
	CHECK(cold >= 0.88);
	CHECK(warm >= 0.93);
}

static void
test_job_J3(void)
{
	EACH_SEED(SEEDS)
	{
		Result r = seen("J3", job_J3(VARIANT(.blind = seed % 2)));

		CHECK(r.ratio >= 1 / 1.03);
		CHECK(r.refused <= 0.01);
		r = seen("J3 with jitter", job_J3(VARIANT(.jitter = 0.3)));
		CHECK(r.ratio >= 1 / 1.08);
	}
}

static void
test_job_J6(void)
{
	EACH_SEED(SEEDS)
	{
		Result r = seen("J6", job_J6(2000, VARIANT(.blind = false)));

		CHECK(r.seconds <= 1.45);
		CHECK(r.refused <= 0.005);
		r = seen("J6, nobody knows the end", job_J6(2000, VARIANT(.blind = true)));
		CHECK(r.seconds <= 2.0);
		CHECK(r.refused <= 0.005);
		r = seen("J6 long", job_J6(20000, VARIANT(.blind = false)));
		CHECK(r.ratio >= 0.9);
	}
}

/* --- The rules --- */

/* 1: compare means, not the fastest answer. */
static void
test_adaptive_R1_means(void)
{
	EACH_SEED(3)
	{
		CHECK(seen("R1", job_J2(6000, VARIANT(.jitter = 0.5))).ratio >= 0.9);
		CHECK(job_J2(6000, VARIANT(.jitter = 0.5, .without = INFER_RULE_MEANS)).ratio < 0.6);
	}
}

/* 2: a server that queues says nothing but latency. */
static void
test_adaptive_R2_queue(void)
{
	EACH_SEED(2)
	{
		CHECK(seen("R2", job_J2(20000, VARIANT(.blind = true))).limit <= 2 * 64);
		CHECK(job_J2(20000, VARIANT(.blind = true, .without = INFER_RULE_USEFUL)).limit > 4 * 64);
	}
}

/* 3: growth is spread. */
static void
test_adaptive_R3_spread(void)
{
	EACH_SEED(3)
	{
		CHECK(seen("R3", job_J6(2000, VARIANT(.blind = true))).refused <= 0.003);
		CHECK(job_J6(2000, VARIANT(.blind = true, .without = INFER_RULE_SPREAD)).refused > 0.01);
	}
}

/* 4: the cut is made from what was in flight then. */
static void
test_adaptive_R4_level(void)
{
	EACH_SEED(3)
	{
		CHECK(seen("R4", job_J6(20000, VARIANT(.blind = false))).ratio >= 0.9);
		CHECK(job_J6(20000, VARIANT(.without = INFER_RULE_LEVEL)).ratio < 0.8);
		CHECK(seen("R4, small", small_server(VARIANT(.blind = true))).ratio >= 0.9);
		CHECK(small_server(VARIANT(.blind = true, .without = INFER_RULE_LEVEL)).ratio < 0.85);
	}
}

/* 5: no probing near the end. */
static void
test_adaptive_R5_ending(void)
{
	EACH_SEED(3)
	{
		CHECK(seen("R5", job_J6(2000, VARIANT(.blind = false))).seconds <= 1.45);
		CHECK(job_J6(2000, VARIANT(.without = INFER_RULE_ENDING)).seconds > 1.6);
	}
}

/* 6: Retry-After holds back one request. */
static void
test_adaptive_R6_own_pause(void)
{
	EACH_SEED(3)
	{
		CHECK(seen("R6", small_server(VARIANT(.blind = true))).ratio >= 0.9);
		CHECK(small_server(VARIANT(.blind = true, .without = INFER_RULE_OWN_PAUSE)).ratio < 0.6);
	}
}

/* 7: latency says nothing of small limits; nothing waits on a server without latency. */
static void
test_adaptive_R7_floor(void)
{
	EACH_SEED(3)
	{
		CHECK(seen("R7", job_no_latency(VARIANT(.blind = true))).ratio >= 0.95);
		CHECK(seen("R7, storm", after_a_storm(VARIANT(.blind = true))).use >= 0.9);
		CHECK(seen("R7, 2 to 64", recovery(2, 0, VARIANT(.blind = true))).use >= 0.9);
		CHECK(recovery(2, 0, VARIANT(.blind = true, .without = INFER_RULE_FLOOR16)).use < 0.3);
	}
}

/* 8: slow start is capped by what is of use. */
static void
test_adaptive_R8_slow_start(void)
{
	EACH_SEED(3)
	{
		CHECK(seen("R8", job_J2(2000, VARIANT(.blind = true))).peak <= 2 * 64);
		CHECK(job_J2(2000, VARIANT(.blind = true, .without = INFER_RULE_USEFUL)).peak > 3 * 64);
		/* and slow start itself */
		CHECK(job_J2(2000, VARIANT(.blind = true, .without = INFER_RULE_SLOW_START)).ratio < 0.8);
	}
}

/* 9: the second statement starts warm. */
static void
test_adaptive_R9_memory(void)
{
	EACH_SEED(3)
	{
		CHECK(seen("R9", job_J2(2000, VARIANT(.warm = true))).ratio >= 0.965);
		CHECK(job_J2(2000, VARIANT(.warm = true, .forgets = true)).ratio < 0.95);
	}
}

/* Ours: the window of a later statement does not keep the limit where short ones have left it. */
static void
test_adaptive_short_before_long(void)
{
	EACH_SEED(3)
	{
		CHECK(seen("short, long", after_a_short_one(20000, 256, VARIANT(.blind = false))).ratio >=
			  0.93);
		CHECK(seen("short, long", after_a_short_one(10000, 1000, VARIANT(0))).seconds <= 2.2);
	}
}

/* Ours: a limit that is not used does not grow. Without the estimate of use, which binds too. */
static void
test_adaptive_unused(void)
{
	const uint32_t useful = INFER_RULE_USEFUL;

	EACH_SEED(3)
	{
		CHECK(seen("used", trickle_then_burst(VARIANT(.without = useful))).refused <= 0.003);
		CHECK(trickle_then_burst(VARIANT(.without = useful | INFER_RULE_USED)).refused > 0.005);
	}
}

/* --- Promises --- */

static void
test_must_recover(void)
{
	EACH_SEED(3)
	{
		CHECK(seen("8 to 64", recovery(8, 0, VARIANT(.blind = true))).use >= 0.9);
		CHECK(seen("8 to 64", recovery(8, 16, VARIANT(.blind = true))).use >= 0.9);
		CHECK(seen("8 to 64", recovery(8, 0, VARIANT(.jitter = 0.5))).use >= 0.9);
	}
}

/*
 * Several PostgreSQL instances, one server, not a word between them.  Where it refuses, the cuts
 * even the shares out.  Where it only queues, nobody is ever cut, and each takes the others' queue
 * for the server's own time: all of it is used, the shares stay as they came about.
 */
static void
test_must_share_between_instances(void)
{
	const struct
	{
		int n;
		int queue;
		double jitter;
		double jain;
	} cases[] = {
		{4, 0, 0, 0.9}, {4, 0, 0.5, 0.9}, {2, 8, 0.5, 0.9}, {8, 16, 0.5, 0.9}, {4, -1, 0.5, 0.7}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		double jain = 0;

		EACH_SEED(3)
		{
			Result r = seen("instances", several_instances(cases[i].n, cases[i].queue,
														   VARIANT(.jitter = cases[i].jitter)));

			CHECK(r.use >= 0.9);
			CHECK(r.refused <= 0.03);
			jain += r.jain / 3;
		}
		CHECK(jain >= cases[i].jain);
	}
}

/* 50 sessions of 1,000 rows. */
static void
test_must_share_between_sessions(void)
{
	EACH_SEED(2)
	{
		Result r = seen("sessions", many_sessions(VARIANT(.jitter = 0.3)));

		CHECK(r.use >= 0.95);
		CHECK(r.jain >= 0.9);
		CHECK(r.peak <= 64);
		CHECK(r.refused == 0);
	}
}

/* Waits for no more than what is in flight when it comes: one of 64 ends soon. */
static void
test_must_let_high_first(void)
{
	EACH_SEED(SEEDS)
	{
		Result r = seen("high", one_high_among_low(VARIANT(.jitter = 0.3)));

		CHECK(r.longest_wait_s <= 0.1);
		CHECK(r.seconds <= 1.0);
	}
}

static void
test_must_keep_the_minute(void)
{
	EACH_SEED(SEEDS)
	{
		Result r = seen("rpm", requests_per_minute(VARIANT(.blind = true)));

		CHECK(r.peak <= 60);
		CHECK(r.use >= 0.95);
	}
}

/*
 * A server that fails everything, for 1 or 50 sessions of 100 rows, which wait for 30 s: besides
 * what was under way when it was found out, it gets a request a period (about 7 in 30 s), and all
 * are told soon after these.
 */
static void
test_fault_F50_dead_server(void)
{
	for (int sessions = 1; sessions <= 50; sessions += 49)
		EACH_SEED(SEEDS)
		{
			Result r = seen("dead server", dead_server(sessions, 30, VARIANT(.blind = seed % 2)));

			CHECK(r.failed <= 16 + 9);
			CHECK(r.failed >= 3 + 4);
			CHECK(r.given_up == 100 * sessions);
			CHECK(r.seconds >= 30 && r.seconds <= 32);
		}
	/* without, it is asked all the time */
	CHECK(dead_server(1, 30, &(Variant){.never_cools = true}).failed > 200);
}

/* One of 6 s is ridden out: nobody gives up, and the work goes on within a period of its end. */
static void
test_fault_F50_outage(void)
{
	for (int sessions = 1; sessions <= 20; sessions += 19)
		EACH_SEED(SEEDS)
		{
			Result r = seen("outage", outage(sessions, 6, VARIANT(.jitter = 0.3)));

			CHECK(r.given_up == 0);
			CHECK(r.failed <= 2 * 64 + 6);
			/* 12.5 s of work */
			CHECK(r.seconds <= 12.5 + 6 + 4 + 3);
		}
}

/* However many sessions, they dial a dead host as often as one: what is under way at the first
 * failure, 13 more until the longest delay is reached, then two a second. When it listens, all goes
 * on within that. */
static void
test_fail_P40(void)
{
	for (int sessions = 1; sessions <= 50; sessions += 49)
		EACH_SEED(SEEDS)
		{
			Result r = seen("dead host", dead_host(sessions, 10000, VARIANT(.jitter = 0.3)));

			CHECK(r.given_up == 0);
			CHECK(r.dials >= 26 && r.dials <= 16 + 13 + 19);
			/* 100 ms a row and 64 at a time, after the start */
			CHECK(r.seconds >= 10 && r.seconds <= 10 + 0.6 + sessions * 100 * 0.1 / 64 + 2);
		}
}

/* --- Random worlds --- */

static void
test_sim_random_worlds(void)
{
	for (uint64_t seed = 1; seed <= RANDOM_SEEDS; seed++)
	{
		World *w = random_world(seed, MUTATION_NONE);

		if (w->violations > 0)
			printf("# seed %d\n", (int) seed);
		CHECK_ROW(w->violations == 0, w->first_violation);
		world_free(w);
	}
}

/* Each of these must be seen by some seed. */
static void
test_sim_mutations_are_seen(void)
{
	const char *names[] = {"",           "no epochs",  "release before feedback",
						   "wake one",   "no reclaim", "probe always",
						   "dial always"};

	for (int m = MUTATION_NO_EPOCHS; m <= MUTATION_DIAL_ALWAYS; m++)
	{
		int violations = 0;

		for (uint64_t seed = 1; seed <= BROKEN_SEEDS && violations == 0; seed++)
		{
			World *w = random_world(seed, (Mutation) m);

			violations += w->violations;
			world_free(w);
		}
		CHECK_ROW(violations > 0, names[m]);
	}
}

int
main(void)
{
	TEST(job_J2_cold);
	TEST(job_J2_warm);
	TEST(job_J2_jitter);
	TEST(job_J3);
	TEST(job_J6);
	TEST(adaptive_R1_means);
	TEST(adaptive_R2_queue);
	TEST(adaptive_R3_spread);
	TEST(adaptive_R4_level);
	TEST(adaptive_R5_ending);
	TEST(adaptive_R6_own_pause);
	TEST(adaptive_R7_floor);
	TEST(adaptive_R8_slow_start);
	TEST(adaptive_R9_memory);
	TEST(adaptive_short_before_long);
	TEST(adaptive_unused);
	TEST(must_recover);
	TEST(must_share_between_instances);
	TEST(must_share_between_sessions);
	TEST(must_let_high_first);
	TEST(must_keep_the_minute);
	TEST(fault_F50_dead_server);
	TEST(fault_F50_outage);
	TEST(fail_P40);
	TEST(sim_random_worlds);
	TEST(sim_mutations_are_seen);
	return tap_done();
}
