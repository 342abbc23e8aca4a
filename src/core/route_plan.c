/*
 * core/route_plan.c - phase 3: the places that one request goes to at once.
 *
 * One, as a rule: the first of the order.  Several where several service classes are needed, which
 * are taken from one node if a node has them all; or where several targets are to be included.
 */
#include "core/route_private.h"

static bool
plan_has(const InferRouting *routing, int node, const char *class)
{
	const InferRouteDecision *d = routing->decision;

	for (int p = 0; p < d->n_plan; p++)
		if ((node < 0 || d->places[d->plan[p]].node == node) &&
			(class == NULL || infer_route_same(routing->places[d->plan[p]].service_class, class)))
			return true;
	return false;
}

static void
add(InferRouting *routing, int place)
{
	InferRouteDecision *d = routing->decision;

	if (place < 0 || d->places[place].planned)
		return;
	d->places[place].planned = true;
	d->plan[d->n_plan++] = place;
}

/* The first in order, on the node (< 0: on any), of the class (NULL: of any); -1 = none. */
static int
best(const InferRouting *routing, int node, const char *class)
{
	const InferRouteDecision *d = routing->decision;

	for (int rank = 0; rank < d->n_order; rank++)
	{
		int i = d->order[rank];

		if ((node < 0 || d->places[i].node == node) &&
			(class == NULL || infer_route_same(routing->places[i].service_class, class)))
			return i;
	}
	return -1;
}

static bool
node_is_whole(const InferRouting *routing, int node)
{
	InferNames classes = routing->request->service_classes;

	for (int c = 0; c < classes.n; c++)
		if (best(routing, node, classes.names[c]) < 0)
			return false;
	return true;
}

/* A server by itself; a node with what it has of the classes that are needed. */
static void
add_target(InferRouting *routing, const char *target)
{
	InferRouteDecision *d = routing->decision;
	InferNames classes = routing->request->service_classes;
	int node = -1;

	for (int rank = 0; rank < d->n_order; rank++)
		if (infer_route_same(routing->places[d->order[rank]].server, target))
		{
			add(routing, d->order[rank]);
			return;
		}
	for (int i = 0; i < d->n_nodes && node < 0; i++)
		if (d->nodes[i].usable && infer_route_same(d->nodes[i].name, target))
			node = i;
	if (classes.n == 0 && !plan_has(routing, node, NULL))
		add(routing, best(routing, node, NULL));
	for (int c = 0; c < classes.n; c++)
		if (!plan_has(routing, node, classes.names[c]))
			add(routing, best(routing, node, classes.names[c]));
}

/* The node to take classes from: of those in the plan, else of those that have all. */
static int
chosen_node(const InferRouting *routing, const char *class)
{
	const InferRouteDecision *d = routing->decision;

	for (int p = 0; p < d->n_plan; p++)
		if (best(routing, d->places[d->plan[p]].node, class) >= 0)
			return d->places[d->plan[p]].node;
	for (int rank = 0; d->n_plan == 0 && rank < d->n_order; rank++)
		if (node_is_whole(routing, d->places[d->order[rank]].node))
			return d->places[d->order[rank]].node;
	return -1;
}

void
infer_route_plan(InferRouting *routing)
{
	InferNames include = routing->request->prefs[INFER_ROUTE_INCLUDE];
	InferNames classes = routing->request->service_classes;

	for (int t = 0; t < include.n; t++)
		add_target(routing, include.names[t]);
	if (include.n == 0 && classes.n == 0)
		add(routing, best(routing, -1, NULL));
	for (int c = 0; c < classes.n; c++)
		if (!plan_has(routing, -1, classes.names[c]))
			add(routing, best(routing, chosen_node(routing, classes.names[c]), classes.names[c]));
}
