/*
 * core/route_versions.c - phase 1: which of the available versions a request takes.
 *
 * One version for all of it: the lowest (PROD) or highest (TEST) in which every needed service
 * class is to be had, with is_solo on one node.  Where no version has them all, each class takes
 * its own lowest or highest; with is_solo then all stay, for a node has what it has.
 *
 * What is included has to be in the plan.  So each INCLUDE target is such a choice by itself, and
 * what completes the classes beside them is another one.
 */
#include "core/route_private.h"

#include <string.h>

#define OF_TEST_CTL 1 /* what the draw is for */

/* The places that one choice is among. */
typedef struct Group
{
	bool has[INFER_ROUTE_MAX_PLACES];
	bool highest;
} Group;

static int
version_of(const InferRouting *routing, int i)
{
	return routing->places[i].version < 0 ? 0 : routing->places[i].version;
}

static bool
has_class(const InferRouting *routing, const Group *group, int i, const char *class)
{
	return group->has[i] &&
		   (class == NULL || infer_route_same(routing->places[i].service_class, class));
}

/* The next version beyond this one (< 0: the first) of the class (NULL: of any); -1 = none. */
static int
next_version(const InferRouting *routing, const Group *group, const char *class, int beyond)
{
	int next = -1;

	for (int i = 0; i < routing->n; i++)
	{
		int version = version_of(routing, i);

		if (!has_class(routing, group, i, class))
			continue;
		if (group->highest ? (beyond < 0 || version < beyond) && version > next
						   : version > beyond && (next < 0 || version < next))
			next = version;
	}
	return next;
}

static bool
version_has_class(const InferRouting *routing, const Group *group, int version, const char *class,
				  int node)
{
	for (int i = 0; i < routing->n; i++)
		if (has_class(routing, group, i, class) && version_of(routing, i) == version &&
			(node < 0 || routing->decision->places[i].node == node))
			return true;
	return false;
}

/* Does the version have all classes that the group has, on the node (< 0: on any)? */
static bool
version_is_whole(const InferRouting *routing, const Group *group, int version, int node)
{
	InferNames classes = routing->request->service_classes;

	for (int c = 0; c < classes.n; c++)
		if (next_version(routing, group, classes.names[c], -1) >= 0 &&
			!version_has_class(routing, group, version, classes.names[c], node))
			return false;
	return true;
}

static bool
version_serves(const InferRouting *routing, const Group *group, int version)
{
	if (!routing->request->is_solo)
		return version_is_whole(routing, group, version, -1);
	for (int node = 0; node < routing->decision->n_nodes; node++)
		if (version_is_whole(routing, group, version, node))
			return true;
	return false;
}

/* Marks in keep what the group takes. */
static void
choose(const InferRouting *routing, const Group *group, bool *keep)
{
	int version = next_version(routing, group, NULL, -1);

	if (version < 0)
		return;
	while (version >= 0 && !version_serves(routing, group, version))
		version = next_version(routing, group, NULL, version);
	for (int i = 0; i < routing->n; i++)
	{
		int wanted = version;

		if (wanted < 0 && routing->request->is_solo)
			wanted = version_of(routing, i);
		else if (wanted < 0)
			wanted = next_version(routing, group, routing->places[i].service_class, -1);
		if (group->has[i] && version_of(routing, i) == wanted)
			keep[i] = true;
	}
}

void
infer_route_choose_versions(InferRouting *routing)
{
	const InferRouteRequest *request = routing->request;
	InferNames include = request->prefs[INFER_ROUTE_INCLUDE];
	bool keep[INFER_ROUTE_MAX_PLACES];
	bool included[INFER_ROUTE_MAX_PLACES];
	Group group;

	if ((request->version >= 0 && routing->decision->tier == 0) ||
		request->test_ctl == INFER_TEST_ANY)
		return;
	group.highest = request->test_ctl == INFER_TEST_TEST ||
					(request->test_ctl == INFER_TEST_RANDOM &&
					 infer_route_draw(routing, OF_TEST_CTL) * 100 < request->test_percent);
	memset(keep, 0, sizeof(keep));
	memset(included, 0, sizeof(included));
	for (int t = 0; t < include.n; t++)
	{
		for (int i = 0; i < routing->n; i++)
		{
			group.has[i] = infer_route_usable(routing, i) &&
						   infer_route_named(&routing->places[i], include.names[t]);
			included[i] |= group.has[i];
		}
		choose(routing, &group, keep);
	}
	for (int i = 0; i < routing->n; i++)
		group.has[i] = infer_route_usable(routing, i) && !included[i];
	choose(routing, &group, keep);
	for (int i = 0; i < routing->n; i++)
		if (infer_route_usable(routing, i) && !keep[i])
			routing->decision->places[i].reason = INFER_BY_TEST_CTL;
}
