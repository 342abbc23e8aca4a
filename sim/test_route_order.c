/*
 * sim/test_route_order.c - in which order the usable places are taken: phases 2 and 3 of gateway.md
 * section 3, and failures.md 5.2.
 *
 * gw_3_*: section 3 of the gateway's page; fail_P*: the numbered statements on delivery.
 */
#include "route_kit.h"
#include "tap.h"

/* Phase 2 */

static void
test_gw_3_nodes_by_health(void)
{
	/* healthy before unhealthy, whatever the load */
	two_by_two();
	places[0].excluded = true;
	places[1].state = INFER_PLACE_BEHIND;
	places[2].node_load = places[3].node_load = 0.9;
	decide(0);
	CHECK(begins_with_node("b") && !d.nodes[0].healthy && d.nodes[1].healthy);
	CHECK(d.n_order == 4);
	/* ... and whatever the factor */
	places[0].node_health = 100;
	for (int i = 0; i < 50; i++)
	{
		decide(i / 50.0);
		CHECK(begins_with_node("b") && d.nodes[1].rank == 0 && d.nodes[0].rank == 1);
	}
	/* what is excluded adds nothing to its node's factor */
	two_by_two();
	places[0].excluded = true;
	for (int i = 0; i < 50; i++)
	{
		decide(i / 50.0);
		CHECK(begins_with_node("b") && d.nodes[0].health_factor == 10);
	}
	/* the health factor before the load */
	two_by_two();
	places[0].node_load = places[1].node_load = 0.9;
	places[2].state = INFER_PLACE_FAILED;
	decide(0);
	CHECK(begins_with_node("a"));
	CHECK(d.nodes[0].health_factor == 20 && d.nodes[1].health_factor == 10);
	/* by the weights of the classes */
	places[3].health_weight = 21;
	decide(0);
	CHECK(begins_with_node("b"));
	/* a server counts once, also if it serves the model twice */
	two_by_two();
	places[1].server = "a1";
	decide(0);
	CHECK(begins_with_node("b") && d.nodes[0].health_factor == 10);
	/* what was found of the whole node counts, with servers of which this model knows nothing */
	places[0].node_health = 30;
	decide(0);
	CHECK(begins_with_node("a") && d.nodes[0].health_factor == 30);
}

static void
test_gw_3_nodes_by_load(void)
{
	two_by_two();
	places[0].node_load = places[1].node_load = 0.35;
	places[2].node_load = places[3].node_load = 0.2;
	decide(0);
	CHECK(begins_with_node("b") && d.nodes[0].load == 0.35);
	/* a sample is old: what is in flight now counts if it is more */
	for (int i = 2; i < 4; i++)
	{
		places[i].limit = 10;
		places[i].in_flight = 2 * i - 1;
	}
	decide(0);
	CHECK(begins_with_node("a") && d.nodes[1].load == 0.4);
	/* less than a tenth is no difference: then the better server decides */
	places[0].node_load = 0.42;
	places[0].outstanding = places[1].outstanding = 0.5;
	places[2].outstanding = 1;
	places[3].outstanding = 1;
	decide(0);
	CHECK(begins_with_node("a"));
}

static void
test_gw_3_strategy_smart(void)
{
	int a = 0;

	two_by_two();
	request.last_node = "b";
	for (int i = 0; i < 100; i++)
	{
		decide(i / 100.0);
		CHECK(begins_with_node("b"));
	}
	/* only among equals */
	places[2].node_load = 0.2;
	decide(0);
	CHECK(begins_with_node("a"));
	places[2].node_load = 0;
	/* a server that is much slower is no equal */
	places[0].latency_us = places[1].latency_us = 1000;
	places[2].latency_us = places[3].latency_us = 20000;
	for (int i = 0; i < nplaces; i++)
		places[i].heard_us = NOW;
	decide(0);
	CHECK(begins_with_node("a"));
	/* without a last one, at random */
	two_by_two();
	for (int i = 0; i < 1000; i++)
	{
		decide(draw_number((uint64_t) i + 1));
		a += begins_with_node("a");
	}
	CHECK(a > 450 && a < 550);
}

