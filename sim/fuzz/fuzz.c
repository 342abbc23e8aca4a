/*
 * sim/fuzz/fuzz.c - the bytes of one run, taken apart.
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPEATED_SIZE ((size_t) 128 * 1024)

unsigned
fuzz_byte(FuzzInput *in)
{
	if (in->left == 0)
		return 0;
	in->left--;
	return *in->p++;
}

FuzzText
fuzz_copy(const char *data, size_t len)
{
	FuzzText text = {malloc(len > 0 ? len : 1), len};

	if (text.data == NULL)
		abort();
	if (len > 0)
		memcpy(text.data, data, len);
	return text;
}

FuzzText
fuzz_take(FuzzInput *in, size_t n)
{
	FuzzText text = fuzz_copy((const char *) in->p, n < in->left ? n : in->left);

	in->p += text.len;
	in->left -= text.len;
	return text;
}

void
fuzz_free(FuzzText *text)
{
	free(text->data);
	*text = (FuzzText){NULL, 0};
}

/* Which part is repeated; 0 = none. */
static uint32_t repetition;

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *text = getenv("FUZZ_REPEAT");

	(void) argc;
	(void) argv;
	if (text != NULL)
		repetition = (uint32_t) strtoul(text, NULL, 10);
	return 0;
}

FuzzText
fuzz_rest(FuzzInput *in)
{
	FuzzText rest = fuzz_take(in, in->left);
	FuzzText text;
	size_t from;
	size_t part;
	size_t times;
	char *p;

	if (repetition == 0 || rest.len == 0 || rest.len > REPEATED_SIZE)
		return rest;
	from = repetition * UINT32_C(2654435761) % rest.len;
	part = 1 + repetition * UINT32_C(2246822519) % 16;
	part = part < rest.len - from ? part : rest.len - from;
	times = (REPEATED_SIZE - rest.len) / part;
	text.len = rest.len + times * part;
	text.data = p = malloc(text.len);
	if (p == NULL)
		abort();
	memcpy(p, rest.data, from);
	p += from;
	for (size_t i = 0; i <= times; i++, p += part)
		memcpy(p, rest.data + from, part);
	memcpy(p, rest.data + from + part, rest.len - from - part);
	fuzz_free(&rest);
	return text;
}

void
fuzz_fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: not true: %s\n", file, line, what);
	abort();
}
