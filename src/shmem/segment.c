/*
 * shmem/segment.c - who asks for shared memory: one table of {size, locks, attach}.
 *
 * Request and attach are separate because sizes depend on MaxBackends, which is known only in the
 * request hook.  The startup hook runs again after a crash restart, with the memory wiped, and in
 * every process where processes do not fork; so it attaches afresh each time and fills the memory
 * only when it was not there yet.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "shmem/admission.h"
#include "shmem/drain.h"
#include "shmem/gateway.h"
#include "shmem/hedges.h"
#include "shmem/nodes.h"
#include "shmem/observed.h"
#include "shmem/progress.h"
#include "shmem/route.h"
#include "shmem/segment.h"
#include "shmem/usage.h"

typedef struct SegmentItem
{
	const char *name; /* of the memory and of the lock tranche */
	size_t (*size)(void);
	int nlocks;
	/* found: somebody filled the memory before */
	void (*attach)(void *memory, LWLockPadded *locks, bool found);
} SegmentItem;

static const SegmentItem items[] = {
	{"pg_inference_admission", infer_admission_shmem_size, INFER_ADMISSION_LOCKS,
	 infer_admission_shmem_attach},
	{"pg_inference_drain", infer_drain_shmem_size, 1, infer_drain_shmem_attach},
	{"pg_inference_gateway", infer_gateway_shmem_size, 0, infer_gateway_shmem_attach},
	{"pg_inference_hedges", infer_hedges_shmem_size, 1, infer_hedges_shmem_attach},
	{"pg_inference_nodes", infer_nodes_shmem_size, 1, infer_nodes_shmem_attach},
	{"pg_inference_observed", infer_observed_shmem_size, INFER_OBSERVED_SETS,
	 infer_observed_shmem_attach},
	{"pg_inference_progress", infer_progress_shmem_size, 0, infer_progress_shmem_attach},
	{"pg_inference_route", infer_route_shmem_size, INFER_ROUTE_LOCKS, infer_route_shmem_attach},
	{"pg_inference_route_wait", infer_route_wait_shmem_size, 0, infer_route_wait_shmem_attach},
	{"pg_inference_usage", infer_usage_shmem_size, 1, infer_usage_shmem_attach},
};

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static void
request_memory(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();

	for (int i = 0; i < lengthof(items); i++)
	{
		RequestAddinShmemSpace(items[i].size());
		if (items[i].nlocks > 0)
			RequestNamedLWLockTranche(items[i].name, items[i].nlocks);
	}
}

static void
attach_memory(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	for (int i = 0; i < lengthof(items); i++)
	{
		bool found;
		void *memory = ShmemInitStruct(items[i].name, items[i].size(), &found);

		items[i].attach(memory, items[i].nlocks > 0 ? GetNamedLWLockTranche(items[i].name) : NULL,
						found);
	}
	LWLockRelease(AddinShmemInitLock);
}

void
infer_shmem_install(void)
{
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_memory;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = attach_memory;
}
