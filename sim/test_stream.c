/*
 * sim/test_stream.c - server-sent events, and answers that are streamed.
 *
 * fail_P31 and the following are the numbered statements on streams.
 */
#include "provider/sse.h"
#include "provider_kit.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>

/* --- events --- */

/* All events of a stream, each in brackets, "!" before those of type error. The pieces are copies
 * of exactly their size, freed once read, so that the sanitizer sees who keeps them. */
typedef struct Reading
{
	InferSse sse;
	char out[4096];
	InferSseStep step;
} Reading;

static void
note(Reading *reading, const InferSseEvent *event)
{
	size_t len = strlen(reading->out);

	snprintf(reading->out + len, sizeof(reading->out) - len, "%s[%.*s]", event->is_error ? "!" : "",
			 (int) event->len, event->data);
}

static void
feed(Reading *reading, const char *bytes, size_t len)
{
	char *copy = malloc(len > 0 ? len : 1);
	const char *p = copy;
	InferSseEvent event;

	memcpy(copy, bytes, len);
	while ((reading->step = infer_sse_next(&reading->sse, &p, copy + len, &event)) ==
		   INFER_SSE_EVENT)
		note(reading, &event);
	CHECK(reading->step != INFER_SSE_MORE || p == copy + len);
	free(copy);
}

static void
finish(Reading *reading)
{
	InferSseEvent event;

	while ((reading->step = infer_sse_end(&reading->sse, &event)) == INFER_SSE_EVENT)
		note(reading, &event);
	infer_sse_free(&reading->sse);
}

static const struct
{
	const char *stream;
	const char *events;
} sse_rows[] = {
	{"data: a\n\ndata: b\n\n", "[a][b]"},
	{"data: a\r\n\r\ndata: b\r\n\r\n", "[a][b]"},
	{"data: a\r\rdata: b\r\r", "[a][b]"},
	{"data: a\r\n\ndata: b\n\r\n", "[a][b]"},
	{"data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", "[a\nb][c]"},
	{"data: a\rdata: b\r\rdata: c\r\r", "[a\nb][c]"},
	{"data: a\ndata: b\ndata:\ndata:  c\n\n", "[a\nb\n\n c]"},
	{"data:a\n\ndata\n\ndata:\n\n", "[a][][]"},
	{": comment\n\n:\nid: 7\nretry: 10\ndata: a\nnonsense\nevent: x\n\n", "[a]"},
	{"event: error\ndata: a\n\ndata: b\n\nevent: error\nevent: y\ndata: c\n\n", "![a][b][c]"},
	{"event: error\n\ndata: a\n\n", "[a]"}, /* an event without data is none */
	{"\xEF\xBB\xBF"
	 "data: a\n\n\xEF\xBB\xBF"
	 "data: b\n\n",
	 "[a]"}, /* a mark is one at the start only */
	{"\xEF\xBB"
	 "data: b\n\ndata: c\n\n",
	 "[c]"},
	{"data: \xE2\x82\xAC\n\n", "[\xE2\x82\xAC]"},
	{"Data: a\n\ndatas: b\n\n data: c\n\n", ""},
	{"data: a: b\n\n", "[a: b]"},
	{"\n\n\r\n\rdata: a\n\n", "[a]"},
	{"data: a\n\ndata: no blank line\n", "[a][no blank line]"},
	{"data: a\n\ndata: no line's end", "[a][no line's end]"},
	{"data: a\r", "[a]"},
	{"", ""},
};

static void
test_fail_P31_events_split_at_every_byte(void)
{
	for (size_t i = 0; i < sizeof(sse_rows) / sizeof(sse_rows[0]); i++)
	{
		const char *stream = sse_rows[i].stream;
		size_t len = strlen(stream);

		/* two pieces, split anywhere; then a piece for each byte */
		for (size_t at = 0; at <= len + 1; at++)
		{
			Reading reading = {.step = INFER_SSE_MORE};

			infer_sse_init(&reading.sse, INFER_SSE_MAX_LINE);
			if (at <= len)
			{
				feed(&reading, stream, at);
				feed(&reading, stream + at, len - at);
			}
			else
				for (size_t n = 0; n < len; n++)
					feed(&reading, stream + n, 1);
			finish(&reading);
			CHECK_ROW(strcmp(reading.out, sse_rows[i].events) == 0, reading.out);
			CHECK_ROW(reading.step == INFER_SSE_MORE, stream);
		}
	}
}

