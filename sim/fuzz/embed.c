/*
 * sim/fuzz/embed.c - answers of /embeddings.
 *
 * Any text: what is accepted is whole, and fit for a table.  A list made by the target: each vector
 * is found at the input that its index names, with the very floats that were written, and a vector
 * that is missing or broken costs nobody but its own input.
 */
#include "fuzz.h"
#include "model.h"
#include "reply.h"

#include "core/buf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_INPUTS 8
#define MAX_DIMS   4

static void
try_text(FuzzText *text, int ninputs, unsigned cut)
{
	InferReply reply;
	InferFault fault;

	if (!fuzz_parse(INFER_TASK_EMBED, text, ninputs, &reply, &fault))
		return;
	for (int i = 0, dims = 0; i < ninputs; i++)
	{
		const InferItem *item = &reply.items[i];
		float *floats = malloc((size_t) item->dims * sizeof(float) + 1);

		if (item->reason == INFER_REASON_NONE)
		{
			REQUIRE(item->dims > 0 && (dims == 0 || item->dims == dims));
			dims = item->dims;
			infer_reply_floats(item, floats);
			for (int k = 0; k < item->dims; k++)
				REQUIRE(isfinite(floats[k]));
		}
		else
			REQUIRE(item->dims == 0 && item->floats == NULL);
		REQUIRE(item->text == NULL);
		free(floats);
	}
	infer_reply_free(&reply);
	/* vectors stand three containers deep, and some servers write NaN */
	REQUIRE(model_is_json(text->data, text->len, INFER_JSON_DEPTH + 3, true));
	fuzz_try_truncated(INFER_TASK_EMBED, text, ninputs, cut);
}

/* How a vector is written. */
typedef enum Form
{
	FORM_NUMBERS,
	FORM_BASE64,
	FORM_NULL,
	FORM_EMPTY,
	FORM_WORD,   /* NaN among its numbers */
	FORM_ABSENT, /* no such member */
	FORM_LEFT_OUT,
	FORM_COUNT
} Form;

typedef struct Written
{
	Form form;
	int dims;
	float floats[MAX_DIMS];
	bool wrong_dims; /* not those of most */
} Written;

static void
write_vector(InferBuf *out, const Written *v, int index, bool index_first, bool with_index)
{
	char text[64];
	const char *separator = "";

	infer_buf_adds(out, "{\"object\":\"embedding\"");
	snprintf(text, sizeof(text), ",\"index\":%d", index);
	if (with_index && index_first)
		infer_buf_adds(out, text);
	if (v->form != FORM_ABSENT)
		infer_buf_adds(out, ",\"embedding\":");
	if (v->form == FORM_BASE64)
	{
		char base64[MAX_DIMS * 8];

		infer_buf_addc(out, '"');
		infer_buf_add(
			out, base64,
			model_to_base64((const unsigned char *) v->floats, (size_t) v->dims * 4, base64));
		infer_buf_addc(out, '"');
	}
	else if (v->form == FORM_NULL)
		infer_buf_adds(out, "null");
	else if (v->form != FORM_ABSENT)
	{
		infer_buf_adds(out, "[");
		for (int i = 0; v->form != FORM_EMPTY && i < v->dims; i++)
		{
			char number[32];

			snprintf(number, sizeof(number), "%s%.9g", separator, (double) v->floats[i]);
			infer_buf_adds(out, number);
			separator = index % 2 == 0 ? "," : ", ";
		}
		if (v->form == FORM_WORD)
			infer_buf_adds(out, v->dims > 0 ? ",NaN" : "NaN");
		infer_buf_adds(out, "]");
	}
	if (with_index && !index_first)
		infer_buf_adds(out, text);
	infer_buf_addc(out, '}');
}

static bool
is_good(const Written *v)
{
	return (v->form == FORM_NUMBERS || v->form == FORM_BASE64) && v->dims > 0;
}

