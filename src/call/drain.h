/*
 * call/drain.h - servers that are drained, for the requests of this process.
 */
#ifndef INFER_CALL_DRAIN_H
#define INFER_CALL_DRAIN_H

#include "postgres.h"

#include "call/types.h"
#include "shmem/drain.h"

/* When the grace of the place's server ends; 0 = it is not drained. */
extern int64 infer_drain_place_until(InferPlace *place);
extern void infer_drain_note(const InferPlace *place, InferDrainEvent event);
/* Cuts off what is in flight at servers whose grace is over. Returns when that of another one ends;
 * PG_INT64_MAX = never. */
extern int64 infer_drain_cut(void);
/* Has the batch's server begun to drain since the batch got its permit and was counted? Then it has
 * neither any more, and stays ready. */
extern bool infer_drain_came_between(InferBatch *batch);

#endif
