/*
 * shmem/route_read.c - all slots, one by one, for views and the gateway.
 */
#include "postgres.h"

#include "pg/clock.h"
#include "pg/guc.h"
#include "shmem/route_private.h"

#define MISSED_TICKS 10 /* who has missed so many is not there */

bool
infer_route_knows_node(const InferRouteSnapshot *snapshot, int64 now_us)
{
	return now_us - snapshot->node_us <= MISSED_TICKS * (int64) infer_guc_timer_interval * 1000;
}

InferPlaceState
infer_route_state(const InferRouteSnapshot *snapshot, int64 now_us)
{
	if (snapshot->drain_until_us > 0)
		return INFER_PLACE_DRAINING;
	if (infer_peer_failed(&snapshot->peer, now_us))
		return INFER_PLACE_FAILED;
	if (infer_loading_since_us(&snapshot->loading, now_us) > 0)
		return INFER_PLACE_BEHIND;
	return INFER_PLACE_UP;
}

/* Partition lock held. */
static void
copy_counts(const InferRouteSlot *slot, InferRouteEntry *entry)
{
	entry->answered_us = slot->answered_us;
	entry->answers = slot->answers;
	entry->last_error = slot->last_error;
	entry->last_error_us = slot->last_error_us;
	memcpy(entry->errors, slot->errors, sizeof(entry->errors));
	memcpy(entry->by_proof, slot->by_proof, sizeof(entry->by_proof));
	memcpy(entry->events, slot->events, sizeof(entry->events));
	infer_histogram_recent(&slot->histogram, infer_now_us(), entry->recent);
}

/* Partition lock held. */
static void
copy_entry(const InferRouteSlot *slot, int i, InferRouteEntry *entry)
{
	entry->ref = (InferRouteRef){i, slot->generation};
	entry->identity = slot->identity;
	entry->snapshot = slot->now;
	entry->used_us = slot->used_us;
	entry->since_us = slot->since_us;
	entry->peer_reason = slot->peer_reason;
	entry->probed_us = slot->probed_us;
	entry->next_probe_us = slot->next_probe_us;
	entry->probe_reason = slot->probe_reason;
	entry->probe_status = slot->probe_status;
	memcpy(entry->address, slot->address, sizeof(entry->address));
	entry->address_us = slot->address_us;
	memcpy(entry->incarnation, slot->incarnation, sizeof(entry->incarnation));
	entry->incarnations = slot->incarnations;
	copy_counts(slot, entry);
}

InferRouteRef
infer_route_who(int i, Oid *database, Oid *server)
{
	const InferRouteSlot *slot = infer_route_lock_any(i, LW_SHARED);
	InferRouteRef ref = {i, slot->generation};

	*database = slot->identity.database;
	*server = slot->identity.server;
	infer_route_unlock(i);
	if (!OidIsValid(*server))
		ref.slot = INFER_ROUTE_NOBODY;
	return ref;
}

bool
infer_route_entry(int i, InferRouteEntry *entry)
{
	const InferRouteSlot *slot = infer_route_lock_any(i, LW_SHARED);
	bool used = OidIsValid(slot->identity.server);

	if (used)
		copy_entry(slot, i, entry);
	infer_route_unlock(i);
	return used;
}

bool
infer_route_latencies(InferRouteRef ref, InferHistogram *histogram)
{
	const InferRouteSlot *slot = infer_route_lock(ref, LW_SHARED);

	if (slot == NULL)
		return false;
	*histogram = slot->histogram;
	infer_route_unlock(ref.slot);
	return true;
}

void
infer_route_reset(void)
{
	for (int i = 0; i < infer_route_slots(); i++)
	{
		InferRouteSlot *slot = infer_route_lock_any(i, LW_EXCLUSIVE);

		slot->answers = 0;
		slot->incarnations = 0;
		memset(slot->errors, 0, sizeof(slot->errors));
		memset(slot->by_proof, 0, sizeof(slot->by_proof));
		memset(slot->events, 0, sizeof(slot->events));
		memset(&slot->histogram, 0, sizeof(slot->histogram));
		infer_route_unlock(i);
	}
}
