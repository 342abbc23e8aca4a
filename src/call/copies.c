/*
 * call/copies.c - a second copy of a request that takes long, at another server of the model.
 *
 * Only for calls that permit it (option hedge), only for their first attempt, and only as long as
 * the model's budget lasts: about one copy for twenty requests (core/hedge.h).  A copy goes where
 * the next attempt would have gone, if there is a permit to be had that nobody waits for; it stands
 * in no line, but looks again for as long as its original is under way, and is paid for when it has
 * its permit.  It says the same, word for word, so only places with the same remote model get it.
 *
 * A copy is a batch of its own, the twin of the original.  It shares the answers of that one, which
 * stay the original's: whatever the copy comes to, it fails and resolves none.
 *
 *     a result             the first one counts, the other request is cancelled.  If it is the
 *                          copy's, the two change places: the original takes over whatever belongs
 *                          to the request (exchange()), and goes on as if it had been its own.
 *     a failure            the other one goes on, and is the original from then on.  So it is also
 *                          for a refusal of the contents, or of the caller: it may be that server's
 *                          alone, and what the other one may be doing is no longer "nothing ran".
 *                          But where it was executed, or may have been, and is never repeated, the
 *                          call has failed, and the other request is cancelled.
 *     cancel, LIMIT, ERROR both end; each gives back what it holds.
 *
 * Both are charged: each request that has left is somebody's bill.  The one that is cancelled may
 * have been executed, and is counted so (abandoned.c); what it has taken until then says at least
 * that its server is no faster.  Answers that come late are never waited for, so nothing of them
 * can reach a row.
 */
#include "postgres.h"

#include "call/batch.h"
#include "call/budget.h"
#include "call/class.h"
#include "call/client.h"
#include "call/copies.h"
#include "call/finish.h"
#include "call/incarnation.h"
#include "call/lane.h"
#include "call/permit.h"
#include "call/place.h"
#include "call/pump.h"
#include "call/route.h"
#include "call/sizes.h"
#include "call/usage.h"
#include "core/batch.h"
#include "core/buf.h"
#include "core/hedge.h"
#include "core/proof.h"
#include "core/route.h"
#include "core/types.h"
#include "http/transport.h"
#include "pg/clock.h"
#include "pg/guc.h"
#include "registry/registry.h"
#include "shmem/admission.h"
#include "shmem/hedges.h"
#include "shmem/route.h"

/* A copy that is due and finds no permit looks again so soon, or after that share of what its
 * request has taken: however many wait, and however long, their looks cost little. */
#define LOOK_US    10000
#define LOOK_SHARE 16

static InferHedgeKey
key_of(const InferBatch *batch)
{
	return infer_hedges_key(batch->class->target->model);
}

static InferAttemptKind
kind_of(const InferBatch *batch)
{
	if (batch->is_copy)
		return INFER_ATTEMPT_COPY;
	return batch->stages.attempts <= 1 ? INFER_ATTEMPT_FIRST : INFER_ATTEMPT_RETRY;
}

/* --- When --- */

static bool
says_the_same(const InferBatch *batch, int place)
{
	const InferPlace *other = &batch->class->places[place];

	return other->provider == batch->place->provider &&
		   strcmp(other->remote_model, batch->place->remote_model) == 0 &&
		   infer_batch_fits(other->limits, batch->nanswers, batch->bytes);
}

/* Where a copy of the batch may go now, the best first; their number. */
static int
find_places(InferBatch *batch, int *order)
{
	int found = infer_route_copies(batch, order);
	int n = 0;

	for (int i = 0; i < found; i++)
		if (says_the_same(batch, order[i]))
			order[n++] = order[i];
	return n;
}

void
infer_copies_arm(InferBatch *batch)
{
	const InferClass *class = batch->class;
	InferHedgeKey key = key_of(batch);
	int order[INFER_ROUTE_MAX_PLACES];
	int64 delay_us;

	batch->copied = false;
	batch->copy_due_us = 0;
	if (!class->options.hedge || class->nplaces < 2 || batch->is_copy ||
		batch->refusal != NULL || /* it is to show what this server takes */
		kind_of(batch) != INFER_ATTEMPT_FIRST || find_places(batch, order) == 0)
		return;
	delay_us = infer_hedges_delay_us(
		&key, INFER_ATTEMPT_FIRST, class->routes[batch->place - class->places].latency_us,
		class->routes[order[0]].latency_us, (int64) infer_guc_hedge_delay * 1000);
	if (delay_us == INFER_HEDGE_NEVER)
		return;
	batch->copy_due_us = infer_now_us() + delay_us;
	batch->client->copies_due_us = batch->client->copies_due_us == 0
									   ? batch->copy_due_us
									   : Min(batch->client->copies_due_us, batch->copy_due_us);
}

