/*
 * sim/fuzz/request.c - request bodies.
 *
 * Inputs, a model's name and parameters, in any bytes.  What is built is one JSON object in UTF-8
 * that holds the model once, the inputs once, in order and byte for byte, and after them the
 * parameters' own members, byte for byte, but for those that would override a call's arguments.
 */
#include "fuzz.h"
#include "model.h"

#include "provider/json_scan.h"
#include "provider/provider.h"

#include <stdlib.h>
#include <string.h>

#define MAX_INPUTS 4

typedef struct Request
{
	InferRequestShape shape;
	InferInput inputs[MAX_INPUTS];
	int ninputs;
} Request;

/* Is this string, decoded, the given text? */
static bool
string_is(const InferSlice *string, const char *text, size_t len)
{
	char *plain = malloc(string->len + 1);
	size_t plain_len;
	int faults = model_decode(string->data, string->len, plain, &plain_len);
	bool same;

	/* a NUL is written as \u0000, which no decoder of ours lets through */
	if ((faults & MODEL_NUL) != 0)
		same = memchr(text, '\0', len) != NULL;
	else
		same = faults == 0 && plain_len == len && memcmp(plain, text, len) == 0;
	free(plain);
	return same;
}

static bool
key_is(const InferSlice *key, const char *name)
{
	return string_is(key, name, strlen(name));
}

static InferSlice
next_key(InferJson *j, bool *first)
{
	InferSlice key;

	REQUIRE(infer_json_next_member(j, first, &key) == INFER_JSON_ITEM);
	return key;
}

static void
require_string(InferJson *j, const char *text, size_t len)
{
	InferSlice string;

	REQUIRE(infer_json_peek(j) == '"' && infer_json_string(j, &string));
	REQUIRE(string_is(&string, text, len));
}

static void
require_texts(InferJson *j, const Request *request)
{
	bool first = true;

	REQUIRE(infer_json_open(j, '['));
	for (int i = 0; i < request->ninputs; i++)
	{
		REQUIRE(infer_json_next_element(j, &first) == INFER_JSON_ITEM);
		require_string(j, request->inputs[i].data, request->inputs[i].len);
	}
	REQUIRE(infer_json_next_element(j, &first) == INFER_JSON_DONE);
}

static void
require_prompt(InferJson *j, const Request *request)
{
	bool first = true;
	bool first_member = true;
	InferSlice key;

	REQUIRE(infer_json_open(j, '['));
	REQUIRE(infer_json_next_element(j, &first) == INFER_JSON_ITEM);
	REQUIRE(infer_json_open(j, '{'));
	key = next_key(j, &first_member);
	REQUIRE(key_is(&key, "role"));
	require_string(j, "user", 4);
	key = next_key(j, &first_member);
	REQUIRE(key_is(&key, "content"));
	require_string(j, request->inputs[0].data, request->inputs[0].len);
	REQUIRE(infer_json_next_member(j, &first_member, &key) == INFER_JSON_DONE);
	REQUIRE(infer_json_next_element(j, &first) == INFER_JSON_DONE);
}

static void
require_messages(InferJson *j, const Request *request)
{
	InferSlice messages;
	InferSlice given;
	InferJson input = infer_json_start(request->inputs[0].data, request->inputs[0].len);

	REQUIRE(infer_json_value(j, &messages) && messages.data[0] == '[');
	REQUIRE(infer_json_value(&input, &given) && infer_json_at_end(&input));
	REQUIRE(given.len == messages.len && memcmp(given.data, messages.data, given.len) == 0);
}

/* What is left of the body is what the parameters have, less what is ours. */
static void
require_parameters(InferJson *j, bool *first, const Request *request, const char *input_name)
{
	const char *parameters =
		request->shape.parameters_json != NULL ? request->shape.parameters_json : "{}";
	InferJson given = infer_json_start(parameters, strlen(parameters));
	bool asks = request->shape.task == INFER_TASK_EMBED && request->shape.ask_base64;
	bool given_first = true;
	InferSlice given_key;
	InferSlice key;

	REQUIRE(infer_json_open(&given, '{'));
	while (infer_json_next_member(&given, &given_first, &given_key) == INFER_JSON_ITEM)
	{
		InferSlice given_value;
		InferSlice value;

		REQUIRE(infer_json_value(&given, &given_value));
		if (key_is(&given_key, "model") || key_is(&given_key, input_name))
			continue;
		key = next_key(j, first);
		REQUIRE(infer_json_value(j, &value));
		REQUIRE(key.len == given_key.len && memcmp(key.data, given_key.data, key.len) == 0);
		REQUIRE(value.len == given_value.len &&
				memcmp(value.data, given_value.data, value.len) == 0);
		REQUIRE(request->shape.task != INFER_TASK_EMBED || !key_is(&key, "stream") ||
				value.len != 4 || memcmp(value.data, "true", 4) != 0);
		if (key_is(&key, "encoding_format"))
			asks = false;
	}
	if (asks)
	{
		key = next_key(j, first);
		REQUIRE(key_is(&key, "encoding_format"));
		require_string(j, "base64", 6);
	}
	REQUIRE(infer_json_next_member(j, first, &key) == INFER_JSON_DONE);
}

