/*
 * http/headers.c - counts, times and character sets in the header of an answer.
 *
 * Digits are read here and not by strtod(), which knows hexadecimal numbers, exponents and locales,
 * none of which a server means.  Dates are the HTTP library's affair.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* strcasestr() */
#endif
#include "http/headers.h"

#include <curl/curl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

int64_t
infer_header_count(const char *text)
{
	char *end;
	long long count;

	if (!is_digit(text[0]))
		return -1;
	count = strtoll(text, &end, 10);
	return *end == '\0' ? (int64_t) count : -1;
}

/* Digits, with a fraction perhaps; the cursor is at the first digit. May become infinite. */
static double
take_number(const char **text)
{
	double number = 0;

	for (; is_digit(**text); (*text)++)
		number = number * 10 + (**text - '0');
	if (**text != '.')
		return number;
	(*text)++;
	for (double place = 0.1; is_digit(**text); (*text)++, place /= 10)
		number += (**text - '0') * place;
	return number;
}

/* Seconds of the unit at the cursor; 0 = there is none. */
static double
take_unit(const char **text)
{
	static const struct
	{
		const char *name;
		double seconds;
	} units[] = {{"ms", 1e-3}, {"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}};

	if (**text == '\0')
		return 1;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
	{
		size_t len = strlen(units[i].name);

		if (strncmp(*text, units[i].name, len) == 0)
		{
			*text += len;
			return units[i].seconds;
		}
	}
	return 0;
}

int64_t
infer_header_time_us(const char *text)
{
	double total = 0;

	if (*text == '\0')
		return -1;
	while (*text != '\0')
	{
		double number;
		double unit;

		if (!is_digit(*text))
			return -1;
		number = take_number(&text);
		unit = take_unit(&text);
		if (unit == 0)
			return -1;
		total += number * unit;
	}
	return (int64_t) (fmin(total, INFER_MAX_PAUSE_S) * 1e6);
}

int64_t
infer_header_retry_after_ms(const char *text, int64_t now_s)
{
	size_t digits = strspn(text, "0123456789");
	int64_t seconds;

	if (digits > 0 && text[digits] == '\0')
		seconds = infer_header_count(text);
	else
	{
		time_t when = curl_getdate(text, NULL);

		if (when == (time_t) -1)
			return -1;
		seconds = (int64_t) when - now_s;
	}
	if (seconds < 0)
		seconds = 0;
	return (seconds > INFER_MAX_PAUSE_S ? INFER_MAX_PAUSE_S : seconds) * 1000;
}

bool
infer_header_is_latin1(const char *text)
{
	static const char *const names[] = {"iso-8859-1", "iso8859-1", "latin-1", "latin1"};
	const char *charset = strcasestr(text, "charset=");
	size_t len;

	if (charset == NULL)
		return false;
	charset += strlen("charset=");
	charset += *charset == '"';
	len = strcspn(charset, "\"; \t");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i]) == len && strncasecmp(charset, names[i], len) == 0)
			return true;
	return false;
}
