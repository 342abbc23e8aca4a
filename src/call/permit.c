/*
 * call/permit.c - the batches of this process and the permits of their admission keys.
 *
 * A lane asks for as many permits as it has batches for, so that the line knows what is wanted and
 * nobody of lower priority takes it.  What it gets is kept with the lane until its batches take it,
 * in the same round; what an error leaves there is taken in the next one, or goes back with the
 * client.
 *
 * The process is in a key's line, or not: one place, however many lanes want permits of that key.
 */
#include "postgres.h"

#include "call/internal.h"

/* Who is in a line looks so often, for its wake-up may have gone to a process that is stopped. */
#define LOOK_US 1000000

/* Per admission key of this process: how many batches want a permit, and are we in its line? */
typedef struct KeyDemand
{
	int ready;
	bool in_line;
} KeyDemand;

static KeyDemand *demands; /* by InferKey */
static int total_ready;    /* of all keys */

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

/* Requests of our own will end for sure, and make room: who waits for them is in no line. */
void
infer_permit_leave(InferKey key)
{
	if (demands[key].in_line)
		infer_admission_wait_end(key);
	demands[key].in_line = false;
}

void
infer_permit_want(InferBatch *batch, bool wanted)
{
	KeyDemand *demand = &demands[batch->place->key];
	int change = wanted ? 1 : -1;

	if (batch->in_ready == wanted)
		return;
	batch->in_ready = wanted;
	batch->lane->ready += change;
	demand->ready += change;
	total_ready += change;
	if (demand->ready == 0)
		infer_permit_leave(batch->place->key);
}

int
infer_permit_wanted(InferKey key)
{
	return demands[key].ready;
}

bool
infer_permit_others_wanted(InferKey key)
{
	return demands[key].ready < total_ready;
}

/* Asks for permits for all that the lane may send; the batch is one of them. */
static InferPermitAnswer
ask(InferLane *lane, const InferBatch *batch)
{
	int64 room = infer_window_limit(&lane->window) - lane->running;
	InferAmount guess;
	InferAsk ask = {
		.want = (int) Max(1, Min(Min(lane->ready, room), infer_pump_free_transfers())),
		.priority = lane->priority,
		.lasts_us = (int64) batch->class->options.timeout_ms * 1000,
		.patience_us = infer_retry_patience_us(batch->class),
		.wait = true,
		.duration = batch->class->options.header.route.duration,
	};
	int granted;

	infer_usage_guess(batch->place, batch->bytes, batch->nanswers, &guess);
	ask.tokens = guess.tokens;
	granted = infer_admission_try_acquire(lane->key, &ask, &lane->ticket);
	if (granted == INFER_ADMISSION_GIVES_UP)
	{
		demands[lane->key].in_line = false;
		return INFER_PERMIT_GIVES_UP;
	}
	lane->spare = granted;
	lane->limit = lane->ticket.limit;
	lane->ticket.permit.level -= lane->spare - 1; /* each has its own: so many were in flight */
	demands[lane->key].in_line = lane->spare < ask.want;
	return lane->spare > 0 ? INFER_PERMIT_TAKEN : INFER_PERMIT_WAITS;
}

/* Gets a permit for the batch, if one is to be had. */
InferPermitAnswer
infer_permit_take(InferBatch *batch)
{
	InferLane *lane = batch->lane;
	InferPermitAnswer answer = lane->spare > 0 ? INFER_PERMIT_TAKEN : ask(lane, batch);

	if (answer != INFER_PERMIT_TAKEN)
		return answer;
	batch->ticket = lane->ticket;
	batch->permit = true;
	lane->ticket.permit.level++;
	lane->spare--;
	return answer;
}

/* The controllers hear how it went, then the permit is free. */
void
infer_permit_release(InferBatch *batch, const InferOutcome *outcome, const InferRateNews *news)
{
	if (!batch->permit)
		return;
	batch->permit = false;
	batch->ticket.first = batch->transfer != NULL && batch->attempts == 1;
	batch->lane->limit =
		infer_admission_release(batch->place->key, &batch->ticket, outcome, news ? news : &no_news);
}

/* What the lane has for nobody goes back. */
void
infer_permit_return_spare(InferLane *lane)
{
	for (; lane->spare > 0; lane->spare--)
		infer_admission_release(lane->key, &lane->ticket, &infer_outcome_unsent, &no_news);
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
			if (demands[lane->key].in_line)
				next = Min(next, Min(infer_admission_alarm(lane->key), infer_now_us() + LOOK_US));
	}
	return next;
}
