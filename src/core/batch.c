/*
 * core/batch.c - when does a row join the open batch, and when does the batch leave?
 */
#include "core/batch.h"

InferBatchLimits
infer_batch_limits(InferStreamingMode mode, int dispatch_batch_size, InferBatchLimits provider)
{
	InferBatchLimits limits = provider;

	if (limits.max_items < 1)
		limits.max_items = 1;
	if (limits.max_bytes < 1)
		limits.max_bytes = 1;
	if (mode == INFER_MODE_PER_ROW)
		limits.max_items = 1;
	else if (dispatch_batch_size > 0 && dispatch_batch_size < limits.max_items)
		limits.max_items = dispatch_batch_size;
	return limits;
}

bool
infer_batch_accepts(InferBatchLimits limits, int items, size_t bytes, size_t item_bytes)
{
	if (items == 0)
		return true;
	if (items >= limits.max_items || bytes >= limits.max_bytes)
		return false;
	return item_bytes <= limits.max_bytes - bytes;
}

bool
infer_batch_leaves(InferStreamingMode mode, int dispatch_batch_size, InferBatchLimits limits,
				   int items, size_t bytes, bool input_ended, bool starved)
{
	if (items == 0)
		return false;
	if (mode == INFER_MODE_PER_ROW || input_ended)
		return true;
	if (items >= limits.max_items || bytes >= limits.max_bytes)
		return true;
	/* these two were asked to wait for more rows, whatever it costs */
	if (mode == INFER_MODE_BATCH || dispatch_batch_size == 0)
		return false;
	return starved;
}
