/*
 * call/batch.c - a batch: answers that travel in one request, from the first of them to its end.
 *
 * Which list of its client a batch is in says what it waits for (call/pump.c).  It holds at most
 * one permit, one transfer and one place in the route table's counts; all of them, and its share of
 * what is charged and retained, go back in infer_batch_free(), whatever way it ends.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "call/attempts.h"
#include "call/batch.h"
#include "call/class.h"
#include "call/client.h"
#include "call/copies.h"
#include "call/lane.h"
#include "call/memo.h"
#include "call/permit.h"
#include "call/place.h"
#include "call/pump.h"
#include "call/retry.h"
#include "call/sizes.h"
#include "call/usage.h"
#include "core/buf.h"
#include "core/limiter.h"
#include "shmem/admission.h"
#include "shmem/route.h"

/* The class knows its open batches, so that asking need not search those of all classes. */
void
infer_batch_set_open(InferBatch *batch, bool is_open)
{
	InferClass *class = batch->class;

	if (batch->in_open == is_open)
		return;
	batch->in_open = is_open;
	class->nopen += is_open ? 1 : -1;
	batch->client->nopen += is_open ? 1 : -1;
	if (is_open)
		class->open = batch;
	else if (class->open == batch)
		class->open = NULL;
}

void
infer_batch_move(InferBatch *batch, dlist_head *list)
{
	dlist_delete(&batch->node);
	dlist_push_tail(list, &batch->node);
}

/* An empty batch, which is loose. */
InferBatch *
infer_batch_new(InferClient *client, InferClass *class)
{
	Size size = offsetof(InferBatch, lanes) + sizeof(InferLane *) * class->nplaces;
	InferBatch *batch = MemoryContextAllocZero(client->context, size);
	int most = Max(1, class->limits.max_items);

	batch->client = client;
	batch->class = class;
	batch->priority = class->options.header.priority;
	batch->size = Min(most, 16);
	batch->answers = MemoryContextAlloc(client->context, sizeof(InferAnswer *) * batch->size);
	infer_buf_init(&batch->body, MaxAllocSize);
	client->nbatches++;
	dlist_push_tail(&client->loose, &batch->node);
	infer_lanes_get(batch);
	if (class->nplaces == 1)
		infer_batch_place(batch, 0);
	return batch;
}

/* Adds an answer and pins it; whose it is does not change. */
void
infer_batch_share(InferBatch *batch, InferAnswer *answer)
{
	if (batch->nanswers == batch->size)
	{
		batch->size *= 2;
		batch->answers = repalloc(batch->answers, sizeof(InferAnswer *) * batch->size);
	}
	batch->answers[batch->nanswers++] = answer;
	batch->bytes += answer->input_len;
	infer_memo_pin(answer);
}

/* Adds an answer, which is the batch's from now on. */
void
infer_batch_add(InferBatch *batch, InferAnswer *answer)
{
	infer_batch_share(batch, answer);
	answer->state = INFER_ANSWER_BATCHED;
	answer->batch = batch;
}

/* Takes the answers from..end out of a batch into a new one of the same class, which has been
 * through whatever the batch has been through. */
void
infer_batch_split(InferBatch *batch, InferBatch *into, int from)
{
	infer_usage_split(batch, into, batch->nanswers - from);
	for (int i = from; i < batch->nanswers; i++)
	{
		InferAnswer *answer = batch->answers[i];

		infer_batch_add(into, answer);
		infer_memo_unpin(answer);
		batch->bytes -= answer->input_len;
	}
	batch->nanswers = from;
	into->attempts = batch->attempts;
	into->floor = batch->floor;
	into->first_sent_us = batch->first_sent_us;
	into->deadline_us = batch->deadline_us;
	into->priority = batch->priority;
	into->stages = batch->stages;
	infer_attempts_copy(into, batch);
	infer_sizes_part(into, batch);
}

void
infer_batch_part(InferBatch *batch, int n)
{
	InferBatch *rest = infer_batch_new(batch->client, batch->class);

	infer_batch_split(batch, rest, n);
	infer_batch_ready(rest);
}

