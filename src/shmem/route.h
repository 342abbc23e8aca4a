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
 * becomes another server's.  So a slot is named together with its generation, which counts reuses
 * (from a random number on, for it must differ after a restart, too), and whatever is asked or told
 * of an earlier generation is refused and changes nothing.  A change of a server's scheme, host or
 * port makes it another endpoint: a new generation, with nothing of what was known of the old one.
 * A slot that no backend has used for INFER_ROUTE_IDLE_US is not probed any more: so servers and
 * databases that are gone are forgotten without being watched.
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

#include "core/histogram.h"
#include "core/incarnation.h"
#include "core/peer.h"
#include "core/queue_model.h"
#include "core/route.h"
#include "core/types.h"

#define INFER_ROUTE_IDLE_US INT64CONST(600000000)
#define INFER_ROUTE_TEXT    128 /* bytes of a text with its NUL */
#define INFER_ROUTE_URL     256

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
	char node[NAMEDATALEN]; /* "" = it is its own: its name is put here */
	char service_class[NAMEDATALEN];
	char health_path[INFER_ROUTE_TEXT]; /* "" = that of its api */
	char incarnation[INFER_ROUTE_TEXT]; /* the option: where its answers say which they are of */
	char ca_file[INFER_ROUTE_URL];
	int admission_key; /* InferKey; -1 = none yet */
	bool cut;          /* a text did not fit */
} InferRouteIdentity;

/* What a decision needs to know of a server; some hundred bytes. */
typedef struct InferRouteSnapshot
{
	InferQueueModel queue;
	InferPeer peer;
	InferDeadModels dead; /* by infer_route_model() */
	InferLoading loading;
	int64 drain_until_us; /* > 0: it takes nothing new, and what is in flight may last until then */
	uint64 incarnation;   /* hash of it; 0 = not known */
	int32 duration_weight; /* of the LONG and EPIC requests that it holds */
	int64 node_us;         /* when these two were worked out; 0 = never yet */
	float node_load;       /* of its node; 0 = idle, or not known */
	float node_health;     /* ... 0 = not known */
} InferRouteSnapshot;

/* A request that is counted; its owner keeps it, zeroed before. */
typedef struct InferRouteReservation
{
	InferRouteRef ref;
	InferReservation queue;
	int32 duration_weight;
} InferRouteReservation;

/* How a request ended. */
typedef struct InferRouteOutcome
{
	InferTask task;
	InferReason reason; /* CANCELLED: says nothing of the server */
	InferExecution execution;
	InferVerdict verdict;
	int http_status;         /* 0 = there was no answer */
	bool loading;            /* a 503 that says that the model is not there yet */
	bool says_model;         /* a 404 whose words name the model */
	uint64 model;            /* infer_route_model() */
	int64 set_version;       /* of the set of placements that the call had */
	int64 latency_us;        /* <= 0: not known */
	int64 units;             /* rows of the batch, or tokens generated; <= 0: not known */
	int64 retry_after_us;    /* <= 0: none */
	double penalty;          /* as the server said; <= 0: it did not */
	const char *incarnation; /* as the answer said, by infer_incarnation_put(); NULL: it did not */
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
	InferReason reason;      /* NONE: it is there (behind or not) */
	int http_status;         /* 0 = none */
	bool behind;             /* it answers that it is not ready */
	bool untold;             /* it answers, but nothing of whether it is ready */
	int64 sent_us;           /* when it began */
	int64 next_us;           /* when the next one is due */
	const char *address;     /* that it connected to; NULL = it did not */
	const char *incarnation; /* NULL or "" = not said */
} InferRouteProbe;

/* All of a slot, for the gateway and for views. */
typedef struct InferRouteEntry
{
	InferRouteRef ref;
	InferRouteIdentity identity;
	InferRouteSnapshot snapshot;
	int64 used_us;           /* by a backend */
	int64 since_us;          /* up: since when, as far as is known */
	InferReason peer_reason; /* failed: why */
	/* probes */
	int64 probed_us; /* 0 = never */
	int64 next_probe_us;
	InferReason probe_reason;
	int probe_status;
	char address[INFER_ROUTE_TEXT]; /* "" = not known */
	int64 address_us;
	/* answers */
	char incarnation[INFER_INCARNATION_MAX];
	int64 incarnations; /* changes of it */
	int64 answered_us;  /* the last result; 0 = none */
	int64 answers;      /* results */
	InferReason last_error;
	int64 last_error_us;
	int64 errors[INFER_REASON_COUNT];
	int64 by_proof[INFER_EXECUTED + 1]; /* of the errors */
	int64 events[INFER_ROUTE_EVENT_COUNT];
	uint64 recent[INFER_HISTOGRAM_BUCKETS]; /* what answers took of late */
} InferRouteEntry;

/* --- Backends --- */

