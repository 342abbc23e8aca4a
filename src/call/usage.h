/*
 * call/usage.h - what calls take and cost: charged as a guess before a request leaves, corrected by
 * its answer, and told to infer.stat_usage.
 *
 * For each attempt: open, then found if it came to something, then landed.  end, once, when the
 * batch goes.  None of them raises.
 */
#ifndef INFER_CALL_USAGE_H
#define INFER_CALL_USAGE_H

#include "postgres.h"

#include "call/types.h"
#include "core/budget.h"
#include "core/proof.h"
#include "core/types.h"

/* What a batch is charged with. */
typedef struct InferCharge
{
	Oid role;             /* who pays */
	int32 day;            /* of the attempt */
	bool open;            /* an attempt is under way */
	InferAmount guess;    /* so much of it is in what the statement has spent */
	InferAmount reserved; /* ... and the role, if it has a budget */
	int64 calls;          /* of the batch, that the role is charged with ... */
	int32 calls_day;      /* ... on that day */
	/* how it ended */
	bool left;
	bool failed;
	InferExecution execution;
	int64 input; /* tokens that its answer reports; -1 = not said */
	int64 output;
	/* of all attempts */
	bool repeated; /* the request left before */
	bool executed; /* or perhaps: its calls are counted */
} InferCharge;

/* Has the place the prices that its task is charged by? */
extern bool infer_usage_priced(const InferPlace *place);
/* Of so many tokens there, in the unit of the prices; 0 if it has none. */
extern double infer_usage_cost(const InferPlace *place, int64 input, int64 output);
/* What n inputs of so many bytes together may take there: tokens and cost; calls stay. */
extern void infer_usage_guess(const InferPlace *place, size_t bytes, int n, InferAmount *amount);
/* An attempt begins; what is charged for it now is corrected or given back at its end. */
extern void infer_usage_open(InferBatch *batch);
/* n answers of a batch went to another one. */
extern void infer_usage_split(InferBatch *from, InferBatch *into, int n);
/* The attempt ended so; left: it was sent, wholly or in part. A reply adds its tokens to the
 * batch's charge. */
extern void infer_usage_found(InferBatch *batch, const InferFinding *finding, bool left);
/* The attempt is over, found or not. */
extern void infer_usage_landed(InferBatch *batch);
/* The batch is nobody's any more. Calls that were not executed can be made by somebody else. */
extern void infer_usage_end(InferBatch *batch);
/* Tells the memo hits of a class that is about to be forgotten, or whose client has gone. */
extern void infer_usage_flush_hits(InferClass *class);

#endif
