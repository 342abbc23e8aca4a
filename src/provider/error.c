/*
 * provider/error.c - the remote's own words in an error body.
 *
 * Servers differ: {"error": {"message": M, "type": T, "code": C}} (OpenAI and most that imitate
 * it),
 * {"error": M}, {"message": M}, {"detail": M} and {"detail": [{"msg": M}]} (FastAPI), or plain
 * text. Of a text, the first line that is not blank is taken; the whole text belongs in the
 * remote's log. What is shown must be safe on a terminal: control characters, also those of Unicode
 * that turn the direction of writing, are escaped, and so is every byte that is not UTF-8.
 */
#include "provider/internal.h"

#include <stdio.h>
#include <string.h>

#define MAX_TEXT 256 /* bytes, the mark included */
#define CUT_MARK "... (truncated)"
/* Of the text as it is written: enough for MAX_TEXT characters that are escapes. */
#define MAX_RAW 2048

/* Decoded parts of an error body; "" where absent. */
typedef struct ErrorBody
{
	char text[MAX_RAW];
	size_t text_len;
	char code[64]; /* error.code or error.type, for size errors */
} ErrorBody;

/* The start of a string, decoded, cut to fit without splitting a character or an escape. One that
 * is no text stays as it is written, for it is escaped where it is shown. */
static size_t
decode_start(const InferSlice *string, char *dst, size_t size)
{
	InferSlice part = *string;
	size_t len = 0;

	if (part.len > size)
	{
		InferJson j = infer_json_start(part.data, part.len);
		const char *limit = part.data + size - 16;

		/* step over whole units; a pair of surrogates is one unit of twelve bytes */
		while (j.p < limit)
		{
			size_t n = 1;

			if (*j.p == '\\')
				n = j.p[1] != 'u' ? 2 : (j.p[6] == '\\' && j.p[7] == 'u' ? 12 : 6);
			else if ((n = infer_utf8_char(j.p, (size_t) (j.end - j.p))) == 0)
				n = 1;
			j.p += n;
		}
		part.len = (size_t) (j.p - part.data);
	}
	if ((infer_json_decode(&part, dst, &len) & INFER_TEXT_INVALID) != 0)
	{
		memcpy(dst, part.data, part.len);
		len = part.len;
	}
	return len;
}

/* Takes the string at the cursor as the error's text; crosses any other value. */
static bool
take_text(InferJson *j, ErrorBody *error)
{
	InferSlice string;

	if (infer_json_peek(j) != '"')
		return infer_json_value(j, NULL);
	if (!infer_json_string(j, &string))
		return false;
	if (error->text_len == 0)
		error->text_len = decode_start(&string, error->text, sizeof(error->text));
	return true;
}

static bool
take_code(InferJson *j, ErrorBody *error)
{
	InferSlice string;
	size_t used = strlen(error->code);

	if (infer_json_peek(j) != '"')
		return infer_json_value(j, NULL);
	if (!infer_json_string(j, &string))
		return false;
	if (!string.escaped && string.len < sizeof(error->code) - used - 1)
	{
		memcpy(error->code + used, string.data, string.len);
		error->code[used + string.len] = ' ';
		error->code[used + string.len + 1] = '\0';
	}
	return true;
}

static bool
error_member(void *arg, const InferSlice *key, InferJson *j)
{
	ErrorBody *error = arg;

	if (infer_json_key_is(key, "message") || infer_json_key_is(key, "msg") ||
		infer_json_key_is(key, "error") || infer_json_key_is(key, "detail"))
		return take_text(j, error);
	if (infer_json_key_is(key, "code") || infer_json_key_is(key, "type") ||
		infer_json_key_is(key, "error_type"))
		return take_code(j, error);
	return infer_json_value(j, NULL);
}

/* A body describes an error as an error does, or has one inside. */
static bool
body_member(void *arg, const InferSlice *key, InferJson *j)
{
	char c = infer_json_peek(j);

	if (infer_json_key_is(key, "error") && c == '{')
		return infer_json_members(j, error_member, arg);
	if (infer_json_key_is(key, "detail") && c == '[')
	{
		InferSlice list;
		InferJson inner;

		if (!infer_json_value(j, &list))
			return false;
		inner = infer_json_start(list.data + 1, list.len - 1);
		return infer_json_peek(&inner) != '{' || infer_json_members(&inner, error_member, arg);
	}
	return error_member(arg, key, j);
}

