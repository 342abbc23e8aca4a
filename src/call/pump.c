/*
 * call/pump.c - rows ↔ batches ↔ permits ↔ transfers.
 *
 * A batch moves through its client's lists:
 *
 *     open ──leaves──▶ ready ──permit, transfer──▶ running ──answer──▶ (freed)
 *                        ▲                            │
 *                        └───── time ─── sleeping ◀───┘ may be repeated
 *
 * open      takes further answers of its class (core/batch decides when it leaves)
 * ready     wants a permit of its admission key; the process is in the key's line then
 * running   holds one permit and one transfer
 * sleeping  waits for its next attempt; holds neither
 *
 * There is one transport per process, so whoever looks takes everybody's finished transfers: a scan
 * nested in another one must not wait for an answer that the outer one has not fetched.
 *
 * Gates.  Before a batch gets its permit its lane must have room: the window of this client's
 * requests under that key, which follows latency.  The permit is of the key, which all sessions
 * share.  Answers that are there are taken before either is looked at.
 *
 * Invariants: batch->permit iff the batch is in running, or on its way from ready to there; a
 * permit is given back in exactly one place (infer_permit_release); a transfer likewise
 * (release_transfer); both happen on every path, for batches hang on clients and clients on
 * resource owners.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/fd.h"

#include "call/internal.h"
#include "pg/report.h"

#define MAX_IDLE_CONNECTIONS 256
/* PostgreSQL spares a third of a process's descriptors for what is not its own (fd.c); they must
 * do for connections in use and idle ones, a few are for epoll and name resolution. */
#define MAX_DESCRIPTORS   Max(max_safe_fds / 3, 8)
#define OTHER_DESCRIPTORS 4
/* Calls that differ by row in their parameters open a batch each; so many may wait for more. */
#define MAX_OPEN_BATCHES 64

static InferTransport *transport;
static InferTransfer *in_hand; /* finished, and its batch is being told */
static dlist_head clients = DLIST_STATIC_INIT(clients);

dlist_head *
infer_pump_clients(void)
{
	return &clients;
}

static int
max_transfers(void)
{
	return MAX_DESCRIPTORS - OTHER_DESCRIPTORS;
}

/* Requests that this process may still have in flight besides, whatever their keys allow. */
int
infer_pump_free_transfers(void)
{
	return max_transfers() - infer_transport_running(transport);
}

/* The process's transport, made at first use. */
InferTransport *
infer_pump_transport(void)
{
	if (transport == NULL)
	{
		infer_permit_init();
		transport = infer_transport_create(Min(MAX_IDLE_CONNECTIONS, max_transfers()));
		if (transport == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY), errmsg("could not set up HTTP connections"),
					 errdetail("There is no memory or no file descriptor left.")));
	}
	return transport;
}

static void
release_transfer(InferBatch *batch)
{
	if (batch->transfer == NULL)
		return;
	if (in_hand == batch->transfer)
		in_hand = NULL;
	infer_transfer_release(transport, batch->transfer);
	batch->transfer = NULL;
	batch->client->nrunning--;
	batch->lane->running--;
}

/* The class knows its open batches, so that asking need not search those of all classes. */
static void
set_open(InferBatch *batch, bool is_open)
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

static void
move(InferBatch *batch, dlist_head *list)
{
	dlist_delete(&batch->node);
	dlist_push_tail(list, &batch->node);
}

/* An empty batch, which is loose. */
InferBatch *
infer_batch_new(InferClient *client, InferClass *class)
{
	InferBatch *batch = MemoryContextAllocZero(client->context, sizeof(InferBatch));
	int most = Max(1, class->limits.max_items);

	batch->client = client;
	batch->class = class;
	if (class->nplaces == 1)
	{
		batch->place = &class->places[0];
		batch->lane = infer_lane_get(client, batch->place);
	}
	batch->size = Min(most, 16);
	batch->answers = MemoryContextAlloc(client->context, sizeof(InferAnswer *) * batch->size);
	infer_buf_init(&batch->body, MaxAllocSize);
	client->nbatches++;
	dlist_push_tail(&client->loose, &batch->node);
	return batch;
}

