/*
 * sim/test_request.c - requests of the wire formats, and what is read of error answers.
 */
#include "provider/provider.h"
#include "tap.h"

#include <string.h>

static const InferProvider *openai;

/* --- requests --- */

typedef struct BuildRow
{
	const char *name;
	InferTask task;
	bool ask_base64;
	const char *parameters;
	const char *inputs[3];
	const char *body;   /* NULL: refused */
	InferReason reason; /* of the refusal */
} BuildRow;

static const BuildRow build_rows[] = {
	{"embed",
	 INFER_TASK_EMBED,
	 false,
	 "{}",
	 {"a", "b\"\n"},
	 "{\"model\":\"m/1\",\"input\":[\"a\",\"b\\\"\\n\"]}",
	 0},
	{"embed base64",
	 INFER_TASK_EMBED,
	 true,
	 NULL,
	 {"a"},
	 "{\"model\":\"m/1\",\"input\":[\"a\"],\"encoding_format\":\"base64\"}",
	 0},
	{"embed, the caller's format wins",
	 INFER_TASK_EMBED,
	 true,
	 "{\"encoding_format\": \"float\", \"dimensions\": 3}",
	 {""},
	 "{\"model\":\"m/1\",\"input\":[\"\"],\"encoding_format\":\"float\",\"dimensions\":3}",
	 0},
	{"embed, model and input stay ours",
	 INFER_TASK_EMBED,
	 false,
	 "{\"model\": \"other\", \"input\": [\"x\"], \"messages\": 1, \"\\u0069nput\": 2}",
	 {"a"},
	 "{\"model\":\"m/1\",\"input\":[\"a\"],\"messages\":1}",
	 0},
	{"complete",
	 INFER_TASK_COMPLETE,
	 true,
	 "{\"temperature\": 0.70, \"stop\": [\"\\n\"]}",
	 {"hi \xc3\xa9"},
	 "{\"model\":\"m/1\",\"messages\":[{\"role\":\"user\",\"content\":\"hi \xc3\xa9\"}],"
	 "\"temperature\":0.70,\"stop\":[\"\\n\"]}",
	 0},
	{"complete, messages stay ours",
	 INFER_TASK_COMPLETE,
	 false,
	 "{\"messages\": [], \"model\": null, \"stream\": false, \"endpoint\": \"x\"}",
	 {"a"},
	 "{\"model\":\"m/1\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"stream\":false,"
	 "\"endpoint\":\"x\"}",
	 0},
	{"a streamed chat",
	 INFER_TASK_CHAT,
	 false,
	 "{\"stream\":true}",
	 {"[]"},
	 "{\"model\":\"m/1\",\"messages\":[],\"stream\":true}",
	 0},
	{"chat",
	 INFER_TASK_CHAT,
	 false,
	 "{\"max_tokens\":5}",
	 {" [{\"role\": \"user\", \"content\": \"x\"}] "},
	 "{\"model\":\"m/1\",\"messages\":[{\"role\": \"user\", \"content\": \"x\"}],"
	 "\"max_tokens\":5}",
	 0},
	{"call", INFER_TASK_CALL, false, "{\"a\":1}", {"{\"raw\": true}"}, "{\"raw\": true}", 0},
	{"parameters no object", INFER_TASK_EMBED, false, "[1]", {"a"}, NULL, INFER_REASON_BAD_REQUEST},
	{"parameters no JSON",
	 INFER_TASK_EMBED,
	 false,
	 "{\"a\":}",
	 {"a"},
	 NULL,
	 INFER_REASON_BAD_REQUEST},
	{"parameters and more",
	 INFER_TASK_EMBED,
	 false,
	 "{} {}",
	 {"a"},
	 NULL,
	 INFER_REASON_BAD_REQUEST},
	{"a stream of embeddings",
	 INFER_TASK_EMBED,
	 false,
	 "{\"stream\": true}",
	 {"a"},
	 NULL,
	 INFER_REASON_BAD_REQUEST},
	{"messages no list", INFER_TASK_CHAT, false, "{}", {"{}"}, NULL, INFER_REASON_BAD_REQUEST},
	{"messages no JSON", INFER_TASK_CHAT, false, "{}", {"[1"}, NULL, INFER_REASON_BAD_REQUEST},
	{"call, two values", INFER_TASK_CALL, false, "{}", {"1 2"}, NULL, INFER_REASON_BAD_REQUEST},
	{"no UTF-8", INFER_TASK_EMBED, false, "{}", {"a", "\xe9"}, NULL, INFER_REASON_BAD_REQUEST},
	{"two prompts", INFER_TASK_COMPLETE, false, "{}", {"a", "b"}, NULL, INFER_REASON_INTERNAL},
};

