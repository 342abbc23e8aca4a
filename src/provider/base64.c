/*
 * provider/base64.c - little-endian float4 values out of a base64 text.
 *
 * Eight characters a turn become six bytes, written with one 8-byte store whose tail the next turn
 * overwrites (the array has slack for the last one).  Validity is gathered with AND and judged
 * once.
 */
#include "provider/floats.h"

#include <stdlib.h>
#include <string.h>

#define VALID 0x40
#define V(n)  (VALID | (n))

/* The value of a character with VALID added; 0 for what is no base64. */
static const unsigned char values[256] = {
	['A'] = V(0),  ['B'] = V(1),  ['C'] = V(2),  ['D'] = V(3),  ['E'] = V(4),  ['F'] = V(5),
	['G'] = V(6),  ['H'] = V(7),  ['I'] = V(8),  ['J'] = V(9),  ['K'] = V(10), ['L'] = V(11),
	['M'] = V(12), ['N'] = V(13), ['O'] = V(14), ['P'] = V(15), ['Q'] = V(16), ['R'] = V(17),
	['S'] = V(18), ['T'] = V(19), ['U'] = V(20), ['V'] = V(21), ['W'] = V(22), ['X'] = V(23),
	['Y'] = V(24), ['Z'] = V(25), ['a'] = V(26), ['b'] = V(27), ['c'] = V(28), ['d'] = V(29),
	['e'] = V(30), ['f'] = V(31), ['g'] = V(32), ['h'] = V(33), ['i'] = V(34), ['j'] = V(35),
	['k'] = V(36), ['l'] = V(37), ['m'] = V(38), ['n'] = V(39), ['o'] = V(40), ['p'] = V(41),
	['q'] = V(42), ['r'] = V(43), ['s'] = V(44), ['t'] = V(45), ['u'] = V(46), ['v'] = V(47),
	['w'] = V(48), ['x'] = V(49), ['y'] = V(50), ['z'] = V(51), ['0'] = V(52), ['1'] = V(53),
	['2'] = V(54), ['3'] = V(55), ['4'] = V(56), ['5'] = V(57), ['6'] = V(58), ['7'] = V(59),
	['8'] = V(60), ['9'] = V(61), ['+'] = V(62), ['/'] = V(63)};

static inline void
put_big_endian(unsigned char *dst, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		dst[i] = (unsigned char) (v >> (56 - 8 * i));
}

/* len characters without padding; dst has 8 bytes more than it needs. False: not base64. */
static bool
decode(const unsigned char *s, size_t len, unsigned char *dst)
{
	unsigned valid = VALID;
	uint64_t v;

	while (len >= 8)
	{
		v = 0;
		for (int i = 0; i < 8; i++)
		{
			unsigned char c = values[s[i]];

			valid &= c;
			v = v << 6 | (c & 0x3F);
		}
		put_big_endian(dst, v << 16);
		s += 8;
		len -= 8;
		dst += 6;
	}
	v = 0;
	for (size_t i = 0; i < 8; i++)
	{
		unsigned char c = i < len ? values[s[i]] : VALID;

		valid &= c;
		v = v << 6 | (c & 0x3F);
	}
	put_big_endian(dst, v << 16);
	return valid == VALID;
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