/* Adds an answer to a batch and pins it there. */
static void
batch_add(InferBatch *batch, InferAnswer *answer)
{
	if (batch->nanswers == batch->size)
	{
		batch->size *= 2;
		batch->answers = repalloc(batch->answers, sizeof(InferAnswer *) * batch->size);
	}
	batch->answers[batch->nanswers++] = answer;
	batch->bytes += answer->input_len;
	answer->state = INFER_ANSWER_BATCHED;
	answer->batch = batch;
	infer_memo_pin(answer);
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

		batch_add(into, answer);
		infer_memo_unpin(answer);
		batch->bytes -= answer->input_len;
	}
	batch->nanswers = from;
	into->attempts = batch->attempts;
	into->floor = batch->floor;
	into->first_sent_us = batch->first_sent_us;
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

/* Frees a batch: what it holds goes back, answers without a result are nobody's again. */
void
infer_batch_free(InferBatch *batch)
{
	bool sent = batch->transfer != NULL;

	dlist_delete(&batch->node);
	infer_sizes_leave(batch);
	infer_abandon(batch);
	set_open(batch, false);
	infer_permit_want(batch, false);
	infer_usage_end(batch);
	release_transfer(batch);
	infer_permit_release(batch, sent ? &infer_outcome_given_up : &infer_outcome_unsent, NULL);
	batch->client->nbatches--;
	for (int i = 0; i < batch->nanswers; i++)
	{
		InferAnswer *answer = batch->answers[i];

		if (answer->state == INFER_ANSWER_BATCHED)
		{
			answer->state = INFER_ANSWER_IDLE;
			answer->batch = NULL;
		}
		infer_memo_unpin(answer);
	}
	infer_retain_end(batch);
	infer_buf_free(&batch->body);
	pfree(batch->answers);
	pfree(batch);
}

/* The batch takes nothing more and wants a permit. */
void
infer_batch_ready(InferBatch *batch)
{
	move(batch, &batch->client->ready);
	infer_permit_want(batch, true);
}

/* The client's open batch of a class, or NULL. */
static InferBatch *
find_open(InferClient *client, InferClass *class)
{
	dlist_iter iter;

	if (class->nopen == 0)
		return NULL;
	if (class->open != NULL && class->open->client == client)
		return class->open;
	/* several clients ask calls of this class */
	dlist_foreach(iter, &client->open)
	{
		InferBatch *batch = dlist_container(InferBatch, node, iter.cur);

		if (batch->class == class)
			return batch;
	}
	return NULL;
}

static void
close_open(InferBatch *batch)
{
	set_open(batch, false);
	infer_batch_ready(batch);
}

static bool
leaves(const InferBatch *batch, bool input_ended, bool starved)
{
	const InferClass *class = batch->class;

	return infer_batch_leaves(class->options.mode, class->options.dispatch_batch_size,
							  class->limits, batch->nanswers, batch->bytes, input_ended, starved);
}

/* Puts an answer that nobody asks into the client's open batch of its class, which leaves when it
 * is full. */
void
infer_pump_ask(InferClient *client, InferAnswer *answer)
{
	InferClass *class = answer->class;
	InferBatch *batch = find_open(client, class);

	(void) infer_pump_transport();
	if (batch != NULL &&
		!infer_batch_accepts(class->limits, batch->nanswers, batch->bytes, answer->input_len))
	{
		close_open(batch);
		batch = NULL;
	}
	if (batch == NULL)
	{
		batch = infer_batch_new(client, class);
		move(batch, &client->open);
		set_open(batch, true);
	}
	batch_add(batch, answer);
	client->input_ended = false;
	client->stats.asked++;
	if (leaves(batch, false, false))
		close_open(batch);
	if (client->nopen > MAX_OPEN_BATCHES)
	{
		batch = dlist_container(InferBatch, node, dlist_head_node(&client->open));
		if (leaves(batch, false, true))
			close_open(batch);
	}
}