static void
test_fail_P38_line_over_the_cap(void)
{
	static const char stream[] = "data: a\n\ndata: 0123456789\n\ndata: 01234567890\n\ndata: b\n\n";

	for (size_t at = 0; at < sizeof(stream); at++)
	{
		Reading reading = {.step = INFER_SSE_MORE};

		infer_sse_init(&reading.sse, 16);
		feed(&reading, stream, at);
		if (reading.step == INFER_SSE_MORE)
			feed(&reading, stream + at, sizeof(stream) - 1 - at);
		CHECK(reading.step == INFER_SSE_TOO_LONG);
		CHECK(strcmp(reading.out, "[a][0123456789]") == 0);
		/* it stays so, and nothing more is read */
		feed(&reading, "\n\ndata: c\n\n", 11);
		CHECK(reading.step == INFER_SSE_TOO_LONG);
		finish(&reading);
		CHECK(strcmp(reading.out, "[a][0123456789]") == 0);
	}
}

/* What only begins like a byte order mark counts as any other line does, however it comes. */
static void
test_fail_P38_half_a_mark_over_the_cap(void)
{
	static const char *const streams[] = {"\xEF\xBB", "\xEF\xBB\n\ndata: c\n\n"};

	for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++)
	{
		Reading reading = {.step = INFER_SSE_MORE};

		infer_sse_init(&reading.sse, 1);
		feed(&reading, streams[i], 2);
		if (reading.step == INFER_SSE_MORE)
			feed(&reading, streams[i] + 2, strlen(streams[i]) - 2);
		finish(&reading);
		CHECK_ROW(reading.step == INFER_SSE_TOO_LONG, streams[i]);
		CHECK(reading.out[0] == '\0');
	}
}

/* A line that never ends takes no more memory than the cap. */
static void
test_fail_P38_line_without_end(void)
{
	Reading reading = {.step = INFER_SSE_MORE};
	char block[4096];

	memset(block, 'x', sizeof(block));
	infer_sse_init(&reading.sse, 65536);
	for (int i = 0; i < 1000; i++)
		feed(&reading, block, sizeof(block));
	CHECK(reading.step == INFER_SSE_TOO_LONG);
	CHECK(reading.sse.line.cap <= 65537);
	infer_sse_free(&reading.sse);
}

static void
test_sniff(void)
{
	static const char *const streams[] = {"data: x",
										  "data:",
										  ": ping\n",
										  "event: x",
										  "id: 1",
										  "retry: 1",
										  "\n\ndata: x",
										  "\xEF\xBB\xBF"
										  "data: x"};
	static const char *const others[] = {
		"",     "{}",       "[1]",    "\"data: x\"", "dat",
		"data", " data: x", "<html>", "null",        "\xEF\xBB\xBF{}"};

	for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++)
		CHECK_ROW(infer_sse_sniff(streams[i], strlen(streams[i])), streams[i]);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		CHECK_ROW(!infer_sse_sniff(others[i], strlen(others[i])), others[i]);
}

/* --- answers --- */

#define DATA(json)  "data: " json "\n\n"
#define CHUNK(rest) DATA("{\"id\":\"x\",\"choices\":[{\"index\":0," rest "}]}")
#define ROLE        CHUNK("\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null")
#define WORD(text)  CHUNK("\"delta\":{\"content\":\"" text "\"},\"finish_reason\":null")
#define END(reason) CHUNK("\"delta\":{},\"finish_reason\":\"" reason "\"")
#define DONE        DATA("[DONE]")

typedef struct StreamRow
{
	const char *name;
	const char *body;
	const char *text;   /* NULL: none */
	InferReason reason; /* of the item, or of the whole */
	bool whole;         /* the whole answer is refused */
	bool maybe;         /* ... and may not have been executed */
} StreamRow;

