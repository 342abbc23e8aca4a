/*
 * provider/json_scan.c - a strict JSON reader over bytes that never builds a tree.
 *
 * Skipping is iterative with one bit a level, so hostile nesting costs no stack.  Strings are the bulk
 * of most answers: they are crossed with a table look-up a byte.
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

bool
infer_json_string(InferJson *j, InferSlice *string)
{
	const char *start;

	if (j->p == j->end || *j->p != '"')
		return false;
	start = ++j->p;
	string->escaped = false;
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

size_t
infer_utf8_char(const char *s, size_t len)
{
	const unsigned char *u = (const unsigned char *) s;
	size_t need;
	unsigned char low = 0x80;
	unsigned char high = 0xBF;

	if (len == 0)
		return 0;
	if (u[0] < 0x80)
		return 1;
	if (u[0] >= 0xC2 && u[0] <= 0xDF)
		need = 2;
	else if (u[0] >= 0xE0 && u[0] <= 0xEF)
	{
		need = 3;
		if (u[0] == 0xE0)
			low = 0xA0; /* no overlong forms */
		else if (u[0] == 0xED)
			high = 0x9F; /* no surrogates */
	}
	else if (u[0] >= 0xF0 && u[0] <= 0xF4)
	{
		need = 4;
		if (u[0] == 0xF0)
			low = 0x90;
		else if (u[0] == 0xF4)
			high = 0x8F; /* nothing above U+10FFFF */
	}
	else
		return 0;
	if (len < need || u[1] < low || u[1] > high)
		return 0;
	for (size_t i = 2; i < need; i++)
	{
		if ((u[i] & 0xC0) != 0x80)
			return 0;
	}
	return need;
}

bool
infer_utf8_valid(const char *s, size_t len)
{
	size_t i = 0;

	while (i < len)
	{
		uint64_t eight;
		size_t n;

		if (len - i >= 8)
		{
			memcpy(&eight, s + i, 8);
			if ((eight & UINT64_C(0x8080808080808080)) == 0)
			{
				i += 8;
				continue;
			}
		}
		n = infer_utf8_char(s + i, len - i);
		if (n == 0)
			return false;
		i += n;
	}
	return true;
}

static size_t
put_utf8(uint32_t c, char *dst)
{
	if (c < 0x80)
	{
		dst[0] = (char) c;
		return 1;
	}
	if (c < 0x800)
	{
		dst[0] = (char) (0xC0 | c >> 6);
		dst[1] = (char) (0x80 | (c & 0x3F));
		return 2;
	}
	if (c < 0x10000)
	{
		dst[0] = (char) (0xE0 | c >> 12);
		dst[1] = (char) (0x80 | (c >> 6 & 0x3F));
		dst[2] = (char) (0x80 | (c & 0x3F));
		return 3;
	}
	dst[0] = (char) (0xF0 | c >> 18);
	dst[1] = (char) (0x80 | (c >> 12 & 0x3F));
	dst[2] = (char) (0x80 | (c >> 6 & 0x3F));
	dst[3] = (char) (0x80 | (c & 0x3F));
	return 4;
}

static uint32_t
four_hex(const char *p)
{
	uint32_t v = 0;

	for (int i = 0; i < 4; i++)
		v = v << 4 | (uint32_t) hex_value(p[i]);
	return v;
}

/* Decodes the \uXXXX at *p (behind the u) with its partner, if any; advances *p. */
static InferTextFault
decode_unicode(const char **p, const char *end, char *dst, size_t *n)
{
	uint32_t c = four_hex(*p);

	*p += 4;
	*n = 0;
	if (c == 0)
		return INFER_TEXT_HAS_NUL;
	if (c >= 0xDC00 && c <= 0xDFFF)
		return INFER_TEXT_INVALID;
	if (c >= 0xD800 && c <= 0xDBFF)
	{
		uint32_t low;

		if (end - *p < 6 || (*p)[0] != '\\' || (*p)[1] != 'u')
			return INFER_TEXT_INVALID;
		low = four_hex(*p + 2);
		if (low < 0xDC00 || low > 0xDFFF)
			return INFER_TEXT_INVALID;
		*p += 6;
		c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
	}
	*n = put_utf8(c, dst);
	return INFER_TEXT_FINE;
}

static char
plain_escape(char letter)
{
	switch (letter)
	{
		case 'b':
			return '\b';
		case 'f':
			return '\f';
		case 'n':
			return '\n';
		case 'r':
			return '\r';
		case 't':
			return '\t';
		default:
			return letter;
	}
}

InferTextFault
infer_json_decode(const InferSlice *string, char *dst, size_t *out_len)
{
	const char *p = string->data;
	const char *end = p + string->len;
	unsigned faults = INFER_TEXT_FINE;
	size_t len = 0;

	while (p < end)
	{
		char bytes[4];
		size_t n;

		if (*p != '\\')
		{
			/* a run without escapes, checked as a whole */
			const char *stop = memchr(p, '\\', (size_t) (end - p));

			n = (size_t) ((stop != NULL ? stop : end) - p);
			if (!infer_utf8_valid(p, n))
				faults |= INFER_TEXT_INVALID;
			else
			{
				if (dst != NULL)
					memcpy(dst + len, p, n);
				len += n;
			}
			p += n;
			continue;
		}
		p++;
		if (*p == 'u')
		{
			p++;
			faults |= decode_unicode(&p, end, bytes, &n);
		}
		else
		{
			bytes[0] = plain_escape(*p++);
			n = 1;
		}
		if (dst != NULL)
			memcpy(dst + len, bytes, n);
		len += n;
	}
	if (out_len != NULL)
		*out_len = len;
	return (InferTextFault) faults;
}

/*
 * Would PostgreSQL's numeric refuse this number?  It holds 131,072 digits before the point and 16,383
 * behind it; we stay a little below.
 */
static bool
number_is_extreme(const InferSlice *number)
{
	const char *p = number->data;
	const char *end = p + number->len;
	size_t whole = 0;
	size_t fraction = 0;
	long exponent = 0;
	bool negative = false;

	for (; p < end && (*p == '-' || is_digit(*p)); p++)
		whole++;
	if (p < end && *p == '.')
	{
		for (p++; p < end && is_digit(*p); p++)
			fraction++;
	}
	if (p < end)
	{
		p++; /* the e */
		negative = *p == '-';
		if (*p == '-' || *p == '+')
			p++;
		for (; p < end && exponent < 1000000; p++)
			exponent = exponent * 10 + (*p - '0');
	}
	if (negative)
		fraction += (size_t) exponent;
	else
		whole += (size_t) exponent;
	return whole > 131000 || fraction > 16000;
}

InferTextFault
infer_json_value_check(const InferSlice *value)
{
	InferJson j = infer_json_start(value->data, value->len);
	unsigned faults = INFER_TEXT_FINE;

	while (!infer_json_at_end(&j))
	{
		InferSlice part;

		if (*j.p == '"')
		{
			if (!infer_json_string(&j, &part))
				return INFER_TEXT_INVALID;
			faults |= infer_json_decode(&part, NULL, NULL);
		}
		else if (*j.p == '-' || is_digit(*j.p))
		{
			part.data = j.p;
			if (!skip_number(&j))
				return INFER_TEXT_INVALID;
			part.len = (size_t) (j.p - part.data);
			if (number_is_extreme(&part))
				faults |= INFER_TEXT_NUMBER;
		}
		else
			j.p++; /* brackets, commas, words */
	}
	return (InferTextFault) faults;
}
