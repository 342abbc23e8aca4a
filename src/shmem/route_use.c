/*
 * shmem/route_use.c - what backends do with a slot: they count requests, and say how they ended.
 *
 * What this process has reserved is counted here as well, by slot, so that its exit can give back
 * what was left; the reservations themselves are gone by then.  The callback is on_shmem_exit, for
 * the same reasons as that of shmem/admission.c.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "storage/ipc.h"
#include "utils/memutils.h"

#include "pg/clock.h"
#include "pg/guc.h"
#include "pg/random.h"
#include "shmem/drain.h"
#include "shmem/gateway.h"
#include "shmem/route_private.h"

/* By slot: what this process holds of one generation of it. */
typedef struct Held
{
	uint32 generation;
	int32 in_flight;
	int32 duration_weight;
	double weight;
} Held;

static Held *held = NULL;

static void
release_at_exit(int code, Datum arg)
{
	for (int i = 0; i < infer_route_slots(); i++)
	{
		InferRouteRef ref = {i, held[i].generation};
		InferRouteSlot *slot;

		if (held[i].in_flight == 0 || (slot = infer_route_lock(ref, LW_EXCLUSIVE)) == NULL)
			continue;
		infer_queue_drop(&slot->now.queue, held[i].in_flight, held[i].weight);
		slot->now.duration_weight -= held[i].duration_weight;
		infer_route_unlock(i);
	}
}

/* Before the first reservation. Raises without memory. */
static void
prepare(void)
{
	if (held != NULL)
		return;
	held = MemoryContextAllocZero(TopMemoryContext, sizeof(Held) * infer_route_slots());
	on_shmem_exit(release_at_exit, 0);
}

/* This process holds so many more, or fewer. */
static void
hold(const InferRouteReservation *reservation, int n)
{
	InferRouteRef ref = reservation->ref;
	Held *mine = &held[ref.slot];

	if (n > 0 && mine->generation != ref.generation)
		*mine = (Held){.generation = ref.generation};
	if (mine->generation != ref.generation)
		return; /* what it holds of an earlier one is counted nowhere any more */
	mine->in_flight += n;
	mine->duration_weight += n * reservation->duration_weight;
	mine->weight += n * reservation->queue.weight;
}

bool
infer_route_snapshot(InferRouteRef ref, InferRouteSnapshot *snapshot)
{
	const InferRouteSlot *slot = infer_route_lock(ref, LW_SHARED);

	if (slot == NULL)
		return false;
	*snapshot = slot->now;
	infer_route_unlock(ref.slot);
	return true;
}

bool
infer_route_reserve(InferRouteRef ref, int duration_weight, InferRouteReservation *reservation)
{
	int64 now = infer_now_us();
	InferRouteSlot *slot;

	Assert(!reservation->queue.held);
	prepare();
	slot = infer_route_lock(ref, LW_EXCLUSIVE);
	if (slot == NULL)
		return false;
	reservation->ref = ref;
	reservation->queue = infer_queue_reserve(&slot->now.queue, now);
	reservation->duration_weight = duration_weight;
	slot->now.duration_weight += duration_weight;
	slot->used_us = now;
	infer_route_unlock(ref.slot);
	hold(reservation, 1);
	return true;
}

/* --- What an outcome says --- */

uint64
infer_route_model(const char *remote_model, Oid userid)
{
	return hash_bytes_extended((const unsigned char *) remote_model, strlen(remote_model), userid);
}

/*
 * Another incarnation is another server: what was learnt of the last one says nothing of it.  An
 * answer that is read late may be of the one before: a request that left before this one was heard
 * of does not show that it is gone again.
 */
