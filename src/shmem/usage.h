/*
 * shmem/usage.h - what calls have taken, per day, role and model; shared by all backends, and kept
 * over restarts in a file (shmem/usage_file.h).
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
 * The file is written by whoever notices, after a request, that pg_inference.usage_save_interval
 * has passed, and when the server shuts down.  After a crash what was written last counts.  If it
 * cannot be read, nobody knows what was spent today, and that is remembered until somebody says
 * infer.reset_usage(): roles with a budget are refused, the others go on and are counted from zero.
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

/* The day, UTC, as a DateADT; moved by pg_inference.usage_day_offset. */
extern int32 infer_usage_today(void);
/* In the current database. All bytes are set: keys are compared as a whole. */
extern void infer_usage_key(InferUsageKey *key, int32 day, Oid role, Oid server, InferTask task,
							const char *remote_model);
typedef enum InferUsageAnswer
{
	INFER_USAGE_CHARGED,
	INFER_USAGE_EXCEEDED,  /* a limit; nothing was charged */
	INFER_USAGE_FULL,      /* no room for the role's account */
	INFER_USAGE_UNREADABLE /* what the role has spent today is not known */
} InferUsageAnswer;

/* Charges the role's account with all that is wanted, or says why not, and what was used then.
 * *day: as in core/budget.h. */
extern InferUsageAnswer infer_usage_charge(Oid role, int32 *day, const InferAmount *limits,
										   const InferAmount *wanted, InferAmount *used);
/* Corrects what the role was charged with on that day. */
extern void infer_usage_correct(Oid role, int32 day, const InferAmount *change);
/* Adds to the key's row (name: its server), and corrects its role's account of that day. */
extern void infer_usage_note(const InferUsageKey *key, const char *server_name,
							 const InferUsage *more, const InferAmount *account);
/* Writes the file if it is due. It takes the time of a sync, mostly once an interval and for one
 * process. */
extern void infer_usage_save_due(void);
/* Forgets all, and that the file could not be read. False: the file could not be written. */
extern bool infer_usage_reset(void);
/* palloc'd copy of all; raises without memory. */
extern InferUsageImage *infer_usage_image(void);

/* For segment.c: memory, LWLocks, and where they are. found: another process filled them. */
union LWLockPadded;
extern size_t infer_usage_shmem_size(void);
extern void infer_usage_shmem_attach(void *memory, union LWLockPadded *locks, bool found);

#endif
