/*
 * call/client.c - whoever asks: begin, push, wait, close.
 *
 * A client is owned by the resource owner that was current when it was opened.  Its memory hangs
 * below TopMemoryContext: on abort, portals free the executor's contexts before resource owners are
 * released, and the release must still find its batches.
 */
#include "postgres.h"

#include "catalog/pg_proc.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/primnodes.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "call/batch.h"
#include "call/call.h"
#include "call/class.h"
#include "call/client.h"
#include "call/convert.h"
#include "call/copies.h"
#include "call/drain.h"
#include "call/lane.h"
#include "call/memo.h"
#include "call/permit.h"
#include "call/pump.h"
#include "call/tolerance.h"
#include "call/usage.h"
#include "http/transport.h"
#include "pg/clock.h"
#include "pg/compat.h"
#include "pg/guc.h"
#include "pg/owner.h"
#include "pg/report.h"
#include "pg/wait.h"
#include "registry/functions.h"
#include "shmem/gateway.h"
#include "shmem/progress.h"
#include "shmem/route.h"

static InferPlanning planning;

/* Gives back everything of a client; also the callback of a resource owner, so it never raises. */
static void
client_release(InferOwned *owned)
{
	InferClient *client = (InferClient *) ((char *) owned - offsetof(InferClient, owned));
	dlist_mutable_iter iter;

	infer_pump_drop(client);
	if (client->shown)
		infer_progress_end(client->progress);
	dlist_foreach_modify(iter, &client->entries)
		infer_memo_unpin(dlist_container(InferEntry, node, iter.cur)->answer);
	if (client->last_class != NULL)
	{
		/* that of a single call waits for the statement's end, or for company */
		if (client->stats.memo_hits > 1)
			infer_usage_flush_hits(client->last_class);
		infer_memo_class_release(client->last_class);
	}
	dlist_delete(&client->node);
	if (dlist_is_empty(infer_pump_clients()))
		infer_route_wait_end();
	MemoryContextDelete(client->context);
}

InferClient *
infer_client_open(void)
{
	MemoryContext context;
	InferClient *client;

	infer_require_preload();
	infer_gateway_check();
	/* as large as a single call needs, and of the sizes that PostgreSQL keeps for the next one */
	context =
		AllocSetContextCreate(TopMemoryContext, "pg_inference client", ALLOCSET_DEFAULT_SIZES);
	client = MemoryContextAllocZero(context, sizeof(InferClient));
	client->context = context;
	dlist_init(&client->entries);
	dlist_init(&client->open);
	dlist_init(&client->ready);
	dlist_init(&client->sleeping);
	dlist_init(&client->running);
	dlist_init(&client->loose);
	client->evictions_before = infer_memo_evictions();
	dlist_push_tail(infer_pump_clients(), &client->node);
	infer_owner_remember(&client->owned, client_release);
	return client;
}

void
infer_client_close(InferClient *client)
{
	infer_owner_forget(&client->owned);
	client_release(&client->owned);
}

/* End of the transaction: whatever is still open belongs to nobody. */
void
infer_client_close_all(bool complain)
{
	dlist_head *clients = infer_pump_clients();

	while (!dlist_is_empty(clients))
	{
		if (complain)
			elog(WARNING, "pg_inference client was still open at commit");
		infer_client_close(dlist_head_element(InferClient, node, clients));
	}
}

const InferClientStats *
infer_client_stats(InferClient *client)
{
	/* evictions are the process's; a client reports those since it was opened */
	client->stats.evictions = infer_memo_evictions() - client->evictions_before;
	infer_lane_stats(client);
	return &client->stats;
}

InferPlanning
infer_planning_begin(void)
{
	InferPlanning before = planning;

	planning.depth++;
	planning.context = error_context_stack;
	return before;
}

void
infer_planning_end(InferPlanning before)
{
	planning = before;
}

/*
 * Is it the planner that evaluates this call, and not a function that it evaluates?  Estimates are
 * all that it may use the value of a STABLE function for; that of one which somebody has declared
 * IMMUTABLE becomes part of the plan.  Functions in SQL or another language,
 * and whatever uses SPI, say in the error context where they are; functions in C that call others
 * by OID give no expression.
 */
bool
infer_planning_estimates(FunctionCallInfo fcinfo)
{
	Node *expr = fcinfo->flinfo->fn_expr;

	return planning.depth > 0 && planning.context == error_context_stack && expr != NULL &&
		   IsA(expr, FuncExpr) && ((FuncExpr *) expr)->funcid == fcinfo->flinfo->fn_oid &&
		   func_volatile(fcinfo->flinfo->fn_oid) != PROVOLATILE_IMMUTABLE;
}

