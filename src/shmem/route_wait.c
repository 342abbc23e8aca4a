/*
 * shmem/route_wait.c - who waits for a server to come back.
 *
 * A counter, and a mark per process.  Whoever writes that a server is back does so under its slot's
 * lock, counts, and then looks at the marks; who waits notes the counter, looks at the slots, under
 * the same locks, sets its mark, and compares the counter once more before it sleeps.  So one of
 * the two sees what the other has done.  All marked processes are woken, whichever server they wait
 * for: servers come back rarely, and who is woken in vain sleeps on.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"

#include "pg/compat.h"
#include "shmem/route_private.h"

typedef struct Waiting
{
	pg_atomic_uint64 changes; /* servers that have come back, since the start */
	pg_atomic_uint32 n;       /* marks that are set */
	pg_atomic_uint32 marks[FLEXIBLE_ARRAY_MEMBER];
} Waiting;

static Waiting *waiting = NULL;
static bool marked = false;

static int
count_processes(void)
{
	return MaxBackends + NUM_AUXILIARY_PROCS;
}

size_t
infer_route_wait_shmem_size(void)
{
	return MAXALIGN(
		add_size(offsetof(Waiting, marks), mul_size(count_processes(), sizeof(pg_atomic_uint32))));
}

void
infer_route_wait_shmem_attach(void *memory, union LWLockPadded *locks, bool found)
{
	waiting = memory;
	if (found)
		return;
	pg_atomic_init_u64(&waiting->changes, 0);
	pg_atomic_init_u32(&waiting->n, 0);
	for (int i = 0; i < count_processes(); i++)
		pg_atomic_init_u32(&waiting->marks[i], 0);
}

static void
end_at_exit(int code, Datum arg)
{
	infer_route_wait_end();
}

void
infer_route_wait_begin(void)
{
	static bool registered = false;

	if (marked)
		return;
	if (!registered)
		on_shmem_exit(end_at_exit, 0);
	registered = marked = true;
	pg_atomic_write_u32(&waiting->marks[infer_my_proc_number()], 1);
	pg_atomic_fetch_add_u32(&waiting->n, 1);
}

void
infer_route_wait_end(void)
{
	if (!marked)
		return;
	marked = false;
	pg_atomic_fetch_sub_u32(&waiting->n, 1);
	pg_atomic_write_u32(&waiting->marks[infer_my_proc_number()], 0);
}

uint64
infer_route_changes(void)
{
	return pg_atomic_read_u64(&waiting->changes);
}

void
infer_route_wake(void)
{
	pg_atomic_fetch_add_u64(&waiting->changes, 1);
	if (pg_atomic_read_u32(&waiting->n) == 0)
		return;
	for (int i = 0; i < count_processes(); i++)
	{
		if (pg_atomic_read_u32(&waiting->marks[i]) != 0)
			SetLatch(&GetPGProcByNumber(i)->procLatch);
	}
}
