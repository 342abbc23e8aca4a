/*
 * shmem/progress.c - what running scans have done so far.  The protocol of a slot is the one of
 * PostgreSQL's backend status: its counter is odd while it is written.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "utils/timestamp.h"

#include "pg/compat.h"
#include "shmem/progress.h"

#define SLOTS_PER_PROCESS 4

typedef struct ProgressSlot
{
	volatile uint32 changes; /* odd: being written */
	InferProgress progress;
} ProgressSlot;

static ProgressSlot *slots = NULL;
static bool exit_registered = false;

static int
count_slots(void)
{
	return (MaxBackends + NUM_AUXILIARY_PROCS) * SLOTS_PER_PROCESS;
}

size_t
infer_progress_shmem_size(void)
{
	return mul_size(count_slots(), sizeof(ProgressSlot));
}

void
infer_progress_shmem_attach(void *memory, LWLockPadded *locks, bool found)
{
	slots = memory;
	if (!found)
		memset(memory, 0, infer_progress_shmem_size());
}

static void
write_begin(ProgressSlot *slot)
{
	slot->changes++;
	pg_write_barrier();
}

static void
write_end(ProgressSlot *slot)
{
	pg_write_barrier();
	slot->changes++;
}

/* A client is closed on abort; this is for what ends without one. */
static void
end_at_exit(int code, Datum arg)
{
	for (int i = 0; i < SLOTS_PER_PROCESS; i++)
		infer_progress_end(infer_my_proc_number() * SLOTS_PER_PROCESS + i);
}

int
infer_progress_begin(void)
{
	int first = infer_my_proc_number() * SLOTS_PER_PROCESS;

	if (!exit_registered)
		on_shmem_exit(end_at_exit, 0);
	exit_registered = true;
	for (int i = first; i < first + SLOTS_PER_PROCESS; i++)
	{
		ProgressSlot *slot = &slots[i];

		if (slot->progress.pid != 0)
			continue;
		write_begin(slot);
		slot->progress = (InferProgress){.pid = MyProcPid,
										 .database = MyDatabaseId,
										 .role = GetUserId(),
										 .since = GetCurrentTimestamp()};
		write_end(slot);
		return i;
	}
	return -1;
}

void
infer_progress_set(int slot, const InferProgressFigures *figures)
{
	if (slot < 0)
		return;
	write_begin(&slots[slot]);
	slots[slot].progress.figures = *figures;
	write_end(&slots[slot]);
}

void
infer_progress_end(int slot)
{
	if (slot < 0)
		return;
	write_begin(&slots[slot]);
	slots[slot].progress.pid = 0;
	write_end(&slots[slot]);
}

bool
infer_progress_stat(int i, InferProgress *progress)
{
	const ProgressSlot *slot;
	uint32 before;
	uint32 after;

	if (i < 0 || i >= count_slots())
		return false;
	slot = &slots[i];
	do
	{
		CHECK_FOR_INTERRUPTS();
		before = slot->changes;
		pg_read_barrier();
		*progress = slot->progress;
		pg_read_barrier();
		after = slot->changes;
	} while (before != after || (before & 1) != 0);
	return true;
}
