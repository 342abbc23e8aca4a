/*
 * provider/json_scan.h - a strict JSON reader over bytes that never builds a tree.
 *
 * A cursor walks the text; objects and arrays are iterated, what is not wanted is skipped (and
 * checked while skipping).  Accepts exactly RFC 8259, nested at most INFER_JSON_DEPTH deep.  UTF-8
 * is not checked on the way: that is asked of the strings that are used.  Nothing is written to and
 * nothing allocated; the text need not be NUL-terminated.
 */
#ifndef INFER_PROVIDER_JSON_SCAN_H
#define INFER_PROVIDER_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INFER_JSON_DEPTH 256

typedef struct InferJson
{
	const char *p; /* next byte to read */
	const char *end;
} InferJson;

/* Some bytes of the text: a string without its quotes, or a value. */
typedef struct InferSlice
{
	const char *data;
	size_t len;
	bool escaped; /* strings: holds at least one backslash */
} InferSlice;

/* What is wrong with a text that is to become a value of a database. */
typedef enum InferTextFault
{
	INFER_TEXT_FINE = 0,
	INFER_TEXT_HAS_NUL = 1, /* U+0000 */
	INFER_TEXT_INVALID = 2, /* not UTF-8, or a surrogate without its partner */
	INFER_TEXT_NUMBER = 4   /* infer_json_value_check: a number that no numeric holds */
} InferTextFault;

/* A cursor at the start of the text, which must stay as long as it is used. */
extern InferJson infer_json_start(const char *text, size_t len);
/* The first character of the next token, 0 at the end of the text. Skips white space. */
extern char infer_json_peek(InferJson *j);
/* True if only white space is left. */
extern bool infer_json_at_end(InferJson *j);

/* Reads one value of any kind; slice may be NULL. False: not JSON, or nested too deeply. */
extern bool infer_json_value(InferJson *j, InferSlice *slice);
/* Reads a string; the cursor must be at its opening quote. */
extern bool infer_json_string(InferJson *j, InferSlice *string);
/* Reads an integer without fraction or exponent. False (and no move) if it is none or too large. */
extern bool infer_json_integer(InferJson *j, int64_t *value);

typedef enum InferJsonStep
{
	INFER_JSON_ITEM,
	INFER_JSON_DONE,
	INFER_JSON_BROKEN
} InferJsonStep;

/*
 * Iteration: enter with infer_json_open(j, '{' or '['), then call next until it is not ITEM, and
 * read exactly one value after each ITEM.  first starts as true.
 */
extern bool infer_json_open(InferJson *j, char bracket);
extern InferJsonStep infer_json_next_member(InferJson *j, bool *first, InferSlice *key);
extern InferJsonStep infer_json_next_element(InferJson *j, bool *first);

/* Reads the one value of a member, which key names. False: not JSON, or nothing more is wanted. */
typedef bool (*InferJsonMember)(void *arg, const InferSlice *key, InferJson *j);

/* Has member read each member of the object at the cursor; any other value is crossed.  False: not
 * JSON, or member has said so.  Here, so that member can become part of the loop. */
static inline bool
infer_json_members(InferJson *j, InferJsonMember member, void *arg)
{
	InferJsonStep step;
	InferSlice key;
	bool first = true;

	if (!infer_json_open(j, '{'))
		return infer_json_value(j, NULL);
	while ((step = infer_json_next_member(j, &first, &key)) == INFER_JSON_ITEM)
	{
		if (!member(arg, &key, j))
			return false;
	}
	return step == INFER_JSON_DONE;
}

/* Is this key (perhaps written with escapes) the given ASCII name? */
extern bool infer_json_key_is(const InferSlice *key, const char *name);

/*
 * Decodes a string that infer_json_string() accepted into dst (string->len bytes are always enough;
 * dst may be NULL to check only).  Returns its faults; what is faulty is left out.
 */
extern InferTextFault infer_json_decode(const InferSlice *string, char *dst, size_t *out_len);

/* U+FFFD in UTF-8. What is not valid is replaced byte by byte, so that a text may grow threefold.
 */
#define INFER_REPLACEMENT        "\xEF\xBF\xBD"
#define INFER_REPLACEMENT_GROWTH 3
/* The same with a replacement for each fault, a NUL among them, in up to three times the bytes. */
extern size_t infer_json_decode_repaired(const InferSlice *string, char *dst);
/* Copies a text into dst, which has three times its size, with a replacement for each byte that is
 * not UTF-8. Returns its length. */
extern size_t infer_utf8_repair(const char *s, size_t len, char *dst);
/* Copies a value that infer_json_value() accepted into dst, likewise, its strings repaired and
 * their characters beyond ASCII written as they are. */
extern size_t infer_json_repair(const InferSlice *value, char *dst);
/* Faults of all strings and numbers in a value that infer_json_value() accepted. */
extern InferTextFault infer_json_value_check(const InferSlice *value);

/* Is this whole text valid UTF-8 (RFC 3629)? */
extern bool infer_utf8_valid(const char *s, size_t len);
/* Length of the valid UTF-8 character at s (1..4), 0 if there is none. */
extern size_t infer_utf8_char(const char *s, size_t len);

#endif
