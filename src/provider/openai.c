/*
 * provider/openai.c - requests in the shape of the OpenAI HTTP API.
 *
 * vLLM, llama.cpp, text-embeddings-inference, Ollama and most hosted services speak it too.  One
 * body is written for each task:
 *
 *	embed		{"model": M, "input": [TEXT, ...], "encoding_format": "base64", PARAMETERS}
 *	complete	{"model": M, "messages": [{"role": "user", "content": TEXT}], PARAMETERS}
 *	chat		{"model": M, "messages": MESSAGES, PARAMETERS}
 *
 * PARAMETERS are the caller's members, byte for byte, with two exceptions.  `model` and the member
 * that holds the input (`input`, `messages`) are dropped, for the model and the input of a call are
 * its arguments.  `stream` may not be true for embeddings, which nobody streams.  An
 * `encoding_format` of the caller replaces ours.
 */
#include "provider/internal.h"

#include <string.h>

/* Is the value at the cursor the word true? */
static bool
is_true(const InferSlice *value)
{
	return value->len == 4 && memcmp(value->data, "true", 4) == 0;
}

/* Appends the members of the parameters that are not ours. */
static bool
add_parameters(const InferRequestShape *shape, InferBuf *out, bool *has_encoding, InferFault *fault)
{
	const char *input = shape->task == INFER_TASK_EMBED ? "input" : "messages";
	InferJson j;
	InferJsonStep step;
	InferSlice key;
	bool first = true;

	if (shape->parameters_json == NULL)
		return true;
	j = infer_json_start(shape->parameters_json, strlen(shape->parameters_json));
	if (!infer_json_open(&j, '{'))
		return infer_fault(fault, INFER_REASON_BAD_REQUEST, "parameters must be a JSON object");
	while ((step = infer_json_next_member(&j, &first, &key)) == INFER_JSON_ITEM)
	{
		InferSlice value;

		if (!infer_json_value(&j, &value))
			break;
		if (infer_json_key_is(&key, "model") || infer_json_key_is(&key, input))
			continue;
		if (shape->task == INFER_TASK_EMBED && infer_json_key_is(&key, "stream") && is_true(&value))
			return infer_fault(
				fault, INFER_REASON_BAD_REQUEST,
				"the parameter \"stream\" cannot be true: embeddings are not streamed");
		if (infer_json_key_is(&key, "encoding_format"))
			*has_encoding = true;
		infer_buf_adds(out, ",\"");
		infer_buf_add(out, key.data, key.len);
		infer_buf_adds(out, "\":");
		infer_buf_add(out, value.data, value.len);
	}
	if (step != INFER_JSON_DONE || !infer_json_at_end(&j))
		return infer_fault(fault, INFER_REASON_BAD_REQUEST,
						   "parameters are not valid JSON, or nested too deeply");
	return true;
}

static bool
add_chat_messages(const InferInput *input, InferBuf *out, InferFault *fault)
{
	InferJson j = infer_json_start(input->data, input->len);
	InferSlice messages;

	if (infer_json_peek(&j) != '[' || !infer_json_value(&j, &messages) || !infer_json_at_end(&j))
		return infer_fault(fault, INFER_REASON_BAD_REQUEST,
						   "messages must be a JSON array of objects with role and content");
	infer_buf_add(out, messages.data, messages.len);
	return true;
}

/* Failed appends are noticed by the caller, in the buffer's flags. */
static bool
openai_build(const InferRequestShape *shape, const InferInput *inputs, int ninputs, InferBuf *out,
			 InferFault *fault)
{
	bool has_encoding = false;

	infer_buf_adds(out, "{\"model\":");
	infer_buf_add_json_string(out, shape->remote_model, strlen(shape->remote_model));
	if (shape->task == INFER_TASK_EMBED)
	{
		infer_buf_adds(out, ",\"input\":[");
		for (int i = 0; i < ninputs; i++)
		{
			if (i > 0)
				infer_buf_addc(out, ',');
			infer_buf_add_json_string(out, inputs[i].data, inputs[i].len);
		}
		infer_buf_addc(out, ']');
	}
	else if (shape->task == INFER_TASK_COMPLETE)
	{
		infer_buf_adds(out, ",\"messages\":[{\"role\":\"user\",\"content\":");
		infer_buf_add_json_string(out, inputs[0].data, inputs[0].len);
		infer_buf_adds(out, "}]");
	}
	else
	{
		infer_buf_adds(out, ",\"messages\":");
		if (!add_chat_messages(&inputs[0], out, fault))
			return false;
	}
	if (!add_parameters(shape, out, &has_encoding, fault))
		return false;
	if (shape->task == INFER_TASK_EMBED && shape->ask_base64 && !has_encoding)
		infer_buf_adds(out, ",\"encoding_format\":\"base64\"");
	infer_buf_addc(out, '}');
	return true;
}

static bool
openai_parse(InferTask task, InferJson *body, InferReply *reply, InferFault *fault)
{
	if (task == INFER_TASK_EMBED)
		return infer_openai_parse_embeddings(body, reply, fault);
	return infer_openai_parse_text(body, reply, fault);
}

/* 1 MiB of text is some 260,000 tokens: below the 300,000 that the hosted API takes in a request.
 */
#define EMBED_BYTES     ((size_t) 1 << 20)
#define ONE_INPUT_BYTES ((size_t) 64 << 20)

const InferProvider infer_provider_openai = {.name = "openai",
											 .idempotency_header = "Idempotency-Key",
											 .path = {[INFER_TASK_EMBED] = "/embeddings",
													  [INFER_TASK_COMPLETE] = "/chat/completions",
													  [INFER_TASK_CHAT] = "/chat/completions",
													  [INFER_TASK_CALL] = ""},
											 .max_items = {[INFER_TASK_EMBED] = 128,
														   [INFER_TASK_COMPLETE] = 1,
														   [INFER_TASK_CHAT] = 1,
														   [INFER_TASK_CALL] = 1},
											 .max_bytes = {[INFER_TASK_EMBED] = EMBED_BYTES,
														   [INFER_TASK_COMPLETE] = ONE_INPUT_BYTES,
														   [INFER_TASK_CHAT] = ONE_INPUT_BYTES,
														   [INFER_TASK_CALL] = ONE_INPUT_BYTES},
											 .build = openai_build,
											 .parse = openai_parse};