static void
check_body(const Request *request, const InferBuf *out)
{
	const InferRequestShape *shape = &request->shape;
	const char *input_name = shape->task == INFER_TASK_EMBED ? "input" : "messages";
	InferJson j = infer_json_start(out->data, out->len);
	InferSlice key;
	bool first = true;

	/* messages and parameters stand one container deep */
	REQUIRE(model_is_json(out->data, out->len, INFER_JSON_DEPTH + 1, false));
	REQUIRE(model_is_utf8(out->data, out->len));
	if (shape->task == INFER_TASK_CALL)
	{
		REQUIRE(out->len == request->inputs[0].len &&
				memcmp(out->data, request->inputs[0].data, out->len) == 0);
		return;
	}
	REQUIRE(infer_json_open(&j, '{'));
	key = next_key(&j, &first);
	REQUIRE(key_is(&key, "model"));
	require_string(&j, shape->remote_model, strlen(shape->remote_model));
	key = next_key(&j, &first);
	REQUIRE(key_is(&key, input_name));
	if (shape->task == INFER_TASK_EMBED)
		require_texts(&j, request);
	else if (shape->task == INFER_TASK_COMPLETE)
		require_prompt(&j, request);
	else
		require_messages(&j, request);
	require_parameters(&j, &first, request, input_name);
	REQUIRE(infer_json_at_end(&j));
}

static void
check_refusal(const Request *request, const InferFault *fault, size_t max)
{
	bool plain =
		request->shape.parameters_json == NULL &&
		(request->shape.task == INFER_TASK_EMBED || request->shape.task == INFER_TASK_COMPLETE);
	size_t size = 100 + strlen(request->shape.remote_model) * 6;

	REQUIRE(fault->message[0] != '\0');
	REQUIRE(model_is_utf8(fault->message, strlen(fault->message)));
	for (int i = 0; i < request->ninputs; i++)
	{
		size += request->inputs[i].len * 6 + 3;
		plain = plain && model_is_utf8(request->inputs[i].data, request->inputs[i].len);
	}
	if (fault->reason == INFER_REASON_REQUEST_TOO_LARGE)
		REQUIRE(max < size + (request->shape.parameters_json != NULL
								  ? strlen(request->shape.parameters_json)
								  : 0));
	else
		/* nothing is wrong with any valid text */
		REQUIRE(fault->reason == INFER_REASON_BAD_REQUEST && !plain);
}

/* A NUL-terminated text of valid UTF-8, as PostgreSQL passes it. */
static char *
take_string(FuzzInput *in, size_t len)
{
	FuzzText bytes = fuzz_take(in, len);
	char *string = calloc(bytes.len + 1, 1);

	memcpy(string, bytes.data, bytes.len);
	fuzz_free(&bytes);
	if (!model_is_utf8(string, strlen(string)))
		string[0] = '\0';
	return string;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FuzzInput in = {data, size};
	unsigned how = fuzz_byte(&in);
	unsigned more = fuzz_byte(&in);
	size_t max = more >= 224 ? (more - 224) * 8 : (size_t) 1 << 20;
	Request request = {.ninputs = 1};
	char *model = take_string(&in, how / 32);
	char *parameters = more % 4 != 0 ? take_string(&in, fuzz_byte(&in)) : NULL;
	FuzzText inputs[MAX_INPUTS];
	InferFault fault;
	InferBuf out;

	request.shape = (InferRequestShape){.task = (InferTask) (how % 4),
										.remote_model = model,
										.parameters_json = parameters,
										.ask_base64 = (how & 4) != 0};
	if (request.shape.task == INFER_TASK_EMBED)
		request.ninputs = 1 + (int) (how / 8 % MAX_INPUTS);
	for (int i = 0; i < request.ninputs; i++)
	{
		inputs[i] = i == request.ninputs - 1 ? fuzz_rest(&in) : fuzz_take(&in, fuzz_byte(&in) % 16);
		request.inputs[i] = (InferInput){inputs[i].data, inputs[i].len};
	}
	infer_buf_init(&out, max);
	if (infer_provider_build(infer_provider_find("openai"), &request.shape, request.inputs,
							 request.ninputs, &out, &fault))
	{
		REQUIRE(fault.reason == INFER_REASON_NONE && out.len <= max);
		check_body(&request, &out);
	}
	else
		check_refusal(&request, &fault, max);
	infer_buf_free(&out);
	for (int i = 0; i < request.ninputs; i++)
		fuzz_free(&inputs[i]);
	free(model);
	free(parameters);
	return 0;
}
