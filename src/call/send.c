/*
 * call/send.c - batches that are ready, their permits, and the requests that they become.
 */
#include "postgres.h"

#include "call/batch.h"
#include "call/budget.h"
#include "call/class.h"
#include "call/client.h"
#include "call/copies.h"
#include "call/drain.h"
#include "call/finish.h"
#include "call/incarnation.h"
#include "call/lane.h"
#include "call/memo.h"
#include "call/permit.h"
#include "call/place.h"
#include "call/pump.h"
#include "call/retry.h"
#include "call/route.h"
#include "call/signals.h"
#include "call/sizes.h"
#include "call/tolerance.h"
#include "core/route.h"
#include "core/stages.h"
#include "core/types.h"
#include "http/transport.h"
#include "pg/clock.h"
#include "pg/guc.h"
#include "provider/provider.h"
#include "registry/registry.h"
#include "shmem/route.h"

static bool
build_body(InferBatch *batch)
{
	InferRequestShape shape = {
		.task = batch->class->task,
		.remote_model = batch->place->remote_model,
		.parameters_json = batch->class->parameters_json,
		.ask_base64 = infer_place_base64(batch->place),
	};
	InferInput *inputs;
	InferFault fault = {INFER_REASON_NONE};
	bool built;

	if (batch->body.len > 0)
		return true; /* a repeated attempt */
	if (batch->stages.by_key)
	{
		/* a budget cut it, or its server has refused base64 meanwhile */
		infer_route_fail(batch, INFER_STAGES_LAST);
		return false;
	}
	batch->asked_base64 = shape.ask_base64;
	inputs = palloc(sizeof(InferInput) * batch->nanswers);
	for (int i = 0; i < batch->nanswers; i++)
		inputs[i] = (InferInput){batch->answers[i]->input, batch->answers[i]->input_len};
	built = infer_provider_build(batch->place->provider, &shape, inputs, batch->nanswers,
								 &batch->body, &fault);
	pfree(inputs);
	if (!built)
		infer_finish_fail(batch, fault.reason, INFER_NOT_ADMITTED, 0, fault.message);
	return built && infer_idempotency_prepare(batch) && infer_retain(batch);
}

/*
 * What an attempt may take: its server's timeout, where the call gives none.  Attempts at one
 * server have it each; those that go to several have the longest of them together, from the first
 * one on.
 */
static int
attempt_timeout_ms(InferBatch *batch)
{
	int timeout_ms = batch->place->timeout_ms;
	int64 now;

	if (batch->class->nplaces == 1)
		return timeout_ms;
	now = infer_now_us();
	if (batch->deadline_us == 0)
		batch->deadline_us = now + (int64) batch->class->options.timeout_ms * 1000;
	return (int) Max(1, Min(timeout_ms, (batch->deadline_us - now) / 1000));
}

bool
infer_batch_submit(InferBatch *batch, const InferSecrets *secrets)
{
	InferPlace *place = batch->place;
	const char *headers[INFER_SIGNALS_MAX + 2];
	InferSignals signals;
	int n = 0;
	InferHttpRequest request = {
		.url = place->url,
		.headers = headers,
		.body = batch->body.data,
		.body_len = batch->body.len,
		.connect_timeout_ms = infer_guc_connect_timeout,
		.max_response_size = (size_t) infer_guc_max_response_size * 1024,
		.max_idle_s = place->placement->server->keep_alive_s,
		.incarnation_header = infer_incarnation_header(place),
		.check_address = infer_egress_address,
		.check_arg = &place->egress,
		.user = batch,
		.secret_header = secrets->header,
		.tls = {.authorities = secrets->authorities,
				.authorities_len = secrets->authorities ? strlen(secrets->authorities) : 0,
				.identity = secrets->identity,
				.identity_len = secrets->identity ? strlen(secrets->identity) : 0},
	};
	InferClient *client = batch->client;

	request.timeout_ms = batch->timeout_ms = attempt_timeout_ms(batch);
	infer_place_address(place, &request);
	if (batch->key_header[0] != '\0')
		headers[n++] = batch->key_header;
	infer_signals_make(&signals, batch, batch->timeout_ms);
	for (int i = 0; i < signals.n; i++)
		headers[n++] = signals.lines[i];
	headers[n] = NULL;
	batch->transfer = infer_transport_submit(infer_pump_transport(), &request);
	if (batch->transfer == NULL)
		return false;
	if (batch->first_sent_us == 0)
		batch->first_sent_us = infer_now_us();
	batch->window_epoch = batch->lane->window.epoch;
	batch->lane->running++;
	client->nrunning++;
	client->stats.requests++;
	client->stats.peak_in_flight = Max(client->stats.peak_in_flight, client->nrunning);
	infer_batch_move(batch, &client->running);
	return true;
}

