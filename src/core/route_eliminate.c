/*
 * core/route_eliminate.c - phase 1: which places cannot serve a request, and if none can, why.
 *
 * Each place falls to the first thing that speaks against it, and these are looked at in the order
 * of InferRouteReason.  So the place that got furthest tells what left nothing: if something would
 * do but is down, the cause is that it is down, however many others do not match.
 */
#include "core/route_private.h"

static bool
lacks_feed(const InferRouteRequest *request, const InferRoutePlace *place)
{
	for (int f = 0; f < request->feeds.n; f++)
		if (!infer_names_have(place->feeds, request->feeds.names[f]))
			return true;
	return false;
}

static bool
is_apart(const InferTimeRange *asked, const InferTimeRange *has)
{
	if (!asked->set || !has->set)
		return false;
	if (asked->from >= asked->to || has->from >= has->to)
		return true;
	return asked->from >= has->to || has->from >= asked->to;
}

static int
version_of(const InferRoutePlace *place)
{
	return place->version < 0 ? 0 : place->version;
}

/* A version is the model's. Its fallbacks stand in for one that it has, whatever theirs are; what
 * it never had is a mistake of the request. */
static bool
has_version(const InferRouting *routing)
{
	for (int i = 0; i < routing->n; i++)
		if (routing->places[i].tier == 0 &&
			version_of(&routing->places[i]) == routing->request->version)
			return true;
	return false;
}

/* What the request says against a place, whatever its state. */
static InferRouteReason
mismatch(const InferRouteRequest *request, const InferRoutePlace *place, bool replaceable)
{
	InferNames excluded = request->prefs[INFER_ROUTE_EXCLUDE];

	if (request->nodes.n > 0 && !infer_names_have(request->nodes, place->node))
		return INFER_BY_NODES;
	if (request->service_classes.n > 0 &&
		!infer_names_have(request->service_classes, place->service_class))
		return INFER_BY_SERVICE_CLASSES;
	if (request->version >= 0)
	{
		if (place->tier == 0 ? version_of(place) != request->version : !replaceable)
			return INFER_BY_VERSION;
	}
	else if (place->tier == 0 && version_of(place) < request->min_version)
		return INFER_BY_MIN_VERSION;
	if (lacks_feed(request, place))
		return INFER_BY_FEEDS;
	if (is_apart(&request->ts_range, &place->ts_range))
		return INFER_BY_TS_RANGE;
	if (excluded.n > 0 &&
		(infer_names_have(excluded, place->server) || infer_names_have(excluded, place->node)))
		return INFER_BY_EXCLUDE;
	return INFER_BY_NOTHING;
}

static InferRouteReason
first_reason(const InferRouteRequest *request, const InferRoutePlace *place, bool replaceable)
{
	InferRouteReason reason = mismatch(request, place, replaceable);

	if (reason != INFER_BY_NOTHING)
		return reason;
	if (!place->permitted)
		return INFER_BY_PRIVILEGE;
	if (place->no_room)
		return INFER_BY_NO_ROOM;
	if (place->state == INFER_PLACE_DEAD)
		return INFER_BY_DEAD;
	if (place->state == INFER_PLACE_DRAINING)
		return INFER_BY_DRAINING;
	if (place->state == INFER_PLACE_FAILED && !request->probe)
		return INFER_BY_FAILED;
	if (place->tier < request->min_tier)
		return INFER_BY_TIER;
	return INFER_BY_NOTHING;
}

static InferRouteCause
cause_of(InferRouteReason reason)
{
	switch (reason)
	{
		case INFER_BY_PRIVILEGE:
			return INFER_CAUSE_NO_PRIVILEGE;
		case INFER_BY_DEAD:
			return INFER_CAUSE_STALE;
		case INFER_BY_DRAINING:
			return INFER_CAUSE_DRAINING;
		case INFER_BY_FAILED:
		case INFER_BY_TIER:
			return INFER_CAUSE_ALL_FAILED;
		default:
			return INFER_CAUSE_NO_DEST;
	}
}