/* Marks good vectors whose number of floats is not that of most, or else of the first. */
static void
mark_wrong_dims(Written *list, const int *order, int n)
{
	int common = 0;
	int good = 0;

	for (int i = 0; i < n; i++)
		good += is_good(&list[i]);
	for (int i = 0; i < n; i++)
	{
		int same = 0;

		for (int k = 0; k < n; k++)
			same += is_good(&list[k]) && list[k].dims == list[i].dims;
		if (is_good(&list[i]) && same * 2 > good)
			common = list[i].dims;
	}
	for (int i = 0; common == 0 && i < n; i++)
	{
		if (is_good(&list[order[i]]))
			common = list[order[i]].dims;
	}
	for (int i = 0; i < n; i++)
		list[i].wrong_dims = is_good(&list[i]) && list[i].dims != common;
}

static void
read_written(FuzzInput *in, Written *list, int *order, int n, bool with_index)
{
	for (int i = 0; i < n; i++)
	{
		unsigned what = fuzz_byte(in);
		FuzzText bytes;

		list[i] = (Written){.form = what % 16 < FORM_COUNT ? (Form) (what % 16) : FORM_NUMBERS,
							.dims = (int) (what / 16) % (MAX_DIMS + 1)};
		if (!with_index && list[i].form == FORM_LEFT_OUT)
			list[i].form = FORM_ABSENT;
		bytes = fuzz_take(in, (size_t) list[i].dims * 4);
		memcpy(list[i].floats, bytes.data, bytes.len);
		for (int k = 0; k < list[i].dims; k++)
		{
			if (!isfinite(list[i].floats[k]))
				list[i].floats[k] = (float) k;
		}
		fuzz_free(&bytes);
		order[i] = i;
	}
	for (int i = 0; with_index && i < n; i++)
	{
		int other = (int) (fuzz_byte(in) % (unsigned) n);
		int swapped = order[i];

		order[i] = order[other];
		order[other] = swapped;
	}
	mark_wrong_dims(list, order, n);
}

static void
check_written(const InferItem *item, const Written *v)
{
	InferReason expected = INFER_REASON_NONE;
	float floats[MAX_DIMS];

	if (v->form == FORM_LEFT_OUT || v->form == FORM_ABSENT || v->form == FORM_NULL)
		expected = INFER_REASON_MISSING_RESULT;
	else if (!is_good(v) || v->wrong_dims)
		expected = INFER_REASON_MALFORMED_REPLY;
	REQUIRE(item->reason == expected);
	if (expected != INFER_REASON_NONE)
		return;
	REQUIRE(item->dims == v->dims && item->base64 == (v->form == FORM_BASE64));
	infer_reply_floats(item, floats);
	REQUIRE(memcmp(floats, v->floats, (size_t) v->dims * sizeof(float)) == 0);
}

static void
try_written(FuzzInput *in, int n)
{
	unsigned how = fuzz_byte(in);
	bool with_index = how % 4 != 0;
	Written list[MAX_INPUTS];
	int order[MAX_INPUTS];
	const char *separator = "";
	InferBuf out;
	InferReply reply;
	InferFault fault;
	FuzzText text;

	read_written(in, list, order, n, with_index);
	infer_buf_init(&out, 1 << 20);
	infer_buf_adds(&out, how & 8 ? "{\"usage\":{\"prompt_tokens\":12},\"data\":[" : "{\"data\":[");
	for (int i = 0; i < n; i++)
	{
		if (list[order[i]].form == FORM_LEFT_OUT)
			continue;
		infer_buf_adds(&out, separator);
		write_vector(&out, &list[order[i]], order[i], (how & 16) != 0, with_index);
		separator = ", ";
	}
	infer_buf_adds(&out, "],\"model\":\"m\"}");
	text = fuzz_copy(out.data, out.len);
	REQUIRE(fuzz_parse(INFER_TASK_EMBED, &text, n, &reply, &fault));
	REQUIRE(reply.prompt_tokens == (how & 8 ? 12 : -1) && reply.completion_tokens == -1);
	for (int i = 0; i < n; i++)
		check_written(&reply.items[i], &list[i]);
	infer_reply_free(&reply);
	infer_buf_free(&out);
	fuzz_free(&text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FuzzInput in = {data, size};
	unsigned how = fuzz_byte(&in);
	int ninputs = 1 + (int) (how % MAX_INPUTS);

	if (how & 0x80)
		try_written(&in, ninputs);
	else
	{
		unsigned cut = fuzz_byte(&in);
		FuzzText text = fuzz_rest(&in);

		try_text(&text, ninputs, cut);
		fuzz_free(&text);
	}
	return 0;
}
