/*
 * sim/test_route.c - which places cannot serve a request, and why: phase 1 of gateway.md section 3.
 *
 * gw_3_*: section 3 of the gateway's page; fail_P*: the numbered statements on delivery.
 */
#include "route_kit.h"
#include "tap.h"

/* Phase 1: what a request asks for */

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

/* Service classes */

static void
classes(const char *a1, const char *a2, const char *b1, const char *b2)
{
	two_by_two();
	places[0].service_class = a1;
	places[1].service_class = a2;
	places[2].service_class = b1;
	places[3].service_class = b2;
}

static void
test_gw_3_service_classes(void)
{
	classes("embed", "chat", "embed", "rerank");
	request.service_classes = NAMES("embed");
	decide(0);
	CHECK(d.n_order == 2 && d.n_plan == 1 && same(reason("a2"), "service_classes"));
	/* one server for each, on the node that has all */
	request.service_classes = NAMES("chat", "embed");
	CHECK(same(always(), "a2 a1"));
	places[2].node_load = 0;
	places[0].node_load = places[1].node_load = 0.9;
	CHECK(same(always(), "a2 a1"));
	/* none has: from several */
	request.service_classes = NAMES("chat", "rerank");
	CHECK(same(always(), "a2 b2"));
	request.is_solo = true;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NO_DEST && d.reason == INFER_BY_SOLO);
	request.is_solo = false;
	/* one that nobody has, and one that is down */
	request.service_classes = NAMES("chat", "paint");
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NO_DEST && d.reason == INFER_BY_INCOMPLETE);
	CHECK(same(d.target, "paint") && same(reason("a2"), "incomplete"));
	request.service_classes = NAMES("chat", "rerank");
	places[3].state = INFER_PLACE_FAILED;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_ALL_FAILED && d.reason == INFER_BY_INCOMPLETE);
	request.service_classes = NAMES("paint");
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NO_DEST && d.reason == INFER_BY_SERVICE_CLASSES);
}

static void
test_gw_3_is_solo(void)
{
	classes("embed", "chat", "embed", "rerank");
	request.is_solo = true;
	request.service_classes = NAMES("chat", "embed");
	CHECK(same(always(), "a2 a1"));
	CHECK(d.n_order == 2 && same(reason("b1"), "is_solo"));
	places[1].state = INFER_PLACE_FAILED;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_ALL_FAILED && same(reason("a2"), "failed"));
	/* with one class every node is whole */
	two_by_two();
	request.is_solo = true;
	decide(0);
	CHECK(d.n_order == 4 && d.n_plan == 1);
}

static void
test_gw_3_include_and_classes(void)
{
	classes("embed", "chat", "embed", "chat");
	request.service_classes = NAMES("embed", "chat");
	/* the server names its node: the other class comes from there */
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("b2");
	CHECK(same(always(), "b2 b1"));
	CHECK(same(reason("a2"), "include"));
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("a", "b");
	CHECK(same(always(), "a1 a2 b1 b2"));
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("a1", "b2");
	CHECK(same(always(), "a1 b2"));
	/* a node that is in the plan already gets nothing more */
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("b2", "b");
	request.prefs[INFER_ROUTE_PREFER] = NAMES("b1");
	places[3].service_class = "embed";
	request.service_classes = NAMES("embed");
	CHECK(same(always(), "b2"));
	/* ... or from elsewhere, if it is not there */
	classes("embed", "chat", "embed", "embed");
	request.service_classes = NAMES("embed", "chat");
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("b2");
	CHECK(same(always(), "b2 a2"));
}

/* One version for all classes, where there is one. */
static void
test_gw_3_classes_and_versions(void)
{
	classes("embed", "chat", "embed", "chat");
	request.service_classes = NAMES("embed", "chat");
	places[0].version = 100;
	places[1].version = 101;
	places[2].version = 101;
	places[3].version = 101;
	decide(0);
	CHECK(same(reason("a1"), "test_ctl") && d.n_order == 3);
	CHECK(same(always(), "b1 b2"));
	/* where there is none, each class has its own */
	places[2].version = 102;
	decide(0);
	CHECK(same(reason("b1"), "test_ctl") && d.n_order == 3);
	request.test_ctl = INFER_TEST_TEST;
	decide(0);
	CHECK(same(reason("a1"), "test_ctl") && d.n_order == 3);
	/* a node has what it has */
	request.test_ctl = INFER_TEST_PROD;
	request.is_solo = true;
	decide(0);
	CHECK(d.n_order == 4);
	places[2].version = 101;
	CHECK(same(always(), "b1 b2") && d.n_order == 2);
	CHECK(same(reason("a1"), "test_ctl") && same(reason("a2"), "is_solo"));
	/* each version has all, but on two nodes */
	places[1].version = 101;
	places[2].version = 101;
	places[3].version = 100;
	decide(0);
	CHECK(d.n_order == 4);
	/* what completes the classes beside what is included is a choice by itself */
	classes("embed", "paint", "chat", "chat");
	request.service_classes = NAMES("embed", "chat");
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("b");
	places[0].version = places[2].version = 200;
	CHECK(same(always(), "b2 a1") && same(reason("b1"), "test_ctl"));
}

/* Phase 1: state */