static const StreamRow stream_rows[] = {
	{"words", ROLE WORD("Hel") WORD("lo") END("stop") DONE, "Hello", 0, 0, 0},
	{"no [DONE]", ROLE WORD("Hello") END("stop"), "Hello", 0, 0, 0},
	{"no finish_reason", ROLE WORD("Hello") DONE, "Hello", 0, 0, 0},
	{"finish_reason with the last word",
	 CHUNK("\"delta\":{\"content\":\"Hello\"},\"finish_reason\":\"stop\""), "Hello", 0, 0, 0},
	{"nothing behind [DONE] counts", WORD("a") DONE WORD("b") "data: {broken\n\n" END("length"),
	 "a", 0, 0, 0},
	{"an empty text", ROLE END("stop") DONE, "", 0, 0, 0},
	{"older shape", CHUNK("\"text\":\"a\"") CHUNK("\"text\":\"b\",\"finish_reason\":\"stop\""),
	 "ab", 0, 0, 0},
	{"escapes", WORD("a\\n\\u00e9") WORD("\\\"") DONE, "a\n\xc3\xa9\"", 0, 0, 0},
	{"a pair of surrogates in two chunks", WORD("\\ud83d") WORD("\\ude00") DONE, "\xf0\x9f\x98\x80",
	 0, 0, 0},
	{"half a pair", WORD("\\ud83d") WORD("x") DONE, NULL, INFER_REASON_MALFORMED_REPLY, 0, 0},
	{"a character in two chunks", WORD("\xe2\x82") WORD("\xac") DONE, "\xe2\x82\xac", 0, 0, 0},
	{"half a character", WORD("\xe2\x82") WORD("x") DONE, NULL, INFER_REASON_MALFORMED_REPLY, 0, 0},
	{"NUL", WORD("a\\u0000") DONE, NULL, INFER_REASON_MALFORMED_REPLY, 0, 0},
	{"other choices",
	 DATA("{\"choices\":[{\"delta\":{\"content\":\"no\"},\"index\":1}]}") WORD("a")
		 DATA("{\"choices\":[{\"delta\":{\"content\":\"no\"},\"finish_reason\":\"length\","
			  "\"index\":1}]}") DONE,
	 "a", 0, 0, 0},
	{"other events",
	 ": ping\n\n" DATA("{\"choices\":[],\"prompt_filter_results\":[]}") WORD(
		 "a") "event: ping\ndata: {}\n\ndata:\n\n" DATA("{\"error\":null,\"choices\":null}") DONE,
	 "a", 0, 0, 0},
	{"parts",
	 CHUNK("\"delta\":{\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"thinking\","
		   "\"text\":\"no\"},{\"type\":\"text\",\"text\":\"b\"}]}") DONE,
	 "ab", 0, 0, 0},
	{"an event of several lines",
	 "data: {\"choices\":[{\"delta\":\ndata: {\"content\":\"a\"}}]}\n\n" DONE, "a", 0, 0, 0},
	{"CR LF", "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\n\r\ndata: [DONE]\r\n\r\n",
	 "a", 0, 0, 0},
	{"no last line's end", WORD("a") "data: [DONE]", "a", 0, 0, 0},
	/* why it ended is judged as of an answer in one piece */
	{"truncated", WORD("a") END("length") DONE, "a", INFER_REASON_TRUNCATED, 0, 0},
	{"filtered", WORD("a") END("content_filter") DONE, NULL, INFER_REASON_FILTERED, 0, 0},
	{"refused",
	 CHUNK("\"delta\":{\"refusal\":\"I \"}") CHUNK("\"delta\":{\"refusal\":\"can't\"}") END("stop")
		 DONE,
	 NULL, INFER_REASON_REFUSED, 0, 0},
	{"broken off by the server", WORD("a") END("error") DONE, NULL, INFER_REASON_INCOMPLETE_REPLY,
	 0, 0},
	{"tools", CHUNK("\"delta\":{\"tool_calls\":[{\"index\":0}]}") END("tool_calls") DONE, NULL,
	 INFER_REASON_TOOL_CALL, 0, 0},
	{"no text at all", DONE, NULL, INFER_REASON_MISSING_RESULT, 0, 0},
	/* fail_P35: without its end it is no answer; executed if a token came */
	{"no end", ROLE WORD("a"), NULL, INFER_REASON_INCOMPLETE_REPLY, 1, 0},
	{"no end, thought", CHUNK("\"delta\":{\"reasoning_content\":\"hm\"}"), NULL,
	 INFER_REASON_INCOMPLETE_REPLY, 1, 0},
	{"no end, a tool", CHUNK("\"delta\":{\"tool_calls\":[{\"index\":0}]}"), NULL,
	 INFER_REASON_INCOMPLETE_REPLY, 1, 0},
	{"no end, a role", ROLE, NULL, INFER_REASON_INCOMPLETE_REPLY, 1, 1},
	{"no end, a comment", ": ping\n\n", NULL, INFER_REASON_INCOMPLETE_REPLY, 1, 1},
	{"cut in an event", WORD("a") "data: {\"choices\":[{\"delta\":{\"content\":\"b", NULL,
	 INFER_REASON_INCOMPLETE_REPLY, 1, 0},
	{"cut in the first event", "data: {\"choices\":[{\"delta\":{\"content\":\"b", NULL,
	 INFER_REASON_INCOMPLETE_REPLY, 1, 1},
	{"cut in [DONE]", WORD("a") "data: [DON", NULL, INFER_REASON_INCOMPLETE_REPLY, 1, 0},
	/* fail_P36: an error among the events */
	{"an error", WORD("a") DATA("{\"error\":{\"message\":\"out of slots\",\"code\":\"x\"}}") DONE,
	 NULL, INFER_REASON_SERVER_ERROR, 1, 0},
	{"an error by its type", WORD("a") "event: error\ndata: out of slots\n\n" END("stop") DONE,
	 NULL, INFER_REASON_SERVER_ERROR, 1, 0},
	{"an error behind the finish_reason",
	 WORD("a") END("stop") DATA("{\"error\":\"out of slots\"}"), NULL, INFER_REASON_SERVER_ERROR, 1,
	 0},
	{"an error that stands in half an event",
	 WORD("a") "data: {\"error\":{\"message\":\"out of slots\"}", NULL, INFER_REASON_SERVER_ERROR,
	 1, 0},
	{"an error at first", DATA("{\"error\":{\"message\":\"out of slots\"}}") DONE, NULL,
	 INFER_REASON_SERVER_ERROR, 1, 1},
	/* what cannot be read */
	{"no JSON", WORD("a") "data: {broken\n\n" DONE, NULL, INFER_REASON_MALFORMED_REPLY, 1, 0},
	{"no object", "data: 7\n\n" DONE, NULL, INFER_REASON_MALFORMED_REPLY, 1, 0},
	{"complete before what cannot be read", WORD("a") END("stop") "data: {broken\n\n", "a", 0, 0,
	 0},
};

