/*
 * shmem/drain.c - which servers are drained: a short list under one lock.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#include "pg/compat.h"
#include "pg/guc.h"
#include "shmem/drain.h"

typedef struct DrainEntry
{
	Oid database;
	Oid server;
	InferDrainReport report;
} DrainEntry;

typedef struct DrainTable
{
	/* both written under the lock */
	pg_atomic_uint32 n; /* entries in use */
	pg_atomic_uint64 version;
	DrainEntry entries[FLEXIBLE_ARRAY_MEMBER];
} DrainTable;

static DrainTable *table = NULL;
static LWLockPadded *locks = NULL;

#define drain_lock() (&locks[0].lock)

size_t
infer_drain_shmem_size(void)
{
	return add_size(offsetof(DrainTable, entries),
					mul_size(infer_guc_max_servers, sizeof(DrainEntry)));
}

void
infer_drain_shmem_attach(void *memory, LWLockPadded *tranche, bool found)
{
	locks = tranche;
	table = memory;
	if (found)
		return;
	memset(memory, 0, infer_drain_shmem_size());
	pg_atomic_init_u32(&table->n, 0);
	pg_atomic_init_u64(&table->version, 1);
}

/* Lock held. */
static void
set_count(uint32 n)
{
	pg_atomic_write_u32(&table->n, n);
	pg_atomic_write_u64(&table->version, pg_atomic_read_u64(&table->version) + 1);
}

uint64
infer_drain_version(void)
{
	return pg_atomic_read_u64(&table->version);
}

void
infer_drain_wake(void)
{
	for (int i = 0; i < MaxBackends; i++)
	{
		PGPROC *proc = GetPGProcByNumber(i);

		/* a latch that is nobody's is not set, and who is woken for nothing sleeps on */
		if (proc->databaseId == MyDatabaseId)
			SetLatch(&proc->procLatch);
	}
}

/* The server's entry, with the lock held; NULL, and no lock, if it has none. */
static DrainEntry *
lock_entry(Oid database, Oid server, LWLockMode mode)
{
	if (pg_atomic_read_u32(&table->n) == 0)
		return NULL;
	LWLockAcquire(drain_lock(), mode);
	for (uint32 i = 0; i < pg_atomic_read_u32(&table->n); i++)
		if (table->entries[i].server == server && table->entries[i].database == database)
			return &table->entries[i];
	LWLockRelease(drain_lock());
	return NULL;
}

static void
unlock(void)
{
	LWLockRelease(drain_lock());
}

bool
infer_drain_begin(Oid database, Oid server, int64 *until_us)
{
	DrainEntry *entry = lock_entry(database, server, LW_EXCLUSIVE);
	uint32 n;
	bool found = true;

	if (entry != NULL)
	{
		*until_us = entry->report.until_us;
		unlock();
		return true;
	}
	LWLockAcquire(drain_lock(), LW_EXCLUSIVE);
	n = pg_atomic_read_u32(&table->n);
	for (uint32 i = 0; i < n && entry == NULL; i++)
		if (table->entries[i].server == server && table->entries[i].database == database)
			entry = &table->entries[i]; /* another one has just begun */
	if (entry != NULL)
		*until_us = entry->report.until_us;
	else if (n < infer_guc_max_servers)
	{
		table->entries[n] = (DrainEntry){database, server, {.until_us = *until_us}};
		set_count(n + 1);
	}
	else
		found = false;
	unlock();
	return found;
}

bool
infer_drain_end(Oid database, Oid server)
{
	DrainEntry *entry = lock_entry(database, server, LW_EXCLUSIVE);
	uint32 last;

	if (entry == NULL)
		return false;
	last = pg_atomic_read_u32(&table->n) - 1;
	*entry = table->entries[last];
	set_count(last);
	unlock();
	return true;
}

int64
infer_drain_until(Oid database, Oid server)
{
	DrainEntry *entry = lock_entry(database, server, LW_SHARED);
	int64 until_us;

	if (entry == NULL)
		return 0;
	until_us = entry->report.until_us;
	unlock();
	return until_us;
}

void
infer_drain_count(Oid database, Oid server, InferDrainEvent event)
{
	DrainEntry *entry = lock_entry(database, server, LW_EXCLUSIVE);

	if (entry == NULL)
		return;
	switch (event)
	{
		case INFER_DRAIN_FINISHED:
			entry->report.finished++;
			break;
		case INFER_DRAIN_ABANDONED:
			entry->report.abandoned++;
			break;
		case INFER_DRAIN_REFUSED:
			entry->report.refused++;
			break;
	}
	unlock();
}

void
infer_drain_ended(Oid database, Oid server, InferExecution proof)
{
	DrainEntry *entry = lock_entry(database, server, LW_EXCLUSIVE);

	if (entry == NULL)
		return;
	entry->report.ended[proof]++;
	unlock();
}

bool
infer_drain_who(int i, Oid *database, Oid *server)
{
	bool found;

	LWLockAcquire(drain_lock(), LW_SHARED);
	found = i < (int) pg_atomic_read_u32(&table->n);
	if (found)
	{
		*database = table->entries[i].database;
		*server = table->entries[i].server;
	}
	unlock();
	return found;
}

bool
infer_drain_report(Oid database, Oid server, InferDrainReport *report)
{
	DrainEntry *entry = lock_entry(database, server, LW_SHARED);

	if (entry == NULL)
		return false;
	*report = entry->report;
	unlock();
	return true;
}
