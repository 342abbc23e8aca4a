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
#include "shmem/route_private.h"

/* By slot: what this process holds of one generation of it. */
typedef struct Held
{
	uint32 generation;
	int32 in_flight;
	double outstanding;
} Held;

static Held *held = NULL;

/* Back to nothing in flight is back to nothing outstanding, whatever the sums' last bits say. */
static void
give_back(InferRouteSlot *slot, int n, double outstanding)
{
	slot->in_flight = Max(slot->in_flight - n, 0);
	slot->outstanding = slot->in_flight > 0 ? Max(slot->outstanding - outstanding, 0) : 0;
}

static void
release_at_exit(int code, Datum arg)
{
	for (int i = 0; i < infer_route_slots(); i++)
	{
		InferRouteRef ref = {i, held[i].generation};
		InferRouteSlot *slot;

		if (held[i].in_flight == 0 || (slot = infer_route_lock(ref, LW_EXCLUSIVE)) == NULL)
			continue;
		give_back(slot, held[i].in_flight, held[i].outstanding);
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

bool
infer_route_snapshot(InferRouteRef ref, InferRouteSnapshot *snapshot)
{
	const InferRouteSlot *slot = infer_route_lock(ref, LW_SHARED);

	if (slot == NULL)
		return false;
	infer_route_copy(slot, snapshot);
	infer_route_unlock(ref.slot);
	return true;
}

bool
infer_route_reserve(InferRouteRef ref, InferRouteReservation *reservation)
{
	double delta = 1;
	InferRouteSlot *slot;

	Assert(reservation->delta == 0);
	prepare();
	slot = infer_route_lock(ref, LW_EXCLUSIVE);
	if (slot == NULL)
		return false;
	slot->used_us = infer_now_us();
	slot->in_flight++;
	slot->outstanding += delta;
	infer_route_unlock(ref.slot);

	if (held[ref.slot].generation != ref.generation)
		held[ref.slot] = (Held){.generation = ref.generation};
	held[ref.slot].in_flight++;
	held[ref.slot].outstanding += delta;
	*reservation = (InferRouteReservation){.ref = ref, .delta = delta};
	return true;
}

void
infer_route_note_incarnation(InferRouteSlot *slot, const char *incarnation)
{
	if (incarnation == NULL ||
		strncmp(slot->incarnation, incarnation, INFER_INCARNATION_MAX - 1) == 0)
		return;
	strlcpy(slot->incarnation, incarnation, sizeof(slot->incarnation));
	slot->incarnation_hash = hash_bytes_extended((const unsigned char *) slot->incarnation,
												 strlen(slot->incarnation), 0);
}

/* Partition lock held. */
static void
note_outcome(InferRouteSlot *slot, const InferRouteOutcome *outcome, int64 now)
{
	if (outcome->verdict == INFER_VERDICT_IGNORE)
		return;
	infer_route_note_incarnation(slot, outcome->incarnation);
	if (outcome->reason == INFER_REASON_NONE)
	{
		slot->answers++;
		slot->answered_us = now;
		slot->behind = false;
		return;
	}
	slot->errors[outcome->reason]++;
	slot->by_proof[outcome->execution]++;
	slot->behind |= outcome->behind;
}

void
infer_route_release(InferRouteReservation *reservation, const InferRouteOutcome *outcome)
{
	InferRouteRef ref = reservation->ref;
	int64 now = infer_now_us();
	Held *mine;
	InferRouteSlot *slot;

	if (reservation->delta == 0)
		return;
	mine = &held[ref.slot];
	if (mine->generation == ref.generation)
	{
		mine->in_flight--;
		mine->outstanding -= reservation->delta;
	}
	slot = infer_route_lock(ref, LW_EXCLUSIVE);
	if (slot != NULL)
	{
		give_back(slot, 1, reservation->delta);
		if (outcome != NULL)
			note_outcome(slot, outcome, now);
		slot->used_us = now;
		infer_route_unlock(ref.slot);
	}
	*reservation = (InferRouteReservation){{0}};
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
infer_route_drain(InferRouteRef ref, int64 until_us)
{
	InferRouteSlot *slot = infer_route_lock(ref, LW_EXCLUSIVE);

	if (slot == NULL)
		return;
	slot->drain_until_us = until_us;
	infer_route_unlock(ref.slot);
}

bool
infer_route_address(InferRouteRef ref, char *address)
{
	const InferRouteSlot *slot = infer_route_lock(ref, LW_SHARED);

	if (slot == NULL)
		return false;
	memcpy(address, slot->address, sizeof(slot->address));
	infer_route_unlock(ref.slot);
	return address[0] != '\0';
}
