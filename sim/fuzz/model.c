/*
 * sim/fuzz/model.c - JSON, UTF-8, base64 and decimals read once more, slowly and plainly.
 */
#include "model.h"

#include <stdint.h>
#include <string.h>

static bool
take(ModelReader *r, const char *set)
{
	if (r->p == r->end || *r->p == '\0' || strchr(set, *r->p) == NULL)
		return false;
	r->p++;
	return true;
}

static bool
take_word(ModelReader *r, const char *word)
{
	size_t len = strlen(word);

	if ((size_t) (r->end - r->p) < len || memcmp(r->p, word, len) != 0)
		return false;
	r->p += len;
	return true;
}

void
model_space(ModelReader *r)
{
	while (take(r, " \t\r\n"))
		;
}

static bool
digits(ModelReader *r)
{
	if (!take(r, "0123456789"))
		return false;
	while (take(r, "0123456789"))
		;
	return true;
}

bool
model_number(ModelReader *r)
{
	take(r, "-");
	if (!take(r, "0") && !digits(r))
		return false;
	if (take(r, ".") && !digits(r))
		return false;
	if (take(r, "eE"))
	{
		take(r, "+-");
		if (!digits(r))
			return false;
	}
	return true;
}

bool
model_string(ModelReader *r)
{
	if (!take(r, "\""))
		return false;
	for (;;)
	{
		if (take(r, "\""))
			return true;
		if (r->p == r->end || (unsigned char) *r->p < 0x20)
			return false;
		if (*r->p++ != '\\')
			continue;
		if (take(r, "\"\\/bfnrt"))
			continue;
		if (!take(r, "u"))
			return false;
		for (int i = 0; i < 4; i++)
		{
			if (!take(r, "0123456789abcdefABCDEF"))
				return false;
		}
	}
}

bool
model_word(ModelReader *r)
{
	return take_word(r, "NaN") || take_word(r, "Infinity") || take_word(r, "-Infinity");
}

static bool
members(ModelReader *r, int depth, bool object)
{
	const char *close = object ? "}" : "]";

	if (depth > r->max_depth)
		return false;
	model_space(r);
	if (take(r, close))
		return true;
	do
	{
		model_space(r);
		if (object)
		{
			if (!model_string(r))
				return false;
			model_space(r);
			if (!take(r, ":"))
				return false;
		}
		if (!model_value(r, depth))
			return false;
		model_space(r);
	} while (take(r, ","));
	return take(r, close);
}

bool
model_value(ModelReader *r, int depth)
{
	model_space(r);
	if (take(r, "{"))
		return members(r, depth + 1, true);
	if (take(r, "["))
		return members(r, depth + 1, false);
	if (r->p < r->end && *r->p == '"')
		return model_string(r);
	if (take_word(r, "true") || take_word(r, "false") || take_word(r, "null"))
		return true;
	if (r->words && model_word(r))
		return true;
	return model_number(r);
}

bool
model_is_json(const char *text, size_t len, int max_depth, bool words)
{
	ModelReader r = {text, text + len, max_depth, words};

	if (!model_value(&r, 0))
		return false;
	model_space(&r);
	return r.p == r.end;
}

/* The code point at s and its length; 0 if there is no valid character. */
static size_t
code_point(const unsigned char *s, size_t len, uint32_t *c)
{
	static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n;

	if (s[0] < 0x80)
		n = 1, *c = s[0];
	else if ((s[0] & 0xE0) == 0xC0)
		n = 2, *c = s[0] & 0x1F;
	else if ((s[0] & 0xF0) == 0xE0)
		n = 3, *c = s[0] & 0x0F;
	else if ((s[0] & 0xF8) == 0xF0)
		n = 4, *c = s[0] & 0x07;
	else
		return 0;
	if (len < n)
		return 0;
	for (size_t i = 1; i < n; i++)
	{
		if ((s[i] & 0xC0) != 0x80)
			return 0;
		*c = *c * 64 + (s[i] & 0x3F);
	}
	return *c < smallest[n] || *c > 0x10FFFF || (*c >= 0xD800 && *c <= 0xDFFF) ? 0 : n;
}

