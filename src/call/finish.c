/*
 * call/finish.c - what becomes of a request that ended: classify, feed the controllers, resolve the
 * rows, or try again as policy allows.
 *
 * Order matters: the proof is made from what the wire showed, the verdict goes to the admission
 * table with the permit, and only then may anything be sent again.  Nothing raises for a remote
 * failure here; failures are kept in the answers and raised when a row is emitted.
 *
 * A batch that the server refused as too large, or that holds a row it does not like, is split in
 * halves.  Refusals are proof that nothing ran, so that no row is paid for twice, and a poison row
 * fails alone.  Splitting does not count as an attempt: it is the same attempt at fewer rows.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "utils/array.h"

#include "call/internal.h"
#include "core/proof.h"
#include "core/retry.h"
#include "shmem/observed.h"

#define USAGE_MAX 8192 /* bytes; it is some hundred */

/* A real[] of n floats in the memo, with *data to be filled. */
static struct varlena *
make_floats(MemoryContext context, int n, float **data)
{
	Size size = ARR_OVERHEAD_NONULLS(1) + (Size) n * sizeof(float4);
	ArrayType *array = MemoryContextAllocExtended(context, size, MCXT_ALLOC_HUGE);

	memset(array, 0, ARR_OVERHEAD_NONULLS(1));
	SET_VARSIZE(array, size);
	array->ndim = 1;
	array->dataoffset = 0;
	array->elemtype = FLOAT4OID;
	ARR_DIMS(array)[0] = n;
	ARR_LBOUND(array)[0] = 1;
	*data = (float *) ARR_DATA_PTR(array);
	return (struct varlena *) array;
}

static void
set_failure(InferAnswer *answer, InferReason reason, InferExecution execution, const char *detail)
{
	answer->reason = reason;
	answer->execution = execution;
	if (detail != NULL && detail[0] != '\0')
		answer->detail = MemoryContextStrdup(infer_memo_context(answer->memo), detail);
}

/* The last words on one answer of a batch that landed. */
static void
resolve(InferBatch *batch, InferAnswer *answer, int http_status, int64 elapsed_us)
{
	size_t bytes = answer->value ? VARSIZE(answer->value) : 0;

	answer->http_status = http_status;
	answer->attempts = batch->attempts;
	answer->elapsed_us = elapsed_us;
	if (answer->detail != NULL)
		bytes += strlen(answer->detail) + 1;
	if (answer->usage != NULL)
		bytes += strlen(answer->usage) + 1;
	if (answer->reason != INFER_REASON_NONE)
		batch->client->stats.errors++;
	infer_memo_done(answer, bytes);
}

/* Fails all answers of a batch that is in no list, and frees it. */
void
infer_finish_fail(InferBatch *batch, InferReason reason, InferExecution execution, int http_status,
				  const char *detail)
{
	int64 elapsed = batch->first_sent_us ? infer_now_us() - batch->first_sent_us : 0;

	execution = infer_proof_floor(execution, batch->floor);
	for (int i = 0; i < batch->nanswers; i++)
	{
		set_failure(batch->answers[i], reason, execution, detail);
		resolve(batch, batch->answers[i], http_status, elapsed);
	}
	infer_batch_free(batch);
}

/* Is it worth asking for the halves of this refused batch? */
static bool
may_split(const InferBatch *batch, const InferFinding *finding, const InferHttpResult *result)
{
	if (batch->nanswers < 2)
		return false;
	if (finding->execution == INFER_NOT_ADMITTED &&
		(finding->reason == INFER_REASON_REQUEST_TOO_LARGE ||
		 finding->reason == INFER_REASON_BAD_REQUEST))
		return true;
	return infer_provider_is_size_error(result->wire.status, result->body->data, result->body->len);
}

/* Sends the same answers in new words. What was refused did not run and is no attempt. */
static void
rephrase(InferBatch *batch)
{
	batch->attempts--;
	infer_buf_reset(&batch->body);
	infer_batch_ready(batch);
}

static void
split(InferBatch *batch)
{
	InferBatch *rest = infer_batch_new(batch->client, batch->class);

	infer_batch_split(batch, rest, batch->nanswers / 2);
	rephrase(batch);
	rest->attempts = batch->attempts;
	rest->floor = batch->floor;
	rest->first_sent_us = batch->first_sent_us;
	infer_batch_ready(rest);
}

/* Masks the key wherever it stands in a text. */
static void
redact(char *text, size_t len, const char *key)
{
	size_t key_len = strlen(key);
	char *end = text + len;
	char *found;

	while (key_len > 0 && (found = memmem(text, end - text, key, key_len)) != NULL)
	{
		memset(found, '*', key_len);
		text = found + key_len;
	}
}

/*
 * The words of a failed attempt, without the key: some servers repeat the one they did not like.
 * It is read again for that, since nothing keeps it.  The body is masked before its words are
 * taken, for these are cut and would end in half a key; the words again, for they are decoded.
 */
