/*
 * core/route_rank.c - phase 2: the order of the nodes that have a usable place.
 *
 * Locality stands between PREFER and health.  It is the reference's (failures.md 5.2, P50): the
 * nearest come first, unless too many of them are bad; then distance does not count.  Near is what
 * is on the caller's own node, of which only pg_inference.locality tells; else nothing is near, and
 * the order is that of gateway.md.
 *
 * A node's load is what was sampled, or what is in flight now, whichever is more: a sample is
 * seconds old, and all sessions would go where it was lowest.
 */
#include "core/route_private.h"

#include <limits.h>
#include <string.h>

#define LOAD_STEPS   10  /* differences of less than a tenth are none */
#define MUCH_WORSE   2.0 /* a node whose best place scores so much more is no equal */
#define BAD_PENALTY  1.001
#define MAX_BAD_NEAR 1                 /* more bad ones than this, and distance does not count */
#define LOOK_SHARE   0.01              /* of the requests look what has become of a node */
#define DOUBT_US     INT64_C(60000000) /* whoever looks in vain may have to fail for it */
#define OF_LOOK      2                 /* what a draw is for; 1 is the versions' */
#define OF_NODE      (UINT64_C(1) << 32)

/* What decides between two nodes. */
typedef struct NodeKey
{
	int pref;
	bool far;
	bool unhealthy;
	double health_factor;
	int load_step;
	/* smart, among equals */
	bool much_worse;
	bool last; /* it served the caller's last success */
	double score;
	double chance;
} NodeKey;

/* What a node's places add up to, each server once. */
typedef struct NodeSums
{
	double sampled_health;
	int in_flight;
	int limit;
	int counted; /* its last usable place so far; -1 = none */
} NodeSums;

/* Do all places near and far count the same? */
static bool
spills(const InferRouting *routing, const char *locality)
{
	int near = 0;
	int bad = 0;

	for (int i = 0; i < routing->n; i++)
	{
		const InferRoutePlace *place = &routing->places[i];
		InferRouteReason reason = routing->decision->places[i].reason;
		bool unavailable = reason == INFER_BY_FAILED || reason == INFER_BY_DRAINING;

		if ((reason != INFER_BY_NOTHING && !unavailable) ||
			place->tier != routing->decision->tier || !infer_route_same(place->node, locality))
			continue;
		near++;
		bad += unavailable || routing->bad[i] || place->penalty > BAD_PENALTY;
	}
	return bad >= (near < MAX_BAD_NEAR + 1 ? near : MAX_BAD_NEAR + 1);
}

static void
find_near(InferRouting *routing)
{
	const char *locality = routing->request->locality;
	bool none = infer_route_same(locality, NULL) || spills(routing, locality);

	for (int i = 0; i < routing->n; i++)
		routing->near[i] = !none && infer_route_same(routing->places[i].node, locality);
}

/* A server counts once, whatever it serves. before: the usable place of the node before each. */
static bool
is_counted(const InferRouting *routing, int i, const int *before)
{
	for (int k = before[i]; k >= 0; k = before[k])
		if (infer_route_same(routing->places[k].server, routing->places[i].server))
			return true;
	return false;
}

/* Adds a place to what its node's add up to. */
static void
add_place(const InferRouting *routing, int i, NodeSums *sums, NodeKey *key, InferRouteNode *node,
		  int *before)
{
	const InferRoutePlace *place = &routing->places[i];
	bool usable = infer_route_usable(routing, i);

	/* to name a server is to name its node, also when the server is out */
	if (routing->pref[i] < key->pref &&
		(usable || routing->pref[i] < routing->request->prefs[INFER_ROUTE_PREFER].n))
		key->pref = routing->pref[i];
	if (!usable)
		return;
	if (!node->usable || routing->decision->places[i].score < node->score)
		node->score = routing->decision->places[i].score;
	node->usable = true;
	node->healthy |= !routing->bad[i];
	key->far &= !routing->near[i];
	if (place->node_load > node->load)
		node->load = place->node_load;
	if (place->node_health > sums->sampled_health)
		sums->sampled_health = place->node_health;
	before[i] = sums->counted;
	sums->counted = i;
	if (is_counted(routing, i, before))
		return;
	if (!routing->bad[i])
		node->health_factor += place->health_weight;
	if (place->limit > 0)
	{
		sums->in_flight += place->in_flight;
		sums->limit += place->limit;
	}
}

