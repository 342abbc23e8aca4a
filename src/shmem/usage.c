/*
 * shmem/usage.c - what calls have taken, per day, role and model.
 *
 *   header | index buckets | rows[capacity + 1] | accounts[capacity]
 *
 * Rows are appended and found through an open addressing index.  They leave only when the table is
 * full: then some are folded, and the index is made anew.  Row 0 is there from the beginning.
 * Accounts are few (one per role that calls), and each process remembers where its role's is.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "storage/lwlock.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "pg/guc.h"
#include "shmem/usage.h"

#define NOBODY       (-1)
#define MAX_HOARDERS 64

typedef struct UsageTable
{
	int capacity; /* of rows beside row 0, and of accounts */
	int nbuckets; /* a power of two, at least twice the capacity */
	int nrows;    /* row 0 included */
	int naccounts;
	int32 buckets[FLEXIBLE_ARRAY_MEMBER]; /* row number or NOBODY */
} UsageTable;

/* Where they are in this process. */
static UsageTable *table = NULL;
static InferUsageRow *rows = NULL;
static InferUsageAccount *accounts = NULL;
static LWLockPadded *locks = NULL;

static int my_account = 0; /* where the account was that this process asked for last */

#define usage_lock() (&locks[0].lock)

/* Sizes ---------------------------------------------------------------------------------------- */

static int
count_buckets(int capacity)
{
	int n = 16;

	while (n < 2 * (capacity + 1))
		n *= 2;
	return n;
}

static Size
table_size(int capacity)
{
	return MAXALIGN(
		add_size(offsetof(UsageTable, buckets), mul_size(count_buckets(capacity), sizeof(int32))));
}

static Size
rows_size(int capacity)
{
	return MAXALIGN(mul_size(add_size(capacity, 1), sizeof(InferUsageRow)));
}

size_t
infer_usage_shmem_size(void)
{
	int capacity = infer_guc_max_usage_entries;

	return add_size(add_size(table_size(capacity), rows_size(capacity)),
					mul_size(capacity, sizeof(InferUsageAccount)));
}

void
infer_usage_shmem_attach(void *memory, LWLockPadded *tranche, bool found)
{
	int capacity = infer_guc_max_usage_entries;

	locks = tranche;
	table = memory;
	rows = (InferUsageRow *) ((char *) memory + table_size(capacity));
	accounts = (InferUsageAccount *) ((char *) rows + rows_size(capacity));
	if (found)
		return;
	memset(memory, 0, infer_usage_shmem_size());
	table->capacity = capacity;
	table->nbuckets = count_buckets(capacity);
	for (int i = 0; i < table->nbuckets; i++)
		table->buckets[i] = NOBODY;
	rows[0].key.day = INFER_USAGE_OLDER;
	table->nrows = 1;
}

/* Keys ----------------------------------------------------------------------------------------- */

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

/* Rows; the lock is held exclusively ----------------------------------------------------------- */

/* The bucket that holds the key, or the empty one where it would go. */
static int
find_bucket(const InferUsageKey *key)
{
	uint32 mask = table->nbuckets - 1;
	uint32 i = hash_bytes((const unsigned char *) key, sizeof(*key)) & mask;

	while (table->buckets[i] != NOBODY &&
		   memcmp(&rows[table->buckets[i]].key, key, sizeof(*key)) != 0)
		i = (i + 1) & mask;
	return i;
}

static void
add_usage(InferUsage *to, const InferUsage *more)
{
	to->requests += more->requests;
	to->attempts += more->attempts;
	to->failed += more->failed;
	to->calls += more->calls;
	to->memo_hits += more->memo_hits;
	to->input_tokens += more->input_tokens;
	to->output_tokens += more->output_tokens;
	to->estimated += more->estimated;
	to->unpriced += more->unpriced;
	to->cost += more->cost;
}

/* Makes the index anew; rows that have the same key by now become one. */
static void
index_rows(void)
{
	int kept = 1;

	for (int i = 0; i < table->nbuckets; i++)
		table->buckets[i] = NOBODY;
	for (int i = 1; i < table->nrows; i++)
	{
		int bucket = find_bucket(&rows[i].key);

		if (table->buckets[bucket] != NOBODY)
		{
			add_usage(&rows[table->buckets[bucket]].usage, &rows[i].usage);
			continue;
		}
		if (kept != i)
			rows[kept] = rows[i];
		table->buckets[bucket] = kept++;
	}
	table->nrows = kept;
}

/* Strips a row's key of its model. */
static void
generalise(InferUsageRow *row, int32 day)
{
	Oid role = row->key.role;

	memset(&row->key, 0, sizeof(row->key));
	memset(row->server_name, 0, sizeof(row->server_name));
	row->key.day = day;
	row->key.role = role;
}

