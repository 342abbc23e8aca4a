/*
 * call/call.h - one remote call from SQL arguments to a Datum; what InferScan and the functions'
 * own bodies share.
 *
 * Life of a call: begin() finds or makes the statement memo's entry for it and pins it; the client
 * (a scan, or a direct call) puts entries that nobody has asked yet into batches; push() sends what
 * permits allow; wait() sleeps until something happened; when done() the result() is the Datum, or
 * the failure by the function's policy (raise, NULL, outcome).  unpin() when the row is gone.
 *
 * A client belongs to the resource owner that was current when it was opened; on ERROR, cancel or
 * subtransaction abort its transfers are cancelled and its permits come back without further ado.
 * Entries asked by a client that went away fall back to "not asked" and are asked again by whoever
 * still needs them.
 */
#ifndef INFER_CALL_CALL_H
#define INFER_CALL_CALL_H

#include "postgres.h"

#include "fmgr.h"

#include "core/types.h"
#include "registry/functions.h"

typedef struct InferClient InferClient;
typedef struct InferEntry InferEntry;

/* Figures of one client, for EXPLAIN and statistics. Times in microseconds. */
typedef struct InferClientStats
{
	int64 calls;     /* rows that needed a call (NULL inputs not counted) */
	int64 asked;     /* distinct inputs that this client sent */
	int64 memo_hits; /* calls answered by, or joined to, an entry that stood already */
	int64 null_inputs;
	int64 requests; /* HTTP requests sent, attempts included */
	int64 retries;
	int64 copies; /* second requests for slow ones */
	int64 overloads;
	int64 errors;                        /* calls that failed */
	int64 abandoned[INFER_EXECUTED + 1]; /* requests given up unanswered, by proof */
	int64 retries_by[INFER_REASON_COUNT];
	int64 errors_by[INFER_REASON_COUNT];
	int64 bytes_sent;
	int64 bytes_received;
	int64 prompt_tokens;
	int64 completion_tokens;
	int64 evictions;    /* memo entries thrown out while this client ran */
	int peak_in_flight; /* requests */
	/* requests that may be in flight: the client's own windows, now and at their lowest, and the
	 * limit of their keys; 0 = nothing was asked */
	int64 window;
	int64 window_min;
	int64 limit;
	int64 permit_wait_us;
	int64 network_wait_us;
	int64 latency_min_us; /* of requests; 0 = none yet */
	int64 latency_max_us;
	int64 latency_sum_us;
	int64 latency_count; /* requests that ended; those given up have no latency */
} InferClientStats;

/* Opens a client, of the current resource owner; its memory is its own. */
extern InferClient *infer_client_open(void);
/* Bytes of request bodies that this session keeps for calls that may be sent again. */
extern int64 infer_call_retained_bytes(void);
/* The limits of a server, as its options and the settings say now, count at once for its admission
 * key. Raises unless the current user may say so. */
extern void infer_call_apply_limits(const char *server_name);
extern void infer_client_close(InferClient *client); /* cancels what still runs */
extern const InferClientStats *infer_client_stats(InferClient *client);
/* Shows in infer.stat_progress what the client does from now on, and how many rows its owner has
 * returned. */
extern void infer_client_show(InferClient *client, int64 rows);

/*
 * Begins a call.  Returns NULL (and counts it) when an argument is NULL: the result is NULL and
 * nothing is asked.  Raises configuration errors (unknown model, no USAGE, bad option).  Detoasts
 * and copies what it needs.  The entry is pinned.
 */
extern InferEntry *infer_call_begin(InferClient *client, const InferFunction *function,
									const Datum *args, const bool *nulls);
/* Is there a result, or an error that ends the statement? */
extern bool infer_call_done(const InferEntry *entry);
/* The value. The entry must be done. floats/text/jsonb point into the entry (valid while pinned);
 * outcomes are built in the current context. Raises a failed call unless on_error is null or the
 * function is a try_ twin. result_type: the composite's OID for try_ twins, from the FuncExpr. */
extern Datum infer_call_result(InferEntry *entry, const InferFunction *function, Oid result_type,
							   bool *isnull);
/* Would result() raise? The entry must be done. A scan asks, so that a row that was read ahead does
 * not raise before it is due. */
extern bool infer_call_raises(const InferEntry *entry, const InferFunction *function);
/* The row is gone, and the entry with it. Raises nothing. */
extern void infer_call_unpin(InferEntry *entry);
/* Bytes that the entry holds (input and result), for a scan's budget. */
extern size_t infer_call_bytes(const InferEntry *entry);
/* Items that fit in one batch of this entry's class; at least 1. */
extern int infer_call_batch_items(const InferEntry *entry);
/* Inputs that fill all requests which the client may have in flight, as it looks now. */
extern int64 infer_client_capacity(const InferClient *client);
/* Inputs that could leave at once if they were there; 0 = enough of them wait already. */
extern int64 infer_client_hunger(InferClient *client);
/* So many calls will follow those begun, as a guess; <= 0: nothing is known. */
extern void infer_client_expect(InferClient *client, int64 calls);

/*
 * Does all that can be done without sleeping: takes finished transfers (of every client), sends
 * full batches as permits allow.  starved: nothing of the client's owner can advance before an
 * answer, so short batches leave too (unless batch mode wants more input).  input_ended: no further
 * call will be begun.  Serves interrupts.
 */
extern void infer_client_push(InferClient *client, bool starved, bool input_ended);
/* Sleeps until something changed (an answer, a permit, a deadline). Returns at once if nothing of
 * this client is on its way. */
extern void infer_client_wait(InferClient *client);
/* Is nothing of this client on its way (in flight, waiting for a permit, or for a retry's time),
 * nor what its entries joined of other clients?  Then open batches are all that is left, and a scan
 * that cannot read on says input_ended so that they leave (see core/batch.h). */
extern bool infer_client_idle(const InferClient *client);
/* Waits until the entry is done, pushing as needed (starved). */
extern void infer_client_finish(InferClient *client, InferEntry *entry, bool input_ended);
/* Forgets open batches and cancels transfers (rescan); entries stay pinned by their rows. */
extern void infer_client_cancel(InferClient *client);

/* The body of the SQL functions: begin, wait, result, with a client for the one call. */
extern Datum infer_call_direct(FunctionCallInfo fcinfo, const InferFunction *function);

/*
 * A plan is being made, or an executor started that will run nothing (EXPLAIN).  Kept by src/scan,
 * which calls end() also when there was an error.  Until then a call that the planner itself
 * evaluates, to estimate by its value, is not made and gives NULL; calls of functions that it
 * evaluates obey pg_inference.plan_time_calls.
 */
typedef struct InferPlanning
{
	int depth;
	void *context; /* error_context_stack of who plans */
} InferPlanning;

/* begin() returns what end() is to be given, so that they can be nested. */
extern InferPlanning infer_planning_begin(void);
extern void infer_planning_end(InferPlanning before);

extern void infer_call_init(void); /* from _PG_init: transaction callbacks */

#endif
