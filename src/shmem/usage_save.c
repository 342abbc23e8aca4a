/*
 * shmem/usage_save.c - from the tables of usage to the file, and back when the server starts.
 *
 *   body | rows | accounts
 */
#include "postgres.h"

#include "pg/clock.h"
#include "shmem/usage_file.h"
#include "shmem/usage_table.h"

/* What stands in the file before rows and accounts. */
typedef struct UsageFileBody
{
	uint32 row_size;
	uint32 account_size;
	int32 nrows;
	int32 naccounts;
	uint64 unreadable;
} UsageFileBody;

static bool
write_tables(const UsageFileBody *body, const InferUsageRow *from_rows,
			 const InferUsageAccount *from_accounts)
{
	InferUsagePart parts[] = {
		{body, sizeof(*body)},
		{from_rows, sizeof(InferUsageRow) * body->nrows},
		{from_accounts, sizeof(InferUsageAccount) * body->naccounts},
	};

	return infer_usage_file_write(parts, lengthof(parts));
}

static UsageFileBody
describe_tables(void)
{
	return (UsageFileBody){.row_size = sizeof(InferUsageRow),
						   .account_size = sizeof(InferUsageAccount),
						   .nrows = infer_usage_table->nrows,
						   .naccounts = infer_usage_table->naccounts,
						   .unreadable = infer_usage_table->unreadable};
}

/*
 * Copies under the lock and writes without it.  Memory is malloc'd, for nothing may raise; without
 * memory it is written another time.
 */
static bool
save_copy(void)
{
	size_t capacity = infer_usage_table->capacity;
	InferUsageRow *row_copy = malloc(sizeof(InferUsageRow) * (capacity + 1));
	InferUsageAccount *account_copy = malloc(sizeof(InferUsageAccount) * capacity);
	UsageFileBody body;
	uint64 changes;
	bool saved = false;

	if (row_copy != NULL && account_copy != NULL)
	{
		infer_usage_lock_shared();
		body = describe_tables();
		changes = infer_usage_table->changes;
		memcpy(row_copy, infer_usage_rows, sizeof(InferUsageRow) * body.nrows);
		memcpy(account_copy, infer_usage_accounts, sizeof(InferUsageAccount) * body.naccounts);
		infer_usage_unlock();
		saved = write_tables(&body, row_copy, account_copy);
		if (saved)
			pg_atomic_write_u64(&infer_usage_table->saved_changes, changes);
	}
	free(row_copy);
	free(account_copy);
	return saved;
}

/* One at a time, which the others do not wait for. */
bool
infer_usage_save(void)
{
	uint32 nobody = 0;
	bool saved;

	if (!pg_atomic_compare_exchange_u32(&infer_usage_table->saving, &nobody, 1))
		return true;
	pg_atomic_write_u64(&infer_usage_table->saved_us, infer_now_us());
	saved = save_copy();
	pg_atomic_write_u32(&infer_usage_table->saving, 0);
	return saved;
}

/* Writes shared memory itself. */
static void
save_tables(void)
{
	UsageFileBody body = describe_tables();
	uint64 changes = infer_usage_table->changes;

	if (write_tables(&body, infer_usage_rows, infer_usage_accounts))
		pg_atomic_write_u64(&infer_usage_table->saved_changes, changes);
}

void
infer_usage_save_alone(void)
{
	if (infer_usage_table->changes != pg_atomic_read_u64(&infer_usage_table->saved_changes))
		save_tables();
}

/* The last day that any account is of: accounts of that day are what budgets of today are about. */
static int32
newest_day(const InferUsageAccount *from, int n)
{
	int32 newest = INFER_USAGE_OLDER;

	for (int i = 0; i < n; i++)
		newest = Max(newest, from[i].account.day);
	return newest;
}

static void
load_rows(const InferUsageRow *from, int n)
{
	infer_usage_add(&infer_usage_rows[0].usage, &from[0].usage);
	for (int i = 1; i < n; i++)
	{
		InferUsageRow *row = infer_usage_get_row(&from[i].key);

		infer_usage_add(&row->usage, &from[i].usage);
		if (row != &infer_usage_rows[0])
			memcpy(row->server_name, from[i].server_name, sizeof(row->server_name));
	}
}

static void
load_accounts(const InferUsageAccount *from, int n)
{
	int32 newest = newest_day(from, n);

	for (int i = 0; i < n; i++)
	{
		InferAccount *account = infer_usage_get_account(from[i].role, from[i].account.day);

		if (account != NULL)
			*account = from[i].account;
		else if (from[i].account.day == newest)
		{
			infer_usage_table->unreadable = true;
			ereport(WARNING,
					(errmsg("pg_inference has no room for what all roles have spent today"),
					 errdetail("Roles with a daily budget are refused."),
					 errhint("Raise pg_inference.max_usage_entries and restart the server.")));
			break;
		}
	}
}

/* Rows and accounts as the file has them; it may come from a server with other limits. */
static bool
load(const char *data, size_t size)
{
	UsageFileBody body;
	const InferUsageRow *from_rows;
	const InferUsageAccount *from_accounts;

	if (size < sizeof(body))
		return false;
	memcpy(&body, data, sizeof(body));
	if (body.row_size != sizeof(InferUsageRow) || body.account_size != sizeof(InferUsageAccount) ||
		body.nrows < 1 || body.naccounts < 0 ||
		size != sizeof(body) + sizeof(InferUsageRow) * body.nrows +
					sizeof(InferUsageAccount) * body.naccounts)
		return false;
	from_rows = (const InferUsageRow *) (data + sizeof(body));
	from_accounts = (const InferUsageAccount *) (from_rows + body.nrows);
	load_rows(from_rows, body.nrows);
	load_accounts(from_accounts, body.naccounts);
	infer_usage_table->unreadable |= body.unreadable != 0;
	return true;
}

/* What the file says counts; if nobody knows what it said, the next start must know that, too. */
void
infer_usage_restore(void)
{
	char *data;
	size_t size;
	InferUsageFile file = infer_usage_file_read(&data, &size);

	if (file == INFER_USAGE_FILE_GOOD && !load(data, size))
	{
		infer_usage_file_set_aside("it is of another version");
		infer_usage_table_clear();
		file = INFER_USAGE_FILE_BAD;
	}
	free(data);
	if (file == INFER_USAGE_FILE_BAD)
	{
		infer_usage_table->unreadable = true;
		save_tables();
	}
	pg_atomic_write_u64(&infer_usage_table->saved_changes, infer_usage_table->changes);
	pg_atomic_write_u64(&infer_usage_table->saved_us, infer_now_us());
}
