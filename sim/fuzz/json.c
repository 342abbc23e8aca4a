/*
 * sim/fuzz/json.c - the JSON reader and the writer of JSON strings.
 *
 * As a text: infer_json_value() accepts exactly what the model accepts; walking the same text
 * member by member comes to the same verdict and to the same end; every string on the way decodes
 * to what the model makes of it.  As a string: whatever bytes are written come back.
 */
#include "fuzz.h"
#include "model.h"

#include "core/buf.h"
#include "provider/json_scan.h"

#include <stdlib.h>
#include <string.h>

static bool
inside(const InferSlice *slice, const FuzzText *text)
{
	return slice->data >= text->data && slice->data + slice->len <= text->data + text->len;
}

/* As a key: known by its name, and not by one that differs in a bit. */
static void
check_key(const InferSlice *string, char *name, size_t len)
{
	name[len] = '\0';
	REQUIRE(infer_json_key_is(string, name));
	name[len / 2] ^= 0x40;
	if (name[len / 2] != '\0')
		REQUIRE(!infer_json_key_is(string, name));
}

/* The integer that a number token stands for, where it has no more than 18 digits. */
static int64_t
integer_at(const InferSlice *number)
{
	char digits[24] = {0};

	REQUIRE(number->len < sizeof(digits));
	memcpy(digits, number->data, number->len);
	return strtoll(digits, NULL, 10);
}

/* Repaired, a string is fit for a table, and the same as decoded if it was before. */
static void
check_repaired(const InferSlice *string, int faults, const char *decoded, size_t decoded_len)
{
	char *repaired = malloc(string->len * INFER_REPLACEMENT_GROWTH + 1);
	size_t len = infer_json_decode_repaired(string, repaired);

	REQUIRE(len <= string->len * INFER_REPLACEMENT_GROWTH);
	REQUIRE(model_is_utf8(repaired, len));
	REQUIRE(memchr(repaired, '\0', len) == NULL);
	if (faults == 0)
		REQUIRE(len == decoded_len && memcmp(repaired, decoded, len) == 0);
	free(repaired);
}

static int
check_string(const InferSlice *string, const FuzzText *text)
{
	char *ours = malloc(string->len + 1); /* and a NUL for check_key() */
	char *theirs = malloc(string->len + 1);
	size_t our_len;
	size_t their_len;
	size_t checked_len;
	int faults = model_decode(string->data, string->len, theirs, &their_len);

	REQUIRE(inside(string, text));
	REQUIRE(string->escaped == (memchr(string->data, '\\', string->len) != NULL));
	REQUIRE((int) infer_json_decode(string, ours, &our_len) == faults);
	REQUIRE((int) infer_json_decode(string, NULL, &checked_len) == faults);
	REQUIRE(our_len == checked_len && our_len <= string->len);
	REQUIRE(model_is_utf8(ours, our_len));
	REQUIRE(infer_utf8_valid(string->data, string->len) ==
			model_is_utf8(string->data, string->len));
	check_repaired(string, faults, theirs, their_len);
	if (faults == 0)
	{
		REQUIRE(our_len == their_len && memcmp(ours, theirs, our_len) == 0);
		if (our_len > 0 && our_len < 20 && memchr(ours, '\0', our_len) == NULL)
			check_key(string, ours, our_len);
	}
	free(ours);
	free(theirs);
	return faults;
}

/* The value at the cursor, member by member. False: not JSON. */
static bool
walk(InferJson *j, const FuzzText *text, int depth, int *faults)
{
	InferSlice part;
	InferJsonStep step;
	bool first = true;
	char c = infer_json_peek(j);
	int64_t n;

	if (c == '"')
	{
		if (!infer_json_string(j, &part))
			return false;
		*faults |= check_string(&part, text);
		return true;
	}
	if (c != '{' && c != '[')
	{
		const char *start = j->p;
		InferJson again = *j;
		bool integer = infer_json_integer(j, &n);

		REQUIRE(integer || j->p == start);
		if (!infer_json_value(&again, &part))
			return false;
		REQUIRE(inside(&part, text));
		REQUIRE(!integer || (again.p == j->p && n == integer_at(&part)));
		*j = again;
		return true;
	}
	if (depth == INFER_JSON_DEPTH)
		return false;
	REQUIRE(infer_json_open(j, c));
	for (;;)
	{
		step = c == '{' ? infer_json_next_member(j, &first, &part)
						: infer_json_next_element(j, &first);
		if (step != INFER_JSON_ITEM)
			return step == INFER_JSON_DONE;
		if (c == '{')
			*faults |= check_string(&part, text);
		if (!walk(j, text, depth + 1, faults))
			return false;
	}
}