static void
test_build(void)
{
	for (size_t i = 0; i < sizeof(build_rows) / sizeof(build_rows[0]); i++)
	{
		const BuildRow *row = &build_rows[i];
		InferRequestShape shape = {row->task, "m/1", row->parameters, row->ask_base64};
		InferInput inputs[3];
		InferFault fault;
		InferBuf out;
		int n = 0;

		while (n < 3 && row->inputs[n] != NULL)
		{
			inputs[n] = (InferInput){row->inputs[n], strlen(row->inputs[n])};
			n++;
		}
		infer_buf_init(&out, 10000);
		CHECK_ROW(infer_provider_build(openai, &shape, inputs, n, &out, &fault) ==
					  (row->body != NULL),
				  row->name);
		CHECK_ROW(fault.reason == row->reason, row->name);
		CHECK_ROW((fault.message[0] != '\0') == (row->body == NULL), row->name);
		if (row->body != NULL)
			CHECK_ROW(out.data != NULL && strcmp(out.data, row->body) == 0, row->name);
		infer_buf_free(&out);
	}
}

static void
test_build_too_large(void)
{
	InferRequestShape shape = {INFER_TASK_EMBED, "m", "{}", false};
	InferInput input = {"0123456789", 10};
	InferFault fault;
	InferBuf out;

	for (size_t max = 0; max < 32; max++)
	{
		infer_buf_init(&out, max);
		CHECK(!infer_provider_build(openai, &shape, &input, 1, &out, &fault));
		CHECK(fault.reason == INFER_REASON_REQUEST_TOO_LARGE);
		infer_buf_free(&out);
	}
}

static void
test_provider_facts(void)
{
	CHECK(infer_provider_find("openai") == openai && openai != NULL);
	CHECK(infer_provider_find("OpenAI") == NULL);
	CHECK(infer_provider_find("") == NULL);
	CHECK(strstr(infer_provider_names(), "openai") != NULL);
	CHECK(strcmp(infer_provider_path(openai, INFER_TASK_EMBED), "/embeddings") == 0);
	CHECK(strcmp(infer_provider_path(openai, INFER_TASK_COMPLETE), "/chat/completions") == 0);
	CHECK(strcmp(infer_provider_path(openai, INFER_TASK_CALL), "") == 0);
	CHECK(infer_provider_max_items(openai, INFER_TASK_EMBED) == 128);
	CHECK(infer_provider_max_items(openai, INFER_TASK_CHAT) == 1);
	for (int t = 0; t < INFER_TASK_COUNT; t++)
		CHECK(infer_provider_max_bytes(openai, (InferTask) t) > 0);
}

/* --- error answers --- */

#define X50  "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define X250 X50 X50 X50 X50 X50

