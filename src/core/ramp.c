/*
 * core/ramp.c - how many rows a scan reads ahead of the one it must emit.
 */
#include "core/ramp.h"

void
infer_ramp_init(InferRamp *w, int64_t first, int64_t max)
{
	w->max = max >= 1 ? max : 1;
	w->rows = first >= 1 ? first : 1;
	if (w->rows > w->max)
		w->rows = w->max;
}

void
infer_ramp_grow(InferRamp *w)
{
	w->rows = w->rows > w->max / 2 ? w->max : w->rows * 2;
}
