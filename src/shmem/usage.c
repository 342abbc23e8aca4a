/*
 * shmem/usage.c - what calls have taken, per day, role and model: the tables under their lock.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "pg/clock.h"
#include "pg/guc.h"
#include "shmem/usage_table.h"

static LWLockPadded *locks = NULL;

#define usage_lock() (&locks[0].lock)

void
infer_usage_lock_shared(void)
{
	LWLockAcquire(usage_lock(), LW_SHARED);
}

void
infer_usage_unlock(void)
{
	LWLockRelease(usage_lock());
}

/* The last of all processes writes what there is. After a crash shared memory is not to be trusted.
 */
static void
save_at_shutdown(int code, Datum arg)
{
	if (code == 0)
		infer_usage_save_alone();
}

void
infer_usage_shmem_attach(void *memory, LWLockPadded *tranche, bool found)
{
	locks = tranche;
	infer_usage_table_attach(memory, found);
	if (!IsUnderPostmaster)
		on_shmem_exit(save_at_shutdown, 0);
	if (!found)
		infer_usage_restore();
}

int32
infer_usage_today(void)
{
	TimestampTz now = GetCurrentTimestamp();
	int64 day = now / USECS_PER_DAY;

	if (now % USECS_PER_DAY < 0)
		day--;
	return (int32) day + infer_guc_usage_day_offset;
}

void
infer_usage_key(InferUsageKey *key, int32 day, Oid role, Oid server, InferTask task,
				const char *remote_model)
{
	memset(key, 0, sizeof(*key));
	key->day = day;
	key->role = role;
	infer_observed_key(&key->model, server, task, remote_model);
}

InferUsageAnswer
infer_usage_charge(Oid role, int32 *day, const InferAmount *limits, const InferAmount *wanted,
				   InferAmount *used)
{
	InferUsageAnswer answer = INFER_USAGE_UNREADABLE;
	InferAccount *account;

	LWLockAcquire(usage_lock(), LW_EXCLUSIVE);
	if (!infer_usage_table->unreadable)
	{
		account = infer_usage_get_account(role, *day);
		if (account == NULL)
			answer = INFER_USAGE_FULL;
		else if (infer_account_charge(account, day, limits, wanted) == INFER_BUDGET_NONE)
			answer = INFER_USAGE_CHARGED;
		else
		{
			answer = INFER_USAGE_EXCEEDED;
			*used = account->used;
		}
		infer_usage_table->changes++;
	}
	LWLockRelease(usage_lock());
	return answer;
}

void
infer_usage_correct(Oid role, int32 day, const InferAmount *change)
{
	InferAccount *account;

	LWLockAcquire(usage_lock(), LW_EXCLUSIVE);
	account = infer_usage_get_account(role, day);
	if (account != NULL)
		infer_account_correct(account, day, change);
	infer_usage_table->changes++;
	LWLockRelease(usage_lock());
}

void
infer_usage_note(const InferUsageKey *key, const char *server_name, const InferUsage *more,
				 const InferAmount *change)
{
	InferUsageRow *row;
	InferAccount *account;

	LWLockAcquire(usage_lock(), LW_EXCLUSIVE);
	row = infer_usage_get_row(key);
	infer_usage_add(&row->usage, more);
	if (row != &infer_usage_rows[0])
		strlcpy(row->server_name, server_name, sizeof(row->server_name));
	account = infer_usage_get_account(key->role, key->day);
	if (account != NULL)
		infer_account_correct(account, key->day, change);
	infer_usage_table->changes++;
	LWLockRelease(usage_lock());
}

InferUsageImage *
infer_usage_image(void)
{
	InferUsageImage *image = palloc(sizeof(InferUsageImage));
	MemoryContext context = CurrentMemoryContext;

	image->rows =
		MemoryContextAllocHuge(context, sizeof(InferUsageRow) * (infer_usage_table->capacity + 1));
	image->accounts = MemoryContextAllocHuge(context, (Size) infer_usage_table->capacity *
														  sizeof(InferUsageAccount));
	LWLockAcquire(usage_lock(), LW_SHARED);
	image->nrows = infer_usage_table->nrows;
	image->naccounts = infer_usage_table->naccounts;
	memcpy(image->rows, infer_usage_rows, sizeof(InferUsageRow) * image->nrows);
	memcpy(image->accounts, infer_usage_accounts, sizeof(InferUsageAccount) * image->naccounts);
	LWLockRelease(usage_lock());
	return image;
}

void
infer_usage_save_due(void)
{
	const InferUsageTable *table = infer_usage_table;

	/* only a hint, so no lock */
	if (table->changes != pg_atomic_read_u64(&infer_usage_table->saved_changes) &&
		infer_now_us() - (int64) pg_atomic_read_u64(&infer_usage_table->saved_us) >=
			(int64) infer_guc_usage_save_interval * 1000)
		(void) infer_usage_save();
}

bool
infer_usage_reset(void)
{
	LWLockAcquire(usage_lock(), LW_EXCLUSIVE);
	infer_usage_table_clear();
	LWLockRelease(usage_lock());
	return infer_usage_save();
}