static void
publish(InferClient *client, InferProgressWait wait)
{
	const InferClientStats *stats = &client->stats;
	InferProgressFigures figures = {
		.rows = client->rows,
		.calls = stats->calls,
		.requests = stats->requests,
		.retries = stats->retries,
		.errors = stats->errors,
		.tokens = stats->prompt_tokens + stats->completion_tokens,
		.in_flight = client->nrunning,
		.wait = wait,
	};

	if (client->shown)
		infer_progress_set(client->progress, &figures);
}

void
infer_client_show(InferClient *client, int64 rows)
{
	if (!client->shown)
		client->progress = infer_progress_begin();
	client->shown = true;
	client->rows = rows;
	publish(client, INFER_PROGRESS_RUNNING);
}

/* A wrapper that the planner evaluates to estimate a selectivity would call the model. */
static void
check_planning(const InferClass *class)
{
	if (planning.depth == 0 || infer_guc_plan_time_calls)
		return;
	ereport(ERROR,
			(errcode(infer_errcode_config()),
			 errmsg("the planner would call model \"%s\" while it plans", class->target->model),
			 errdetail("pg_inference.plan_time_calls is \"error\"."),
			 errhint("Use the function directly, or write (SELECT f(x)) instead of f(x), or set "
					 "pg_inference.plan_time_calls to \"allow\".")));
}

/* The input argument as it is, in the current context (or in the datum). */
static const char *
input_bytes(const InferFunction *function, Datum input, size_t *len)
{
	const char *bytes;

	if (function->input_is_jsonb)
	{
		Jsonb *jb = DatumGetJsonbP(input);

		bytes = JsonbToCString(NULL, &jb->root, VARSIZE(jb));
		*len = strlen(bytes);
	}
	else
	{
		text *t = DatumGetTextPP(input);

		bytes = VARDATA_ANY(t);
		*len = VARSIZE_ANY_EXHDR(t);
	}
	return bytes;
}

/* The answer of a text that cannot be sent is a failure: in the memo, so that it is one failure. */
static InferAnswer *
unsendable_answer(InferClass *class, const char *bytes, size_t len)
{
	char *key = MemoryContextAllocHuge(CurrentMemoryContext, len + 1);
	InferAnswer *answer;
	bool found;

	key[0] = INFER_UNSENDABLE;
	memcpy(key + 1, bytes, len);
	answer = infer_memo_answer(class, key, len + 1, &found);
	pfree(key);
	return answer;
}

InferEntry *
infer_call_begin(InferClient *client, const InferFunction *function, const Datum *args,
				 const bool *nulls)
{
	InferClass *class;
	InferAnswer *answer;
	InferEntry *entry;
	const char *input;
	size_t len;
	bool sendable;
	bool found;

	for (int i = 0; i < function->nargs; i++)
		if (nulls[i])
		{
			client->stats.null_inputs++;
			return NULL;
		}
	class = infer_class_get(client, function, args);
	input = input_bytes(function, args[1], &len);
	entry = MemoryContextAlloc(client->context, sizeof(InferEntry));
	sendable = infer_convert_input(class->options.invalid_text, &input, &len);
	answer = sendable ? infer_memo_answer(class, input, len, &found)
					  : unsendable_answer(class, input, len);
	infer_memo_pin(answer);
	entry->client = client;
	entry->answer = answer;
	dlist_push_tail(&client->entries, &entry->node);
	client->stats.calls++;
	if (answer->state == INFER_ANSWER_IDLE && !sendable)
		infer_pump_refuse(client, answer, "the input is not valid in the database's encoding");
	else if (answer->state == INFER_ANSWER_IDLE)
	{
		check_planning(class);
		infer_pump_ask(client, answer);
	}
	else
	{
		client->stats.memo_hits++;
		class->memo_hits++;
		if (answer->state == INFER_ANSWER_BATCHED && answer->batch->client != client)
			client->has_foreign = true;
	}
	return entry;
}

bool
infer_call_done(const InferEntry *entry)
{
	/* of a stopped statement nothing is waited for: the error is there */
	return entry->answer->state == INFER_ANSWER_DONE || infer_tolerance_stopped(entry->answer);
}

void
infer_call_unpin(InferEntry *entry)
{
	dlist_delete(&entry->node);
	infer_memo_unpin(entry->answer);
	pfree(entry);
}

size_t
infer_call_bytes(const InferEntry *entry)
{
	return entry->answer->bytes;
}

