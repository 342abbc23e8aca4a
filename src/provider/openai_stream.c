/*
 * provider/openai_stream.c - an answer that comes as a stream of chunks, put together again.
 *
 * That is what "stream": true asks for, and what some servers send whatever is asked:
 *
 *	data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}
 *	data: {"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}
 *	data: {"choices":[],"usage":{...}}
 *	data: [DONE]
 *
 * The texts of the first choice are joined as they stand between their quotes and decoded once, so
 * that a character whose halves are in two chunks is whole.  What stands behind the joined text is
 * judged like an answer in one piece.
 *
 * Complete is an answer with its end: [DONE], or a finish_reason.  What ends before is an
 * INCOMPLETE_REPLY, and an error among the events fails the answer with the server's words; both
 * were executed if anything of the text had come, else they may have been: a first chunk that only
 * names the role proves no more than a status of 200 does.  Nothing counts behind [DONE].
 */
#include "provider/internal.h"
#include "provider/sse.h"

#include <stdint.h>
#include <string.h>

typedef struct Stream
{
	InferReply *reply; /* its usage is filled in; NULL: usage is not wanted */
	bool keep_text;    /* the text is wanted */
	bool tokens;       /* something of the answer has come */
	bool finished;
	bool failed;
	InferBuf text;    /* a JSON string: a quote, what has come; the last quote comes last */
	InferBuf refusal; /* without quotes, still escaped */
	InferBuf finish;  /* likewise */
	bool has_text;
	bool calls_tools;
	bool nomem;
	bool broken; /* an event that is no JSON object */
	char error[sizeof(((InferFault *) 0)->message)];
	bool in_place; /* the event at hand is in the body */
} Stream;

static bool
append(Stream *stream, InferBuf *buf, const InferSlice *piece)
{
	if (piece->len == 0)
		return true;
	stream->tokens = true;
	if (!stream->keep_text || infer_buf_add(buf, piece->data, piece->len))
		return true;
	stream->nomem = true;
	return false;
}

/* The text in a list of parts. False: not JSON, or no memory. */
static bool
read_parts(Stream *stream, InferJson *j)
{
	InferJsonStep step;
	bool first = true;

	infer_json_open(j, '[');
	while ((step = infer_json_next_element(j, &first)) == INFER_JSON_ITEM)
	{
		InferSlice part;
		InferSlice text;
		InferSlice refusal = {0};
		bool shown;

		if (!infer_json_value(j, &part))
			return false;
		shown = infer_openai_part(&part, &text, &refusal);
		stream->has_text |= shown;
		if (!append(stream, &stream->refusal, &refusal) ||
			(shown && !append(stream, &stream->text, &text)))
			return false;
	}
	return step == INFER_JSON_DONE;
}

/* Text of the answer; null and the like are crossed. False: not JSON, or no memory. */
static bool
read_text(Stream *stream, InferJson *j)
{
	InferSlice piece;

	if (infer_json_peek(j) == '[')
		return read_parts(stream, j);
	if (infer_json_peek(j) != '"')
		return infer_json_value(j, NULL);
	if (!infer_json_string(j, &piece))
		return false;
	stream->has_text = true;
	return append(stream, &stream->text, &piece);
}

static bool
delta_member(void *arg, const InferSlice *key, InferJson *j)
{
	Stream *stream = arg;
	InferSlice words = {0};
	bool ok;

	if (infer_json_key_is(key, "content"))
		return read_text(stream, j);
	if (infer_json_key_is(key, "refusal"))
		return infer_openai_words(j, &words) && append(stream, &stream->refusal, &words);
	if (infer_json_key_is(key, "tool_calls") || infer_json_key_is(key, "function_call"))
	{
		ok = infer_openai_tools(j, &stream->calls_tools);
		stream->tokens |= stream->calls_tools;
		return ok;
	}
	if (infer_json_key_is(key, "reasoning_content") || infer_json_key_is(key, "reasoning"))
	{
		/* not part of the answer, but somebody thought */
		ok = infer_openai_words(j, &words);
		stream->tokens |= words.len > 0;
		return ok;
	}
	return infer_json_value(j, NULL);
}

/* The finish_reason at the cursor; null until the end. */
static bool
read_finish(Stream *stream, InferJson *j)
{
	InferSlice words = {0};

	if (!infer_openai_words(j, &words))
		return false;
	if (words.len == 0)
		return true;
	stream->finished = true;
	infer_buf_reset(&stream->finish);
	if (infer_buf_add(&stream->finish, words.data, words.len))
		return true;
	stream->nomem = true;
	return false;
}