/*
 * Sends a batch that has its permit and is loose.  On any failure the batch is finished, which
 * gives the permit back.
 */
static void
send_batch(InferBatch *batch, const InferSecrets *secrets)
{
	if (!infer_batch_submit(batch, secrets))
	{
		infer_finish_fail(batch, INFER_REASON_INTERNAL, INFER_NOT_ADMITTED, 0, "out of memory");
		return;
	}
	batch->number = ++batch->attempts;
	infer_route_started(batch);
	infer_copies_arm(batch);
}

/*
 * Sends a ready batch that has its permit.  Reading its secrets looks into catalogs, which may wait
 * for a lock and raise; the batch stays in its list until that is done, so that whoever cleans up
 * finds it and its permit.
 */
static void
send_ready(InferBatch *batch)
{
	InferSecrets secrets;
	char *detail = NULL;
	InferReason reason;

	infer_sizes_cut(batch);
	if (!batch->reservation.queue.held) /* an error may have come in between */
		(void) infer_route_reserve(batch->place->slot, batch->lane->weight, &batch->reservation);
	if (infer_drain_came_between(batch) || infer_incarnation_came_between(batch))
		return;
	reason = infer_registry_secrets(batch->place->placement->server, batch->class->userid, &secrets,
									&detail);

	infer_batch_move(batch, &batch->client->loose);
	infer_permit_want(batch, false);
	if (reason != INFER_REASON_NONE)
		infer_finish_fail(batch, reason, INFER_NOT_ADMITTED, 0, detail);
	else if (infer_incarnation_allows(batch) && infer_tolerance_allows(batch) &&
			 infer_budget_allows(batch) && build_body(batch))
		send_batch(batch, &secrets);
	infer_secrets_wipe(&secrets);
}

/* Moves sleeping batches whose time has come to the ready list. */
static void
wake_sleepers(InferClient *client)
{
	dlist_mutable_iter iter;
	int64 now;

	if (dlist_is_empty(&client->sleeping))
		return;
	now = infer_now_us();
	dlist_foreach_modify(iter, &client->sleeping)
	{
		InferBatch *batch = dlist_container(InferBatch, node, iter.cur);

		if (infer_batch_wakes_us(batch) <= now)
			infer_batch_ready(batch);
	}
}

/* Ready batches whose time is over, wherever they wait in line, end as their last attempt did: time
 * runs from an attempt on that failed, for one that was refused for its words is none. */
static void
expire_ready(InferClient *client)
{
	dlist_mutable_iter iter;
	int64 next = 0;
	int64 now;

	if (client->expires_us == 0)
		return;
	now = infer_now_us();
	if (now < client->expires_us)
		return;
	dlist_foreach_modify(iter, &client->ready)
	{
		InferBatch *batch = dlist_container(InferBatch, node, iter.cur);

		if (batch->deadline_us == 0)
			continue;
		if (batch->deadline_us <= now)
			infer_route_fail(batch, INFER_STAGES_LAST);
		else if (next == 0 || batch->deadline_us < next)
			next = batch->deadline_us;
	}
	client->expires_us = next;
}

/* How soon a probe that found no permit looks again. */
#define PROBE_LOOK_US 50000

/* What became of a ready batch. */
typedef enum Turn
{
	TURN_SENDS, /* it has its permit */
	TURN_WAITS, /* it stays where it is */
	TURN_GONE   /* it sleeps, or has failed */
} Turn;

