/*
 * core/window.h - how many rows a scan reads ahead of the one it must emit.
 *
 * A ramp: starts at min(hint, first batch), doubles each time the window was exhausted, up to the
 * maximum.  hint = rows the consumer asked for (LIMIT, FETCH), 0 = unknown/all.  When exact is set
 * (nothing between the scan and the LIMIT drops rows) the window never passes what is still wanted.
 * Pure; spec planner §4 "Window ramp".
 */
#ifndef INFER_CORE_WINDOW_H
#define INFER_CORE_WINDOW_H

#include "core/types.h"

typedef struct InferWindow
{
	int64_t rows; /* current size, >= 1 */
	int64_t max;
} InferWindow;

extern void infer_window_init(InferWindow *w, int64_t first, int64_t max);
extern void infer_window_grow(InferWindow *w); /* doubles, capped */

#endif
