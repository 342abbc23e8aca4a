/*
 * shmem/nodes.c - duration weights of nodes: memory, lock and latches for core/dispatch.
 *
 * There is room for as many nodes as for servers, and for a process to stand in the lines of
 * STAKES_EACH of them.  When that is used up, a request waits without a place and asks once a
 * second: it must not leave unweighed.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"

#include "pg/clock.h"
#include "pg/compat.h"
#include "pg/guc.h"
#include "shmem/nodes.h"

#define STAKES_EACH 8
#define WAKE_BATCH  16

static InferDispatch *dispatch = NULL;
static LWLockPadded *locks = NULL;
static bool exit_registered = false;

#define nodes_lock() (&locks[0].lock)

static int
count_stakes(void)
{
	return STAKES_EACH * (MaxBackends + NUM_AUXILIARY_PROCS);
}

size_t
infer_nodes_shmem_size(void)
{
	return infer_dispatch_size(infer_guc_max_servers, count_stakes());
}

void
infer_nodes_shmem_attach(void *memory, LWLockPadded *tranche, bool found)
{
	locks = tranche;
	dispatch = memory;
	if (found)
		return;
	memset(memory, 0, infer_nodes_shmem_size());
	infer_dispatch_init(dispatch, infer_guc_max_servers, count_stakes());
}

int
infer_nodes_weight(InferDuration duration)
{
	return duration == INFER_DURATION_LONG   ? infer_guc_long_weight
		   : duration == INFER_DURATION_EPIC ? infer_guc_epic_weight
											 : 0;
}

/* Sets the latches of those who can go now. Lock held. */
static void
wake_line(int node, int64 now)
{
	int32 who[WAKE_BATCH];
	int n;

	do
	{
		n = infer_dispatch_wake(dispatch, node, now, who, WAKE_BATCH);
		for (int i = 0; i < n; i++)
			SetLatch(&GetPGProcByNumber(who[i])->procLatch);
	} while (n == WAKE_BATCH);
}

static void
wake_reclaimed(void *arg, int node)
{
	wake_line(node, *(const int64 *) arg);
}

static void
release_at_exit(int code, Datum arg)
{
	int64 now = infer_now_us();

	LWLockAcquire(nodes_lock(), LW_EXCLUSIVE);
	infer_dispatch_reclaim(dispatch, infer_my_proc_number(), wake_reclaimed, &now);
	LWLockRelease(nodes_lock());
}

int
infer_nodes_take(InferDispatchAsk *ask, int *node)
{
	int64 now = infer_now_us();
	int granted;

	if (!exit_registered)
		on_shmem_exit(release_at_exit, 0);
	exit_registered = true;
	ask->max = infer_guc_max_duration_weight;
	LWLockAcquire(nodes_lock(), LW_EXCLUSIVE);
	granted = infer_dispatch_take(dispatch, infer_my_proc_number(), ask, now, node);
	if (*node != INFER_NO_NODE)
		wake_line(*node, now);
	LWLockRelease(nodes_lock());
	return granted;
}

void
infer_nodes_done(int node, int granted, int used)
{
	int64 now = infer_now_us();

	LWLockAcquire(nodes_lock(), LW_EXCLUSIVE);
	infer_dispatch_done(dispatch, infer_my_proc_number(), node, granted, used, now);
	wake_line(node, now);
	LWLockRelease(nodes_lock());
}

void
infer_nodes_give(int node, int weight)
{
	LWLockAcquire(nodes_lock(), LW_EXCLUSIVE);
	infer_dispatch_give(dispatch, infer_my_proc_number(), node, weight);
	wake_line(node, infer_now_us());
	LWLockRelease(nodes_lock());
}

void
infer_nodes_leave(int node)
{
	LWLockAcquire(nodes_lock(), LW_EXCLUSIVE);
	infer_dispatch_leave(dispatch, infer_my_proc_number(), node);
	wake_line(node, infer_now_us());
	LWLockRelease(nodes_lock());
}

int
infer_nodes_waiters(int i, InferWaiter *waiters, int size, char *label)
{
	const InferDispatchNode *node;
	bool more;
	int n = 0;

	LWLockAcquire(nodes_lock(), LW_SHARED);
	node = infer_dispatch_node(dispatch, i, &more);
	for (int k = node != NULL ? node->first : INFER_NOBODY; k != INFER_NOBODY;)
	{
		const InferDispatchStake *stake = infer_dispatch_stake(dispatch, k);

		k = stake->next;
		if (stake->want == 0 || stake->wait != INFER_DISPATCH_HERE)
			continue;
		if (n < size)
		{
			waiters[n] = (InferWaiter){.wanted = stake->want,
									   .priority = stake->priority,
									   .duration = stake->duration,
									   .since_us = stake->since_us,
									   .deadline_us = stake->deadline_us};
			infer_waiter_process(&waiters[n], stake->process);
		}
		n++;
	}
	if (node != NULL)
		strlcpy(label, node->label, INFER_DISPATCH_LABEL);
	LWLockRelease(nodes_lock());
	return more ? n : -1;
}