static void
test_gw_3_strategy_rr(void)
{
	static const char *const servers[] = {"a", "b", "c", "d", "e"};

	infer_route_request_init(&request);
	for (nplaces = 0; nplaces < 5; nplaces++)
		places[nplaces] = PLACE(servers[nplaces], servers[nplaces]);
	request.strategy = INFER_STRATEGY_RR;
	request.last_node = "b";
	for (uint64_t turn = 0; turn < 12; turn++)
	{
		request.turn = turn;
		decide(0.3);
		for (int k = 0; k < 5; k++)
			CHECK(d.order[k] == (int) ((turn + (uint64_t) k) % 5));
	}
	/* those that are worse are not in the circle */
	places[2].node_load = 0.5;
	places[4].state = INFER_PLACE_FAILED;
	for (uint64_t turn = 0; turn < 12; turn++)
	{
		static const int circle[] = {0, 1, 3};

		request.turn = turn;
		decide(0.3);
		for (int k = 0; k < 3; k++)
			CHECK(d.order[k] == circle[(turn + (uint64_t) k) % 3]);
		CHECK(d.n_order == 4 && d.order[3] == 2);
	}
}

static void
test_gw_3_is_mut(void)
{
	two_by_two();
	places[3].primary = true;
	places[3].node_load = 0.9;
	places[3].outstanding = 10;
	decide(0);
	CHECK(begins_with_node("a"));
	request.is_mut = true;
	CHECK(same(always(), "b2") && d.n_order == 4);
	/* preferred, not demanded; and a caller's word comes first */
	request.prefs[INFER_ROUTE_PREFER] = NAMES("a1");
	CHECK(same(always(), "a1"));
	request.prefs[INFER_ROUTE_PREFER] = (InferNames){0, NULL};
	places[3].state = INFER_PLACE_FAILED;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NONE && d.n_order == 3);
}

/* Phase 3 */

/* The order is the backlog: the best node's places, then the others'. */
static void
test_gw_3_backlog(void)
{
	two_by_two();
	places[4] = PLACE("c1", "c");
	nplaces = 5;
	places[0].node_load = 0.5;
	places[2].node_load = 0.2;
	for (int i = 0; i < 50; i++)
	{
		decide(i / 50.0);
		/* nodes a and b are larger, so their health factor is; c comes last */
		CHECK(d.n_order == 5 && places[d.order[0]].node[0] == 'b' &&
			  places[d.order[1]].node[0] == 'b' && places[d.order[2]].node[0] == 'a' &&
			  places[d.order[3]].node[0] == 'a' && d.order[4] == 4);
	}
}

static void
test_gw_3_queue_model(void)
{
	two_by_two();
	nplaces = 2;
	places[0].outstanding = 3;
	places[1].outstanding = 2;
	CHECK(same(always(), "a2"));
	/* by weight: 6 of weight 3 are as 2 */
	places[0].outstanding = 5;
	places[0].weight = 3;
	CHECK(same(always(), "a1"));
	places[0].outstanding = 7;
	CHECK(same(always(), "a2"));
	/* a server that says it is dear */
	two_by_two();
	nplaces = 2;
	places[0].penalty = 4;
	CHECK(same(always(), "a2"));
	places[1].outstanding = 3.5;
	CHECK(same(always(), "a1"));
	/* without weight: only when the others are bad */
	two_by_two();
	nplaces = 2;
	places[0].weight = 0;
	places[1].outstanding = 100;
	CHECK(same(always(), "a2") && d.n_order == 2);
}

static void
test_gw_3_latency(void)
{
	two_by_two();
	nplaces = 2;
	places[0].heard_us = places[1].heard_us = NOW - 1000;
	places[0].latency_us = 20000;
	places[1].latency_us = 1000;
	CHECK(same(always(), "a2"));
	/* twenty times as slow: worth it when the other has twenty times as much to do */
	places[1].outstanding = 18;
	CHECK(same(always(), "a2"));
	places[1].outstanding = 20;
	CHECK(same(always(), "a1"));
	/* half again as slow is noise */
	places[1].outstanding = 0;
	places[0].latency_us = 1500;
	CHECK(same(always(), "depends"));
	/* what was slow ten seconds ago is tried again */
	places[0].latency_us = 20000;
	places[0].heard_us = NOW - INT64_C(10000001);
	CHECK(same(always(), "depends"));
	places[0].heard_us++;
	CHECK(same(always(), "a2"));
	/* ... by one request at a time, and if that hangs a minute later by another one */
	places[0].heard_us = NOW - INT64_C(60000000);
	places[0].in_flight = 1;
	CHECK(same(always(), "a2"));
	places[0].heard_us--;
	CHECK(same(always(), "depends"));
	/* who was fast, ever so long ago, is better than who is slow now */
	places[1].heard_us = 1;
	places[0].heard_us = NOW;
	CHECK(same(always(), "a2"));
	places[1].heard_us = 0;
	CHECK(same(always(), "depends"));
}

