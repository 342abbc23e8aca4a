/*
 * core/ramp.h - how many rows a scan reads ahead of the one it must emit.
 *
 * A ramp: starts at what the caller thinks is wanted and doubles each time so many rows are gone,
 * up to the maximum.  Pure.
 */
#ifndef INFER_CORE_RAMP_H
#define INFER_CORE_RAMP_H

#include "core/types.h"

typedef struct InferRamp
{
	int64_t rows; /* current size, >= 1 */
	int64_t max;
} InferRamp;

/* Rows; less than 1 counts as 1. */
extern void infer_ramp_init(InferRamp *w, int64_t first, int64_t max);
extern void infer_ramp_grow(InferRamp *w); /* doubles, capped */

#endif
