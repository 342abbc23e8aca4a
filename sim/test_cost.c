/*
 * sim/test_cost.c - src/core/cost: means of what was observed, and the planner's cost made of them.
 */
#include "core/cost.h"
#include "tap.h"

#include <math.h>

static const InferPrices free_of_charge = {0, 0};

static double
cost_of(double seconds)
{
	InferPace pace = {seconds, -1, -1};

	return infer_cost_of_call(INFER_TASK_CHAT, &pace, &free_of_charge, 1000, 10000);
}

static void
observe(InferObserved *observed, int times, double seconds, int rows, int64_t in, int64_t out)
{
	InferRequestFigures request = {seconds, rows, in, out};

	for (int i = 0; i < times; i++)
		infer_cost_observe(observed, &request);
}

static bool
near(double a, double b)
{
	double larger = a > b ? a : b;

	return larger - (a > b ? b : a) <= larger * 1e-9;
}

static void
test_cost_unknown(void)
{
	CHECK(infer_cost_of_call(INFER_TASK_CHAT, NULL, &free_of_charge, 1000, 10000) == 10000);
	CHECK(infer_cost_of_call(INFER_TASK_EMBED, NULL, &free_of_charge, 1000, 3000) == 3000);
}

static void
test_cost_scale(void)
{
	CHECK(cost_of(1.0 / 32) == 10000);
	CHECK(cost_of(0.5) == 20000);
	CHECK(cost_of(8) == 40000);
	CHECK(cost_of(1.0 / 512) == 5000);
	CHECK(cost_of(1.0 / 16) == 11892 && cost_of(1.0 / 64) == 8409);
	/* a step is a doubling, its ends are half-way */
	CHECK(cost_of(0.7 / 16) == cost_of(1.4 / 32) && cost_of(0.72 / 16) == cost_of(1.4 / 16));
	/* never outside */
	CHECK(cost_of(0) == 1250 && cost_of(1e-300) == 1250 && cost_of(1.0 / 32 / 4096) == 1250);
	CHECK(cost_of(1e9) == 40000 && cost_of(1e308) == 40000 && cost_of(HUGE_VAL) == 40000);
	for (double s = 1e-7, last = 0; s < 1e4; s *= 1.1)
	{
		CHECK_ROW(cost_of(s) >= last, "the longer, the dearer");
		last = cost_of(s);
	}
}

static void
test_cost_prices(void)
{
	InferPace pace = {1.0 / 32, 1000, 500};
	InferPrices prices = {10, 20}; /* 0.02 a row */

	CHECK(near(infer_cost_of_call(INFER_TASK_CHAT, &pace, &prices, 1000, 10000), cost_of(20)));
	CHECK(near(infer_cost_of_call(INFER_TASK_CHAT, &pace, &prices, 10, 10000), cost_of(0.23)));
	CHECK(infer_cost_of_call(INFER_TASK_CHAT, &pace, &prices, 0, 10000) == 10000);
	/* a price makes dearer before anything is known; no output is taken for granted of embed */
	prices = (InferPrices){0, 20};
	CHECK(infer_cost_of_call(INFER_TASK_CHAT, NULL, &prices, 1000, 10000) > 20000);
	CHECK(infer_cost_of_call(INFER_TASK_EMBED, NULL, &prices, 1000, 10000) == 10000);
	prices = (InferPrices){1e308, 1e308};
	CHECK(infer_cost_of_call(INFER_TASK_CHAT, &pace, &prices, 1e6, 10000) == 40000);
}

static void
test_cost_means(void)
{
	InferObserved observed = {0};

	observe(&observed, 1, 0.4, 4, 40, -1);
	CHECK(near(observed.pace.seconds, 0.1) && near(observed.pace.input_tokens, 10));
	CHECK(observed.pace.output_tokens == -1);
	observe(&observed, 1, 0.2, 2, 60, 8);
	CHECK(observed.requests == 2 && observed.rows == 6);
	CHECK(near(observed.seconds_per_request, 0.3) && near(observed.rows_per_request, 3));
	CHECK(near(observed.pace.input_tokens, 20) && near(observed.pace.output_tokens, 4));
	/* forgets what was long ago, and is not moved by what cannot be */
	observe(&observed, 1000, 2, 1, -1, -1);
	CHECK(fabs(observed.pace.seconds - 2) < 1e-6 && near(observed.pace.input_tokens, 20));
	observe(&observed, 10, 5, 0, 1, 1);
	observe(&observed, 10, -1, 1, 1, 1);
	CHECK(observed.requests == 1002);
}

static void
test_cost_steady(void)
{
	InferObserved observed = {0};
	double first;

	/* at the edge of a step, answers a third longer or shorter change nothing */
	observe(&observed, 1, 0.0442, 1, 10, 10);
	first = cost_of(observed.seen.seconds);
	for (int i = 0; i < 100; i++)
	{
		observe(&observed, 1, 0.0442 * (i % 2 ? 1.33 : 0.75), 1, 9 + i % 3, 10);
		CHECK_ROW(cost_of(observed.seen.seconds) == first, "stays");
	}
	/* what lasts does */
	observe(&observed, 200, 0.2, 1, 10, 10);
	CHECK(cost_of(observed.seen.seconds) > first);
	observe(&observed, 200, 0.2, 1, 10, 1000);
	CHECK(observed.seen.output_tokens > 500);
	/* and the first figure that an answer gives */
	observed = (InferObserved){0};
	observe(&observed, 1, 0.1, 1, -1, -1);
	observe(&observed, 1, 0.1, 1, 1, -1);
	CHECK(observed.seen.input_tokens == 1 && observed.seen.output_tokens == -1);
}

/* Of several servers: by weight, and tokens of those that say how many. */
static void
test_cost_mean_of_servers(void)
{
	InferPaceMean mean = {0};
	InferPace pace;

	CHECK(!infer_cost_mean(&mean, &pace));
	infer_cost_mean_add(&mean, &(InferPace){1, -1, -1}, 0.5);
	CHECK(infer_cost_mean(&mean, &pace));
	CHECK(pace.seconds == 1 && pace.input_tokens == -1 && pace.output_tokens == -1);
	infer_cost_mean_add(&mean, &(InferPace){4, 10, 0}, 1);
	infer_cost_mean_add(&mean, &(InferPace){3, 30, -1}, 0.5);
	CHECK(infer_cost_mean(&mean, &pace));
	CHECK(pace.seconds == (0.5 * 1 + 1 * 4 + 0.5 * 3) / 2);
	CHECK(pace.input_tokens == (10 + 0.5 * 30) / 1.5 && pace.output_tokens == 0);
}

int
main(void)
{
	TEST(cost_unknown);
	TEST(cost_scale);
	TEST(cost_prices);
	TEST(cost_means);
	TEST(cost_steady);
	TEST(cost_mean_of_servers);
	return tap_done();
}
