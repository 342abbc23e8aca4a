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

#include "call/batch.h"
#include "call/class.h"
#include "call/client.h"
#include "call/finish.h"
#include "call/lane.h"
#include "call/memo.h"
#include "call/permit.h"
#include "call/place.h"
#include "call/pump.h"
#include "core/batch.h"
#include "core/types.h"
#include "http/transport.h"

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

/* Its transfer, if it has one, is cancelled or done with. */
void
infer_pump_release_transfer(InferBatch *batch)
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
	infer_batch_set_open(batch, false);
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
		infer_batch_move(batch, &client->open);
		infer_batch_set_open(batch, true);
	}
	infer_batch_add(batch, answer);
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

	infer_batch_add(batch, answer);
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

/* When the time of a ready batch of any client is over; PG_INT64_MAX = never. */
int64
infer_pump_next_expiry_us(void)
{
	int64 next = PG_INT64_MAX;
	dlist_iter iter;

	dlist_foreach(iter, &clients)
	{
		InferClient *client = dlist_container(InferClient, node, iter.cur);

		if (client->expires_us != 0 && !dlist_is_empty(&client->ready))
			next = Min(next, client->expires_us);
	}
	return next;
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
			Min(next, infer_batch_wakes_us(dlist_container(InferBatch, node, inner.cur)));
	}
	return next;
}