void
infer_batch_forget_body(InferBatch *batch)
{
	infer_retain_end(batch);
	infer_buf_reset(&batch->body);
	batch->key_header[0] = '\0';
}

/* Where it goes; what was made for another place, and would be said otherwise here, is made anew.
 */
void
infer_batch_place(InferBatch *batch, int place)
{
	InferPlace *to = &batch->class->places[place];
	const InferPlace *from = batch->place;

	batch->place = to;
	batch->lane = batch->lanes[place];
	if (from == NULL || from == to)
		return;
	/* what another server takes says nothing of the one that refused */
	infer_sizes_leave(batch);
	if (from->provider != to->provider || strcmp(from->remote_model, to->remote_model) != 0 ||
		batch->asked_base64 != infer_place_base64(to))
		infer_batch_forget_body(batch);
}

/* Frees a batch: what it holds goes back, answers without a result are nobody's again. */
void
infer_batch_free(InferBatch *batch)
{
	bool sent = batch->transfer != NULL;

	dlist_delete(&batch->node);
	infer_copies_leave(batch);
	infer_sizes_leave(batch);
	infer_abandon(batch);
	infer_batch_set_open(batch, false);
	infer_permit_want(batch, false);
	infer_usage_end(batch);
	infer_pump_release_transfer(batch);
	infer_permit_release(batch, sent ? &infer_outcome_given_up : &infer_outcome_unsent, NULL);
	infer_route_release(&batch->reservation, NULL);
	batch->client->nbatches--;
	for (int i = 0; i < batch->nanswers; i++)
	{
		InferAnswer *answer = batch->answers[i];

		if (answer->state == INFER_ANSWER_BATCHED && answer->batch == batch)
		{
			answer->state = INFER_ANSWER_IDLE;
			answer->batch = NULL;
		}
		infer_memo_unpin(answer);
	}
	infer_retain_end(batch);
	infer_attempts_free(batch);
	infer_buf_free(&batch->body);
	pfree(batch->answers);
	pfree(batch);
}

/* The batch takes nothing more and wants a permit: behind those of its priority, which rises with
 * each retry. */
void
infer_batch_ready(InferBatch *batch)
{
	InferClient *client = batch->client;
	dlist_head *ready = &client->ready;
	dlist_node *after = &ready->head;

	dlist_delete(&batch->node);
	if (!dlist_is_empty(ready))
		for (after = dlist_tail_node(ready); after != &ready->head; after = after->prev)
			if (dlist_container(InferBatch, node, after)->priority >= batch->priority)
				break;
	if (after == &ready->head)
		dlist_push_head(ready, &batch->node);
	else
		dlist_insert_after(after, &batch->node);
	if (batch->deadline_us > 0)
		client->expires_us = client->expires_us == 0 ? batch->deadline_us
													 : Min(client->expires_us, batch->deadline_us);
	infer_permit_want(batch, true);
}

/*
 * After an attempt: the controllers hear of it, then the permit and the connection are free.  The
 * batch is loose afterwards; the body of the answer is gone.
 */
void
infer_batch_landed(InferBatch *batch, const InferOutcome *outcome, const InferRateNews *news,
				   const InferRouteOutcome *route)
{
	infer_batch_move(batch, &batch->client->loose);
	infer_usage_landed(batch);
	infer_lane_feed(batch, outcome);
	infer_permit_release(batch, outcome, news);
	infer_route_release(&batch->reservation, route);
	infer_pump_release_transfer(batch);
}

/* The batch is looked at again then. */
void
infer_batch_sleep(InferBatch *batch, int64 until_us)
{
	infer_permit_want(batch, false);
	batch->not_before_us = until_us;
	infer_batch_move(batch, &batch->client->sleeping);
}

/* When a sleeping batch wants to go on; 0 = it has what it waits for. */
int64
infer_batch_wakes_us(const InferBatch *batch)
{
	if (batch->on_change && batch->changes != infer_route_changes())
		return 0;
	return batch->not_before_us;
}
