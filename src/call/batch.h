/*
 * call/batch.h - a batch: answers that travel in one request, from the first of them to its end.
 *
 * It is in one of its client's lists all the time; which one says what it waits for (call/pump.c).
 * "Loose" is a batch on its way from one to another: whoever made it so has to put it somewhere, or
 * to end it by infer_finish_fail() or infer_finish_reply().
 */
#ifndef INFER_CALL_BATCH_H
#define INFER_CALL_BATCH_H

#include "postgres.h"

#include "lib/ilist.h"

#include "call/attempts.h"
#include "call/types.h"
#include "call/usage.h"
#include "core/buf.h"
#include "core/ratelimit.h"
#include "core/stages.h"
#include "core/types.h"
#include "http/transport.h"
#include "shmem/admission.h"
#include "shmem/route.h"

/* Of a name and 64 digits. */
#define INFER_KEY_HEADER_SIZE 128

struct InferBatch
{
	dlist_node node; /* in one of the client's lists, by state, for as long as it lives */
	InferClient *client;
	InferClass *class;
	InferAnswer **answers;
	int nanswers;
	int size; /* of answers[] */
	size_t bytes;
	/* sending */
	bool asked_base64;      /* the body asks for embeddings as base64 */
	bool in_open;           /* counted by its class */
	bool in_ready;          /* counted as wanting a permit */
	InferPlace *place;      /* where it goes, or went last; NULL: not chosen yet */
	InferLane *lane;        /* ... of its key; NULL likewise */
	InferPriority priority; /* its class's, and one more for each retry */
	bool permit;
	InferTicket ticket;                /* ... with it */
	InferRouteReservation reservation; /* it counts in its server's slot */
	uint32 window_epoch;               /* of the lane, when it was sent */
	InferTransfer *transfer;
	InferBuf body;
	char key_header[INFER_KEY_HEADER_SIZE]; /* "Idempotency-Key: ..."; "" = none */
	size_t retained;                        /* bytes of body charged to retained_memory */
	int64 not_before_us;                    /* retry: earliest next attempt */
	int64 deadline_us; /* of all attempts, where they go to several servers; 0 = none yet */
	int timeout_ms;    /* of the attempt under way */
	int attempts;      /* requests, copies included */
	int number;        /* of the one under way, or the last, among them */
	double draw;       /* what chance says of the next one ... */
	int drawn;         /* ... if it has this number */
	/* copies (copies.c) */
	bool is_copy;       /* of its twin: shares its answers, and resolves none */
	bool unsent_copy;   /* ... paid for by the budget of copies, but not sent yet */
	bool copied;        /* a copy was sent of the attempt under way */
	InferBatch *twin;   /* the copy, or the original, while both are under way; NULL = alone */
	int64 copy_due_us;  /* 0 = there will be none */
	InferStages stages; /* its walk over the places */
	bool on_change;     /* its sleep ends when a server comes back, too */
	uint64 changes;     /* infer_route_changes(), when it last looked */
	InferStages before; /* ... as it was before the attempt that is under way */
	InferAttempt told[INFER_ATTEMPTS_TOLD]; /* number i is at i modulo that */
	/* the last attempt that failed, while another one may follow */
	InferReason last_reason; /* NONE = there is none */
	int last_status;
	char *last_detail;     /* palloc'd, or NULL */
	bool retry_denied;     /* by the key's share of retries */
	InferRefusal *refusal; /* the refused batch that this one is a part of, or NULL */
	InferExecution floor;  /* worst proof of earlier attempts */
	int64 first_sent_us;
	InferCharge charge;
	InferLane *lanes[FLEXIBLE_ARRAY_MEMBER]; /* to each place of its class; NULL = barred */
};

/* An empty batch, which is loose. */
extern InferBatch *infer_batch_new(InferClient *client, InferClass *class);
/* Gives back all that it holds, permit, transfer, charge and counts, and frees it; answers of its
 * own without a result are nobody's again.  Raises nothing. */
extern void infer_batch_free(InferBatch *batch);
/* Adds and pins an answer, which is the batch's from now on ... */
extern void infer_batch_add(InferBatch *batch, InferAnswer *answer);
/* ... or stays another batch's. */
extern void infer_batch_share(InferBatch *batch, InferAnswer *answer);
/* Moves the answers from..end into a new batch of the same class, which has the same history then.
 */
extern void infer_batch_split(InferBatch *batch, InferBatch *into, int from);
/* The same with all answers but the first n, and that batch is ready. */
extern void infer_batch_part(InferBatch *batch, int n);
/* It goes to that place of its class. */
extern void infer_batch_place(InferBatch *batch, int place);
/* It has other answers or words now: its body and key are made anew before it is sent. */
extern void infer_batch_forget_body(InferBatch *batch);

/* Is it the open batch of its class, which takes further calls? It is in the client's list then. */
extern void infer_batch_set_open(InferBatch *batch, bool is_open);
/* Into another list of its client, at the end. */
extern void infer_batch_move(InferBatch *batch, dlist_head *list);
/* It takes nothing more and wants a permit: behind those of its priority. */
extern void infer_batch_ready(InferBatch *batch);
/* It is looked at again then; wants no permit meanwhile. */
extern void infer_batch_sleep(InferBatch *batch, int64 until_us);
/* When a sleeping batch wants to go on; 0 = at once. */
extern int64 infer_batch_wakes_us(const InferBatch *batch);
/* After an attempt: the controllers hear of it, then permit and connection are free.  The batch is
 * loose; the body of the answer is gone.  news, route: NULL = nothing to tell. */
extern void infer_batch_landed(InferBatch *batch, const InferOutcome *outcome,
							   const InferRateNews *news, const InferRouteOutcome *route);

#endif