/* The reason of the place that got furthest, of those that have the class (NULL: of all). */
static InferRouteReason
furthest(const InferRouting *routing, const char *class)
{
	InferRouteReason reason = INFER_BY_NOTHING;

	for (int i = 0; i < routing->n; i++)
		if ((class == NULL || infer_route_same(routing->places[i].service_class, class)) &&
			routing->decision->places[i].reason > reason)
			reason = routing->decision->places[i].reason;
	return reason;
}

static void
fail(InferRouting *routing, InferRouteCause cause, InferRouteReason reason, const char *target)
{
	InferRouteDecision *d = routing->decision;

	d->cause = cause;
	d->reason = reason;
	d->target = target;
	/* what is usable by itself serves nobody, and is to say why */
	for (int i = 0; i < routing->n; i++)
		if (infer_route_usable(routing, i))
			d->places[i].reason = reason;
}

/* Is there a usable place of the class in the tier, on the node (< 0: on any)? */
static bool
have_class(const InferRouting *routing, int tier, const char *class, int node)
{
	for (int i = 0; i < routing->n; i++)
		if (infer_route_usable(routing, i) && routing->places[i].tier == tier &&
			(node < 0 || routing->decision->places[i].node == node) &&
			infer_route_same(routing->places[i].service_class, class))
			return true;
	return false;
}

/* The first needed class that is not to be had in the tier; NULL = all are. */
static const char *
missing_class(const InferRouting *routing, int tier, int node)
{
	InferNames classes = routing->request->service_classes;

	for (int c = 0; c < classes.n; c++)
		if (!have_class(routing, tier, classes.names[c], node))
			return classes.names[c];
	return NULL;
}

/* is_solo: nodes that lack a class are out.  Returns whether one is left. */
static bool
keep_whole_nodes(InferRouting *routing, int tier)
{
	InferRouteDecision *d = routing->decision;
	bool whole[INFER_ROUTE_MAX_PLACES];
	bool any = false;

	for (int node = 0; node < d->n_nodes; node++)
	{
		whole[node] = missing_class(routing, tier, node) == NULL;
		any |= whole[node];
	}
	for (int i = 0; any && i < routing->n; i++)
		if (infer_route_usable(routing, i) && routing->places[i].tier == tier &&
			!whole[d->places[i].node])
			d->places[i].reason = INFER_BY_SOLO;
	return any;
}

/* The first INCLUDE target that has no usable place in the tier; NULL = all have. */
static const char *
missing_target(const InferRouting *routing, int tier)
{
	InferNames include = routing->request->prefs[INFER_ROUTE_INCLUDE];

	for (int t = 0; t < include.n; t++)
	{
		bool found = false;

		for (int i = 0; i < routing->n && !found; i++)
			found = infer_route_usable(routing, i) && routing->places[i].tier == tier &&
					infer_route_named(&routing->places[i], include.names[t]);
		if (!found)
			return include.names[t];
	}
	return NULL;
}

/* With is_solo, targets on several nodes cannot all be in one plan. */
static bool
targets_share_node(const InferRouting *routing, int tier)
{
	const InferRouteDecision *d = routing->decision;
	InferNames include = routing->request->prefs[INFER_ROUTE_INCLUDE];

	for (int node = 0; node < d->n_nodes; node++)
	{
		int found = 0;

		for (int t = 0; t < include.n; t++)
			for (int i = 0; i < routing->n; i++)
				if (infer_route_usable(routing, i) && routing->places[i].tier == tier &&
					d->places[i].node == node &&
					infer_route_named(&routing->places[i], include.names[t]))
				{
					found++;
					break;
				}
		if (found == include.n)
			return true;
	}
	return false;
}

static void
fail_for_target(InferRouting *routing, const char *target)
{
	InferRouteDecision *d = routing->decision;
	InferRouteReason why = INFER_BY_NOTHING;

	for (int i = 0; i < routing->n; i++)
		if (infer_route_named(&routing->places[i], target) && d->places[i].reason > why)
			why = d->places[i].reason;
	fail(routing, why == INFER_BY_PRIVILEGE ? INFER_CAUSE_NO_PRIVILEGE : INFER_CAUSE_NO_DEST,
		 INFER_BY_INCLUDE, target);
	d->target_reason = why;
}

