/*
 * sim/fuzz/stream.c - server-sent events, and answers that come as a stream of them.
 *
 * Events: however the bytes are cut into pieces, the same events come out, and they are those that
 * the plain reading of the standard gives.  Each piece is gone before the next one comes.  Answers:
 * a text that the target cut into chunks comes back whole if the stream came to its end, and never
 * if it did not; what is known of a part of a stream stays true of the whole.
 */
#include "fuzz.h"
#include "model.h"
#include "reply.h"

#include "core/buf.h"
#include "provider/sse.h"

#include <stdlib.h>
#include <string.h>

/* What a reading came to: each event as its type, its length in text, and its data. */
typedef struct Events
{
	InferBuf bytes;
	InferSseStep end;
} Events;

static void
note(Events *events, const char *data, size_t len, bool is_error)
{
	uint64_t head = (uint64_t) len * 2 + is_error;

	infer_buf_add(&events->bytes, &head, sizeof(head));
	infer_buf_add(&events->bytes, data, len);
}

/* In pieces: each cut takes a byte for the length of the next one, in turn. */
static Events
read_pieces(const FuzzText *text, const FuzzText *cuts, size_t max_line)
{
	Events events;
	InferSse sse;
	InferSseEvent event;
	size_t at = 0;

	infer_buf_init(&events.bytes, 1 << 24);
	infer_sse_init(&sse, max_line);
	events.end = INFER_SSE_MORE;
	for (size_t i = 0; at < text->len && events.end == INFER_SSE_MORE; i++)
	{
		size_t n = cuts->len > 0 ? (unsigned char) cuts->data[i % cuts->len] : text->len;
		FuzzText piece = fuzz_copy(text->data + at, n < text->len - at ? n : text->len - at);
		const char *p = piece.data;
		const char *end = p + piece.len;

		at += n > 0 ? piece.len : 1;
		if (n == 0) /* an empty piece, and one byte */
		{
			REQUIRE(infer_sse_next(&sse, &p, end, &event) == INFER_SSE_MORE);
			fuzz_free(&piece);
			piece = fuzz_copy(text->data + at - 1, 1);
			p = piece.data;
			end = p + 1;
		}
		while ((events.end = infer_sse_next(&sse, &p, end, &event)) == INFER_SSE_EVENT)
		{
			REQUIRE(p > piece.data && p <= end && event.data != NULL);
			if (event.in_place)
				REQUIRE(fuzz_inside(event.data, event.len, &piece));
			note(&events, event.data, event.len, event.is_error);
		}
		REQUIRE(events.end != INFER_SSE_MORE || p == end);
		fuzz_free(&piece);
	}
	if (events.end == INFER_SSE_MORE)
	{
		events.end = infer_sse_end(&sse, &event);
		if (events.end == INFER_SSE_EVENT)
		{
			note(&events, event.data, event.len, event.is_error);
			events.end = infer_sse_end(&sse, &event);
		}
		REQUIRE(events.end != INFER_SSE_EVENT);
	}
	infer_sse_free(&sse);
	return events;
}

/* One event of the model, while its lines come. */
typedef struct ModelEvent
{
	InferBuf data; /* each line with a line feed behind it */
	bool is_error;
} ModelEvent;

static void
model_dispatch(ModelEvent *event, Events *events)
{
	if (event->data.len > 0)
		note(events, event->data.data, event->data.len - 1, event->is_error);
	infer_buf_reset(&event->data);
	event->is_error = false;
}

static void
model_line(ModelEvent *event, const char *line, size_t len)
{
	size_t name = 0;
	size_t value;

	while (name < len && line[name] != ':')
		name++;
	value = name < len ? name + 1 : len;
	if (value < len && line[value] == ' ')
		value++;
	if (name == 4 && memcmp(line, "data", 4) == 0)
	{
		infer_buf_add(&event->data, line + value, len - value);
		infer_buf_addc(&event->data, '\n');
	}
	else if (name == 5 && memcmp(line, "event", 5) == 0)
		event->is_error = len - value == 5 && memcmp(line + value, "error", 5) == 0;
}