static void
take_words(const InferClass *class, const InferHttpResult *result, char *words, size_t size)
{
	InferBuf *body = result->body;
	char *header = NULL;
	char *unused = NULL;
	const char *key = "";

	if (infer_registry_secret(class->target->server, class->userid, &header, &unused) ==
			INFER_REASON_NONE &&
		header != NULL)
		key = strrchr(header, ' ') + 1;
	words[0] = '\0';
	if (result->wire.status >= 300 && body->len > 0)
	{
		redact(body->data, body->len, key);
		infer_provider_error_text(body->data, body->len, words, size);
	}
	if (words[0] == '\0' && result->error != NULL)
		strlcpy(words, result->error, size);
	redact(words, strlen(words), key);
	if (header != NULL)
	{
		explicit_bzero(header, strlen(header));
		pfree(header);
	}
}

/* What is to be said of a failed attempt: the remote's own words for an error status, else the
 * library's. */
static void
describe(const InferBatch *batch, const InferHttpResult *result, char *detail, size_t size)
{
	char *converted;

	take_words(batch->class, result, detail, size);
	converted = infer_convert_lossy(detail);
	strlcpy(detail, converted, size);
	pfree(converted);
	/* a server that wants to be left alone for longer than a call may take is not waited for */
	if (result->retry_after_ms > batch->class->options.timeout_ms && detail[0] == '\0')
		snprintf(detail, size, "it asks for a pause of " INT64_FORMAT " s, longer than the timeout",
				 result->retry_after_ms / 1000);
}

/* Did the server refuse the request only because it does not know base64? */
static bool
refuses_base64(const InferBatch *batch, const InferFinding *finding, const InferHttpResult *result)
{
	return batch->asked_base64 && finding->reason == INFER_REASON_BAD_REQUEST &&
		   finding->execution == INFER_NOT_ADMITTED && result->body->len > 0 &&
		   strstr(result->body->data, "encoding_format") != NULL;
}

/* Requests that the client still has to send; -1 = not known. */
static int64
requests_left(const InferBatch *batch)
{
	const InferClient *client = batch->client;
	int64 made = client->nbatches - client->nrunning;

	if (client->input_ended)
		return made;
	return client->expected > 0 ? made + client->expected / Max(batch->lane->items, 1) : -1;
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
	return us > (int64) batch->class->options.timeout_ms * 1000 ? -1 : us;
}

