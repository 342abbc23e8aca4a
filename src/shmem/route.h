/*
 * shmem/route.h - the route table: what is known of each server, shared by all processes.
 *
 * A slot is a server's place in the table, keyed by (database, server).  Backends publish it when
 * they first call the server, and again after ALTER SERVER; they read it to choose a server, count
 * their requests in it, and say how they ended.  The gateway writes what its probes find, addresses
 * and the load of nodes; it reads servers from here alone, for it sees no catalogs.  The table
 * starts empty with the postmaster, and has pg_inference.max_servers slots.
 *
 * Reuse.  When the table is full, the slot that was used longest ago and has nothing in flight
 * becomes another server's.  So a slot is named together with its generation, which counts reuses,
 * and whatever is asked or told of an earlier generation is refused and changes nothing.  A change
 * of a server's scheme, host or port makes it another endpoint: a new generation, with nothing of
 * what was known of the old one.  A slot that no backend has used for INFER_ROUTE_IDLE_US is not
 * probed any more: so servers and databases that are gone are forgotten without being watched.
 *
 * Reservations.  A request is counted from infer_route_reserve() to infer_route_release().  What a
 * process still has reserved when it exits is given back by its exit callback, as permits are.
 *
 * Locks: the table lock (shared to find, exclusive to insert), and one of the partition locks, by
 * slot number, for what a slot holds.  Only what inserts, moves or forgets a slot holds both, the
 * table lock first.  Nothing here raises or allocates while it holds one, and no function waits for
 * anything else.  All of it works without the gateway.
 *
 * Time is infer_now_us() of pg/clock.h.
 */
#ifndef INFER_SHMEM_ROUTE_H
#define INFER_SHMEM_ROUTE_H

#include "postgres.h"

#include "core/types.h"

#define INFER_ROUTE_IDLE_US   INT64CONST(600000000)
#define INFER_ROUTE_TEXT      128 /* bytes of a text with its NUL */
#define INFER_ROUTE_URL       256
#define INFER_INCARNATION_MAX 65 /* ... of an incarnation */

/* Slot and generation; plain data, good to keep. slot < 0: none. */
typedef struct InferRouteRef
{
	int32 slot;
	uint32 generation;
} InferRouteRef;

/* No slot is free, or can be: all have requests in flight. */
#define INFER_ROUTE_FULL (-1)
/* The caller knows the server as it was, or as it may never be. */
#define INFER_ROUTE_OUTDATED (-2)

/* What a server's catalog row says. Texts that do not fit are cut; then it is not probed. */
typedef struct InferRouteIdentity
{
	Oid database;
	Oid server;
	uint32 version; /* InferServer.version */
	char name[NAMEDATALEN];
	char scheme[8];
	char host[INFER_ROUTE_URL];
	int port;
	char url[INFER_ROUTE_URL]; /* as given, without trailing slash */
	char api[NAMEDATALEN];
	char node[NAMEDATALEN]; /* "" = it is its own */
	char service_class[NAMEDATALEN];
	char health_path[INFER_ROUTE_TEXT]; /* "" = that of its api */
	char incarnation[INFER_ROUTE_TEXT]; /* the option: where its answers say which they are of */
	char ca_file[INFER_ROUTE_URL];
	int admission_key; /* InferKey; -1 = none yet */
	bool cut;          /* a text did not fit */
} InferRouteIdentity;

typedef enum InferRouteState
{
	INFER_ROUTE_UP, /* also: nothing is known */
	INFER_ROUTE_BEHIND,
	INFER_ROUTE_FAILED,
	INFER_ROUTE_DRAINING
} InferRouteState;

/* What a decision needs to know of a server; small. */
typedef struct InferRouteSnapshot
{
	int32 in_flight;
	double outstanding;   /* weighted */
	bool behind;          /* it is there, but not ready: loading */
	int64 drain_until_us; /* > 0: draining */
	uint64 incarnation;   /* hash of it; 0 = not known */
	float node_load;      /* of its node; 0 = idle or not known */
	float node_health;
} InferRouteSnapshot;

/* A request that is counted; the owner keeps it, zeroed before. */
typedef struct InferRouteReservation
{
	InferRouteRef ref;
	double delta; /* what it added to outstanding; 0 = nothing is reserved */
} InferRouteReservation;

