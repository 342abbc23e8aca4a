/*
 * sim/test_ref.c - service references as text and as bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "core/ref.h"
#include "tap.h"

static InferRef
sample(void)
{
	return (InferRef){.server = "gpu 1/a:b\303\251",
					  .slot = 7,
					  .generation = 4242424242u,
					  .incarnation = "boot-1.5~x",
					  .model = "org/model:q4%"};
}

static const char text_of_sample[] =
	"infer:ref:1:gpu%201%2Fa%3Ab%C3%A9:7.4242424242:boot-1.5~x:org%2Fmodel%3Aq4%25";

/* Written on 2026-11-30; bytes that were stored then must be read for ever. */
static const unsigned char bytes_of_sample[] = {
	'I',  'R',  1,                                                             /* format */
	0,    0,    0,    7,    0xfc, 0xde, 0x41, 0xb2,                            /* slot */
	0,    11,   'g',  'p',  'u',  ' ',  '1',  '/',  'a', ':', 'b', 0xc3, 0xa9, /* server */
	0,    10,   'b',  'o',  'o',  't',  '-',  '1',  '.', '5', '~', 'x',        /* incarnation */
	0,    13,   'o',  'r',  'g',  '/',  'm',  'o',  'd', 'e', 'l', ':',  'q',  '4', '%', /* model */
	0x11, 0x13, 0xb6, 0x65, /* CRC-32 */
};

static bool
same(const InferRef *a, const InferRef *b)
{
	return strcmp(a->server, b->server) == 0 && a->slot == b->slot &&
		   a->generation == b->generation && strcmp(a->incarnation, b->incarnation) == 0 &&
		   strcmp(a->model, b->model) == 0;
}

static void
test_fail_P72_a_reference_as_text(void)
{
	InferRef ref = sample();
	InferRef again;
	char text[INFER_REF_TEXT_MAX];
	const char *problem;

	CHECK(infer_ref_write(&ref, text) == sizeof(text_of_sample) - 1);
	CHECK_ROW(strcmp(text, text_of_sample) == 0, text);
	CHECK(infer_ref_is(text));
	CHECK(!infer_ref_is("gpu/model"));
	CHECK(infer_ref_read(text, strlen(text), &again, &problem) && problem == NULL);
	CHECK(same(&ref, &again));
}

static void
test_fail_P72_a_reference_as_bytes(void)
{
	InferRef ref = sample();
	InferRef again;
	unsigned char bytes[INFER_REF_BYTES_MAX];
	const char *problem;

	CHECK(infer_ref_pack(&ref, bytes) == sizeof(bytes_of_sample));
	for (size_t i = 0; i < sizeof(bytes_of_sample); i++)
		if (bytes[i] != bytes_of_sample[i])
			printf("# byte %zu is 0x%02x\n", i, bytes[i]);
	CHECK(memcmp(bytes, bytes_of_sample, sizeof(bytes_of_sample)) == 0);
	CHECK(infer_ref_unpack(bytes, sizeof(bytes_of_sample), &again, &problem) && problem == NULL);
	CHECK(same(&ref, &again));
}

/* The longest one there is, of which each byte needs three. */
static void
test_fail_P72_the_longest_reference(void)
{
	InferRef ref = {.slot = INT32_MAX, .generation = UINT32_MAX};
	InferRef again;
	char text[INFER_REF_TEXT_MAX];
	unsigned char bytes[INFER_REF_BYTES_MAX];
	const char *problem;
	size_t len;

	memset(ref.server, '/', sizeof(ref.server) - 1);
	memset(ref.incarnation, '/', sizeof(ref.incarnation) - 1);
	memset(ref.model, '\377', sizeof(ref.model) - 1);
	len = infer_ref_write(&ref, text);
	CHECK(infer_ref_read(text, len, &again, &problem) && same(&ref, &again));
	len = infer_ref_pack(&ref, bytes);
	CHECK(infer_ref_unpack(bytes, len, &again, &problem) && same(&ref, &again));
}