/* A tier serves the request if it has all that is included and needed. Else says why not. */
static bool
tier_serves(InferRouting *routing, int tier, InferRouteReason *why, const char **what)
{
	const InferRouteRequest *request = routing->request;

	*why = INFER_BY_INCLUDE;
	*what = missing_target(routing, tier);
	if (*what != NULL)
		return false;
	*why = INFER_BY_INCOMPLETE;
	*what = missing_class(routing, tier, -1);
	if (*what != NULL)
		return false;
	*why = INFER_BY_SOLO;
	return !request->is_solo ||
		   (keep_whole_nodes(routing, tier) && targets_share_node(routing, tier));
}

static void
fail_for(InferRouting *routing, InferRouteReason why, const char *what)
{
	InferRouteCause cause = INFER_CAUSE_NO_DEST;

	if (why == INFER_BY_INCLUDE)
	{
		fail_for_target(routing, what);
		return;
	}
	/* what is missing may be there but down */
	if (furthest(routing, what) >= INFER_BY_PRIVILEGE)
		cause = cause_of(furthest(routing, what));
	fail(routing, cause, why, what);
}

/* The lowest tier above this one that has a usable place; -1 = none. */
static int
next_tier(const InferRouting *routing, int above)
{
	int tier = -1;

	for (int i = 0; i < routing->n; i++)
		if (infer_route_usable(routing, i) && routing->places[i].tier > above &&
			(tier < 0 || routing->places[i].tier < tier))
			tier = routing->places[i].tier;
	return tier;
}

static bool
choose_tier(InferRouting *routing)
{
	int first = next_tier(routing, -1);
	InferRouteReason why;
	const char *what;

	for (int tier = first; tier >= 0; tier = next_tier(routing, tier))
	{
		if (!tier_serves(routing, tier, &why, &what))
			continue;
		routing->decision->tier = tier;
		for (int i = 0; i < routing->n; i++)
			if (infer_route_usable(routing, i) && routing->places[i].tier != tier)
				routing->decision->places[i].reason = INFER_BY_TIER;
		return true;
	}
	tier_serves(routing, first, &why, &what);
	fail_for(routing, why, what);
	return false;
}

static bool
is_included(const InferRouting *routing, int i)
{
	InferNames include = routing->request->prefs[INFER_ROUTE_INCLUDE];

	for (int t = 0; t < include.n; t++)
		if (infer_route_named(&routing->places[i], include.names[t]))
			return true;
	return false;
}

/* What is not included is out, except for a class that nothing included has. */
static void
keep_included(InferRouting *routing)
{
	InferRouteDecision *d = routing->decision;
	InferNames classes = routing->request->service_classes;
	bool included[INFER_ROUTE_MAX_PLACES];

	for (int i = 0; i < routing->n; i++)
		included[i] = infer_route_usable(routing, i) && is_included(routing, i);
	for (int i = 0; i < routing->n; i++)
	{
		bool covered = classes.n == 0;

		if (included[i] || !infer_route_usable(routing, i))
			continue;
		for (int k = 0; k < routing->n && !covered; k++)
			covered = included[k] && infer_route_same(routing->places[k].service_class,
													  routing->places[i].service_class);
		if (covered)
			d->places[i].reason = INFER_BY_INCLUDE;
	}
}

void
infer_route_eliminate(InferRouting *routing)
{
	InferRouteDecision *d = routing->decision;
	InferNames include = routing->request->prefs[INFER_ROUTE_INCLUDE];
	bool replaceable = has_version(routing);
	bool any = false;

	for (int i = 0; i < routing->n; i++)
	{
		d->places[i].reason = first_reason(routing->request, &routing->places[i], replaceable);
		any |= d->places[i].reason == INFER_BY_NOTHING;
	}
	if (!any && include.n > 0)
		fail_for_target(routing, include.names[0]);
	else if (!any)
		fail(routing, cause_of(furthest(routing, NULL)), furthest(routing, NULL), NULL);
	if (!any || !choose_tier(routing))
		return;
	if (include.n > 0)
		keep_included(routing);
	infer_route_choose_versions(routing);
	if (routing->request->is_solo)
		keep_whole_nodes(routing, d->tier);
}
