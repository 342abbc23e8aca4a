/*
 * sim/test_route.c - which places a request does not want, and why: phase 1 of gateway.md
 * section 3. Which of them cannot serve it is in test_route_able.c.
 *
 * gw_3_*: section 3 of the gateway's page; fail_P*: the numbered statements on delivery.
 */
#include "route_kit.h"
#include "tap.h"

static void
test_gw_3_include_server(void)
{
	two_by_two();
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("b1");
	CHECK(same(always(), "b1"));
	CHECK(same(order(), "b1"));
	CHECK(same(reason("b2"), "include"));
	CHECK(same(reason("a1"), "include"));

	/* one that is unavailable, or unknown */
	places[2].state = INFER_PLACE_FAILED;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NO_DEST && d.reason == INFER_BY_INCLUDE);
	CHECK(same(d.target, "b1") && d.target_reason == INFER_BY_FAILED);
	CHECK(d.n_order == 0 && d.n_plan == 0);
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("a1", "nowhere");
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NO_DEST && same(d.target, "nowhere"));
	CHECK(d.target_reason == INFER_BY_NOTHING);
	/* also when nothing else is there */
	for (int i = 0; i < nplaces; i++)
		places[i].state = INFER_PLACE_FAILED;
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("a1");
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NO_DEST && same(d.target, "a1"));
	places[0].permitted = false;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NO_PRIVILEGE && d.target_reason == INFER_BY_PRIVILEGE);
}

static void
test_gw_3_include_node(void)
{
	two_by_two();
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("b");
	decide(0);
	CHECK(d.n_plan == 1 && d.n_order == 2 && begins_with_node("b"));
	CHECK(same(reason("a1"), "include"));
	/* its other server will do */
	places[2].state = INFER_PLACE_FAILED;
	CHECK(same(always(), "b2"));
	places[3].state = INFER_PLACE_FAILED;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NO_DEST && same(d.target, "b"));
}

static void
test_gw_3_include_several(void)
{
	two_by_two();
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("b2", "a1");
	CHECK(same(always(), "b2 a1"));
	CHECK(d.n_order == 2);
	request.is_solo = true;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NO_DEST && d.reason == INFER_BY_SOLO);
	/* on one node: every one of them is in the plan */
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("b2", "b1");
	CHECK(same(always(), "b2 b1"));
	request.is_solo = false;
	/* a server stands for its node, too */
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("b2", "b");
	CHECK(same(always(), "b2"));
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("a", "b");
	decide(0);
	CHECK(d.n_plan == 2 && places[d.plan[0]].node[0] == 'a' && places[d.plan[1]].node[0] == 'b');
}

static void
test_gw_3_exclude(void)
{
	two_by_two();
	request.prefs[INFER_ROUTE_EXCLUDE] = NAMES("a1", "b");
	CHECK(same(always(), "a2"));
	CHECK(same(order(), "a2"));
	CHECK(same(reason("a1"), "exclude") && same(reason("b2"), "exclude"));
	request.prefs[INFER_ROUTE_EXCLUDE] = NAMES("a1", "a2", "b");
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NO_DEST && d.reason == INFER_BY_EXCLUDE);
	/* never, not even when the other one is overloaded */
	request.prefs[INFER_ROUTE_EXCLUDE] = NAMES("a", "b1");
	places[3].excluded = true;
	CHECK(same(always(), "b2") && d.n_order == 1);
}

static void
test_gw_3_prefer(void)
{
	two_by_two();
	request.prefs[INFER_ROUTE_PREFER] = NAMES("b2");
	decide(0.3);
	CHECK(strncmp(order(), "b2 b1 a", 7) == 0 && d.n_order == 4);
	CHECK(same(always(), "b2"));
	/* the first suitable one; others stay behind, the nodes of what is preferred before others */
	request.prefs[INFER_ROUTE_PREFER] = NAMES("a2", "b2");
	CHECK(same(always(), "a2"));
	CHECK(same(order(), "a2 b2 a1 b1"));
	places[1].state = INFER_PLACE_FAILED;
	CHECK(same(always(), "b2"));
	CHECK(same(order(), "b2 a1 b1"));
	request.prefs[INFER_ROUTE_PREFER] = NAMES("b");
	decide(0.3);
	CHECK(begins_with_node("b") && d.n_order == 3);
	/* before health and load */
	places[2].excluded = places[3].excluded = true;
	places[2].node_load = places[3].node_load = 0.9;
	decide(0.3);
	CHECK(begins_with_node("b"));
	/* a server that is down still names its node */
	two_by_two();
	places[2].state = INFER_PLACE_FAILED;
	places[3].node_load = 0.9;
	request.prefs[INFER_ROUTE_PREFER] = NAMES("b1");
	CHECK(same(always(), "b2"));
}

