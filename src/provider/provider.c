/*
 * provider/provider.c - finding a wire format, and what all of them share.
 *
 * Raw calls (INFER_TASK_CALL) are the same for every format: one JSON value out, one back.
 */
#include "provider/internal.h"
#include "provider/sse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const InferProvider *const providers[] = {&infer_provider_openai};

const InferProvider *
infer_provider_find(const char *name)
{
	for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++)
	{
		if (strcmp(providers[i]->name, name) == 0)
			return providers[i];
	}
	return NULL;
}

const char *
infer_provider_names(void)
{
	return "openai";
}

const char *
infer_provider_path(const InferProvider *provider, InferTask task)
{
	return provider->path[task];
}

const char *
infer_provider_idempotency_header(const InferProvider *provider)
{
	return provider->idempotency_header;
}

int
infer_provider_max_items(const InferProvider *provider, InferTask task)
{
	return provider->max_items[task];
}

size_t
infer_provider_max_bytes(const InferProvider *provider, InferTask task)
{
	return provider->max_bytes[task];
}

bool
infer_fault(InferFault *fault, InferReason reason, const char *format, ...)
{
	va_list args;

	fault->reason = reason;
	va_start(args, format);
	vsnprintf(fault->message, sizeof(fault->message), format, args);
	va_end(args);
	return false;
}

bool
infer_fault_memory(InferFault *fault)
{
	return infer_fault(fault, INFER_REASON_INTERNAL, "out of memory");
}

bool
infer_fault_json(InferFault *fault)
{
	return infer_fault(fault, INFER_REASON_MALFORMED_REPLY,
					   "the answer is not valid JSON, or nested too deeply");
}

bool
infer_provider_build(const InferProvider *provider, const InferRequestShape *shape,
					 const InferInput *inputs, int ninputs, InferBuf *out, InferFault *fault)
{
	fault->reason = INFER_REASON_NONE;
	fault->message[0] = '\0';
	fault->execution = INFER_NOT_ADMITTED;
	if (ninputs < 1 || (ninputs > 1 && provider->max_items[shape->task] == 1))
		return infer_fault(fault, INFER_REASON_INTERNAL, "%d inputs for one %s request", ninputs,
						   infer_task_name(shape->task));
	for (int i = 0; i < ninputs; i++)
	{
		if (!infer_utf8_valid(inputs[i].data, inputs[i].len))
			return infer_fault(fault, INFER_REASON_BAD_REQUEST, "the input is not valid UTF-8");
	}
	if (shape->task == INFER_TASK_CALL)
	{
		InferJson j = infer_json_start(inputs[0].data, inputs[0].len);

		if (!infer_json_value(&j, NULL) || !infer_json_at_end(&j))
			return infer_fault(fault, INFER_REASON_BAD_REQUEST,
							   "the body is not one JSON value, or nested too deeply");
		infer_buf_add(out, inputs[0].data, inputs[0].len);
	}
	else if (!provider->build(shape, inputs, ninputs, out, fault))
		return false;
	if (out->nomem)
		return infer_fault_memory(fault);
	if (out->overflow)
		return infer_fault(fault, INFER_REASON_REQUEST_TOO_LARGE,
						   "the request would be larger than %zu bytes", out->max);
	return true;
}

static bool
top_member(void *reply, const InferSlice *key, InferJson *j)
{
	return infer_json_key_is(key, "usage") ? infer_reply_read_usage(reply, j)
										   : infer_json_value(j, NULL);
}

void
infer_provider_find_usage(const char *body, size_t len, InferReply *reply)
{
	InferJson j = infer_json_start(len > 0 ? body : "", len);

	memset(reply, 0, sizeof(*reply));
	reply->prompt_tokens = reply->completion_tokens = -1;
	if (infer_sse_sniff(body, len))
		infer_openai_stream_usage(body, len, reply);
	if (infer_json_peek(&j) == '{')
		(void) infer_json_members(&j, top_member, reply);
}

/* The usage in the body of a raw answer. */
static void
read_usage(InferReply *reply, const char *body, size_t len)
{
	InferReply said;

	infer_provider_find_usage(body, len, &said);
	reply->usage_json = said.usage_json;
	reply->usage_len = said.usage_len;
	reply->prompt_tokens = said.prompt_tokens;
	reply->completion_tokens = said.completion_tokens;
}

/* Makes the value one of valid text, in the arena. Numbers stay as they are. False: no memory. */
static bool
repair_value(InferReply *reply, InferSlice *value, InferTextFault *faults)
{
	InferArena *arena = reply->arena;

	arena->text = malloc(value->len * INFER_REPLACEMENT_GROWTH);
	if (arena->text == NULL)
		return false;
	value->len = infer_json_repair(value, arena->text);
	value->data = arena->text;
	*faults = (InferTextFault) (*faults & INFER_TEXT_NUMBER);
	return true;
}

/* The answer to a raw call: any JSON value that jsonb can hold. */
static bool
parse_raw(InferJson *body, InferReply *reply, InferFault *fault)
{
	InferItem *item = &reply->items[0];
	InferSlice value;
	InferTextFault faults;

	if (!infer_json_value(body, &value))
		return infer_fault_json(fault);
	faults = infer_json_value_check(&value);
	if (reply->repair && !repair_value(reply, &value, &faults))
		return infer_fault_memory(fault);
	item->text_has_nul = (faults & INFER_TEXT_HAS_NUL) != 0;
	if (faults != INFER_TEXT_FINE)
		item->reason = INFER_REASON_MALFORMED_REPLY;
	else
	{
		item->text = value.data;
		item->text_len = value.len;
	}
	read_usage(reply, value.data, value.len);
	return true;
}

