/*
 * sim/fuzz/values.c - numbers, float arrays, times and urls out of text.
 *
 * A list of numbers gives bit by bit what strtof() makes of each of them, or is refused for the
 * reason that the model finds.  Base64 gives the bytes that the model gives, and floats written as
 * base64 come back as they were.  Headers and urls: fields.c.
 */
#include "fields.h"
#include "fuzz.h"
#include "model.h"

#include "provider/floats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static InferFloatsResult
add_number(const char *start, size_t len, InferFloats *floats)
{
	char *text = malloc(len + 1);
	float value;

	memcpy(text, start, len);
	text[len] = '\0';
	value = strtof(text, NULL);
	free(text);
	REQUIRE(infer_floats_reserve(floats, 1));
	floats->data[floats->len++] = value;
	return isfinite(value) ? INFER_FLOATS_OK : INFER_FLOATS_BAD_VALUE;
}

/* The list at the reader, by strtof(). */
static InferFloatsResult
model_list(ModelReader *r, InferFloats *floats)
{
	InferFloatsResult result = INFER_FLOATS_OK;

	r->p++; /* the bracket */
	model_space(r);
	if (r->p < r->end && *r->p == ']')
	{
		r->p++;
		return result;
	}
	for (;;)
	{
		const char *start;
		ModelReader number;

		model_space(r);
		start = r->p;
		number = *r;
		if (model_number(&number))
		{
			r->p = number.p;
			if (add_number(start, (size_t) (r->p - start), floats) != INFER_FLOATS_OK)
				result = INFER_FLOATS_BAD_VALUE;
		}
		else if (model_word(r) || model_value(r, 0))
			result = INFER_FLOATS_BAD_VALUE;
		else
			return INFER_FLOATS_NOT_JSON;
		model_space(r);
		if (r->p == r->end || (*r->p != ',' && *r->p != ']'))
			return INFER_FLOATS_NOT_JSON;
		if (*r->p++ == ']')
			return result;
	}
}

static void
require_equal(const InferFloats *ours, size_t from, const float *theirs, size_t n)
{
	REQUIRE(ours->len == from + n);
	REQUIRE(n == 0 || memcmp(ours->data + from, theirs, n * sizeof(float)) == 0);
	for (size_t i = 0; i < n; i++)
		REQUIRE(isfinite(theirs[i]));
}

/* Some floats that are there already must stay. */
static void
start_floats(InferFloats *floats, unsigned n)
{
	*floats = (InferFloats){0};
	for (unsigned i = 0; i < n; i++)
	{
		REQUIRE(infer_floats_reserve(floats, 1));
		floats->data[floats->len++] = 7;
	}
}

static void
try_list(const FuzzText *rest, unsigned before)
{
	FuzzText text = {malloc(rest->len + 1), rest->len + 1};
	InferFloats ours;
	InferFloats theirs = {0};
	ModelReader r;
	InferJson j;
	InferFloatsResult result;

	text.data[0] = '[';
	memcpy(text.data + 1, rest->data, rest->len);
	r = (ModelReader){text.data, text.data + text.len, INFER_JSON_DEPTH, false};
	j = infer_json_start(text.data, text.len);
	start_floats(&ours, before);

	result = infer_floats_scan_list(&j, &ours);
	REQUIRE(result == model_list(&r, &theirs));
	if (result != INFER_FLOATS_NOT_JSON)
		REQUIRE(j.p == r.p);
	if (result == INFER_FLOATS_OK)
		require_equal(&ours, before, theirs.data, theirs.len);
	if (result == INFER_FLOATS_BAD_VALUE)
		REQUIRE(ours.len == before);
	for (unsigned i = 0; i < before; i++)
		REQUIRE(ours.data[i] == 7);
	infer_floats_free(&ours);
	infer_floats_free(&theirs);
	fuzz_free(&text);
}

/* The text as a JSON string: what its base64 stands for. */
static void
try_base64(const FuzzText *rest, unsigned before)
{
	FuzzText text = {malloc(rest->len + 2), rest->len + 2};
	InferFloats ours;
	InferSlice string;
	InferJson j;

	text.data[0] = text.data[text.len - 1] = '"';
	memcpy(text.data + 1, rest->data, rest->len);
	j = infer_json_start(text.data, text.len);
	if (infer_json_string(&j, &string))
	{
		char *plain = malloc(string.len + 1);
		unsigned char *bytes = malloc(string.len + 1);
		size_t plain_len;
		size_t nbytes = 0;
		bool good = model_decode(string.data, string.len, plain, &plain_len) == 0 &&
					model_base64(plain, plain_len, bytes, &nbytes) && nbytes % 4 == 0;
		InferFloatsResult result;

		for (size_t i = 0; i + 4 <= nbytes; i += 4)
			good = good && ((bytes[i + 3] & 0x7F) != 0x7F || (bytes[i + 2] & 0x80) == 0);
		start_floats(&ours, before);
		result = infer_floats_from_base64(&string, &ours);
		REQUIRE(result == (good ? INFER_FLOATS_OK : INFER_FLOATS_BAD_VALUE));
		if (good)
			require_equal(&ours, before, (float *) bytes, nbytes / 4);
		else
			REQUIRE(ours.len == before);
		infer_floats_free(&ours);
		free(plain);
		free(bytes);
	}
	fuzz_free(&text);
}

/* The bytes as floats: base64 there and back. */
static void
try_round_trip(const FuzzText *rest, unsigned before)
{
	size_t n = rest->len / 4;
	char *text = malloc(n * 6 + 4);
	InferSlice string = {text, model_to_base64((unsigned char *) rest->data, n * 4, text), false};
	InferFloats ours;
	InferFloatsResult result;
	bool finite = true;

	for (size_t i = 0; i < n; i++)
	{
		float value;

		memcpy(&value, rest->data + i * 4, 4);
		finite = finite && isfinite(value);
	}
	start_floats(&ours, before);
	result = infer_floats_from_base64(&string, &ours);
	REQUIRE(result == (finite ? INFER_FLOATS_OK : INFER_FLOATS_BAD_VALUE));
	if (finite)
		require_equal(&ours, before, (float *) rest->data, n);
	infer_floats_free(&ours);
	free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FuzzInput in = {data, size};
	unsigned how = fuzz_byte(&in);
	FuzzText rest = fuzz_rest(&in);
	unsigned before = how / 64; /* floats that are there already */

	switch (how % 8)
	{
		case 0:
			try_base64(&rest, before);
			break;
		case 1:
			try_round_trip(&rest, before);
			break;
		case 2:
			fuzz_try_header(&rest);
			break;
		case 3:
			fuzz_try_date(&rest);
			break;
		case 4:
			fuzz_try_url(&rest);
			break;
		default:
			try_list(&rest, before);
	}
	fuzz_free(&rest);
	return 0;
}