void
infer_route_note_incarnation(InferRouteSlot *slot, const char *incarnation, int64 sent_us,
							 int64 now_us)
{
	bool known = slot->incarnation[0] != '\0';

	if (incarnation == NULL || incarnation[0] == '\0' ||
		strcmp(slot->incarnation, incarnation) == 0 || (known && sent_us < slot->incarnation_us))
		return;
	strlcpy(slot->incarnation, incarnation, sizeof(slot->incarnation));
	slot->incarnation_us = now_us;
	slot->now.incarnation = hash_bytes_extended((const unsigned char *) slot->incarnation,
												strlen(slot->incarnation), 0);
	if (!known)
		return;
	infer_queue_renew(&slot->now.queue);
	infer_dead_clear_all(&slot->now.dead);
	memset(slot->histogram.recent, 0, sizeof(slot->histogram.recent));
	slot->incarnations++;
}

/* It can be used again, and now is written so. */
static void
note_back(InferRouteSlot *slot, int64 now_us)
{
	slot->since_us = now_us;
	infer_route_wake();
}

void
infer_route_note_behind(InferRouteSlot *slot, bool behind, int64 now_us)
{
	if (infer_loading_hear(&slot->now.loading, behind, now_us))
		note_back(slot, now_us);
}

/* What the connection says of the address. */
void
infer_route_note_peer(InferRouteSlot *slot, InferReason reason, bool answered, int64 sent_us,
					  int64 now_us)
{
	if (answered)
	{
		bool back = infer_peer_failed(&slot->now.peer, now_us);

		infer_peer_hear_answer(&slot->now.peer, now_us);
		if (back)
			note_back(slot, now_us);
	}
	else if (reason == INFER_REASON_LOOKUP_FAILED || reason == INFER_REASON_CONNECT_FAILED)
	{
		infer_peer_hear_failure(&slot->now.peer, sent_us, now_us);
		slot->peer_reason = reason;
		if (slot->address[0] != '\0')
			infer_gateway_wake();
		slot->address[0] = '\0'; /* whoever is next looks it up again */
	}
	else if (reason == INFER_REASON_DISCONNECTED)
		infer_peer_hear_disconnect(&slot->now.peer);
}

static void
note_models(InferDeadModels *dead, const InferRouteOutcome *outcome, int64 now)
{
	if (outcome->reason == INFER_REASON_NONE)
		infer_dead_clear(dead, outcome->model);
	else
		(void) infer_dead_hear(dead, outcome->model, outcome->set_version, outcome->reason,
							   outcome->says_model, now);
}

static void
count_outcome(InferRouteSlot *slot, const InferRouteOutcome *outcome, int64 now)
{
	if (outcome->reason == INFER_REASON_NONE)
	{
		slot->answers++;
		slot->answered_us = now;
		if (outcome->latency_us > 0)
			infer_histogram_note(&slot->histogram, outcome->latency_us, now);
		return;
	}
	slot->errors[outcome->reason]++;
	slot->by_proof[outcome->execution]++;
	slot->last_error = outcome->reason;
	slot->last_error_us = now;
}

/* All that is learnt of a request, with its end; partition lock held. */
static void
note_outcome(InferRouteSlot *slot, InferRouteReservation *reservation,
			 const InferRouteOutcome *outcome, double draw, int64 now)
{
	InferQueueReport report = {
		.end = infer_queue_end(outcome->reason, outcome->verdict, outcome->loading),
		.task = outcome->task,
		.units = outcome->units,
		.elapsed_us = outcome->latency_us,
		.retry_after_us = outcome->retry_after_us,
		.penalty = outcome->penalty,
		.draw = draw,
	};
	int64 sent_us = reservation->queue.sent_us;

	infer_route_note_incarnation(slot, outcome->incarnation, sent_us, now);
	infer_queue_release(&slot->now.queue, &reservation->queue, &report, now);
	if (report.end == INFER_QUEUE_DROPPED)
		return;
	infer_route_note_peer(slot, outcome->reason, outcome->http_status > 0, sent_us, now);
	if (report.end == INFER_QUEUE_CLEAN || report.end == INFER_QUEUE_BEHIND)
		infer_route_note_behind(slot, report.end == INFER_QUEUE_BEHIND, now);
	note_models(&slot->now.dead, outcome, now);
	count_outcome(slot, outcome, now);
}

