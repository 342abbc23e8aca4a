/*
 * call/internal.h - the structures behind call.h, for the files of this folder only.
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
 * Ownership: class and answer live in the memo's context; entry, batch, lane and client in the
 * client's, which hangs below TopMemoryContext because the executor's contexts go away before
 * resource owners do.  Request bodies and transfers are malloc'd and released with their batch.
 */
#ifndef INFER_CALL_INTERNAL_H
#define INFER_CALL_INTERNAL_H

#include "postgres.h"
#include "lib/ilist.h"
#include "utils/memutils.h"

#include "call/call.h"
#include "call/place.h"
#include "core/batch.h"
#include "core/budget.h"
#include "core/buf.h"
#include "core/proof.h"
#include "core/retry.h"
#include "core/route.h"
#include "core/sizes.h"
#include "core/stages.h"
#include "core/tally.h"
#include "core/types.h"
#include "core/window.h"
#include "http/transport.h"
#include "pg/clock.h"
#include "pg/compat.h"
#include "pg/guc.h"
#include "pg/header.h"
#include "pg/owner.h"
#include "provider/provider.h"
#include "registry/registry.h"
#include "shmem/admission.h"
#include "shmem/drain.h"
#include "shmem/nodes.h"
#include "shmem/progress.h"
#include "shmem/route.h"

typedef struct InferMemo InferMemo;
typedef struct InferClass InferClass;
typedef struct InferAnswer InferAnswer;
typedef struct InferBatch InferBatch;
typedef struct InferLane InferLane;
typedef struct InferRefusal InferRefusal;

/* Options of a call, from the options argument over the settings. */
typedef struct InferCallOptions
{
	InferOnError on_error;
	int timeout_ms; /* the longest of its places' */
	InferStreamingMode mode;
	int dispatch_batch_size;
	InferRetryRule rule;
	bool hedge;            /* a slow request may be sent to a second server as well */
	bool idempotent;       /* requests carry a key ... */
	char *idempotency_key; /* ... that this text fixes; NULL = the statement's own */
	int max_concurrency;   /* of this client for this class; 0 = the key's */
	char *admission_key;   /* NULL = the server's */
	int64 rpm;             /* -1 = the server's; 0 = no limit */
	int64 tpm;
	InferHeader header; /* its priority counts in the key's line */
	InferInvalidText invalid_text;
	InferTruncated truncated;
	InferMixed mixed;
	char *path; /* infer.call: below the server's url; "" */
} InferCallOptions;

/* What a statement's calls have come to, for max_error_ratio. */
typedef struct InferTolerance
{
	InferTally tally;
	bool stopped;    /* too many failed */
	double ratio;    /* ... than this */
	InferTally when; /* ... then */
} InferTolerance;

struct InferClass
{
	/* key */
	Oid userid;
	InferTask task;
	struct varlena *raw[3]; /* model, parameters, options as given; plain 4-byte headers */
	/* resolved */
	InferTarget *target;
	InferCallOptions options;
	char *parameters_json;     /* UTF-8 */
	InferPlace *places;        /* one for each placement of the target, in its order */
	int nplaces;               /* at least 1 */
	InferBatchLimits limits;   /* what all of them take, as far as known now */
	InferRouteRequest request; /* what its calls ask of a place */
	InferRoutePlace *routes;   /* the places, as routing sees them */
	uint64 *turn;              /* the session's requests to its model, for its strategy */
	bool sole;                 /* there is one place, and it suits the request */
	uint64 waits;              /* the round in which none of its places had room (permit.c) */
	/* book-keeping */
	InferMemo *memo;
	MemoryContext context; /* holds all of it */
	uint32 hash;
	int refs;         /* answers and clients that point here */
	size_t bytes;     /* of context */
	bool charged;     /* to one of its answers */
	int64 memo_hits;  /* that infer.stat_usage has not heard of */
	int nopen;        /* open batches, of all clients */
	InferBatch *open; /* the youngest of them, or NULL */
	dlist_node idle;  /* in memo->idle_classes while refs == 0 */
};

/* No text in UTF-8 begins with this byte. */
#define INFER_UNSENDABLE '\xff'

typedef enum InferAnswerState
{
	INFER_ANSWER_IDLE,    /* nobody is asking (any more) */
	INFER_ANSWER_BATCHED, /* in a batch of some client, sent or not */
	INFER_ANSWER_DONE
} InferAnswerState;

