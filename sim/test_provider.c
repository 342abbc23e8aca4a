/*
 * sim/test_provider.c - answers of the wire formats.
 *
 * fault_F*: classes of faults that other products have; fail_P*: the numbered statements; rpc_*:
 * those of the reference.
 */
#include "provider_kit.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>

typedef struct TextRow
{
	const char *name;
	const char *body;
	const char *text;   /* NULL: none */
	InferReason reason; /* of the item, or of the whole */
	bool whole;         /* the whole answer is refused */
	bool nul;
} TextRow;

#define CHOICE(message)  "{\"choices\":[{\"index\":0,\"message\":" message "}]}"
#define CONTENT(content) CHOICE("{\"role\":\"assistant\",\"content\":" content "}")

static const TextRow text_rows[] = {
	{"plain", CONTENT("\"hello\""), "hello", 0, 0, 0},
	{"empty", CONTENT("\"\""), "", 0, 0, 0},
	{"escapes", CONTENT("\"a\\n\\u00e9\\ud83d\\ude00\""), "a\n\xc3\xa9\xf0\x9f\x98\x80", 0, 0, 0},
	{"other members first",
	 "{\"usage\":null,\"x\":[{}],\"choices\":[{\"message\":{\"content\":\"y\",\"z\":{}},"
	 "\"logprobs\":null}],\"choices2\":[]} ",
	 "y", 0, 0, 0},
	{"first of two",
	 "{\"choices\":[{\"message\":{\"content\":\"one\"}},"
	 "{\"message\":{\"content\":\"two\"}}]}",
	 "one", 0, 0, 0},
	{"older shape", "{\"choices\":[{\"text\":\"t\"}]}", "t", 0, 0, 0},
	{"escaped names", "{\"\\u0063hoices\":[{\"messag\\u0065\":{\"content\":\"k\"}}]}", "k", 0, 0,
	 0},
	{"parts",
	 CONTENT("[{\"type\":\"text\",\"text\":\"a\\n\"},{\"text\":\"b\",\"type\":\"text\"},"
			 "\"c\",{\"type\":\"thinking\",\"text\":\"no\"},{\"type\":\"image\"},7]"),
	 "a\nbc", 0, 0, 0},
	{"no shown part", CONTENT("[{\"type\":\"image\"}]"), NULL, INFER_REASON_MISSING_RESULT, 0, 0},
	{"null content", CONTENT("null"), NULL, INFER_REASON_MISSING_RESULT, 0, 0},
	{"a tool call", CHOICE("{\"content\":null,\"tool_calls\":[{}]}"), NULL, INFER_REASON_TOOL_CALL,
	 0, 0},
	{"content no text", CONTENT("7"), NULL, INFER_REASON_MISSING_RESULT, 0, 0},
	{"no message", "{\"choices\":[{}]}", NULL, INFER_REASON_MISSING_RESULT, 0, 0},
	{"no choice", "{\"choices\":[]}", NULL, INFER_REASON_MISSING_RESULT, 0, 0},
	{"choice no object", "{\"choices\":[null]}", NULL, INFER_REASON_MISSING_RESULT, 0, 0},
	{"not UTF-8", CONTENT("\"a\xff\""), NULL, INFER_REASON_MALFORMED_REPLY, 0, 0},
	{"lone surrogate", CONTENT("\"a\\ud800\""), NULL, INFER_REASON_MALFORMED_REPLY, 0, 0},
	{"no choices", "{\"error\":{\"message\":\"x\"}}", NULL, INFER_REASON_MALFORMED_REPLY, true, 0},
	{"choices no list", "{\"choices\":{}}", NULL, INFER_REASON_MALFORMED_REPLY, true, 0},
	{"no object", "[1]", NULL, INFER_REASON_MALFORMED_REPLY, true, 0},
	{"not JSON", "<html>", NULL, INFER_REASON_MALFORMED_REPLY, true, 0},
	{"nothing", "", NULL, INFER_REASON_MALFORMED_REPLY, true, 0},
	{"more behind it", CONTENT("\"a\"") " x", NULL, INFER_REASON_MALFORMED_REPLY, true, 0},
	{"cut", "{\"choices\":[{\"message\":{\"content\":\"abc", NULL, INFER_REASON_MALFORMED_REPLY,
	 true, 0},
	{"a stream without end", "data: {\"choices\":[]}\n\n", NULL, INFER_REASON_INCOMPLETE_REPLY,
	 true, 0},
};

