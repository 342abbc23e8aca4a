/*
 * core/buf.c - a growing byte buffer that is told its maximum at birth.
 *
 * Invariants: cap is 0 (data NULL) or at least len + 1, so that the terminating NUL always has its
 * place; len never exceeds max.  An append that fails changes neither data nor len.
 */
#include "core/buf.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void
infer_buf_init(InferBuf *buf, size_t max)
{
	memset(buf, 0, sizeof(*buf));
	/* room for the NUL must not overflow a size_t */
	buf->max = max < SIZE_MAX ? max : SIZE_MAX - 1;
}

bool
infer_buf_reserve(InferBuf *buf, size_t n)
{
	size_t need;
	size_t cap;
	char *data;

	if (n > buf->max - buf->len)
	{
		buf->overflow = true;
		return false;
	}
	need = buf->len + n + 1;
	if (need <= buf->cap)
		return true;

	cap = buf->cap > 0 ? buf->cap : 256;
	while (cap < need)
	{
		if (cap > SIZE_MAX / 2)
		{
			cap = need;
			break;
		}
		cap *= 2;
	}
	/* never allocate more than could ever be used */
	if (cap > buf->max + 1)
		cap = buf->max + 1;

	data = realloc(buf->data, cap);
	if (data == NULL)
	{
		buf->nomem = true;
		return false;
	}
	data[buf->len] = '\0';
	buf->data = data;
	buf->cap = cap;
	return true;
}

bool
infer_buf_add(InferBuf *buf, const void *bytes, size_t n)
{
	if (!infer_buf_reserve(buf, n))
		return false;
	if (n > 0)
		memcpy(buf->data + buf->len, bytes, n);
	buf->len += n;
	buf->data[buf->len] = '\0';
	return true;
}

bool
infer_buf_adds(InferBuf *buf, const char *s)
{
	return infer_buf_add(buf, s, strlen(s));
}

bool
infer_buf_addc(InferBuf *buf, char c)
{
	return infer_buf_add(buf, &c, 1);
}

/* One escaped character into dst (at least 6 bytes); returns how many were written. */
static size_t
escape_char(unsigned char c, char *dst)
{
	static const char hex[] = "0123456789abcdef";
	char letter = 0;

	switch (c)
	{
		case '"':
		case '\\':
			letter = (char) c;
			break;
		case '\b':
			letter = 'b';
			break;
		case '\f':
			letter = 'f';
			break;
		case '\n':
			letter = 'n';
			break;
		case '\r':
			letter = 'r';
			break;
		case '\t':
			letter = 't';
			break;
		default:
			break;
	}
	dst[0] = '\\';
	if (letter != 0)
	{
		dst[1] = letter;
		return 2;
	}
	memcpy(dst + 1, "u00", 3);
	dst[4] = hex[c >> 4];
	dst[5] = hex[c & 15];
	return 6;
}

bool
infer_buf_add_json_string(InferBuf *buf, const char *s, size_t n)
{
	size_t before = buf->len;
	size_t run = 0; /* start of the characters not yet copied */
	bool ok = infer_buf_addc(buf, '"');

	for (size_t i = 0; ok && i < n; i++)
	{
		unsigned char c = (unsigned char) s[i];
		char escaped[6];

		if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)
			continue;
		ok = infer_buf_add(buf, s + run, i - run) &&
			 infer_buf_add(buf, escaped, escape_char(c, escaped));
		run = i + 1;
	}
	ok = ok && infer_buf_add(buf, s + run, n - run) && infer_buf_addc(buf, '"');
	if (!ok && buf->data != NULL)
	{
		buf->len = before;
		buf->data[before] = '\0';
	}
	return ok;
}

bool
infer_buf_from_latin1(InferBuf *buf)
{
	size_t high = 0;
	size_t to;

	for (size_t i = 0; i < buf->len; i++)
		high += (unsigned char) buf->data[i] >= 0x80;
	if (!infer_buf_reserve(buf, high))
		return false;
	to = buf->len + high;
	/* from the end, so that nothing is overwritten before it is read */
	for (size_t from = buf->len; from < to;)
	{
		unsigned char c = (unsigned char) buf->data[--from];

		if (c < 0x80)
			buf->data[--to] = (char) c;
		else
		{
			buf->data[--to] = (char) (0x80 | (c & 0x3F));
			buf->data[--to] = (char) (0xC0 | c >> 6);
		}
	}
	buf->len += high;
	if (buf->data != NULL)
		buf->data[buf->len] = '\0';
	return true;
}

void
infer_buf_reset(InferBuf *buf)
{
	buf->len = 0;
	buf->overflow = false;
	buf->nomem = false;
	if (buf->data != NULL)
		buf->data[0] = '\0';
}

void
infer_buf_free(InferBuf *buf)
{
	free(buf->data);
	buf->data = NULL;
	buf->len = 0;
	buf->cap = 0;
	buf->overflow = false;
	buf->nomem = false;
}