/* One smart request in a hundred goes to an equal node of which nothing was heard of late. */
static int
looks_around(void)
{
	int others = 0;

	for (int i = 0; i < 10000; i++)
	{
		decide(draw_number((uint64_t) i + 1));
		others += !begins_with_node("a");
	}
	return others;
}

static void
test_gw_3_smart_looks_around(void)
{
	int others;

	two_by_two();
	request.last_node = "a";
	for (int i = 0; i < nplaces; i++)
	{
		places[i].latency_us = 1000;
		places[i].heard_us = NOW;
	}
	CHECK(looks_around() == 0);
	places[2].heard_us = NOW - INT64_C(10000001);
	others = looks_around();
	if (others < 70 || others > 130)
		printf("# %d of 10,000\n", others);
	CHECK(others >= 70 && others <= 130); /* 3 sigma */
	/* somebody is looking already; or there is no hope; or it is no equal */
	places[2].in_flight = 1;
	CHECK(looks_around() == 0);
	places[2].in_flight = 0;
	places[2].doubted = true;
	places[2].heard_us = NOW - INT64_C(60000000);
	CHECK(looks_around() == 0);
	places[2].heard_us--;
	CHECK(looks_around() > 0);
	places[2].doubted = false;
	places[2].excluded = true;
	CHECK(looks_around() == 0);
	places[2].excluded = false;
	places[2].node_load = 0.1;
	CHECK(looks_around() == 0);
	places[2].node_load = 0;
	/* where turns are taken, all are heard of */
	request.strategy = INFER_STRATEGY_RR;
	CHECK(looks_around() == 0);
	request.strategy = INFER_STRATEGY_SMART;
	/* of which nothing was ever heard */
	places[2].heard_us = 0;
	places[2].latency_us = 0;
	others = looks_around();
	CHECK(others >= 70 && others <= 130);
	places[2].in_flight = 1;
	CHECK(looks_around() == 0);
}

/* Idle servers are taken by their weights: 3 of 4, within 3 sigma of 10,000. */
static void
test_gw_3_weight(void)
{
	int heavy = 0;

	two_by_two();
	nplaces = 2;
	places[0].weight = 3;
	for (int i = 0; i < 10000; i++)
	{
		decide(draw_number((uint64_t) i + 1));
		heavy += d.order[0] == 0;
	}
	if (heavy < 7370 || heavy > 7630)
		printf("# %d of 10,000\n", heavy);
	CHECK(heavy >= 7370 && heavy <= 7630);
}

static void
test_gw_3_duration(void)
{
	two_by_two();
	places[0].duration_weight = 1;
	places[0].outstanding = 0;
	places[1].outstanding = places[2].outstanding = places[3].outstanding = 3;
	CHECK(same(always(), "a1"));
	request.duration = INFER_DURATION_LONG;
	for (int i = 0; i < 50; i++)
	{
		decide(i / 50.0);
		CHECK(d.n_order == 4 && d.order[3] == 0);
	}
	request.duration = INFER_DURATION_EPIC;
	decide(0);
	CHECK(d.order[3] == 0);
	/* unless all do */
	for (int i = 1; i < nplaces; i++)
		places[i].duration_weight = 2;
	CHECK(same(always(), "a1"));
	/* and it is a matter of choice, not of being bad: an overloaded one comes after it */
	places[1].duration_weight = 0;
	places[1].excluded = true;
	decide(0);
	CHECK(d.order[3] == 1);
}

/* --- failures.md 5.2 --- */

