/*
 * shmem/route_read.c - all slots, one by one, for views and the gateway; and what the gateway
 * writes into them.
 */
#include "postgres.h"

#include "pg/clock.h"
#include "shmem/route_private.h"

void
infer_route_copy(const InferRouteSlot *slot, InferRouteSnapshot *snapshot)
{
	snapshot->in_flight = slot->in_flight;
	snapshot->outstanding = slot->outstanding;
	snapshot->behind = slot->behind;
	snapshot->drain_until_us = slot->drain_until_us;
	snapshot->incarnation = slot->incarnation_hash;
	snapshot->node_load = slot->node_load;
	snapshot->node_health = slot->node_health;
}

InferRouteState
infer_route_state(const InferRouteSnapshot *snapshot)
{
	if (snapshot->drain_until_us > 0)
		return INFER_ROUTE_DRAINING;
	if (snapshot->behind)
		return INFER_ROUTE_BEHIND;
	return INFER_ROUTE_UP;
}

bool
infer_route_entry(int i, InferRouteEntry *entry)
{
	const InferRouteSlot *slot = infer_route_lock_any(i, LW_SHARED);
	bool used = OidIsValid(slot->identity.server);

	if (used)
	{
		entry->ref = (InferRouteRef){i, slot->generation};
		entry->identity = slot->identity;
		infer_route_copy(slot, &entry->snapshot);
		entry->used_us = slot->used_us;
		entry->probed_us = slot->probed_us;
		entry->next_probe_us = slot->next_probe_us;
		entry->probe_reason = slot->probe_reason;
		entry->probe_status = slot->probe_status;
		memcpy(entry->address, slot->address, sizeof(entry->address));
		entry->address_us = slot->address_us;
		memcpy(entry->incarnation, slot->incarnation, sizeof(entry->incarnation));
		entry->answered_us = slot->answered_us;
		entry->answers = slot->answers;
		memcpy(entry->errors, slot->errors, sizeof(entry->errors));
		memcpy(entry->by_proof, slot->by_proof, sizeof(entry->by_proof));
		memcpy(entry->events, slot->events, sizeof(entry->events));
	}
	infer_route_unlock(i);
	return used;
}

void
infer_route_reset(void)
{
	for (int i = 0; i < infer_route_slots(); i++)
	{
		InferRouteSlot *slot = infer_route_lock_any(i, LW_EXCLUSIVE);

		slot->answers = 0;
		memset(slot->errors, 0, sizeof(slot->errors));
		memset(slot->by_proof, 0, sizeof(slot->by_proof));
		memset(slot->events, 0, sizeof(slot->events));
		infer_route_unlock(i);
	}
}

void
infer_route_probed(InferRouteRef ref, const InferRouteProbe *probe)
{
	int64 now = infer_now_us();
	InferRouteSlot *slot = infer_route_lock(ref, LW_EXCLUSIVE);

	if (slot == NULL)
		return;
	slot->probed_us = now;
	slot->next_probe_us = probe->next_us;
	slot->probe_reason = probe->reason;
	slot->probe_status = probe->http_status;
	slot->behind = probe->behind;
	strlcpy(slot->address, probe->address ? probe->address : "", sizeof(slot->address));
	slot->address_us = now;
	infer_route_note_incarnation(slot, probe->incarnation);
	infer_route_unlock(ref.slot);
}

void
infer_route_probe_at(InferRouteRef ref, int64 next_us)
{
	InferRouteSlot *slot = infer_route_lock(ref, LW_EXCLUSIVE);

	if (slot == NULL)
		return;
	slot->next_probe_us = next_us;
	infer_route_unlock(ref.slot);
}

void
infer_route_set_node(InferRouteRef ref, double load, double health)
{
	InferRouteSlot *slot = infer_route_lock(ref, LW_EXCLUSIVE);

	if (slot == NULL)
		return;
	slot->node_load = load;
	slot->node_health = health;
	infer_route_unlock(ref.slot);
}
