/*
 * core/ref.c - a service reference as text and as bytes: core/ref.h.
 *
 * A text is read as it would be written: what is read is written again and compared, so that there
 * is no second text for a reference, and two can be compared as texts.
 */
#include "core/ref.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PREFIX "infer:ref:"
#define FORMAT 1
#define CRC    4

bool
infer_ref_is(const char *text)
{
	return strncmp(text, PREFIX, sizeof(PREFIX) - 1) == 0;
}

/* --- What a reference may hold --- */

static bool
has_control(const char *name)
{
	for (; *name != '\0'; name++)
		if ((unsigned char) *name < ' ' || *name == 0x7f)
			return true;
	return false;
}

/* NULL: it is well. */
static const char *
problem_of(const InferRef *ref)
{
	char kept[INFER_INCARNATION_MAX];

	if (ref->server[0] == '\0')
		return "it names no server";
	if (has_control(ref->server) || has_control(ref->model))
		return "a name in it has a control character";
	if (ref->slot < 0)
		return "its slot is out of range";
	infer_incarnation_put(kept, ref->incarnation, strlen(ref->incarnation));
	if (strcmp(kept, ref->incarnation) != 0)
		return "its incarnation is none";
	return NULL;
}

/* --- Text --- */

static bool
is_plain(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
		   c == '.' || c == '_' || c == '~';
}

static char *
write_name(char *to, const char *name)
{
	for (; *name != '\0'; name++)
	{
		if (is_plain(*name))
			*to++ = *name;
		else
			to += sprintf(to, "%%%02X", (unsigned) (unsigned char) *name);
	}
	return to;
}

size_t
infer_ref_write(const InferRef *ref, char *text)
{
	char *to = text + sprintf(text, PREFIX "%d:", FORMAT);

	to = write_name(to, ref->server);
	to += sprintf(to, ":%" PRId32 ".%" PRIu32 ":", ref->slot, ref->generation);
	to = write_name(to, ref->incarnation);
	*to++ = ':';
	to = write_name(to, ref->model);
	*to = '\0';
	return (size_t) (to - text);
}

static int
digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The part of a text up to the next colon, or its end, decoded; the cursor goes there.  Returns
 * what is wrong with it. */
static const char *
read_name(const char **p, const char *end, char *name, size_t size)
{
	size_t n = 0;

	while (*p < end && **p != ':')
	{
		char c = *(*p)++;

		if (c == '%')
		{
			int high = end - *p >= 2 ? digit_of((*p)[0]) : -1;
			int low = end - *p >= 2 ? digit_of((*p)[1]) : -1;

			if (high < 0 || low < 0)
				return "a percent sign in it is not followed by two digits";
			c = (char) (high * 16 + low);
			*p += 2;
			if (c == '\0')
				return "a name in it has a control character";
		}
		if (n + 1 >= size)
			return "a name in it is too long";
		name[n++] = c;
	}
	name[n] = '\0';
	return NULL;
}

static bool
take_colon(const char **p, const char *end)
{
	if (*p == end || **p != ':')
		return false;
	(*p)++;
	return true;
}

/* Digits up to a character, which the cursor goes behind. */
static bool
read_number(const char **p, const char *end, char until, uint64_t max, uint64_t *number)
{
	const char *begin = *p;

	*number = 0;
	for (; *p < end && **p >= '0' && **p <= '9' && *number <= max; (*p)++)
		*number = *number * 10 + (uint64_t) (**p - '0');
	if (*p == begin || *p == end || **p != until || *number > max)
		return false;
	(*p)++;
	return true;
}

static const char *
read_parts(const char *p, const char *end, InferRef *ref)
{
	uint64_t slot;
	uint64_t generation;
	const char *problem = read_name(&p, end, ref->server, sizeof(ref->server));

	if (problem != NULL)
		return problem;
	if (!take_colon(&p, end) || !read_number(&p, end, '.', INT32_MAX, &slot) ||
		!read_number(&p, end, ':', UINT32_MAX, &generation))
		return "its slot is not written as a number, a point and another number";
	ref->slot = (int32_t) slot;
	ref->generation = (uint32_t) generation;
	problem = read_name(&p, end, ref->incarnation, sizeof(ref->incarnation));
	if (problem != NULL)
		return problem;
	if (!take_colon(&p, end))
		return "it ends too early";
	problem = read_name(&p, end, ref->model, sizeof(ref->model));
	if (problem == NULL && p < end)
		problem = "there is more behind its model";
	return problem;
}

