/*
 * shmem/route_private.h - what a slot of the route table holds; for shmem/route*.c only.
 */
#ifndef INFER_SHMEM_ROUTE_PRIVATE_H
#define INFER_SHMEM_ROUTE_PRIVATE_H

#include "storage/lwlock.h"

#include "core/utilisation.h"
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
	int64 since_us; /* up: since when */
	InferReason peer_reason;
	InferRouteSnapshot now;
	InferUtilisation utilisation; /* samples of the gateway's */
	int64 probed_us;
	int64 next_probe_us;
	InferReason probe_reason;
	int probe_status;
	char address[INFER_ROUTE_TEXT];
	int64 address_us;
	char incarnation[INFER_INCARNATION_MAX];
	int64 incarnation_us; /* it was heard of first then */
	int64 incarnations;   /* changes of it */
	int64 answered_us;
	int64 answers;
	InferReason last_error;
	int64 last_error_us;
	int64 errors[INFER_REASON_COUNT];
	int64 by_proof[INFER_EXECUTED + 1];
	int64 events[INFER_ROUTE_EVENT_COUNT];
	InferHistogram histogram;
} InferRouteSlot;

/* The slot with its partition lock held in that mode; NULL, and no lock, if the ref is outdated. */
extern InferRouteSlot *infer_route_lock(InferRouteRef ref, LWLockMode mode);
/* ... of slot i, whoever is there. */
extern InferRouteSlot *infer_route_lock_any(int i, LWLockMode mode);
extern void infer_route_unlock(int i);
/* Partition lock held exclusively: */
/* A server is back: sets the latches of those who wait for one. */
extern void infer_route_wake(void);
/* The answer to what was sent then is of that incarnation; NULL or "" = not said. */
extern void infer_route_note_incarnation(InferRouteSlot *slot, const char *incarnation,
										 int64 sent_us, int64 now_us);
/* answered: with whatever status */
extern void infer_route_note_peer(InferRouteSlot *slot, InferReason reason, bool answered,
								  int64 sent_us, int64 now_us);
extern void infer_route_note_behind(InferRouteSlot *slot, bool behind, int64 now_us);

#endif
