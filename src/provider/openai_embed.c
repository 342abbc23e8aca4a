/*
 * provider/openai_embed.c - the vectors in an answer of /embeddings.
 *
 * The body is crossed once: {"data": [{"index": N, "embedding": [..] or "base64"}, ..], "usage":
 * {..}}, members in any order, unknown ones skipped.  Floats are read into the reply's array on the
 * way.
 *
 * A vector is put where its `index` says.  A wrong row is the worst that can happen to a filled
 * column, since nobody sees it, so whatever leaves a doubt fails the request as MISALIGNED: more
 * answers than inputs, an index that is no number of an input, one that occurs twice, answers with
 * and without one.  Answers without any index are taken in order if their number is right.  An
 * index that is absent leaves only its own row without a result.
 */
#include "provider/internal.h"

#include <limits.h>
#include <stdlib.h>

#define NO_INDEX (-1)

/* An element of data, as it stands. */
typedef struct Vector
{
	int index;
	InferReason reason; /* MISSING_RESULT until an embedding was seen */
	size_t start;       /* in the array of floats */
	size_t dims;
	bool base64;
	bool taken; /* place(): a vector was put at the position of this number */
} Vector;

typedef struct Vectors
{
	Vector *list;
	int count;
	int max;
	bool seen; /* the member "data" */
} Vectors;

/* Why the reading of data stopped. */
typedef enum Stop
{
	STOP_NOT,
	STOP_JSON,
	STOP_MEMORY,
	STOP_TOO_MANY,
	STOP_INDEX,
	STOP_TWICE
} Stop;

static Stop
read_embedding(InferJson *j, InferFloats *floats, Vector *vector)
{
	InferFloatsResult result = INFER_FLOATS_BAD_VALUE;
	char c = infer_json_peek(j);

	vector->start = floats->len;
	vector->base64 = c == '"';
	if (c == '[')
		result = infer_floats_scan_list(j, floats);
	else if (c == '"')
	{
		InferSlice text;

		if (!infer_json_string(j, &text))
			return STOP_JSON;
		result = infer_floats_from_base64(&text, floats);
	}
	else if (!infer_json_value(j, NULL))
		return STOP_JSON;
	else if (c == 'n')
	{
		vector->reason = INFER_REASON_MISSING_RESULT;
		return STOP_NOT;
	}

	if (result == INFER_FLOATS_NOT_JSON)
		return STOP_JSON;
	if (result == INFER_FLOATS_NO_MEMORY)
		return STOP_MEMORY;
	vector->dims = floats->len - vector->start;
	if (result == INFER_FLOATS_BAD_VALUE || vector->dims == 0 || vector->dims > INT_MAX)
		vector->reason = INFER_REASON_MALFORMED_REPLY;
	else
		vector->reason = INFER_REASON_NONE;
	return STOP_NOT;
}

static Stop
read_index(InferJson *j, int max, Vector *vector)
{
	int64_t n;

	if (infer_json_peek(j) == 'n')
	{
		vector->index = NO_INDEX;
		return infer_json_value(j, NULL) ? STOP_NOT : STOP_JSON;
	}
	if (!infer_json_integer(j, &n))
		return infer_json_value(j, NULL) ? STOP_INDEX : STOP_JSON;
	if (n < 0 || n >= max)
		return STOP_INDEX;
	vector->index = (int) n;
	return STOP_NOT;
}

static Stop
read_vector(InferJson *j, InferFloats *floats, int max, Vector *vector)
{
	InferJsonStep step;
	InferSlice key;
	bool first = true;

	vector->index = NO_INDEX;
	vector->reason = INFER_REASON_MISSING_RESULT;
	if (infer_json_peek(j) != '{')
		return infer_json_value(j, NULL) ? STOP_NOT : STOP_JSON;
	infer_json_open(j, '{');
	while ((step = infer_json_next_member(j, &first, &key)) == INFER_JSON_ITEM)
	{
		Stop stop = STOP_NOT;

		if (infer_json_key_is(&key, "embedding"))
			stop = read_embedding(j, floats, vector);
		else if (infer_json_key_is(&key, "index"))
			stop = read_index(j, max, vector);
		else if (!infer_json_value(j, NULL))
			stop = STOP_JSON;
		if (stop != STOP_NOT)
			return stop;
	}
	return step == INFER_JSON_DONE ? STOP_NOT : STOP_JSON;
}

static Stop
read_data(InferJson *j, InferFloats *floats, Vectors *vectors)
{
	InferJsonStep step;
	bool first = true;

	if (vectors->seen)
		return STOP_TWICE;
	vectors->seen = true;
	infer_json_open(j, '[');
	while ((step = infer_json_next_element(j, &first)) == INFER_JSON_ITEM)
	{
		Stop stop;

		if (vectors->count == vectors->max)
			return STOP_TOO_MANY;
		stop = read_vector(j, floats, vectors->max, &vectors->list[vectors->count]);
		if (stop != STOP_NOT)
			return stop;
		vectors->count++;
	}
	return step == INFER_JSON_DONE ? STOP_NOT : STOP_JSON;
}

