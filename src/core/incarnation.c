/*
 * core/incarnation.c - which run of a server gave an answer: core/incarnation.h.
 */
#include "core/incarnation.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define HASHED_BEGINNING (INFER_INCARNATION_MAX - 1 - 17) /* before "~" and 16 digits */

InferIncarnationPlace
infer_incarnation_place(const char *option, const char **name)
{
	static const char *const places[] = {
		[INFER_INCARNATION_NOWHERE] = NULL,
		[INFER_INCARNATION_HEADER] = "header:",
		[INFER_INCARNATION_FIELD] = "field:",
		[INFER_INCARNATION_METRIC] = "metric:",
	};

	for (int i = INFER_INCARNATION_HEADER; option != NULL && i <= INFER_INCARNATION_METRIC; i++)
	{
		size_t len = strlen(places[i]);

		if (strncmp(option, places[i], len) == 0 && option[len] != '\0')
		{
			*name = option + len;
			return (InferIncarnationPlace) i;
		}
	}
	*name = NULL;
	return INFER_INCARNATION_NOWHERE;
}

static bool
is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool
is_printable(char c)
{
	return c >= ' ' && c < 0x7f;
}

/* FNV-1a */
static uint64_t
hash_of(const char *said, size_t len)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (unsigned char) said[i]) * UINT64_C(0x100000001b3);
	return hash;
}

void
infer_incarnation_put(char *to, const char *said, size_t len)
{
	bool whole;

	while (len > 0 && is_space(said[0]))
	{
		said++;
		len--;
	}
	while (len > 0 && is_space(said[len - 1]))
		len--;
	whole = len < INFER_INCARNATION_MAX;
	for (size_t i = 0; whole && i < len; i++)
		whole = is_printable(said[i]);
	if (whole)
	{
		if (len > 0)
			memcpy(to, said, len);
		to[len] = '\0';
		return;
	}
	for (size_t i = 0; i < HASHED_BEGINNING && i < len; i++)
		to[i] = is_printable(said[i]) ? said[i] : '?';
	if (len > HASHED_BEGINNING)
		to += HASHED_BEGINNING;
	else
		to += len;
	snprintf(to, 18, "~%016" PRIx64, hash_of(said, len));
}
