/*
 * provider/json_text.c - is a text fit for a database? UTF-8, escapes, and numbers within numeric.
 *
 * Works on what json_scan.c has accepted, so the syntax is not in question here.
 */
#include "provider/json_scan.h"

#include <string.h>

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
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
		v = v << 4 | (uint32_t) (is_digit(p[i]) ? p[i] - '0' : (p[i] | 0x20) - 'a' + 10);
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

size_t
infer_utf8_repair(const char *s, size_t len, char *dst)
{
	size_t used = 0;

	for (size_t i = 0; i < len;)
	{
		size_t n = infer_utf8_char(s + i, len - i);

		if (n > 0)
			memcpy(dst + used, s + i, n);
		else
			memcpy(dst + used, INFER_REPLACEMENT, INFER_REPLACEMENT_GROWTH);
		used += n > 0 ? n : INFER_REPLACEMENT_GROWTH;
		i += n > 0 ? n : 1;
	}
	return used;
}

/* A run without escapes, into dst unless that is NULL; *n: bytes written. */
static InferTextFault
decode_run(const char *run, size_t len, bool repair, char *dst, size_t *n)
{
	if (repair)
	{
		*n = infer_utf8_repair(run, len, dst);
		return INFER_TEXT_FINE;
	}
	*n = 0;
	if (!infer_utf8_valid(run, len))
		return INFER_TEXT_INVALID;
	if (dst != NULL)
		memcpy(dst, run, len);
	*n = len;
	return INFER_TEXT_FINE;
}

static InferTextFault
decode(const InferSlice *string, bool repair, char *dst, size_t *out_len)
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
			const char *stop = memchr(p, '\\', (size_t) (end - p));
			size_t run = (size_t) ((stop != NULL ? stop : end) - p);

			faults |= decode_run(p, run, repair, dst != NULL ? dst + len : NULL, &n);
			len += n;
			p += run;
			continue;
		}
		p++;
		if (*p == 'u')
		{
			InferTextFault fault;

			p++;
			fault = decode_unicode(&p, end, bytes, &n);
			faults |= fault;
			if (repair && fault != INFER_TEXT_FINE)
			{
				n = INFER_REPLACEMENT_GROWTH;
				memcpy(bytes, INFER_REPLACEMENT, n);
			}
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

InferTextFault
infer_json_decode(const InferSlice *string, char *dst, size_t *out_len)
{
	return decode(string, false, dst, out_len);
}

size_t
infer_json_decode_repaired(const InferSlice *string, char *dst)
{
	size_t len;

	decode(string, true, dst, &len);
	return len;
}

/* The text between the quotes of a string, repaired; escapes of ASCII stay as they are. */
static size_t
repair_string(const InferSlice *string, char *dst)
{
	const char *p = string->data;
	const char *end = p + string->len;
	size_t len = 0;

	while (p < end)
	{
		InferSlice unit = {p, 0, true};

		if (*p != '\\')
		{
			const char *stop = memchr(p, '\\', (size_t) (end - p));

			unit.len = (size_t) ((stop != NULL ? stop : end) - p);
			len += infer_utf8_repair(p, unit.len, dst + len);
			p += unit.len;
			continue;
		}
		if (p[1] != 'u')
			unit.len = 2;
		else
		{
			const char *behind = p + 2;
			char bytes[4];
			size_t n;

			decode_unicode(&behind, end, bytes, &n);
			unit.len = (size_t) (behind - p);
			if (four_hex(p + 2) == 0 || four_hex(p + 2) >= 0x80)
			{
				len += infer_json_decode_repaired(&unit, dst + len);
				p += unit.len;
				continue;
			}
		}
		memcpy(dst + len, p, unit.len);
		len += unit.len;
		p += unit.len;
	}
	return len;
}

size_t
infer_json_repair(const InferSlice *value, char *dst)
{
	InferJson j = infer_json_start(value->data, value->len);
	size_t len = 0;

	while (j.p < j.end)
	{
		InferSlice string;

		if (*j.p != '"')
		{
			dst[len++] = *j.p++;
			continue;
		}
		if (!infer_json_string(&j, &string))
			break;
		dst[len++] = '"';
		len += repair_string(&string, dst + len);
		dst[len++] = '"';
	}
	return len;
}

/*
 * Would PostgreSQL's numeric refuse this number?  It holds 131,072 digits before the point and
 * 16,383 behind it; we stay a little below.
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
			if (!infer_json_value(&j, &part))
				return INFER_TEXT_INVALID;
			if (number_is_extreme(&part))
				faults |= INFER_TEXT_NUMBER;
		}
		else
			j.p++; /* brackets, commas, words */
	}
	return (InferTextFault) faults;
}