int64
infer_copies_next_us(void)
{
	int64 next = PG_INT64_MAX;
	dlist_iter iter;

	dlist_foreach(iter, infer_pump_clients())
	{
		const InferClient *client = dlist_container(InferClient, node, iter.cur);

		if (client->copies_due_us != 0)
			next = Min(next, client->copies_due_us);
	}
	return next;
}

void
infer_copies_landed(const InferBatch *batch, InferReason reason)
{
	InferHedgeKey key;

	if (!batch->class->options.hedge || batch->class->nplaces < 2)
		return;
	key = key_of(batch);
	infer_hedges_landed(&key, kind_of(batch), batch->copied, false, reason == INFER_REASON_NONE);
}

/* --- The copy --- */

/* The same request to the same answers, loose and without a place. */
static InferBatch *
make_copy(InferBatch *batch)
{
	InferBatch *copy = infer_batch_new(batch->client, batch->class);

	copy->is_copy = true;
	copy->priority = batch->priority;
	copy->floor = batch->floor;
	copy->deadline_us = batch->deadline_us;
	copy->first_sent_us = batch->first_sent_us;
	copy->stages = batch->stages;
	for (int i = 0; i < batch->nanswers; i++)
		infer_batch_share(copy, batch->answers[i]);
	return copy;
}

/* A permit for the copy, of the best place that has one. */
static bool
take_permit(InferBatch *copy, InferBatch *batch)
{
	int order[INFER_ROUTE_MAX_PLACES];
	int n = find_places(batch, order);

	for (int i = 0; i < n; i++)
		if (infer_permit_try(copy, order[i]))
			return true;
	return false;
}

/* The body is the original's, which has it for as long as it is under way. */
static bool
copy_words(InferBatch *copy, const InferBatch *batch)
{
	copy->asked_base64 = batch->asked_base64;
	strlcpy(copy->key_header, batch->key_header, sizeof(copy->key_header));
	return infer_buf_add(&copy->body, batch->body.data, batch->body.len);
}

/* Sends a copy that is paid for; reading the secrets may raise, then it is loose and is freed. */
static bool
send_copy(InferBatch *copy, InferBatch *batch)
{
	InferSecrets secrets;
	char *detail = NULL;
	bool sent;

	if (!infer_incarnation_fits(copy->place))
		return false;
	(void) infer_route_reserve(copy->place->slot, copy->lane->weight, &copy->reservation);
	sent = infer_registry_secrets(copy->place->placement->server, copy->class->userid, &secrets,
								  &detail) == INFER_REASON_NONE &&
		   infer_budget_allows_copy(copy) && copy_words(copy, batch) &&
		   infer_batch_submit(copy, &secrets);
	infer_secrets_wipe(&secrets);
	return sent;
}

static void
hedge(InferBatch *batch, int64 now)
{
	InferHedgeKey key = key_of(batch);
	InferBatch *copy;

	batch->copy_due_us = 0;
	copy = make_copy(batch);
	if (!take_permit(copy, batch))
	{
		infer_batch_free(copy);
		batch->copy_due_us = now + Max(LOOK_US, (now - batch->first_sent_us) / LOOK_SHARE);
		return;
	}
	if (!infer_hedges_take(&key))
	{
		infer_batch_free(copy);
		return;
	}
	copy->unsent_copy = true;
	if (!send_copy(copy, batch))
	{
		infer_batch_free(copy);
		return;
	}
	copy->unsent_copy = false;
	copy->number = ++batch->attempts;
	copy->twin = batch;
	batch->twin = copy;
	batch->copied = true;
	infer_route_copied(batch, copy->place);
	infer_route_count(copy->place->slot, INFER_ROUTE_HEDGE_SENT);
	batch->client->stats.copies++;
}