/* The oldest day before this one becomes a row per role. */
static void
fold_oldest(int32 before)
{
	int32 oldest = before;

	for (int i = 1; i < table->nrows; i++)
		if (rows[i].key.day != INFER_USAGE_OLDER && rows[i].key.day < oldest)
			oldest = rows[i].key.day;
	if (oldest == before)
		return;
	for (int i = 1; i < table->nrows; i++)
		if (rows[i].key.day == oldest)
			generalise(&rows[i], INFER_USAGE_OLDER);
	index_rows();
}

/* The role that has the most rows, of those that are seen first; InvalidOid if none has two. */
static Oid
find_hoarder(void)
{
	Oid roles[MAX_HOARDERS];
	int counts[MAX_HOARDERS];
	int n = 0;
	int most = 0;

	for (int i = 1; i < table->nrows; i++)
	{
		int j = 0;

		while (j < n && roles[j] != rows[i].key.role)
			j++;
		if (j == MAX_HOARDERS)
			continue;
		if (j == n)
		{
			roles[n] = rows[i].key.role;
			counts[n++] = 0;
		}
		if (++counts[j] > counts[most])
			most = j;
	}
	return n > 0 && counts[most] > 1 ? roles[most] : InvalidOid;
}

/* Whoever names a thousand models has one row for them, and the others keep theirs. */
static void
fold_hoarder(void)
{
	Oid role = find_hoarder();

	if (!OidIsValid(role))
		return;
	for (int i = 1; i < table->nrows; i++)
		if (rows[i].key.role == role)
			generalise(&rows[i], rows[i].key.day);
	index_rows();
}

/* The key's row, made if there is room; else the one that is nobody's. */
static InferUsageRow *
get_row(const InferUsageKey *key)
{
	int bucket = find_bucket(key);
	InferUsageRow *row;

	if (table->buckets[bucket] != NOBODY)
		return &rows[table->buckets[bucket]];
	if (table->nrows > table->capacity)
		fold_oldest(key->day);
	if (table->nrows > table->capacity)
		fold_hoarder();
	if (table->nrows > table->capacity)
		return &rows[0];
	bucket = find_bucket(key);
	row = &rows[table->nrows];
	memset(row, 0, sizeof(*row));
	row->key = *key;
	table->buckets[bucket] = table->nrows++;
	return row;
}

/* Accounts; the lock is held exclusively ------------------------------------------------------- */

/* The role's account, made if there is room; else NULL. */
static InferAccount *
get_account(Oid role, int32 day)
{
	int place = table->naccounts;

	if (my_account < table->naccounts && accounts[my_account].role == role)
		return &accounts[my_account].account;
	for (int i = 0; i < table->naccounts; i++)
	{
		if (accounts[i].role == role)
		{
			my_account = i;
			return &accounts[i].account;
		}
		if (accounts[i].account.day < day)
			place = i;
	}
	/* a free place, before somebody's of an earlier day */
	if (table->naccounts < table->capacity)
		place = table->naccounts++;
	else if (place == table->naccounts)
		return NULL;
	accounts[place] = (InferUsageAccount){.role = role, .account = {.day = day}};
	my_account = place;
	return &accounts[place].account;
}

/* ---------------------------------------------------------------------------------------------- */

void
infer_usage_note(const InferUsageKey *key, const char *server_name, const InferUsage *more,
				 const InferAmount *change)
{
	InferUsageRow *row;
	InferAccount *account;

	LWLockAcquire(usage_lock(), LW_EXCLUSIVE);
	row = get_row(key);
	add_usage(&row->usage, more);
	if (row != &rows[0])
		strlcpy(row->server_name, server_name, sizeof(row->server_name));
	account = get_account(key->role, key->day);
	if (account != NULL)
		infer_account_correct(account, key->day, change);
	LWLockRelease(usage_lock());
}

InferUsageImage *
infer_usage_image(void)
{
	InferUsageImage *image = palloc(sizeof(InferUsageImage));
	MemoryContext context = CurrentMemoryContext;

	image->rows = MemoryContextAllocHuge(context, rows_size(table->capacity));
	image->accounts =
		MemoryContextAllocHuge(context, (Size) table->capacity * sizeof(InferUsageAccount));
	LWLockAcquire(usage_lock(), LW_SHARED);
	image->nrows = table->nrows;
	image->naccounts = table->naccounts;
	memcpy(image->rows, rows, sizeof(InferUsageRow) * image->nrows);
	memcpy(image->accounts, accounts, sizeof(InferUsageAccount) * image->naccounts);
	LWLockRelease(usage_lock());
	return image;
}
