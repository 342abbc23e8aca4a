/*
 * call/permit.c - the batches of this process and the permits of their admission keys.
 *
 * A lane asks for as many permits as it has batches for, so that the line knows what is wanted and
 * nobody of lower priority takes it.  What it gets is kept with the lane until its batches take it,
 * in the same round; what an error leaves there is taken in the next one, or goes back with the
 * client.
 *
 * The process is in a key's line, or not: one place, however many lanes want permits of that key.
 *
 * Several places.  A batch counts in the lanes of all places of its class, for it may go to any of
 * them.  It asks them one after the other, the best first, for one permit, without joining a line;
 * if none has one, the process joins the lines of all of them, and the batch goes to whichever
 * calls first.  So a backlog keeps every server busy as long as it has room, and each line stands
 * for one server's turn.
 *
 * Weight.  What weighs on its node (call/weight.c) takes its weight and its permit together, or
 * neither, and waits for one of them at a time.
 *
 * Rounds.  One look at a client's ready batches is a round.  What a key refused, or a lane has no
 * room for, is not asked again in it, so that a long list of batches costs a comparison each.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "call/batch.h"
#include "call/class.h"
#include "call/client.h"
#include "call/lane.h"
#include "call/permit.h"
#include "call/place.h"
#include "call/pump.h"
#include "call/retry.h"
#include "call/usage.h"
#include "call/weight.h"
#include "core/admission.h"
#include "core/budget.h"
#include "core/limiter.h"
#include "core/types.h"
#include "core/window.h"
#include "pg/clock.h"
#include "pg/guc.h"
#include "shmem/admission.h"

/* Who is in a line looks so often, for its wake-up may have gone to a process that is stopped. */
#define LOOK_US 1000000

/* Per admission key of this process. */
typedef struct KeyDemand
{
	int ready;      /* batches that want a permit */
	int weighing;   /* ... of them those that need weight on their node as well */
	uint64 refused; /* the round in which it had none */
	uint64 joined;  /* ... and the process has joined the line */
} KeyDemand;

static KeyDemand *demands; /* by InferKey */
static uint64 round_now;

const InferOutcome infer_outcome_given_up = {
	.verdict = INFER_VERDICT_IGNORE, .reason = INFER_REASON_CANCELLED, .retry_after_us = -1};
const InferOutcome infer_outcome_unsent = {
	.verdict = INFER_VERDICT_IGNORE, .unsent = true, .retry_after_us = -1};
static const InferRateNews no_news = {
	.tokens = -1, .requests = {-1, -1}, .remaining_tokens = {-1, -1}, .retry_after_us = -1};

/* Before the first batch. */
void
infer_permit_init(void)
{
	if (demands == NULL)
		demands = MemoryContextAllocZero(TopMemoryContext,
										 sizeof(KeyDemand) * infer_guc_max_admission_keys);
}

static void
want(InferLane *lane, int change)
{
	KeyDemand *demand = &demands[lane->key];

	lane->ready += change;
	demand->ready += change;
	demand->weighing += lane->weight > 0 ? change : 0;
	if (lane->ready == 0)
		infer_weight_leave(lane);
	if (demand->ready == 0)
		infer_admission_wait_end(lane->key);
}

void
infer_permit_want(InferBatch *batch, bool wanted)
{
	static uint64 call;
	int change = wanted ? 1 : -1;

	if (batch->in_ready == wanted)
		return;
	batch->in_ready = wanted;
	call++;
	for (int i = 0; i < batch->class->nplaces; i++)
	{
		InferLane *lane = batch->lanes[i];

		if (lane == NULL || lane->marked == call)
			continue;
		lane->marked = call; /* places may share a lane */
		want(lane, change);
	}
}

int
infer_permit_wanted(InferKey key)
{
	return demands[key].ready;
}

/* --- Rounds --- */

uint64
infer_permit_begin_round(void)
{
	return ++round_now;
}

/* Has the lane its places in the lines of this round, so that nothing more is to be had? */
static bool
stands(const InferLane *lane)
{
	if (lane->weight > 0)
		return lane->stands == round_now;
	return demands[lane->key].joined == round_now;
}

bool
infer_permit_is_hopeful(const InferClient *client)
{
	for (const InferLane *lane = client->lanes; lane != NULL; lane = lane->next)
		if (lane->ready > 0 && lane->full != round_now && !stands(lane))
			return true;
	return false;
}

