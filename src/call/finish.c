/*
 * call/finish.c - what becomes of a request that ended: classify it, feed the controllers, and pass
 * it on to reply.c (a good status) or failure.c (everything else).
 *
 * Order matters: the proof is made from what the wire showed, the verdict goes to the admission
 * table with the permit, and only then may anything be sent again.  Nothing raises for a remote
 * failure here; failures are kept in the answers and raised when a row is emitted.
 */
#include "postgres.h"

#include "call/attempts.h"
#include "call/batch.h"
#include "call/call.h"
#include "call/causes.h"
#include "call/class.h"
#include "call/client.h"
#include "call/copies.h"
#include "call/drain.h"
#include "call/finish.h"
#include "call/incarnation.h"
#include "call/lane.h"
#include "call/memo.h"
#include "call/place.h"
#include "call/retry.h"
#include "call/tolerance.h"
#include "call/usage.h"
#include "core/buf.h"
#include "core/incarnation.h"
#include "core/limiter.h"
#include "core/proof.h"
#include "core/types.h"
#include "http/transport.h"
#include "pg/clock.h"
#include "pg/compat.h"
#include "provider/json_scan.h"
#include "provider/provider.h"
#include "shmem/admission.h"
#include "shmem/drain.h"
#include "shmem/route.h"
#include "shmem/usage.h"

/* One answer has failed; it still is to be resolved. */
void
infer_answer_fail(InferAnswer *answer, InferReason reason, InferExecution execution,
				  const char *detail)
{
	answer->reason = reason;
	answer->execution = execution;
	if (detail != NULL && detail[0] != '\0')
		answer->detail = MemoryContextStrdup(infer_memo_context(answer->memo), detail);
}

const char *
infer_answer_server(const InferAnswer *answer)
{
	const InferClass *class = answer->class;

	if (answer->place != NULL)
		return answer->place->placement->server->name;
	return class->nplaces == 1 ? class->places[0].placement->server->name : NULL;
}

/* The last words on one answer of a batch that landed. */
void
infer_answer_resolve(InferBatch *batch, InferAnswer *answer, int http_status, int64 elapsed_us)
{
	size_t bytes = answer->value ? VARSIZE(answer->value) : 0;

	answer->http_status = http_status;
	answer->place = batch->place;
	answer->attempts = batch->attempts;
	answer->retry_denied = batch->retry_denied;
	answer->elapsed_us = elapsed_us;
	if (answer->detail != NULL)
		bytes += strlen(answer->detail) + 1;
	if (answer->tried != NULL)
		bytes += strlen(answer->tried) + 1;
	if (answer->usage != NULL)
		bytes += strlen(answer->usage) + 1;
	infer_memo_done(answer, bytes);
	infer_tolerance_note(answer);
	if (answer->reason == INFER_REASON_NONE || answer->reason == INFER_REASON_ERROR_RATIO)
		return;
	batch->client->stats.errors++;
	batch->client->stats.errors_by[answer->reason]++;
	infer_causes_note(answer);
}

/* Fails all answers of a batch, and frees it. */
void
infer_finish_fail(InferBatch *batch, InferReason reason, InferExecution execution, int http_status,
				  const char *detail)
{
	int64 elapsed = batch->first_sent_us ? infer_now_us() - batch->first_sent_us : 0;
	char *tried;

	if (batch->is_copy)
	{
		infer_batch_free(batch); /* the answers are another's */
		return;
	}
	tried = infer_attempts_tell(batch);

	execution = infer_proof_floor(execution, batch->floor);
	for (int i = 0; i < batch->nanswers; i++)
	{
		if (batch->answers[i]->state == INFER_ANSWER_DONE)
			continue; /* an error broke this off before */
		infer_answer_fail(batch->answers[i], reason, execution, detail);
		if (tried != NULL)
			batch->answers[i]->tried =
				MemoryContextStrdup(infer_memo_context(batch->answers[i]->memo), tried);
		infer_answer_resolve(batch, batch->answers[i], http_status, elapsed);
	}
	if (tried != NULL)
		pfree(tried);
	infer_batch_free(batch);
}

