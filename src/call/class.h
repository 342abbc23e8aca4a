/*
 * call/class.h - call classes: calls of one user, task, model, parameters and options.
 *
 * A class belongs to its memo and lives in a context of its own.  It is kept while an answer or a
 * client refers to it, and for a while after that (call/memo.h).
 */
#ifndef INFER_CALL_CLASS_H
#define INFER_CALL_CLASS_H

#include "postgres.h"

#include "lib/ilist.h"

#include "call/options.h"
#include "call/types.h"
#include "core/batch.h"
#include "core/route.h"
#include "core/types.h"
#include "registry/functions.h"
#include "registry/registry.h"

struct InferClass
{
	/* key */
	Oid userid;
	InferTask task;
	struct varlena *raw[3]; /* model, parameters, options as given; plain 4-byte headers */
	/* resolved */
	InferTarget *target;
	InferCallOptions options;
	char *parameters_json;     /* UTF-8 */
	InferPlace *places;        /* one for each placement of the target, in its order */
	int nplaces;               /* at least 1 */
	InferBatchLimits limits;   /* what all of them take, as far as known now */
	InferRouteRequest request; /* what its calls ask of a place */
	InferRoutePlace *routes;   /* the places, as routing sees them */
	uint64 *turn;              /* the session's requests to its model, for its strategy */
	char expected[INFER_INCARNATION_MAX]; /* retry: of all its places; "" = none has answered */
	bool sole;                            /* there is one place, and it suits the request */
	uint64 waits; /* the round in which none of its places had room (permit.c) */
	/* book-keeping */
	InferMemo *memo;
	MemoryContext context; /* holds all of it */
	uint32 hash;
	int refs;         /* answers and clients that point here */
	size_t bytes;     /* of context */
	bool charged;     /* to one of its answers */
	int64 memo_hits;  /* that infer.stat_usage has not heard of */
	int nopen;        /* open batches, of all clients */
	InferBatch *open; /* the youngest of them, or NULL */
	dlist_node idle;  /* in memo->idle_classes while refs == 0 */
};

/*
 * The class of a call with these arguments, none of them NULL, for the current user.  The client
 * holds it until it asks for another one.  Raises configuration errors (an unknown model, no USAGE,
 * a bad option) and leaves nothing behind then.
 */
extern InferClass *infer_class_get(InferClient *client, const InferFunction *function,
								   const Datum *args);

#endif
