/*
 * provider/base64.c - little-endian float4 values out of a base64 text.
 *
 * Eight characters a turn become six bytes, written with one 8-byte store whose tail the next turn
 * overwrites (the array has slack for the last one).  For each of four characters in a row there is
 * a table, with the character's bits where they belong and one bit more that says that it has some:
 * what is not base64 is missing there, which is gathered with AND and judged once.
 */
#include "provider/floats.h"

#include <stdlib.h>
#include <string.h>

#define ALPHABET(D)                                                                                \
	D('A', 0), D('B', 1), D('C', 2), D('D', 3), D('E', 4), D('F', 5), D('G', 6), D('H', 7),        \
		D('I', 8), D('J', 9), D('K', 10), D('L', 11), D('M', 12), D('N', 13), D('O', 14),          \
		D('P', 15), D('Q', 16), D('R', 17), D('S', 18), D('T', 19), D('U', 20), D('V', 21),        \
		D('W', 22), D('X', 23), D('Y', 24), D('Z', 25), D('a', 26), D('b', 27), D('c', 28),        \
		D('d', 29), D('e', 30), D('f', 31), D('g', 32), D('h', 33), D('i', 34), D('j', 35),        \
		D('k', 36), D('l', 37), D('m', 38), D('n', 39), D('o', 40), D('p', 41), D('q', 42),        \
		D('r', 43), D('s', 44), D('t', 45), D('u', 46), D('v', 47), D('w', 48), D('x', 49),        \
		D('y', 50), D('z', 51), D('0', 52), D('1', 53), D('2', 54), D('3', 55), D('4', 56),        \
		D('5', 57), D('6', 58), D('7', 59), D('8', 60), D('9', 61), D('+', 62), D('/', 63)

#define DIGIT_0(c, n) [c] = (n) << 18 | 1 << 24
#define DIGIT_1(c, n) [c] = (n) << 12 | 1 << 25
#define DIGIT_2(c, n) [c] = (n) << 6 | 1 << 26
#define DIGIT_3(c, n) [c] = (n) | 1 << 27
#define VALID         (15u << 24)

static const uint32_t digits_0[256] = {ALPHABET(DIGIT_0)};
static const uint32_t digits_1[256] = {ALPHABET(DIGIT_1)};
static const uint32_t digits_2[256] = {ALPHABET(DIGIT_2)};
static const uint32_t digits_3[256] = {ALPHABET(DIGIT_3)};

/* Three bytes, and VALID. */
static inline uint32_t
four(const unsigned char *s)
{
	return digits_0[s[0]] | digits_1[s[1]] | digits_2[s[2]] | digits_3[s[3]];
}

static inline void
put_big_endian(unsigned char *dst, uint64_t v)
{
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	v = __builtin_bswap64(v);
	memcpy(dst, &v, sizeof(v));
#else
	for (int i = 0; i < 8; i++)
		dst[i] = (unsigned char) (v >> (56 - 8 * i));
#endif
}

/* Eight characters; returns VALID if they are base64. */
static inline uint32_t
turn(const unsigned char *s, unsigned char *dst)
{
	uint32_t a = four(s);
	uint32_t b = four(s + 4);

	put_big_endian(dst, (uint64_t) (a & 0xFFFFFF) << 40 | (uint64_t) (b & 0xFFFFFF) << 16);
	return a & b & VALID;
}

/* len characters without padding; dst has 8 bytes more than it needs. False: not base64. */
static bool
decode(const unsigned char *s, size_t len, unsigned char *dst)
{
	unsigned char last[8] = {'A', 'A', 'A', 'A', 'A', 'A', 'A', 'A'}; /* zeros */
	uint32_t valid = VALID;

	for (; len >= 8; len -= 8)
	{
		valid &= turn(s, dst);
		s += 8;
		dst += 6;
	}
	memcpy(last, s, len);
	return (valid & turn(last, dst)) == VALID;
}

/* In place: from little-endian bytes to floats of this machine. False if one is not finite. */
static bool
settle(float *floats, size_t n)
{
	unsigned infinite = 0;

	for (size_t i = 0; i < n; i++)
	{
		unsigned char b[4];
		uint32_t bits;

		memcpy(b, &floats[i], 4);
		bits =
			(uint32_t) b[0] | (uint32_t) b[1] << 8 | (uint32_t) b[2] << 16 | (uint32_t) b[3] << 24;
		infinite |= (bits & 0x7F800000) == 0x7F800000;
		memcpy(&floats[i], &bits, 4);
	}
	return infinite == 0;
}

static InferFloatsResult
append(const char *text, size_t len, InferFloats *floats)
{
	size_t bytes;

	if (len % 4 != 0)
		return INFER_FLOATS_BAD_VALUE;
	if (len > 0 && text[len - 1] == '=')
		len -= text[len - 2] == '=' ? 2 : 1;
	bytes = len / 4 * 3 + (len % 4 > 0 ? len % 4 - 1 : 0);
	if (bytes % sizeof(float) != 0)
		return INFER_FLOATS_BAD_VALUE;
	if (!infer_floats_reserve(floats, bytes / sizeof(float)))
		return INFER_FLOATS_NO_MEMORY;
	if (bytes == 0)
		return INFER_FLOATS_OK;
	if (!decode((const unsigned char *) text, len,
				(unsigned char *) (floats->data + floats->len)) ||
		!settle(floats->data + floats->len, bytes / sizeof(float)))
		return INFER_FLOATS_BAD_VALUE;
	floats->len += bytes / sizeof(float);
	return INFER_FLOATS_OK;
}

InferFloatsResult
infer_floats_from_base64(const InferSlice *text, InferFloats *floats)
{
	InferFloatsResult result;
	char *plain;
	size_t len;

	if (!text->escaped)
		return append(text->data, text->len, floats);
	/* some libraries write "\/" for a slash */
	plain = malloc(text->len + 1);
	if (plain == NULL)
		return INFER_FLOATS_NO_MEMORY;
	if (infer_json_decode(text, plain, &len) == INFER_TEXT_FINE)
		result = append(plain, len, floats);
	else
		result = INFER_FLOATS_BAD_VALUE;
	free(plain);
	return result;
}
