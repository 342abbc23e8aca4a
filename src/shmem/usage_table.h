/*
 * shmem/usage_table.h - the tables of usage in shared memory; only for usage.c and usage_save.c.
 *
 *   header | index buckets | rows[capacity + 1] | accounts[capacity]
 *
 * Nothing here takes the lock: the caller has it, exclusively, or is alone.
 */
#ifndef INFER_SHMEM_USAGE_TABLE_H
#define INFER_SHMEM_USAGE_TABLE_H

#include "postgres.h"
#include "port/atomics.h"

#include "shmem/usage.h"

typedef struct InferUsageTable
{
	int capacity; /* of rows beside row 0, and of accounts */
	int nbuckets; /* a power of two, at least twice the capacity */
	int nrows;    /* row 0 included */
	int naccounts;
	bool unreadable; /* what was spent before the server started is not known */
	uint64 changes;
	/* the file */
	pg_atomic_uint32 saving;              /* by one process at a time */
	pg_atomic_uint64 saved_changes;       /* as many are in it */
	pg_atomic_uint64 saved_us;            /* when somebody tried last; monotonic clock */
	int32 buckets[FLEXIBLE_ARRAY_MEMBER]; /* row number, or -1 */
} InferUsageTable;

/* Where they are in this process. */
extern InferUsageTable *infer_usage_table;
extern InferUsageRow *infer_usage_rows;
extern InferUsageAccount *infer_usage_accounts;

/* Finds the tables in the memory, and makes them if it is new. */
extern void infer_usage_table_attach(void *memory, bool found);
/* No rows, no accounts. */
extern void infer_usage_table_clear(void);
/* The key's row, made if there is room; else row 0. */
extern InferUsageRow *infer_usage_get_row(const InferUsageKey *key);
extern void infer_usage_add(InferUsage *to, const InferUsage *more);
/* The role's account, made if there is room, perhaps that of an account of a day before this one;
 * else NULL. */
extern InferAccount *infer_usage_get_account(Oid role, int32 day);

/* usage_save.c: reads the file while the server starts; writes it when nobody else is there. */
extern void infer_usage_restore(void);
extern void infer_usage_save_alone(void);
/* Writes a copy, if no other process does. False: it could not be written. */
extern bool infer_usage_save(void);
/* For the copy. */
extern void infer_usage_lock_shared(void);
extern void infer_usage_unlock(void);

#endif