static void
test_fail_P72_texts_that_are_no_reference(void)
{
	static const struct
	{
		const char *text;
		const char *problem;
	} rows[] = {
		{"infer:ref:1:s:0.1::m", NULL},
		{"infer:ref:1:s:0.1:i:", NULL},
		{"", "it does not begin with \"infer:ref:\""},
		{"infer:re", "it does not begin with \"infer:ref:\""},
		{"infer:ref:", "it does not say of which format it is"},
		{"infer:ref::s:0.1:i:m", "it does not say of which format it is"},
		{"infer:ref:2:s:0.1:i:m", "it is of a format that is not known here"},
		{"infer:ref:4294967297:s:0.1:i:m", "it does not say of which format it is"},
		{"infer:ref:01:s:0.1:i:m", "it is not written as references are"},
		{"infer:ref:1::0.1:i:m", "it names no server"},
		{"infer:ref:1:s", "its slot is not written as a number, a point and another number"},
		{"infer:ref:1:s:0", "its slot is not written as a number, a point and another number"},
		{"infer:ref:1:s:0.1", "its slot is not written as a number, a point and another number"},
		{"infer:ref:1:s:-1.1:i:m",
		 "its slot is not written as a number, a point and another number"},
		{"infer:ref:1:s:0.4294967296:i:m",
		 "its slot is not written as a number, a point and another number"},
		{"infer:ref:1:s:2147483648.1:i:m",
		 "its slot is not written as a number, a point and another number"},
		{"infer:ref:1:s:0.01:i:m", "it is not written as references are"},
		{"infer:ref:1:s:0.1:", "it ends too early"},
		{"infer:ref:1:s:0.1:i", "it ends too early"},
		{"infer:ref:1:s:0.1:i:m:", "there is more behind its model"},
		{"infer:ref:1:s:0.1:i:m:x", "there is more behind its model"},
		{"infer:ref:1:s:0.1:i::", "there is more behind its model"},
		{"infer:ref:1:s:0.1:i:m%", "a percent sign in it is not followed by two digits"},
		{"infer:ref:1:s:0.1:i:m%4", "a percent sign in it is not followed by two digits"},
		{"infer:ref:1:s:0.1:i:m%2f", "a percent sign in it is not followed by two digits"},
		{"infer:ref:1:s:0.1:i:%41", "it is not written as references are"},
		{"infer:ref:1:s:0.1:i:a b", "it is not written as references are"},
		{"infer:ref:1:s%00:0.1:i:m", "a name in it has a control character"},
		{"infer:ref:1:s%0A:0.1:i:m", "a name in it has a control character"},
		{"infer:ref:1:s:0.1:i:m%7F", "a name in it has a control character"},
		{"infer:ref:1:s:0.1:%20i:m", "its incarnation is none"},
		{"infer:ref:1:s:0.1:%C3%A9:m", "its incarnation is none"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		const char *problem;
		InferRef ref;
		bool is = infer_ref_read(rows[i].text, strlen(rows[i].text), &ref, &problem);

		CHECK_ROW(is == (rows[i].problem == NULL), rows[i].text);
		CHECK_ROW(is || (problem != NULL && strcmp(problem, rows[i].problem) == 0), rows[i].text);
		if (!is && problem != NULL && rows[i].problem != NULL &&
			strcmp(problem, rows[i].problem) != 0)
			printf("# %s\n", problem);
	}
}

/* A copy of exactly that size, so that the sanitizer sees what is read beyond it. */
static void *
copy_of(const void *data, size_t len)
{
	void *copy = malloc(len > 0 ? len : 1);

	memcpy(copy, data, len);
	return copy;
}

/* Cut anywhere, and with any byte changed, bytes are none; a text is none, or another one. */
static void
test_fail_P72_references_that_are_garbled(void)
{
	InferRef ref = sample();
	InferRef got;
	char text[INFER_REF_TEXT_MAX];
	unsigned char bytes[INFER_REF_BYTES_MAX];
	size_t text_len = infer_ref_write(&ref, text);
	size_t len = infer_ref_pack(&ref, bytes);
	const char *problem;

	for (size_t cut = 0; cut < len; cut++)
	{
		unsigned char *part = copy_of(bytes, cut);

		CHECK(!infer_ref_unpack(part, cut, &got, &problem) && problem != NULL);
		free(part);
	}
	for (size_t at = 0; at < len; at++)
		for (int change = 1; change < 256; change++)
		{
			bytes[at] ^= (unsigned char) change;
			CHECK(!infer_ref_unpack(bytes, len, &got, &problem) && problem != NULL);
			bytes[at] ^= (unsigned char) change;
		}
	for (size_t cut = 0; cut <= text_len; cut++)
	{
		char *part = copy_of(text, cut);

		if (infer_ref_read(part, cut, &got, &problem))
			CHECK(cut == text_len ||
				  cut >= text_len -
							 strlen("org%2Fmodel%3Aq4%25")); /* the model's name may be shorter */
		free(part);
	}
	srand(1);
	for (int run = 0; run < 50000; run++)
	{
		char *part = copy_of(text, text_len);
		char again[INFER_REF_TEXT_MAX];

		for (int i = rand() % 3; i >= 0; i--)
			part[(size_t) rand() % text_len] = run % 2 == 0 ? (char) rand() : ":%.0A"[rand() % 5];
		if (infer_ref_read(part, text_len, &got, &problem))
			CHECK(infer_ref_write(&got, again) == text_len && memcmp(again, part, text_len) == 0);
		free(part);
	}
}

/* Any bytes behind a right checksum: what is read can be written again. */
static void
test_fail_P72_bytes_that_fit_by_chance(void)
{
	InferRef ref = sample();
	InferRef got;
	unsigned char bytes[INFER_REF_BYTES_MAX];
	unsigned char again[INFER_REF_BYTES_MAX];
	const char *problem;
	int taken = 0;

	srand(2);
	for (int run = 0; run < 20000; run++)
	{
		size_t len = infer_ref_pack(&ref, bytes) - 4;
		uint32_t crc = UINT32_MAX;

		for (int i = rand() % 2; i >= 0; i--)
			bytes[3 + (size_t) rand() % (len - 3)] = (unsigned char) rand();
		if (run % 4 == 0)
			len -= (size_t) rand() % 10;
		for (size_t i = 0; i < len * 8; i++)
		{
			crc ^= i % 8 == 0 ? bytes[i / 8] : 0;
			crc = (crc >> 1) ^ ((crc & 1) != 0 ? UINT32_C(0xedb88320) : 0);
		}
		for (int i = 0; i < 4; i++)
			bytes[len + (size_t) i] = (unsigned char) (~crc >> (24 - 8 * i));
		if (!infer_ref_unpack(bytes, len + 4, &got, &problem))
			continue;
		taken++;
		CHECK(infer_ref_pack(&got, again) == len + 4 && memcmp(bytes, again, len + 4) == 0);
	}
	CHECK(taken > 1000 && taken < 20000);
}

int
main(void)
{
	TEST(fail_P72_a_reference_as_text);
	TEST(fail_P72_a_reference_as_bytes);
	TEST(fail_P72_the_longest_reference);
	TEST(fail_P72_texts_that_are_no_reference);
	TEST(fail_P72_references_that_are_garbled);
	TEST(fail_P72_bytes_that_fit_by_chance);
	return tap_done();
}