#define FINISHED(content, reason)                                                                  \
	"{\"choices\":[{\"message\":{\"content\":" content "},\"finish_reason\":" reason "}]}"

/* Why the model stopped, in the words of several servers. */
static const TextRow finish_rows[] = {
	{"stop", FINISHED("\"a\"", "\"stop\""), "a", 0, 0, 0},
	{"no reason", FINISHED("\"a\"", "null"), "a", 0, 0, 0},
	{"another word", FINISHED("\"a\"", "\"eos_token\""), "a", 0, 0, 0},
	{"no word", FINISHED("\"a\"", "7"), "a", 0, 0, 0},
	{"length", FINISHED("\"a\"", "\"length\""), "a", INFER_REASON_TRUNCATED, 0, 0},
	{"length in escapes", FINISHED("\"a\"", "\"l\\u0065ngth\""), "a", INFER_REASON_TRUNCATED, 0, 0},
	{"max_tokens", FINISHED("\"a\"", "\"max_tokens\""), "a", INFER_REASON_TRUNCATED, 0, 0},
	{"model_length", FINISHED("\"a\"", "\"model_length\""), "a", INFER_REASON_TRUNCATED, 0, 0},
	{"length, no text", FINISHED("null", "\"length\""), NULL, INFER_REASON_TRUNCATED, 0, 0},
	{"length, older shape", "{\"choices\":[{\"finish_reason\":\"length\",\"text\":\"t\"}]}", "t",
	 INFER_REASON_TRUNCATED, 0, 0},
	{"length, bad text", FINISHED("\"a\xff\"", "\"length\""), NULL, INFER_REASON_MALFORMED_REPLY, 0,
	 0},
	{"length of the second choice",
	 "{\"choices\":[{\"message\":{\"content\":\"a\"}},{\"finish_reason\":\"length\"}]}", "a", 0, 0,
	 0},
	{"filter", FINISHED("\"a\"", "\"content_filter\""), "a", INFER_REASON_FILTERED, 0, 0},
	{"filter, no text", FINISHED("null", "\"content_filter\""), NULL, INFER_REASON_FILTERED, 0, 0},
	{"refusal", CHOICE("{\"content\":null,\"refusal\":\"no\"}"), NULL, INFER_REASON_REFUSED, 0, 0},
	{"no refusal", CHOICE("{\"content\":\"a\",\"refusal\":null}"), "a", 0, 0, 0},
	{"empty refusal", CHOICE("{\"content\":\"a\",\"refusal\":\"\"}"), "a", 0, 0, 0},
	{"refusal in a part", CONTENT("[{\"type\":\"refusal\",\"refusal\":\"no\"}]"), NULL,
	 INFER_REASON_REFUSED, 0, 0},
	{"refusal as a reason", FINISHED("\"a\"", "\"refusal\""), "a", INFER_REASON_REFUSED, 0, 0},
	{"error", FINISHED("\"a\"", "\"error\""), "a", INFER_REASON_INCOMPLETE_REPLY, 0, 0},
	{"abort", FINISHED("\"a\"", "\"abort\""), "a", INFER_REASON_INCOMPLETE_REPLY, 0, 0},
	{"tool call, empty text", CHOICE("{\"content\":\"\",\"tool_calls\":[{}]}"), "",
	 INFER_REASON_TOOL_CALL, 0, 0},
	{"tool call and text", CHOICE("{\"content\":\"a\",\"tool_calls\":[{}]}"), "a", 0, 0, 0},
	{"no tool call", CHOICE("{\"content\":\"\",\"tool_calls\":[]}"), "", 0, 0, 0},
	{"tool call as a reason", FINISHED("null", "\"tool_calls\""), NULL, INFER_REASON_TOOL_CALL, 0,
	 0},
	{"function call", CHOICE("{\"content\":null,\"function_call\":{}}"), NULL,
	 INFER_REASON_TOOL_CALL, 0, 0},
	{"no function call", CHOICE("{\"content\":null,\"function_call\":null}"), NULL,
	 INFER_REASON_MISSING_RESULT, 0, 0},
};