struct InferAnswer
{
	/* key */
	InferClass *class;
	char *input; /* UTF-8; or INFER_UNSENDABLE, and what cannot be said in UTF-8 */
	size_t input_len;
	uint32 hash;
	/* where it is */
	InferMemo *memo;
	InferAnswerState state;
	InferBatch *batch; /* while BATCHED */
	int pins;
	bool counted;   /* its call is in what the statement has spent */
	dlist_node lru; /* in memo->lru while pins == 0 and DONE */
	size_t bytes;   /* all of it, for the budgets */
	/* the result */
	InferReason reason; /* NONE = value is set */
	InferExecution execution;
	struct varlena *value; /* real[], text or jsonb */
	bool truncated;        /* the value ends at a limit of tokens, and was accepted */
	char *detail;          /* of a failure; NULL if there is none */
	const char *hint;      /* static; NULL: the reason's own */
	char *tried; /* of a failure: its attempts, where there are several servers; or NULL */
	char *usage; /* JSON in UTF-8, NULL if none */
	int http_status;
	const InferPlace *place; /* that answered, or was asked last */
	int attempts;
	bool retry_denied; /* its last attempt would have been repeated otherwise */
	int64 elapsed_us;
};

struct InferEntry
{
	dlist_node node; /* in client->entries */
	InferClient *client;
	InferAnswer *answer;
};

/* What a batch is charged with (usage.c). */
typedef struct InferCharge
{
	Oid role;             /* who pays */
	int32 day;            /* of the attempt */
	bool open;            /* an attempt is under way */
	InferAmount guess;    /* so much of it is in what the statement has spent */
	InferAmount reserved; /* ... and the role, if it has a budget */
	int64 calls;          /* of the batch, that the role is charged with ... */
	int32 calls_day;      /* ... on that day */
	/* how it ended */
	bool left;
	bool failed;
	InferExecution execution;
	int64 input; /* tokens that its answer reports; -1 = not said */
	int64 output;
	/* of all attempts */
	bool repeated; /* the request left before */
	bool executed; /* or perhaps: its calls are counted */
} InferCharge;

/* Of a name and 64 digits. */
#define INFER_KEY_HEADER_SIZE 128

/* One attempt, as told of afterwards. */
typedef struct InferAttempt
{
	const InferPlace *place;
	InferReason reason;
	InferExecution execution;
} InferAttempt;

/* Of a call's attempts, the last so many are told of one by one. */
#define INFER_ATTEMPTS_TOLD 8

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

struct InferLane
{
	InferLane *next; /* of the client's */
	InferKey key;
	int cap;                /* the option max_concurrency of its classes; 0 = none */
	InferPriority priority; /* ... and their priority */
	InferDuration duration; /* ... and that of all of them */
	int weight;             /* of each of its requests, on its node; 0 = none */
	char *label;            /* ... which is this one */
	int node;               /* ... and has this number while something of the process is there */
	bool in_node_line;      /* waits there */
	uint64 outweighed;      /* the round in which its node had too much (permit.c) */
	uint64 stands_by;       /* ... and the process waits for that */
	InferWindow window;
	int ready;   /* batches that may go here, and want a permit */
	int running; /* ... that went here, and have one */
	int spare;   /* permits that no batch has taken yet */
	InferTicket ticket;
	int limit;     /* the key's, when we asked last */
	int items;     /* the largest batch of its classes */
	int group;     /* the same for lanes that share the batches of a class */
	uint64 full;   /* the round in which it had no room (permit.c) */
	uint64 marked; /* scratch of one call */
};