static void
read_error_body(const char *body, size_t len, ErrorBody *error)
{
	InferJson j = infer_json_start(len > 0 ? body : "", len);
	char c = infer_json_peek(&j);

	memset(error, 0, sizeof(*error));
	/* a JSON body without words of its own says nothing; other text is taken as it is */
	if (c == '{' && infer_json_members(&j, body_member, error))
		return;
	if (error->text_len > 0)
		return;
	if (c == '"')
	{
		InferSlice string;

		if (infer_json_string(&j, &string))
		{
			error->text_len = decode_start(&string, error->text, sizeof(error->text));
			return;
		}
	}
	error->text_len = len < sizeof(error->text) ? len : sizeof(error->text);
	memcpy(error->text, len > 0 ? body : "", error->text_len);
}

/* Is this (valid) character one that must not reach a terminal? */
static bool
is_control(const unsigned char *c, size_t n, unsigned *code)
{
	if (n == 1)
		*code = c[0];
	else if (n == 2)
		*code = (c[0] & 0x1Fu) << 6 | (c[1] & 0x3Fu);
	else if (n == 3)
		*code = (c[0] & 0x0Fu) << 12 | (c[1] & 0x3Fu) << 6 | (c[2] & 0x3Fu);
	else
		return false;
	return *code < 0x20 || (*code >= 0x7F && *code < 0xA0) || *code == 0x200E || *code == 0x200F ||
		   (*code >= 0x2028 && *code <= 0x202E) || (*code >= 0x2066 && *code <= 0x2069);
}

/* The escaped or plain form of the character at s into unit; returns how many bytes it took. */
static size_t
show_char(const char *s, size_t len, char *unit, size_t unit_size)
{
	size_t n = infer_utf8_char(s, len);
	unsigned code;

	if (n == 0)
	{
		snprintf(unit, unit_size, "\\x%02x", (unsigned char) *s);
		return 1;
	}
	if (is_control((const unsigned char *) s, n, &code))
	{
		if (code == '\t')
			snprintf(unit, unit_size, "\\t");
		else
			snprintf(unit, unit_size, code < 0x80 ? "\\x%02x" : "\\u%04x", code);
		return n;
	}
	memcpy(unit, s, n);
	unit[n] = '\0';
	return n;
}

/* Start and length of the first line that is not blank. */
static const char *
first_line(const char *text, size_t *len)
{
	const char *end = text + *len;
	const char *stop;

	while (text < end && (*text == ' ' || *text == '\n' || *text == '\r' || *text == '\t'))
		text++;
	stop = text;
	while (stop < end && *stop != '\n' && *stop != '\r')
		stop++;
	while (stop > text && (stop[-1] == ' ' || stop[-1] == '\t'))
		stop--;
	*len = (size_t) (stop - text);
	return text;
}

void
infer_show_line(const char *text, size_t len, char *out, size_t out_size)
{
	size_t limit = out_size > MAX_TEXT ? MAX_TEXT : (out_size > 0 ? out_size - 1 : 0);
	size_t mark = strlen(CUT_MARK);
	size_t used = 0;
	size_t fits = 0; /* what may stay if the mark must follow */
	size_t line_len = len;
	const char *line = first_line(text, &line_len);

	if (out_size == 0)
		return;
	for (size_t i = 0; i < line_len;)
	{
		char unit[12];
		size_t n = show_char(line + i, line_len - i, unit, sizeof(unit));
		size_t unit_len = strlen(unit);

		if (used + unit_len > limit)
		{
			used = fits;
			if (used + mark <= limit)
			{
				memcpy(out + used, CUT_MARK, mark);
				used += mark;
			}
			break;
		}
		memcpy(out + used, unit, unit_len);
		used += unit_len;
		if (used + mark <= limit)
			fits = used;
		i += n;
	}
	out[used] = '\0';
}

void
infer_show_string(const InferSlice *string, char *out, size_t out_size)
{
	char text[MAX_RAW];

	infer_show_line(text, decode_start(string, text, sizeof(text)), out, out_size);
}

void
infer_provider_error_text(const char *body, size_t len, char *out, size_t out_size)
{
	ErrorBody error;

	read_error_body(body, len, &error);
	infer_show_line(error.text, error.text_len, out, out_size);
}

