/*
 * call/copies.h - second copies of slow requests (the option hedge).
 */
#ifndef INFER_CALL_COPIES_H
#define INFER_CALL_COPIES_H

#include "postgres.h"

#include "call/types.h"
#include "core/proof.h"
#include "core/types.h"
#include "http/transport.h"

/* The batch has left for its place: is a copy of it to follow? */
extern void infer_copies_arm(InferBatch *batch);
/* Sends the copies that are due. */
extern void infer_copies_send(InferClient *client);
/* When the next one is due, of any client of the process; PG_INT64_MAX = never. */
extern int64 infer_copies_next_us(void);
/* The budget of copies hears of an attempt's end. */
extern void infer_copies_landed(const InferBatch *batch, InferReason reason);
/* A transfer has ended: returns the batch whose end it is now, or NULL if another request goes on
 * for it. */
extern InferBatch *infer_copies_settle(InferBatch *batch, const InferFinding *finding,
									   const InferHttpResult *result);
/* A running request is given up for its server's sake: first whose answers it is to be for, which
 * has it then, in place of its other one. */
extern InferBatch *infer_copies_give_up(InferBatch *batch);
/* ... when it has landed: goes on with the other request, if there is one. */
extern bool infer_copies_go_on(InferBatch *original, const InferFinding *finding);
/* The batch is about to be freed: its copy goes with it. */
extern void infer_copies_leave(InferBatch *batch);

#endif