/* Node a is near: what comes first, and what last. */
static void
test_fail_P50_tiers_and_spill(void)
{
	two_by_two();
	request.locality = "a";
	places[0].outstanding = places[1].outstanding = 50;
	places[0].node_load = 0.9;
	for (int i = 0; i < 50; i++)
	{
		decide(i / 50.0);
		CHECK(begins_with_node("a") && d.order[1] < 2); /* nearest first, however busy */
		CHECK(d.nodes[0].rank == 0);
	}
	/* one bad of two stays local: healthy local, excluded local, remote */
	places[0].excluded = true;
	decide(0);
	CHECK(d.order[0] == 1 && d.order[1] == 0 && d.n_order == 4);
	/* two bad: distance does not matter */
	places[1].penalty = 1.002;
	decide(0);
	CHECK(begins_with_node("b"));
	CHECK(d.order[3] == 0);    /* P51: excluded is last overall */
	places[1].penalty = 1.001; /* that much is not bad */
	decide(0);
	CHECK(d.order[0] == 1 && d.order[1] == 0);
	/* what is down counts, though it is not there to choose */
	places[1].penalty = 1;
	places[0].excluded = false;
	places[0].state = INFER_PLACE_FAILED;
	decide(0);
	CHECK(d.order[0] == 1 && d.n_order == 3);
	places[1].excluded = true;
	decide(0);
	CHECK(begins_with_node("b") && d.order[2] == 1);
	/* servers that only a fallback has are no part of it */
	two_by_two();
	request.locality = "a";
	for (int i = 0; i < 2; i++)
	{
		places[4 + i] = PLACE(i == 0 ? "a3" : "a4", "a");
		places[4 + i].tier = 1;
		places[4 + i].state = INFER_PLACE_FAILED;
	}
	nplaces = 6;
	places[0].outstanding = places[1].outstanding = 50;
	decide(0);
	CHECK(begins_with_node("a"));
	/* two bad of three are enough, the one that is down included */
	two_by_two();
	request.locality = "a";
	places[4] = PLACE("a3", "a");
	nplaces = 5;
	places[0].state = INFER_PLACE_FAILED;
	places[2].node_health = 50;
	decide(0);
	CHECK(begins_with_node("a"));
	places[1].penalty = 2;
	decide(0);
	CHECK(begins_with_node("b"));
	places[0].state = INFER_PLACE_DRAINING;
	decide(0);
	CHECK(begins_with_node("b"));
	/* what is dead has left the set: one bad of one */
	two_by_two();
	request.locality = "a";
	places[0].state = INFER_PLACE_DEAD;
	places[1].penalty = 2;
	decide(0);
	CHECK(begins_with_node("b"));
}

static void
test_fail_P50_the_only_one(void)
{
	two_by_two();
	request.locality = "a";
	places[1] = PLACE("c1", "c");
	decide(0);
	CHECK(begins_with_node("a"));
	places[0].penalty = 1.5;
	places[0].outstanding = 1;
	decide(0);
	CHECK(!begins_with_node("a"));
}

static void
test_fail_P50_unknown_is_not_near(void)
{
	int a = 0;

	two_by_two();
	places[0].node = places[1].node = "";
	request.locality = "";
	for (int i = 0; i < 1000; i++)
	{
		decide(draw_number((uint64_t) i + 1));
		a += d.order[0] < 2;
	}
	CHECK(a > 450 && a < 550);
	request.locality = NULL;
	places[0].node = places[1].node = NULL;
	CHECK(same(always(), "depends"));
}

/* Exact ties: each of four within 3 sigma of 2,500, in the first position and in the last. */
static void
test_fail_P50_ties_at_random(void)
{
	int first[4] = {0};
	int last[4] = {0};

	two_by_two();
	for (int i = 0; i < nplaces; i++)
		places[i].node = "a";
	for (int i = 0; i < 10000; i++)
	{
		decide(draw_number((uint64_t) i + 1));
		first[d.order[0]]++;
		last[d.order[3]]++;
	}
	for (int i = 0; i < nplaces; i++)
	{
		CHECK(first[i] > 2370 && first[i] < 2630);
		CHECK(last[i] > 2370 && last[i] < 2630);
	}
}

static void
test_fail_P51_excluded_last(void)
{
	/* nothing is near: one tier, so last of all, whatever its node */
	two_by_two();
	places[0].excluded = true;
	places[1].outstanding = places[2].outstanding = places[3].outstanding = 100;
	places[2].node_load = 0.9;
	decide(0);
	CHECK(d.n_order == 4 && d.order[3] == 0);
	/* but used when nothing else is left */
	for (int i = 1; i < nplaces; i++)
		places[i].state = INFER_PLACE_FAILED;
	CHECK(same(always(), "a1"));
	/* the same for one that is loading */
	two_by_two();
	places[2].state = INFER_PLACE_BEHIND;
	decide(0);
	CHECK(d.order[3] == 2);
}