static bool
contains(const char *text, size_t len, const char *words)
{
	size_t n = strlen(words);

	for (size_t i = 0; i + n <= len; i++)
	{
		size_t k = 0;

		while (k < n)
		{
			char c = text[i + k];

			if (c >= 'A' && c <= 'Z')
				c = (char) (c - 'A' + 'a');
			if (c != words[k])
				break;
			k++;
		}
		if (k == n)
			return true;
	}
	return false;
}

/* Only the remote's message and code are searched, for the rest of a body may repeat our input. */
static bool
says_any(const ErrorBody *error, const char *const *words, size_t nwords)
{
	for (size_t i = 0; i < nwords; i++)
	{
		if (contains(error->text, error->text_len, words[i]) ||
			contains(error->code, strlen(error->code), words[i]))
			return true;
	}
	return false;
}

bool
infer_provider_is_filter_error(const char *body, size_t len)
{
	ErrorBody error;

	read_error_body(body, len, &error);
	return contains(error.code, strlen(error.code), "content_filter") ||
		   contains(error.code, strlen(error.code), "content_policy");
}

/*
 * llama.cpp answers 500 when an input exceeds its batch; its words are unmistakable.
 */
bool
infer_provider_is_size_error(int status, const char *body, size_t len)
{
	static const char *const words[] = {"max_tokens_per_request",
										"context length",
										"context_length",
										"context size",
										"context window",
										"too many inputs",
										"too many items",
										"batch size",
										"batch_size",
										"array too long",
										"array_above_max",
										"too many tokens",
										"too large",
										"too long",
										"must have less than",
										"at most",
										"maximum input length",
										"exceeds the maximum",
										"maximum allowed",
										"exceeds the limit"};
	ErrorBody error;

	if (status == 413)
		return true;
	if (status != 400 && status != 422 && status != 500)
		return false;
	read_error_body(body, len, &error);
	if (status == 500)
		return contains(error.text, error.text_len, "too large to process") ||
			   contains(error.text, error.text_len, "physical batch size");
	return says_any(&error, words, sizeof(words) / sizeof(words[0]));
}

/*
 * Codes and words that are about money.  "Quota" alone is none of them: some services mean requests
 * per minute by it, and these come back.
 */
bool
infer_provider_is_quota_error(int status, const char *body, size_t len)
{
	static const char *const words[] = {"insufficient_quota",   "insufficient_balance",
										"insufficient balance", "insufficient_credits",
										"insufficient_funds",   "billing_hard_limit",
										"billing_not_active",   "credit balance is too low",
										"credit_balance",       "spend_limit",
										"spend limit",          "spending limit"};
	ErrorBody error;

	if (status != 400 && status != 403 && status != 429)
		return status == 402;
	read_error_body(body, len, &error);
	return says_any(&error, words, sizeof(words) / sizeof(words[0]));
}

bool
infer_provider_is_loading(int status, const char *body, size_t len)
{
	static const char *const words[] = {"loading"};
	ErrorBody error;

	if (status != 503)
		return false;
	read_error_body(body, len, &error);
	return says_any(&error, words, sizeof(words) / sizeof(words[0]));
}

bool
infer_provider_says_model(int status, const char *body, size_t len)
{
	static const char *const absent[] = {"not found", "not_found", "not exist", "no such"};
	static const char *const model[] = {"model"};
	ErrorBody error;

	if (status != 404)
		return false;
	read_error_body(body, len, &error);
	return says_any(&error, model, 1) &&
		   says_any(&error, absent, sizeof(absent) / sizeof(absent[0]));
}

InferSizeKind
infer_provider_size_kind(const char *body, size_t len)
{
	static const char *const items[] = {"too many inputs", "too many items", "batch size",
										"batch_size",      "array too long", "array_above_max"};
	static const char *const bytes[] = {"token", "context length", "context_length",
										"bytes", "body",           "too long"};
	ErrorBody error;
	bool of_items;
	bool of_bytes;

	read_error_body(body, len, &error);
	of_items = says_any(&error, items, sizeof(items) / sizeof(items[0]));
	of_bytes = says_any(&error, bytes, sizeof(bytes) / sizeof(bytes[0]));
	if (of_items == of_bytes)
		return INFER_SIZE_ANY;
	return of_items ? INFER_SIZE_ITEMS : INFER_SIZE_BYTES;
}
