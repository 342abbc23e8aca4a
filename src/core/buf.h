/*
 * core/buf.h - a growing byte buffer that is told its maximum at birth.
 *
 * malloc'd, so that it can be filled inside callbacks of a foreign library, where nothing may
 * raise.  Appending past the maximum or without memory returns false, sets `overflow` or `nomem`
 * and leaves the contents as they were.  data is always NUL-terminated once anything was appended
 * (the NUL is not counted in len).
 */
#ifndef INFER_CORE_BUF_H
#define INFER_CORE_BUF_H

#include <stdbool.h>
#include <stddef.h>

typedef struct InferBuf
{
	char *data; /* owned; NULL while empty */
	size_t len;
	size_t cap;
	size_t max; /* bytes; appends beyond it fail */
	bool overflow;
	bool nomem;
} InferBuf;

/* Empty, of at most so many bytes; to be freed. */
extern void infer_buf_init(InferBuf *buf, size_t max);
/* Makes room for n more bytes at data + len; the caller writes there and adds to len. */
extern bool infer_buf_reserve(InferBuf *buf, size_t n);
extern bool infer_buf_add(InferBuf *buf, const void *bytes, size_t n);
extern bool infer_buf_adds(InferBuf *buf, const char *s);
extern bool infer_buf_addc(InferBuf *buf, char c);
/* The bytes as a JSON string with its quotes. Input is UTF-8; control characters are escaped. */
extern bool infer_buf_add_json_string(InferBuf *buf, const char *s, size_t n);
/* Rewrites ISO 8859-1 as UTF-8. False: no room; the bytes are what they were. */
extern bool infer_buf_from_latin1(InferBuf *buf);
extern void infer_buf_reset(InferBuf *buf); /* empties, keeps the memory */
extern void infer_buf_free(InferBuf *buf);

#endif
