/*
 * call/client.h - what is behind the handles of call/call.h.
 */
#ifndef INFER_CALL_CLIENT_H
#define INFER_CALL_CLIENT_H

#include "postgres.h"

#include "fmgr.h"
#include "lib/ilist.h"

#include "call/call.h"
#include "call/types.h"
#include "pg/owner.h"

struct InferEntry
{
	dlist_node node; /* in client->entries */
	InferClient *client;
	InferAnswer *answer;
};

struct InferClient
{
	InferOwned owned;
	dlist_node node; /* in the process's list of clients */
	MemoryContext context;
	InferClass *last_class; /* held */
	dlist_head entries;
	dlist_head open;     /* batches that take more */
	dlist_head ready;    /* waiting for a permit */
	dlist_head sleeping; /* waiting for a retry's time */
	dlist_head running;  /* with permit and transfer */
	dlist_head loose;    /* on their way from one of these to another */
	InferLane *lanes;
	int nbatches;        /* batches, in whatever state */
	int nopen;           /* batches in open */
	int nrunning;        /* batches in running */
	bool shown;          /* in infer.stat_progress, if there was a slot for it */
	int progress;        /* ... which is this one */
	int ngroups;         /* of lanes, that there ever were */
	int64 rows;          /* that its owner has returned, for that */
	int64 copies_due_us; /* the first copy of a running batch; 0 = none is */
	int64 expires_us;    /* the first deadline of a ready batch, or earlier; 0 = there is none */
	bool input_ended;    /* no further call will be begun: what there is, is all */
	int64 expected;      /* calls that will be begun, as a guess; <= 0: not known */
	bool has_foreign;    /* some entry waits for an answer that another client asks */
	bool ask_again;      /* some entry may wait for an answer that nobody asks any more */
	int64 evictions_before;
	InferClientStats stats;
};

/* At the end of the transaction: whatever is still open belongs to nobody. complain: it should have
 * been closed. */
extern void infer_client_close_all(bool complain);
/* Is this call evaluated by the planner, which would only estimate by its value? (InferPlanning) */
extern bool infer_planning_estimates(FunctionCallInfo fcinfo);

#endif
