/*
 * sim/fuzz_provider.c - random bodies into the readers of src/provider.
 *
 *	fuzz_provider [BODIES [SEED]]
 *
 * Each body is a real answer that was cut, spliced and sprinkled with bytes that mean something to
 * JSON, in a piece of memory of exactly its size; built with the address and undefined-behaviour
 * sanitizers.  Beyond not crashing, whatever is accepted must be fit for a database: finite floats,
 * valid UTF-8, slices inside the body.  A run is given by its seed; a failure prints the body's
 *number.
 */
#include "provider/json_scan.h"
#include "provider/provider.h"
#include "tap.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BODY 2048

static const char *const corpus[] = {
	"{\"object\":\"list\",\"data\":[{\"object\":\"embedding\",\"index\":0,\"embedding\":[0.1,-2.5e-"
	"3,"
	"1]},{\"object\":\"embedding\",\"index\":1,\"embedding\":[3,0.25,1e-40]}],\"model\":\"m\","
	"\"usage\":{\"prompt_tokens\":8,\"total_tokens\":8}}",
	"{\"data\":[{\"embedding\":\"AACAPwAAAEAAAEBA\",\"index\":1},{\"index\":0,\"embedding\":"
	"\"AACAPwAAAEA\\/AEBA\"}]}",
	"{\"data\":[{\"embedding\":[0.12345678901234567890123,123456789012345678e-18,16777217,"
	"1.00000005960464477539062500]}]}",
	"{\"id\":\"c\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":"
	"\"caf\\u00e9 \xc3\xa9 \\ud83d\\ude00 \\n \\u0000\"},\"finish_reason\":\"stop\"}],\"usage\":{"
	"\"prompt_tokens\":3,\"completion_tokens\":4}}",
	"{\"choices\":[{\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"a\\tb\"},{\"type\":"
	"\"thinking\",\"text\":\"x\"},\"c\"]}}]}",
	"{\"choices\":[{\"text\":\"t\"}]}",
	"{\"error\":{\"message\":\"This model's maximum context length is 8192 tokens\",\"type\":"
	"\"invalid_request_error\",\"code\":\"context_length_exceeded\"}}",
	"{\"detail\":[{\"loc\":[\"body\",\"input\"],\"msg\":\"field required\",\"type\":\"missing\"}]}",
	"upstream connect error\r\nsecond line \x1b[0m \xff",
	"[{\"role\":\"user\",\"content\":\"x\"},[[[[[{\"a\":[1e300000,-0.0,true,false,null]}]]]]]]",
};

static const char *const tokens[] = {
	"{",
	"}",
	"[",
	"]",
	",",
	":",
	"\"",
	"\\",
	"\\u0000",
	"\\ud800",
	"\\u",
	"null",
	"true",
	"NaN",
	"1e999",
	"-",
	"0",
	".",
	"e",
	"\xff",
	"\xc3",
	"\xf0\x9f",
	"\n",
	"=",
	"//",
	"index",
	"\"index\"",
	"\"data\":[",
	"99999999999999999999",
	"Infinity",
	"\x01",
};

static uint64_t random_state;