/* Does it say that it is there, but not ready? */
static bool
is_loading(const InferHttpResult *result)
{
	return infer_provider_is_loading(result->wire.status, result->body->data, result->body->len);
}

/* Requests that the client still has to send there; -1 = not known. */
static int64
requests_left(const InferBatch *batch)
{
	const InferClient *client = batch->client;
	int64 left = client->nbatches - client->nrunning;

	if (!client->input_ended && client->expected <= 0)
		return -1;
	if (!client->input_ended)
		left += client->expected / Max(batch->lane->items, 1);
	/* of several servers, each gets what it takes of what is on its way */
	return batch->class->nplaces == 1 ? left
									  : left * batch->lane->running / Max(client->nrunning, 1);
}

/*
 * What the server took.  An answer that waited for a busy executor, or for a client to fetch, does
 * not tell: then 0, a success without a latency.
 */
static int64
server_time(const InferHttpResult *result)
{
	if (result->late_us > result->elapsed_us / 2)
		return 0;
	return result->elapsed_us - result->late_us / 2;
}

/*
 * A pause that the server asks for, in us; -1 if there is none that is waited for.  One that is
 * longer than a call may take fails the call at once, and must not keep the others, either.
 */
static int64
pause_us(const InferBatch *batch, int64 us)
{
	return infer_retry_pause_is_too_long(batch->class, us) ? -1 : us;
}

/* What the controllers hear of an attempt that was answered. */
static InferOutcome
outcome_of(const InferBatch *batch, InferReason reason, InferVerdict verdict,
		   const InferHttpResult *result)
{
	return (InferOutcome){
		.verdict = verdict,
		.reason = reason,
		.rtt_us = server_time(result),
		.units = 1,
		.retry_after_us =
			result->retry_after_ms >= 0 ? pause_us(batch, result->retry_after_ms * 1000) : -1,
		.left = requests_left(batch),
	};
}

/* ... and the key's minute; tokens = -1: the answer does not say. */
static InferRateNews
news_of(const InferBatch *batch, const InferOutcome *outcome, const InferHttpResult *result,
		int64 tokens)
{
	const InferHttpRate *rate = &result->rate;

	return (InferRateNews){
		.tokens = tokens,
		.requests = {rate->requests_left, pause_us(batch, rate->requests_reset_us)},
		.remaining_tokens = {rate->tokens_left, pause_us(batch, rate->tokens_reset_us)},
		.retry_after_us =
			outcome->verdict == INFER_VERDICT_OVERLOADED ? outcome->retry_after_us : -1,
	};
}

/* ... and the server's slot in the route table. */
static InferRouteOutcome
route_of(const InferBatch *batch, const InferOutcome *outcome, const InferHttpResult *result,
		 const char *incarnation)
{
	const InferClass *class = batch->class;
	int status = result->wire.status;

	return (InferRouteOutcome){
		.task = class->task,
		.reason = outcome->reason,
		.execution = batch->charge.execution,
		.verdict = outcome->verdict,
		.http_status = status,
		.loading = is_loading(result),
		.says_model = infer_provider_says_model(status, result->body->data, result->body->len),
		.model = batch->place->model_hash,
		.set_version = class->target->set_version,
		.latency_us = outcome->rtt_us,
		.units = class->task == INFER_TASK_EMBED  ? batch->nanswers
				 : class->task == INFER_TASK_CALL ? 0
												  : batch->charge.output,
		.retry_after_us = outcome->retry_after_us,
		.incarnation = incarnation,
	};
}

static void
count_attempt(InferClientStats *stats, InferVerdict verdict, const InferHttpResult *result)
{
	stats->bytes_sent += result->bytes_sent;
	stats->bytes_received += result->bytes_received;
	stats->latency_sum_us += result->elapsed_us;
	stats->latency_count++;
	stats->latency_max_us = Max(stats->latency_max_us, result->elapsed_us);
	if (stats->latency_min_us == 0 || result->elapsed_us < stats->latency_min_us)
		stats->latency_min_us = result->elapsed_us;
	if (verdict == INFER_VERDICT_OVERLOADED)
		stats->overloads++;
}

