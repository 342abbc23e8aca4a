/*
 * shmem/usage_table.c - the tables of usage: rows, which are folded when they are too many, and
 * accounts.
 *
 * Rows are appended and found through an open addressing index.  They leave only when the table is
 * full: then some are folded, and the index is made anew.  Row 0 is there from the beginning.
 * Accounts are few (one per role that calls), and each process remembers where its role's is.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "port/pg_bitutils.h"

#include "pg/guc.h"
#include "shmem/usage_table.h"

#define NOBODY       (-1)
#define MAX_HOARDERS 64

InferUsageTable *infer_usage_table = NULL;
InferUsageRow *infer_usage_rows = NULL;
InferUsageAccount *infer_usage_accounts = NULL;

static int my_account = 0; /* where the account was that this process asked for last */

/* --- Memory --- */

static int
count_buckets(int capacity)
{
	return (int) pg_nextpower2_32(2 * (capacity + 1));
}

static Size
table_size(int capacity)
{
	return MAXALIGN(add_size(offsetof(InferUsageTable, buckets),
							 mul_size(count_buckets(capacity), sizeof(int32))));
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

/* No rows, no accounts; what was written is not forgotten by that. */
void
infer_usage_table_clear(void)
{
	for (int i = 0; i < infer_usage_table->nbuckets; i++)
		infer_usage_table->buckets[i] = NOBODY;
	memset(&infer_usage_rows[0], 0, sizeof(infer_usage_rows[0]));
	infer_usage_rows[0].key.day = INFER_USAGE_OLDER;
	infer_usage_table->nrows = 1;
	infer_usage_table->naccounts = 0;
	infer_usage_table->unreadable = false;
	infer_usage_table->changes++;
}

void
infer_usage_table_attach(void *memory, bool found)
{
	int capacity = infer_guc_max_usage_entries;

	infer_usage_table = memory;
	infer_usage_rows = (InferUsageRow *) ((char *) memory + table_size(capacity));
	infer_usage_accounts = (InferUsageAccount *) ((char *) infer_usage_rows + rows_size(capacity));
	if (found)
		return;
	memset(memory, 0, infer_usage_shmem_size());
	infer_usage_table->capacity = capacity;
	infer_usage_table->nbuckets = count_buckets(capacity);
	pg_atomic_init_u32(&infer_usage_table->saving, 0);
	pg_atomic_init_u64(&infer_usage_table->saved_changes, 0);
	pg_atomic_init_u64(&infer_usage_table->saved_us, 0);
	infer_usage_table_clear();
}

/* --- Rows --- */

/* The bucket that holds the key, or the empty one where it would go. */
static int
find_bucket(const InferUsageKey *key)
{
	uint32 mask = infer_usage_table->nbuckets - 1;
	uint32 i = hash_bytes((const unsigned char *) key, sizeof(*key)) & mask;

	while (infer_usage_table->buckets[i] != NOBODY &&
		   memcmp(&infer_usage_rows[infer_usage_table->buckets[i]].key, key, sizeof(*key)) != 0)
		i = (i + 1) & mask;
	return i;
}

void
infer_usage_add(InferUsage *to, const InferUsage *more)
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

	for (int i = 0; i < infer_usage_table->nbuckets; i++)
		infer_usage_table->buckets[i] = NOBODY;
	for (int i = 1; i < infer_usage_table->nrows; i++)
	{
		int bucket = find_bucket(&infer_usage_rows[i].key);

		if (infer_usage_table->buckets[bucket] != NOBODY)
		{
			infer_usage_add(&infer_usage_rows[infer_usage_table->buckets[bucket]].usage,
							&infer_usage_rows[i].usage);
			continue;
		}
		if (kept != i)
			infer_usage_rows[kept] = infer_usage_rows[i];
		infer_usage_table->buckets[bucket] = kept++;
	}
	infer_usage_table->nrows = kept;
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

	for (int i = 1; i < infer_usage_table->nrows; i++)
		if (infer_usage_rows[i].key.day != INFER_USAGE_OLDER &&
			infer_usage_rows[i].key.day < oldest)
			oldest = infer_usage_rows[i].key.day;
	if (oldest == before)
		return;
	for (int i = 1; i < infer_usage_table->nrows; i++)
		if (infer_usage_rows[i].key.day == oldest)
			generalise(&infer_usage_rows[i], INFER_USAGE_OLDER);
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

	for (int i = 1; i < infer_usage_table->nrows; i++)
	{
		int j = 0;

		if (!OidIsValid(infer_usage_rows[i].key.model.server))
			continue; /* it stands for several already */
		while (j < n && roles[j] != infer_usage_rows[i].key.role)
			j++;
		if (j == MAX_HOARDERS)
			continue;
		if (j == n)
		{
			roles[n] = infer_usage_rows[i].key.role;
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
	for (int i = 1; i < infer_usage_table->nrows; i++)
		if (infer_usage_rows[i].key.role == role)
			generalise(&infer_usage_rows[i], infer_usage_rows[i].key.day);
	index_rows();
}

InferUsageRow *
infer_usage_get_row(const InferUsageKey *key)
{
	int bucket = find_bucket(key);
	InferUsageRow *row;

	if (infer_usage_table->buckets[bucket] != NOBODY)
		return &infer_usage_rows[infer_usage_table->buckets[bucket]];
	if (infer_usage_table->nrows > infer_usage_table->capacity)
		fold_oldest(key->day);
	if (infer_usage_table->nrows > infer_usage_table->capacity)
		fold_hoarder();
	if (infer_usage_table->nrows > infer_usage_table->capacity)
		return &infer_usage_rows[0];
	bucket = find_bucket(key);
	row = &infer_usage_rows[infer_usage_table->nrows];
	memset(row, 0, sizeof(*row));
	row->key = *key;
	infer_usage_table->buckets[bucket] = infer_usage_table->nrows++;
	return row;
}

/* --- Accounts --- */

InferAccount *
infer_usage_get_account(Oid role, int32 day)
{
	int place = infer_usage_table->naccounts;

	if (my_account < infer_usage_table->naccounts && infer_usage_accounts[my_account].role == role)
		return &infer_usage_accounts[my_account].account;
	for (int i = 0; i < infer_usage_table->naccounts; i++)
	{
		if (infer_usage_accounts[i].role == role)
		{
			my_account = i;
			return &infer_usage_accounts[i].account;
		}
		if (infer_usage_accounts[i].account.day < day)
			place = i;
	}
	/* a free place, before somebody's of an earlier day */
	if (infer_usage_table->naccounts < infer_usage_table->capacity)
		place = infer_usage_table->naccounts++;
	else if (place == infer_usage_table->naccounts)
		return NULL;
	infer_usage_accounts[place] = (InferUsageAccount){.role = role, .account = {.day = day}};
	my_account = place;
	return &infer_usage_accounts[place].account;
}
