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

#include "call/internal.h"

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

static InferLane *
find_lane(InferClient *client, const InferPlace *place)
{
	const InferCallOptions *options = &place->class->options;
	InferLane *lane;

	for (lane = client->lanes; lane != NULL; lane = lane->next)
		if (lane->key == place->key && lane->cap == options->max_concurrency &&
			lane->priority == options->header.priority)
			return lane;
	lane = MemoryContextAllocZero(client->context, sizeof(InferLane));
	lane->key = place->key;
	lane->cap = options->max_concurrency;
	lane->priority = options->header.priority;
	start_window(lane);
	lane->next = client->lanes;
	client->lanes = lane;
	return lane;
}

/* The client's lane for a place; made at its first batch. */
InferLane *
infer_lane_get(InferClient *client, const InferPlace *place)
{
	InferLane *lane = find_lane(client, place);

	lane->items = Max(lane->items, place->class->limits.max_items);
	return lane;
}

bool
infer_lane_has_room(const InferLane *lane)
{
	return lane->running < infer_window_limit(&lane->window);
}

int64
infer_client_capacity(const InferClient *client)
{
	int64 most = 0;

	for (const InferLane *lane = client->lanes; lane != NULL; lane = lane->next)
		most = Max(most, Min(infer_window_limit(&lane->window), lane->limit) * lane->items);
	return most;
}

int64
infer_client_hunger(InferClient *client)
{
	int64 hunger = 0;
	dlist_iter iter;

	if (!dlist_is_empty(&client->ready))
		return 0;
	for (const InferLane *lane = client->lanes; lane != NULL; lane = lane->next)
	{
		int64 most = Min(infer_window_limit(&lane->window), lane->limit);

		hunger = Max(hunger, (most - lane->running) * lane->items);
	}
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
