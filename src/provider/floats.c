/*
 * provider/floats.c - float arrays from the bytes of an answer.
 *
 * A decimal is m * 10^e with an integer m.  Up to 19 digits of m fit in 64 bits; m and 10^e are
 * made doubles and multiplied.  Each of the steps is off by half a unit in the last place (ulp) of
 * a double at most, and dropped digits by far less, so the product is within 2 ulp of the truth. A
 * float has 29 bits less, so rounding the product gives the nearest float unless it lies within
 * those 2 ulp of the middle between two floats.  Then, and for values near the ends of float4's
 * range, strtof() decides, on digits without a point, so that no locale matters.  (The idea is
 * Clinger's fast path, PLDI 1990, with the test for the middle instead of the condition for
 * exactness; the eight digits at once are Lemire's, "Number parsing at a gigabyte per second",
 * 2021.)
 */
#include "provider/floats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DIGITS   19      /* that fit in 64 bits */
#define MAX_POWER    45      /* beyond it, strtof() */
#define EXPONENT_CAP 1000000 /* an exponent so large that more digits change nothing */
#define SLOW_DIGITS  200     /* a float's middle has 112 digits at most; one more says "above" */
#define SLACK_BYTES  8

static const double powers_of_ten[MAX_POWER + 1] = {
	1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
	1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22, 1e23, 1e24, 1e25, 1e26, 1e27, 1e28, 1e29, 1e30, 1e31,
	1e32, 1e33, 1e34, 1e35, 1e36, 1e37, 1e38, 1e39, 1e40, 1e41, 1e42, 1e43, 1e44, 1e45};

bool
infer_floats_reserve(InferFloats *floats, size_t n)
{
	size_t cap = floats->cap > 0 ? floats->cap : 256;
	float *data;

	if (n <= floats->cap - floats->len)
		return true;
	while (cap - floats->len < n)
	{
		if (cap > (SIZE_MAX - SLACK_BYTES) / sizeof(float) / 2)
			return false;
		cap *= 2;
	}
	data = realloc(floats->data, cap * sizeof(float) + SLACK_BYTES);
	if (data == NULL)
		return false;
	floats->data = data;
	floats->cap = cap;
	return true;
}

void
infer_floats_free(InferFloats *floats)
{
	free(floats->data);
	*floats = (InferFloats){0};
}

static inline bool
is_digit(char c)
{
	return (unsigned char) (c - '0') < 10;
}

/* A decimal as it is read. */
typedef struct Decimal
{
	uint64_t mantissa; /* the first significant digits */
	int digits;        /* how many of them are in mantissa */
	int64_t exponent;  /* value = mantissa * 10^exponent, plus what was dropped */
	bool negative;
	const char *start; /* the token without its sign */
} Decimal;

#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define EIGHT_AT_ONCE 1

static inline int
leading_zeros(uint64_t eight)
{
	return __builtin_ctzll(eight ^ UINT64_C(0x3030303030303030)) / 8;
}

static inline bool
eight_digits(uint64_t v)
{
	return (((v & UINT64_C(0xF0F0F0F0F0F0F0F0)) |
			 (((v + UINT64_C(0x0606060606060606)) & UINT64_C(0xF0F0F0F0F0F0F0F0)) >> 4)) ==
			UINT64_C(0x3333333333333333));
}

static inline uint32_t
eight_digits_value(uint64_t v)
{
	const uint64_t mask = UINT64_C(0x000000FF000000FF);
	const uint64_t mul1 = UINT64_C(0x000F424000000064); /* 100 + (1000000 << 32) */
	const uint64_t mul2 = UINT64_C(0x0000271000000001); /* 1 + (10000 << 32) */

	v -= UINT64_C(0x3030303030303030);
	v = (v * 10) + (v >> 8);
	v = (((v & mask) * mul1) + (((v >> 16) & mask) * mul2)) >> 32;
	return (uint32_t) v;
}
#endif

/* Takes a run of digits into d; those that no longer fit only move the exponent. */
static inline const char *
take_digits(const char *p, const char *end, Decimal *d, bool fraction)
{
#ifdef EIGHT_AT_ONCE
	while (end - p >= 8 && d->digits <= MAX_DIGITS - 8)
	{
		uint64_t v;

		memcpy(&v, p, 8);
		if (!eight_digits(v))
			break;
		if (d->mantissa != 0)
			d->digits += 8;
		d->mantissa = d->mantissa * 100000000 + eight_digits_value(v);
		if (d->digits == 0 && d->mantissa != 0)
			d->digits = 8 - leading_zeros(v);
		if (fraction)
			d->exponent -= 8;
		p += 8;
	}
#endif
	for (; p < end && is_digit(*p); p++)
	{
		if (d->digits < MAX_DIGITS)
		{
			d->mantissa = d->mantissa * 10 + (uint64_t) (*p - '0');
			if (d->mantissa != 0)
				d->digits++;
			if (fraction)
				d->exponent--;
		}
		else if (!fraction)
			d->exponent++;
	}
	return p;
}

