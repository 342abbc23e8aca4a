/*
 * call/place.h - where the calls of a class can go: a placement of its model, at run time.
 *
 * A class has one place for each placement, in the catalog's order; they live as long as it does.
 * A batch has the place that it was last meant for: at once where there is only one, else from when
 * it gets its permit.  What must be said of a class before that (whether the planner may call it,
 * whose memo hits they were) is said of its first place.
 */
#ifndef INFER_CALL_PLACE_H
#define INFER_CALL_PLACE_H

#include "postgres.h"

#include "lib/ilist.h"

#include "call/types.h"
#include "core/batch.h"
#include "core/sizes.h"
#include "core/types.h"
#include "http/transport.h"
#include "provider/provider.h"
#include "registry/registry.h"
#include "shmem/admission.h"
#include "shmem/route.h"

struct InferPlace
{
	InferClass *class;
	const InferPlacement *placement;
	InferReason barred; /* why the class must not use it; NONE = it may, and all below is set */
	const InferProvider *provider;
	char *remote_model; /* UTF-8 */
	char *url;
	int timeout_ms; /* of an attempt there */
	InferKey key;
	InferEgress egress;
	char *fairness;               /* header line of its signals (signals.c); NULL = it wants none */
	InferBatchLimits limits;      /* as far as known now */
	InferBatchLimits told_limits; /* by settings, options and the server object */
	InferSizes suspects;          /* sizes that this statement is trying */
	int nsuspects;                /* ... in so many trees of refused batches */
	dlist_head refusals;          /* nodes of those trees, and of others (sizes.c) */
	/* when its server's grace ends (0 = it is not drained), as of that version (call/drain.c) */
	int64 drain_until_us;
	uint64 drain_version;
	int64 output_guess; /* tokens of an answer, charged before it is known */
	InferRouteRef slot; /* of the server, in the route table */
	uint64 model_hash;  /* of the remote model, there */
	/* which run of its server answers (incarnation.c) */
	InferIncarnationPlace says;           /* where answers say it */
	const char *says_as;                  /* ... under which name */
	char expected[INFER_INCARNATION_MAX]; /* no other one's answers are taken; "" = any's are */
};

/* Makes the places of a class whose target and options are there, in the current context.  Raises
 * configuration errors, also if none of them may be used. */
extern void infer_places_make(InferClass *class);
/* Has the table of admission keys the server's key, or room for it? */
extern bool infer_place_has_room(const InferServer *server);
/* Raises what a barred place is barred for: PERMISSION_DENIED, EGRESS_DENIED, or NO_DEST, for want
 * of room for its admission key. */
extern void infer_place_refuse(const InferPlace *place);
/* Says in a request what the gateway knows of the address of the place's server. */
extern void infer_place_address(const InferPlace *place, InferHttpRequest *request);
/* How many batches of this process want a permit of the least wanted place. */
extern int infer_places_wanted(const InferClass *class);
/* Are embeddings to be asked as base64 there?  It is 80 times cheaper to read. */
extern bool infer_place_base64(const InferPlace *place);
extern void infer_place_no_base64(const InferPlace *place);

#endif
