/*
 * sim/fuzz/model.h - JSON, UTF-8, base64 and decimals read once more, slowly and plainly.
 *
 * Nothing of src/ is used here: two readers that agree on millions of texts made of nothing but
 * trouble are hardly wrong in the same way.
 */
#ifndef INFER_SIM_FUZZ_MODEL_H
#define INFER_SIM_FUZZ_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ModelReader
{
	const char *p;
	const char *end;
	int max_depth;
	bool words; /* model_word()s are values too */
} ModelReader;

/* Faults of a string, as in InferTextFault. */
#define MODEL_NUL     1
#define MODEL_INVALID 2

extern void model_space(ModelReader *r);
/* Each crosses one token or value and returns false if there is none. */
extern bool model_number(ModelReader *r);
extern bool model_string(ModelReader *r);
/* NaN, Infinity, -Infinity */
extern bool model_word(ModelReader *r);
extern bool model_value(ModelReader *r, int depth);

/* Is the whole text one value, at most max_depth deep? */
extern bool model_is_json(const char *text, size_t len, int max_depth, bool words);

extern bool model_is_utf8(const char *s, size_t len);
/* Returns the number of bytes (up to 4). */
extern size_t model_write_utf8(uint32_t c, char *dst);

/* Decodes what stands between the quotes; dst has len bytes. Returns the faults; dst is complete
 * only without any. */
extern int model_decode(const char *s, size_t len, char *dst, size_t *out_len);

/* Bytes of a base64 text with its padding into dst (len bytes); false: it is none. */
extern bool model_base64(const char *s, size_t len, unsigned char *dst, size_t *out_len);
extern size_t model_to_base64(const unsigned char *s, size_t len, char *dst);

#endif
