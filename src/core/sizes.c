/*
 * core/sizes.c - which sizes of requests a server takes, as far as it has shown.
 *
 * A refusal has two possible causes that look alike: the request was too large, or it holds an
 * input that the server does not like.  Both are searched in the same way, by halves; only the
 * outcome tells.  If all parts are taken, it was the size.  If one input is refused alone, it was
 * that, and nothing is learnt of sizes above it.  call/sizes.c keeps the tree of halves.
 *
 * What of the size?  Where the refusal's words do not tell, two limits come into question, items
 * and bytes.  One that was no larger than what had been taken before is none.  If both are left,
 * requests are kept below the refused one in either: one with as many inputs, but shorter ones, may
 * be sent. If that is refused in its turn, it was the number; so a wrong guess costs one refusal,
 * which executes nothing, where assuming both would send long texts one by one because many short
 * ones were too many.
 *
 * A server that refuses what it used to take may take less now, or may have had a bad moment: some
 * answer 400 to one request in fifty.  Each of those would halve the limit, until requests of one
 * input were left.  So that is believed when it has happened three times and nothing as large was
 * taken in between.
 *
 * A limit is what was taken below the refused size, or half of that.  It is not probed from below:
 * within a factor of two there is little to win.  After an hour all is forgotten, and if the limit
 * still holds, some refusals teach it again.
 */
#include "core/sizes.h"

#include <stdint.h>

#define HOLD_US ((int64_t) 3600 * 1000 * 1000)
/* Refusals of what used to be taken, until they are believed. */
#define MAX_DOUBTS 3
/* Fewer tokens say little of a text's bytes per token. */
#define MIN_TOKENS 16
/* Texts differ: the next one may have so many fewer bytes to a token than any before. */
#define TOKEN_MARGIN 0.75

static int64_t
most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t
least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* The smaller one, where 0 stands for none. */
static int64_t
lower(int64_t known, int64_t value)
{
	return known == 0 ? value : least(known, value);
}

/* What was taken may tell which figure of a refused pair was the one too many. */
static void
settle_both(InferSizes *sizes, InferSize taken)
{
	InferSize both = sizes->both;
	bool items_are_fine = taken.items >= both.items;
	bool bytes_are_fine = taken.bytes >= both.bytes;

	if (both.items == 0 || (!items_are_fine && !bytes_are_fine))
		return;
	sizes->both = (InferSize){0, 0};
	if (!items_are_fine)
		sizes->bad.items = (int) lower(sizes->bad.items, both.items);
	else if (!bytes_are_fine)
		sizes->bad.bytes = lower(sizes->bad.bytes, both.bytes);
}

/* Texts differ in length, so a request is as large as another one from seven eighths of its bytes
 * on. */
bool
infer_sizes_as_large(InferSize size, InferSize other)
{
	return size.items >= other.items && size.bytes >= other.bytes - other.bytes / 8;
}

/* Refused, though as much was taken before: is that so by now? *size: the least of those. */
static bool
believes(InferSizes *sizes, InferSize *size)
{
	if (sizes->doubts++ > 0)
	{
		size->items = (int) least(size->items, sizes->doubt.items);
		size->bytes = least(size->bytes, sizes->doubt.bytes);
	}
	sizes->doubt = *size;
	if (sizes->doubts < MAX_DOUBTS)
		return false;
	sizes->doubts = 0;
	return true;
}

void
infer_sizes_taken(InferSizes *sizes, InferSize size, int64_t tokens)
{
	if (infer_sizes_as_large(size, sizes->doubt))
		sizes->doubts = 0;
	sizes->good.items = (int) most(sizes->good.items, size.items);
	sizes->good.bytes = most(sizes->good.bytes, size.bytes);
	if (size.items >= sizes->bad.items)
		sizes->bad.items = 0;
	if (size.bytes >= sizes->bad.bytes)
		sizes->bad.bytes = 0;
	settle_both(sizes, size);
	if (tokens >= MIN_TOKENS)
	{
		double ratio = (double) size.bytes / (double) tokens;

		if (sizes->bytes_per_token == 0 || ratio < sizes->bytes_per_token)
			sizes->bytes_per_token = ratio;
	}
}

bool
infer_sizes_refused(InferSizes *sizes, InferSize size, InferSizeKind kind, bool proved,
					int64_t now_us)
{
	bool items = kind != INFER_SIZE_BYTES && size.items > sizes->good.items;
	bool bytes = kind != INFER_SIZE_ITEMS && size.bytes > sizes->good.bytes;

	if (!items && !bytes)
	{
		if (!proved || !believes(sizes, &size))
			return false;
		/* the server takes less than it did */
		sizes->good = (InferSize){size.items / 2, size.bytes / 2};
		items = kind != INFER_SIZE_BYTES;
		bytes = kind != INFER_SIZE_ITEMS;
	}
	sizes->refused_us = now_us;
	if (!bytes)
		sizes->bad.items = (int) lower(sizes->bad.items, size.items);
	else if (!items)
		sizes->bad.bytes = lower(sizes->bad.bytes, size.bytes);
	else if (sizes->both.items == 0 || size.items < sizes->both.items ||
			 size.bytes < sizes->both.bytes)
		sizes->both = size;
	/* a limit of one figure explains the pair that is beyond it */
	if ((sizes->bad.items > 0 && sizes->bad.items <= sizes->both.items) ||
		(sizes->bad.bytes > 0 && sizes->bad.bytes <= sizes->both.bytes))
		sizes->both = (InferSize){0, 0};
	return true;
}

void
infer_sizes_forget(InferSizes *sizes)
{
	sizes->bad = sizes->both = (InferSize){0, 0};
}

void
infer_sizes_age(InferSizes *sizes, int64_t now_us)
{
	if (now_us - sizes->refused_us > HOLD_US)
		infer_sizes_forget(sizes);
}

/* What may be sent where bad was too much and good was taken; guess where that says nothing. */
static int64_t
below(int64_t bad, int64_t good, int64_t guess)
{
	return most(good < bad ? most(good, guess) : guess, 1);
}

InferBatchLimits
infer_sizes_limits(const InferSizes *sizes, InferBatchLimits limits)
{
	if (sizes->bad.items > 0)
		limits.max_items = (int) least(
			limits.max_items, below(sizes->bad.items, sizes->good.items, sizes->bad.items / 2));
	if (sizes->bad.bytes > 0)
		limits.max_bytes =
			(size_t) least((int64_t) limits.max_bytes,
						   below(sizes->bad.bytes, sizes->good.bytes, sizes->bad.bytes / 2));
	if (sizes->both.items > 0)
	{
		int items = (int) below(sizes->both.items, sizes->good.items, sizes->both.items / 2);
		/* half of the inputs may have some more than half of the bytes */
		int64_t bytes = below(sizes->both.bytes, sizes->good.bytes, sizes->both.bytes / 4 * 3);

		/* of two such pairs, the one of fewer items: mostly it is the other one's half */
		if (limits.both_items == 0 || items < limits.both_items)
		{
			limits.both_items = items;
			limits.both_bytes = (size_t) bytes;
		}
	}
	if (sizes->bytes_per_token > 0)
		limits.bytes_per_token = sizes->bytes_per_token * TOKEN_MARGIN;
	return limits;
}
