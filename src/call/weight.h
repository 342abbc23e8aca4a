/*
 * call/weight.h - the weight that LONG and EPIC requests need on their node, beside a permit.
 *
 * Nothing of it raises.
 */
#ifndef INFER_CALL_WEIGHT_H
#define INFER_CALL_WEIGHT_H

#include "postgres.h"

#include "call/types.h"
#include "shmem/admission.h"

/* May requests to the place go through the lane? */
extern bool infer_weight_suits(const InferLane *lane, const InferPlace *place);
/* A new lane. */
extern void infer_weight_begin(InferLane *lane, const InferPlace *place);
/* For so many of the requests that want permits the lane's node takes the weight, on trial: until
 * done() says how many of those granted got their permits. Without weight: for all of them.  round:
 * as in lane->stands and lane->outweighed. */
extern int infer_weight_take(InferLane *lane, const InferAsk *permits, uint64 round);
extern void infer_weight_done(InferLane *lane, int granted, int used);
/* With a permit. */
extern void infer_weight_give(const InferLane *lane);
/* The lane waits for none. */
extern void infer_weight_leave(InferLane *lane);

#endif