/* By the standard, with the end of the text as the end of an event. */
static Events
model_events(const FuzzText *text, size_t max_line)
{
	Events events = {.end = INFER_SSE_MORE};
	ModelEvent event = {.is_error = false};
	size_t at = text->len >= 3 && memcmp(text->data, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;

	infer_buf_init(&events.bytes, 1 << 24);
	infer_buf_init(&event.data, 1 << 24);
	while (at < text->len && events.end == INFER_SSE_MORE)
	{
		size_t stop = at;

		while (stop < text->len && text->data[stop] != '\n' && text->data[stop] != '\r')
			stop++;
		if (stop - at > max_line)
			events.end = INFER_SSE_TOO_LONG;
		else if (stop == at)
			model_dispatch(&event, &events);
		else
			model_line(&event, text->data + at, stop - at);
		at = stop + 1;
		if (stop + 1 < text->len && text->data[stop] == '\r' && text->data[stop + 1] == '\n')
			at++;
	}
	if (events.end == INFER_SSE_MORE)
		model_dispatch(&event, &events);
	infer_buf_free(&event.data);
	return events;
}

static void
require_same(Events *a, Events *b)
{
	REQUIRE(a->end == b->end);
	REQUIRE(a->bytes.len == b->bytes.len &&
			(a->bytes.len == 0 || memcmp(a->bytes.data, b->bytes.data, a->bytes.len) == 0));
	infer_buf_free(&b->bytes);
}

static void
try_events(const FuzzText *text, const FuzzText *cuts, size_t max_line)
{
	FuzzText whole = {NULL, 0};
	FuzzText single = {"\1", 1};
	Events expected = model_events(text, max_line);
	Events events = read_pieces(text, &whole, max_line);

	require_same(&expected, &events);
	events = read_pieces(text, cuts, max_line);
	require_same(&expected, &events);
	if (text->len < 256)
	{
		events = read_pieces(text, &single, max_line);
		require_same(&expected, &events);
	}
	infer_buf_free(&expected.bytes);
}

static void
check_item(const InferItem *item)
{
	if (item->text == NULL)
		return;
	REQUIRE(model_is_utf8(item->text, item->text_len));
	REQUIRE(memchr(item->text, '\0', item->text_len) == NULL);
}

/* Any bytes as a streamed answer, and its events up to somewhere. */
static void
try_answer(const FuzzText *text, unsigned where)
{
	InferReply reply;
	InferFault fault;
	InferStreamFacts facts;
	InferStreamFacts early;
	size_t boundary = text->len * where / 256;
	FuzzText part;

	while (boundary >= 2 && memcmp(text->data + boundary - 2, "\n\n", 2) != 0)
		boundary--;
	part = fuzz_copy(text->data, boundary);
	if (infer_provider_stream_facts(text->data, text->len, &facts))
	{
		if (infer_provider_stream_facts(part.data, part.len, &early))
			REQUIRE((!early.tokens || facts.tokens) && (!early.ended || facts.ended));
		if (fuzz_parse(INFER_TASK_CHAT, text, 1, &reply, &fault))
		{
			REQUIRE(facts.ended);
			check_item(&reply.items[0]);
			infer_reply_free(&reply);
		}
		else
			REQUIRE(fault.execution == INFER_EXECUTED ||
					(fault.execution == INFER_MAYBE_EXECUTED && !facts.tokens));
	}
	fuzz_free(&part);
}

/* How the target writes a stream. */
typedef struct Written
{
	FuzzText text;
	FuzzText cuts; /* lengths of chunks, in turn */
	bool finish;   /* says why it stopped */
	bool done;     /* ends with [DONE] */
	unsigned line_end;
} Written;

static void
write_event(InferBuf *out, const Written *w, const char *data, size_t len)
{
	static const char *const ends[] = {"\n", "\r\n", "\r"};

	infer_buf_adds(out, w->cuts.len % 2 == 0 ? "data: " : "data:");
	infer_buf_add(out, data, len);
	infer_buf_adds(out, ends[w->line_end]);
	infer_buf_adds(out, ends[w->line_end]);
}

/* The text as a JSON string without its quotes, cut between escapes; so characters may be cut. */
static void
write_chunks(InferBuf *out, const Written *w)
{
	InferBuf json;
	size_t at = 1;

	infer_buf_init(&json, 1 << 20);
	infer_buf_add_json_string(&json, w->text.data, w->text.len);
	for (size_t i = 0; at < json.len - 1; i++)
	{
		size_t n = w->cuts.len > 0 ? (unsigned char) w->cuts.data[i % w->cuts.len] : json.len;
		size_t stop = at;
		InferBuf chunk;

		/* long texts in no more than some hundred chunks */
		n = n > json.len / 256 ? n : json.len / 256;
		while (stop < json.len - 1 && stop - at < n)
			stop += json.data[stop] != '\\' ? 1 : json.data[stop + 1] == 'u' ? 6 : 2;
		infer_buf_init(&chunk, 1 << 20);
		infer_buf_adds(&chunk, "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"");
		infer_buf_add(&chunk, json.data + at, stop - at);
		infer_buf_adds(&chunk, "\"},\"finish_reason\":null}]}");
		write_event(out, w, chunk.data, chunk.len);
		infer_buf_free(&chunk);
		if (n == 0) /* an empty one, and all the rest */
		{
			stop = at + 1;
			if (json.data[at] == '\\')
				stop = at + (json.data[at + 1] == 'u' ? 6 : 2);
			infer_buf_init(&chunk, 1 << 20);
			infer_buf_adds(&chunk, "{\"choices\":[{\"text\":\"");
			infer_buf_add(&chunk, json.data + at, stop - at);
			infer_buf_adds(&chunk, "\"}]}");
			write_event(out, w, chunk.data, chunk.len);
			infer_buf_free(&chunk);
		}
		at = stop;
	}
	infer_buf_free(&json);
}

static void
try_written(const Written *w)
{
	static const char role[] =
		"{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}";
	static const char last[] = "{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}";
	static const char usage[] = "{\"choices\":[],\"usage\":{\"completion_tokens\":7}}";
	const FuzzText *text = &w->text;
	bool good = model_is_utf8(text->data, text->len) && memchr(text->data, '\0', text->len) == NULL;
	InferBuf out;
	InferReply reply;
	InferFault fault;
	FuzzText body;

	infer_buf_init(&out, 1 << 26);
	write_event(&out, w, role, strlen(role));
	write_chunks(&out, w);
	if (w->finish)
		write_event(&out, w, last, strlen(last));
	write_event(&out, w, usage, strlen(usage));
	if (w->done)
		write_event(&out, w, "[DONE]", 6);
	body = fuzz_copy(out.data, out.len);
	if (fuzz_parse(INFER_TASK_COMPLETE, &body, 1, &reply, &fault))
	{
		const InferItem *item = &reply.items[0];

		REQUIRE(w->finish || w->done);
		REQUIRE((item->reason == INFER_REASON_NONE) == good);
		if (good)
			REQUIRE(item->text_len == text->len && memcmp(item->text, text->data, text->len) == 0);
		REQUIRE(reply.completion_tokens == 7);
		infer_reply_free(&reply);
	}
	else
	{
		REQUIRE(!w->finish && !w->done && fault.reason == INFER_REASON_INCOMPLETE_REPLY);
		REQUIRE((fault.execution == INFER_EXECUTED) == (text->len > 0));
		REQUIRE(reply.completion_tokens == 7);
	}
	infer_buf_free(&out);
	fuzz_free(&body);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FuzzInput in = {data, size};
	unsigned how = fuzz_byte(&in);
	unsigned where = fuzz_byte(&in);
	FuzzText cuts = fuzz_take(&in, how / 4 % 8);
	FuzzText text = fuzz_rest(&in);

	switch (how % 4)
	{
		case 0:
			try_events(&text, &cuts, how & 0x80 ? where : INFER_SSE_MAX_LINE);
			break;
		case 1:
			try_written(&(Written){text, cuts, (where & 1) != 0, (where & 2) != 0, where / 4 % 3});
			break;
		default:
			try_answer(&text, where);
	}
	fuzz_free(&cuts);
	fuzz_free(&text);
	return 0;
}