bool
model_is_utf8(const char *s, size_t len)
{
	uint32_t c;

	for (size_t i = 0, n; i < len; i += n)
	{
		n = code_point((const unsigned char *) s + i, len - i, &c);
		if (n == 0)
			return false;
	}
	return true;
}

size_t
model_write_utf8(uint32_t c, char *dst)
{
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};

	for (size_t i = n; i-- > 1; c /= 64)
		dst[i] = (char) (0x80 + c % 64);
	dst[0] = (char) (lead[n] + c);
	return n;
}

static uint32_t
hex(const char *s)
{
	static const char figures[] = "0123456789abcdefABCDEF";
	uint32_t v = 0;

	for (int i = 0; i < 4; i++)
	{
		uint32_t d = (uint32_t) (strchr(figures, s[i]) - figures);

		v = v * 16 + (d > 15 ? d - 6 : d);
	}
	return v;
}

int
model_decode(const char *s, size_t len, char *dst, size_t *out_len)
{
	static const char letters[] = "\"\\/bfnrt";
	static const char meanings[] = "\"\\/\b\f\n\r\t";
	int faults = model_is_utf8(s, len) ? 0 : MODEL_INVALID;
	size_t used = 0;

	for (size_t i = 0; i < len;)
	{
		uint32_t c;

		if (s[i] != '\\')
		{
			dst[used++] = s[i++];
			continue;
		}
		if (s[i + 1] != 'u')
		{
			dst[used++] = meanings[strchr(letters, s[i + 1]) - letters];
			i += 2;
			continue;
		}
		c = hex(s + i + 2);
		i += 6;
		if (c >= 0xD800 && c < 0xDC00 && len - i >= 6 && s[i] == '\\' && s[i + 1] == 'u' &&
			hex(s + i + 2) >= 0xDC00 && hex(s + i + 2) < 0xE000)
		{
			c = 0x10000 + (c - 0xD800) * 0x400 + (hex(s + i + 2) - 0xDC00);
			i += 6;
		}
		if (c == 0)
			faults |= MODEL_NUL;
		else if (c >= 0xD800 && c < 0xE000)
			faults |= MODEL_INVALID;
		else
			used += model_write_utf8(c, dst + used);
	}
	*out_len = used;
	return faults;
}

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

bool
model_base64(const char *s, size_t len, unsigned char *dst, size_t *out_len)
{
	size_t used = 0;
	size_t bits = 0;
	uint32_t v = 0;
	size_t padding = 0;

	*out_len = 0;
	if (len % 4 != 0)
		return false;
	while (padding < 2 && padding < len && s[len - 1 - padding] == '=')
		padding++;
	for (size_t i = 0; i < len - padding; i++)
	{
		const char *at = s[i] != '\0' ? strchr(alphabet, s[i]) : NULL;

		if (at == NULL)
			return false;
		v = v << 6 | (uint32_t) (at - alphabet);
		bits += 6;
		if (bits >= 8)
		{
			bits -= 8;
			dst[used++] = (unsigned char) (v >> bits);
			v &= (1u << bits) - 1;
		}
	}
	*out_len = used;
	return true;
}

size_t
model_to_base64(const unsigned char *s, size_t len, char *dst)
{
	size_t used = 0;

	for (size_t i = 0; i < len; i += 3)
	{
		uint32_t v = (uint32_t) s[i] << 16;

		if (i + 1 < len)
			v |= (uint32_t) s[i + 1] << 8;
		if (i + 2 < len)
			v |= s[i + 2];
		dst[used++] = alphabet[v >> 18];
		dst[used++] = alphabet[v >> 12 & 63];
		dst[used++] = i + 1 < len ? alphabet[v >> 6 & 63] : '=';
		dst[used++] = i + 2 < len ? alphabet[v & 63] : '=';
	}
	return used;
}
