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
#define MAX_BAD_NEAR 1                 /* more bad ones than this, and distance does not count */
#define LOOK_SHARE   0.01              /* of the requests look what has become of a node */
#define DOUBT_US     INT64_C(60000000) /* whoever looks in vain may have to fail for it */
#define OF_LOOK      2                 /* what a draw is for; 1 is the versions' */
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
	double chance;
} NodeKey;

/* What a node's places add up to, each server once. */
typedef struct NodeSums
{
	double sampled_health;
	int in_flight;
	int limit;
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

/* Adds a place to what its node's add up to. */
static void
add_place(const InferRouting *routing, int i, NodeSums *sums, NodeKey *key, InferRouteNode *node)
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
	if (is_counted(routing, i))
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
	NodeSums sums[INFER_ROUTE_MAX_PLACES];

	for (int node = 0; node < d->n_nodes; node++)
	{
		sums[node] = (NodeSums){0};
		keys[node] = (NodeKey){.node = node,
							   .pref = INT_MAX,
							   .far = true,
							   .chance = infer_route_draw(routing, OF_NODE + (uint64_t) node)};
	}
	for (int i = 0; i < routing->n; i++)
	{
		int node = d->places[i].node;

		add_place(routing, i, &sums[node], &keys[node], &d->nodes[node]);
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
is_smarter(const InferRouting *routing, const NodeKey *a, const NodeKey *b, double best)
{
	const InferRouteNode *node_a = &routing->decision->nodes[a->node];
	const InferRouteNode *node_b = &routing->decision->nodes[b->node];
	const char *last = routing->request->last_node;
	bool a_much_worse = node_a->score > best * MUCH_WORSE;
	bool b_much_worse = node_b->score > best * MUCH_WORSE;

	if (a_much_worse != b_much_worse)
		return b_much_worse;
	if (!infer_route_same(last, NULL))
	{
		if (infer_route_same(node_a->name, last))
			return true;
		if (infer_route_same(node_b->name, last))
			return false;
	}
	if (node_a->score != node_b->score)
		return node_a->score < node_b->score;
	return a->chance < b->chance;
}

/* Might it have become the better one, without anybody's knowing? */
static bool
is_unheard(const InferRouting *routing, const NodeKey *key)
{
	for (int i = 0; i < routing->n; i++)
	{
		const InferRoutePlace *place = &routing->places[i];

		if (infer_route_usable(routing, i) && !routing->bad[i] && !routing->fresh[i] &&
			routing->decision->places[i].node == key->node && place->in_flight == 0 &&
			(!place->doubted || routing->now_us - place->heard_us > DOUBT_US))
			return true;
	}
	return false;
}

/* Sorted: now and then the first that nobody has heard of late comes first. */
static void
look_around(const InferRouting *routing, NodeKey *keys, int n)
{
	int at = 0;
	NodeKey key;

	if (infer_route_draw(routing, OF_LOOK) >= LOOK_SHARE)
		return;
	while (at < n && !is_unheard(routing, &keys[at]))
		at++;
	if (at == n)
		return;
	key = keys[at];
	for (; at > 0; at--)
		keys[at] = keys[at - 1];
	keys[0] = key;
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

		for (; at > 0 && is_smarter(routing, &key, &keys[at - 1], best); at--)
			keys[at] = keys[at - 1];
		keys[at] = key;
	}
	look_around(routing, keys, n);
}

void
infer_route_rank(InferRouting *routing)
{
	InferRouteDecision *d = routing->decision;
	NodeKey keys[INFER_ROUTE_MAX_PLACES];
	int n = 0;

	find_near(routing);
	describe_nodes(routing, keys);
	/* the usable ones, sorted, at the front */
	for (int node = 0; node < d->n_nodes; node++)
	{
		NodeKey key = keys[node];
		int at;

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