void
infer_route_release(InferRouteReservation *reservation, const InferRouteOutcome *outcome)
{
	static const InferQueueReport dropped = {.end = INFER_QUEUE_DROPPED};
	InferRouteRef ref = reservation->ref;
	int64 now = infer_now_us();
	double draw;
	InferRouteSlot *slot;

	if (!reservation->queue.held)
		return;
	hold(reservation, -1);
	draw = infer_random_draw(ref.slot);
	slot = infer_route_lock(ref, LW_EXCLUSIVE);
	if (slot != NULL)
	{
		slot->now.duration_weight -= reservation->duration_weight;
		if (outcome != NULL)
			note_outcome(slot, reservation, outcome, draw, now);
		else
			infer_queue_release(&slot->now.queue, &reservation->queue, &dropped, now);
		slot->used_us = now;
		infer_route_unlock(ref.slot);
	}
	memset(reservation, 0, sizeof(*reservation));
}

void
infer_route_outwaited(InferRouteReservation *reservation, InferTask task, int64 units)
{
	InferRouteRef ref = reservation->ref;
	int64 now = infer_now_us();
	InferQueueReport report = {.end = INFER_QUEUE_FAILED, .task = task, .units = units};
	InferRouteSlot *slot;

	if (!reservation->queue.held)
		return;
	hold(reservation, -1);
	slot = infer_route_lock(ref, LW_EXCLUSIVE);
	if (slot != NULL)
	{
		report.elapsed_us = now - reservation->queue.sent_us;
		slot->now.duration_weight -= reservation->duration_weight;
		infer_queue_release(&slot->now.queue, &reservation->queue, &report, now);
		slot->events[INFER_ROUTE_LATE]++;
		slot->used_us = now;
		infer_route_unlock(ref.slot);
	}
	memset(reservation, 0, sizeof(*reservation));
}

bool
infer_route_incarnation(InferRouteRef ref, char *incarnation)
{
	const InferRouteSlot *slot = infer_route_lock(ref, LW_SHARED);

	incarnation[0] = '\0';
	if (slot == NULL)
		return false;
	memcpy(incarnation, slot->incarnation, sizeof(slot->incarnation));
	infer_route_unlock(ref.slot);
	return true;
}

void
infer_route_count(InferRouteRef ref, InferRouteEvent event)
{
	InferRouteSlot *slot = infer_route_lock(ref, LW_EXCLUSIVE);

	if (slot == NULL)
		return;
	slot->events[event]++;
	infer_route_unlock(ref.slot);
}

void
infer_route_drain(InferRouteRef ref)
{
	InferRouteSlot *slot = infer_route_lock(ref, LW_EXCLUSIVE);
	int64 until_us;

	if (slot == NULL)
		return;
	/* asked for here, so that who comes last sees what holds, not what held when it came */
	until_us = infer_drain_until(slot->identity.database, slot->identity.server);
	if (until_us == 0 && slot->now.drain_until_us > 0)
		note_back(slot, infer_now_us());
	slot->now.drain_until_us = until_us;
	infer_route_unlock(ref.slot);
}

bool
infer_route_address(InferRouteRef ref, char *address, bool *failing)
{
	int64 now = infer_now_us();
	const InferRouteSlot *slot = infer_route_lock(ref, LW_SHARED);

	address[0] = '\0';
	*failing = false;
	if (slot == NULL)
		return false;
	*failing = infer_peer_failing_us(&slot->now.peer, now) > 0;
	/* without a gateway, nobody would notice that the name stands for another one now */
	if (now - slot->address_us < (int64) infer_guc_dns_ttl * 1000)
		memcpy(address, slot->address, sizeof(slot->address));
	infer_route_unlock(ref.slot);
	return address[0] != '\0';
}