/* Has any lane of the key batches that could go, as far as the lane goes? */
static bool
is_wanted(InferKey key)
{
	dlist_iter iter;

	dlist_foreach(iter, infer_pump_clients())
	{
		const InferClient *client = dlist_container(InferClient, node, iter.cur);

		for (const InferLane *lane = client->lanes; lane != NULL; lane = lane->next)
			if (lane->key == key && lane->ready > 0 && infer_lane_has_room(lane))
				return true;
	}
	return false;
}

/* Has the lane room? A lane that is full waits for its own requests, whose end makes room for sure,
 * and not in the key's line. */
static bool
has_room(InferLane *lane)
{
	if (lane->full != round_now && infer_lane_has_room(lane))
		return true;
	lane->full = round_now;
	infer_weight_leave(lane);
	if (infer_admission_waits(lane->key) && !is_wanted(lane->key))
		infer_admission_wait_end(lane->key);
	return false;
}

/* --- Asking --- */

/*
 * The lane's node has too much in flight.  The process waits in the node's line, and is passed over
 * in the key's, unless it has other batches there.
 */
static InferPermitAnswer
stand_by(InferLane *lane, const InferAsk *ask)
{
	KeyDemand *demand = &demands[lane->key];

	lane->outweighed = round_now;
	if (!ask->wait)
		return INFER_PERMIT_WAITS;
	if (demand->weighing < demand->ready || demand->joined == round_now)
		return INFER_PERMIT_WAITS;
	if (infer_admission_stand_by(lane->key, ask))
		return INFER_PERMIT_WAITS;
	infer_weight_leave(lane);
	return INFER_PERMIT_GIVES_UP;
}

/*
 * Takes what there is of it, with its weight: both or neither.  Where others of this round wait for
 * the key there is no permit, but what weighs gets its place in the node's line all the same.
 */
static InferPermitAnswer
acquire(InferLane *lane, InferAsk *ask)
{
	KeyDemand *demand = &demands[lane->key];
	int weighed = infer_weight_take(lane, ask, round_now);
	int granted;

	if (weighed == 0)
		return stand_by(lane, ask);
	lane->outweighed = 0;
	if (ask->wait && demand->joined == round_now)
	{
		infer_weight_done(lane, weighed, 0);
		return INFER_PERMIT_WAITS;
	}
	ask->want = weighed;
	granted = infer_admission_try_acquire(lane->key, ask, &lane->ticket);
	infer_weight_done(lane, weighed, Max(granted, 0));
	if (granted == INFER_ADMISSION_GIVES_UP)
	{
		infer_weight_leave(lane);
		return INFER_PERMIT_GIVES_UP;
	}
	lane->spare = granted;
	lane->limit = lane->ticket.limit;
	lane->ticket.permit.level -= lane->spare - 1; /* each has its own: so many were in flight */
	if (ask->wait && granted < weighed)
		demand->joined = round_now;
	return granted > 0 ? INFER_PERMIT_TAKEN : INFER_PERMIT_WAITS;
}

typedef enum How
{
	LOOKS, /* takes what is there */
	JOINS, /* gets in line for what is not granted */
	PROBES /* looks, also where the server is left alone */
} How;

/* Asks for as many permits as that; the batch is for one of them. */
static InferPermitAnswer
ask(const InferBatch *batch, int place, int wanted, How how)
{
	InferLane *lane = batch->lanes[place];
	const InferClass *class = batch->class;
	InferAmount guess;
	InferAsk ask = {
		.want = wanted,
		.priority = batch->priority,
		.lasts_us = (int64) class->places[place].timeout_ms * 1000,
		.patience_us = infer_retry_patience_us(class),
		.wait = how == JOINS,
		.elsewhere = class->nplaces > 1,
		.probe = how == PROBES,
		.duration = lane->duration,
		.deadline_us = batch->deadline_us,
	};

	infer_usage_guess(&class->places[place], batch->bytes, batch->nanswers, &guess);
	ask.tokens = guess.tokens;
	return acquire(lane, &ask);
}

/* So many permits of the lane are of use. Who is raised above its lane speaks for itself. */
static int
useful(const InferBatch *batch, const InferLane *lane)
{
	int64 room = infer_window_limit(&lane->window) - lane->running;

	if (batch->priority != lane->priority)
		return 1;
	return (int) Max(1, Min(Min(lane->ready, room), infer_pump_free_transfers()));
}

/* The batch gets a permit that its lane has. */
static InferPermitAnswer
take_spare(InferBatch *batch, int place)
{
	InferLane *lane = batch->lanes[place];

	infer_batch_place(batch, place);
	batch->ticket = lane->ticket;
	batch->permit = true;
	lane->ticket.permit.level++;
	lane->spare--;
	return INFER_PERMIT_TAKEN;
}