/* Nothing is waited for longer than the call may take; a change may come before. */
static Turn
wait_for_place(InferBatch *batch, int64 until_us)
{
	if (batch->deadline_us > 0 && until_us > batch->deadline_us)
	{
		if (!batch->on_change || batch->deadline_us <= infer_now_us())
		{
			infer_route_fail(batch, INFER_STAGES_LAST);
			return TURN_GONE;
		}
		until_us = batch->deadline_us;
	}
	infer_batch_sleep(batch, until_us);
	return TURN_GONE;
}

/* None of its places is worth waiting for: others may be. */
static bool
give_up_places(InferBatch *batch)
{
	if (batch->class->nplaces > 1)
	{
		const InferStagesStep *step;

		infer_route_give_up(batch);
		step = infer_route_next(batch);
		if (step->action != INFER_STAGES_END || batch->attempts > 0)
			return true;
	}
	infer_cooldown_fail(batch);
	return false;
}

/* All have failed: the call tries one of them, as soon as a dial may leave. */
static Turn
try_probe(InferBatch *batch, const InferStagesStep *step)
{
	int64 now = infer_now_us();

	if (infer_permit_probe(batch, step->order, step->n_order))
		return TURN_SENDS;
	if (now - batch->stages.wait_until_us > (int64) infer_guc_all_failed_wait * 1000)
		infer_route_fail(batch, INFER_STAGES_CAUSE);
	else
		infer_batch_sleep(batch, now + PROBE_LOOK_US);
	return TURN_GONE;
}

static Turn
take_turn(InferBatch *batch)
{
	for (;;)
	{
		const InferStagesStep *step;

		if (batch->permit)
			return TURN_SENDS;
		/* not worth waiting for */
		if (batch->class->target->ref != NULL && !infer_incarnation_allows(batch))
			return TURN_GONE;
		step = infer_route_next(batch);
		if (step->action == INFER_STAGES_END)
		{
			infer_route_fail(batch, step->end);
			return TURN_GONE;
		}
		if (step->action != INFER_STAGES_SEND)
			return wait_for_place(batch, step->until_us);
		if (step->probe)
			return try_probe(batch, step);
		switch (infer_permit_take(batch, step->order, step->n_order))
		{
			case INFER_PERMIT_TAKEN:
				return TURN_SENDS;
			case INFER_PERMIT_WAITS:
				return TURN_WAITS;
			case INFER_PERMIT_GIVES_UP:
				if (!give_up_places(batch))
					return TURN_GONE;
				break;
		}
	}
}

/* One that has not been tried yet may go where all others of its class may, unless chance says
 * where. */
static bool
is_like_others(const InferBatch *batch)
{
	return batch->class->request.test_ctl != INFER_TEST_RANDOM && !batch->permit &&
		   batch->stages.attempts == 0 && batch->refusal == NULL;
}

/*
 * Sends ready batches, in order, as long as there is room in their lanes and permits are to be had.
 */
void
infer_pump_send(InferClient *client)
{
	dlist_mutable_iter iter;
	uint64 round = infer_permit_begin_round();
	bool sent = false;

	wake_sleepers(client);
	expire_ready(client);
	dlist_foreach_modify(iter, &client->ready)
	{
		InferBatch *batch = dlist_container(InferBatch, node, iter.cur);
		Turn turn;

		if (infer_pump_free_transfers() <= 0)
			break;
		if (is_like_others(batch) && batch->class->waits == round)
			continue;
		turn = take_turn(batch);
		if (turn == TURN_SENDS)
		{
			sent = true;
			send_ready(batch);
		}
		else if (turn == TURN_WAITS)
		{
			if (is_like_others(batch))
				batch->class->waits = round;
			if (!infer_permit_is_hopeful(client))
				break; /* nothing else is there to be sent */
		}
	}
	for (InferLane *lane = client->lanes; lane != NULL; lane = lane->next)
		infer_permit_return_spare(lane);
	if (sent)
		infer_transport_step(infer_pump_transport());
}
