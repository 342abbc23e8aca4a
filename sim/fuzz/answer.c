/*
 * sim/fuzz/answer.c - answers that are text, raw answers, and the words of errors.
 *
 * Any text: what is accepted is whole, valid UTF-8 without NUL, and a slice of the answer where it
 * should be one.  A text that the target wrote into an answer comes back byte for byte.  An error's
 * words fit, are UTF-8 and harmless on a terminal.
 */
#include "fuzz.h"
#include "model.h"
#include "reply.h"

#include "core/buf.h"
#include "provider/sse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A text that is there is fit for a table, whatever was said of it. */
static void
check_text(const InferItem *item)
{
	REQUIRE(item->dims == 0 && item->floats == NULL);
	if (item->reason == INFER_REASON_NONE)
		REQUIRE(item->text != NULL && !item->text_has_nul);
	if (item->reason == INFER_REASON_MALFORMED_REPLY || item->reason == INFER_REASON_MISSING_RESULT)
		REQUIRE(item->text == NULL);
	if (item->text == NULL)
	{
		REQUIRE(item->text_len == 0);
		return;
	}
	REQUIRE(model_is_utf8(item->text, item->text_len));
	REQUIRE(memchr(item->text, '\0', item->text_len) == NULL);
}

static void
try_text(InferTask task, FuzzText *text, unsigned cut)
{
	InferReply reply;
	InferFault fault;

	if (!fuzz_parse(task, text, 1, &reply, &fault))
		return;
	check_text(&reply.items[0]);
	if (task == INFER_TASK_CALL && reply.items[0].text != NULL)
		REQUIRE(fuzz_inside(reply.items[0].text, reply.items[0].text_len, text));
	infer_reply_free(&reply);
	if (infer_sse_sniff(text->data, text->len))
		return; /* the affair of another target */
	/* messages stand three containers deep */
	REQUIRE(model_is_json(text->data, text->len, INFER_JSON_DEPTH + 4, false));
	fuzz_try_truncated(task, text, 1, cut);
}

/* Why a model says that it stopped, and what we make of it where there is a text. */
static const struct
{
	const char *word;
	InferReason reason;
} ends[] = {{"\"stop\"", INFER_REASON_NONE},
			{"null", INFER_REASON_NONE},
			{"\"eos\"", INFER_REASON_NONE},
			{"\"tool_calls\"", INFER_REASON_NONE},
			{"\"length\"", INFER_REASON_TRUNCATED},
			{"\"max_tok\\u0065ns\"", INFER_REASON_TRUNCATED},
			{"\"content_filter\"", INFER_REASON_FILTERED},
			{"\"refusal\"", INFER_REASON_REFUSED},
			{"\"error\"", INFER_REASON_INCOMPLETE_REPLY}};

typedef struct Written
{
	FuzzText text;
	unsigned shape; /* 0 string, 1 the older shape, 2 a list of parts */
	size_t cut;     /* where the second part begins */
	unsigned end;
} Written;

static void
write_answer(InferBuf *out, const Written *written)
{
	static const char *const before[] = {
		"\"message\":{\"role\":\"assistant\",\"content\":", "\"text\":",
		"\"message\":{\"content\":[{\"type\":\"text\",\"text\":"};
	static const char *const after[] = {"}", "", "}]}"};
	const FuzzText *text = &written->text;
	size_t cut = 0;

	infer_buf_adds(out, "{\"choices\":[{\"finish_reason\":");
	infer_buf_adds(out, ends[written->end].word);
	infer_buf_adds(out, ",");
	infer_buf_adds(out, before[written->shape]);
	if (written->shape == 2)
	{
		cut = written->cut;
		infer_buf_add_json_string(out, text->data, cut);
		infer_buf_adds(out, "},{\"type\":\"thinking\",\"text\":\"hm\"},{\"text\":");
	}
	infer_buf_add_json_string(out, text->data + cut, text->len - cut);
	infer_buf_adds(out, after[written->shape]);
	infer_buf_adds(out, "}],\"usage\":{\"completion_tokens\":5}}");
}

/* What the text alone is worth. */
static InferReason
text_reason(const Written *written, bool nul)
{
	const FuzzText *text = &written->text;
	bool valid = model_is_utf8(text->data, text->len);

	if (written->shape == 2)
		valid = model_is_utf8(text->data, written->cut) &&
				model_is_utf8(text->data + written->cut, text->len - written->cut);
	return valid && !nul ? INFER_REASON_NONE : INFER_REASON_MALFORMED_REPLY;
}

static void
try_written(InferTask task, const Written *written)
{
	const FuzzText *text = &written->text;
	bool nul = memchr(text->data, '\0', text->len) != NULL;
	InferReason expected = text_reason(written, nul);
	InferReason end = ends[written->end].reason;
	const InferItem *item;
	InferBuf out;
	FuzzText body;
	InferReply reply;
	InferFault fault;

	infer_buf_init(&out, 1 << 20);
	write_answer(&out, written);
	body = fuzz_copy(out.data, out.len);
	REQUIRE(fuzz_parse(task, &body, 1, &reply, &fault));
	REQUIRE(reply.completion_tokens == 5);
	item = &reply.items[0];
	check_text(item);
	REQUIRE(item->text_has_nul == nul);
	if (expected == INFER_REASON_NONE)
		REQUIRE(item->text_len == text->len && memcmp(item->text, text->data, text->len) == 0);
	/* a text that no table holds is the worse of the two, unless it was none to begin with */
	if (expected == INFER_REASON_NONE ||
		(end != INFER_REASON_NONE && end != INFER_REASON_TRUNCATED))
		expected = end;
	if (written->end == 3 && text->len == 0)
		expected = INFER_REASON_TOOL_CALL;
	REQUIRE(item->reason == expected);
	infer_reply_free(&reply);
	fuzz_free(&body);
	infer_buf_free(&out);
}