/* Is this the first choice? An index is left out where there is one. value is valid JSON. */
static bool
is_first_choice(const InferSlice *value)
{
	InferJson j = infer_json_start(value->data, value->len);
	InferSlice key;
	bool first = true;
	int64_t index = 0;

	if (!infer_json_open(&j, '{'))
		return false;
	while (infer_json_next_member(&j, &first, &key) == INFER_JSON_ITEM)
		if (!infer_json_key_is(&key, "index") || !infer_json_integer(&j, &index))
			infer_json_value(&j, NULL);
	return index == 0;
}

static bool
choice_member(void *arg, const InferSlice *key, InferJson *j)
{
	Stream *stream = arg;

	if (infer_json_key_is(key, "delta"))
		return infer_json_members(j, delta_member, stream);
	if (infer_json_key_is(key, "text"))
		return read_text(stream, j);
	if (infer_json_key_is(key, "finish_reason"))
		return read_finish(stream, j);
	return infer_json_value(j, NULL);
}

/* value is valid JSON. False: no memory. */
static bool
read_choice(Stream *stream, const InferSlice *value)
{
	InferJson j = infer_json_start(value->data, value->len);

	return !is_first_choice(value) || infer_json_members(&j, choice_member, stream);
}

static bool
read_choices(Stream *stream, InferJson *j)
{
	InferJsonStep step;
	InferSlice value;
	bool first = true;

	if (infer_json_peek(j) != '[')
		return infer_json_value(j, NULL);
	infer_json_open(j, '[');
	while ((step = infer_json_next_element(j, &first)) == INFER_JSON_ITEM)
		if (!infer_json_value(j, &value) || !read_choice(stream, &value))
			return false;
	return step == INFER_JSON_DONE;
}

/* The usage of the answer so far; the last one counts.  Only what is in the body can be kept. */
static bool
read_usage(Stream *stream, InferJson *j)
{
	bool ok;

	if (stream->reply == NULL)
		return infer_json_value(j, NULL);
	ok = infer_reply_read_usage(stream->reply, j);
	if (!stream->in_place)
	{
		stream->reply->usage_json = NULL;
		stream->reply->usage_len = 0;
	}
	return ok;
}

/* One chunk. False: it is no JSON object, or there is no memory. */
static bool
read_chunk(Stream *stream, const InferSseEvent *event)
{
	InferJson j = infer_json_start(event->data, event->len);
	InferJsonStep step;
	InferSlice key;
	bool first = true;
	bool failed = event->is_error;

	stream->in_place = event->in_place;
	if (!infer_json_open(&j, '{'))
		return false;
	while ((step = infer_json_next_member(&j, &first, &key)) == INFER_JSON_ITEM)
	{
		bool ok;

		if (infer_json_key_is(&key, "choices"))
			ok = read_choices(stream, &j);
		else if (infer_json_key_is(&key, "usage"))
			ok = read_usage(stream, &j);
		else
		{
			InferSlice value;

			ok = infer_json_value(&j, &value);
			failed |= ok && infer_json_key_is(&key, "error") &&
					  (value.data[0] == '{' || value.data[0] == '"');
		}
		if (!ok)
			return false;
	}
	stream->failed |= failed;
	return step == INFER_JSON_DONE && infer_json_at_end(&j);
}

/* False: nothing that follows matters. */
static bool
take_event(Stream *stream, const InferSseEvent *event)
{
	bool ok;

	if (event->len == 6 && memcmp(event->data, "[DONE]", 6) == 0)
	{
		stream->finished = true;
		return false;
	}
	if (event->len == 0 && !event->is_error)
		return true;
	ok = read_chunk(stream, event);
	if (event->is_error || stream->failed)
	{
		stream->failed = true;
		infer_provider_error_text(event->data, event->len, stream->error, sizeof(stream->error));
		return false;
	}
	stream->broken = !ok && !stream->nomem;
	return ok;
}