static void
describe_nodes(const InferRouting *routing, NodeKey *keys)
{
	InferRouteDecision *d = routing->decision;
	const char *last = routing->request->last_node;
	bool any_last = !infer_route_same(last, NULL);
	NodeSums sums[INFER_ROUTE_MAX_PLACES];
	int before[INFER_ROUTE_MAX_PLACES];

	for (int node = 0; node < d->n_nodes; node++)
	{
		sums[node] = (NodeSums){.counted = -1};
		keys[node] = (NodeKey){.pref = INT_MAX,
							   .far = true,
							   .chance = infer_route_draw(routing, OF_NODE + (uint64_t) node)};
	}
	for (int i = 0; i < routing->n; i++)
	{
		int node = d->places[i].node;

		add_place(routing, i, &sums[node], &keys[node], &d->nodes[node], before);
	}
	for (int node = 0; node < d->n_nodes; node++)
	{
		InferRouteNode *it = &d->nodes[node];
		double now = sums[node].limit > 0 ? (double) sums[node].in_flight / sums[node].limit : 0;

		if (now > it->load)
			it->load = now;
		if (sums[node].sampled_health > 0)
			it->health_factor = sums[node].sampled_health;
		keys[node].unhealthy = !it->healthy;
		keys[node].health_factor = it->health_factor;
		keys[node].load_step = (int) (it->load * LOAD_STEPS + 1e-9);
		keys[node].score = it->score;
		keys[node].last = any_last && infer_route_same(it->name, last);
	}
}

/* < 0: a comes first; 0: strategy decides. */
static int
compare_nodes(const NodeKey *a, const NodeKey *b)
{
	if (a->pref != b->pref)
		return a->pref - b->pref;
	if (a->far != b->far)
		return a->far - b->far;
	if (a->unhealthy != b->unhealthy)
		return a->unhealthy - b->unhealthy;
	if (a->health_factor != b->health_factor)
		return a->health_factor > b->health_factor ? -1 : 1;
	return a->load_step - b->load_step;
}

static bool
is_better(const void *keys, int a, int b)
{
	const NodeKey *of = keys;

	return compare_nodes(&of[a], &of[b]) < 0;
}

/* smart, of equals */
static bool
is_smarter(const void *keys, int a, int b)
{
	const NodeKey *of = keys;

	if (of[a].much_worse != of[b].much_worse)
		return of[b].much_worse;
	if (of[a].last != of[b].last)
		return of[a].last;
	if (of[a].score != of[b].score)
		return of[a].score < of[b].score;
	return of[a].chance < of[b].chance;
}

/* The next in turn comes first, then those that follow it. */
static void
take_turns(const InferRouting *routing, int *nodes, int n)
{
	int as_numbered[INFER_ROUTE_MAX_PLACES];
	int first = (int) (routing->request->turn % (uint64_t) n);

	memcpy(as_numbered, nodes, sizeof(int) * (size_t) n);
	for (int i = 0; i < n; i++)
		nodes[i] = as_numbered[(first + i) % n];
}

/* Might it have become the better one, without anybody's knowing? */
static bool
is_unheard(const InferRouting *routing, int node)
{
	for (int i = 0; i < routing->n; i++)
	{
		const InferRoutePlace *place = &routing->places[i];

		if (infer_route_usable(routing, i) && !routing->bad[i] && !routing->fresh[i] &&
			routing->decision->places[i].node == node && place->in_flight == 0 &&
			(!place->doubted || routing->now_us - place->heard_us > DOUBT_US))
			return true;
	}
	return false;
}

/* Sorted: now and then the first that nobody has heard of late comes first. */
static void
look_around(const InferRouting *routing, int *nodes, int n)
{
	int at = 0;
	int node;

	if (infer_route_draw(routing, OF_LOOK) >= LOOK_SHARE)
		return;
	while (at < n && !is_unheard(routing, nodes[at]))
		at++;
	if (at == n)
		return;
	node = nodes[at];
	memmove(nodes + 1, nodes, sizeof(int) * (size_t) at);
	nodes[0] = node;
}

/* Of nodes that are equals so far. */
static void
break_tie(const InferRouting *routing, NodeKey *keys, int *nodes, int n)
{
	double best = keys[nodes[0]].score;

	if (routing->request->strategy == INFER_STRATEGY_RR)
	{
		take_turns(routing, nodes, n);
		return;
	}
	for (int i = 1; i < n; i++)
		if (keys[nodes[i]].score < best)
			best = keys[nodes[i]].score;
	for (int i = 0; i < n; i++)
		keys[nodes[i]].much_worse = keys[nodes[i]].score > best * MUCH_WORSE;
	infer_route_sort(nodes, n, is_smarter, keys);
	look_around(routing, nodes, n);
}

void
infer_route_rank(InferRouting *routing)
{
	InferRouteDecision *d = routing->decision;
	NodeKey keys[INFER_ROUTE_MAX_PLACES];
	int nodes[INFER_ROUTE_MAX_PLACES]; /* the usable ones */
	int n = 0;

	find_near(routing);
	describe_nodes(routing, keys);
	for (int node = 0; node < d->n_nodes; node++)
		if (d->nodes[node].usable)
			nodes[n++] = node;
	infer_route_sort(nodes, n, is_better, keys);
	for (int from = 0, to; from < n; from = to)
	{
		for (to = from + 1; to < n && compare_nodes(&keys[nodes[from]], &keys[nodes[to]]) == 0;
			 to++)
			;
		if (to > from + 1)
			break_tie(routing, keys, &nodes[from], to - from);
	}
	for (int rank = 0; rank < n; rank++)
		d->nodes[nodes[rank]].rank = rank;
}
