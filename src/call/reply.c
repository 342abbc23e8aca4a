/*
 * call/reply.c - a whole answer with a good status: its items become the values of the rows.
 *
 * What cannot be read fails the batch, a row without a usable result fails alone.  Usage is counted
 * and put beside each answer, and what the model took is remembered for estimates.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/memutils.h"

#include "call/attempts.h"
#include "call/batch.h"
#include "call/call.h"
#include "call/class.h"
#include "call/client.h"
#include "call/convert.h"
#include "call/finish.h"
#include "call/memo.h"
#include "call/place.h"
#include "call/route.h"
#include "call/sizes.h"
#include "core/cost.h"
#include "core/types.h"
#include "http/transport.h"
#include "pg/clock.h"
#include "pg/compat.h"
#include "pg/guc.h"
#include "provider/provider.h"
#include "registry/registry.h"
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

/* In words, why a result cannot be used; NULL where the reason says all. */
static const char *
item_problem(InferTask task, const InferReply *reply, const InferItem *item)
{
	if (item->reason == INFER_REASON_REFUSED)
		return infer_convert_lossy(reply->words);
	if (item->reason == INFER_REASON_TRUNCATED && item->text_len == 0)
		return "there is no text before that";
	if (item->text_has_nul)
		return "the text contains a NUL character, which PostgreSQL cannot store";
	if (item->reason != INFER_REASON_MALFORMED_REPLY || task == INFER_TASK_EMBED)
		return NULL;
	return task == INFER_TASK_CALL ? "the answer is not valid Unicode, or has a number out of range"
								   : "the text is not valid Unicode";
}

/* Is a text that ends at a limit of tokens what the caller wants? Not if there is none. */
static bool
accepts_truncated(const InferAnswer *answer, const InferItem *item)
{
	return item->reason == INFER_REASON_TRUNCATED && item->text_len > 0 &&
		   answer->class->options.truncated == INFER_TRUNCATED_ACCEPT;
}

/* A text that cannot be taken is no matter of the wire format, which the reason's own hint is
 * about. */
static void
hint_at_text(InferAnswer *answer)
{
	if (answer->class->task != INFER_TASK_EMBED)
		answer->hint =
			"Text that is not valid can be taken with pg_inference.invalid_text = replace.";
}

/* Moves one item of a reply into its answer. */
static void
take_item(InferAnswer *answer, const InferReply *reply, const InferItem *item)
{
	MemoryContext context = infer_memo_context(answer->memo);
	const char *problem;
	float *floats;

	answer->truncated = accepts_truncated(answer, item);
	if (item->reason != INFER_REASON_NONE && !answer->truncated)
	{
		infer_answer_fail(answer, item->reason, INFER_EXECUTED,
						  item_problem(answer->class->task, reply, item));
		if (item->reason == INFER_REASON_MALFORMED_REPLY)
			hint_at_text(answer);
		return;
	}
	answer->execution = INFER_EXECUTED;
	if (answer->class->task == INFER_TASK_EMBED && item->dims > (int) MaxArraySize)
		infer_answer_fail(answer, INFER_REASON_REPLY_TOO_LARGE, INFER_EXECUTED,
						  "the embedding has more elements than an array can have");
	else if (answer->class->task == INFER_TASK_EMBED)
	{
		answer->value = make_floats(context, item->dims, &floats);
		infer_reply_floats(item, floats);
	}
	else
	{
		answer->value = infer_convert_value(answer->class->task, item->text, item->text_len,
											answer->class->options.invalid_text, context, &problem);
		if (answer->value == NULL)
		{
			infer_answer_fail(answer, INFER_REASON_MALFORMED_REPLY, INFER_EXECUTED, problem);
			hint_at_text(answer);
		}
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

	batch->charge.input = reply->prompt_tokens;
	batch->charge.output = reply->completion_tokens;
	stats->prompt_tokens += prompt;
	stats->completion_tokens += completion;
	return reply->prompt_tokens < 0 && reply->completion_tokens < 0 ? -1 : prompt + completion;
}

int64
infer_finish_usage(InferBatch *batch, const InferReply *reply)
{
	for (int i = 0; i < batch->nanswers; i++)
	{
		InferAnswer *answer = batch->answers[i];

		if (answer->state == INFER_ANSWER_DONE)
			continue; /* an error broke this off before */
		if (answer->usage != NULL)
			pfree(answer->usage); /* an earlier attempt's */
		answer->usage = make_usage(reply, batch->nanswers, infer_memo_context(answer->memo));
	}
	return count_tokens(batch, reply);
}

/* Answered requests only: how fast a server refuses says nothing of what its answers take. */
static void
note_figures(const InferBatch *batch, const InferReply *reply, int64 elapsed_us)
{
	const InferPlacement *placement = batch->place->placement;
	InferRequestFigures figures = {
		.seconds = elapsed_us / 1e6,
		.rows = batch->nanswers,
		.input_tokens = reply->prompt_tokens,
		.output_tokens = reply->completion_tokens,
	};
	InferObservedKey key;

	infer_observed_key(&key, placement->server->oid, batch->class->task, placement->remote_model);
	infer_observed_note(&key, placement->server->name, &figures);
}

/* The reply's items become the batch's answers; returns its tokens.  An error (no memory, a cancel)
 * must not leave behind what the reply has malloc'd. */
static int64
take_reply(InferBatch *batch, InferReply *reply, int status)
{
	int64 total_us = infer_now_us() - batch->first_sent_us;
	volatile int64 tokens = -1;

	PG_TRY();
	{
		infer_echo_mask(batch, reply->words);
		tokens = infer_finish_usage(batch, reply);
		for (int i = 0; i < batch->nanswers; i++)
		{
			InferAnswer *answer = batch->answers[i];

			if (answer->state == INFER_ANSWER_DONE)
				continue; /* an error broke this off before */
			take_item(answer, reply, &reply->items[i]);
			infer_answer_resolve(batch, answer, status, total_us);
		}
	}
	PG_CATCH();
	{
		infer_reply_free(reply);
		PG_RE_THROW();
	}
	PG_END_TRY();
	return tokens;
}

/* A whole answer with a good status: its items go to the rows. */
void
infer_finish_reply(InferBatch *batch, const InferHttpResult *result)
{
	InferReply reply;
	InferFault fault = {INFER_REASON_NONE};
	int status = result->wire.status;
	int64 tokens;

	if (!infer_provider_parse(batch->place->provider, batch->class->task, result->body->data,
							  result->body->len, batch->nanswers,
							  batch->class->options.invalid_text == INFER_INVALID_TEXT_REPLACE,
							  &reply, &fault))
	{
		batch->charge.failed = true;
		tokens = infer_finish_usage(batch, &reply);
		infer_finish_landed(batch, fault.reason, INFER_VERDICT_ERROR, result, tokens);
		infer_attempts_note(batch, fault.reason, fault.execution, status, fault.message);
		infer_finish_fail(batch, fault.reason, fault.execution, status, fault.message);
		return;
	}
	tokens = take_reply(batch, &reply, status);
	note_figures(batch, &reply, result->elapsed_us);
	infer_sizes_taken_by(batch, reply.prompt_tokens);
	infer_reply_free(&reply);
	infer_finish_landed(batch, INFER_REASON_NONE, INFER_VERDICT_SUCCESS, result, tokens);
	infer_route_succeeded(batch);
	infer_batch_free(batch);
}