/*
 * Tells the controllers, and gives the permit back.  Once an attempt, however often an error has
 * broken the telling off before (infer_pump_collect); so this is where attempts are counted.
 */
void
infer_finish_landed(InferBatch *batch, InferReason reason, InferVerdict verdict,
					const InferHttpResult *result, int64 tokens)
{
	InferOutcome outcome = outcome_of(batch, reason, verdict, result);
	InferRateNews news = news_of(batch, &outcome, result, tokens);
	char said[INFER_INCARNATION_MAX];
	InferRouteOutcome route = route_of(batch, &outcome, result, said);

	infer_incarnation_said(batch->place, result, said);
	count_attempt(&batch->client->stats, verdict, result);
	infer_copies_landed(batch, reason);
	infer_drain_note(batch->place, INFER_DRAIN_FINISHED);
	infer_batch_landed(batch, &outcome, &news, &route);
}

/*
 * Of a streamed answer the body proves more, and less, than its bytes do.  What came to its end is
 * whole, however the connection ended; and before a token came, nothing shows that the model ran.
 */
static void
read_stream(InferTask task, const InferBuf *body, InferWire *wire)
{
	InferStreamFacts facts;

	if ((task != INFER_TASK_COMPLETE && task != INFER_TASK_CHAT) || body->len == 0 ||
		!infer_provider_stream_facts(body->data, body->len, &facts))
		return;
	wire->has_body = facts.tokens || facts.ended;
	if (facts.ended && (wire->end == INFER_WIRE_DISCONNECT || wire->end == INFER_WIRE_PARTIAL ||
						wire->end == INFER_WIRE_TIMEOUT))
		wire->end = INFER_WIRE_OK;
}

/* What the wire saw, what the body says and whom the server's owner trusts, put together. */
static InferFinding
classify(const InferBatch *batch, const InferHttpResult *result)
{
	InferWire wire = result->wire;
	InferFinding finding;

	if (wire.status >= 200 && wire.status < 300)
		read_stream(batch->class->task, result->body, &wire);
	wire.trust = batch->place->placement->server->trust;
	wire.quota = infer_provider_is_quota_error(wire.status, result->body->data, result->body->len);
	finding = infer_proof_classify(&wire);
	if (is_loading(result))
		finding.execution = INFER_NOT_ADMITTED; /* whoever sits in between: there is no model yet */
	return finding;
}

/*
 * JSON is UTF-8, whatever its header says, and most servers that announce something else send it
 * all the same.  What is not valid in it, and is said to be ISO 8859-1, is taken for that.  If
 * there is no room for it, it stays invalid.
 */
static void
recode(const InferHttpResult *result)
{
	if (result->latin1 && !infer_utf8_valid(result->body->data, result->body->len))
		(void) infer_buf_from_latin1(result->body);
}

/* The end of a running batch's transfer. */
void
infer_finish_transfer(InferBatch *batch, const InferHttpResult *result)
{
	InferFinding finding = classify(batch, result);

	if (finding.reason == INFER_REASON_NONE && infer_incarnation_is_wrong(batch->place, result))
		finding = (InferFinding){.reason = INFER_REASON_STALE_INCARNATION,
								 .execution = INFER_EXECUTED,
								 .verdict = INFER_VERDICT_SUCCESS};
	batch = infer_copies_settle(batch, &finding, result);
	if (batch == NULL)
		return;
	recode(result);
	infer_usage_found(batch, &finding, result->wire.left);
	if (finding.reason == INFER_REASON_NONE)
		infer_finish_reply(batch, result);
	else if (finding.reason == INFER_REASON_STALE_INCARNATION)
		infer_incarnation_discard(batch, &finding, result);
	else
		infer_finish_failure(batch, &finding, result);
	infer_usage_save_due();
}