static void
test_fail_P34_P35_P36_answers(void)
{
	for (size_t i = 0; i < sizeof(stream_rows) / sizeof(stream_rows[0]); i++)
	{
		const StreamRow *row = &stream_rows[i];
		Parsed parsed = parse(INFER_TASK_CHAT, row->body, strlen(row->body), 1);
		const InferItem *item = parsed.ok ? &parsed.reply.items[0] : NULL;
		InferStreamFacts facts;

		CHECK_ROW(parsed.ok != row->whole, row->name);
		if (!parsed.ok)
		{
			CHECK_ROW(parsed.fault.reason == row->reason, row->name);
			CHECK_ROW(parsed.fault.execution ==
						  (row->maybe ? INFER_MAYBE_EXECUTED : INFER_EXECUTED),
					  row->name);
			CHECK_ROW(row->reason != INFER_REASON_SERVER_ERROR ||
						  strcmp(parsed.fault.message, "out of slots") == 0,
					  row->name);
		}
		else
		{
			CHECK_ROW(item->reason == row->reason, row->name);
			CHECK_ROW((item->text != NULL) == (row->text != NULL) || row->reason != 0, row->name);
			CHECK_ROW(row->text == NULL || (item->text_len == strlen(row->text) &&
											memcmp(item->text, row->text, item->text_len) == 0),
					  row->name);
		}
		/* what is found without keeping the text agrees */
		CHECK_ROW(infer_provider_stream_facts(row->body, strlen(row->body), &facts), row->name);
		CHECK_ROW(facts.ended == (parsed.ok || row->reason != INFER_REASON_INCOMPLETE_REPLY),
				  row->name);
		CHECK_ROW(parsed.ok || facts.tokens || facts.ended || row->maybe, row->name);
		CHECK_ROW(!row->maybe || !facts.tokens, row->name);
		done(&parsed);
	}
}

static void
test_error_without_words(void)
{
	static const char body[] = WORD("a") DATA("{\"error\":{}}");
	Parsed parsed = parse(INFER_TASK_CHAT, body, strlen(body), 1);

	CHECK(!parsed.ok && parsed.fault.reason == INFER_REASON_SERVER_ERROR);
	CHECK(strcmp(parsed.fault.message, "the stream ended with an error") == 0);
	done(&parsed);
}

static void
test_refusal_has_the_words(void)
{
	static const char body[] = CHUNK("\"delta\":{\"refusal\":\"I \"}")
		CHUNK("\"delta\":{\"refusal\":\"can\\u0027t\"}") END("stop");
	Parsed parsed = parse(INFER_TASK_CHAT, body, sizeof(body) - 1, 1);

	CHECK(parsed.ok && strcmp(parsed.reply.words, "I can't") == 0);
	done(&parsed);
}