bool
infer_provider_stream_facts(const char *body, size_t len, InferStreamFacts *facts)
{
	if (!infer_sse_sniff(body, len))
		return false;
	infer_openai_stream_facts(body, len, facts);
	return true;
}

/* A stream of events where one answer is usual. */
static bool
parse_stream(InferTask task, const char *body, size_t len, InferReply *reply, InferFault *fault)
{
	if (task == INFER_TASK_COMPLETE || task == INFER_TASK_CHAT)
		return infer_openai_parse_stream(body, len, reply, fault);
	return infer_fault(
		fault, INFER_REASON_MALFORMED_REPLY,
		"the answer is a stream of events, which %s cannot read; leave out \"stream\"",
		infer_task_name(task));
}

bool
infer_provider_parse(const InferProvider *provider, InferTask task, const char *body, size_t len,
					 int ninputs, bool repair, InferReply *reply, InferFault *fault)
{
	InferJson j = infer_json_start(len > 0 ? body : "", len);
	bool ok;

	memset(reply, 0, sizeof(*reply));
	reply->prompt_tokens = reply->completion_tokens = -1;
	reply->repair = repair;
	fault->reason = INFER_REASON_NONE;
	fault->message[0] = '\0';
	fault->execution = INFER_EXECUTED;
	if (ninputs < 1 || (ninputs > 1 && provider->max_items[task] == 1))
		return infer_fault(fault, INFER_REASON_INTERNAL, "%d answers of one %s request", ninputs,
						   infer_task_name(task));

	reply->nitems = ninputs;
	reply->items = calloc((size_t) ninputs, sizeof(InferItem));
	reply->arena = calloc(1, sizeof(InferArena));
	if (reply->items == NULL || reply->arena == NULL)
		ok = infer_fault_memory(fault);
	else if (infer_sse_sniff(body, len))
		ok = parse_stream(task, body, len, reply, fault);
	else if (task == INFER_TASK_CALL)
		ok = parse_raw(&j, reply, fault);
	else
		ok = provider->parse(task, &j, reply, fault);
	if (ok && !infer_sse_sniff(body, len) && !infer_json_at_end(&j))
		ok = infer_fault(fault, INFER_REASON_MALFORMED_REPLY,
						 "the answer has something behind its JSON value");
	if (!ok)
	{
		infer_reply_free(reply);
		infer_provider_find_usage(body, len, reply);
	}
	return ok;
}

bool
infer_item_set_text(InferReply *reply, InferItem *item, const InferSlice *string)
{
	InferArena *arena = reply->arena;
	InferTextFault faults;
	size_t len = string->len;

	if (reply->repair)
	{
		char *text = malloc(string->len * INFER_REPLACEMENT_GROWTH + 1);

		if (text == NULL)
			return false;
		len = infer_json_decode_repaired(string, text);
		faults = INFER_TEXT_FINE;
		free(arena->text);
		arena->text = text;
		item->text = text;
	}
	else if (string->escaped)
	{
		char *text = malloc(string->len + 1);

		if (text == NULL)
			return false;
		faults = infer_json_decode(string, text, &len);
		free(arena->text);
		arena->text = text;
		item->text = text;
	}
	else
	{
		faults = infer_utf8_valid(string->data, len) ? INFER_TEXT_FINE : INFER_TEXT_INVALID;
		item->text = string->data;
	}
	item->text_len = len;
	item->reason = INFER_REASON_NONE;
	item->text_has_nul = (faults & INFER_TEXT_HAS_NUL) != 0;
	if (faults != INFER_TEXT_FINE)
	{
		item->reason = INFER_REASON_MALFORMED_REPLY;
		item->text = NULL;
		item->text_len = 0;
	}
	return true;
}

bool
infer_reply_read_usage(InferReply *reply, InferJson *j)
{
	InferSlice usage;
	InferSlice key;
	InferJson members;
	bool first = true;

	if (!infer_json_value(j, &usage))
		return false;
	/* what jsonb could not hold is worth no failed row */
	if (usage.data[0] != '{' || infer_json_value_check(&usage) != INFER_TEXT_FINE)
		return true;
	reply->usage_json = usage.data;
	reply->usage_len = usage.len;

	members = infer_json_start(usage.data + 1, usage.len - 1);
	while (infer_json_next_member(&members, &first, &key) == INFER_JSON_ITEM)
	{
		int64_t n = -1;

		if (!infer_json_integer(&members, &n) && !infer_json_value(&members, NULL))
			return false;
		if (n < 0)
			continue;
		if (infer_json_key_is(&key, "prompt_tokens"))
			reply->prompt_tokens = n;
		else if (infer_json_key_is(&key, "completion_tokens"))
			reply->completion_tokens = n;
	}
	return true;
}

void
infer_reply_floats(const InferItem *item, float *dst)
{
	memcpy(dst, item->floats, (size_t) item->dims * sizeof(float));
}

void
infer_reply_free(InferReply *reply)
{
	InferArena *arena = reply->arena;

	if (arena != NULL)
	{
		infer_floats_free(&arena->floats);
		free(arena->text);
		free(arena);
	}
	free(reply->items);
	memset(reply, 0, sizeof(*reply));
}