/* Reads the whole stream, as far as it matters; MORE, or how the reading of its lines broke. */
static InferSseStep
read_stream(Stream *stream, const char *body, size_t len)
{
	InferSse sse;
	InferSseEvent event;
	InferSseStep step = INFER_SSE_EVENT;
	const char *p = body;

	infer_sse_init(&sse, INFER_SSE_MAX_LINE);
	while (step == INFER_SSE_EVENT)
	{
		step = infer_sse_next(&sse, &p, body + len, &event);
		if (step == INFER_SSE_EVENT && !take_event(stream, &event))
			step = INFER_SSE_MORE;
		else if (step == INFER_SSE_MORE && (step = infer_sse_end(&sse, &event)) == INFER_SSE_EVENT)
		{
			(void) take_event(stream, &event);
			step = INFER_SSE_MORE;
			/* what the end of the body has cut, the server did not write so */
			stream->broken = false;
		}
	}
	infer_sse_free(&sse);
	return step;
}

static void
stream_begin(Stream *stream, InferReply *reply, bool keep_text)
{
	memset(stream, 0, sizeof(*stream));
	stream->reply = reply;
	stream->keep_text = keep_text;
	infer_buf_init(&stream->text, SIZE_MAX);
	infer_buf_init(&stream->refusal, SIZE_MAX);
	infer_buf_init(&stream->finish, SIZE_MAX);
}

static void
stream_free(Stream *stream)
{
	infer_buf_free(&stream->text);
	infer_buf_free(&stream->refusal);
	infer_buf_free(&stream->finish);
}

static InferSlice
slice_of(const InferBuf *buf)
{
	return (InferSlice){
		.data = buf->len > 0 ? buf->data : NULL,
		.len = buf->len,
		.escaped = buf->len > 0 && memchr(buf->data, '\\', buf->len) != NULL,
	};
}

/* A stream that came to its end: its item. */
static bool
take_answer(Stream *stream, InferReply *reply, InferFault *fault)
{
	InferArena *arena = reply->arena;
	InferOpenaiChoice choice = {
		.finish = slice_of(&stream->finish),
		.refusal = slice_of(&stream->refusal),
		.calls_tools = stream->calls_tools,
	};

	if (!infer_buf_addc(&stream->text, '"'))
		return infer_fault_memory(fault);
	if (stream->has_text)
		choice.content = slice_of(&stream->text);
	/* the item may point into it */
	arena->text = stream->text.data;
	infer_buf_init(&stream->text, 0);
	return infer_openai_take_choice(reply, &choice) || infer_fault_memory(fault);
}

static bool
finish_stream(Stream *stream, InferSseStep step, InferReply *reply, InferFault *fault)
{
	if (stream->nomem || step == INFER_SSE_NOMEM)
		return infer_fault_memory(fault);
	if (stream->finished && !stream->failed)
		return take_answer(stream, reply, fault);
	if (step == INFER_SSE_TOO_LONG)
		return infer_fault(fault, INFER_REASON_REPLY_TOO_LARGE,
						   "a line of the stream is longer than %zu bytes", INFER_SSE_MAX_LINE);
	if (stream->broken)
		return infer_fault(fault, INFER_REASON_MALFORMED_REPLY,
						   "an event of the stream is no JSON object, or nested too deeply");
	if (!stream->tokens)
		fault->execution = INFER_MAYBE_EXECUTED;
	if (stream->failed)
		return infer_fault(fault, INFER_REASON_SERVER_ERROR, "%s",
						   stream->error[0] != '\0' ? stream->error
													: "the stream ended with an error");
	return infer_fault(fault, INFER_REASON_INCOMPLETE_REPLY,
					   "the stream ended before the answer did");
}

bool
infer_openai_parse_stream(const char *body, size_t len, InferReply *reply, InferFault *fault)
{
	Stream stream;
	bool ok;

	stream_begin(&stream, reply, true);
	stream.nomem = !infer_buf_addc(&stream.text, '"');
	ok = finish_stream(&stream, read_stream(&stream, body, len), reply, fault);
	stream_free(&stream);
	return ok;
}

void
infer_openai_stream_usage(const char *body, size_t len, InferReply *reply)
{
	Stream stream;

	stream_begin(&stream, reply, false);
	(void) read_stream(&stream, body, len);
	stream_free(&stream);
}

void
infer_openai_stream_facts(const char *body, size_t len, InferStreamFacts *facts)
{
	Stream stream;
	InferSseStep step;

	stream_begin(&stream, NULL, false);
	step = read_stream(&stream, body, len);
	facts->tokens = stream.tokens;
	facts->ended =
		stream.finished || stream.failed || stream.broken || stream.nomem || step != INFER_SSE_MORE;
	stream_free(&stream);
}