/* How a request ended. */
typedef struct InferRouteOutcome
{
	InferReason reason;
	InferExecution execution;
	InferVerdict verdict;
	bool behind;             /* reachable, but not ready, or not the model that was asked for */
	int64 latency_us;        /* <= 0: not known */
	int units;               /* rows of the batch; at least 1 */
	int64 tokens;            /* generated; -1 = not known */
	const char *incarnation; /* as the answer said; NULL = it did not */
	const char *remote_model;
} InferRouteOutcome;

/* Things that are counted one by one. */
typedef enum InferRouteEvent
{
	INFER_ROUTE_HEDGE_SENT,
	INFER_ROUTE_HEDGE_WON,
	INFER_ROUTE_LATE, /* an answer that nobody waited for any more */
	INFER_ROUTE_EVENT_COUNT
} InferRouteEvent;

/* A probe's end. */
typedef struct InferRouteProbe
{
	InferReason reason; /* NONE: it is there (behind or not) */
	int http_status;    /* 0 = none */
	bool behind;
	int64 next_us;           /* when the next one is due */
	const char *address;     /* that it connected to; NULL = it did not */
	const char *incarnation; /* NULL = not said */
} InferRouteProbe;

/* All of a slot, for the gateway and for views. */
typedef struct InferRouteEntry
{
	InferRouteRef ref;
	InferRouteIdentity identity;
	InferRouteSnapshot snapshot;
	int64 used_us; /* by a backend */
	/* probes */
	int64 probed_us; /* 0 = never */
	int64 next_probe_us;
	InferReason probe_reason;
	int probe_status;
	char address[INFER_ROUTE_TEXT]; /* "" = not known */
	int64 address_us;
	/* answers */
	char incarnation[INFER_INCARNATION_MAX];
	int64 answered_us; /* the last answer; 0 = none */
	int64 answers;
	int64 errors[INFER_REASON_COUNT];
	int64 by_proof[INFER_EXECUTED + 1]; /* of the errors */
	int64 events[INFER_ROUTE_EVENT_COUNT];
} InferRouteEntry;

/* Backends ------------------------------------------------------------------------------------- */

/* Finds the server's slot, or publishes it; cheap when it is there.  A slot below 0: go on without.
 * What the own transaction has changed is not published, for it may still be taken back. */
extern InferRouteRef infer_route_slot(const InferRouteIdentity *identity);
/* False: the ref is outdated, and nothing is known. */
extern bool infer_route_snapshot(InferRouteRef ref, InferRouteSnapshot *snapshot);
/* Counts a request that is about to leave. False: outdated ref; then release does nothing. */
extern bool infer_route_reserve(InferRouteRef ref, InferRouteReservation *reservation);
/* Tells how it went (NULL: given up, nothing is known), and counts it no more.  Idempotent. */
extern void infer_route_release(InferRouteReservation *reservation,
								const InferRouteOutcome *outcome);
extern void infer_route_count(InferRouteRef ref, InferRouteEvent event);
/* New work is refused until then; 0 = no more. */
extern void infer_route_drain(InferRouteRef ref, int64 until_us);
/* The address that a probe connected to ("": not known), into a buffer of INFER_ROUTE_TEXT. */
extern bool infer_route_address(InferRouteRef ref, char *address);
/* The server is gone. */
extern void infer_route_forget(InferRouteRef ref);

/* The gateway; nobody else calls these ----------------------------------------------------------
 */

extern void infer_route_probed(InferRouteRef ref, const InferRouteProbe *probe);
/* Moves the next probe without one. */
extern void infer_route_probe_at(InferRouteRef ref, int64 next_us);
extern void infer_route_set_node(InferRouteRef ref, double load, double health);

/* Reading all -----------------------------------------------------------------------------------
 */

/* Slots are numbered from 0 to this. */
extern int infer_route_slots(void);
/* Copies slot i; false: nobody is there. */
extern bool infer_route_entry(int i, InferRouteEntry *entry);
extern InferRouteState infer_route_state(const InferRouteSnapshot *snapshot);
/* Counters to zero. */
extern void infer_route_reset(void);

/* For segment.c: memory, LWLocks, and where they are. found: another process filled them. */
#define INFER_ROUTE_PARTITIONS 16
#define INFER_ROUTE_LOCKS      (1 + INFER_ROUTE_PARTITIONS)
union LWLockPadded;
extern size_t infer_route_shmem_size(void);
extern void infer_route_shmem_attach(void *memory, union LWLockPadded *locks, bool found);

#endif