static void
try_reader(const FuzzText *text)
{
	InferJson whole = infer_json_start(text->data, text->len);
	InferJson parts = whole;
	InferSlice value;
	int faults = 0;
	bool ok = infer_json_value(&whole, &value);

	REQUIRE(walk(&parts, text, 0, &faults) == ok);
	REQUIRE((ok && infer_json_at_end(&whole)) ==
			model_is_json(text->data, text->len, INFER_JSON_DEPTH, false));
	if (!ok)
		return;
	infer_json_at_end(&parts);
	infer_json_at_end(&whole);
	REQUIRE(parts.p == whole.p && inside(&value, text));
	REQUIRE(((int) infer_json_value_check(&value) & ~INFER_TEXT_NUMBER) == faults);
}

/* Numbers that numeric holds, and numbers it does not. */
static void
try_number(const FuzzText *text)
{
	ModelReader r = {text->data, text->data + text->len, 0, false};
	InferSlice number = {text->data, 0, false};
	const char *e;
	char exponent[8] = {0};
	InferTextFault fault;

	if (!model_number(&r))
		return;
	number.len = (size_t) (r.p - text->data);
	fault = infer_json_value_check(&number);
	e = memchr(number.data, 'e', number.len);
	if (e == NULL)
		e = memchr(number.data, 'E', number.len);
	if (e == NULL)
	{
		if (number.len < 16000)
			REQUIRE(fault == INFER_TEXT_FINE);
		if (number.len > 150000)
			REQUIRE(fault == INFER_TEXT_NUMBER);
	}
	else if (number.data + number.len - e < (long) sizeof(exponent) && number.len < 1000)
	{
		long n;

		memcpy(exponent, e + 1, (size_t) (number.data + number.len - e - 1));
		n = strtol(exponent, NULL, 10);
		if (n > -15000 && n < 130000)
			REQUIRE(fault == INFER_TEXT_FINE);
		if (n < -16001 || n > 131001)
			REQUIRE(fault == INFER_TEXT_NUMBER);
	}
}

static void
try_writer(const FuzzText *text, size_t max)
{
	InferBuf buf;
	InferJson j;
	InferSlice string;
	bool ok;

	infer_buf_init(&buf, max);
	infer_buf_adds(&buf, "x");
	ok = infer_buf_add_json_string(&buf, text->data, text->len);
	REQUIRE(buf.len <= max || max == 0);
	if (!ok)
	{
		REQUIRE(buf.overflow && buf.len <= 1);
		REQUIRE(max < text->len * 6 + 3);
		infer_buf_free(&buf);
		return;
	}
	REQUIRE(buf.data[0] == 'x' && buf.data[buf.len] == '\0');
	for (size_t i = 0; i < buf.len; i++)
		REQUIRE((unsigned char) buf.data[i] >= 0x20 && buf.data[i] != 0x7f);
	j = infer_json_start(buf.data + 1, buf.len - 1);
	REQUIRE(model_is_json(buf.data + 1, buf.len - 1, 0, false));
	REQUIRE(infer_json_string(&j, &string) && infer_json_at_end(&j));
	{
		char *back = malloc(string.len + 1);
		size_t len;
		int faults = model_decode(string.data, string.len, back, &len);
		int expected = (memchr(text->data, '\0', text->len) != NULL ? MODEL_NUL : 0) |
					   (model_is_utf8(text->data, text->len) ? 0 : MODEL_INVALID);

		REQUIRE(faults == expected);
		REQUIRE((int) infer_json_decode(&string, NULL, NULL) == expected);
		/* a NUL is written as an escape, which the model leaves out; all else comes back */
		if ((faults & MODEL_NUL) == 0)
			REQUIRE(len == text->len && memcmp(back, text->data, len) == 0);
		free(back);
	}
	infer_buf_free(&buf);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FuzzInput in = {data, size};
	unsigned how = fuzz_byte(&in);
	FuzzText text = fuzz_rest(&in);

	switch (how % 4)
	{
		case 0:
			try_number(&text);
			break;
		case 1:
			try_writer(&text, how >= 128 ? how / 2 : 1 << 20);
			break;
		default:
			try_reader(&text);
	}
	fuzz_free(&text);
	return 0;
}