struct InferClient
{
	InferOwned owned;
	dlist_node node; /* in the process's list of clients */
	MemoryContext context;
	MemoryContext entry_context; /* slab */
	InferClass *last_class;      /* held */
	dlist_head entries;
	dlist_head open;     /* batches that take more */
	dlist_head ready;    /* waiting for a permit */
	dlist_head sleeping; /* waiting for a retry's time */
	dlist_head running;  /* with permit and transfer */
	dlist_head loose;    /* on their way from one of these to another */
	InferLane *lanes;
	int nbatches;        /* batches, in whatever state */
	int nopen;           /* batches in open */
	int nrunning;        /* batches in running */
	bool shown;          /* in infer.stat_progress, if there was a slot for it */
	int progress;        /* ... which is this one */
	int ngroups;         /* of lanes, that there ever were */
	int64 rows;          /* that its owner has returned, for that */
	int64 copies_due_us; /* the first copy of a running batch; 0 = none is */
	int64 expires_us;    /* the first deadline of a ready batch, or earlier; 0 = there is none */
	bool input_ended;    /* no further call will be begun: what there is, is all */
	int64 expected;      /* calls that will be begun, as a guess; <= 0: not known */
	bool has_foreign;    /* some entry waits for an answer that another client asks */
	bool ask_again;      /* some entry may wait for an answer that nobody asks any more */
	int64 evictions_before;
	InferClientStats stats;
};

/* memo.c */
extern InferMemo *infer_memo_current(void);
extern InferAnswer *infer_memo_answer(InferClass *class, const char *input, size_t len,
									  bool *found);
extern InferClass *infer_memo_class_find(InferMemo *memo, Oid userid, InferTask task,
										 struct varlena *const raw[3], uint32 *hash);
extern InferClass *infer_memo_class_new(InferMemo *memo, Oid userid, InferTask task,
										struct varlena *const raw[3], uint32 hash);
extern void infer_memo_class_hold(InferClass *class);
extern void infer_memo_class_release(InferClass *class);
extern void infer_memo_class_discard(InferClass *class);
extern void infer_memo_pin(InferAnswer *answer);
extern void infer_memo_unpin(InferAnswer *answer);
extern void infer_memo_done(InferAnswer *answer, size_t bytes);
extern MemoryContext infer_memo_context(InferMemo *memo);
extern int64 infer_memo_evictions(void);
/* A random number of the memo's statement. */
extern uint64 infer_memo_id(InferMemo *memo);
/* What its statement has spent: calls once an answer, the guesses of requests on their way. */
extern InferAmount *infer_memo_spent(InferMemo *memo);
extern InferTolerance *infer_memo_tolerance(InferMemo *memo);
extern void infer_memo_init(void);

/* class.c */
extern InferClass *infer_class_get(InferClient *client, const InferFunction *function,
								   const Datum *args);

/* options.c */
/* classified: the header that takes the place of what setting, model and options say; or NULL.
 * parameters: of the call, or NULL: it has none. */
extern void infer_options_parse(InferTask task, Datum options, const InferTarget *target,
								Jsonb *classified, Jsonb *parameters, InferCallOptions *result);
/* What one attempt at that server may take, by them or by the server. */
extern int infer_options_timeout_ms(const InferCallOptions *options, const InferServer *server);

/* client.c */
extern void infer_client_close_all(bool complain);
extern bool infer_planning_estimates(FunctionCallInfo fcinfo);

/* pump.c */
extern InferTransport *infer_pump_transport(void);
extern void infer_pump_ask(InferClient *client, InferAnswer *answer);
/* The answer, which nobody asks, fails without being sent. */
extern void infer_pump_refuse(InferClient *client, InferAnswer *answer, const char *detail);
extern void infer_pump_collect(void);
extern void infer_pump_flush(InferClient *client, bool starved, bool input_ended);
extern void infer_pump_fail_loose(InferClient *client);
extern void infer_pump_drop(InferClient *client);
extern dlist_head *infer_pump_clients(void);
extern void infer_pump_release_transfer(InferBatch *batch);
extern int64 infer_pump_next_retry_us(void);
extern int64 infer_pump_next_expiry_us(void);
extern int infer_pump_free_transfers(void);

/* batch.c */
extern InferBatch *infer_batch_new(InferClient *client, InferClass *class);
extern void infer_batch_add(InferBatch *batch, InferAnswer *answer);
/* Adds an answer that stays another batch's. */
extern void infer_batch_share(InferBatch *batch, InferAnswer *answer);
extern void infer_batch_set_open(InferBatch *batch, bool is_open);
extern void infer_batch_move(InferBatch *batch, dlist_head *list);
extern void infer_batch_ready(InferBatch *batch);
extern void infer_batch_sleep(InferBatch *batch, int64 until_us);
extern int64 infer_batch_wakes_us(const InferBatch *batch);
extern void infer_batch_split(InferBatch *batch, InferBatch *into, int from);
/* Moves all answers but the first n into a batch of the same history, which is ready then. */
extern void infer_batch_part(InferBatch *batch, int n);
/* It goes to that place of its class. */
extern void infer_batch_place(InferBatch *batch, int place);
/* It has other answers or words now: its body and key are made anew before it is sent. */
extern void infer_batch_forget_body(InferBatch *batch);
extern void infer_batch_landed(InferBatch *batch, const InferOutcome *outcome,
							   const InferRateNews *news, const InferRouteOutcome *route);