/* Is there a permit somewhere, the best place first? In no line for it. */
static InferPermitAnswer
look_around(InferBatch *batch, const int *order, int n, How how)
{
	for (int i = 0; i < n; i++)
	{
		InferLane *lane = batch->lanes[order[i]];
		KeyDemand *demand = &demands[lane->key];

		if (!has_room(lane))
			continue;
		if (lane->spare > 0)
			return take_spare(batch, order[i]);
		if (demand->refused == round_now || demand->joined == round_now ||
			lane->outweighed == round_now)
			continue;
		switch (ask(batch, order[i], 1, how))
		{
			case INFER_PERMIT_TAKEN:
				return take_spare(batch, order[i]);
			case INFER_PERMIT_WAITS:
				/* for its weight: what weighs nothing may still find a permit */
				if (lane->outweighed != round_now)
					demand->refused = round_now;
				break;
			case INFER_PERMIT_GIVES_UP:
				break;
		}
	}
	return INFER_PERMIT_WAITS;
}

/*
 * Joins the lines of all of them that have one.  GIVES_UP: there is nothing to wait for at any of
 * them; the batch is for the best one then, which says why.
 */
static InferPermitAnswer
get_in_line(InferBatch *batch, const int *order, int n)
{
	bool waits = false;

	for (int i = 0; i < n; i++)
	{
		InferLane *lane = batch->lanes[order[i]];

		if (has_room(lane) && lane->spare > 0)
			return take_spare(batch, order[i]);
		if (lane->full == round_now || stands(lane))
		{
			waits = true;
			continue;
		}
		switch (ask(batch, order[i], useful(batch, lane), JOINS))
		{
			case INFER_PERMIT_TAKEN:
				return take_spare(batch, order[i]);
			case INFER_PERMIT_WAITS:
				lane->stands = round_now;
				waits = true;
				break;
			case INFER_PERMIT_GIVES_UP:
				break;
		}
	}
	if (waits)
		return INFER_PERMIT_WAITS;
	infer_batch_place(batch, order[0]);
	return INFER_PERMIT_GIVES_UP;
}

bool
infer_permit_try(InferBatch *batch, int place)
{
	InferLane *lane = batch->lanes[place];

	if (!infer_lane_has_room(lane) || infer_admission_waits(lane->key) ||
		(lane->spare == 0 && ask(batch, place, 1, LOOKS) != INFER_PERMIT_TAKEN))
		return false;
	(void) take_spare(batch, place);
	return true;
}

InferPermitAnswer
infer_permit_take(InferBatch *batch, const int *order, int n)
{
	if (n > 1 && look_around(batch, order, n, LOOKS) == INFER_PERMIT_TAKEN)
		return INFER_PERMIT_TAKEN;
	return get_in_line(batch, order, n);
}

bool
infer_permit_probe(InferBatch *batch, const int *order, int n)
{
	return look_around(batch, order, n, PROBES) == INFER_PERMIT_TAKEN;
}

/* --- Giving back --- */

/* The controllers hear how it went, then the permit is free. */
void
infer_permit_release(InferBatch *batch, const InferOutcome *outcome, const InferRateNews *news)
{
	if (!batch->permit)
		return;
	batch->permit = false;
	infer_weight_give(batch->lane);
	batch->ticket.first = batch->transfer != NULL && batch->number == 1;
	batch->lane->limit =
		infer_admission_release(batch->lane->key, &batch->ticket, outcome, news ? news : &no_news);
}

/* What the lane has for nobody goes back. */
void
infer_permit_return_spare(InferLane *lane)
{
	for (; lane->spare > 0; lane->spare--)
	{
		infer_weight_give(lane);
		infer_admission_release(lane->key, &lane->ticket, &infer_outcome_unsent, &no_news);
	}
}

/*
 * When a process that waits for permits must look by itself; PG_INT64_MAX = it does not wait.
 * Limits that grow, and minutes that pass, open without anybody's giving something back.
 */
int64
infer_permit_next_alarm_us(void)
{
	int64 next = PG_INT64_MAX;
	dlist_iter iter;

	dlist_foreach(iter, infer_pump_clients())
	{
		InferClient *client = dlist_container(InferClient, node, iter.cur);

		for (InferLane *lane = client->lanes; lane != NULL; lane = lane->next)
			if (infer_admission_waits(lane->key) || lane->in_node_line)
				next = Min(next, Min(infer_admission_alarm(lane->key), infer_now_us() + LOOK_US));
	}
	return next;
}
