/*
 * pg/owner.c - things that must be given back when a resource owner goes.
 *
 * A plain list of what this process holds, newest first.  Few things are on it at a time (one per
 * running scan or direct call), so finding those of one owner by walking is cheap.
 */
#include "postgres.h"

#include "pg/owner.h"

static dlist_head owned_list = DLIST_STATIC_INIT(owned_list);

/* The newest thing that belongs to this owner, or NULL. */
static InferOwned *
find_owned(ResourceOwner owner)
{
	dlist_iter iter;

	dlist_foreach(iter, &owned_list)
	{
		InferOwned *owned = dlist_container(InferOwned, node, iter.cur);

		if (owned->owner == owner)
			return owned;
	}
	return NULL;
}

/*
 * Called for every owner that is released.  Looks for the next one from the start each time, for a
 * callback may forget others; taken off the list before its callback runs, so that an error in
 * there cannot make it run twice.
 */
static void
release_owned(ResourceReleasePhase phase, bool isCommit, bool isTopLevel, void *arg)
{
	InferOwned *owned;

	if (phase != RESOURCE_RELEASE_BEFORE_LOCKS)
		return;

	while ((owned = find_owned(CurrentResourceOwner)) != NULL)
	{
		InferOwnedRelease release = owned->release;

		infer_owner_forget(owned);
		if (isCommit)
			elog(WARNING, "pg_inference: a remote call was still open at the end of its statement");
		release(owned);
	}
}

void
infer_owner_init(void)
{
	RegisterResourceReleaseCallback(release_owned, NULL);
}

void
infer_owner_remember(InferOwned *owned, InferOwnedRelease release)
{
	if (CurrentResourceOwner == NULL)
		elog(ERROR, "remote calls need a resource owner");
	owned->owner = CurrentResourceOwner;
	owned->release = release;
	dlist_push_head(&owned_list, &owned->node);
}

/* Does nothing for what was forgotten or released already. */
void
infer_owner_forget(InferOwned *owned)
{
	if (owned->owner == NULL)
		return;
	dlist_delete(&owned->node);
	owned->owner = NULL;
}