int
infer_call_batch_items(const InferEntry *entry)
{
	return Max(1, entry->answer->class->limits.max_items);
}

/* After another client went away, asks again what this one's rows still wait for. */
static void
ask_again(InferClient *client)
{
	dlist_iter iter;

	client->ask_again = false;
	dlist_foreach(iter, &client->entries)
	{
		InferAnswer *answer = dlist_container(InferEntry, node, iter.cur)->answer;

		if (answer->state == INFER_ANSWER_IDLE)
			infer_pump_ask(client, answer);
	}
}

static void
push_one(InferClient *client, bool starved, bool input_ended)
{
	infer_pump_fail_loose(client);
	if (client->ask_again)
		ask_again(client);
	infer_pump_flush(client, starved, input_ended);
	if (!dlist_is_empty(&client->ready) || !dlist_is_empty(&client->sleeping))
		infer_pump_send(client);
	infer_copies_send(client);
}

void
infer_client_push(InferClient *client, bool starved, bool input_ended)
{
	dlist_iter iter;

	CHECK_FOR_INTERRUPTS();
	client->input_ended = input_ended;
	infer_pump_collect();
	(void) infer_drain_cut();
	dlist_foreach(iter, infer_pump_clients())
	{
		InferClient *other = dlist_container(InferClient, node, iter.cur);

		if (other == client)
			push_one(client, starved, input_ended);
		else
			push_one(other, starved && client->has_foreign, starved && client->has_foreign);
	}
}

/* Is anything on its way, in this process, that could wake us? */
static bool
anything_pending(const InferClient *client)
{
	dlist_iter iter;

	dlist_foreach(iter, infer_pump_clients())
	{
		InferClient *other = dlist_container(InferClient, node, iter.cur);

		if ((other == client || client->has_foreign) &&
			(!dlist_is_empty(&other->running) || !dlist_is_empty(&other->ready) ||
			 !dlist_is_empty(&other->sleeping)))
			return true;
	}
	return false;
}

bool
infer_client_idle(const InferClient *client)
{
	return !client->ask_again && !anything_pending(client);
}

void
infer_client_expect(InferClient *client, int64 calls)
{
	client->expected = calls;
}

/* What keeps the client, as it is going to sleep. */
static InferWaitEvent
waits_for(InferClient *client)
{
	if (client->nrunning > 0)
		return INFER_WAIT_NETWORK;
	return dlist_is_empty(&client->ready) ? INFER_WAIT_RETRY : INFER_WAIT_PERMIT;
}

void
infer_client_wait(InferClient *client)
{
	static const InferProgressWait shown[] = {
		[INFER_WAIT_NETWORK] = INFER_PROGRESS_ANSWERS,
		[INFER_WAIT_PERMIT] = INFER_PROGRESS_PERMIT,
		[INFER_WAIT_RETRY] = INFER_PROGRESS_RETRY,
	};
	InferTransport *transport = infer_pump_transport();
	InferWaitEvent event;
	long timeout;
	int64 look_us = infer_drain_cut();
	int64 begin;

	/* what filled up since the last push has not tried for a permit: nobody would wake us */
	if (!dlist_is_empty(&client->ready))
		infer_pump_send(client);
	if (client->ask_again || !anything_pending(client))
		return;
	timeout = infer_transport_timeout_ms(transport);
	look_us = Min(look_us, Min(infer_pump_next_retry_us(), infer_permit_next_alarm_us()));
	look_us = Min(look_us, Min(infer_copies_next_us(), infer_pump_next_expiry_us()));
	begin = infer_now_us();
	event = waits_for(client);
	if (look_us != PG_INT64_MAX)
	{
		int64 ms = Max((look_us - begin + 999) / 1000, 0);

		timeout = timeout < 0 ? (long) ms : (long) Min(timeout, ms);
	}
	publish(client, shown[event]);
	if (timeout != 0)
	{
		infer_wait(infer_transport_fd(transport), timeout, event);
		infer_transport_watched(transport);
	}
	infer_pump_collect();
	if (event == INFER_WAIT_NETWORK)
		client->stats.network_wait_us += infer_now_us() - begin;
	else
		client->stats.permit_wait_us += infer_now_us() - begin;
}

void
infer_client_finish(InferClient *client, InferEntry *entry, bool input_ended)
{
	while (!infer_call_done(entry))
	{
		infer_client_push(client, true, input_ended);
		if (!infer_call_done(entry))
			infer_client_wait(client);
	}
}

void
infer_client_cancel(InferClient *client)
{
	infer_pump_drop(client);
	client->has_foreign = false;
}
