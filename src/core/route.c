/*
 * core/route.c - which of a model's places serves a request: the steps of a decision, and what
 * they share.  What and why: core/route.h.
 */
#include "core/route.h"

#include "core/route_private.h"

#include <string.h>

static const char *const reason_names[] = {
	[INFER_BY_NOTHING] = "usable",
	[INFER_BY_NODES] = "nodes",
	[INFER_BY_SERVICE_CLASSES] = "service_classes",
	[INFER_BY_VERSION] = "version",
	[INFER_BY_MIN_VERSION] = "min_version",
	[INFER_BY_FEEDS] = "feeds",
	[INFER_BY_TS_RANGE] = "ts_range",
	[INFER_BY_EXCLUDE] = "exclude",
	[INFER_BY_PRIVILEGE] = "privilege",
	[INFER_BY_NO_ROOM] = "no_room",
	[INFER_BY_DEAD] = "dead",
	[INFER_BY_DRAINING] = "draining",
	[INFER_BY_FAILED] = "failed",
	[INFER_BY_TIER] = "tier",
	[INFER_BY_INCOMPLETE] = "incomplete",
	[INFER_BY_SOLO] = "is_solo",
	[INFER_BY_INCLUDE] = "include",
	[INFER_BY_TEST_CTL] = "test_ctl",
};

const char *
infer_route_reason_name(InferRouteReason reason)
{
	return (unsigned) reason < INFER_BY_COUNT ? reason_names[reason] : "unknown";
}

/* The finishing step of splitmix64: each bit of the input changes half of the output's. */
uint64_t
infer_route_mix(uint64_t bits)
{
	bits += UINT64_C(0x9e3779b97f4a7c15);
	bits = (bits ^ (bits >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	bits = (bits ^ (bits >> 27)) * UINT64_C(0x94d049bb133111eb);
	return bits ^ (bits >> 31);
}

/* FNV-1a */
uint64_t
infer_route_hash(const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; text != NULL && *text != '\0'; text++)
		hash = (hash ^ (unsigned char) *text) * UINT64_C(0x100000001b3);
	return hash;
}

double
infer_route_draw(const InferRouting *routing, uint64_t what)
{
	return (double) (infer_route_mix(routing->seed ^ infer_route_mix(what)) >> 11) * 0x1p-53;
}

/* items[0..middle) and items[middle..n) are sorted. */
static void
merge(int *items, int middle, int n, bool (*before)(const void *keys, int a, int b),
	  const void *keys)
{
	int first[INFER_ROUTE_MAX_PLACES];
	int a = 0;
	int b = middle;

	memcpy(first, items, sizeof(int) * (size_t) middle);
	for (int i = 0; a < middle; i++)
		items[i] = b < n && before(keys, items[b], first[a]) ? items[b++] : first[a++];
}

void
infer_route_sort(int *items, int n, bool (*before)(const void *keys, int a, int b),
				 const void *keys)
{
	for (int run = 1; run < n; run *= 2)
		for (int from = 0; from + run < n; from += 2 * run)
		{
			int *second = &items[from + run];

			if (before(keys, second[0], second[-1]))
				merge(&items[from], run, n - from < 2 * run ? n - from : 2 * run, before, keys);
		}
}

bool
infer_route_same(const char *a, const char *b)
{
	if (a == b)
		return true;
	return strcmp(a == NULL ? "" : a, b == NULL ? "" : b) == 0;
}

int
infer_names_position(InferNames names, const char *name)
{
	for (int i = 0; i < names.n; i++)
		if (infer_route_same(names.names[i], name))
			return i;
	return -1;
}

bool
infer_names_have(InferNames names, const char *name)
{
	return infer_names_position(names, name) >= 0;
}

bool
infer_route_named(const InferRoutePlace *place, const char *name)
{
	return infer_route_same(place->server, name) || infer_route_same(place->node, name);
}

void
infer_route_request_init(InferRouteRequest *request)
{
	memset(request, 0, sizeof(*request));
	request->version = INFER_ROUTE_NO_VERSION;
	request->min_version = INFER_ROUTE_NO_VERSION;
	request->test_percent = 50;
	request->duration = INFER_DURATION_MEDIUM;
}

#define NODE_SLOTS (2 * INFER_ROUTE_MAX_PLACES)

/* The nodes in order of their first place. */
static void
number_nodes(InferRouting *routing)
{
	InferRouteDecision *d = routing->decision;
	int16_t
		nodes[NODE_SLOTS]; /* by the hash of the name, or the next one that is free; -1 = free */

	memset(nodes, -1, sizeof(nodes));
	d->n_nodes = 0;
	for (int i = 0; i < routing->n; i++)
	{
		const char *name = routing->places[i].node;
		unsigned at = (unsigned) (infer_route_hash(name) % NODE_SLOTS);

		while (nodes[at] >= 0 && !infer_route_same(d->nodes[nodes[at]].name, name))
			at = (at + 1) % NODE_SLOTS;
		if (nodes[at] < 0)
		{
			nodes[at] = (int16_t) d->n_nodes;
			d->nodes[d->n_nodes++] = (InferRouteNode){.name = name, .rank = -1};
		}
		d->places[i].node = nodes[at];
	}
}

void
infer_route_decide(const InferRouteRequest *request, const InferRoutePlace *places, int n,
				   int64_t now_us, double draw, InferRouteDecision *decision)
{
	InferRouting routing;

	routing.request = request;
	routing.places = places;
	routing.n = n < INFER_ROUTE_MAX_PLACES ? n : INFER_ROUTE_MAX_PLACES;
	routing.now_us = now_us;
	routing.seed = (uint64_t) (draw * 0x1p53);
	routing.decision = decision;

	decision->cause = INFER_CAUSE_NONE;
	decision->reason = INFER_BY_NOTHING;
	decision->target = NULL;
	decision->target_reason = INFER_BY_NOTHING;
	decision->tier = request->min_tier;
	decision->n_order = decision->n_plan = 0;
	for (int i = 0; i < routing.n; i++)
		decision->places[i] = (InferRouteVerdict){.rank = -1};
	number_nodes(&routing);

	infer_route_eliminate(&routing);
	if (decision->cause != INFER_CAUSE_NONE)
		return;
	infer_route_score(&routing);
	infer_route_rank(&routing);
	infer_route_order(&routing);
	infer_route_plan(&routing);
}