/* Reads a JSON number; NULL if it is none. */
static inline const char *
read_decimal(const char *p, const char *end, Decimal *d)
{
	const char *start;

	*d = (Decimal){0};
	if (p < end && *p == '-')
	{
		d->negative = true;
		p++;
	}
	d->start = p;
	if (p == end || !is_digit(*p))
		return NULL;
	if (*p == '0')
		p++;
	else
		p = take_digits(p, end, d, false);
	if (p < end && *p == '.')
	{
		start = ++p;
		p = take_digits(p, end, d, true);
		if (p == start)
			return NULL;
	}
	if (p < end && (*p == 'e' || *p == 'E'))
	{
		bool negative = false;
		int64_t e = 0;

		p++;
		if (p < end && (*p == '+' || *p == '-'))
			negative = *p++ == '-';
		if (p == end || !is_digit(*p))
			return NULL;
		for (; p < end && is_digit(*p); p++)
		{
			if (e < EXPONENT_CAP)
				e = e * 10 + (*p - '0');
		}
		d->exponent += negative ? -e : e;
	}
	return p;
}

/* The exact way: strtof() on the significant digits as an integer and an exponent. */
static float
slow_float(const Decimal *d, const char *end)
{
	char text[SLOW_DIGITS + 32];
	int n = 0;
	bool more = false;
	int64_t exponent = d->exponent + d->digits;

	for (const char *p = d->start; p < end && *p != 'e' && *p != 'E'; p++)
	{
		if (*p == '.' || (n == 0 && *p == '0'))
			continue;
		if (n < SLOW_DIGITS)
			text[n++] = *p;
		else if (*p != '0')
			more = true;
	}
	exponent -= n;
	if (more)
	{
		text[n++] = '1';
		exponent--;
	}
	if (exponent > EXPONENT_CAP)
		exponent = EXPONENT_CAP;
	else if (exponent < -EXPONENT_CAP)
		exponent = -EXPONENT_CAP;
	snprintf(text + n, sizeof(text) - (size_t) n, "e%d", (int) exponent);
	return d->negative ? -strtof(text, NULL) : strtof(text, NULL);
}

/* Infinite if the decimal is beyond float4. */
static inline float
to_float(const Decimal *d, const char *end)
{
	double value = (double) d->mantissa;
	uint64_t bits;

	if (d->mantissa == 0)
		return d->negative ? -0.0f : 0.0f;
	if (d->exponent < -MAX_POWER || d->exponent > MAX_POWER)
		return slow_float(d, end);
	if (d->exponent < 0)
		value /= powers_of_ten[-d->exponent];
	else
		value *= powers_of_ten[d->exponent];
	/* normal floats only: the smaller ones have their middles elsewhere */
	if (value < 1.2e-38 || value > 3.4e38)
		return slow_float(d, end);
	memcpy(&bits, &value, sizeof(bits));
	bits &= UINT64_C(0x1FFFFFFF);
	if (bits >= UINT64_C(0x10000000) - 4 && bits <= UINT64_C(0x10000000) + 4)
		return slow_float(d, end);
	return d->negative ? -(float) value : (float) value;
}

/* Words that are no JSON but what some servers print for a number that is none. */
static const char *
non_finite_word(const char *p, const char *end)
{
	static const char *const words[] = {"NaN", "Infinity", "-Infinity"};

	for (int i = 0; i < 3; i++)
	{
		size_t len = strlen(words[i]);

		if ((size_t) (end - p) >= len && memcmp(p, words[i], len) == 0)
			return p + len;
	}
	return NULL;
}

/*
 * Reads a number and those that follow it after a comma and at most one space, as nearly all lists
 * are printed.  Leaves the cursor behind the last one, or where it was if there is none.
 */
static InferFloatsResult
read_run(InferJson *j, InferFloats *floats, bool *bad)
{
	const char *p = j->p;
	const char *end = j->end;

	for (;;)
	{
		Decimal d;
		float value;

		p = read_decimal(p, end, &d);
		if (p == NULL)
			return INFER_FLOATS_OK;
		if (floats->len == floats->cap && !infer_floats_reserve(floats, 1))
			return INFER_FLOATS_NO_MEMORY;
		value = to_float(&d, p);
		if (!isfinite(value))
			*bad = true;
		floats->data[floats->len++] = value;
		j->p = p;
		if (p == end || *p != ',')
			return INFER_FLOATS_OK;
		p++;
		if (p < end && *p == ' ')
			p++;
	}
}

/* An element that is no number: crosses it. */
static bool
skip_other(InferJson *j)
{
	const char *after = non_finite_word(j->p, j->end);

	if (after == NULL)
		return infer_json_value(j, NULL);
	j->p = after;
	return true;
}

InferFloatsResult
infer_floats_scan_list(InferJson *j, InferFloats *floats)
{
	size_t before = floats->len;
	bool bad = false;
	bool first = true;
	InferJsonStep step;

	if (!infer_json_open(j, '['))
		return INFER_FLOATS_NOT_JSON;
	while ((step = infer_json_next_element(j, &first)) == INFER_JSON_ITEM)
	{
		const char *start;

		infer_json_peek(j);
		start = j->p;
		if (read_run(j, floats, &bad) == INFER_FLOATS_NO_MEMORY)
			return INFER_FLOATS_NO_MEMORY;
		if (j->p == start)
		{
			bad = true;
			if (!skip_other(j))
				return INFER_FLOATS_NOT_JSON;
		}
	}
	if (step == INFER_JSON_BROKEN)
		return INFER_FLOATS_NOT_JSON;
	if (bad)
	{
		floats->len = before;
		return INFER_FLOATS_BAD_VALUE;
	}
	return INFER_FLOATS_OK;
}