/*
 * The number of floats that most good vectors have (Boyer and Moore's majority vote), or that of
 * the first one if there is no majority; 0 without good ones.
 */
static size_t
common_dims(const Vectors *vectors)
{
	size_t first = 0;
	size_t candidate = 0;
	int lead = 0;
	int good = 0;
	int votes = 0;

	for (int i = 0; i < vectors->count; i++)
	{
		const Vector *v = &vectors->list[i];

		if (v->reason != INFER_REASON_NONE)
			continue;
		if (good++ == 0)
			first = v->dims;
		if (lead == 0)
			candidate = v->dims;
		lead += v->dims == candidate ? 1 : -1;
	}
	for (int i = 0; i < vectors->count; i++)
		votes += vectors->list[i].reason == INFER_REASON_NONE && vectors->list[i].dims == candidate;
	return votes * 2 > good ? candidate : first;
}

static void
set_item(InferItem *item, const Vector *vector, const InferFloats *floats, size_t dims)
{
	item->reason = vector->reason;
	if (vector->reason != INFER_REASON_NONE)
		return;
	if (vector->dims != dims)
	{
		item->reason = INFER_REASON_MALFORMED_REPLY;
		return;
	}
	item->dims = (int) vector->dims;
	item->floats = floats->data + vector->start;
	item->base64 = vector->base64;
}

/* From vectors as they came to items by position of their input. */
static bool
place(Vectors *vectors, InferReply *reply, InferFault *fault)
{
	const InferFloats *floats = &((InferArena *) reply->arena)->floats;
	size_t dims = common_dims(vectors);
	int indexed = 0;

	for (int i = 0; i < vectors->count; i++)
		indexed += vectors->list[i].index != NO_INDEX;
	if (indexed != 0 && indexed != vectors->count)
		return infer_fault(fault, INFER_REASON_MISALIGNED, "%d of %d answers have no index",
						   vectors->count - indexed, vectors->count);
	if (indexed == 0 && vectors->count != 0 && vectors->count != reply->nitems)
		return infer_fault(fault, INFER_REASON_MISALIGNED,
						   "%d answers without an index for %d inputs", vectors->count,
						   reply->nitems);

	for (int i = 0; i < reply->nitems; i++)
		reply->items[i].reason = INFER_REASON_MISSING_RESULT;
	for (int i = 0; i < vectors->count; i++)
	{
		const Vector *vector = &vectors->list[i];
		int at = indexed != 0 ? vector->index : i;

		if (vectors->list[at].taken)
			return infer_fault(fault, INFER_REASON_MISALIGNED, "two answers have the index %d", at);
		vectors->list[at].taken = true;
		set_item(&reply->items[at], vector, floats, dims);
	}
	return true;
}

static bool
fault_of(Stop stop, int ninputs, InferFault *fault)
{
	switch (stop)
	{
		case STOP_MEMORY:
			return infer_fault_memory(fault);
		case STOP_TOO_MANY:
			return infer_fault(fault, INFER_REASON_MISALIGNED, "more than %d answers for %d inputs",
							   ninputs, ninputs);
		case STOP_INDEX:
			return infer_fault(fault, INFER_REASON_MISALIGNED,
							   "an answer has an index that is no number from 0 to %d",
							   ninputs - 1);
		case STOP_TWICE:
			return infer_fault(fault, INFER_REASON_MALFORMED_REPLY,
							   "the answer has two lists named \"data\"");
		default:
			return infer_fault_json(fault);
	}
}

static bool
read_body(InferJson *body, InferReply *reply, Vectors *vectors, InferFault *fault)
{
	InferFloats *floats = &((InferArena *) reply->arena)->floats;
	InferJsonStep step;
	InferSlice key;
	bool first = true;

	if (!infer_json_open(body, '{'))
		return infer_fault(fault, INFER_REASON_MALFORMED_REPLY, "the answer is no JSON object");
	while ((step = infer_json_next_member(body, &first, &key)) == INFER_JSON_ITEM)
	{
		Stop stop = STOP_NOT;

		if (infer_json_key_is(&key, "data") && infer_json_peek(body) == '[')
			stop = read_data(body, floats, vectors);
		else if (infer_json_key_is(&key, "usage"))
			stop = infer_reply_read_usage(reply, body) ? STOP_NOT : STOP_JSON;
		else if (!infer_json_value(body, NULL))
			stop = STOP_JSON;
		if (stop != STOP_NOT)
			return fault_of(stop, reply->nitems, fault);
	}
	if (step == INFER_JSON_BROKEN)
		return infer_fault_json(fault);
	if (!vectors->seen)
		return infer_fault(fault, INFER_REASON_MALFORMED_REPLY,
						   "the answer has no list named \"data\"");
	return true;
}

bool
infer_openai_parse_embeddings(InferJson *body, InferReply *reply, InferFault *fault)
{
	Vectors vectors = {.max = reply->nitems};
	bool ok;

	vectors.list = calloc((size_t) reply->nitems, sizeof(Vector));
	if (vectors.list == NULL)
		return infer_fault_memory(fault);
	ok = read_body(body, reply, &vectors, fault) && place(&vectors, reply, fault);
	free(vectors.list);
	return ok;
}