static const char *
read_text(const char *p, const char *end, InferRef *ref)
{
	size_t prefix = sizeof(PREFIX) - 1;
	uint64_t format;

	if ((size_t) (end - p) < prefix || memcmp(p, PREFIX, prefix) != 0)
		return "it does not begin with \"" PREFIX "\"";
	p += prefix;
	if (!read_number(&p, end, ':', UINT32_MAX, &format))
		return "it does not say of which format it is";
	if (format != FORMAT)
		return "it is of a format that is not known here";
	return read_parts(p, end, ref);
}

bool
infer_ref_read(const char *text, size_t len, InferRef *ref, const char **problem)
{
	char again[INFER_REF_TEXT_MAX];

	memset(ref, 0, sizeof(*ref));
	*problem = read_text(text, text + len, ref);
	if (*problem == NULL)
		*problem = problem_of(ref);
	if (*problem == NULL && (infer_ref_write(ref, again) != len || memcmp(again, text, len) != 0))
		*problem = "it is not written as references are";
	return *problem == NULL;
}

/* --- Bytes --- */

/* That of IEEE 802.3. */
static uint32_t
crc_of(const unsigned char *bytes, size_t len)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < len; i++)
	{
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = (crc >> 1) ^ ((crc & 1) != 0 ? UINT32_C(0xedb88320) : 0);
	}
	return ~crc;
}

static unsigned char *
put_number(unsigned char *to, uint32_t number, int bytes)
{
	for (int i = bytes - 1; i >= 0; i--)
		*to++ = (unsigned char) (number >> (8 * i));
	return to;
}

static unsigned char *
put_name(unsigned char *to, const char *name)
{
	size_t len = strlen(name);

	to = put_number(to, (uint32_t) len, 2);
	memcpy(to, name, len);
	return to + len;
}

size_t
infer_ref_pack(const InferRef *ref, unsigned char *bytes)
{
	unsigned char *to = bytes;

	*to++ = 'I';
	*to++ = 'R';
	*to++ = FORMAT;
	to = put_number(to, (uint32_t) ref->slot, 4);
	to = put_number(to, ref->generation, 4);
	to = put_name(to, ref->server);
	to = put_name(to, ref->incarnation);
	to = put_name(to, ref->model);
	to = put_number(to, crc_of(bytes, (size_t) (to - bytes)), CRC);
	return (size_t) (to - bytes);
}

/* Bytes that are still to be read. */
typedef struct Bytes
{
	const unsigned char *p;
	size_t left;
} Bytes;

static bool
take_number(Bytes *bytes, int n, uint32_t *number)
{
	if (bytes->left < (size_t) n)
		return false;
	*number = 0;
	for (int i = 0; i < n; i++)
		*number = *number << 8 | bytes->p[i];
	bytes->p += n;
	bytes->left -= (size_t) n;
	return true;
}

static bool
take_name(Bytes *bytes, char *name, size_t size)
{
	uint32_t len;

	if (!take_number(bytes, 2, &len) || len > bytes->left || len >= size ||
		memchr(bytes->p, '\0', len) != NULL)
		return false;
	memcpy(name, bytes->p, len);
	name[len] = '\0';
	bytes->p += len;
	bytes->left -= len;
	return true;
}

bool
infer_ref_unpack(const unsigned char *bytes, size_t len, InferRef *ref, const char **problem)
{
	Bytes rest;
	uint32_t slot;

	memset(ref, 0, sizeof(*ref));
	*problem = NULL;
	if (len < 3 + CRC || bytes[0] != 'I' || bytes[1] != 'R')
		*problem = "the bytes do not begin as those of a reference do";
	else if (bytes[2] != FORMAT)
		*problem = "it is of a format that is not known here";
	else
	{
		Bytes end = {bytes + len - CRC, CRC};
		uint32_t crc;

		rest = (Bytes){bytes + 3, len - 3 - CRC};
		if (!take_number(&end, CRC, &crc) || crc != crc_of(bytes, len - CRC))
			*problem = "bytes of it are missing or have changed";
		else if (!take_number(&rest, 4, &slot) || !take_number(&rest, 4, &ref->generation) ||
				 !take_name(&rest, ref->server, sizeof(ref->server)) ||
				 !take_name(&rest, ref->incarnation, sizeof(ref->incarnation)) ||
				 !take_name(&rest, ref->model, sizeof(ref->model)) || rest.left != 0)
			*problem = "its parts do not fit together";
		else
			ref->slot = slot <= INT32_MAX ? (int32_t) slot : -1;
	}
	if (*problem == NULL)
		*problem = problem_of(ref);
	return *problem == NULL;
}