static void
try_error(const FuzzText *text, unsigned how)
{
	static const int statuses[] = {400, 402, 403, 404, 413, 422, 429, 500};
	size_t size = 1 + how * 2;
	char *words = malloc(size);
	int status = statuses[how / 4 % 8];
	bool is;

	switch (how % 3)
	{
		case 0:
			is = infer_provider_is_size_error(status, text->data, text->len);
			REQUIRE(status == 413 ? is : status == 400 || status == 422 || status == 500 || !is);
			break;
		case 1:
			is = infer_provider_is_quota_error(status, text->data, text->len);
			REQUIRE(status == 402 ? is : status == 400 || status == 403 || status == 429 || !is);
			break;
		default:
			infer_provider_is_filter_error(text->data, text->len);
	}
	infer_provider_error_text(text->data, text->len, words, size);
	REQUIRE(memchr(words, '\0', size) != NULL && strlen(words) <= 256);
	REQUIRE(fuzz_is_harmless(words));
	free(words);
}

/*
 * A message of some length, plainly written and with every character as an escape: its words are
 * the same, and there are some.
 */
static void
try_long_error(const FuzzText *text, unsigned how)
{
	static const char before[] = "{\"error\":{\"type\":\"x\",\"message\":";
	size_t size = 300 - how % 64;
	size_t padding = 1 + how * 2;
	InferBuf message;
	InferBuf plain;
	InferBuf escaped;
	char *words = malloc(size);
	char *same = malloc(size);

	infer_buf_init(&message, 1 << 20);
	infer_buf_init(&plain, 1 << 20);
	infer_buf_init(&escaped, 1 << 20);
	infer_buf_adds(&escaped, before);
	infer_buf_addc(&escaped, '"');
	for (size_t i = 0; i < padding + text->len / 2; i++)
	{
		unsigned c = 'x';
		char unit[8];

		if (i >= padding)
			c = (unsigned char) text->data[(i - padding) * 2] << 8 |
				(unsigned char) text->data[(i - padding) * 2 + 1];
		if (c == 0 || (c >= 0xD800 && c <= 0xDFFF))
			c = 'y';
		infer_buf_add(&message, unit, model_write_utf8(c, unit));
		snprintf(unit, sizeof(unit), i % 2 == 0 ? "\\u%04x" : "\\u%04X", c);
		infer_buf_adds(&escaped, unit);
	}
	infer_buf_adds(&escaped, "\"}}");
	infer_buf_adds(&plain, before);
	infer_buf_add_json_string(&plain, message.data, message.len);
	infer_buf_adds(&plain, "}}");
	infer_provider_error_text(plain.data, plain.len, words, size);
	infer_provider_error_text(escaped.data, escaped.len, same, size);
	REQUIRE(strcmp(words, same) == 0);
	REQUIRE(words[0] == 'x');
	if (message.len < 300)
		REQUIRE(infer_provider_is_size_error(400, plain.data, plain.len) ==
				infer_provider_is_size_error(400, escaped.data, escaped.len));
	infer_buf_free(&message);
	infer_buf_free(&plain);
	infer_buf_free(&escaped);
	free(words);
	free(same);
}

/* The bytes as a message: whatever they are, they can be shown. */
static void
try_message(const FuzzText *text)
{
	char words[300];
	InferBuf out;

	infer_buf_init(&out, 1 << 20);
	infer_buf_adds(&out, "{\"message\":");
	infer_buf_add_json_string(&out, text->data, text->len);
	infer_buf_adds(&out, "}");
	infer_provider_error_text(out.data, out.len, words, sizeof(words));
	REQUIRE(fuzz_is_harmless(words));
	if (text->len > 0 && (unsigned char) text->data[0] > ' ')
		REQUIRE(words[0] != '\0');
	infer_buf_free(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const InferTask tasks[] = {INFER_TASK_COMPLETE, INFER_TASK_CHAT, INFER_TASK_CALL};
	FuzzInput in = {data, size};
	unsigned how = fuzz_byte(&in);
	unsigned where = fuzz_byte(&in);
	FuzzText text = fuzz_rest(&in);

	switch (how % 4)
	{
		case 0:
			if (how >= 0xC0)
				try_message(&text);
			else if (how >= 0x80)
				try_long_error(&text, where);
			else
				try_error(&text, where);
			break;
		case 1:
			try_written(tasks[how / 4 % 2],
						&(Written){text, how / 8 % 3, text.len * (where / 16) / 16,
								   where % (sizeof(ends) / sizeof(ends[0]))});
			break;
		default:
			try_text(tasks[how / 4 % 3], &text, where);
	}
	fuzz_free(&text);
	return 0;
}
