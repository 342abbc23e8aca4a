/*
 * core/dispatch.h - how much LONG and EPIC work a node may have in flight, and who waits for it.
 *
 * A unit (a request that is about to leave) has a duration weight: LONG 1, EPIC 2, others none.
 * The weights in flight on a node must not exceed a maximum; a unit heavier than that runs when
 * nothing else weighs.  Units without weight never come here, so they pass those that wait.
 *
 * Who goes first.  Strictly by priority, then by arrival.  Who cannot go yet, though it could be
 * served by this node alone, keeps back those behind it: smaller units do not starve a large one.
 *
 * All or nothing.  A unit needs its weight and a permit of its server (core/admission.h), and holds
 * neither while it waits for the other.  So weight is taken on trial: take(), then the permit, then
 * done() says how many units got one, and gives back the rest.  Whoever lacks the permit keeps its
 * place here and is passed over (elsewhere), for it waits in the permit's line; who lacks the
 * weight is passed over there (infer_admission_pass).  So it always waits in just one of the two,
 * and no two units wake each other in turn.
 *
 * What waits is a process, once per node, for whatever number of its units; one that got a part
 * goes to the end.  So the line is as long as there are processes, whoever leaves it is gone, and
 * there is nothing to compact.  Where its units differ, the place is that of those that it asked
 * with ask.wait for; the others look as if they came last of their priority.
 *
 * The absent, who do not come when woken, and the expired, who hold weight for longer than their
 * requests can last, are as in core/admission.h.
 *
 * Memory is flat, without pointers, zeroed and then initialised: a table of nodes, which are there
 * as long as somebody has a stake in them, and a pool of stakes.
 *
 * FOR THE CALLER (shmem/nodes.c): all functions under one lock; none raises, allocates or sleeps.
 * After take, done, give, leave and reclaim: wake(), again and again until it returns less than
 * size, and set the latches of those it names.
 */
#ifndef INFER_CORE_DISPATCH_H
#define INFER_CORE_DISPATCH_H

#include <stddef.h>

#include "core/admission.h"
#include "core/types.h"

#define INFER_DISPATCH_LABEL 128 /* bytes with the NUL */

/* For which of its resources a process in the line waits. */
typedef enum InferDispatchWait
{
	INFER_DISPATCH_HERE,
	INFER_DISPATCH_TRYING,   /* for neither: it has weight on trial */
	INFER_DISPATCH_ELSEWHERE /* for the permit */
} InferDispatchWait;

/* A process at a node. */
typedef struct InferDispatchStake
{
	int32_t node; /* INFER_NOBODY = free */
	int32_t process;
	int32_t held; /* weight, on trial included */
	int32_t expired;
	int64_t good_until_us;
	/* the line; want > 0 = in it */
	int32_t want;   /* units */
	int32_t weight; /* of each */
	int32_t priority;
	int32_t wait;  /* InferDispatchWait */
	int32_t after; /* on trial: how many units it will want if none gets its permit */
	int32_t trial; /* ... and the weight of each of those on trial */
	bool aside;    /* ... which are others than those in line */
	int64_t since_us;
	int64_t woken_us; /* 0 = has tried since */
	/* as told, for those who look */
	int32_t duration;
	int64_t deadline_us; /* 0 = none */
	/* of the node: those in line first, in order */
	int32_t prev;
	int32_t next; /* ... or of the free ones */
} InferDispatchStake;

typedef struct InferDispatchNode
{
	char label[INFER_DISPATCH_LABEL];
	int32_t weight; /* in flight */
	int32_t first;  /* stakes; INFER_NOBODY = the node is free */
	int32_t last;
	int64_t expired_look_us;
} InferDispatchNode;

typedef struct InferDispatch
{
	_Alignas(int64_t) int32_t nnodes; /* as what follows it in memory */
	int32_t nstakes;
	int32_t used_nodes; /* none beyond has ever been used */
	int32_t free_stake;
	int32_t max; /* as take() heard it last */
} InferDispatch;

typedef struct InferDispatchAsk
{
	const char *label; /* shorter than INFER_DISPATCH_LABEL */
	int want;          /* units, at least 1 */
	int weight;        /* of each, at least 1 */
	int max;           /* in flight on a node */
	InferPriority priority;
	int64_t lasts_us; /* the requests' timeout */
	bool wait;        /* stays in line for what is not to be had */
	InferDuration duration;
	int64_t deadline_us; /* 0 = none */
} InferDispatchAsk;

/* Bytes that so many take. */
extern size_t infer_dispatch_size(int nnodes, int nstakes);
/* The memory must be zero. */
extern void infer_dispatch_init(InferDispatch *d, int nnodes, int nstakes);

/*
 * Takes weight for up to ask->want units, on trial, and returns for how many.  With ask->wait the
 * process is in the node's line from now on, for what is lacking; without, its place there stays as
 * it was, and counts as that of these units if they are like those that stand there.  *node: which
 * it is.  It is INFER_NOBODY, and nothing is taken, if there is no room for another node or stake:
 * then the process is in no line and must ask again.
 */
extern int infer_dispatch_take(InferDispatch *d, int process, const InferDispatchAsk *ask,
							   int64_t now_us, int *node);
/* After take() returned `granted` > 0: `used` of the units have their permits, and the weight of
 * the others goes back. */
extern void infer_dispatch_done(InferDispatch *d, int process, int node, int granted, int used,
								int64_t now_us);
/* A unit has ended. Ignored if the process holds nothing there. */
extern void infer_dispatch_give(InferDispatch *d, int process, int node, int weight);
/* The process wants nothing there any more. Idempotent. */
extern void infer_dispatch_leave(InferDispatch *d, int process, int node);
/* The process is gone: from all nodes. Calls wake(arg, node) for each node where it had a stake. */
extern void infer_dispatch_reclaim(InferDispatch *d, int process, void (*wake)(void *arg, int node),
								   void *arg);
extern int infer_dispatch_wake(InferDispatch *d, int node, int64_t now_us, int32_t *who, int size);

/* For views and checks: node i, or NULL if it is free or i is too large (*more = false then). */
extern const InferDispatchNode *infer_dispatch_node(const InferDispatch *d, int i, bool *more);
extern const InferDispatchStake *infer_dispatch_stake(const InferDispatch *d, int i);

#endif