extern void infer_batch_free(InferBatch *batch);

/* send.c */
extern void infer_pump_send(InferClient *client);
/* A loose batch that has its permit and its words becomes a request. False: no memory. */
extern bool infer_batch_submit(InferBatch *batch, const InferSecrets *secrets);

/* copies.c */
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

/* route.c */
/* A place as routing sees it: what the catalogs say ... */
extern void infer_route_describe(const InferPlacement *placement, bool permitted,
								 InferRoutePlace *route);
/* ... and what the route table knows. items: of a batch; 0 = not known. */
extern void infer_route_look(const InferRouteSnapshot *snapshot, bool dead, InferTask task,
							 int items, int limit, int64 now_us, InferRoutePlace *route);
/* What the session's earlier requests say for the strategy of the next one to that target. */
extern void infer_route_session(const InferTarget *target, InferRouteRequest *request);
/* What calls of the class ask of a place, and which places there are; raises if none can ever do.
 */
extern void infer_route_prepare(InferClass *class);
/* What a ready batch is to do now: good until the next call. */
extern const InferStagesStep *infer_route_next(InferBatch *batch);
/* No place will do. Ends the batch, which has no permit. */
extern void infer_route_fail(InferBatch *batch, InferStagesEnd end);
/* The places of the last step have no permits, and are not waited for. */
extern void infer_route_give_up(InferBatch *batch);
/* The batch leaves for its place. */
extern void infer_route_started(InferBatch *batch);
/* ... and a copy of it for another one. */
extern void infer_route_copied(InferBatch *batch, const InferPlace *place);
/* Where a copy of the running batch may go, the best first; their number. */
extern int infer_route_copies(InferBatch *batch, int *order);
/* Would such a failure end the call, whatever else is under way for it? */
extern bool infer_route_would_end(const InferBatch *batch, const InferFinding *finding);
/* ... and has come back with a failure. */
extern void infer_route_ended(InferBatch *batch, const InferFinding *finding, bool declined,
							  int64 retry_after_ms);
/* ... which was none of the call, but of its words. */
extern void infer_route_undo(InferBatch *batch);
/* ... with a result. */
extern void infer_route_succeeded(const InferBatch *batch);

/* attempts.c */
/* Notes an attempt that failed, which may be the last. */
extern void infer_attempts_note(InferBatch *batch, InferReason reason, InferExecution execution,
								int http_status, const char *detail);
/* part gets what the other has noted. */
extern void infer_attempts_copy(InferBatch *part, const InferBatch *of);
/* "tried: a1 (overloaded, not_admitted), b1 ...", palloc'd; NULL = there is nothing to tell. */
extern char *infer_attempts_tell(const InferBatch *batch);
extern void infer_attempts_free(InferBatch *batch);

/* permit.c */
extern void infer_permit_init(void);
/* The batch is ready, or not any more. */
extern void infer_permit_want(InferBatch *batch, bool wanted);
/* How many batches of this process want a permit of the key, or of another one as well. */
extern int infer_permit_wanted(InferKey key);
typedef enum InferPermitAnswer
{
	INFER_PERMIT_TAKEN,
	INFER_PERMIT_WAITS,   /* the process is in the lines of the keys */
	INFER_PERMIT_GIVES_UP /* the servers have been failing for longer than the call would wait */
} InferPermitAnswer;
/* A look at the ready batches begins: what was refused before may be granted now. Its number. */
extern uint64 infer_permit_begin_round(void);
/* Gets a permit for the batch, of the first of these places where one is to be had; then the batch
 * is for that place. */