/* Finds the server's slot, or publishes it; cheap when it is there.  A slot below 0: go on without.
 * What the own transaction has changed is not published, for it may still be taken back. Says
 * once a session that the table is full. */
extern InferRouteRef infer_route_slot(const InferRouteIdentity *identity);
/* The server's slot, if it is published; else one below 0. */
extern InferRouteRef infer_route_find(Oid database, Oid server);
/* False: the ref is outdated, and nothing is known. */
extern bool infer_route_snapshot(InferRouteRef ref, InferRouteSnapshot *snapshot);
/* Counts a request that is about to leave, of that weight (core/dispatch.h; 0 = it has none).
 * False: outdated ref; then release does nothing.  Raises if there is no memory, with nothing
 * counted. */
extern bool infer_route_reserve(InferRouteRef ref, int duration_weight,
								InferRouteReservation *reservation);
/* Tells how it went (NULL: given up, nothing is known), and counts it no more.  Idempotent. */
extern void infer_route_release(InferRouteReservation *reservation,
								const InferRouteOutcome *outcome);
/* Its answer is not wanted any more, for another server's was there first; but it has taken as long
 * as that, which is counted no lower than it was. */
extern void infer_route_outwaited(InferRouteReservation *reservation, InferTask task, int64 units);
/* Which incarnation is up, as far as is known, into a buffer of INFER_INCARNATION_MAX. False:
 * outdated ref. */
extern bool infer_route_incarnation(InferRouteRef ref, char *incarnation);
extern void infer_route_count(InferRouteRef ref, InferRouteEvent event);
/* Whether it is drained, or is no more, has changed (shmem/drain.h). */
extern void infer_route_drain(InferRouteRef ref);
/* What dead models are noted by: a server may have a model for one role's key, and say to another
 * that there is none. */
extern uint64 infer_route_model(const char *remote_model, Oid userid);
/* The address that a probe connected to not long ago, into a buffer of INFER_ROUTE_TEXT; false:
 * none is known.  *failing: connections to it fail, so what this process remembers of its name is
 * not to be trusted. */
extern bool infer_route_address(InferRouteRef ref, char *address, bool *failing);
/* Counts servers that have come back. */
extern uint64 infer_route_changes(void);
/*
 * For who waits for a server that is down, or not ready: from here on the process's latch is set
 * whenever infer_route_changes() grows.  Note that number, look, and if there is nothing begin;
 * then, and whenever the latch was set, compare before sleeping: so no change is missed.  It ends
 * with the process at the latest; both are idempotent.
 */
extern void infer_route_wait_begin(void);
extern void infer_route_wait_end(void);
/* The server is gone. */
extern void infer_route_forget(InferRouteRef ref);

/* --- The gateway; nobody else calls these --- */

/* What a probe has found; an earlier generation's is dropped. */
extern void infer_route_probed(InferRouteRef ref, const InferRouteProbe *probe);
/* What was asked then says which incarnation answers, and nothing else; "" = it does not say. */
extern void infer_route_said(InferRouteRef ref, const char *incarnation, int64 sent_us);
/* How much of it is in use, 0 to 1; once a tick. */
extern void infer_route_sample(InferRouteRef ref, double utilisation);
/* Load and health factors of all nodes, from samples and states, into all slots. Allocates. */
extern void infer_route_refresh_nodes(void);

/* --- Reading all --- */

/* Slots are numbered from 0 to this. */
extern int infer_route_slots(void);
/* Who is in slot i; a ref below 0: nobody. */
extern InferRouteRef infer_route_who(int i, Oid *database, Oid *server);
/* Copies slot i; false: nobody is there. */
extern bool infer_route_entry(int i, InferRouteEntry *entry);
/* Is somebody there who works out the factors of nodes? */
extern bool infer_route_knows_node(const InferRouteSnapshot *snapshot, int64 now_us);
/* DEAD is for a model of it, and not told here: infer_dead_is(). */
extern InferPlaceState infer_route_state(const InferRouteSnapshot *snapshot, int64 now_us);
/* What its answers took: all, and of late. False: outdated ref. */
extern bool infer_route_latencies(InferRouteRef ref, InferHistogram *histogram);
/* Counters to zero. */
extern void infer_route_reset(void);

/* For segment.c: memory, LWLocks, and where they are. found: another process filled them. */
#define INFER_ROUTE_PARTITIONS 16
#define INFER_ROUTE_LOCKS      (1 + INFER_ROUTE_PARTITIONS)
union LWLockPadded;
extern size_t infer_route_shmem_size(void);
extern void infer_route_shmem_attach(void *memory, union LWLockPadded *locks, bool found);
/* ... and of those who wait; no locks. */
extern size_t infer_route_wait_shmem_size(void);
extern void infer_route_wait_shmem_attach(void *memory, union LWLockPadded *locks, bool found);

#endif
