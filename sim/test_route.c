/*
 * sim/test_route.c - which place serves a request: gateway.md section 3, failures.md 5.2.
 *
 * gw_3_*: section 3 of the gateway's page; fail_P*: the numbered statements on delivery.
 */
#include "core/route.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int) (sizeof(array) / sizeof((array)[0])))
#define NAMES(...)                                                                                 \
	(InferNames)                                                                                   \
	{                                                                                              \
		.n = COUNT(((char *[]){__VA_ARGS__})), .names = (char *[])                                 \
		{                                                                                          \
			__VA_ARGS__                                                                            \
		}                                                                                          \
	}
#define NOW INT64_C(1000000000)

/* A server of which nothing is known but where it is. */
#define PLACE(server_, node_, ...)                                                                 \
	(InferRoutePlace)                                                                              \
	{                                                                                              \
		.server = server_, .node = node_, .service_class = "chat", .weight = 1, .penalty = 1,      \
		.permitted = true, .health_weight = 10, .version = INFER_ROUTE_NO_VERSION, __VA_ARGS__     \
	}

static InferRouteDecision d;
static InferRoutePlace places[INFER_ROUTE_MAX_PLACES];
static int nplaces;
static InferRouteRequest request;

/* Two nodes of two servers, all alike. */
static void
two_by_two(void)
{
	infer_route_request_init(&request);
	places[0] = PLACE("a1", "a");
	places[1] = PLACE("a2", "a");
	places[2] = PLACE("b1", "b");
	places[3] = PLACE("b2", "b");
	nplaces = 4;
}

static void
decide(double draw)
{
	infer_route_decide(&request, places, nplaces, NOW, draw, &d);
}

/* The servers in order, "a1 a2"; "-" = none. */
static const char *
order(void)
{
	static char text[2048];

	strcpy(text, d.n_order > 0 ? "" : "-");
	for (int i = 0; i < d.n_order; i++)
	{
		strcat(text, i > 0 ? " " : "");
		strcat(text, places[d.order[i]].server);
	}
	return text;
}

static const char *
plan(void)
{
	static char text[2048];

	strcpy(text, d.n_plan > 0 ? "" : "-");
	for (int i = 0; i < d.n_plan; i++)
	{
		strcat(text, i > 0 ? " " : "");
		strcat(text, places[d.plan[i]].server);
	}
	return text;
}

static const char *
reason(const char *server)
{
	for (int i = 0; i < nplaces; i++)
		if (strcmp(places[i].server, server) == 0)
			return infer_route_reason_name(d.places[i].reason);
	return "no such server";
}

/* The plan whatever the draw; NULL: it depends on it. */
static const char *
always(void)
{
	static char text[2048];

	decide(0);
	strcpy(text, plan());
	for (int i = 1; i < 200; i++)
	{
		decide(i / 200.0);
		if (strcmp(text, plan()) != 0)
			return "depends";
	}
	return text;
}

static bool
same(const char *a, const char *b)
{
	if (strcmp(a, b) != 0)
		printf("# %s is not %s\n", a, b);
	return strcmp(a, b) == 0;
}

/* The order begins with the letter's servers: of node a, or b. */
static bool
begins_with_node(const char *node)
{
	return d.n_order > 0 && strcmp(places[d.order[0]].node, node) == 0;
}

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
}

static void
test_gw_3_include_on_two_nodes(void)
{
	two_by_two();
	request.prefs[INFER_ROUTE_INCLUDE] = NAMES("b2", "a1");
	CHECK(same(always(), "b2 a1"));
	CHECK(d.n_order == 2);
	request.is_solo = true;
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NO_DEST && d.reason == INFER_BY_SOLO);
}

static void
test_gw_3_exclude(void)
{
	two_by_two();
	request.prefs[INFER_ROUTE_EXCLUDE] = NAMES("a1", "b");
	CHECK(same(always(), "a2"));
	CHECK(same(order(), "a2"));
	CHECK(same(reason("a1"), "exclude") && same(reason("b2"), "exclude"));
	request.prefs[INFER_ROUTE_EXCLUDE] = NAMES("a", "b");
	decide(0);
	CHECK(d.cause == INFER_CAUSE_NO_DEST && d.reason == INFER_BY_EXCLUDE);
}

static void
test_gw_3_prefer(void)
{
	two_by_two();
	request.prefs[INFER_ROUTE_PREFER] = NAMES("b2");
	decide(0.3);
	CHECK(strncmp(order(), "b2 b1 a", 7) == 0 && d.n_order == 4);
	CHECK(same(always(), "b2"));
	request.prefs[INFER_ROUTE_PREFER] = NAMES("a2", "b2");
	decide(0.3);
	CHECK(same(order(), "a2 b2 a1 b1"));
	request.prefs[INFER_ROUTE_PREFER] = NAMES("b");
	decide(0.3);
	CHECK(begins_with_node("b") && d.n_order == 4);
	/* combined: exclude node a, prefer server b1 */
	request.prefs[INFER_ROUTE_EXCLUDE] = NAMES("a");
	request.prefs[INFER_ROUTE_PREFER] = NAMES("b1");
	decide(0.3);
	CHECK(same(order(), "b1 b2"));
}

static void
test_gw_3_avoid(void)
{
	two_by_two();
	request.prefs[INFER_ROUTE_AVOID] = NAMES("a1", "b");
	decide(0.3);
	CHECK(strncmp(order(), "a2 a1 b", 7) == 0 || strncmp(order(), "a2 b", 4) == 0);
	CHECK(d.n_order == 4);
	places[1].state = INFER_PLACE_FAILED;
	request.prefs[INFER_ROUTE_AVOID] = NAMES("a", "b");
	decide(0.3);
	CHECK(d.cause == INFER_CAUSE_NONE && d.n_order == 3);
}

int
main(void)
{
	TEST(gw_3_include_server);
	TEST(gw_3_include_on_two_nodes);
	TEST(gw_3_exclude);
	TEST(gw_3_prefer);
	TEST(gw_3_avoid);
	return tap_done();
}