/* Affinity */

#define SERVERS 8

static void
pool_of_servers(void)
{
	static char names[SERVERS][4];

	infer_route_request_init(&request);
	for (nplaces = 0; nplaces < SERVERS; nplaces++)
	{
		names[nplaces][0] = 's';
		names[nplaces][1] = (char) ('0' + nplaces);
		places[nplaces] = PLACE(names[nplaces], names[nplaces]);
	}
}

static void
test_gw_affinity(void)
{
	int hits[SERVERS] = {0};
	int moved = 0;

	pool_of_servers();
	for (uint64_t prefix = 1; prefix <= 4000; prefix++)
	{
		int home;

		request.affinity = prefix * UINT64_C(0x9e3779b97f4a7c15);
		decide(0.1);
		home = d.order[0];
		hits[home]++;
		/* the same server, whatever the draw, the load below the bound, and the last node */
		places[home].latency_us = 500;
		places[(home + 1) % SERVERS].node_load = 0.5;
		request.last_node = "s3";
		decide(0.9);
		CHECK(d.order[0] == home && d.n_order == SERVERS);
		places[(home + 1) % SERVERS].node_load = 0;
		/* one that goes takes only its own share with it */
		places[7].state = INFER_PLACE_FAILED;
		decide(0.9);
		moved += d.order[0] != home;
		CHECK(home == 7 || d.order[0] == home);
		places[7].state = INFER_PLACE_UP;
	}
	for (int i = 0; i < SERVERS; i++)
		CHECK(hits[i] > 400 && hits[i] < 600);
	CHECK(moved == hits[7]);
	/* each has its share by weight: 4 of 11 for the heavy one of eight */
	places[3].weight = 4;
	hits[3] = 0;
	for (uint64_t prefix = 1; prefix <= 4000; prefix++)
	{
		request.affinity = prefix * UINT64_C(0x9e3779b97f4a7c15);
		decide(0.1);
		hits[3] += d.order[0] == 3;
	}
	CHECK(hits[3] > 1363 && hits[3] < 1546); /* 3 sigma */
}

/* A place that holds more than 1.25 times the mean, and two, is passed over, by all the same. */
static void
test_gw_affinity_is_bounded(void)
{
	int home;
	int second;

	pool_of_servers();
	request.affinity = 12345;
	for (int i = 0; i < SERVERS; i++)
		places[i].outstanding = 8;
	decide(0);
	home = d.order[0];
	second = d.order[1];
	places[home].outstanding = 12.7; /* of 8.59 on average */
	decide(0);
	CHECK(d.order[0] == home);
	places[home].outstanding = 12.8; /* of 8.6 */
	decide(0);
	CHECK(d.order[0] == second && d.n_order == SERVERS && d.order[SERVERS - 1] == home);
	/* few are no load */
	for (int i = 0; i < SERVERS; i++)
		places[i].outstanding = 0;
	places[home].outstanding = 2;
	decide(0);
	CHECK(d.order[0] == home);
	places[home].outstanding = 3;
	decide(0);
	CHECK(d.order[0] == second);
	/* a heavier one may hold more */
	places[home].weight = 2;
	decide(0);
	CHECK(d.order[0] == home);
	/* what is overloaded has lost its claim, and what is preferred comes first */
	places[home].excluded = true;
	decide(0);
	CHECK(d.order[0] == second);
	request.prefs[INFER_ROUTE_PREFER] = NAMES((char *) places[home].server);
	decide(0);
	CHECK(d.order[0] == home);
}

int
main(void)
{
	TEST(gw_3_nodes_by_health);
	TEST(gw_3_nodes_by_load);
	TEST(gw_3_strategy_smart);
	TEST(gw_3_strategy_rr);
	TEST(gw_3_is_mut);
	TEST(gw_3_backlog);
	TEST(gw_3_queue_model);
	TEST(gw_3_latency);
	TEST(gw_3_smart_looks_around);
	TEST(gw_3_weight);
	TEST(gw_3_duration);
	TEST(fail_P50_tiers_and_spill);
	TEST(fail_P50_the_only_one);
	TEST(fail_P50_unknown_is_not_near);
	TEST(fail_P50_ties_at_random);
	TEST(fail_P51_excluded_last);
	TEST(gw_affinity);
	TEST(gw_affinity_is_bounded);
	return tap_done();
}
