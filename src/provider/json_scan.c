/*
 * provider/json_scan.c - a strict JSON reader over bytes that never builds a tree.
 *
 * Skipping is iterative with one bit a level, so hostile nesting costs no stack.  Strings are the
 * bulk of most answers: they are crossed with a table look-up a byte.
 */
#include "provider/json_scan.h"

#include <string.h>

InferJson
infer_json_start(const char *text, size_t len)
{
	return (InferJson){text, text + len};
}

char
infer_json_peek(InferJson *j)
{
	while (j->p < j->end && (*j->p == ' ' || *j->p == '\n' || *j->p == '\t' || *j->p == '\r'))
		j->p++;
	return j->p < j->end ? *j->p : '\0';
}

bool
infer_json_at_end(InferJson *j)
{
	infer_json_peek(j);
	return j->p == j->end;
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int
hex_value(char c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Crosses an escape; the cursor is behind its backslash. */
static bool
skip_escape(InferJson *j)
{
	if (j->p == j->end)
		return false;
	switch (*j->p++)
	{
		case '"':
		case '\\':
		case '/':
		case 'b':
		case 'f':
		case 'n':
		case 'r':
		case 't':
			return true;
		case 'u':
			if (j->end - j->p < 4)
				return false;
			for (int i = 0; i < 4; i++)
			{
				if (hex_value(*j->p++) < 0)
					return false;
			}
			return true;
		default:
			return false;
	}
}

/* Every byte of a word that is n. */
#define BYTES(n) (UINT64_C(0x0101010101010101) * (n))

/* Is one of the eight bytes below n, which is 128 at most? */
static inline bool
has_below(uint64_t eight, unsigned char n)
{
	return ((eight - BYTES(n)) & ~eight & BYTES(0x80)) != 0;
}

/* Crosses most of what a string may have as it is, eight bytes at a time. */
static inline const char *
skip_plain(const char *p, const char *end)
{
	for (; end - p >= 8; p += 8)
	{
		uint64_t eight;

		memcpy(&eight, p, sizeof(eight));
		if (has_below(eight, 0x20) || has_below(eight ^ BYTES('"'), 1) ||
			has_below(eight ^ BYTES('\\'), 1))
			break;
	}
	return p;
}

bool
infer_json_string(InferJson *j, InferSlice *string)
{
	const char *start;

	if (j->p == j->end || *j->p != '"')
		return false;
	start = ++j->p;
	string->escaped = false;
	j->p = skip_plain(j->p, j->end);
	while (j->p < j->end)
	{
		unsigned char c = (unsigned char) *j->p++;

		if (c == '"')
		{
			string->data = start;
			string->len = (size_t) (j->p - 1 - start);
			return true;
		}
		if (c < 0x20)
			return false;
		if (c == '\\')
		{
			string->escaped = true;
			if (!skip_escape(j))
				return false;
			j->p = skip_plain(j->p, j->end);
		}
	}
	return false;
}

static bool
skip_digits(InferJson *j)
{
	const char *start = j->p;

	while (j->p < j->end && is_digit(*j->p))
		j->p++;
	return j->p > start;
}

static bool
skip_number(InferJson *j)
{
	if (j->p < j->end && *j->p == '-')
		j->p++;
	if (j->p < j->end && *j->p == '0')
		j->p++;
	else if (!skip_digits(j))
		return false;
	if (j->p < j->end && *j->p == '.')
	{
		j->p++;
		if (!skip_digits(j))
			return false;
	}
	if (j->p < j->end && (*j->p == 'e' || *j->p == 'E'))
	{
		j->p++;
		if (j->p < j->end && (*j->p == '+' || *j->p == '-'))
			j->p++;
		if (!skip_digits(j))
			return false;
	}
	return true;
}

static bool
skip_word(InferJson *j, const char *word)
{
	size_t len = strlen(word);

	if ((size_t) (j->end - j->p) < len || memcmp(j->p, word, len) != 0)
		return false;
	j->p += len;
	return true;
}

/* A value that is no object and no array. */
static bool
skip_scalar(InferJson *j)
{
	InferSlice ignored;

	switch (infer_json_peek(j))
	{
		case '"':
			return infer_json_string(j, &ignored);
		case 't':
			return skip_word(j, "true");
		case 'f':
			return skip_word(j, "false");
		case 'n':
			return skip_word(j, "null");
		default:
			return skip_number(j);
	}
}

/* Crosses a member's key and colon. */
static bool
skip_key(InferJson *j, InferSlice *key)
{
	if (infer_json_peek(j) != '"' || !infer_json_string(j, key))
		return false;
	return infer_json_open(j, ':');
}

/* After a value inside depth containers: closes what ends here. True with *more = whether another
 * value must follow. */
static bool
close_containers(InferJson *j, const unsigned char *is_object, int *depth, bool *more)
{
	InferSlice key;

	*more = false;
	while (*depth > 0)
	{
		bool object = is_object[*depth - 1];
		char c = infer_json_peek(j);

		if (c == ',')
		{
			j->p++;
			*more = true;
			return !object || skip_key(j, &key);
		}
		if (c != (object ? '}' : ']'))
			return false;
		j->p++;
		(*depth)--;
	}
	return true;
}

bool
infer_json_value(InferJson *j, InferSlice *slice)
{
	unsigned char is_object[INFER_JSON_DEPTH];
	int depth = 0;
	bool more = true;
	const char *start;

	infer_json_peek(j);
	start = j->p;
	while (more)
	{
		char c = infer_json_peek(j);

		if (c == '{' || c == '[')
		{
			InferSlice key;

			if (depth == INFER_JSON_DEPTH)
				return false;
			j->p++;
			is_object[depth++] = c == '{';
			if (infer_json_peek(j) != (c == '{' ? '}' : ']'))
			{
				if (c == '{' && !skip_key(j, &key))
					return false;
				continue;
			}
			/* an empty one: closed below */
		}
		else if (!skip_scalar(j))
			return false;
		if (!close_containers(j, is_object, &depth, &more))
			return false;
	}
	if (slice != NULL)
		*slice = (InferSlice){start, (size_t) (j->p - start), false};
	return true;
}

bool
infer_json_integer(InferJson *j, int64_t *value)
{
	InferJson ahead = *j;
	bool negative;
	int64_t v = 0;
	const char *digits;

	negative = infer_json_peek(&ahead) == '-';
	if (negative)
		ahead.p++;
	digits = ahead.p;
	for (; ahead.p < ahead.end && is_digit(*ahead.p); ahead.p++)
	{
		/* 18 digits always fit */
		if (ahead.p - digits == 18)
			return false;
		v = v * 10 + (*ahead.p - '0');
	}
	if (ahead.p == digits || (*digits == '0' && ahead.p - digits > 1))
		return false;
	if (ahead.p < ahead.end && (*ahead.p == '.' || *ahead.p == 'e' || *ahead.p == 'E'))
		return false;
	*value = negative ? -v : v;
	j->p = ahead.p;
	return true;
}

bool
infer_json_open(InferJson *j, char bracket)
{
	if (infer_json_peek(j) != bracket || j->p == j->end)
		return false;
	j->p++;
	return true;
}

InferJsonStep
infer_json_next_element(InferJson *j, bool *first)
{
	char c = infer_json_peek(j);

	if (c == ']')
	{
		j->p++;
		return INFER_JSON_DONE;
	}
	if (!*first)
	{
		if (c != ',')
			return INFER_JSON_BROKEN;
		j->p++;
		/* no comma before the bracket; anything else is the value's affair */
		if (infer_json_peek(j) == ']')
			return INFER_JSON_BROKEN;
	}
	*first = false;
	return INFER_JSON_ITEM;
}

InferJsonStep
infer_json_next_member(InferJson *j, bool *first, InferSlice *key)
{
	char c = infer_json_peek(j);

	if (c == '}')
	{
		j->p++;
		return INFER_JSON_DONE;
	}
	if (!*first)
	{
		if (c != ',')
			return INFER_JSON_BROKEN;
		j->p++;
	}
	*first = false;
	return skip_key(j, key) ? INFER_JSON_ITEM : INFER_JSON_BROKEN;
}

bool
infer_json_key_is(const InferSlice *key, const char *name)
{
	char plain[128];
	size_t len = strlen(name);
	size_t plain_len;

	if (!key->escaped)
		return key->len == len && memcmp(key->data, name, len) == 0;
	/* names here are short: a longer key cannot be one of them unless all of it is \u escapes */
	if (len * 6 < key->len || key->len > sizeof(plain))
		return false;
	if (infer_json_decode(key, plain, &plain_len) != INFER_TEXT_FINE)
		return false;
	return plain_len == len && memcmp(plain, name, len) == 0;
}