/* What the controllers hear of an attempt that was answered. */
static InferOutcome
outcome_of(const InferBatch *batch, InferVerdict verdict, const InferHttpResult *result)
{
	return (InferOutcome){
		.verdict = verdict,
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

static void
landed(InferBatch *batch, InferVerdict verdict, const InferHttpResult *result, int64 tokens)
{
	InferOutcome outcome = outcome_of(batch, verdict, result);
	InferRateNews news = news_of(batch, &outcome, result, tokens);

	infer_batch_landed(batch, &outcome, &news);
}

/* A failed attempt: rephrase, split, repeat or give up. */
static void
handle_failure(InferBatch *batch, const InferFinding *finding, const InferHttpResult *result)
{
	const InferCallOptions *options = &batch->class->options;
	InferClientStats *stats = &batch->client->stats;
	int status = result->wire.status;
	int64 retry_after_ms = result->retry_after_ms;
	bool splitting = may_split(batch, finding, result);
	bool rephrasing = refuses_base64(batch, finding, result);
	char detail[512];

	describe(batch, result, detail, sizeof(detail));

	landed(batch, finding->verdict, result, finding->execution == INFER_NOT_ADMITTED ? 0 : -1);
	if (rephrasing)
	{
		infer_class_no_base64(batch->class);
		rephrase(batch);
		return;
	}
	if (splitting)
	{
		split(batch);
		return;
	}
	if (retry_after_ms <= options->timeout_ms &&
		infer_retry_allowed(options->retry, batch->attempts, options->max_attempts, finding->reason,
							finding->execution))
	{
		stats->retries++;
		batch->floor = infer_proof_floor(finding->execution, batch->floor);
		infer_batch_sleep(batch, infer_retry_delay_ms(batch->attempts, retry_after_ms,
													  pg_prng_double(&pg_global_prng_state)));
		return;
	}
	infer_finish_fail(batch, finding->reason, finding->execution, status, detail);
}

/* In words, why a result cannot be used; NULL where the reason says all. */
static const char *
item_problem(InferTask task, const InferItem *item)
{
	if (item->text_has_nul)
		return "the text contains a NUL character, which PostgreSQL cannot store";
	if (item->reason != INFER_REASON_MALFORMED_REPLY || task == INFER_TASK_EMBED)
		return NULL;
	return task == INFER_TASK_CALL ? "the answer is not valid Unicode, or has a number out of range"
								   : "the text is not valid Unicode";
}

/* Moves one item of a reply into its answer. */
static void
take_item(InferAnswer *answer, const InferItem *item)
{
	MemoryContext context = infer_memo_context(answer->memo);
	const char *problem;
	float *floats;

	if (item->reason != INFER_REASON_NONE)
	{
		set_failure(answer, item->reason, INFER_EXECUTED, item_problem(answer->class->task, item));
		return;
	}
	answer->execution = INFER_EXECUTED;
	if (answer->class->task == INFER_TASK_EMBED && item->dims > (int) MaxArraySize)
		set_failure(answer, INFER_REASON_REPLY_TOO_LARGE, INFER_EXECUTED,
					"the embedding has more elements than an array can have");
	else if (answer->class->task == INFER_TASK_EMBED)
	{
		answer->value = make_floats(context, item->dims, &floats);
		infer_reply_floats(item, floats);
	}
	else
	{
		answer->value =
			infer_convert_value(answer->class->task, item->text, item->text_len, context, &problem);
		if (answer->value == NULL)
			set_failure(answer, INFER_REASON_MALFORMED_REPLY, INFER_EXECUTED, problem);
	}
}

/*
 * The usage of the request that carried the answer.  When it carried several, the figures cannot be
 * told apart, so the number of inputs is added: {"items": 128, "request": {...}}.  Each answer has
 * its copy, so an absurdly long one is dropped.
 */
static char *
make_usage(const InferReply *reply, int nanswers, MemoryContext context)
{
	char *usage;

	if (reply->usage_json == NULL || reply->usage_len > USAGE_MAX)
		return NULL;
	usage = MemoryContextAlloc(context, reply->usage_len + 48);
	if (nanswers == 1)
		snprintf(usage, reply->usage_len + 48, "%.*s", (int) reply->usage_len, reply->usage_json);
	else
		snprintf(usage, reply->usage_len + 48, "{\"items\": %d, \"request\": %.*s}", nanswers,
				 (int) reply->usage_len, reply->usage_json);
	return usage;
}

/* Returns the tokens that the request took, -1 if its answer does not say. */
static int64
count_tokens(InferBatch *batch, const InferReply *reply)
{
	InferClientStats *stats = &batch->client->stats;
	int64 prompt = Max(reply->prompt_tokens, 0);
	int64 completion = Max(reply->completion_tokens, 0);

	stats->prompt_tokens += prompt;
	stats->completion_tokens += completion;
	infer_memo_charge_tokens(batch->class->memo, prompt + completion);
	return reply->prompt_tokens < 0 && reply->completion_tokens < 0 ? -1 : prompt + completion;
}

/* Answered requests only: how fast a server refuses says nothing of what its answers take. */
static void
note_figures(const InferBatch *batch, const InferReply *reply, int64 elapsed_us)
{
	const InferTarget *target = batch->class->target;
	InferRequestFigures figures = {
		.seconds = elapsed_us / 1e6,
		.rows = batch->nanswers,
		.input_tokens = reply->prompt_tokens,
		.output_tokens = reply->completion_tokens,
	};
	InferObservedKey key;

	infer_observed_key(&key, target->server->oid, batch->class->task, target->remote_model);
	infer_observed_note(&key, target->server->name, &figures);
}

/* A whole answer with a good status: its items go to the rows. */
static void
handle_reply(InferBatch *batch, const InferHttpResult *result)
{
	InferReply reply;
	InferFault fault = {INFER_REASON_NONE};
	int status = result->wire.status;
	int64 elapsed_us = result->elapsed_us;
	int64 total_us = infer_now_us() - batch->first_sent_us;
	int64 tokens;

	if (!infer_provider_parse(batch->class->provider, batch->class->task, result->body->data,
							  result->body->len, batch->nanswers, &reply, &fault))
	{
		landed(batch, INFER_VERDICT_ERROR, result, -1);
		infer_finish_fail(batch, fault.reason, INFER_EXECUTED, status, fault.message);
		return;
	}
	tokens = count_tokens(batch, &reply);
	for (int i = 0; i < batch->nanswers; i++)
	{
		InferAnswer *answer = batch->answers[i];

		if (answer->state == INFER_ANSWER_DONE)
			continue; /* an error broke this off before */
		take_item(answer, &reply.items[i]);
		answer->usage = make_usage(&reply, batch->nanswers, infer_memo_context(answer->memo));
		resolve(batch, answer, status, total_us);
	}
	note_figures(batch, &reply, elapsed_us);
	infer_reply_free(&reply);
	landed(batch, INFER_VERDICT_SUCCESS, result, tokens);
	infer_batch_free(batch);
}

/* The end of a running batch's transfer. */
void
infer_finish_transfer(InferBatch *batch, const InferHttpResult *result)
{
	InferFinding finding = infer_proof_classify(&result->wire);
	InferClientStats *stats = &batch->client->stats;

	stats->bytes_sent += result->bytes_sent;
	stats->bytes_received += result->bytes_received;
	stats->latency_sum_us += result->elapsed_us;
	stats->latency_count++;
	stats->latency_max_us = Max(stats->latency_max_us, result->elapsed_us);
	if (stats->latency_min_us == 0 || result->elapsed_us < stats->latency_min_us)
		stats->latency_min_us = result->elapsed_us;
	if (finding.verdict == INFER_VERDICT_OVERLOADED)
		stats->overloads++;
	if (finding.reason == INFER_REASON_NONE)
		handle_reply(batch, result);
	else
		handle_failure(batch, &finding, result);
}
