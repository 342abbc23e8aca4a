/*
 * shmem/observed.h - what the answers of each model took, shared by all backends.
 *
 * Fed once for each request that was answered, read by planning and by infer.stat_models.  A model
 * here is what a server calls it, asked for one task.  The table has a fixed number of places in
 * sets; the name picks the set.  When a set is full, the model there that was heard of longest ago
 * is forgotten: planning takes it for an unknown one, which is no harm.
 *
 * Lock: one LWLock a set, exclusive to note, shared to read; never two at a time.  Nothing here
 * raises, allocates or waits for anything but that lock.
 */
#ifndef INFER_SHMEM_OBSERVED_H
#define INFER_SHMEM_OBSERVED_H

#include "postgres.h"
#include "datatype/timestamp.h"

#include "core/cost.h"
#include "core/sizes.h"

#define INFER_OBSERVED_NAME_MAX 128 /* bytes with the NUL; longer names are hashed */

typedef struct InferObservedKey
{
	Oid database;
	Oid server;
	InferTask task;
	char remote_model[INFER_OBSERVED_NAME_MAX];
} InferObservedKey;

typedef struct InferObservedStat
{
	InferObservedKey key;
	char server_name[NAMEDATALEN]; /* when it was heard of last */
	TimestampTz last;
	InferObserved observed;
	InferSizes sizes;    /* of requests */
	uint32 sizes_server; /* ... to this version of the server object */
} InferObservedStat;

/* In the current database. All bytes are set: keys are compared as a whole. */
extern void infer_observed_key(InferObservedKey *key, Oid server, InferTask task,
							   const char *remote_model);
extern void infer_observed_note(const InferObservedKey *key, const char *server_name,
								const InferRequestFigures *request);
/* Sizes of requests that were answered, or proved too large; for models that were noted only. */
extern void infer_observed_taken(const InferObservedKey *key, uint32 server_version, InferSize size,
								 int64 tokens);
extern void infer_observed_refused(const InferObservedKey *key, uint32 server_version,
								   InferSize size, InferSizeKind kind);
/* What is known of them. False: nothing, or of another version of the server object. */
extern bool infer_observed_sizes(const InferObservedKey *key, uint32 server_version,
								 InferSizes *sizes);
/* What planning sees. False: nothing is known. */
extern bool infer_observed_pace(const InferObservedKey *key, InferPace *pace);
/* Copies place i, false if nobody is there; i < INFER_OBSERVED_PLACES. */
extern bool infer_observed_stat(int i, InferObservedStat *stat);
/* Forgets all. */
extern void infer_observed_reset(void);

/* For segment.c: memory, LWLocks, and where they are. found: another process filled them. */
#define INFER_OBSERVED_SETS   64
#define INFER_OBSERVED_WAYS   8
#define INFER_OBSERVED_PLACES (INFER_OBSERVED_SETS * INFER_OBSERVED_WAYS)
union LWLockPadded;
extern size_t infer_observed_shmem_size(void);
extern void infer_observed_shmem_attach(void *memory, union LWLockPadded *locks, bool found);

#endif
