/*
 * sim/fuzz/shim/memory.c - strings that are freed together.
 */
#include "postgres.h"

#include <stdarg.h>

#define MAX_STRINGS 16

static char *strings[MAX_STRINGS];
static int nstrings;

static char *
keep(char *string)
{
	if (string == NULL || nstrings == MAX_STRINGS)
		abort();
	return strings[nstrings++] = string;
}

char *
pnstrdup(const char *s, size_t len)
{
	return keep(strndup(s, len));
}

char *
shim_psprintf(const char *format, ...)
{
	va_list args;
	char *string = NULL;

	va_start(args, format);
	if (vasprintf(&string, format, args) < 0)
		abort();
	va_end(args);
	return keep(string);
}

void
shim_free_all(void)
{
	while (nstrings > 0)
		free(strings[--nstrings]);
}
