/*
 * sim/route_kit.h - a small world of places, for the tests of core/route.
 */
#ifndef INFER_SIM_ROUTE_KIT_H
#define INFER_SIM_ROUTE_KIT_H

#include "core/route.h"
#include <stdio.h>
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
static inline void
two_by_two(void)
{
	infer_route_request_init(&request);
	places[0] = PLACE("a1", "a");
	places[1] = PLACE("a2", "a");
	places[2] = PLACE("b1", "b");
	places[3] = PLACE("b2", "b");
	nplaces = 4;
}

static inline void
decide(double draw)
{
	infer_route_decide(&request, places, nplaces, NOW, draw, &d);
}

/* Their servers, "a1 a2"; "-" = none. */
static inline const char *
names_of(const int *list, int n, char *text)
{
	strcpy(text, n > 0 ? "" : "-");
	for (int i = 0; i < n; i++)
	{
		strcat(text, i > 0 ? " " : "");
		strcat(text, places[list[i]].server);
	}
	return text;
}

static inline const char *
order(void)
{
	static char text[2048];

	return names_of(d.order, d.n_order, text);
}

static inline const char *
plan(void)
{
	static char text[2048];

	return names_of(d.plan, d.n_plan, text);
}

static inline const char *
reason(const char *server)
{
	for (int i = 0; i < nplaces; i++)
		if (strcmp(places[i].server, server) == 0)
			return infer_route_reason_name(d.places[i].reason);
	return "no such server";
}

/* The plan whatever the draw; NULL: it depends on it. */
static inline const char *
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

static inline bool
same(const char *a, const char *b)
{
	if (strcmp(a, b) != 0)
		printf("# %s is not %s\n", a, b);
	return strcmp(a, b) == 0;
}

static inline bool
begins_with_node(const char *node)
{
	return d.n_order > 0 && strcmp(places[d.order[0]].node, node) == 0;
}

/* The i-th of a sequence in [0,1) that looks random. */
static inline double
draw_number(uint64_t i)
{
	return (double) (i * UINT64_C(0x9e3779b97f4a7c15) >> 11) * 0x1p-53;
}

#endif
