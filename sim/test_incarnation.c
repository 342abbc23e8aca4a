/*
 * sim/test_incarnation.c - what answers say of the run of their server.
 */
#include <stdlib.h>
#include <string.h>

#include "provider/incarnation.h"
#include "tap.h"

static const char *
put(const char *said, size_t len)
{
	static char to[INFER_INCARNATION_MAX];

	memset(to, 'x', sizeof(to));
	infer_incarnation_put(to, said, len);
	return to;
}

static void
test_gw_7_what_is_kept_of_an_incarnation(void)
{
	static const struct
	{
		const char *said;
		const char *kept;
	} rows[] = {
		{"", ""},
		{" \t\r\n ", ""},
		{"boot-1", "boot-1"},
		{" boot 1\t", "boot 1"},
		{"a\033[1mb", "a?[1mb~60983ed47e6fea12"},
		{"caf\303\251", "caf??~48e8823acfa40d89"},
		{"0123456789012345678901234567890123456789012345678901234567890123",
		 "0123456789012345678901234567890123456789012345678901234567890123"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		const char *kept = put(rows[i].said, strlen(rows[i].said));

		CHECK_ROW(strcmp(kept, rows[i].kept) == 0, kept);
	}
}

/* Whatever comes: it fits, it is printable, and what differs anywhere stays different. */
static void
test_gw_7_long_incarnations_stay_different(void)
{
	char said[300];
	char before[INFER_INCARNATION_MAX];

	for (size_t len = 1; len < sizeof(said); len++)
	{
		const char *kept;

		memset(said, 'a', len);
		memcpy(before, put(said, len), sizeof(before));
		said[len - 1] = 'b';
		kept = put(said, len);
		CHECK(strlen(kept) == (len < INFER_INCARNATION_MAX ? len : INFER_INCARNATION_MAX - 1));
		CHECK(strcmp(kept, before) != 0);
	}
	for (int c = 0; c < 256; c++)
	{
		char byte = (char) c;
		const char *kept = put(&byte, 1);

		for (const char *p = kept; *p != '\0'; p++)
			CHECK(*p > ' ' && *p < 0x7f);
	}
}

static const char *
field(const char *body, const char *name)
{
	static char to[INFER_INCARNATION_MAX];

	infer_provider_read_field(body, strlen(body), name, to);
	return to;
}

static void
test_gw_7_an_incarnation_in_a_field(void)
{
	static const struct
	{
		const char *body;
		const char *said;
	} rows[] = {
		{"{\"system_fingerprint\": \"fp_1\"}", "fp_1"},
		{" {\"data\": [{\"system_fingerprint\": \"inner\"}], \"system_fingerprint\": \"fp_2\"}",
		 "fp_2"},
		{"{\"system_fingerprint\": \"a\\u0062\\/c\"}", "ab/c"},
		{"{\"system_\\u0066ingerprint\": \"fp_3\"}", "fp_3"},
		{"{\"system_fingerprint\": 1700000000}", "1700000000"},
		{"{\"system_fingerprint\": -1.5e3, \"x\": 1}", "-1.5e3"},
		{"{\"system_fingerprint\": null}", ""},
		{"{\"system_fingerprint\": true}", ""},
		{"{\"system_fingerprint\": {\"a\": \"b\"}}", ""},
		{"{\"system_fingerprint\": \"\"}", ""},
		{"{\"system_fingerprints\": \"fp\"}", ""},
		{"{\"error\": \"x\"}", ""},
		{"[{\"system_fingerprint\": \"fp\"}]", ""},
		{"\"system_fingerprint\"", ""},
		{"{\"a\": [1, 2", ""},
		{"{\"system_fingerprint\": \"cut", ""},
		{"<html>", ""},
		{"", ""},
		{"data: {\"id\": 1, \"system_fingerprint\": \"fp_4\"}\n\ndata: [DONE]\n\n", "fp_4"},
		{": hello\n\ndata: {\"id\": 1}\n\ndata: {\"system_fingerprint\": \"fp_5\"}\n\n", "fp_5"},
		{"data: [DONE]\n\n", ""},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_ROW(strcmp(field(rows[i].body, "system_fingerprint"), rows[i].said) == 0,
				  rows[i].body);
}

static const char *
metric(const char *body, const char *name)
{
	static char to[INFER_INCARNATION_MAX];

	infer_provider_read_metric(body, strlen(body), name, to);
	return to;
}

static void
test_gw_7_an_incarnation_in_a_metric(void)
{
	static const struct
	{
		const char *body;
		const char *said;
	} rows[] = {
		{"# HELP start when\n# TYPE start gauge\nstart 1.7e+09\n", "1.7e+09"},
		{"started 1\nstart_x 2\nstart 3\n", "3"},
		{"start{a=\"b\"} 4\nstart{a=\"c\"} 5\n", "4"},
		{"start{a=\"}\\\"}\",b=\"x y\"} 6 1700000000\n", "6"},
		{"start\t 7\r\n", "7"},
		{"start{a=\"b\n", ""},
		{"start\n", ""},
		{"start \nstart 8\n", "8"},
		{"start 9", ""}, /* cut */
		{"# start 1\n", ""},
		{"\n\n", ""},
		{"", ""},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_ROW(strcmp(metric(rows[i].body, "start"), rows[i].said) == 0, rows[i].body);
}

/* Cut anywhere, with any byte changed: nothing is read beyond the end (the sanitizer sees to it),
 * and what comes out is fit to be kept. */
static void
test_gw_7_answers_that_are_garbled(void)
{
	static const char *const bodies[] = {
		"{\"a\": [1, {\"b\": \"\\u00e9\"}], \"name\": \"fp_1\"}",
		"data: {\"name\": \"fp_4\"}\n\ndata: [DONE]\n\n",
		"# TYPE name gauge\nname{a=\"}\\\"}\"} 6 1700000000\n",
	};

	srand(1);
	for (int run = 0; run < 20000; run++)
	{
		const char *body = bodies[run % 3];
		size_t len = (size_t) rand() % (strlen(body) + 1);
		char *copy = malloc(len > 0 ? len : 1);
		char to[INFER_INCARNATION_MAX];

		memcpy(copy, body, len);
		if (len > 0)
			copy[(size_t) rand() % len] = (char) rand();
		infer_provider_read_field(copy, len, "name", to);
		CHECK(strlen(to) < INFER_INCARNATION_MAX);
		infer_provider_read_metric(copy, len, "name", to);
		CHECK(strlen(to) < INFER_INCARNATION_MAX);
		for (const char *p = to; *p != '\0'; p++)
			CHECK(*p >= ' ' && *p < 0x7f);
		free(copy);
	}
}

int
main(void)
{
	TEST(gw_7_what_is_kept_of_an_incarnation);
	TEST(gw_7_long_incarnations_stay_different);
	TEST(gw_7_an_incarnation_in_a_field);
	TEST(gw_7_an_incarnation_in_a_metric);
	TEST(gw_7_answers_that_are_garbled);
	return tap_done();
}