static const TextRow nul_rows[] = {
	{"nul", CONTENT("\"a\\u0000b\""), NULL, INFER_REASON_MALFORMED_REPLY, 0, true},
	{"nul in a part", CONTENT("[{\"type\":\"text\",\"text\":\"a\\u0000b\"}]"), NULL,
	 INFER_REASON_MALFORMED_REPLY, 0, true},
};

static void
check_texts(const TextRow *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
	{
		const TextRow *row = &rows[i];
		Parsed p = parse(INFER_TASK_COMPLETE, row->body, strlen(row->body), 1);

		CHECK_ROW(p.ok == !row->whole, row->name);
		if (!p.ok)
			CHECK_ROW(p.fault.reason == row->reason && p.fault.message[0] != '\0', row->name);
		else
		{
			const InferItem *item = &p.reply.items[0];

			CHECK_ROW(p.reply.nitems == 1 && item->reason == row->reason, row->name);
			CHECK_ROW(item->text_has_nul == row->nul, row->name);
			CHECK_ROW((item->text != NULL) == (row->text != NULL), row->name);
			if (item->text != NULL && row->text != NULL)
				CHECK_ROW(item->text_len == strlen(row->text) &&
							  memcmp(item->text, row->text, item->text_len) == 0,
						  row->name);
		}
		done(&p);
	}
}

static void
test_texts(void)
{
	check_texts(text_rows, sizeof(text_rows) / sizeof(text_rows[0]));
}

static void
test_finish_reasons(void)
{
	const char *body = CHOICE("{\"content\":null,\"refusal\":\"no\\u001b \\u00e9\\nmore\"}");
	Parsed p = parse(INFER_TASK_CHAT, body, strlen(body), 1);

	CHECK(p.ok && strcmp(p.reply.words, "no\\x1b \xc3\xa9") == 0);
	done(&p);
	check_texts(finish_rows, sizeof(finish_rows) / sizeof(finish_rows[0]));
}

/* What cannot be read was paid for all the same. */
static void
test_usage_of_failures(void)
{
	const struct
	{
		const char *body;
		int64_t prompt;
		int64_t completion;
	} rows[] = {
		{"{\"data\":[],\"usage\":{\"prompt_tokens\":7}} x", 7, -1},
		{"{\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3},\"choices\":7}", 7, 3},
		{"{\"usage\":{\"prompt_tokens\":7},\"data\":[{\"index\":9,\"embedding\":[1]}]}", 7, -1},
		{"{\"error\":{},\"usage\":{\"completion_tokens\":3}", -1, 3},
		{"<usage>7</usage>", -1, -1},
		{"", -1, -1},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		InferTask task = i == 1 ? INFER_TASK_CHAT : INFER_TASK_EMBED;
		Parsed p = parse(task, rows[i].body, strlen(rows[i].body), 1);
		InferReply said;

		infer_provider_find_usage(p.copy, strlen(rows[i].body), &said);
		CHECK_ROW(!p.ok, rows[i].body);
		CHECK_ROW(p.reply.prompt_tokens == rows[i].prompt, rows[i].body);
		CHECK_ROW(p.reply.completion_tokens == rows[i].completion, rows[i].body);
		CHECK_ROW(said.prompt_tokens == rows[i].prompt && said.usage_len == p.reply.usage_len,
				  rows[i].body);
		done(&p);
	}
}