extern InferPermitAnswer infer_permit_take(InferBatch *batch, const int *order, int n);
/* The same where all have failed, to find out whether one is back: in no line. */
extern bool infer_permit_probe(InferBatch *batch, const int *order, int n);
/* Gets one of that place without joining a line. */
extern bool infer_permit_try(InferBatch *batch, int place);
/* Could any batch of the client still get one in this round? */
extern bool infer_permit_is_hopeful(const InferClient *client);
/* What a request tells that was given up, or never sent. */
extern const InferOutcome infer_outcome_given_up;
extern const InferOutcome infer_outcome_unsent;
/* news: NULL = none */
extern void infer_permit_release(InferBatch *batch, const InferOutcome *outcome,
								 const InferRateNews *news);
extern void infer_permit_return_spare(InferLane *lane);
extern int64 infer_permit_next_alarm_us(void);

/* weight.c; nothing of it raises */
/* May requests to the place go through the lane? */
extern bool infer_weight_suits(const InferLane *lane, const InferPlace *place);
/* A new lane. */
extern void infer_weight_begin(InferLane *lane, const InferPlace *place);
/* For so many of the requests that want permits the lane's node takes the weight, on trial: until
 * done() says how many of those granted got their permits. Without weight: for all of them. */
extern int infer_weight_take(InferLane *lane, const InferAsk *permits);
extern void infer_weight_done(InferLane *lane, int granted, int used);
/* With a permit. */
extern void infer_weight_give(const InferLane *lane);
/* The lane waits for none. */
extern void infer_weight_leave(InferLane *lane);

/* lane.c */
/* The lanes to all places of the batch's class, made as needed. */
extern void infer_lanes_get(InferBatch *batch);
extern bool infer_lane_has_room(const InferLane *lane);
/* Sums over the client's lanes, into its figures. */
extern void infer_lane_stats(InferClient *client);
extern void infer_lane_feed(InferBatch *batch, const InferOutcome *outcome);

/* convert.c */
extern struct varlena *infer_convert_value(InferTask task, const char *utf8, size_t len,
										   InferInvalidText invalid, MemoryContext context,
										   const char **problem);
/* A text of the database's in UTF-8, in the current context or where it is.  False: it cannot be
 * said in UTF-8, and is what it was. */
extern bool infer_convert_input(InferInvalidText invalid, const char **text, size_t *len);
extern char *infer_convert_lossy(const char *utf8);
/* What is no input, and valid in the database's encoding: raises if it cannot be said in UTF-8. */
extern char *infer_convert_to_utf8(const char *s);
extern bool infer_convert_jsonb(const char *utf8, Datum *result);

/* causes.c */
/* The running statement makes a call: causes of an earlier one are forgotten. */
extern void infer_causes_statement(void);
extern void infer_causes_note(const InferAnswer *answer);
extern void infer_causes_init(void);

/* usage.c */
extern bool infer_usage_priced(const InferPlace *place);
/* 0 if it has no prices. */
extern double infer_usage_cost(const InferPlace *place, int64 input, int64 output);
/* Tokens and cost of so many inputs; calls stay. */
extern void infer_usage_guess(const InferPlace *place, size_t bytes, int n, InferAmount *amount);
/* An attempt begins; what is charged for it now is corrected or given back at its end. */
extern void infer_usage_open(InferBatch *batch);
/* n answers of a batch went to another one. */
extern void infer_usage_split(InferBatch *from, InferBatch *into, int n);
extern void infer_usage_found(InferBatch *batch, const InferFinding *finding, bool left);
extern void infer_usage_landed(InferBatch *batch);
extern void infer_usage_end(InferBatch *batch);
extern void infer_usage_flush_hits(InferClass *class);

/* budget.c */
extern bool infer_budget_allows(InferBatch *batch);
/* ... as a copy, with nothing cut and nothing failed? */
extern bool infer_budget_allows_copy(InferBatch *batch);

/* cooldown.c */
extern void infer_cooldown_fail(InferBatch *batch);

/* idempotency.c */
extern bool infer_idempotency_prepare(InferBatch *batch);

/* abandoned.c */
extern void infer_abandon(InferBatch *batch);

/* retained.c */
extern bool infer_retain(InferBatch *batch);
extern void infer_retain_end(InferBatch *batch);

/* retry.c */
extern bool infer_retry_later(InferBatch *batch, const InferFinding *finding, bool declined,
							  int64 retry_after_ms, InferReason *reason);
