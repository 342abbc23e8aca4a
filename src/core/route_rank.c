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

#define LOAD_STEPS   10  /* differences of less than a tenth are none */
#define MUCH_WORSE   2.0 /* a node whose best place scores so much more is no equal */
#define BAD_PENALTY  1.001
#define MAX_BAD_NEAR 1 /* more bad ones than this, and distance does not count */
#define OF_NODE      (UINT64_C(1) << 32)

/* What decides between two nodes before strategy does. */
typedef struct NodeKey
{
	int node;
	int pref;
	bool far;
	bool unhealthy;
	double health_factor;
	int load_step;
} NodeKey;

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

/* A server counts once, whatever it serves. */
static bool
is_counted(const InferRouting *routing, int i)
{
	for (int k = 0; k < i; k++)
		if (infer_route_usable(routing, k) &&
			routing->decision->places[k].node == routing->decision->places[i].node &&
			infer_route_same(routing->places[k].server, routing->places[i].server))
			return true;
	return false;
}

/* What the node's places add up to. */
static void
describe(const InferRouting *routing, int node, NodeKey *key)
{
	InferRouteDecision *d = routing->decision;
	InferRouteNode *it = &d->nodes[node];
	double sampled_health = 0;
	int64_t in_flight = 0;
	int64_t limit = 0;

	*key = (NodeKey){.node = node, .pref = INT_MAX, .far = true};
	for (int i = 0; i < routing->n; i++)
	{
		const InferRoutePlace *place = &routing->places[i];

		if (d->places[i].node != node)
			continue;
		/* to name a server is to name its node, also when the server is out */
		if (routing->pref[i] < key->pref &&
			(infer_route_usable(routing, i) ||
			 routing->pref[i] < routing->request->prefs[INFER_ROUTE_PREFER].n))
			key->pref = routing->pref[i];
		if (!infer_route_usable(routing, i))
			continue;
		if (!it->usable || d->places[i].score < it->score)
			it->score = d->places[i].score;
		it->usable = true;
		key->far = key->far && !routing->near[i];
		it->healthy |= !routing->bad[i];
		if (place->node_load > it->load)
			it->load = place->node_load;
		if (place->node_health > sampled_health)
			sampled_health = place->node_health;
		if (is_counted(routing, i))
			continue;
		if (!routing->bad[i])
			it->health_factor += place->health_weight;
		if (place->limit > 0)
		{
			in_flight += place->in_flight;
			limit += place->limit;
		}
	}
	if (sampled_health > 0)
		it->health_factor = sampled_health;
	if (limit > 0 && (double) in_flight / (double) limit > it->load)
		it->load = (double) in_flight / (double) limit;
	key->unhealthy = !it->healthy;
	key->health_factor = it->health_factor;
	key->load_step = (int) (it->load * LOAD_STEPS + 1e-9);
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

/* The next in turn comes first, then those that follow it. */
static void
take_turns(const InferRouting *routing, NodeKey *keys, int n)
{
	NodeKey as_numbered[INFER_ROUTE_MAX_PLACES];
	int first = (int) (routing->request->turn % (uint64_t) n);

	for (int i = 0; i < n; i++)
		as_numbered[i] = keys[i];
	for (int i = 0; i < n; i++)
		keys[i] = as_numbered[(first + i) % n];
}

/* smart: is node a to be taken before node b, of equals whose best score is this? */
static bool
is_smarter(const InferRouting *routing, int a, int b, double best)
{
	const InferRouteNode *nodes = routing->decision->nodes;
	const char *last = routing->request->last_node;
	bool a_much_worse = nodes[a].score > best * MUCH_WORSE;
	bool b_much_worse = nodes[b].score > best * MUCH_WORSE;

	if (a_much_worse != b_much_worse)
		return b_much_worse;
	if (!infer_route_same(last, NULL))
	{
		if (infer_route_same(nodes[a].name, last))
			return true;
		if (infer_route_same(nodes[b].name, last))
			return false;
	}
	if (nodes[a].score != nodes[b].score)
		return nodes[a].score < nodes[b].score;
	return infer_route_draw(routing, OF_NODE + (uint64_t) a) <
		   infer_route_draw(routing, OF_NODE + (uint64_t) b);
}

static void
break_tie(const InferRouting *routing, NodeKey *keys, int n)
{
	double best = routing->decision->nodes[keys[0].node].score;

	if (routing->request->strategy == INFER_STRATEGY_RR)
	{
		take_turns(routing, keys, n);
		return;
	}
	for (int i = 1; i < n; i++)
		if (routing->decision->nodes[keys[i].node].score < best)
			best = routing->decision->nodes[keys[i].node].score;
	for (int i = 1; i < n; i++)
	{
		NodeKey key = keys[i];
		int at = i;

		for (; at > 0 && is_smarter(routing, key.node, keys[at - 1].node, best); at--)
			keys[at] = keys[at - 1];
		keys[at] = key;
	}
}

void
infer_route_rank(InferRouting *routing)
{
	InferRouteDecision *d = routing->decision;
	NodeKey keys[INFER_ROUTE_MAX_PLACES];
	int n = 0;

	find_near(routing);
	for (int node = 0; node < d->n_nodes; node++)
	{
		NodeKey key;
		int at;

		describe(routing, node, &key);
		if (!d->nodes[node].usable)
			continue;
		for (at = n++; at > 0 && compare_nodes(&key, &keys[at - 1]) < 0; at--)
			keys[at] = keys[at - 1];
		keys[at] = key;
	}
	for (int from = 0, to; from < n; from = to)
	{
		for (to = from + 1; to < n && compare_nodes(&keys[from], &keys[to]) == 0; to++)
			;
		if (to > from + 1)
			break_tie(routing, &keys[from], to - from);
	}
	for (int rank = 0; rank < n; rank++)
		d->nodes[keys[rank].node].rank = rank;
}
