/*
 * call/pump.h - what moves batches on: see call/pump.c for the states they go through.
 */
#ifndef INFER_CALL_PUMP_H
#define INFER_CALL_PUMP_H

#include "postgres.h"

#include "lib/ilist.h"

#include "call/types.h"
#include "http/transport.h"
#include "registry/registry.h"

/* The process's transport, made at first use; raises if there is no memory or descriptor for it. */
extern InferTransport *infer_pump_transport(void);
/* All clients of the process, by InferClient.node. */
extern dlist_head *infer_pump_clients(void);
/* Requests that this process may still have in flight besides, whatever their keys allow. */
extern int infer_pump_free_transfers(void);

/* Puts an answer that nobody asks into the client's open batch of its class. */
extern void infer_pump_ask(InferClient *client, InferAnswer *answer);
/* Such an answer fails, as a bad request, without being sent. */
extern void infer_pump_refuse(InferClient *client, InferAnswer *answer, const char *detail);
/* Takes all finished transfers, whoever asked. What of that raises is taken up again the next time.
 */
extern void infer_pump_collect(void);
/* Moves the open batches that must leave to the ready list: starved and input_ended as for
 * infer_client_push(). */
extern void infer_pump_flush(InferClient *client, bool starved, bool input_ended);
/* Sends ready batches, in order, as long as their lanes have room and permits are to be had. Raises
 * what reading a server's secrets raises. */
extern void infer_pump_send(InferClient *client);
/* Fails what an error in between left loose. */
extern void infer_pump_fail_loose(InferClient *client);
/* Frees all of a client's batches: transfers are cancelled, permits come back. Raises nothing. */
extern void infer_pump_drop(InferClient *client);

/* A loose batch that has its permit and its words becomes a request. False: no memory. */
extern bool infer_batch_submit(InferBatch *batch, const InferSecrets *secrets);
/* Its transfer, if it has one, is cancelled or done with. Raises nothing. */
extern void infer_pump_release_transfer(InferBatch *batch);

/* When the earliest sleeping batch of any client wants to go on; PG_INT64_MAX = never. */
extern int64 infer_pump_next_retry_us(void);
/* When the time of a ready batch of any client is over; PG_INT64_MAX = never. */
extern int64 infer_pump_next_expiry_us(void);

#endif
