/*
 * call/sizes.h - how large the requests of a class may be, and what refusals say of it.
 */
#ifndef INFER_CALL_SIZES_H
#define INFER_CALL_SIZES_H

#include "postgres.h"

#include "call/types.h"
#include "core/sizes.h"

/* The limits of a class and of its places, by what is known now. */
extern void infer_sizes_refresh(InferClass *class);
/* The batch was answered, whatever became of its rows; -1 = tokens not said. */
extern void infer_sizes_taken_by(InferBatch *batch, int64 prompt_tokens);
/* The batch was refused, and is about to be sent in parts. */
extern void infer_sizes_refused_by(InferBatch *batch, InferSizeKind kind);
/* part holds what was the other's. */
extern void infer_sizes_part(InferBatch *part, const InferBatch *of);
/* The batch ends without an answer. Does not raise. */
extern void infer_sizes_leave(InferBatch *batch);
/* Moves what would be too much for one request into another batch, which is ready then. */
extern void infer_sizes_cut(InferBatch *batch);

#endif