static void
test_rpc_G6_error_text(void)
{
	const struct
	{
		const char *body;
		const char *text;
	} rows[] = {
		{"{\"error\":{\"message\":\"no such model\",\"type\":\"x\"}}", "no such model"},
		{"{\"error\":{\"type\":\"x\",\"message\":\"caf\\u00e9\"}}", "caf\xc3\xa9"},
		{"{\"error\":\"busy\"}", "busy"},
		{"{\"message\":\"top\",\"error\":{\"message\":\"second\"}}", "top"},
		{"{\"object\":\"error\",\"message\":\"old vLLM\",\"code\":400}", "old vLLM"},
		{"{\"detail\":\"Not Found\"}", "Not Found"},
		{"{\"detail\":[{\"loc\":[\"body\"],\"msg\":\"field required\"},{\"msg\":\"z\"}]}",
		 "field required"},
		{"{\"detail\":[]}", ""},
		{"{\"status\":7}", ""},
		{"\"just text\"", "just text"},
		{"\n\n  upstream timed out \nTrace: line 2\n", "upstream timed out"},
		{"{\"error\":{\"message\":\"\\n\\nfirst\\nsecond\"}}", "first"},
		{"{\"error\":{\"message\":\"cut off", "{\"error\":{\"message\":\"cut off"},
		{"", ""},
		{" \n ", ""},
		{"a\tb\x1b[31mred\x7f", "a\\tb\\x1b[31mred\\x7f"},
		{"{\"error\":\"nul \\u0000 here \\u0085 \\u202e\"}", "nul  here \\u0085 \\u202e"},
		{"bad \xff\xc3 bytes", "bad \\xff\\xc3 bytes"},
		{"{\"error\":\"Mod\xe8le inconnu\"}", "Mod\\xe8le inconnu"}, /* latin-1 */
		{"{\"error\":\"half \\ud83d of a pair\"}", "half \\ud83d of a pair"},
		{X250 "123456", X250 "123456"},
		{X250 "1234567",
		 X50 X50 X50 X50 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx... (truncated)"},
		{"{\"error\":\"" X250 X250 X250 X250 "\\u00e9\\u00e9\\u00e9\\ud83d\\ude00\\u00e9\\u00e9\"}",
		 X50 X50 X50 X50 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx... (truncated)"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		char text[300];

		infer_provider_error_text(rows[i].body, strlen(rows[i].body), text, sizeof(text));
		CHECK_ROW(strcmp(text, rows[i].text) == 0, rows[i].body);
		CHECK_ROW(strlen(text) <= 256, rows[i].body);
		for (size_t size = 1; size < sizeof(text); size++)
		{
			infer_provider_error_text(rows[i].body, strlen(rows[i].body), text, size);
			CHECK_ROW(strlen(text) < size, rows[i].body);
		}
	}
}

/* A character of several bytes or an escape is never cut. */
static void
test_rpc_G6_error_text_boundaries(void)
{
	char body[1400];
	char escaped[2000];
	char text[300];

	for (int lead = 0; lead < 8; lead++)
	{
		int n = lead;

		memset(body, 'x', sizeof(body));
		while (n < 1300)
		{
			memcpy(body + n, "\xf0\x9f\x98\x80", 4);
			n += 4;
		}
		infer_provider_error_text(body, (size_t) n, text, sizeof(text));
		n = (int) strlen(text) - (int) strlen("... (truncated)");
		CHECK(n > 230 && (n - lead) % 4 == 0 && strcmp(text + n, "... (truncated)") == 0);
	}
	/* however it was written: 300 characters of one byte, as 1,800 */
	memcpy(escaped, "{\"error\":\"", 10);
	for (int i = 0; i < 300; i++)
		memcpy(escaped + 10 + i * 6, "\\u0078", 6);
	memcpy(escaped + 10 + 1800, "\"}", 3);
	infer_provider_error_text(escaped, strlen(escaped), text, sizeof(text));
	CHECK(strlen(text) == 256 && strcmp(text + 241, "... (truncated)") == 0);
}

static void
test_size_errors(void)
{
	const struct
	{
		int status;
		const char *body;
		bool is;
	} rows[] = {
		{413, "", true},
		{413, "{\"error\":\"whatever\"}", true},
		{400, "{\"error\":{\"message\":\"Too many inputs. Max is 37.\"}}", true},
		{400, "{\"error\":{\"message\":\"x\",\"code\":\"max_tokens_per_request\"}}", true},
		{400, "{\"error\":{\"message\":\"This model's maximum context length is 8192 tokens\"}}",
		 true},
		{400, "{\"error\":{\"message\":\"x\",\"type\":\"context_length_exceeded\"}}", true},
		{422, "{\"error\":\"batch size 64 > maximum allowed batch size 32\"}", true},
		{422, "{\"detail\":[{\"msg\":\"ensure this value has at most 32 items\"}]}", true},
		{400, "{\"error\":{\"message\":\"invalid temperature\",\"input\":\"too large\"}}", false},
		{400, "{\"error\":{\"message\":\"no such model\"}}", false},
		{400, "", false},
		{500,
		 "{\"error\":{\"code\":500,\"message\":\"input is too large to process. increase the "
		 "physical batch size\"}}",
		 true},
		{500, "{\"error\":{\"message\":\"too many inputs\"}}", false},
		{429, "{\"error\":{\"message\":\"too many tokens per minute\"}}", false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_ROW(infer_provider_is_size_error(rows[i].status, rows[i].body,
											   strlen(rows[i].body)) == rows[i].is,
				  rows[i].body);
}

static void
test_fail_P42_model_words(void)
{
	static const struct
	{
		int status;
		const char *body;
		bool model;
		bool loading;
	} rows[] = {
		{404, "{\"error\":{\"message\":\"x\",\"code\":\"model_not_found\"}}", true, false},
		{404, "{\"error\":{\"message\":\"The model `m` does not exist.\"}}", true, false},
		{404, "{\"error\":\"model 'm' not found, try pulling it first\"}", true, false},
		{404, "{\"error\":{\"message\":\"no such endpoint\",\"code\":\"not_found\"}}", false,
		 false},
		{404, "{\"detail\":\"Not Found\"}", false, false},
		{404, "", false, false},
		{400, "{\"error\":{\"message\":\"x\",\"code\":\"model_not_found\"}}", false, false},
		{503, "{\"error\":{\"code\":503,\"message\":\"Loading model\"}}", false, true},
		{503, "{\"error\":\"Model m is currently loading\",\"estimated_time\":20}", false, true},
		{503, "{\"error\":{\"message\":\"busy\"},\"input\":\"loading\"}", false, false},
		{503, "", false, false},
		{500, "{\"error\":{\"message\":\"Loading model\"}}", false, false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		size_t len = strlen(rows[i].body);

		CHECK_ROW(infer_provider_says_model(rows[i].status, rows[i].body, len) == rows[i].model,
				  rows[i].body);
		CHECK_ROW(infer_provider_is_loading(rows[i].status, rows[i].body, len) == rows[i].loading,
				  rows[i].body);
	}
}

static void
test_fail_P9_quota_errors(void)
{
	const struct
	{
		int status;
		const char *body;
		bool is;
	} rows[] = {
		{402, "", true},
		{429, "{\"error\":{\"message\":\"x\",\"code\":\"insufficient_quota\"}}", true},
		{429, "{\"error\":{\"message\":\"x\",\"type\":\"insufficient_quota\"}}", true},
		{429, "{\"error\":{\"message\":\"x\",\"code\":\"credit_balance_exhausted\"}}", true},
		{429, "{\"error\":{\"message\":\"Your spend limit is reached\"}}", true},
		{403, "{\"error\":{\"message\":\"x\",\"code\":\"billing_hard_limit_reached\"}}", true},
		{400, "{\"error\":{\"message\":\"Your credit balance is too low to access the API.\"}}",
		 true},
		{429, "{\"error\":{\"message\":\"You exceeded your quota of requests per minute\"}}",
		 false},
		{429, "{\"error\":{\"code\":\"rate_limit_exceeded\"},\"input\":\"insufficient_quota\"}",
		 false},
		{429, "", false},
		{500, "{\"error\":{\"message\":\"x\",\"code\":\"insufficient_quota\"}}", false},
		{200, "insufficient_quota", false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_ROW(infer_provider_is_quota_error(rows[i].status, rows[i].body,
												strlen(rows[i].body)) == rows[i].is,
				  rows[i].body);
}

int
main(void)
{
	openai = infer_provider_find("openai");
	TEST(provider_facts);
	TEST(build);
	TEST(build_too_large);
	TEST(rpc_G6_error_text);
	TEST(rpc_G6_error_text_boundaries);
	TEST(size_errors);
	TEST(fail_P9_quota_errors);
	TEST(fail_P42_model_words);
	return tap_done();
}
