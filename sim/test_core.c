/*
 * sim/test_core.c - words for reasons and the like, and the buffer: core/types, core/buf.
 *
 * rpc_*: the statements of the reference.
 */
#include "core/buf.h"
#include "core/types.h"
#include "tap.h"

#include <string.h>

/* rpc_G3: a kind of error has one name and one code, none of which is another's. */
static void
test_rpc_G3_reason_words(void)
{
	for (int i = 0; i < INFER_REASON_COUNT; i++)
	{
		const char *name = infer_reason_name((InferReason) i);
		const char *code = infer_reason_code((InferReason) i);

		CHECK_ROW(strlen(name) > 0, name);
		CHECK_ROW(strlen(code) == 3, name);
		CHECK_ROW(strspn(code, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 3, name);
		for (int k = 0; k < i; k++)
		{
			CHECK_ROW(strcmp(code, infer_reason_code((InferReason) k)) != 0, name);
			CHECK_ROW(strcmp(name, infer_reason_name((InferReason) k)) != 0, name);
		}
	}
	CHECK(strcmp(infer_reason_name(INFER_REASON_TIMEOUT), "timeout") == 0);
	CHECK(strcmp(infer_reason_code(INFER_REASON_TIMEOUT), "TMO") == 0);
	CHECK(strcmp(infer_execution_name(INFER_MAYBE_EXECUTED), "maybe_executed") == 0);
	CHECK(strcmp(infer_task_name(INFER_TASK_EMBED), "embed") == 0);
	CHECK(strcmp(infer_reason_name((InferReason) 99), "unknown") == 0);
}

/* rpc_G8: what does not fit, or would overflow the count, is refused. */
static void
test_buf_from_latin1(void)
{
	InferBuf buf;

	infer_buf_init(&buf, 9);
	CHECK(infer_buf_from_latin1(&buf) && buf.len == 0);
	CHECK(infer_buf_adds(&buf, "a\xe9z\xff\x80") && infer_buf_from_latin1(&buf));
	CHECK(buf.len == 8 && strcmp(buf.data, "a\xc3\xa9z\xc3\xbf\xc2\x80") == 0);
	CHECK(!infer_buf_from_latin1(&buf) && buf.len == 8);
	CHECK(strcmp(buf.data, "a\xc3\xa9z\xc3\xbf\xc2\x80") == 0);
	infer_buf_free(&buf);
}

static void
test_rpc_G8_buf_limit(void)
{
	InferBuf buf;

	infer_buf_init(&buf, 10);
	CHECK(buf.data == NULL);
	CHECK(infer_buf_add(&buf, "12345", 5));
	CHECK(infer_buf_adds(&buf, "6789"));
	CHECK(!infer_buf_adds(&buf, "xy"));
	CHECK(buf.overflow && !buf.nomem);
	CHECK(strcmp(buf.data, "123456789") == 0);
	CHECK(infer_buf_addc(&buf, '0'));
	CHECK(buf.len == 10 && strcmp(buf.data, "1234567890") == 0);
	CHECK(!infer_buf_addc(&buf, '!'));
	infer_buf_reset(&buf);
	CHECK(buf.len == 0 && !buf.overflow && buf.data[0] == '\0');
	CHECK(infer_buf_adds(&buf, "again"));
	infer_buf_free(&buf);
	CHECK(buf.data == NULL && buf.cap == 0);

	infer_buf_init(&buf, SIZE_MAX);
	CHECK(infer_buf_adds(&buf, "x"));
	CHECK(!infer_buf_reserve(&buf, SIZE_MAX - 1));
	CHECK(strcmp(buf.data, "x") == 0);
	infer_buf_free(&buf);
}

static void
test_buf_grows(void)
{
	InferBuf buf;

	infer_buf_init(&buf, 1 << 20);
	for (int i = 0; i < 100000; i++)
	{
		if (!infer_buf_addc(&buf, (char) ('a' + i % 26)))
			break;
	}
	CHECK(buf.len == 100000);
	CHECK(buf.data[0] == 'a' && buf.data[99999] == 'a' + 99999 % 26 && buf.data[100000] == '\0');
	infer_buf_free(&buf);
}

static void
test_buf_json_string(void)
{
	static const char in[] = "q\" b\\ n\n t\t r\r \b\f \x01 \x7f \xc3\xa9 \0 end";
	static const char out[] = "\"q\\\" b\\\\ n\\n t\\t r\\r \\b\\f \\u0001 \\u007f \xc3\xa9 "
							  "\\u0000 end\"";
	InferBuf buf;

	infer_buf_init(&buf, 1000);
	CHECK(infer_buf_add_json_string(&buf, in, sizeof(in) - 1));
	CHECK(strcmp(buf.data, out) == 0);
	infer_buf_reset(&buf);
	CHECK(infer_buf_add_json_string(&buf, "", 0));
	CHECK(strcmp(buf.data, "\"\"") == 0);
	infer_buf_free(&buf);

	/* what does not fit leaves nothing behind */
	infer_buf_init(&buf, 8);
	CHECK(infer_buf_adds(&buf, "abc"));
	CHECK(!infer_buf_add_json_string(&buf, "long\nish", 8));
	CHECK(buf.overflow && strcmp(buf.data, "abc") == 0 && buf.len == 3);
	infer_buf_free(&buf);
}

int
main(void)
{
	TEST(rpc_G3_reason_words);
	TEST(rpc_G8_buf_limit);
	TEST(buf_from_latin1);
	TEST(buf_grows);
	TEST(buf_json_string);
	return tap_done();
}
