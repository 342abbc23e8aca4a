/*
 * core/route_private.h - between the files of core/route: one decision while it is being made.
 */
#ifndef INFER_CORE_ROUTE_PRIVATE_H
#define INFER_CORE_ROUTE_PRIVATE_H

#include "core/route.h"

typedef struct InferRouting
{
	const InferRouteRequest *request;
	const InferRoutePlace *places;
	int n;
	int64_t now_us;
	uint64_t seed;
	InferRouteDecision *decision;
	int pref[INFER_ROUTE_MAX_PLACES];   /* position in PREFER; none = their number; avoided = + 1 */
	bool bad[INFER_ROUTE_MAX_PLACES];   /* excluded, loading, or without weight */
	bool fresh[INFER_ROUTE_MAX_PLACES]; /* its latency is of now, or is just being found out */
	bool near[INFER_ROUTE_MAX_PLACES];
} InferRouting;

/* A number in [0,1) that depends on the draw and on what it is for. */
extern double infer_route_draw(const InferRouting *routing, uint64_t what);
extern uint64_t infer_route_mix(uint64_t bits);
extern uint64_t infer_route_hash(const char *text);

/* Sorts numbers of what has keys; equals stay as they are.  At most INFER_ROUTE_MAX_PLACES. */
extern void infer_route_sort(int *items, int n, bool (*before)(const void *keys, int a, int b),
							 const void *keys);

/* "" and NULL are the same. */
extern bool infer_route_same(const char *a, const char *b);
/* Its position; -1 = it is not in the list. */
extern int infer_names_position(InferNames names, const char *name);
/* Does a preference name the place, by its server or its node? */
extern bool infer_route_named(const InferRoutePlace *place, const char *name);

static inline bool
infer_route_usable(const InferRouting *routing, int i)
{
	return routing->decision->places[i].reason == INFER_BY_NOTHING;
}

/* In this order: */

/* route_eliminate.c: reasons, tier, and the cause if nothing is left. */
extern void infer_route_eliminate(InferRouting *routing);
/* route_versions.c: part of it: what test_ctl leaves out. */
extern void infer_route_choose_versions(InferRouting *routing);
/* route_choose.c: pref, bad, fresh and scores. */
extern void infer_route_score(InferRouting *routing);
/* route_rank.c: near, and the nodes. */
extern void infer_route_rank(InferRouting *routing);
/* route_choose.c: the order. */
extern void infer_route_order(InferRouting *routing);
/* route_plan.c: the plan. */
extern void infer_route_plan(InferRouting *routing);

#endif
