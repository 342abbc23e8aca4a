/*
 * call/lane.h - lanes: the requests of one client under one admission key.
 *
 * Classes whose options differ in limit, weight or priority have lanes of their own there.  Lanes
 * live as long as their client.
 */
#ifndef INFER_CALL_LANE_H
#define INFER_CALL_LANE_H

#include "postgres.h"

#include "call/types.h"
#include "core/types.h"
#include "core/window.h"
#include "shmem/admission.h"

struct InferLane
{
	InferLane *next; /* of the client's */
	InferKey key;
	int cap;                /* the option max_concurrency of its classes; 0 = none */
	InferPriority priority; /* ... and their priority */
	InferDuration duration; /* ... and that of all of them */
	int weight;             /* of each of its requests, on its node; 0 = none */
	char *label;            /* ... which is this one */
	int node;               /* ... and has this number while something of the process is there */
	bool in_node_line;      /* waits there */
	uint64 outweighed;      /* the round in which its node had too much (permit.c) */
	uint64 stands;          /* the round in which it got its places in line */
	InferWindow window;
	int ready;   /* batches that may go here, and want a permit */
	int running; /* ... that went here, and have one */
	int spare;   /* permits that no batch has taken yet */
	InferTicket ticket;
	int limit;     /* the key's, when we asked last */
	int items;     /* the largest batch of its classes */
	int group;     /* the same for lanes that share the batches of a class */
	uint64 full;   /* the round in which it had no room (permit.c) */
	uint64 marked; /* scratch of one call */
};

/* The lanes to all places of the batch's class, made as needed, into the batch. */
extern void infer_lanes_get(InferBatch *batch);
/* Does its window let one more request out? */
extern bool infer_lane_has_room(const InferLane *lane);
/* The window hears of an attempt that ended; it is still counted as running. */
extern void infer_lane_feed(InferBatch *batch, const InferOutcome *outcome);
/* Sums over the client's lanes, into its figures. */
extern void infer_lane_stats(InferClient *client);

#endif
