/*
 * sim/fuzz/fields.c - parts of the target `values`: short texts that are no JSON.
 *
 * Header values are compared with the C library's readers where the two should agree, and stay
 * within their bounds everywhere.  A url that we accept must mean the same host and port to us, who
 * judge them, and to the HTTP library, who connects: its own parser is asked.
 */
#include "fields.h"

#include "http/headers.h"
#include "registry/url.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <math.h>
#include <time.h>

#define DAY_MS ((int64_t) INFER_MAX_PAUSE_S * 1000)
#define NOW_S  INT64_C(1790000000)

/* The time by strtod(); -1 = unreadable. A number is digits, with a point among or behind them. */
static double
model_time(const char *text)
{
	static const char *const units[] = {"ms", "d", "h", "m", "s"};
	static const double seconds[] = {1e-3, 86400, 3600, 60, 1};
	double total = 0;

	do
	{
		size_t len = strspn(text, "0123456789");
		char *number;
		int unit = 0;

		if (len == 0)
			return -1;
		if (text[len] == '.')
			len += 1 + strspn(text + len + 1, "0123456789");
		number = strndup(text, len);
		text += len;
		while (unit < 5 && strncmp(text, units[unit], strlen(units[unit])) != 0)
			unit++;
		if (unit == 5 && *text != '\0')
			unit = 6;
		if (unit != 6)
			total += strtod(number, NULL) * (unit == 5 ? 1 : seconds[unit]);
		free(number);
		if (unit == 6)
			return -1;
		text += unit == 5 ? 0 : strlen(units[unit]);
	} while (*text != '\0');
	return total;
}

void
fuzz_try_header(const FuzzText *bytes)
{
	char *text = strndup(bytes->data, bytes->len);
	size_t digits = strspn(text, "0123456789");
	bool is_count = digits > 0 && text[digits] == '\0';
	int64_t count = infer_header_count(text);
	int64_t time_us = infer_header_time_us(text);
	int64_t pause_ms = infer_header_retry_after_ms(text, NOW_S);
	double expected = model_time(text);

	errno = 0;
	REQUIRE(count == (is_count ? strtoll(text, NULL, 10) : -1));
	REQUIRE(pause_ms == -1 || (pause_ms >= 0 && pause_ms <= DAY_MS));
	if (is_count)
		REQUIRE(pause_ms == (count > INFER_MAX_PAUSE_S ? DAY_MS : count * 1000));

	REQUIRE((time_us == -1) == (expected < 0));
	if (expected >= 0)
		REQUIRE(time_us >= 0 &&
				fabs((double) time_us - fmin(expected, INFER_MAX_PAUSE_S) * 1e6) <= 2);
	free(text);
}

void
fuzz_try_date(const FuzzText *bytes)
{
	int32_t from_now = 0;
	char text[64];
	time_t when;
	struct tm tm;
	int64_t expected;

	memcpy(&from_now, bytes->data, bytes->len < 4 ? bytes->len : 4);
	/* near now more often than not; 32 bits of time_t are enough until 2038 */
	from_now = from_now % 2 != 0 ? from_now % 100000 : from_now % 340000000;
	when = (time_t) (NOW_S + from_now);
	strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&when, &tm));
	expected = from_now < 0 ? 0 : (int64_t) from_now * 1000;
	REQUIRE(infer_header_retry_after_ms(text, NOW_S) == (expected > DAY_MS ? DAY_MS : expected));
}

/* The same address, if both are one in any spelling, or else the same name. */
static bool
same_host(const char *ours, const char *theirs)
{
	unsigned char our_bytes[16];
	unsigned char their_bytes[16];
	struct in_addr our_v4;
	struct in_addr their_v4;
	char inner[64] = {0};
	size_t len = strlen(theirs);

	if (theirs[0] == '[' && len - 2 < sizeof(inner))
	{
		memcpy(inner, theirs + 1, len - 2);
		return inet_pton(AF_INET6, ours, our_bytes) == 1 &&
			   inet_pton(AF_INET6, inner, their_bytes) == 1 &&
			   memcmp(our_bytes, their_bytes, sizeof(our_bytes)) == 0;
	}
	if (strcasecmp(ours, theirs) == 0)
		return true;
	return inet_aton(ours, &our_v4) != 0 && inet_aton(theirs, &their_v4) != 0 &&
		   our_v4.s_addr == their_v4.s_addr;
}

/* NULL if the library's url has no such part. */
static char *
part_of(CURLU *handle, CURLUPart part, unsigned flags)
{
	char *text = NULL;

	return curl_url_get(handle, part, &text, flags) == CURLUE_OK ? text : NULL;
}

static void
compare_urls(const char *text, const InferUrl *ours)
{
	CURLU *handle = curl_url();

	REQUIRE(handle != NULL);
	if (curl_url_set(handle, CURLUPART_URL, text, 0) == CURLUE_OK)
	{
		char *scheme = part_of(handle, CURLUPART_SCHEME, 0);
		char *host = part_of(handle, CURLUPART_HOST, 0);
		char *port = part_of(handle, CURLUPART_PORT, CURLU_DEFAULT_PORT);

		REQUIRE(scheme != NULL && strcmp(scheme, ours->scheme) == 0);
		REQUIRE(host != NULL && same_host(ours->host, host));
		REQUIRE(port != NULL && atoi(port) == ours->port);
		REQUIRE(part_of(handle, CURLUPART_USER, 0) == NULL);
		REQUIRE(part_of(handle, CURLUPART_PASSWORD, 0) == NULL);
		REQUIRE(part_of(handle, CURLUPART_QUERY, 0) == NULL);
		REQUIRE(part_of(handle, CURLUPART_FRAGMENT, 0) == NULL);
		curl_free(scheme);
		curl_free(host);
		curl_free(port);
	}
	curl_url_cleanup(handle);
}

void
fuzz_try_url(const FuzzText *bytes)
{
	char *text = strndup(bytes->data, bytes->len);
	InferUrl url = {0};
	InferUrl again = {0};

	if (infer_url_parse(text, &url) == NULL)
	{
		char *longer = malloc(strlen(url.text) + 20);
		char *origin = infer_url_origin(&url);

		REQUIRE(strlen(url.text) <= strlen(text) && url.port > 0 && url.port <= 65535);
		for (const char *c = url.host; *c != '\0'; c++)
			REQUIRE((unsigned char) *c > ' ' && (unsigned char) *c < 0x7f &&
					!(*c >= 'A' && *c <= 'Z'));
		compare_urls(text, &url);
		/* what a request is sent to: the server's url with a path behind it */
		sprintf(longer, "%s/chat/completions", url.text);
		compare_urls(longer, &url);
		/* the origin is a url itself, of the same server */
		REQUIRE(infer_url_parse(origin, &again) == NULL);
		REQUIRE(strcmp(again.scheme, url.scheme) == 0 && strcmp(again.host, url.host) == 0 &&
				again.port == url.port);
		if (infer_host_is_loopback(url.host))
			REQUIRE(strcmp(url.host, "localhost") == 0 || strncmp(url.host, "127.", 4) == 0 ||
					same_host(url.host, "[::1]"));
		free(longer);
	}
	shim_free_all();
	free(text);
}