void
infer_pump_refuse(InferClient *client, InferAnswer *answer, const char *detail)
{
	InferBatch *batch = infer_batch_new(client, answer->class);

	batch_add(batch, answer);
	infer_finish_fail(batch, INFER_REASON_BAD_REQUEST, INFER_NOT_ADMITTED, 0, detail);
}

/*
 * Moves the open batches that must leave to the ready list.  A short one has no reason to while
 * others of its key wait for permits: it would only join them, and can still grow where it is.
 */
void
infer_pump_flush(InferClient *client, bool starved, bool input_ended)
{
	dlist_mutable_iter iter;

	if (!starved && !input_ended)
		return; /* the full ones have left */
	dlist_foreach_modify(iter, &client->open)
	{
		InferBatch *batch = dlist_container(InferBatch, node, iter.cur);
		bool helps = starved && infer_places_wanted(batch->class) == 0;

		if (leaves(batch, input_ended, helps))
			close_open(batch);
	}
}

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
 * Sends a batch that has its permit and is loose.  On any failure the batch is finished, which
 * gives the permit back.
 */
static void
send_batch(InferBatch *batch, const InferSecrets *secrets)
{
	InferClass *class = batch->class;
	InferPlace *place = batch->place;
	const char *headers[] = {batch->key_header[0] != '\0' ? batch->key_header : NULL, NULL};
	InferHttpRequest request = {
		.url = place->url,
		.headers = headers,
		.body = batch->body.data,
		.body_len = batch->body.len,
		.connect_timeout_ms = infer_guc_connect_timeout,
		.timeout_ms = class->options.timeout_ms,
		.max_response_size = (size_t) infer_guc_max_response_size * 1024,
		.max_idle_s = place->placement->server->keep_alive_s,
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

	batch->transfer = infer_transport_submit(transport, &request);
	if (batch->transfer == NULL)
	{
		infer_finish_fail(batch, INFER_REASON_INTERNAL, INFER_NOT_ADMITTED, 0, "out of memory");
		return;
	}
	batch->attempts++;
	if (batch->first_sent_us == 0)
		batch->first_sent_us = infer_now_us();
	batch->window_epoch = batch->lane->window.epoch;
	batch->lane->running++;
	client->nrunning++;
	client->stats.requests++;
	client->stats.peak_in_flight = Max(client->stats.peak_in_flight, client->nrunning);
	move(batch, &client->running);
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
	reason = infer_registry_secrets(batch->place->placement->server, batch->class->userid, &secrets,
									&detail);

	move(batch, &batch->client->loose);
	infer_permit_want(batch, false);
	if (reason != INFER_REASON_NONE)
		infer_finish_fail(batch, reason, INFER_NOT_ADMITTED, 0, detail);
	else if (infer_tolerance_allows(batch) && infer_budget_allows(batch) && build_body(batch))
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

		if (batch->not_before_us <= now)
			infer_batch_ready(batch);
	}
}

/*
 * Sends ready batches, in order, as long as there is room in their lanes and permits are to be had.
 * A lane that is full waits for its own requests, whose end makes room for sure, and not in the
 * key's line.
 */
void
infer_pump_send(InferClient *client)
{
	dlist_mutable_iter iter;
	InferKey refused = -1;
	bool sent = false;

	wake_sleepers(client);
	dlist_foreach_modify(iter, &client->ready)
	{
		InferBatch *batch = dlist_container(InferBatch, node, iter.cur);
		InferKey key = batch->place->key;
		InferPermitAnswer answer;

		if (infer_pump_free_transfers() <= 0)
			break;
		if (key == refused)
			continue;
		if (!batch->permit && !infer_lane_has_room(batch->lane))
		{
			infer_permit_leave(key);
			if (client->lanes->next == NULL)
				break; /* so are all the others */
			continue;
		}
		answer = batch->permit ? INFER_PERMIT_TAKEN : infer_permit_take(batch);
		if (answer == INFER_PERMIT_GIVES_UP)
		{
			infer_cooldown_fail(batch);
			continue;
		}
		if (answer == INFER_PERMIT_WAITS)
		{
			refused = key;
			if (!infer_permit_others_wanted(key))
				break; /* nothing else is there to be sent */
			continue;
		}
		sent = true;
		send_ready(batch);
	}
	for (InferLane *lane = client->lanes; lane != NULL; lane = lane->next)
		infer_permit_return_spare(lane);
	if (sent)
		infer_transport_step(transport);
}

