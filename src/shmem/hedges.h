/*
 * shmem/hedges.h - the budget of second copies of each model, shared by all backends.
 *
 * What a model is here is the caller's word for it, in the current database: a set of placements
 * has one budget, whoever calls it (core/hedge.h).  Only calls that permit copies come here, so
 * what a budget earns is a share of them.  The table has a fixed number of places; when it is full
 * the model that was called longest ago is forgotten, and begins anew without a budget.
 *
 * Lock: one LWLock, for some tens of instructions.  Nothing here raises, allocates or waits for
 * anything else.
 */
#ifndef INFER_SHMEM_HEDGES_H
#define INFER_SHMEM_HEDGES_H

#include "postgres.h"

#include "core/hedge.h"

typedef struct InferHedgeKey
{
	Oid database;
	uint64 model; /* hash of its name */
} InferHedgeKey;

/* Of a model of the current database, by its name. */
extern InferHedgeKey infer_hedges_key(const char *model);
/* As the functions of core/hedge.h, for calls that permit copies. */
extern int64 infer_hedges_delay_us(const InferHedgeKey *key, InferAttemptKind kind, int64 first_us,
								   int64 second_us, int64 base_us);
extern bool infer_hedges_take(const InferHedgeKey *key);
extern void infer_hedges_untake(const InferHedgeKey *key);
extern void infer_hedges_landed(const InferHedgeKey *key, InferAttemptKind kind, bool copied,
								bool late, bool won);

/* For segment.c: memory, LWLock, and where they are. found: another process filled them. */
union LWLockPadded;
extern size_t infer_hedges_shmem_size(void);
extern void infer_hedges_shmem_attach(void *memory, union LWLockPadded *lock, bool found);

#endif
