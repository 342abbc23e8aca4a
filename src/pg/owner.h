/*
 * pg/owner.h - things that must be given back when a resource owner goes.
 *
 * An InferOwned is embedded in whatever must come back (a client of the pump with its permits and
 * transfers).  It is remembered with CurrentResourceOwner and forgotten on normal release.  When an
 * owner is released with it still attached (ERROR, cancel, ROLLBACK TO, portal drop), its
 * callback runs in RESOURCE_RELEASE_BEFORE_LOCKS, must not raise, and gives back everything.  With
 * isCommit it also warns of a leak.  One ResourceRelease callback per process.
 *
 * Memory: after an ERROR PostgreSQL deletes a failed portal's executor contexts *before* it
 * releases the resource owners (AtAbort_Portals).  So an InferOwned, and all that its callback
 * touches, must live in TopMemoryContext or a child of it that only its holder deletes, never in
 * the per-query or portal context.
 */
#ifndef INFER_PG_OWNER_H
#define INFER_PG_OWNER_H

#include "postgres.h"
#include "lib/ilist.h"
#include "utils/resowner.h"

typedef struct InferOwned InferOwned;
typedef void (*InferOwnedRelease)(InferOwned *owned);

struct InferOwned
{
	dlist_node node;
	ResourceOwner owner;
	InferOwnedRelease release;
};

extern void infer_owner_init(void); /* from _PG_init */
extern void infer_owner_remember(InferOwned *owned, InferOwnedRelease release);
extern void infer_owner_forget(InferOwned *owned);

#endif