static void
test_gw_3_avoid(void)
{
	two_by_two();
	request.prefs[INFER_ROUTE_AVOID] = NAMES("a1", "b");
	CHECK(same(always(), "a2"));
	CHECK(d.n_order == 4);
	/* last, also when it is the only one that is not overloaded */
	places[1].excluded = true;
	CHECK(same(always(), "a2"));
	/* what is left may be used */
	places[1].state = INFER_PLACE_FAILED;
	decide(0.3);
	CHECK(d.cause == INFER_CAUSE_NONE && d.n_order == 3);
	/* a node's other servers come before the one to be avoided, and so do other nodes */
	two_by_two();
	request.prefs[INFER_ROUTE_AVOID] = NAMES("a1");
	for (int i = 0; i < 50; i++)
	{
		decide(i / 50.0);
		CHECK(d.n_order == 4 && d.order[3] == 0);
	}
}

static void
test_gw_3_preferences_combine(void)
{
	two_by_two();
	request.prefs[INFER_ROUTE_EXCLUDE] = NAMES("a");
	request.prefs[INFER_ROUTE_PREFER] = NAMES("b1");
	CHECK(same(always(), "b1"));
	CHECK(same(order(), "b1 b2"));
	/* the name of a server says more than that of its node */
	two_by_two();
	request.prefs[INFER_ROUTE_AVOID] = NAMES("b");
	request.prefs[INFER_ROUTE_PREFER] = NAMES("b1");
	decide(0.5);
	CHECK(strncmp(order(), "b1 a", 4) == 0 && d.order[3] == 3);
	request.prefs[INFER_ROUTE_AVOID] = NAMES("a1");
	request.prefs[INFER_ROUTE_PREFER] = NAMES("a");
	CHECK(same(always(), "a2") && d.order[3] == 0);
	/* INCLUDE says which, PREFER which of them first */
	request.prefs[INFER_ROUTE_AVOID] = (InferNames){0, NULL};
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("a");
	request.prefs[INFER_ROUTE_PREFER] = NAMES("b1", "a2");
	CHECK(same(always(), "a2") && same(order(), "a2 a1"));
}

static void
test_gw_3_nodes(void)
{
	two_by_two();
	request.nodes = NAMES("b", "c");
	decide(0);
	CHECK(d.n_order == 2 && begins_with_node("b") && same(reason("a1"), "nodes"));
	request.nodes = NAMES("c");
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NO_DEST && d.reason == INFER_BY_NODES);
}

static void
test_gw_3_feeds(void)
{
	two_by_two();
	places[0].feeds = NAMES("news", "trades");
	places[2].feeds = NAMES("trades");
	request.feeds = NAMES("trades");
	decide(0);
	CHECK(d.n_order == 2 && same(reason("a2"), "feeds") && same(reason("b2"), "feeds"));
	request.feeds = NAMES("trades", "news");
	CHECK(same(always(), "a1") && same(reason("b1"), "feeds"));
	request.feeds = NAMES("weather");
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NO_DEST && d.reason == INFER_BY_FEEDS);
}

/* [from, to) of the place against that of the request. */
static void
test_gw_3_time_ranges(void)
{
	static const struct
	{
		const char *name;
		InferTimeRange asked;
		InferTimeRange has;
		bool serves;
	} rows[] = {
		{"nothing asked", {false, 0, 0}, {true, 10, 20}, true},
		{"place covers everything", {true, 10, 20}, {false, 0, 0}, true},
		{"overlap", {true, 15, 25}, {true, 10, 20}, true},
		{"within", {true, 12, 13}, {true, 10, 20}, true},
		{"around", {true, 0, 99}, {true, 10, 20}, true},
		{"the last moment", {true, 19, 25}, {true, 10, 20}, true},
		{"touches the end", {true, 20, 25}, {true, 10, 20}, false},
		{"touches the start", {true, 5, 10}, {true, 10, 20}, false},
		{"before", {true, 1, 2}, {true, 10, 20}, false},
		{"no end", {true, 15, INT64_MAX}, {true, 10, 20}, true},
		{"no start", {true, INT64_MIN, 10}, {true, 10, 20}, false},
		{"no start, one more", {true, INT64_MIN, 11}, {true, 10, 20}, true},
		{"open place", {true, 1000, 1001}, {true, 10, INT64_MAX}, true},
		{"nothing is asked for", {true, 15, 15}, {true, 10, 20}, false},
		{"nothing is there", {true, 10, 20}, {true, 15, 15}, false},
	};

	for (int i = 0; i < COUNT(rows); i++)
	{
		two_by_two();
		nplaces = 1;
		request.ts_range = rows[i].asked;
		places[0].ts_range = rows[i].has;
		decide(0);
		CHECK_ROW((d.n_order == 1) == rows[i].serves, rows[i].name);
		CHECK_ROW(rows[i].serves ||
					  (d.cause == INFER_CAUSE_NO_DEST && d.reason == INFER_BY_TS_RANGE),
				  rows[i].name);
	}
}

