/*
 * sim/test_utilisation.c - src/core/utilisation: the load factor of a node.
 */
#include <math.h>
#include <stdbool.h>

#include "core/utilisation.h"
#include "tap.h"

static double
factor_of(const InferUtilisation *servers, int n)
{
	InferLoad load = {0};

	for (int i = 0; i < n; i++)
		infer_load_add(&load, &servers[i]);
	return infer_load_factor(&load);
}

static bool
is(double a, double b)
{
	return fabs(a - b) < 1e-9;
}

static void
test_gw_3_percentile(void)
{
	InferUtilisation u = {0};

	CHECK(is(factor_of(&u, 1), 0));
	/* 0.1, 0.2, 0.3, 0.4: three of four are at most 0.3 */
	for (int i = 1; i <= 4; i++)
		infer_utilisation_sample(&u, i / 10.0);
	CHECK(is(factor_of(&u, 1), 0.3));
	/* idle ones do not count */
	for (int i = 0; i < 10; i++)
		infer_utilisation_sample(&u, 0);
	CHECK(is(factor_of(&u, 1), 0.3));
	/* after a while it is idle */
	for (int i = 0; i < INFER_UTILISATION_SAMPLES; i++)
		infer_utilisation_sample(&u, 0);
	CHECK(is(factor_of(&u, 1), 0));
}

/* A node's servers count by their samples. */
static void
test_gw_3_several(void)
{
	InferUtilisation servers[2] = {{{0}, 0}};

	for (int i = 0; i < 30; i++)
		infer_utilisation_sample(&servers[0], 0.5);
	for (int i = 0; i < 10; i++)
		infer_utilisation_sample(&servers[1], 0.9);
	CHECK(is(factor_of(servers, 2), 0.5));
	infer_utilisation_sample(&servers[1], 0.9);
	CHECK(is(factor_of(servers, 2), 0.9));
}

static void
test_nonsense(void)
{
	InferUtilisation u = {0};

	infer_utilisation_sample(&u, 7);
	CHECK(is(factor_of(&u, 1), 1));
	u = (InferUtilisation){0};
	infer_utilisation_sample(&u, 0.0001);
	CHECK(is(factor_of(&u, 1), 0.001));
	u = (InferUtilisation){0};
	infer_utilisation_sample(&u, NAN);
	infer_utilisation_sample(&u, -1);
	CHECK(is(factor_of(&u, 1), 0));
}

int
main(void)
{
	TEST(gw_3_percentile);
	TEST(gw_3_several);
	TEST(nonsense);
	return tap_done();
}