/*
 * Takes all finished transfers, whoever asked.  Telling a batch may raise (reading the key may wait
 * for a lock, memory may end), and the batch may be another client's, which survives our error:
 * then its transfer stays in hand, and is the first one the next time.
 */
void
infer_pump_collect(void)
{
	if (transport == NULL)
		return;
	if (infer_transport_running(transport) > 0)
		infer_transport_step(transport);
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (in_hand == NULL)
			in_hand = infer_transport_next_done(transport);
		if (in_hand == NULL)
			break;
		infer_finish_transfer(infer_transfer_user(in_hand), infer_transfer_result(in_hand));
	}
}

/*
 * After an attempt: the controllers hear of it, then the permit and the connection are free.  The
 * batch is loose afterwards; the body of the answer is gone.
 */
void
infer_batch_landed(InferBatch *batch, const InferOutcome *outcome, const InferRateNews *news)
{
	move(batch, &batch->client->loose);
	infer_usage_landed(batch);
	infer_lane_feed(batch, outcome);
	infer_permit_release(batch, outcome, news);
	release_transfer(batch);
}

/* Repeats the batch later. */
void
infer_batch_sleep(InferBatch *batch, int64 delay_ms)
{
	batch->not_before_us = infer_now_us() + delay_ms * 1000;
	move(batch, &batch->client->sleeping);
}

/* Drops all of a client's batches: transfers are cancelled, permits come back. */
void
infer_pump_drop(InferClient *client)
{
	dlist_head *lists[] = {&client->open, &client->ready, &client->sleeping, &client->running,
						   &client->loose};
	dlist_iter iter;

	for (int i = 0; i < lengthof(lists); i++)
		while (!dlist_is_empty(lists[i]))
			infer_batch_free(dlist_head_element(InferBatch, node, lists[i]));
	for (InferLane *lane = client->lanes; lane != NULL; lane = lane->next)
		infer_permit_return_spare(lane);
	/* somebody may still want what this client was asking for */
	dlist_foreach(iter, &clients) dlist_container(InferClient, node, iter.cur)->ask_again = true;
}

/*
 * What is still loose was left by an error (no memory, as a rule) that its client has survived, in
 * a subtransaction or in another client's turn.  If it was on its way to the network nothing has
 * left; if it came from there nobody knows any more what was to become of it.
 */
void
infer_pump_fail_loose(InferClient *client)
{
	while (!dlist_is_empty(&client->loose))
	{
		InferBatch *batch = dlist_head_element(InferBatch, node, &client->loose);

		infer_finish_fail(batch, INFER_REASON_INTERNAL,
						  batch->attempts > 0 ? INFER_MAYBE_EXECUTED : INFER_NOT_ADMITTED, 0,
						  "an error in between broke it off");
	}
}

/* When the earliest sleeping batch of any client wants to go on; PG_INT64_MAX = never. */
int64
infer_pump_next_retry_us(void)
{
	int64 next = PG_INT64_MAX;
	dlist_iter iter;
	dlist_iter inner;

	dlist_foreach(iter, &clients)
	{
		InferClient *client = dlist_container(InferClient, node, iter.cur);

		dlist_foreach(inner, &client->sleeping) next =
			Min(next, dlist_container(InferBatch, node, inner.cur)->not_before_us);
	}
	return next;
}