static uint32_t
draw(uint32_t below)
{
	/* splitmix64 */
	uint64_t z = (random_state += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	z ^= z >> 31;
	return (uint32_t) (z % below);
}

static const char *
any_of(const char *const *list, size_t n)
{
	return list[draw((uint32_t) n)];
}

/* Replaces `cut` bytes at `at` by a text, as far as there is room. */
static size_t
splice(char *body, size_t len, size_t at, size_t cut, const char *text, size_t text_len)
{
	char tail[MAX_BODY];
	size_t tail_len = len - at - cut;

	if (at + text_len + tail_len > MAX_BODY)
		return len;
	memcpy(tail, body + at + cut, tail_len);
	memcpy(body + at, text, text_len);
	memcpy(body + at + text_len, tail, tail_len);
	return at + text_len + tail_len;
}

static size_t
mutate(char *body, size_t len)
{
	size_t at = draw((uint32_t) len + 1);
	size_t run = draw((uint32_t) (len - at < 24 ? len - at : 24) + 1);
	char piece[32];
	const char *other;
	size_t other_len;

	switch (draw(7))
	{
		case 0: /* another byte */
			if (at < len)
				body[at] = (char) draw(256);
			return len;
		case 1: /* a token more */
			other = any_of(tokens, sizeof(tokens) / sizeof(tokens[0]));
			return splice(body, len, at, 0, other, strlen(other));
		case 2: /* a token instead of something */
			other = any_of(tokens, sizeof(tokens) / sizeof(tokens[0]));
			return splice(body, len, at, run, other, strlen(other));
		case 3: /* something less */
			return splice(body, len, at, run, "", 0);
		case 4: /* something twice */
			memcpy(piece, body + at, run);
			return splice(body, len, at, 0, piece, run);
		case 5: /* the end of another one */
			other = any_of(corpus, sizeof(corpus) / sizeof(corpus[0]));
			other_len = strlen(other);
			run = draw((uint32_t) other_len);
			return splice(body, len, at, len - at, other + run, other_len - run);
		default: /* cut, seldom */
			return draw(4) == 0 ? at : len;
	}
}

static size_t
make_body(char *body)
{
	const char *base = any_of(corpus, sizeof(corpus) / sizeof(corpus[0]));
	size_t len = strlen(base);
	uint32_t mutations = draw(6);

	memcpy(body, base, len);
	while (mutations-- > 0)
		len = mutate(body, len);
	return len;
}

static bool
inside(const char *slice, size_t slice_len, const char *body, size_t len)
{
	return slice >= body && slice + slice_len <= body + len;
}

static void
check_reply(InferTask task, const InferReply *reply, int ninputs, const char *body, size_t len)
{
	CHECK(reply->nitems == ninputs);
	if (reply->usage_json != NULL)
		CHECK(inside(reply->usage_json, reply->usage_len, body, len));
	for (int i = 0; i < reply->nitems; i++)
	{
		const InferItem *item = &reply->items[i];

		if (item->reason != INFER_REASON_NONE)
		{
			CHECK(item->text == NULL && item->dims == 0);
			continue;
		}
		if (task == INFER_TASK_EMBED)
		{
			float *floats = malloc((size_t) item->dims * sizeof(float));

			CHECK(item->dims > 0);
			infer_reply_floats(item, floats);
			for (int k = 0; k < item->dims; k++)
				CHECK(isfinite(floats[k]));
			free(floats);
			continue;
		}
		CHECK(item->text != NULL && infer_utf8_valid(item->text, item->text_len));
		CHECK(memchr(item->text, '\0', item->text_len) == NULL);
		if (task == INFER_TASK_CALL)
			CHECK(inside(item->text, item->text_len, body, len));
	}
}

static void
try_answer(const char *body, size_t len)
{
	const InferProvider *provider = infer_provider_find("openai");

	for (int task = 0; task < INFER_TASK_COUNT; task++)
	{
		int ninputs = task == INFER_TASK_EMBED ? 1 + (int) draw(3) : 1;
		InferReply reply;
		InferFault fault;

		if (infer_provider_parse(provider, (InferTask) task, body, len, ninputs, &reply, &fault))
		{
			check_reply((InferTask) task, &reply, ninputs, body, len);
			infer_reply_free(&reply);
		}
		else
			CHECK(fault.reason != INFER_REASON_NONE && fault.message[0] != '\0');
	}
}

static void
try_error(const char *body, size_t len)
{
	size_t size = 1 + draw(300);
	char *text = malloc(size);

	infer_provider_error_text(body, len, text, size);
	CHECK(strlen(text) < size && strlen(text) <= 256);
	CHECK(infer_utf8_valid(text, strlen(text)));
	for (const char *p = text; *p != '\0'; p++)
		CHECK((unsigned char) *p >= 0x20 && *p != 0x7f);
	infer_provider_is_size_error(400, body, len);
	infer_provider_is_quota_error(429, body, len);
	free(text);
}

/* The body as parameters and as input: what is built must be JSON again. */
static void
try_request(const char *body, size_t len)
{
	const InferProvider *provider = infer_provider_find("openai");
	char *parameters = malloc(len + 1);

	memcpy(parameters, body, len);
	parameters[len] = '\0';
	for (int task = 0; task < INFER_TASK_COUNT; task++)
	{
		InferRequestShape shape = {(InferTask) task, "m\"", draw(2) ? parameters : "{}", draw(2)};
		InferInput input = {body, len};
		InferFault fault;
		InferBuf out;

		infer_buf_init(&out, draw(3) > 0 ? 100000 : draw(200));
		if (infer_provider_build(provider, &shape, &input, 1, &out, &fault))
		{
			InferJson j = infer_json_start(out.data, out.len);

			CHECK(infer_json_value(&j, NULL) && infer_json_at_end(&j));
		}
		else
			CHECK(fault.reason != INFER_REASON_NONE && fault.message[0] != '\0');
		infer_buf_free(&out);
	}
	free(parameters);
}

static long bodies = 10000;
static uint64_t seed = 1;

static void
test_fault_F72_random_bodies(void)
{
	char work[MAX_BODY];

	for (long i = 0; i < bodies && tap_failures == 0; i++)
	{
		size_t len;
		char *body;

		random_state = seed * UINT64_C(1000003) + (uint64_t) i;
		len = make_body(work);
		body = malloc(len > 0 ? len : 1);
		memcpy(body, work, len);
		try_answer(body, len);
		try_error(body, len);
		try_request(body, len);
		free(body);
		if (tap_failures > 0)
			printf("# body %ld of seed %llu: %.*s\n", i, (unsigned long long) seed, (int) len,
				   work);
	}
}

int
main(int argc, char **argv)
{
	if (argc > 1)
		bodies = strtol(argv[1], NULL, 10);
	if (argc > 2)
		seed = strtoull(argv[2], NULL, 10);
	TEST(fault_F72_random_bodies);
	return tap_done();
}
