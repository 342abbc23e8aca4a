/*
 * provider/floats.h - float arrays from the bytes of an answer.
 *
 * Numbers land in one growing array, owned by the caller of the scan, all embeddings of a reply one
 * behind the other.
 */
#ifndef INFER_PROVIDER_FLOATS_H
#define INFER_PROVIDER_FLOATS_H

#include "provider/json_scan.h"

typedef struct InferFloats
{
	float *data; /* malloc'd */
	size_t len;
	size_t cap;
} InferFloats;

typedef enum InferFloatsResult
{
	INFER_FLOATS_OK,
	INFER_FLOATS_BAD_VALUE, /* well-formed, but something in it is no finite float4 */
	INFER_FLOATS_NOT_JSON,
	INFER_FLOATS_NO_MEMORY
} InferFloatsResult;

/* Room for n more floats (and a few bytes of slack that decoders may scribble on). */
extern bool infer_floats_reserve(InferFloats *floats, size_t n);
extern void infer_floats_free(InferFloats *floats);

/*
 * Reads a JSON list of numbers; the cursor is at its '['.  Appends to floats.  Each float is the
 * one nearest to the decimal (ties to even), as PostgreSQL's own input function has it.  NaN and
 * Infinity, which some servers write although JSON has no such words, are BAD_VALUE like null,
 * strings and numbers beyond float4; the cursor is behind the list then.
 */
extern InferFloatsResult infer_floats_scan_list(InferJson *j, InferFloats *floats);

/* Appends the little-endian float4 values of a base64 text. Never NOT_JSON. */
extern InferFloatsResult infer_floats_from_base64(const InferSlice *text, InferFloats *floats);

#endif
