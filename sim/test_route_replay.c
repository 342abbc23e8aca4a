/*
 * sim/test_route_replay.c - what holds of every decision, over random input.
 */
#include "route_kit.h"
#include "tap.h"

#include <stdio.h>

static uint64_t random_state;

static int
below(int n)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (int) ((random_state >> 33) % (uint64_t) n);
}

static InferNames
some_names(char **from, int n, int one_in)
{
	static char *picked[64][8];
	static int used;
	InferNames names = {0, picked[used++ % 64]};

	if (below(one_in) == 0)
		for (int i = 0; i < n && names.n < 4; i++)
			if (below(3) == 0)
				names.names[names.n++] = from[i];
	return names;
}

static void
random_input(void)
{
	static char *servers[] = {"s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9"};
	static char *node_names[] = {"a", "b", "c", "d", NULL};
	static char *named[] = {"s0", "s1", "s2", "s5", "a", "b", "d", "none"};
	static char *class_names[] = {"chat", "embed", "rerank"};
	static char *feed_names[] = {"x", "y", "z"};

	infer_route_request_init(&request);
	request.nodes = some_names(node_names, 4, 6);
	request.feeds = some_names(feed_names, 3, 6);
	request.service_classes = some_names(class_names, 3, 3);
	for (int p = 0; p < INFER_ROUTE_PREFS; p++)
		request.prefs[p] = some_names(named, COUNT(named), 4);
	request.version = below(5) == 0 ? 100 + below(3) : -1;
	request.min_version = below(4) == 0 ? 99 + below(3) : -1;
	request.test_ctl = (InferTestControl) below(4);
	request.is_mut = below(4) == 0;
	request.is_solo = below(4) == 0;
	request.duration = (InferDuration) (1 + below(4));
	request.ts_range = (InferTimeRange){below(4) == 0, below(50), below(100)};
	request.strategy = (InferStrategy) below(2);
	request.last_node = node_names[below(5)];
	request.turn = (uint64_t) below(1000);
	request.locality = node_names[below(5)];
	request.affinity = below(3) == 0 ? (uint64_t) below(100) : 0;
	request.min_tier = below(8) == 0 ? 1 : 0;
	request.probe = below(8) == 0;
	nplaces = below(17);
	for (int i = 0; i < nplaces; i++)
		places[i] = (InferRoutePlace){
			.server = servers[below(10)],
			.node = node_names[below(5)],
			.service_class = class_names[below(3)],
			.version = below(3) == 0 ? -1 : 99 + below(3),
			.weight = below(10) / 3.0,
			.feeds = some_names(feed_names, 3, 2),
			.ts_range = {below(3) == 0, below(50), below(100)},
			.primary = below(4) == 0,
			.tier = below(4) == 0,
			.permitted = below(10) != 0,
			.state = below(3) == 0 ? (InferPlaceState) below(5) : INFER_PLACE_UP,
			.excluded = below(6) == 0,
			.outstanding = below(10),
			.penalty = 1 + below(3),
			.latency_us = below(1000),
			.heard_us = NOW - below(20) * 1000000,
			.in_flight = below(10),
			.limit = below(10),
			.duration_weight = below(3),
			.health_weight = below(20),
			.node_load = below(10) / 10.0,
			.node_health = below(3) == 0 ? 10 : 0,
		};
}

