/*
 * shmem/usage.h - what calls have taken, per day, role and model; shared by all backends.
 *
 * Two tables of pg_inference.max_usage_entries places each: rows for people to read, and one
 * account per role, which budgets of a day are held against.  The days are those of UTC.
 *
 * When the rows are full, those of the oldest day before today become one row per role, without a
 * day or model; when all are of today, those of the role that has the most become one.  Where that
 * frees nothing either, new figures go to row 0, which is nobody's: sums stay right.
 * When the accounts are full, one of an earlier day makes room.  Where there is none, a role that
 * has a budget is refused: without its figures of today it would have as many as it likes.
 *
 * Lock: one LWLock for both, exclusive to write, shared to copy.  Nothing here raises or waits for
 * anything but that lock, except the functions that say so.
 */
#ifndef INFER_SHMEM_USAGE_H
#define INFER_SHMEM_USAGE_H

#include "postgres.h"

#include "core/budget.h"
#include "shmem/observed.h"

#define INFER_USAGE_OLDER PG_INT32_MIN /* the day of rows that stand for several */

typedef struct InferUsageKey
{
	int32 day; /* since 2000-01-01, UTC */
	Oid role;  /* who pays: the session user */
	InferObservedKey model;
} InferUsageKey;

typedef struct InferUsage
{
	int64 requests; /* different ones sent */
	int64 attempts; /* transmissions, repeated ones included */
	int64 failed;   /* attempts without a usable answer */
	int64 calls;    /* inputs that may have been executed, once each */
	int64 memo_hits;
	int64 input_tokens;
	int64 output_tokens;
	int64 estimated; /* attempts whose tokens nobody told, so that they were guessed */
	int64 unpriced;  /* attempts that are not in cost, for the model has no prices */
	double cost;
} InferUsage;

typedef struct InferUsageRow
{
	InferUsageKey key;
	char server_name[NAMEDATALEN]; /* when it was written last */
	InferUsage usage;
} InferUsageRow;

typedef struct InferUsageAccount
{
	Oid role;
	InferAccount account;
} InferUsageAccount;

/* A copy of both tables. */
typedef struct InferUsageImage
{
	int nrows;
	int naccounts;
	InferUsageRow *rows;
	InferUsageAccount *accounts;
} InferUsageImage;

extern int32 infer_usage_today(void);
/* In the current database. All bytes are set: keys are compared as a whole. */
extern void infer_usage_key(InferUsageKey *key, int32 day, Oid role, Oid server, InferTask task,
							const char *remote_model);
/* Adds to the key's row (name: its server), and corrects its role's account of that day. */
extern void infer_usage_note(const InferUsageKey *key, const char *server_name,
							 const InferUsage *more, const InferAmount *account);
/* palloc'd copy of all; raises without memory. */
extern InferUsageImage *infer_usage_image(void);

/* For segment.c: memory, LWLocks, and where they are. found: another process filled them. */
union LWLockPadded;
extern size_t infer_usage_shmem_size(void);
extern void infer_usage_shmem_attach(void *memory, union LWLockPadded *locks, bool found);

#endif
