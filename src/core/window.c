/*
 * core/window.c - how many rows a scan reads ahead of the one it must emit.
 */
#include "core/window.h"

void
infer_window_init(InferWindow *w, int64_t first, int64_t max)
{
	w->max = max >= 1 ? max : 1;
	w->rows = first >= 1 ? first : 1;
	if (w->rows > w->max)
		w->rows = w->max;
}

void
infer_window_grow(InferWindow *w)
{
	w->rows = w->rows > w->max / 2 ? w->max : w->rows * 2;
}