/* What holds of every decision. */
static void
check_invariants(void)
{
	int usable = 0;
	bool node_ranks[INFER_ROUTE_MAX_PLACES] = {false};

	for (int i = 0; i < nplaces; i++)
	{
		const InferRouteVerdict *verdict = &d.places[i];

		if (verdict->reason == INFER_BY_NOTHING)
		{
			usable++;
			CHECK(verdict->rank >= 0 && verdict->rank < d.n_order &&
				  d.order[verdict->rank] == i); /* each usable place exactly once */
			CHECK(places[i].permitted && places[i].state != INFER_PLACE_DEAD &&
				  places[i].state != INFER_PLACE_DRAINING);
			CHECK(request.probe || places[i].state != INFER_PLACE_FAILED);
			CHECK(places[i].tier == d.tier);
		}
		else
			CHECK(verdict->rank == -1 && !verdict->planned);
	}
	CHECK(usable == d.n_order);
	CHECK((d.cause == INFER_CAUSE_NONE) == (d.n_order > 0));
	CHECK((d.cause == INFER_CAUSE_NONE) == (d.n_plan > 0));
	for (int p = 0; p < d.n_plan; p++)
		CHECK(d.places[d.plan[p]].planned);
	if (d.cause != INFER_CAUSE_NONE)
		return;
	/* the plan has all that is needed and included, nothing excluded, and is the first if alone */
	for (int c = 0; c < request.service_classes.n; c++)
	{
		bool found = false;

		for (int p = 0; p < d.n_plan; p++)
			found |= strcmp(places[d.plan[p]].service_class, request.service_classes.names[c]) == 0;
		CHECK(found);
	}
	for (int t = 0; t < request.prefs[INFER_ROUTE_INCLUDE].n; t++)
	{
		bool found = false;

		for (int p = 0; p < d.n_plan; p++)
			found |= infer_names_have((InferNames){1, &request.prefs[INFER_ROUTE_INCLUDE].names[t]},
									  places[d.plan[p]].server) ||
					 infer_names_have((InferNames){1, &request.prefs[INFER_ROUTE_INCLUDE].names[t]},
									  places[d.plan[p]].node);
		CHECK(found);
	}
	for (int rank = 0; rank < d.n_order; rank++)
		CHECK(!infer_names_have(request.prefs[INFER_ROUTE_EXCLUDE], places[d.order[rank]].server) &&
			  !infer_names_have(request.prefs[INFER_ROUTE_EXCLUDE], places[d.order[rank]].node));
	if (request.service_classes.n == 0 && request.prefs[INFER_ROUTE_INCLUDE].n == 0)
		CHECK(d.n_plan == 1 && d.plan[0] == d.order[0]);
	for (int p = 1; request.is_solo && p < d.n_plan; p++)
		CHECK(d.places[d.plan[p]].node == d.places[d.plan[0]].node);
	for (int node = 0; node < d.n_nodes; node++)
		if (d.nodes[node].usable)
		{
			CHECK(d.nodes[node].rank >= 0 && !node_ranks[d.nodes[node].rank]);
			node_ranks[d.nodes[node].rank] = true;
		}
		else
			CHECK(d.nodes[node].rank == -1);
}

/* The same input, the same decision: whatever was in memory before. */
static void
test_gw_3_replay(void)
{
	static InferRouteDecision again;
	int decided = 0;

	random_state = 20261130;
	for (int i = 0; i < 10000 && tap_failures < 20; i++)
	{
		double draw;

		random_input();
		draw = below(1000000) / 1e6;
		memset(&d, i & 0xff, sizeof(d));
		decide(draw);
		check_invariants();
		decided += d.cause == INFER_CAUSE_NONE;
		memset(&again, ~i & 0xff, sizeof(again));
		infer_route_decide(&request, places, nplaces, NOW, draw, &again);
		CHECK(again.cause == d.cause && again.reason == d.reason && again.target == d.target &&
			  again.target_reason == d.target_reason && again.tier == d.tier);
		CHECK(again.n_order == d.n_order && again.n_plan == d.n_plan);
		CHECK(memcmp(again.order, d.order, sizeof(int) * (size_t) d.n_order) == 0);
		CHECK(memcmp(again.plan, d.plan, sizeof(int) * (size_t) d.n_plan) == 0);
		for (int k = 0; k < nplaces; k++)
			CHECK(again.places[k].reason == d.places[k].reason &&
				  again.places[k].score == d.places[k].score);
	}
	/* both ends are met often enough to mean something */
	if (decided < 2000 || decided > 9000)
		printf("# %d of 10,000 decided\n", decided);
	CHECK(decided >= 2000 && decided <= 9000);
}

/* More places than a decision sees. */
static void
test_gw_3_many_places(void)
{
	static InferRoutePlace many[INFER_ROUTE_MAX_PLACES + 1];
	static char names[INFER_ROUTE_MAX_PLACES + 1][16];

	infer_route_request_init(&request);
	for (int i = 0; i <= INFER_ROUTE_MAX_PLACES; i++)
	{
		snprintf(names[i], sizeof(names[i]), "s%d", i);
		many[i] = PLACE(names[i], names[i]);
	}
	infer_route_decide(&request, many, INFER_ROUTE_MAX_PLACES + 1, NOW, 0.5, &d);
	CHECK(d.n_order == INFER_ROUTE_MAX_PLACES && d.n_nodes == INFER_ROUTE_MAX_PLACES);
}

int
main(void)
{
	TEST(gw_3_replay);
	TEST(gw_3_many_places);
	return tap_done();
}
