/*
 * sim/fuzz/reply.c - what holds for every answer that is read, whatever was asked.
 */
#include "reply.h"
#include "model.h"

#include <string.h>

bool
fuzz_inside(const char *slice, size_t slice_len, const FuzzText *text)
{
	return slice >= text->data && slice_len <= text->len &&
		   slice + slice_len <= text->data + text->len;
}

bool
fuzz_is_harmless(const char *text)
{
	static const char *const bad[] = {
		"\x7f",         "\xe2\x80\x8e", "\xe2\x80\x8f", "\xe2\x80\xa8", "\xe2\x80\xa9",
		"\xe2\x80\xaa", "\xe2\x80\xab", "\xe2\x80\xac", "\xe2\x80\xad", "\xe2\x80\xae",
		"\xe2\x81\xa6", "\xe2\x81\xa7", "\xe2\x81\xa8", "\xe2\x81\xa9"};

	if (!model_is_utf8(text, strlen(text)))
		return false;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		if (strstr(text, bad[i]) != NULL)
			return false;
	}
	for (const char *p = text; *p != '\0'; p++)
	{
		unsigned char c = (unsigned char) *p;

		/* C0, and C1 as UTF-8 */
		if (c < 0x20 || (c == 0xC2 && (unsigned char) p[1] < 0xA0))
			return false;
	}
	return true;
}

static void
check_fault(const InferFault *fault)
{
	switch (fault->reason)
	{
		case INFER_REASON_MALFORMED_REPLY:
		case INFER_REASON_MISALIGNED:
			REQUIRE(fault->execution == INFER_EXECUTED);
			break;
		case INFER_REASON_INCOMPLETE_REPLY: /* these three of streams only */
		case INFER_REASON_SERVER_ERROR:
		case INFER_REASON_REPLY_TOO_LARGE:
			REQUIRE(fault->execution != INFER_NOT_ADMITTED);
			break;
		default:
			REQUIRE(false);
	}
	REQUIRE(fault->message[0] != '\0');
	REQUIRE(memchr(fault->message, '\0', sizeof(fault->message)) != NULL);
	REQUIRE(fuzz_is_harmless(fault->message));
}

/* Whole or not, what an answer says of its usage is an object of it that jsonb can hold. */
static void
check_usage(const InferReply *reply, const FuzzText *text)
{
	InferSlice usage = {reply->usage_json, reply->usage_len, false};

	REQUIRE(reply->prompt_tokens >= -1 && reply->completion_tokens >= -1);
	if (usage.data == NULL)
		return;
	REQUIRE(fuzz_inside(usage.data, usage.len, text) && usage.data[0] == '{');
	REQUIRE(model_is_json(usage.data, usage.len, INFER_JSON_DEPTH, false));
	REQUIRE(infer_json_value_check(&usage) == INFER_TEXT_FINE);
}

/* With what is not valid replaced, each text is one that a database takes. */
static void
check_repaired(InferTask task, const FuzzText *text, int ninputs)
{
	InferReply reply;
	InferFault fault;

	if (!infer_provider_parse(infer_provider_find("openai"), task, text->data, text->len, ninputs,
							  true, &reply, &fault))
		return;
	for (int i = 0; i < reply.nitems; i++)
	{
		InferSlice value = {reply.items[i].text, reply.items[i].text_len, false};

		REQUIRE(!reply.items[i].text_has_nul);
		if (value.data == NULL)
			continue;
		REQUIRE(infer_utf8_valid(value.data, value.len));
		REQUIRE(memchr(value.data, '\0', value.len) == NULL);
		if (task == INFER_TASK_CALL)
		{
			REQUIRE(model_is_json(value.data, value.len, INFER_JSON_DEPTH, false));
			REQUIRE(infer_json_value_check(&value) == INFER_TEXT_FINE);
		}
	}
	infer_reply_free(&reply);
}

bool
fuzz_parse(InferTask task, const FuzzText *text, int ninputs, InferReply *reply, InferFault *fault)
{
	check_repaired(task, text, ninputs);
	if (!infer_provider_parse(infer_provider_find("openai"), task, text->data, text->len, ninputs,
							  false, reply, fault))
	{
		check_fault(fault);
		REQUIRE(reply->nitems == 0 && reply->items == NULL && reply->arena == NULL);
		check_usage(reply, text);
		return false;
	}
	REQUIRE(fault->reason == INFER_REASON_NONE);
	REQUIRE(reply->nitems == ninputs);
	check_usage(reply, text);
	REQUIRE(memchr(reply->words, '\0', sizeof(reply->words)) != NULL);
	REQUIRE(fuzz_is_harmless(reply->words));
	return true;
}

void
fuzz_try_truncated(InferTask task, const FuzzText *text, int ninputs, unsigned where)
{
	size_t len = text->len;
	InferReply reply;
	InferFault fault;
	FuzzText cut;

	while (len > 0 && strchr(" \t\r\n", text->data[len - 1]) != NULL)
		len--;
	if (len == 0 || text->data[len - 1] != '}')
		return;
	cut = fuzz_copy(text->data, len * where / 256);
	REQUIRE(!fuzz_parse(task, &cut, ninputs, &reply, &fault));
	fuzz_free(&cut);
}