extern int64 infer_retry_patience_us(const InferClass *class);
/* Is a pause that the server asks for longer than a call may take? Then nobody waits for it. */
extern bool infer_retry_pause_is_too_long(const InferClass *class, int64 us);

/* tolerance.c */
extern void infer_tolerance_note(const InferAnswer *answer);
extern bool infer_tolerance_allows(InferBatch *batch);
extern bool infer_tolerance_stopped(const InferAnswer *answer);
extern void infer_tolerance_raise(const InferAnswer *answer) __attribute__((noreturn));

/* incarnation.c */
extern void infer_incarnation_prepare(InferPlace *place);
/* The header in which answers of the place say which one gave them; NULL: in none. */
extern const char *infer_incarnation_header(const InferPlace *place);
/* What an answer says, or the route table, where answers cannot; "" = nothing. */
extern void infer_incarnation_said(const InferPlace *place, const InferHttpResult *result,
								   char *said);
/* May calls go to the place, as far as the route table knows? */
extern bool infer_incarnation_fits(const InferPlace *place);
/* ... and this loose batch to its own?  If not, it is finished. */
extern bool infer_incarnation_allows(InferBatch *batch);
/* Has another one than expected given a good answer? Notes whom to expect. */
extern bool infer_incarnation_is_wrong(InferPlace *place, const InferHttpResult *result);
/* The batch fails for that. */
extern void infer_incarnation_discard(InferBatch *batch, const InferHttpResult *result);

/* finish.c */
extern void infer_finish_transfer(InferBatch *batch, const InferHttpResult *result);
extern void infer_finish_fail(InferBatch *batch, InferReason reason, InferExecution execution,
							  int http_status, const char *detail);
/* The attempt is over, whatever comes of it; tokens = -1: the answer does not say. */
extern void infer_finish_landed(InferBatch *batch, InferReason reason, InferVerdict verdict,
								const InferHttpResult *result, int64 tokens);
extern void infer_answer_fail(InferAnswer *answer, InferReason reason, InferExecution execution,
							  const char *detail);
/* The server that an answer came from, or was asked of last; NULL: none of several. */
extern const char *infer_answer_server(const InferAnswer *answer);
extern void infer_answer_resolve(InferBatch *batch, InferAnswer *answer, int http_status,
								 int64 elapsed_us);

/* drain.c */
/* When the grace of the place's server ends; 0 = it is not drained. */
extern int64 infer_drain_place_until(InferPlace *place);
extern void infer_drain_note(const InferPlace *place, InferDrainEvent event);
/* Cuts off what is in flight at servers whose grace is over. Returns when that of another one ends;
 * PG_INT64_MAX = never. */
extern int64 infer_drain_cut(void);
/* Has the batch's server begun to drain since the batch got its permit and was counted? Then it has
 * neither any more, and stays ready. */
extern bool infer_drain_came_between(InferBatch *batch);

/* echo.c; words in UTF-8, of at most 512 bytes: leaves out what they repeat of the batch's inputs
 * and of the key; never makes them longer. Reads the key, and so looks into catalogs. */
extern void infer_echo_mask(const InferBatch *batch, char *words);

/* signals.c */
#define INFER_SIGNALS_MAX 4
/* Header lines of a request. */
typedef struct InferSignals
{
	int n;
	const char *lines[INFER_SIGNALS_MAX];
	char objective[48];
	char timeout[64];
	char traceparent[80];
} InferSignals;
/* For places whose server wants signals, in the current context. */
extern char *infer_signals_fairness(const InferClass *class);
/* None for other places; of a request that is waited for so long. */
extern void infer_signals_make(InferSignals *signals, const InferBatch *batch, int timeout_ms);

/* sizes.c */
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

/* failure.c */
extern void infer_finish_failure(InferBatch *batch, const InferFinding *finding,
								 const InferHttpResult *result);
/* The same for one of two requests, while the other one is still under way: the batch is loose
 * afterwards. */
extern void infer_finish_lost(InferBatch *batch, const InferFinding *finding,
							  const InferHttpResult *result);

/* reply.c */
/* Counts what an answer of whatever status says of its usage, and leaves it with the batch's
 * answers. Returns the tokens, -1 = it says nothing. */
extern int64 infer_finish_usage(InferBatch *batch, const InferReply *reply);
extern void infer_finish_reply(InferBatch *batch, const InferHttpResult *result);

#endif