/* What left nothing, and so what would help. */
static void
test_gw_3_causes(void)
{
	two_by_two();
	nplaces = 0;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NO_DEST && d.reason == INFER_BY_NOTHING);
	two_by_two();
	for (int i = 0; i < nplaces; i++)
		places[i].permitted = false;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NO_PRIVILEGE && d.reason == INFER_BY_PRIVILEGE);
	places[1].permitted = true;
	places[1].state = INFER_PLACE_DEAD;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_STALE && d.reason == INFER_BY_DEAD);
	places[2].permitted = true;
	places[2].state = INFER_PLACE_DRAINING;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_DRAINING && d.reason == INFER_BY_DRAINING);
	places[3].permitted = true;
	places[3].state = INFER_PLACE_FAILED;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_ALL_FAILED && d.reason == INFER_BY_FAILED);
	/* what a request asks for comes first: a server that it does not want may be down */
	request.prefs[INFER_ROUTE_EXCLUDE] = NAMES("a", "b");
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NO_DEST && d.reason == INFER_BY_EXCLUDE);
	for (int i = 0; i < INFER_BY_COUNT; i++)
		CHECK(strcmp(infer_route_reason_name((InferRouteReason) i), "unknown") != 0);
}

/* As if they could be reached; not what never will. */
static void
test_fail_P57_probe(void)
{
	two_by_two();
	for (int i = 0; i < nplaces; i++)
		places[i].state = INFER_PLACE_FAILED;
	places[1].state = INFER_PLACE_DEAD;
	places[2].state = INFER_PLACE_DRAINING;
	places[3].outstanding = 5;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_ALL_FAILED);
	request.probe = true;
	CHECK(same(always(), "a1"));
	CHECK(same(order(), "a1 b2"));
	/* chance spreads the probes of many calls */
	places[3].outstanding = 0;
	CHECK(same(always(), "depends"));
}

static void
test_gw_3_tiers(void)
{
	two_by_two();
	places[2].tier = 1;
	places[3].tier = 2;
	decide(0);
	CHECK(d.n_order == 2 && d.tier == 0 && same(reason("b1"), "tier"));
	places[0].excluded = places[1].excluded = true;
	decide(0);
	CHECK(d.n_order == 2 && d.tier == 0); /* overloaded is not down */
	places[0].state = places[1].state = INFER_PLACE_FAILED;
	CHECK(same(always(), "b1") && d.tier == 1 && d.n_order == 1);
	request.min_tier = 2;
	CHECK(same(always(), "b2") && d.tier == 2 && same(reason("b1"), "tier"));
	/* the least version is the model's, not its fallbacks' */
	request.min_tier = 0;
	request.min_version = 100;
	decide(0.5);
	CHECK(same(reason("a1"), "min_version") && d.tier == 1 && same(order(), "b1"));
	request.min_version = INFER_ROUTE_NO_VERSION;
	/* a tier without a class is passed over, and so is one without what is included */
	two_by_two();
	places[2].tier = places[3].tier = 1;
	places[1].service_class = places[3].service_class = "embed";
	request.service_classes = NAMES("chat", "embed");
	places[1].state = INFER_PLACE_FAILED;
	CHECK(same(always(), "b1 b2") && same(reason("a1"), "tier"));
	request.service_classes = (InferNames){0, NULL};
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("b2");
	CHECK(same(always(), "b2"));
	/* versions are a tier's own */
	two_by_two();
	places[0].version = places[1].version = 200;
	places[2].tier = places[3].tier = 1;
	decide(0);
	CHECK(d.n_order == 2 && d.tier == 0 && begins_with_node("a"));
}

/* A version that the request names is the model's: a fallback stands in for it, with the version
 * that it would serve otherwise.  It does not stand in for one that the model does not have. */
static void
test_gw_8_versions_of_fallbacks(void)
{
	two_by_two();
	places[0].version = 100;
	places[1].version = 200;
	places[2].tier = places[3].tier = 1;
	places[2].version = 300;
	places[3].version = 400;
	request.version = 200;
	CHECK(same(always(), "a2") && d.tier == 0 && d.n_order == 1);
	CHECK(same(reason("a1"), "version") && same(reason("b1"), "tier"));
	places[1].state = INFER_PLACE_FAILED;
	CHECK(same(always(), "b1") && d.tier == 1 && d.n_order == 1);
	CHECK(same(reason("a1"), "version") && same(reason("b2"), "test_ctl"));
	request.test_ctl = INFER_TEST_TEST;
	CHECK(same(always(), "b2"));
	places[3].version = INFER_ROUTE_NO_VERSION;
	request.test_ctl = INFER_TEST_PROD;
	CHECK(same(always(), "b2"));
	/* the fallback has it, the model not */
	request.version = 300;
	CHECK(same(always(), "-") && d.cause == INFER_CAUSE_NO_DEST);
	CHECK(d.reason == INFER_BY_VERSION && same(reason("b1"), "version"));
	/* used up, it is the model's all the same */
	request.version = 200;
	request.min_tier = 1;
	CHECK(same(always(), "b2") && d.tier == 1);
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
	TEST(gw_3_service_classes);
	TEST(gw_3_is_solo);
	TEST(gw_3_include_and_classes);
	TEST(gw_3_classes_and_versions);
	TEST(gw_3_causes);
	TEST(fail_P57_probe);
	TEST(gw_3_tiers);
	TEST(gw_8_versions_of_fallbacks);
	return tap_done();
}