/* Cut anywhere: never an answer before the end is there, and executed as soon as a word is. */
static void
test_fail_P35_cut_at_every_byte(void)
{
	static const char body[] = ROLE WORD("Hel") WORD("lo") END("stop") DONE;
	size_t word = (size_t) (strstr(body, "lo\"}") - body);
	size_t role = sizeof(ROLE) - 1;
	size_t end = (size_t) (strstr(body, "[DONE]") - body) - strlen("data: ");

	for (size_t len = 0; len < sizeof(body); len++)
	{
		Parsed parsed = parse(INFER_TASK_COMPLETE, body, len, 1);

		/* the choice with the finish_reason is whole without "]}" and two line feeds */
		CHECK(parsed.ok == (len >= end - 4));
		if (parsed.ok)
			CHECK(parsed.reply.items[0].text_len == 5 &&
				  memcmp(parsed.reply.items[0].text, "Hello", 5) == 0);
		else if (len > 5)
			CHECK(parsed.fault.reason == INFER_REASON_INCOMPLETE_REPLY);
		if (!parsed.ok && len > word)
			CHECK(parsed.fault.execution == INFER_EXECUTED);
		if (!parsed.ok && len > 5 && len <= role)
			CHECK(parsed.fault.execution == INFER_MAYBE_EXECUTED);
		done(&parsed);
	}
}

static void
test_fail_P38_answer_with_a_long_line(void)
{
	static const char begin[] = WORD("a") "data: {\"x\":\"";
	size_t len = sizeof(begin) - 1 + INFER_SSE_MAX_LINE;
	char *body = malloc(len);
	Parsed parsed;

	memset(body, 'x', len);
	memcpy(body, begin, sizeof(begin) - 1);
	parsed = parse(INFER_TASK_CHAT, body, len, 1);
	CHECK(!parsed.ok && parsed.fault.reason == INFER_REASON_REPLY_TOO_LARGE &&
		  parsed.fault.execution == INFER_EXECUTED);
	done(&parsed);
	free(body);
}

#define USAGE DATA("{\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":5}}")

static void
test_usage(void)
{
	static const char whole[] =
		DATA("{\"choices\":[],\"usage\":{\"prompt_tokens\":3}}") WORD("a") END("stop") USAGE DONE;
	static const char lines[] = WORD("a") END(
		"stop") "data: {\"usage\":{\"prompt_tokens\":3,\ndata: \"completion_tokens\":5}}\n\n" DONE;
	static const char failed[] = WORD("a") USAGE DATA("{\"error\":\"x\"}");
	static const char cut[] = WORD("a") USAGE;
	Parsed parsed = parse(INFER_TASK_CHAT, whole, sizeof(whole) - 1, 1);
	InferReply said;

	/* the last one counts */
	CHECK(parsed.ok && parsed.reply.prompt_tokens == 3 && parsed.reply.completion_tokens == 5);
	CHECK(parsed.reply.usage_len == strlen("{\"prompt_tokens\":3,\"completion_tokens\":5}"));
	done(&parsed);
	/* in several lines it is counted, but not kept */
	parsed = parse(INFER_TASK_CHAT, lines, sizeof(lines) - 1, 1);
	CHECK(parsed.ok && parsed.reply.completion_tokens == 5 && parsed.reply.usage_json == NULL);
	done(&parsed);
	/* of what failed, too */
	parsed = parse(INFER_TASK_CHAT, failed, sizeof(failed) - 1, 1);
	CHECK(!parsed.ok && parsed.reply.completion_tokens == 5);
	done(&parsed);
	infer_provider_find_usage(cut, sizeof(cut) - 1, &said);
	CHECK(said.prompt_tokens == 3 && said.completion_tokens == 5);
}

/* Tasks that are not streamed. */
static void
test_other_tasks(void)
{
	static const char body[] = WORD("a") END("stop") DONE;
	Parsed parsed = parse(INFER_TASK_CALL, body, sizeof(body) - 1, 1);

	CHECK(!parsed.ok && parsed.fault.reason == INFER_REASON_MALFORMED_REPLY);
	done(&parsed);
	parsed = parse(INFER_TASK_EMBED, body, sizeof(body) - 1, 1);
	CHECK(!parsed.ok && parsed.fault.reason == INFER_REASON_MALFORMED_REPLY);
	done(&parsed);
}

int
main(void)
{
	openai = infer_provider_find("openai");
	TEST(fail_P31_events_split_at_every_byte);
	TEST(fail_P38_line_over_the_cap);
	TEST(fail_P38_half_a_mark_over_the_cap);
	TEST(fail_P38_line_without_end);
	TEST(sniff);
	TEST(fail_P34_P35_P36_answers);
	TEST(error_without_words);
	TEST(refusal_has_the_words);
	TEST(fail_P35_cut_at_every_byte);
	TEST(fail_P38_answer_with_a_long_line);
	TEST(usage);
	TEST(other_tasks);
	return tap_done();
}
