/*
 * shmem/progress.h - what running scans have done so far, for other sessions to see.
 *
 * Each process has a few slots, which it alone writes, without a lock: a reader copies a slot and
 * does it again if a counter says that it was being written.  A scan that finds no free slot (so
 * many run in its process, one within the other) is not shown.
 */
#ifndef INFER_SHMEM_PROGRESS_H
#define INFER_SHMEM_PROGRESS_H

#include "postgres.h"

#include "datatype/timestamp.h"

typedef enum InferProgressWait
{
	INFER_PROGRESS_RUNNING, /* does not wait for us */
	INFER_PROGRESS_ANSWERS,
	INFER_PROGRESS_PERMIT,
	INFER_PROGRESS_RETRY
} InferProgressWait;

typedef struct InferProgressFigures
{
	int64 rows; /* returned */
	int64 calls;
	int64 requests;
	int64 retries;
	int64 errors;
	int64 tokens;
	int in_flight;
	InferProgressWait wait;
} InferProgressFigures;

typedef struct InferProgress
{
	int pid; /* 0 = the slot is free */
	Oid database;
	Oid role;
	TimestampTz since;
	InferProgressFigures figures;
} InferProgress;

/* A slot for a scan that begins; -1: none is free. */
extern int infer_progress_begin(void);
extern void infer_progress_set(int slot, const InferProgressFigures *figures);
extern void infer_progress_end(int slot);
/* Copies slot i of all processes; false when i is beyond the last. Free ones have no pid. */
extern bool infer_progress_stat(int i, InferProgress *progress);

/* For segment.c: memory (no locks), and where it is. found: another process filled it. */
union LWLockPadded;
extern size_t infer_progress_shmem_size(void);
extern void infer_progress_shmem_attach(void *memory, union LWLockPadded *locks, bool found);

#endif
