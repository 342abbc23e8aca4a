/*
 * core/sizes.h - which sizes of requests a server takes, as far as it has shown.
 *
 * Servers limit the number of inputs, the bytes of a body, or the tokens in it, which follow the
 * bytes; few of them say which it was, and some say only 400.  Pure and flat: an InferSizes lives
 * in shared memory, under somebody else's lock, or with a statement's call class.
 */
#ifndef INFER_CORE_SIZES_H
#define INFER_CORE_SIZES_H

#include "core/batch.h"

/* What a refusal was about, as far as its words tell. */
typedef enum InferSizeKind
{
	INFER_SIZE_ANY,
	INFER_SIZE_ITEMS,
	INFER_SIZE_BYTES /* or tokens */
} InferSizeKind;

typedef struct InferSize
{
	int items;
	int64_t bytes; /* of inputs */
} InferSize;

/* All zeroes: nothing is known. */
typedef struct InferSizes
{
	InferSize good;         /* the most that was taken, each figure by itself */
	InferSize bad;          /* the least that is too much, each by itself; 0 = not known */
	InferSize both;         /* a request of so much in both was refused; 0 = none */
	InferSize doubt;        /* the least of so many refused ones that used to be taken */
	int doubts;             /* ... and nothing as large was taken since */
	int64_t refused_us;     /* when it was learnt last */
	double bytes_per_token; /* the least of an answered request; 0 = not known */
} InferSizes;

/* Is a request of one size as large as one of the other, in all that may be limited? */
extern bool infer_sizes_as_large(InferSize size, InferSize other);
/* A request of this size was answered; tokens = -1: the answer does not say. */
extern void infer_sizes_taken(InferSizes *sizes, InferSize size, int64_t tokens);
/*
 * A request of this size was refused.  proved: its parts were then taken, all of them.  If a
 * larger one was taken before, that must happen three times in a row to be believed.  Without
 * that, what is no larger than something that was taken is not held against the size: then false.
 */
extern bool infer_sizes_refused(InferSizes *sizes, InferSize size, InferSizeKind kind, bool proved,
								int64_t now_us);
/* Nothing is too large any more. */
extern void infer_sizes_forget(InferSizes *sizes);
/* Forgets what was learnt long ago: servers are given other settings. */
extern void infer_sizes_age(InferSizes *sizes, int64_t now_us);
/* These limits, and what is known besides. */
extern InferBatchLimits infer_sizes_limits(const InferSizes *sizes, InferBatchLimits limits);

#endif
