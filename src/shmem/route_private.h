/*
 * shmem/route_private.h - what a slot of the route table holds; for shmem/route*.c only.
 */
#ifndef INFER_SHMEM_ROUTE_PRIVATE_H
#define INFER_SHMEM_ROUTE_PRIVATE_H

#include "storage/lwlock.h"

#include "shmem/route.h"

#define INFER_ROUTE_NOBODY (-1)

typedef struct InferRouteSlot
{
	/* table lock, and to write these two the partition lock as well */
	uint32 generation;           /* of who is there, or was last */
	InferRouteIdentity identity; /* server = InvalidOid: the slot is free */
	int32 next;                  /* in the bucket's chain; NOBODY = the last */
	/* partition lock */
	int64 published_us;
	int64 used_us;
	int32 in_flight;
	double outstanding;
	bool behind;
	int64 drain_until_us;
	uint64 incarnation_hash;
	float node_load;
	float node_health;
	int64 probed_us;
	int64 next_probe_us;
	InferReason probe_reason;
	int probe_status;
	char address[INFER_ROUTE_TEXT];
	int64 address_us;
	char incarnation[INFER_INCARNATION_MAX];
	int64 answered_us;
	int64 answers;
	int64 errors[INFER_REASON_COUNT];
	int64 by_proof[INFER_EXECUTED + 1];
	int64 events[INFER_ROUTE_EVENT_COUNT];
} InferRouteSlot;

/* The slot with its partition lock held in that mode; NULL, and no lock, if the ref is outdated. */
extern InferRouteSlot *infer_route_lock(InferRouteRef ref, LWLockMode mode);
/* ... of slot i, whoever is there. */
extern InferRouteSlot *infer_route_lock_any(int i, LWLockMode mode);
extern void infer_route_unlock(int i);
/* Its partition lock held. */
extern void infer_route_copy(const InferRouteSlot *slot, InferRouteSnapshot *snapshot);
extern void infer_route_note_incarnation(InferRouteSlot *slot, const char *incarnation);

#endif
