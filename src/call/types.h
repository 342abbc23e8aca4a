/*
 * call/types.h - the parts of which a statement's calls are made, and how they hang together.
 *
 * memo      what one top-level statement knows: its call classes and its answers.  One at a time is
 *           current; one that still has pins when the next statement begins (a cursor's rows) lives
 *           on as an orphan until the last pin goes, or the transaction ends.
 * class     calls that may share a request: user, task, model, parameters, options.
 * place     a server that the calls of a class can go to (call/place.h).
 * answer    one distinct input of a class: not asked, in an open batch, on its way, or done.
 * entry     a row's pin on an answer (the handle that callers hold).
 * batch     answers that travel in one request; has at most one permit and one transfer.
 * lane      a client's requests under one admission key: its own window, beside the key's limit.
 * client    whoever asks: a scan or a direct call; owns entries, batches and lanes.
 *
 * Each has a header of its name, with its structure.  But for call.h, classify.h, causes.h,
 * explain.h and refs.h, the headers of this folder are for its files only.
 *
 * Ownership: class and answer live in the memo's context; entry, batch, lane and client in the
 * client's, which hangs below TopMemoryContext because the executor's contexts go away before
 * resource owners do.  Request bodies and transfers are malloc'd and released with their batch.
 *
 * Where a header says nothing of errors, a function may raise for want of memory and for no other
 * reason.  What fails a call never raises: it is kept in the answer (call/finish.h).
 */
#ifndef INFER_CALL_TYPES_H
#define INFER_CALL_TYPES_H

#include "postgres.h"

#include "call/call.h"

typedef struct InferMemo InferMemo;
typedef struct InferClass InferClass;
typedef struct InferPlace InferPlace;
typedef struct InferAnswer InferAnswer;
typedef struct InferBatch InferBatch;
typedef struct InferLane InferLane;
typedef struct InferRefusal InferRefusal; /* of a batch, by its size (call/sizes.c) */

#endif
