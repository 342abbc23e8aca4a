/*
 * call/drain.c - this process's part in taking a server out of service (shmem/drain.h).
 *
 * What is ready is refused by routing, which sees the place as draining.  What is in flight is left
 * alone until the grace is over; then each process cuts off its own, and says what is proved of it.
 * infer.drain() sets all latches, so that who sleeps hears of it, and learns until when it may.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "call/attempts.h"
#include "call/batch.h"
#include "call/client.h"
#include "call/copies.h"
#include "call/drain.h"
#include "call/finish.h"
#include "call/permit.h"
#include "call/place.h"
#include "call/pump.h"
#include "call/retry.h"
#include "call/usage.h"
#include "core/proof.h"
#include "core/types.h"
#include "http/transport.h"
#include "pg/clock.h"
#include "shmem/drain.h"
#include "shmem/route.h"

int64
infer_drain_place_until(InferPlace *place)
{
	uint64 version = infer_drain_version();

	if (place->drain_version != version)
	{
		place->drain_version = version;
		place->drain_until_us = infer_drain_until(MyDatabaseId, place->placement->server->oid);
	}
	return place->drain_until_us;
}

void
infer_drain_note(const InferPlace *place, InferDrainEvent event)
{
	infer_drain_count(MyDatabaseId, place->placement->server->oid, event);
}

/*
 * Takes the request off the network.  A copy of it goes on.  Whether another server may be asked
 * else is for the call's policy to say: by what is proved of this one.
 */
static void
cut(InferBatch *running)
{
	static const char detail[] = "it was in flight when the grace of its server ended";
	InferWire wire = infer_transfer_withdraw(infer_pump_transport(), running->transfer);
	InferReason reason = INFER_REASON_DRAINING;
	InferFinding finding;
	InferBatch *batch;

	wire.trust = running->place->placement->server->trust;
	finding = infer_proof_classify(&wire);
	finding.reason = reason;
	finding.lost = false;
	infer_usage_found(running, &finding, wire.left);
	infer_drain_ended(MyDatabaseId, running->place->placement->server->oid, finding.execution);
	batch = infer_copies_give_up(running);
	infer_batch_landed(batch, &infer_outcome_given_up, NULL, NULL);
	infer_attempts_note(batch, reason, finding.execution, 0, detail);
	if (!infer_copies_go_on(batch, &finding) &&
		!infer_retry_later(batch, &finding, false, -1, &reason))
		infer_finish_fail(batch, reason, finding.execution, 0, detail);
}

/* One whose server's grace is over, or NULL; *next: the next end of a grace. */
static InferBatch *
find_late(InferClient *client, int64 *next)
{
	dlist_iter iter;

	dlist_foreach(iter, &client->running)
	{
		InferBatch *batch = dlist_container(InferBatch, node, iter.cur);
		int64 until = infer_drain_place_until(batch->place);

		if (until == 0)
			continue;
		if (infer_now_us() >= until)
			return batch;
		*next = Min(*next, until);
	}
	return NULL;
}

int64
infer_drain_cut(void)
{
	int64 next = PG_INT64_MAX;
	dlist_iter iter;

	dlist_foreach(iter, infer_pump_clients())
	{
		InferClient *client = dlist_container(InferClient, node, iter.cur);
		InferBatch *late;

		/* anew each time: what one drags along may be any of the others */
		while ((late = find_late(client, &next)) != NULL)
			cut(late);
	}
	return next;
}

bool
infer_drain_came_between(InferBatch *batch)
{
	if (infer_drain_place_until(batch->place) == 0)
		return false;
	infer_permit_release(batch, &infer_outcome_unsent, NULL);
	infer_route_release(&batch->reservation, NULL);
	return true;
}
