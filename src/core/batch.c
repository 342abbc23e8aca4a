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

#define SMALLER(a, b) ((a) < (b) ? (a) : (b))

InferBatchLimits
infer_batch_tightest(InferBatchLimits a, InferBatchLimits b)
{
	InferBatchLimits limits = {
		.max_items = SMALLER(a.max_items, b.max_items),
		.max_bytes = SMALLER(a.max_bytes, b.max_bytes),
		.max_tokens = a.max_tokens,
		.bytes_per_token = a.bytes_per_token,
		.both_items = a.both_items,
		.both_bytes = a.both_bytes,
	};

	/* how many bytes are a token matters only where tokens are limited */
	if (a.max_tokens == 0)
	{
		limits.max_tokens = b.max_tokens;
		limits.bytes_per_token = b.bytes_per_token;
	}
	else if (b.max_tokens > 0)
	{
		limits.max_tokens = SMALLER(a.max_tokens, b.max_tokens);
		limits.bytes_per_token = SMALLER(a.bytes_per_token, b.bytes_per_token);
	}
	if (a.both_items == 0)
	{
		limits.both_items = b.both_items;
		limits.both_bytes = b.both_bytes;
	}
	else if (b.both_items > 0)
	{
		limits.both_items = SMALLER(a.both_items, b.both_items);
		limits.both_bytes = SMALLER(a.both_bytes, b.both_bytes);
	}
	return limits;
}

/*
 * Tokens that inputs of so many bytes may have.  A token is at least a byte of its input, and
 * models add up to two for each input; answers show how many bytes it is in practice.
 */
static double
tokens_of(InferBatchLimits limits, int items, size_t bytes)
{
	if (limits.bytes_per_token > 0)
		return (double) bytes / limits.bytes_per_token;
	return (double) bytes + 2.0 * items;
}

bool
infer_batch_fits(InferBatchLimits limits, int items, size_t bytes)
{
	if (items <= 1)
		return true;
	if (items > limits.max_items || bytes > limits.max_bytes)
		return false;
	if (limits.max_tokens > 0 && tokens_of(limits, items, bytes) > (double) limits.max_tokens)
		return false;
	if (limits.both_items == 0 || items <= limits.both_items / 4 || bytes <= limits.both_bytes / 4)
		return true;
	return items <= limits.both_items && bytes <= limits.both_bytes;
}

bool
infer_batch_accepts(InferBatchLimits limits, int items, size_t bytes, size_t item_bytes)
{
	if (item_bytes > SIZE_MAX - bytes)
		return items == 0;
	return infer_batch_fits(limits, items + 1, bytes + item_bytes);
}

bool
infer_batch_leaves(InferStreamingMode mode, int dispatch_batch_size, InferBatchLimits limits,
				   int items, size_t bytes, bool input_ended, bool starved)
{
	if (items == 0)
		return false;
	if (mode == INFER_MODE_PER_ROW || input_ended)
		return true;
	/* there is no room for one more input, however short */
	if (!infer_batch_accepts(limits, items, bytes, 1))
		return true;
	/* these two were asked to wait for more rows, whatever it costs */
	if (mode == INFER_MODE_BATCH || dispatch_batch_size == 0)
		return false;
	return starved;
}
