/*
 * shmem/drain.h - servers that are being taken out of service, or are out of it.
 *
 * A server that is drained takes no new request: what waits for it, or comes new, is refused, or
 * goes to another server of its model.  What is in flight may end until the grace is over; then its
 * processes cut it off.  The state stays until infer.undrain() or a restart.
 *
 * A table of its own, beside the route table's slots, for it must not be forgotten when a slot is
 * used for another server or its server's address changes; a slot that is made, or made anew, looks
 * here.  Where nothing is drained, which is nearly always, looking costs no lock.
 *
 * One lock, the innermost: it is taken while the route table's locks are held, and no other lock is
 * while it is.  Nothing raises or allocates inside.
 *
 * Time is infer_now_us() of pg/clock.h.
 */
#ifndef INFER_SHMEM_DRAIN_H
#define INFER_SHMEM_DRAIN_H

#include "postgres.h"

#include "core/types.h"

/* What became of the requests of a server, since it began to drain. */
typedef struct InferDrainReport
{
	int64 until_us;                  /* the end of the grace */
	int64 finished;                  /* answered, or failed, by themselves */
	int64 abandoned;                 /* given up by their own statements */
	int64 ended[INFER_EXECUTED + 1]; /* cut off at the end of the grace, by proof */
	int64 refused;                   /* waited, or came new: not admitted */
} InferDrainReport;

typedef enum InferDrainEvent
{
	INFER_DRAIN_FINISHED,
	INFER_DRAIN_ABANDONED,
	INFER_DRAIN_REFUSED
} InferDrainEvent;

/* Begins, unless it has begun: then *until_us is what was set first. False: the table is full. */
extern bool infer_drain_begin(Oid database, Oid server, int64 *until_us);
/* Is it over? False: the server was not drained. */
extern bool infer_drain_end(Oid database, Oid server);
/* The end of the grace; 0 = the server is not drained. */
extern int64 infer_drain_until(Oid database, Oid server);
/* Another number after each change of what is drained; takes no lock. */
extern uint64 infer_drain_version(void);
/* All sessions of the database look whether something has changed for them. */
extern void infer_drain_wake(void);
/* Counts a request of a server; nothing if it is not drained. */
extern void infer_drain_count(Oid database, Oid server, InferDrainEvent event);
/* ... that was cut off. */
extern void infer_drain_ended(Oid database, Oid server, InferExecution proof);
/* Whom entry i is about, which may have another number after a change; false: there are no more. */
extern bool infer_drain_who(int i, Oid *database, Oid *server);
extern bool infer_drain_report(Oid database, Oid server, InferDrainReport *report);

/* For segment.c: memory, LWLock, and where they are. found: another process filled them. */
union LWLockPadded;
extern size_t infer_drain_shmem_size(void);
extern void infer_drain_shmem_attach(void *memory, union LWLockPadded *locks, bool found);

#endif