/* The same faults with a replacement for each, in texts and in raw answers. */
static void
test_fault_F68_repaired(void)
{
#define FFFD "\xef\xbf\xbd"
	const struct
	{
		InferTask task;
		const char *body;
		const char *text; /* NULL: refused all the same */
	} rows[] = {
		{INFER_TASK_CHAT, CONTENT("\"plain\""), "plain"},
		{INFER_TASK_CHAT, CONTENT("\"\""), ""},
		{INFER_TASK_CHAT, CONTENT("\"a\\u0000b\""), "a" FFFD "b"},
		{INFER_TASK_CHAT, CONTENT("\"\\ud800\\udc00\\ud800x\\udc00\""),
		 "\xf0\x90\x80\x80" FFFD "x" FFFD},
		{INFER_TASK_CHAT, CONTENT("\"caf\xe9 \xff\xc3\xa9\""), "caf" FFFD " " FFFD "\xc3\xa9"},
		{INFER_TASK_CHAT, CONTENT("\"\xe2\x82\""), FFFD FFFD},
		{INFER_TASK_CHAT, CONTENT("[\"a\xff\", {\"text\":\"\\u0000\"}]"), "a" FFFD FFFD},
		{INFER_TASK_CALL, "{\"a\": \"\\u0000\\n\\u0041\\u00e9\xff\"}",
		 "{\"a\": \"" FFFD "\\n\\u0041\xc3\xa9" FFFD "\"}"},
		{INFER_TASK_CALL, "{\"\\udc00\\\"\": [1.5, null]}", "{\"" FFFD "\\\"\": [1.5, null]}"},
		{INFER_TASK_CALL, "{\"a\": 1e200000}", NULL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		InferReply reply;
		InferFault fault;
		bool ok = infer_provider_parse(openai, rows[i].task, rows[i].body, strlen(rows[i].body), 1,
									   true, &reply, &fault);
		const InferItem *item = ok ? &reply.items[0] : NULL;

		CHECK_ROW(ok, rows[i].body);
		if (!ok)
			continue;
		CHECK_ROW((item->text != NULL) == (rows[i].text != NULL), rows[i].body);
		CHECK_ROW((item->reason == INFER_REASON_NONE) == (rows[i].text != NULL), rows[i].body);
		if (item->text != NULL && rows[i].text != NULL)
			CHECK_ROW(item->text_len == strlen(rows[i].text) &&
						  memcmp(item->text, rows[i].text, item->text_len) == 0,
					  rows[i].body);
		infer_reply_free(&reply);
	}
}

static void
test_fault_F68_nul_in_text(void)
{
	check_texts(nul_rows, sizeof(nul_rows) / sizeof(nul_rows[0]));
}

static void
test_usage(void)
{
	const struct
	{
		const char *usage;
		int64_t prompt;
		int64_t completion;
		bool json;
	} rows[] = {
		{"{\"prompt_tokens\":12,\"completion_tokens\":7,\"total_tokens\":19}", 12, 7, true},
		{"{ \"completion_tokens\" : 0 }", -1, 0, true},
		{"{\"prompt_tokens\":1.5,\"completion_tokens\":\"3\",\"d\":{\"prompt_tokens\":4}}", -1, -1,
		 true},
		{"{\"prompt_tokens\":-3}", -1, -1, true},
		{"{}", -1, -1, true},
		{"null", -1, -1, false},
		{"[1]", -1, -1, false},
		{"{\"prompt_tokens\":3,\"x\":\"\\u0000\"}", -1, -1, false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		char body[256];
		int len = snprintf(body, sizeof(body), "{\"usage\":%s,\"choices\":[]}", rows[i].usage);
		Parsed p = parse(INFER_TASK_CHAT, body, (size_t) len, 1);

		CHECK_ROW(p.ok, rows[i].usage);
		CHECK_ROW(p.reply.prompt_tokens == rows[i].prompt, rows[i].usage);
		CHECK_ROW(p.reply.completion_tokens == rows[i].completion, rows[i].usage);
		CHECK_ROW((p.reply.usage_json != NULL) == rows[i].json, rows[i].usage);
		if (p.reply.usage_json != NULL)
			CHECK_ROW(p.reply.usage_len == strlen(rows[i].usage) &&
						  memcmp(p.reply.usage_json, rows[i].usage, p.reply.usage_len) == 0,
					  rows[i].usage);
		done(&p);
	}
}

static void
test_raw_calls(void)
{
	const struct
	{
		const char *body;
		const char *text;
		bool ok;
		bool nul;
	} rows[] = {
		{" {\"a\": [1]} \n", "{\"a\": [1]}", true, false},
		{"\"x\"", "\"x\"", true, false},
		{"{\"a\":\"\\u0000\"}", NULL, true, true},
		{"[\"\xff\"]", NULL, true, false},
		{"[1e999999]", NULL, true, false},
		{"{} {}", NULL, false, false},
		{"", NULL, false, false},
		{"oops", NULL, false, false},
	};
	const struct
	{
		const char *body;
		const char *usage;
	} usages[] = {
		{"{\"a\": {\"usage\": {}}, \"usage\": {\"prompt_tokens\": 7}, \"b\": 1}",
		 "{\"prompt_tokens\": 7}"},
		{"{\"usage\": 3}", NULL},
		{"{\"choices\": []}", NULL},
		{"[{\"usage\": {\"prompt_tokens\": 7}}]", NULL},
		{"\"usage\"", NULL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		Parsed p = parse(INFER_TASK_CALL, rows[i].body, strlen(rows[i].body), 1);

		CHECK_ROW(p.ok == rows[i].ok, rows[i].body);
		if (p.ok)
		{
			const InferItem *item = &p.reply.items[0];

			CHECK_ROW(item->text_has_nul == rows[i].nul, rows[i].body);
			CHECK_ROW((item->reason == INFER_REASON_NONE) == (rows[i].text != NULL), rows[i].body);
			if (rows[i].text != NULL)
				CHECK_ROW(item->text_len == strlen(rows[i].text) &&
							  memcmp(item->text, rows[i].text, item->text_len) == 0,
						  rows[i].body);
		}
		else
			CHECK_ROW(p.fault.reason == INFER_REASON_MALFORMED_REPLY, rows[i].body);
		done(&p);
	}
	for (size_t i = 0; i < sizeof(usages) / sizeof(usages[0]); i++)
	{
		Parsed p = parse(INFER_TASK_CALL, usages[i].body, strlen(usages[i].body), 1);
		const char *usage = usages[i].usage;

		CHECK_ROW(p.ok && (p.reply.usage_json != NULL) == (usage != NULL), usages[i].body);
		CHECK_ROW(p.reply.prompt_tokens == (usage != NULL ? 7 : -1), usages[i].body);
		if (usage != NULL)
			CHECK_ROW(p.reply.usage_len == strlen(usage) &&
						  memcmp(p.reply.usage_json, usage, strlen(usage)) == 0,
					  usages[i].body);
		done(&p);
	}
}

/* --- embeddings --- */

/* What is wanted of each item: its first float times 10 as a digit, or M(issing), B(ad). */
static void
check_items(const char *name, const Parsed *p, const char *wanted)
{
	CHECK_ROW(p->ok && p->reply.nitems == (int) strlen(wanted), name);
	for (int i = 0; p->ok && i < p->reply.nitems; i++)
	{
		const InferItem *item = &p->reply.items[i];
		float floats[4];

		if (wanted[i] == 'M')
			CHECK_ROW(item->reason == INFER_REASON_MISSING_RESULT && item->dims == 0, name);
		else if (wanted[i] == 'B')
			CHECK_ROW(item->reason == INFER_REASON_MALFORMED_REPLY && item->dims == 0, name);
		else
		{
			CHECK_ROW(item->reason == INFER_REASON_NONE && item->dims == 2, name);
			if (item->dims != 2)
				continue;
			infer_reply_floats(item, floats);
			CHECK_ROW(floats[0] == (float) (wanted[i] - '0') && floats[1] == 0.5f, name);
		}
	}
}

static void
check_embed(const char *name, const char *data, int ninputs, const char *wanted)
{
	char body[1024];
	int len = snprintf(body, sizeof(body), "{\"data\":[%s]}", data);
	Parsed p = parse(INFER_TASK_EMBED, body, (size_t) len, ninputs);

	if (wanted != NULL)
		check_items(name, &p, wanted);
	else
	{
		CHECK_ROW(!p.ok, name);
		CHECK_ROW(p.fault.reason == INFER_REASON_MISALIGNED, name);
		CHECK_ROW(p.fault.message[0] != '\0', name);
	}
	done(&p);
}

#define VEC(i)  "{\"index\":" #i ",\"embedding\":[" #i ",0.5]}"
#define BARE(i) "{\"embedding\":[" #i ",0.5]}"

static void
test_embed_plain(void)
{
	check_embed("one", VEC(0), 1, "0");
	check_embed("three", VEC(0) "," VEC(1) "," VEC(2), 3, "012");
	check_embed("no index", BARE(7) "," BARE(8), 2, "78");
	check_embed("index null", "{\"index\":null,\"embedding\":[7,0.5]}", 1, "7");
	check_embed("members around",
				"{\"object\":\"embedding\",\"embedding\" : [1 , 0.5],\"x\":{\"index\":9},"
				"\"index\" : 0 }",
				1, "1");
	check_embed("base64", "{\"index\":0,\"embedding\":\"AACAPwAAAD8=\"}", 1, "1");
	check_embed("base64 and list", "{\"index\":1,\"embedding\":\"AACAPwAAAD8=\"}," VEC(0), 2, "01");
	check_embed("other names", "{\"ind\\u0065x\":0,\"\\u0065mbedding\":[1,0.5]}", 1, "1");
}

/* rpc_F6 */
static void
test_fault_F90_reversed(void)
{
	check_embed("reversed", VEC(3) "," VEC(2) "," VEC(1) "," VEC(0), 4, "0123");
	check_embed("shuffled", VEC(2) "," VEC(0) "," VEC(3) "," VEC(1), 4, "0123");
}

/* rpc_F11, with the two below */
static void
test_fault_F90_duplicate(void)
{
	check_embed("duplicate", VEC(0) "," VEC(1) "," VEC(1), 3, NULL);
	check_embed("duplicate, last", VEC(0) "," VEC(0), 2, NULL);
}

static void
test_fault_F90_minus_one(void)
{
	check_embed("-1", VEC(0) "," VEC(-1), 2, NULL);
	check_embed("-1 alone", VEC(-1), 1, NULL);
}

static void
test_fault_F90_index_n(void)
{
	check_embed("n", VEC(0) "," VEC(2), 2, NULL);
	check_embed("huge", VEC(0) "," VEC(99999999999999999999999), 2, NULL);
	check_embed("2^32", VEC(0) "," VEC(4294967297), 2, NULL);
	check_embed("text", "{\"index\":\"0\",\"embedding\":[0,0.5]}", 1, NULL);
	check_embed("fraction", "{\"index\":0.5,\"embedding\":[0,0.5]}", 1, NULL);
	check_embed("more than asked", VEC(0) "," VEC(1), 1, NULL);
	check_embed("more than asked, no index", BARE(0) "," BARE(1), 1, NULL);
}

/* rpc_G4: what no answer filled in reads as an error.  rpc_F10: too few, where nothing says which.
 */
static void
test_fault_F90_missing_3(void)
{
	check_embed("3 is missing", VEC(0) "," VEC(1) "," VEC(2) "," VEC(4), 5, "012M4");
	check_embed("first is missing", VEC(1), 2, "M1");
	check_embed("none at all", "", 2, "MM");
	check_embed("too few, no index", BARE(0) "," BARE(1), 3, NULL);
}

static void
test_fault_F90_some_without_index(void)
{
	check_embed("one without", VEC(0) "," BARE(1), 2, NULL);
	check_embed("one without, too few", VEC(0) "," BARE(1), 3, NULL);
	check_embed("null among them", VEC(0) ",null", 2, NULL);
}

static void
test_embed_bad_items(void)
{
	static const char *const bad[] = {
		"[1,null]",   "[1,\"0.5\"]",      "[1,[0.5]]", "[]",           "7",
		"{}",         "[1e39,0]",         "[NaN,0.5]", "[1,Infinity]", "\"\"",
		"\"AACAPw\"", "\"AACAPwAAgH8=\"", "\"AAAA\"",  "[1,0.5,0.25]", "true",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		char data[256];

		snprintf(data, sizeof(data), VEC(0) ",{\"embedding\":%s,\"index\":1}," VEC(2), bad[i]);
		check_embed(bad[i], data, 3, "0B2");
	}
	check_embed("null", VEC(0) ",{\"embedding\":null,\"index\":1}", 2, "0M");
	check_embed("absent", VEC(0) ",{\"index\":1}", 2, "0M");
	check_embed("null in order", BARE(0) ",null", 2, "0M");
}

static void
test_embed_dims(void)
{
	check_embed("the odd one", VEC(0) ",{\"index\":1,\"embedding\":[1]}," VEC(2), 3, "0B2");
	check_embed("the odd one comes first", "{\"index\":0,\"embedding\":[1]}," VEC(1) "," VEC(2), 3,
				"B12");
	check_embed("no majority: the first stands", VEC(0) ",{\"index\":1,\"embedding\":[1]}", 2,
				"0B");
	check_embed("bad ones do not vote",
				"{\"index\":0,\"embedding\":[null]},{\"index\":1,\"embedding\":[]}," VEC(2), 3,
				"BB2");
}

static void
test_fail_P14_unusable_embeddings(void)
{
	static const char *const bodies[] = {
		"",
		"[]",
		"null",
		"{}",
		"{\"data\":{}}",
		"{\"data\":null}",
		"{\"error\":\"x\"}",
		"{\"data\":[" VEC(0) "]",
		"{\"data\":[" VEC(0) "",
		"{\"data\":[{\"index\":0,\"embedding\":[0,0.",
		"{\"data\":[{\"index\":0,\"embedding\":[0,]}]}",
		"{\"data\":[{\"index\":0,\"embedding\":[0 0.5]}]}",
		"{\"data\":[{\"index\":0,\"embedding\":[00.5]}]}",
		"{\"data\":[{\"index\":0,\"embedding\":\"AACA]}",
		"{\"data\":[{\"index\":0 \"embedding\":[]}]}",
		"{\"data\":[" VEC(0) ",]}",
		"{\"data\":[" VEC(0) "]} {}",
		"{\"data\":[" VEC(0) "],\"data\":[" VEC(0) "]}",
		"{\"data\":[" VEC(0) "],\"usage\":{\"prompt_tokens\":}}",
		"{\"data\":[" VEC(0) "],}",
	};

	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
	{
		Parsed p = parse(INFER_TASK_EMBED, bodies[i], strlen(bodies[i]), 1);

		CHECK_ROW(!p.ok, bodies[i]);
		CHECK_ROW(p.fault.reason == INFER_REASON_MALFORMED_REPLY, bodies[i]);
		CHECK_ROW(p.fault.message[0] != '\0', bodies[i]);
		done(&p);
	}
}

static void
test_embed_large(void)
{
	enum
	{
		N = 128,
		DIMS = 1536
	};
	InferBuf body;
	Parsed p;
	int wrong = 0;

	infer_buf_init(&body, 16 << 20);
	infer_buf_adds(&body, "{\"object\":\"list\",\"data\":[");
	for (int i = N - 1; i >= 0; i--)
	{
		char text[64];

		snprintf(text, sizeof(text), "{\"index\":%d,\"embedding\":[", i);
		infer_buf_adds(&body, text);
		for (int k = 0; k < DIMS; k++)
		{
			snprintf(text, sizeof(text), "%s%.9g", k > 0 ? ", " : "", (i * DIMS + k) / 65536.0);
			infer_buf_adds(&body, text);
		}
		infer_buf_adds(&body, i > 0 ? "]}," : "]}");
	}
	infer_buf_adds(&body, "],\"usage\":{\"prompt_tokens\":5}}");
	p = parse(INFER_TASK_EMBED, body.data, body.len, N);
	CHECK(p.ok && p.reply.prompt_tokens == 5);
	for (int i = 0; p.ok && i < N; i++)
	{
		float floats[DIMS];

		CHECK(p.reply.items[i].dims == DIMS);
		infer_reply_floats(&p.reply.items[i], floats);
		for (int k = 0; k < DIMS; k++)
			wrong += floats[k] != (float) ((i * DIMS + k) / 65536.0);
	}
	CHECK(wrong == 0);
	done(&p);
	infer_buf_free(&body);
}

int
main(void)
{
	openai = infer_provider_find("openai");
	TEST(texts);
	TEST(fault_F68_nul_in_text);
	TEST(fault_F68_repaired);
	TEST(finish_reasons);
	TEST(usage);
	TEST(usage_of_failures);
	TEST(raw_calls);
	TEST(embed_plain);
	TEST(fault_F90_reversed);
	TEST(fault_F90_duplicate);
	TEST(fault_F90_minus_one);
	TEST(fault_F90_index_n);
	TEST(fault_F90_missing_3);
	TEST(fault_F90_some_without_index);
	TEST(embed_bad_items);
	TEST(embed_dims);
	TEST(fail_P14_unusable_embeddings);
	TEST(embed_large);
	return tap_done();
}
