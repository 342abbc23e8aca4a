/*
 * sim/test_json.c - the JSON reader, floats and base64 below src/provider.
 *
 * Floats are compared with strtof() bit by bit, on tables of the hard cases and on random decimals.
 */
#include "provider/floats.h"
#include "provider/json_scan.h"
#include "tap.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static bool
is_json(const char *text, size_t len)
{
	/* an exact copy, so that the address sanitizer sees a read past the end */
	char *copy = malloc(len > 0 ? len : 1);
	InferJson j;
	bool ok;

	memcpy(copy, text, len);
	j = infer_json_start(copy, len);
	ok = infer_json_value(&j, NULL) && infer_json_at_end(&j);
	free(copy);
	return ok;
}

static void
test_json_accepts(void)
{
	static const char *const good[] = {
		"null",
		" true ",
		"false",
		"0",
		"-0",
		"12",
		"-1.5e+10",
		"1E-2",
		"0.0",
		"\"\"",
		"\"a\\u00e9\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
		"[]",
		"{}",
		"[ ]",
		"{ }",
		"[1,2 , 3]",
		"[[],[[]],{}]",
		"{\"a\":1,\"b\":[{\"c\":{}}]}",
		"\t{ \"a\" : [ 1 , { } ] }\r\n",
		"{\"a\":1,\"a\":2}",
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
	{
		CHECK_ROW(is_json(good[i], strlen(good[i])), good[i]);
		/* a truncated text is none, except where what is left is a value of its own */
		for (size_t n = 1; n < strlen(good[i]) && strchr("{[\"", good[i][0]) != NULL; n++)
			CHECK_ROW(!is_json(good[i], n), good[i]);
	}
}

static void
test_json_refuses(void)
{
	static const char *const bad[] = {
		"",
		" ",
		"nul",
		"nulll",
		"True",
		"01",
		"-",
		"+1",
		"1.",
		".5",
		"1e",
		"1e+",
		"0x10",
		"NaN",
		"Infinity",
		"[",
		"]",
		"[1",
		"[1,",
		"[1,]",
		"[,1]",
		"[1 2]",
		"{",
		"{\"a\"",
		"{\"a\":",
		"{\"a\":}",
		"{\"a\":1",
		"{\"a\":1,}",
		"{,}",
		"{a:1}",
		"{1:2}",
		"[}",
		"{]",
		"[1}",
		"{\"a\":1]",
		"\"",
		"\"\\\"",
		"\"\\x\"",
		"\"\\u12\"",
		"\"\\u12g4\"",
		"\"a\nb\"",
		"1 2",
		"{} {}",
		"[] ,",
		"'a'",
		"/**/1",
		"[\"a\" \"b\"]",
		"{\"a\" 1}",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_ROW(!is_json(bad[i], strlen(bad[i])), bad[i]);
	CHECK(!is_json("\0", 1));
	CHECK(!is_json("1\0", 2));
	CHECK(!is_json("\"a\0b\"", 5));
}

static void
test_json_depth(void)
{
	char text[2 * (INFER_JSON_DEPTH + 1)];

	memset(text, '[', INFER_JSON_DEPTH);
	memset(text + INFER_JSON_DEPTH, ']', INFER_JSON_DEPTH);
	CHECK(is_json(text, 2 * INFER_JSON_DEPTH));
	memset(text, '[', INFER_JSON_DEPTH + 1);
	memset(text + INFER_JSON_DEPTH + 1, ']', INFER_JSON_DEPTH + 1);
	CHECK(!is_json(text, sizeof(text)));
}

static void
test_json_integers(void)
{
	const struct
	{
		const char *text;
		bool ok;
		int64_t value;
	} rows[] = {
		{"0", true, 0},
		{"-7", true, -7},
		{" 42,", true, 42},
		{"1.0", false, 0},
		{"1e2", false, 0},
		{"01", false, 0},
		{"\"1\"", false, 0},
		{"-", false, 0},
		{"", false, 0},
		{"999999999999999999", true, 999999999999999999},
		{"1000000000000000000", false, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		InferJson j = infer_json_start(rows[i].text, strlen(rows[i].text));
		int64_t value = 0;

		CHECK_ROW(infer_json_integer(&j, &value) == rows[i].ok, rows[i].text);
		CHECK_ROW(value == rows[i].value, rows[i].text);
	}
}

static void
test_json_keys(void)
{
	const struct
	{
		const char *json;
		bool is_index;
	} rows[] = {
		{"\"index\"", true},
		{"\"indexx\"", false},
		{"\"inde\"", false},
		{"\"\\u0069ndex\"", true},
		{"\"\\u0069\\u006e\\u0064\\u0065\\u0078\"", true},
		{"\"\\u0069ndey\"", false},
		{"\"index\\u0000\"", false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		InferJson j = infer_json_start(rows[i].json, strlen(rows[i].json));
		InferSlice key;

		CHECK_ROW(infer_json_string(&j, &key), rows[i].json);
		CHECK_ROW(infer_json_key_is(&key, "index") == rows[i].is_index, rows[i].json);
	}
}

static void
test_json_decode(void)
{
	const struct
	{
		const char *json;
		const char *text;
		unsigned faults;
	} rows[] = {
		{"\"\"", "", INFER_TEXT_FINE},
		{"\"a\\n\\t\\\\\\/\\\"b\"", "a\n\t\\/\"b", INFER_TEXT_FINE},
		{"\"\\u00e9\\u20ac\"", "\xc3\xa9\xe2\x82\xac", INFER_TEXT_FINE},
		{"\"\\ud83d\\uDE00!\"", "\xf0\x9f\x98\x80!", INFER_TEXT_FINE},
		{"\"x\\u0000y\"", "xy", INFER_TEXT_HAS_NUL},
		{"\"x\\ud83dy\"", "xy", INFER_TEXT_INVALID},
		{"\"x\\ud83d\"", "x", INFER_TEXT_INVALID},
		{"\"x\\ud83d\\n\"", "x\n", INFER_TEXT_INVALID},
		{"\"\\ud83d\\u0041\"", "A", INFER_TEXT_INVALID},
		{"\"x\\ude00y\"", "xy", INFER_TEXT_INVALID},
		{"\"x\xff\\n\"", "\n", INFER_TEXT_INVALID},
		{"\"\\u0000\\udc00\"", "", INFER_TEXT_HAS_NUL | INFER_TEXT_INVALID},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		InferJson j = infer_json_start(rows[i].json, strlen(rows[i].json));
		InferSlice string;
		char text[64];
		size_t len;

		CHECK_ROW(infer_json_string(&j, &string), rows[i].json);
		CHECK_ROW(infer_json_decode(&string, text, &len) == rows[i].faults, rows[i].json);
		CHECK_ROW(len == strlen(rows[i].text) && memcmp(text, rows[i].text, len) == 0,
				  rows[i].json);
		CHECK_ROW(infer_json_decode(&string, NULL, NULL) == rows[i].faults, rows[i].json);
	}
}

static void
test_json_value_check(void)
{
	const struct
	{
		const char *json;
		unsigned faults;
	} rows[] = {
		{"{\"a\":[1,\"\\u00e9\",true,null]}", INFER_TEXT_FINE},
		{"{\"a\\u0000\":1}", INFER_TEXT_HAS_NUL},
		{"[\"\\udc00\",\"\xfe\"]", INFER_TEXT_INVALID},
		{"[1e100000]", INFER_TEXT_FINE},
		{"[-1.5e140000]", INFER_TEXT_NUMBER},
		{"[1e-20000]", INFER_TEXT_NUMBER},
		{"[1e99999999999999999999]", INFER_TEXT_NUMBER},
		{"7", INFER_TEXT_FINE},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		InferSlice value = {rows[i].json, strlen(rows[i].json), false};

		CHECK_ROW(infer_json_value_check(&value) == rows[i].faults, rows[i].json);
	}
}

static void
test_utf8(void)
{
	static const char *const good[] = {
		"",
		"plain ascii of more than eight",
		"\xc2\x80",
		"\xdf\xbf",
		"\xe0\xa0\x80",
		"\xed\x9f\xbf",
		"\xee\x80\x80",
		"\xef\xbf\xbf",
		"\xf0\x90\x80\x80",
		"\xf4\x8f\xbf\xbf",
		"12345678\xc3\xa9",
	};
	static const char *const bad[] = {
		"\x80",
		"\xbf",
		"\xc0\x80",
		"\xc1\xbf",
		"\xc2",
		"\xc2\x20",
		"\xe0\x9f\xbf",
		"\xe0\xa0",
		"\xed\xa0\x80",
		"\xef\xbf",
		"\xf0\x8f\xbf\xbf",
		"\xf4\x90\x80\x80",
		"\xf5\x80\x80\x80",
		"\xff",
		"12345678\xc3",
		"1234567\xc3\x28",
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		CHECK_ROW(infer_utf8_valid(good[i], strlen(good[i])), good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		char name[16];

		snprintf(name, sizeof(name), "bad %zu", i);
		CHECK_ROW(!infer_utf8_valid(bad[i], strlen(bad[i])), name);
	}
}

/* --- floats --- */

/* The list "[text]" read; the result, and the first float in *value. */
static InferFloatsResult
scan_one(const char *text, float *value)
{
	char list[600];
	int len = snprintf(list, sizeof(list), "[%s]", text);
	char *copy = malloc((size_t) len);
	InferFloats floats = {0};
	InferFloatsResult result;
	InferJson j;

	memcpy(copy, list, (size_t) len);
	j = infer_json_start(copy, (size_t) len);
	result = infer_floats_scan_list(&j, &floats);
	*value = floats.len > 0 ? floats.data[0] : 0;
	infer_floats_free(&floats);
	free(copy);
	return result;
}

static bool
same_bits(float a, float b)
{
	return memcmp(&a, &b, sizeof(a)) == 0;
}

static void
test_floats_exact(void)
{
	static const char *const texts[] = {
		"0",
		"-0",
		"0.0",
		"-0.0e5",
		"1",
		"-1",
		"0.1",
		"-0.0234375123",
		"1e0",
		"1E+2",
		"1e-2",
		"3.4028234663852886e38",
		"3.4028235e38",
		"3.40282356e38",
		"1.17549435e-38",
		"1.1754943e-38",
		"1e-45",
		"7e-46",
		"7.1e-46",
		"1e-50",
		"1e-400",
		"0e999999999999",
		/* middles between two floats, and just beside them */
		"16777217",
		"16777219",
		"16777217.0000000000000000000000000001",
		"16777216.999999999999999999999999999",
		"1.00000005960464477539062500",
		"1.00000005960464477539062501",
		"1.00000005960464477539062499",
		"1.000000059604644775390625000000000000000000000000000000000000000001",
		/* more digits than fit */
		"0.1000000014901161193847656251",
		"123456789012345678901234567890",
		"0.000000000000000000000000000000123456789012345678901234567890",
		"0.00000012345678901234567890123456789",
		"12345678901234567890e-20",
		"0.0000001200000000000000000000000000000000001",
		"1000000000000000000000e-21",
		"9007199254740993",
		"9007199254740993e-16",
		"0.12345678901234567",
		"0.99999999999999999",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
	{
		float value;

		CHECK_ROW(scan_one(texts[i], &value) == INFER_FLOATS_OK, texts[i]);
		CHECK_ROW(same_bits(value, strtof(texts[i], NULL)), texts[i]);
	}
}

static uint64_t random_state = 20;

static uint64_t
next_random(void)
{
	/* splitmix64 */
	uint64_t z = (random_state += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

static void
test_floats_random(void)
{
	int wrong = 0;

	for (int i = 0; i < 60000; i++)
	{
		uint32_t bits = (uint32_t) next_random();
		char text[512];
		float f;
		float value;

		memcpy(&f, &bits, sizeof(f));
		if ((bits & 0x7F800000) == 0x7F800000)
			continue;
		switch (i % 4)
		{
			case 0:
				snprintf(text, sizeof(text), "%.9g", f);
				break;
			case 1: /* as embeddings are */
				snprintf(text, sizeof(text), "%.*f", 1 + i % 20,
						 (double) (int32_t) bits / 2147483648.0);
				break;
			case 2: /* the middle to the next float, in full */
				memcpy(&value, &(uint32_t){bits + 1}, sizeof(value));
				if ((bits & 0x7FFFFF) == 0x7FFFFF)
					continue;
				snprintf(text, sizeof(text), "%.150g", ((double) f + (double) value) / 2);
				break;
			default:
				snprintf(text, sizeof(text), "%.17g", (double) f * 1.0000000001);
				break;
		}
		f = strtof(text, NULL);
		if (scan_one(text, &value) != INFER_FLOATS_OK || !same_bits(value, f))
		{
			if (wrong++ == 0)
				printf("# first wrong one: %s\n", text);
		}
	}
	CHECK(wrong == 0);
}

static void
test_floats_bad_values(void)
{
	static const char *const bad_values[] = {
		"1e39",    "-1e39",   "3.5e38",   "1e999999999",
		"null",    "true",    "\"1\"",    "[1]",
		"{}",      "NaN",     "Infinity", "-Infinity",
		"1,NaN,2", "NaN , 1", "1,null",   "340282356779733661637539395458142568448",
	};
	static const char *const not_json[] = {
		"1,", ",",   "1 2", "01",   "1.",   ".5", "-", "+1",
		"1e", "nan", "inf", "-NaN", "1,,2", "x",  "[", "Infinit",
	};
	float value;

	for (size_t i = 0; i < sizeof(bad_values) / sizeof(bad_values[0]); i++)
		CHECK_ROW(scan_one(bad_values[i], &value) == INFER_FLOATS_BAD_VALUE, bad_values[i]);
	for (size_t i = 0; i < sizeof(not_json) / sizeof(not_json[0]); i++)
		CHECK_ROW(scan_one(not_json[i], &value) == INFER_FLOATS_NOT_JSON, not_json[i]);
}

static void
test_floats_lists(void)
{
	static const char *const lists[] = {"[1,2,3]", "[1, 2, 3]", " [ 1 ,\n 2\t,\r\n3 ] ",
										"[1.0,  2e0,\n3]"};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
	{
		InferJson j = infer_json_start(lists[i], strlen(lists[i]));
		InferFloats floats = {0};

		CHECK_ROW(infer_floats_scan_list(&j, &floats) == INFER_FLOATS_OK, lists[i]);
		CHECK_ROW(floats.len == 3 && floats.data[0] == 1 && floats.data[1] == 2 &&
					  floats.data[2] == 3,
				  lists[i]);
		CHECK_ROW(infer_json_at_end(&j), lists[i]);
		infer_floats_free(&floats);
	}
	for (size_t n = 0; n < 7; n++)
	{
		InferJson j = infer_json_start(lists[0], n);
		InferFloats floats = {0};

		CHECK(infer_floats_scan_list(&j, &floats) == INFER_FLOATS_NOT_JSON);
		infer_floats_free(&floats);
	}
}

/* --- base64 --- */

static void
test_base64_tables(void)
{
	const struct
	{
		const char *text;
		InferFloatsResult result;
		size_t len;
	} rows[] = {
		{"", INFER_FLOATS_OK, 0},
		{"AACAPw==", INFER_FLOATS_OK, 1},
		{"AACAPwAAAEA=", INFER_FLOATS_OK, 2},
		{"AACAPwAAAEAAAEBA", INFER_FLOATS_OK, 3},
		{"AACAPwAAAEAAAEBAAACAQA==", INFER_FLOATS_OK, 4},
		{"AACAPw", INFER_FLOATS_BAD_VALUE, 0}, /* no padding */
		{"AACAPw=", INFER_FLOATS_BAD_VALUE, 0},
		{"AACA", INFER_FLOATS_BAD_VALUE, 0},     /* three bytes */
		{"AACAPwA=", INFER_FLOATS_BAD_VALUE, 0}, /* five */
		{"AACAPw-=", INFER_FLOATS_BAD_VALUE, 0},
		{"AAC=Pw==", INFER_FLOATS_BAD_VALUE, 0},
		{"AAC Pw==", INFER_FLOATS_BAD_VALUE, 0},
		{"====", INFER_FLOATS_BAD_VALUE, 0},
		{"AACAfw==", INFER_FLOATS_BAD_VALUE, 0}, /* infinity */
		{"AADAfw==", INFER_FLOATS_BAD_VALUE, 0}, /* NaN */
		{"AACA/w==", INFER_FLOATS_BAD_VALUE, 0}, /* -infinity */
		{"AACAPwAAgH8=", INFER_FLOATS_BAD_VALUE, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		size_t n = strlen(rows[i].text);
		char *copy = malloc(n > 0 ? n : 1);
		InferSlice slice = {copy, n, false};
		InferFloats floats = {0};

		memcpy(copy, rows[i].text, n);
		CHECK_ROW(infer_floats_from_base64(&slice, &floats) == rows[i].result, rows[i].text);
		CHECK_ROW(floats.len == rows[i].len, rows[i].text);
		for (size_t k = 0; k < floats.len; k++)
			CHECK_ROW(floats.data[k] == (float) (k + 1), rows[i].text);
		infer_floats_free(&floats);
		free(copy);
	}
}

static void
test_base64_escaped(void)
{
	/* 0xff 0xff 0x7f 0x3f: "//9/Pw==" with its slashes escaped */
	static const char json[] = "\"\\/\\/9\\u002fPw==\"";
	InferJson j = infer_json_start(json, sizeof(json) - 1);
	InferFloats floats = {0};
	InferSlice string;
	uint32_t bits = 0;

	CHECK(infer_json_string(&j, &string));
	CHECK(infer_floats_from_base64(&string, &floats) == INFER_FLOATS_OK);
	CHECK(floats.len == 1);
	if (floats.len == 1)
		memcpy(&bits, floats.data, sizeof(bits));
	CHECK(bits == 0x3F7FFFFF);
	infer_floats_free(&floats);
}

/* Every byte at every place of two turns: what it stands for, or that it is none. */
static void
test_base64_digits(void)
{
	static const char alphabet[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (int at = 0; at < 16; at++)
		for (int c = 0; c < 256; c++)
		{
			const char *digit = c != '\0' ? strchr(alphabet, c) : NULL;
			char text[17] = "AAAAAAAAAAAAAAAA";
			InferSlice slice = {text, 16, false};
			InferFloats floats = {0};
			unsigned char bytes[12] = {0};
			bool fine;

			text[at] = (char) c;
			fine = infer_floats_from_base64(&slice, &floats) == INFER_FLOATS_OK;
			if (digit == NULL)
				CHECK(!fine); /* padding too: what is left is no whole number of floats */
			else
			{
				for (int bit = 0; bit < 6; bit++)
					if (((digit - alphabet) >> (5 - bit) & 1) != 0)
						bytes[(at * 6 + bit) / 8] |= (unsigned char) (0x80 >> ((at * 6 + bit) % 8));
				CHECK(fine && floats.len == 3 && memcmp(floats.data, bytes, 12) == 0);
			}
			infer_floats_free(&floats);
		}
}

/* Where a string ends, or breaks off, whatever stands before it. */
static void
test_json_string_ends(void)
{
	for (int c = 0; c < 256; c++)
		for (int before = 0; before < 20; before++)
			for (int after = 0; after < 20; after++)
			{
				size_t n = (size_t) before + 1 + (size_t) after + 2;
				char *text = malloc(n); /* for the sanitizer: not a byte more */
				InferJson j;
				InferSlice string;
				bool read;

				memset(text, 'a', n);
				text[0] = text[n - 1] = '"';
				text[before + 1] = (char) c;
				j = infer_json_start(text, n);
				read = infer_json_string(&j, &string);
				if (c == '"')
					CHECK(read && string.len == (size_t) before && j.p == text + before + 2);
				else if (c < 0x20 || c == '\\') /* "\a" and "\"" are no ends */
					CHECK(!read);
				else
					CHECK(read && string.len == n - 2 && j.p == text + n && !string.escaped);
				free(text);
			}
}

int
main(void)
{
	TEST(json_accepts);
	TEST(json_string_ends);
	TEST(json_refuses);
	TEST(json_depth);
	TEST(json_integers);
	TEST(json_keys);
	TEST(json_decode);
	TEST(json_value_check);
	TEST(utf8);
	TEST(floats_exact);
	TEST(floats_random);
	TEST(floats_bad_values);
	TEST(floats_lists);
	TEST(base64_tables);
	TEST(base64_escaped);
	TEST(base64_digits);
	return tap_done();
}
