/*
 * call/permit.h - the permits of this process: who wants them, who gets them, and giving them back.
 *
 * The table they come from, and its locks, are shmem/admission's; of what is here, nothing runs
 * under one.
 */
#ifndef INFER_CALL_PERMIT_H
#define INFER_CALL_PERMIT_H

#include "postgres.h"

#include "call/types.h"
#include "core/ratelimit.h"
#include "shmem/admission.h"

/* Before the first batch. */
extern void infer_permit_init(void);
/* The batch is ready, or not any more. */
extern void infer_permit_want(InferBatch *batch, bool wanted);
/* How many batches of this process want a permit of the key, or of another one as well. */
extern int infer_permit_wanted(InferKey key);

typedef enum InferPermitAnswer
{
	INFER_PERMIT_TAKEN,
	INFER_PERMIT_WAITS,   /* the process is in the lines of the keys */
	INFER_PERMIT_GIVES_UP /* the servers have been failing for longer than the call would wait */
} InferPermitAnswer;

/* A look at the ready batches begins: what was refused before may be granted now. Its number. */
extern uint64 infer_permit_begin_round(void);
/* Gets a permit for the batch, of the first of these places where one is to be had; then the batch
 * is for that place. */
extern InferPermitAnswer infer_permit_take(InferBatch *batch, const int *order, int n);
/* The same where all have failed, to find out whether one is back: in no line. */
extern bool infer_permit_probe(InferBatch *batch, const int *order, int n);
/* Gets one of that place that nobody waits for, of this process either; joins no line. */
extern bool infer_permit_try(InferBatch *batch, int place);
/* Could any batch of the client still get one in this round? */
extern bool infer_permit_is_hopeful(const InferClient *client);
/* When a process that waits for permits must look by itself, in infer_now_us(); PG_INT64_MAX = it
 * does not wait. */
extern int64 infer_permit_next_alarm_us(void);

/* What a request tells that was given up, or never sent. */
extern const InferOutcome infer_outcome_given_up;
extern const InferOutcome infer_outcome_unsent;
/* The one place where a permit goes back, and the weight that came with it: the controllers hear
 * how it went, then it is free.  Without a permit nothing happens.  news: NULL = none.  Raises
 * nothing. */
extern void infer_permit_release(InferBatch *batch, const InferOutcome *outcome,
								 const InferRateNews *news);
/* What the lane got and no batch has taken goes back. Raises nothing. */
extern void infer_permit_return_spare(InferLane *lane);
/* Ends a ready batch, which has no permit: its place, and all others that it might go to, are
 * failing (cooldown.c). */
extern void infer_cooldown_fail(InferBatch *batch);

#endif