void
infer_copies_send(InferClient *client)
{
	dlist_mutable_iter iter;
	int64 next = 0;
	int64 now;
	int64 copies = client->stats.copies;

	if (client->copies_due_us == 0)
		return;
	now = infer_now_us();
	if (now < client->copies_due_us)
		return;
	dlist_foreach_modify(iter, &client->running)
	{
		InferBatch *batch = dlist_container(InferBatch, node, iter.cur);

		if (batch->copy_due_us != 0 && batch->copy_due_us <= now)
			hedge(batch, now);
		if (batch->copy_due_us != 0 && (next == 0 || batch->copy_due_us < next))
			next = batch->copy_due_us;
	}
	client->copies_due_us = next;
	if (client->stats.copies > copies)
		infer_transport_step(infer_pump_transport());
}

/* --- The end --- */

#define EXCHANGE(type, field)                                                                      \
	do                                                                                             \
	{                                                                                              \
		type kept_ = original->field;                                                              \
		original->field = copy->field;                                                             \
		copy->field = kept_;                                                                       \
	} while (0)

/* The two exchange their requests, with all that belongs to these; the answers, and what the call
 * has been through, stay. */
static void
exchange(InferBatch *original, InferBatch *copy)
{
	infer_sizes_leave(original); /* what the other server takes says nothing of this one */
	EXCHANGE(InferPlace *, place);
	EXCHANGE(InferLane *, lane);
	EXCHANGE(bool, permit);
	EXCHANGE(InferTicket, ticket);
	EXCHANGE(InferRouteReservation, reservation);
	EXCHANGE(uint32, window_epoch);
	EXCHANGE(InferTransfer *, transfer);
	EXCHANGE(InferBuf, body);
	EXCHANGE(int, timeout_ms);
	EXCHANGE(int, number);
	EXCHANGE(InferCharge, charge);
	if (original->transfer != NULL)
		infer_transfer_set_user(original->transfer, original);
	if (copy->transfer != NULL)
		infer_transfer_set_user(copy->transfer, copy);
}

static void
part(InferBatch *batch)
{
	batch->twin->twin = NULL;
	batch->twin = NULL;
}

/* Nobody waits for this request any more; that it took so long already is worth knowing. */
static void
drop_loser(InferBatch *loser)
{
	InferHedgeKey key = key_of(loser);

	infer_hedges_landed(&key, INFER_ATTEMPT_COPY, true, true, false);
	infer_route_outwaited(&loser->reservation, loser->class->task,
						  loser->class->task == INFER_TASK_EMBED ? loser->nanswers : 0);
	infer_batch_free(loser);
}

static void
note_win(const InferBatch *copy)
{
	InferHedgeKey key = key_of(copy);

	infer_hedges_landed(&key, INFER_ATTEMPT_COPY, true, false, true);
	infer_route_count(copy->place->slot, INFER_ROUTE_HEDGE_WON);
}

InferBatch *
infer_copies_settle(InferBatch *batch, const InferFinding *finding, const InferHttpResult *result)
{
	InferBatch *original = batch->is_copy ? batch->twin : batch;
	InferBatch *copy = original->twin;
	bool won = finding->reason == INFER_REASON_NONE;

	if (copy == NULL)
		return batch;
	if (won && batch == copy)
		note_win(copy);
	if (batch == copy)
		exchange(original, copy);
	/* the original's request is the one that has ended now */
	if (won ||
		(finding->execution != INFER_NOT_ADMITTED && infer_route_would_end(original, finding)))
	{
		part(original);
		drop_loser(copy);
		return original;
	}
	infer_finish_lost(original, finding, result);
	exchange(original, copy);
	infer_batch_move(original, &original->client->running);
	part(original);
	infer_batch_free(copy);
	return NULL;
}

InferBatch *
infer_copies_give_up(InferBatch *batch)
{
	InferBatch *original = batch->is_copy ? batch->twin : batch;

	if (batch->is_copy)
		exchange(original, batch);
	return original;
}

bool
infer_copies_go_on(InferBatch *original, const InferFinding *finding)
{
	InferBatch *copy = original->twin;

	if (copy == NULL)
		return false;
	infer_route_ended(original, finding, false, -1);
	original->floor = infer_proof_floor(finding->execution, original->floor);
	exchange(original, copy);
	infer_batch_move(original, &original->client->running);
	part(original);
	infer_batch_free(copy);
	return true;
}

void
infer_copies_leave(InferBatch *batch)
{
	InferBatch *twin = batch->twin;
	InferHedgeKey key;

	if (batch->unsent_copy)
	{
		key = key_of(batch);
		infer_hedges_untake(&key);
	}
	if (twin == NULL)
		return;
	part(batch);
	if (twin->is_copy)
		infer_batch_free(twin);
}
