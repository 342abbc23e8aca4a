/*
 * core/batch.h - when does a row join the open batch, and when does the batch leave?
 *
 * Pure decisions over counters.  The doing is in call/pump.c.
 *
 * per_row    every call is a request of its own.
 * batch      a batch leaves when full (max_items or max_bytes), or at the end of input.
 * automatic  a batch leaves when full; or, once nothing else can advance without its answers; the
 *            caller asks with `starved` set then.  While permits are idle and the row source still
 *            produces, waiting costs latency, so a short batch leaves only when starved.
 */
#ifndef INFER_CORE_BATCH_H
#define INFER_CORE_BATCH_H

#include "core/types.h"

typedef struct InferBatchLimits
{
	int max_items;          /* >= 1 */
	size_t max_bytes;       /* of inputs; >= 1 */
	int64_t max_tokens;     /* of inputs, as estimated; 0 = no limit */
	double bytes_per_token; /* for that, at least; 0 = not known */
	/* What is no smaller in both was too much once; 0 = no limit.  One of them may be exceeded by
	 * requests that are of another kind: that have a quarter of the other one at most. */
	int both_items;
	size_t both_bytes;
} InferBatchLimits;

/* Limits after applying dispatch_batch_size (-1 automatic: the provider's; 0: only at end of input,
 * still within the provider's limits; n: at most n). */
extern InferBatchLimits infer_batch_limits(InferStreamingMode mode, int dispatch_batch_size,
										   InferBatchLimits provider);
/* What is within both; where one knows how long a token is and the other does not, by its guess. */
extern InferBatchLimits infer_batch_tightest(InferBatchLimits a, InferBatchLimits b);
/* Does an item of item_bytes still fit? The first always does. */
extern bool infer_batch_accepts(InferBatchLimits limits, int items, size_t bytes,
								size_t item_bytes);
/* May a batch be sent as it is?  One input always may. */
extern bool infer_batch_fits(InferBatchLimits limits, int items, size_t bytes);
/* Must the batch leave now? input_ended: no further row can come; starved: nothing else can
 * advance before an answer.  In batch mode, and with dispatch_batch_size 0, a short batch waits for
 * input even when starved.  So a caller that can read no further row (its buffers are full) and has
 * nothing on its way must say input_ended, or it would wait for itself. */
extern bool infer_batch_leaves(InferStreamingMode mode, int dispatch_batch_size,
							   InferBatchLimits limits, int items, size_t bytes, bool input_ended,
							   bool starved);

#endif
