/*
 * gateway/internal.h - what the files of the gateway process share.
 *
 * worker.c    birth, loop and end of the process
 * prober.c    which server is probed when, and what its answer says
 * resolver.c  which address a probe connects to
 * load.c      how busy servers and nodes are
 */
#ifndef INFER_GATEWAY_INTERNAL_H
#define INFER_GATEWAY_INTERNAL_H

#include "postgres.h"

#include "http/transport.h"
#include "registry/registry.h"
#include "shmem/route.h"

/* What is known of the address of a server's name. */
typedef struct InferNameWatch
{
	char address[INFER_ADDRESS_LEN]; /* "": not known */
	int64 resolved_us;               /* when it was looked up */
	bool asking;                     /* the probe that runs looks it up */
} InferNameWatch;

/* A slot of the route table, as the gateway watches it; in the process's own memory. */
typedef struct InferWatch
{
	InferRouteRef ref; /* whom all the rest is about */
	bool ended;        /* probed at least once */
	bool slow;         /* ... and the last one took long */
	int64 next_us;     /* when the next probe is due */
	bool other_path;   /* its usual path is not there */
	InferNameWatch name;
	InferTransfer *transfer; /* of the probe that runs, or what follows it; NULL = none does */
	int64 sent_us;
	InferEgress egress;            /* the running probe's, as the next */
	bool asks_metrics;             /* the transfer is for its metrics, not its health */
	char header[INFER_ROUTE_TEXT]; /* that says which incarnation answers */
} InferWatch;

/* How many servers are watched, and how they are. */
typedef struct InferWatchCounts
{
	int servers;
	int failed;
	int behind;
} InferWatchCounts;

/* prober.c */

/* Once, before the first turn; raises without memory or descriptors. */
extern void infer_prober_init(void);
/* Takes the ends of probes, and starts those that are due. Returns when it wants to be called again
 * at the latest, besides when its descriptor is readable. */
extern int64 infer_prober_turn(int64 now);
extern int infer_prober_fd(void);
extern InferWatchCounts infer_prober_counts(void);

/* resolver.c */

/* Chooses the address for a probe that is about to start: sets address and fresh_lookup. */
extern void infer_resolver_prepare(InferNameWatch *name, const InferRouteEntry *entry, int64 now,
								   InferHttpRequest *request);
/* The probe has ended. Returns the address to be told to all; NULL = none. */
extern const char *infer_resolver_note(InferNameWatch *name, const InferRouteEntry *entry,
									   const InferHttpResult *result, int64 now);
/* Has somebody else found that the address does not answer? */
extern bool infer_resolver_was_dropped(const InferNameWatch *name, const InferRouteEntry *entry);

/* load.c */

/* Once a tick. */
extern void infer_load_turn(void);

#endif
