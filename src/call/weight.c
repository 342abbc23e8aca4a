/*
 * call/weight.c - the duration weights of this process's batches at their nodes.
 *
 * What weighs and what does not is never in the same lane, nor is what weighs on different nodes:
 * so the weight that goes with a permit is the same for all batches of a lane, and a permit that a
 * lane has to spare has its weight with it.
 *
 * The process has one place in a node's line, however many of its lanes wait there.  It is that of
 * the first in a round that lacks weight, so of the highest priority; the others look behind it.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/memutils.h"

#include "call/class.h"
#include "call/client.h"
#include "call/lane.h"
#include "call/place.h"
#include "call/pump.h"
#include "call/weight.h"
#include "core/admission.h"
#include "core/dispatch.h"
#include "registry/registry.h"
#include "shmem/nodes.h"

/* The node of a server; one without is its own, whatever databases call it. */
static void
node_label(const InferServer *server, char *label)
{
	char text[MAXPGPATH];
	int len = server->node != NULL
				  ? snprintf(text, sizeof(text), "%s", server->node)
				  : snprintf(text, sizeof(text), "%s:%d", server->host, server->port);

	if (len < INFER_DISPATCH_LABEL)
		strlcpy(label, text, INFER_DISPATCH_LABEL);
	else
		snprintf(label, INFER_DISPATCH_LABEL, "hash:" UINT64_FORMAT,
				 hash_bytes_extended((const unsigned char *) text, strlen(text), 0));
}

bool
infer_weight_suits(const InferLane *lane, const InferPlace *place)
{
	char label[INFER_DISPATCH_LABEL];

	if (lane->duration != place->class->options.header.route.duration)
		return false;
	if (lane->weight == 0)
		return true;
	node_label(place->placement->server, label);
	return strcmp(label, lane->label) == 0;
}

void
infer_weight_begin(InferLane *lane, const InferPlace *place)
{
	lane->duration = place->class->options.header.route.duration;
	lane->weight = infer_nodes_weight(lane->duration);
	lane->node = INFER_NO_NODE;
	if (lane->weight == 0)
		return;
	lane->label = MemoryContextAlloc(GetMemoryChunkContext(lane), INFER_DISPATCH_LABEL);
	node_label(place->placement->server, lane->label);
}

/* Another lane of the process that stands in the same node's line, by its places of this round. */
static const InferLane *
other_there(const InferLane *lane, uint64 round)
{
	const InferLane *found = NULL;
	dlist_iter iter;

	dlist_foreach(iter, infer_pump_clients())
	{
		const InferClient *client = dlist_container(InferClient, node, iter.cur);

		for (const InferLane *other = client->lanes; other != NULL; other = other->next)
		{
			if (other == lane || !other->in_node_line || other->stands != round ||
				strcmp(other->label, lane->label) != 0)
				continue;
			if (other->outweighed == round)
				return other;
			found = other;
		}
	}
	return found;
}

int
infer_weight_take(InferLane *lane, const InferAsk *permits, uint64 round)
{
	InferDispatchAsk ask = {
		.label = lane->label,
		.want = permits->want,
		.weight = lane->weight,
		.priority = permits->priority,
		.lasts_us = permits->lasts_us,
		.wait = permits->wait,
		.duration = lane->duration,
		.deadline_us = permits->deadline_us,
	};
	const InferLane *other;
	int granted;

	if (lane->weight == 0)
		return permits->want;
	other = permits->wait ? other_there(lane, round) : NULL;
	ask.wait = permits->wait && other == NULL;
	granted = infer_nodes_take(&ask, &lane->node);
	if (granted == 0 && other != NULL && other->outweighed != round)
	{
		/* that one waits for its permit, and needs the place less */
		ask.wait = true;
		granted = infer_nodes_take(&ask, &lane->node);
	}
	if (permits->wait)
		lane->in_node_line = true;
	return granted;
}

void
infer_weight_done(InferLane *lane, int granted, int used)
{
	if (lane->weight > 0)
		infer_nodes_done(lane->node, granted, used);
}

void
infer_weight_give(const InferLane *lane)
{
	if (lane->weight > 0)
		infer_nodes_give(lane->node, lane->weight);
}

void
infer_weight_leave(InferLane *lane)
{
	dlist_iter iter;

	if (!lane->in_node_line)
		return;
	lane->in_node_line = false;
	dlist_foreach(iter, infer_pump_clients())
	{
		InferClient *client = dlist_container(InferClient, node, iter.cur);

		for (InferLane *other = client->lanes; other != NULL; other = other->next)
			if (other->in_node_line && other->node == lane->node)
				return;
	}
	if (lane->node != INFER_NO_NODE)
		infer_nodes_leave(lane->node);
}
