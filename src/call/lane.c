/*
 * call/lane.c - what one client may have in flight under one admission key.
 *
 * The key's limit is shared, and knows overload and the server's use; the window is the client's
 * own, and knows how long its answers take.  A new client starts where the key is, at least with
 * limiter_start, and doubles as long as the key does and latency does not rise.
 *
 * Calls with the option max_concurrency have a lane of their own, which it bounds; so have those of
 * another priority.
 */
#include "postgres.h"

#include "call/batch.h"
#include "call/call.h"
#include "call/class.h"
#include "call/client.h"
#include "call/lane.h"
#include "call/options.h"
#include "call/place.h"
#include "call/weight.h"
#include "core/limiter.h"
#include "core/types.h"
#include "core/window.h"
#include "pg/guc.h"
#include "shmem/admission.h"

/* Without congestion_max_window. */
#define WINDOW_MAX 1024
/* Below this, what looks like latency is mostly our own turn-around. */
#define LATENCY_FLOOR 16

static void
start_window(InferLane *lane)
{
	InferWindowConfig config = {
		.min = infer_guc_congestion_min_window,
		.max = infer_guc_congestion_max_window > 0 ? infer_guc_congestion_max_window : WINDOW_MAX,
		.step_coef = infer_guc_congestion_step_coef,
		.latency_floor = LATENCY_FLOOR,
		.means = true,
	};

	lane->limit = infer_admission_limit(lane->key, infer_guc_limiter_start, &config);
	if (lane->cap > 0)
		config.max = Min(config.max, lane->cap);
	infer_window_init(&lane->window, &config);
}

/* The client's lane for a place, made at its first batch.  The search begins at `near`, the lane of
 * the place before this one in the class: the lanes of a class stand in the order of its places. */
static InferLane *
get_lane(InferClient *client, const InferPlace *place, InferLane *near)
{
	const InferCallOptions *options = &place->class->options;
	InferLane *lane;

	for (int round = 0; round < 2; round++)
		for (lane = round == 0 ? near : client->lanes; lane != NULL; lane = lane->next)
			if (lane->key == place->key && lane->cap == options->max_concurrency &&
				lane->priority == options->header.priority && infer_weight_suits(lane, place))
				return lane;
	lane = MemoryContextAllocZero(client->context, sizeof(InferLane));
	lane->key = place->key;
	lane->cap = options->max_concurrency;
	lane->priority = options->header.priority;
	lane->group = near != NULL ? near->group : ++client->ngroups;
	infer_weight_begin(lane, place);
	start_window(lane);
	lane->next = near != NULL ? near->next : client->lanes;
	*(near != NULL ? &near->next : &client->lanes) = lane;
	return lane;
}

/* What one batch may use is one group. */
static void
join_groups(InferClient *client, int into, int from)
{
	for (InferLane *lane = client->lanes; into != from && lane != NULL; lane = lane->next)
		if (lane->group == from)
			lane->group = into;
}

void
infer_lanes_get(InferBatch *batch)
{
	InferClass *class = batch->class;
	InferLane *lane = NULL;
	int group = 0;

	for (int i = 0; i < class->nplaces; i++)
	{
		if (class->places[i].barred != INFER_REASON_NONE)
			continue;
		lane = get_lane(batch->client, &class->places[i], lane);
		lane->items = Max(lane->items, class->limits.max_items);
		if (group == 0)
			group = lane->group;
		join_groups(batch->client, group, lane->group);
		batch->lanes[i] = lane;
	}
}

bool
infer_lane_has_room(const InferLane *lane)
{
	return lane->running < infer_window_limit(&lane->window);
}

/* Inputs that fill the lanes of a group; free_only: beside those that are on their way. */
static int64
group_room(const InferClient *client, int group, bool free_only)
{
	int64 room = 0;

	for (const InferLane *lane = client->lanes; lane != NULL; lane = lane->next)
	{
		int64 most = Min(infer_window_limit(&lane->window), lane->limit);

		if (lane->group == group)
			room += (most - (free_only ? lane->running : 0)) * lane->items;
	}
	return room;
}

/* Calls of several classes are about the same rows, so it is the widest group that counts. */
static int64
widest_group(const InferClient *client, bool free_only)
{
	int64 most = 0;
	int before = 0;

	for (const InferLane *lane = client->lanes; lane != NULL; lane = lane->next)
	{
		if (lane->group != before)
			most = Max(most, group_room(client, lane->group, free_only));
		before = lane->group;
	}
	return most;
}

int64
infer_client_capacity(const InferClient *client)
{
	return widest_group(client, false);
}

int64
infer_client_hunger(InferClient *client)
{
	int64 hunger;
	dlist_iter iter;

	if (!dlist_is_empty(&client->ready))
		return 0;
	hunger = widest_group(client, true);
	dlist_foreach(iter, &client->open) hunger -=
		dlist_container(InferBatch, node, iter.cur)->nanswers;
	return Max(hunger, 0);
}

void
infer_lane_stats(InferClient *client)
{
	InferClientStats *stats = &client->stats;

	stats->window = stats->window_min = stats->limit = 0;
	for (const InferLane *lane = client->lanes; lane != NULL; lane = lane->next)
	{
		stats->window += infer_window_limit(&lane->window);
		stats->window_min += lane->window.least;
		stats->limit += lane->limit;
	}
}

/* The window hears of an attempt that ended; it is still counted as running. */
void
infer_lane_feed(InferBatch *batch, const InferOutcome *outcome)
{
	InferLane *lane = batch->lane;

	if (outcome->verdict == INFER_VERDICT_SUCCESS)
		infer_window_sample(&lane->window, outcome->rtt_us, lane->running);
	else if (outcome->verdict == INFER_VERDICT_OVERLOADED)
		infer_window_overload(&lane->window, batch->window_epoch);
}