/* Which versions are asked, of 1.00, 1.01, 2.00 on a1, a2, b1 and one that has none on b2. */
static void
test_gw_3_versions(void)
{
	static const struct
	{
		const char *name;
		int version;
		int min_version;
		InferTestControl test_ctl;
		int down;
		const char *asked; /* sorted */
	} rows[] = {
		{"PROD: the lowest at or above the minimum", -1, 100, INFER_TEST_PROD, -1, "a1"},
		{"PROD: the minimum lies between", -1, 101, INFER_TEST_PROD, -1, "a2"},
		{"PROD: the lowest that is available", -1, 100, INFER_TEST_PROD, 0, "a2"},
		{"PROD without a minimum", -1, -1, INFER_TEST_PROD, -1, "b2"},
		{"TEST: a higher one", -1, 100, INFER_TEST_TEST, -1, "b1"},
		{"TEST: another one is available", -1, 100, INFER_TEST_TEST, 2, "a2"},
		{"TEST: none is, so PROD", -1, 200, INFER_TEST_TEST, -1, "b1"},
		{"ANY: no preference", -1, 100, INFER_TEST_ANY, -1, "a1 a2 b1"},
		{"ANY without a minimum", -1, -1, INFER_TEST_ANY, -1, "a1 a2 b1 b2"},
		{"a version wins over PROD", 101, 100, INFER_TEST_PROD, -1, "a2"},
		{"... over TEST", 101, 100, INFER_TEST_TEST, -1, "a2"},
		{"... over ANY", 101, 100, INFER_TEST_ANY, -1, "a2"},
		{"... over RANDOM", 101, 100, INFER_TEST_RANDOM, -1, "a2"},
		{"... over the minimum", 100, 200, INFER_TEST_PROD, -1, "a1"},
		{"a version that is not there", 300, -1, INFER_TEST_ANY, -1, "-"},
		{"a version that is down", 200, -1, INFER_TEST_ANY, 2, "-"},
		{"a minimum above all", -1, 201, INFER_TEST_PROD, -1, "-"},
	};

	for (int i = 0; i < COUNT(rows); i++)
	{
		char asked[64] = "";

		two_by_two();
		places[0].version = 100;
		places[1].version = 101;
		places[2].version = 200;
		request.version = rows[i].version;
		request.min_version = rows[i].min_version;
		request.test_ctl = rows[i].test_ctl;
		if (rows[i].down >= 0)
			places[rows[i].down].state = INFER_PLACE_FAILED;
		decide(0.5);
		for (int p = 0; p < nplaces; p++)
			if (d.places[p].reason == INFER_BY_NOTHING)
			{
				strcat(asked, asked[0] == '\0' ? "" : " ");
				strcat(asked, places[p].server);
			}
		CHECK_ROW(same(asked[0] == '\0' ? "-" : asked, rows[i].asked), rows[i].name);
	}
	/* the last three left nothing, each for its reason */
	CHECK(d.cause == INFER_CAUSE_NO_DEST && d.reason == INFER_BY_MIN_VERSION);
	request.version = 300;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NO_DEST && d.reason == INFER_BY_VERSION);
	request.version = 200;
	places[2].state = INFER_PLACE_FAILED;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_ALL_FAILED && d.reason == INFER_BY_FAILED);
}

/* 10,000 draws at 20 per cent: 2,000 +- 3 x 40 */
static void
test_gw_3_test_ctl_random(void)
{
	static const struct
	{
		double percent;
		int low, high;
	} rows[] = {{20, 1880, 2120}, {50, 4850, 5150}, {0, 0, 0}, {100, 10000, 10000}};

	for (int r = 0; r < COUNT(rows); r++)
	{
		int tested = 0;

		two_by_two();
		places[1].version = places[2].version = 100;
		request.test_ctl = INFER_TEST_RANDOM;
		request.test_percent = rows[r].percent;
		for (int i = 0; i < 10000; i++)
		{
			decide(draw_number((uint64_t) i + 1));
			tested += places[d.order[0]].version == 100;
			CHECK(d.n_order == 2);
		}
		if (tested < rows[r].low || tested > rows[r].high)
			printf("# %d of 10,000 at %g %%\n", tested, rows[r].percent);
		CHECK(tested >= rows[r].low && tested <= rows[r].high);
	}
	two_by_two();
	CHECK(request.test_percent == 50);
}

/* What is included is taken with the version that it has. */
static void
test_gw_3_include_and_versions(void)
{
	two_by_two();
	places[2].version = places[3].version = 200;
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("b1");
	CHECK(same(always(), "b1"));
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("b1", "a1");
	CHECK(same(always(), "b1 a1"));
	places[3].version = 100;
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("b");
	CHECK(same(always(), "b2") && same(reason("b1"), "test_ctl"));
	request.min_version = 200;
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("b2");
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NO_DEST && d.target_reason == INFER_BY_MIN_VERSION);
}

int
main(void)
{
	TEST(gw_3_include_server);
	TEST(gw_3_include_node);
	TEST(gw_3_include_several);
	TEST(gw_3_exclude);
	TEST(gw_3_prefer);
	TEST(gw_3_avoid);
	TEST(gw_3_preferences_combine);
	TEST(gw_3_nodes);
	TEST(gw_3_feeds);
	TEST(gw_3_time_ranges);
	TEST(gw_3_versions);
	TEST(gw_3_test_ctl_random);
	TEST(gw_3_include_and_versions);
	return tap_done();
}
