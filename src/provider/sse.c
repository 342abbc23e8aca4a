/*
 * provider/sse.c - reading a stream of server-sent events.
 *
 * The common case, an event of one line of data that lies in one piece, copies nothing.  A line
 * that a piece breaks off is kept in `line`, data of several lines or pieces in `data`.
 */
#include "provider/sse.h"

#include <stdint.h>
#include <string.h>

void
infer_sse_init(InferSse *sse, size_t max_line)
{
	memset(sse, 0, sizeof(*sse));
	infer_buf_init(&sse->line, max_line);
	infer_buf_init(&sse->data, SIZE_MAX / 2);
	sse->max_line = max_line;
	sse->broken = INFER_SSE_MORE;
}

void
infer_sse_free(InferSse *sse)
{
	infer_buf_free(&sse->line);
	infer_buf_free(&sse->data);
}

static InferSseStep
broken(InferSse *sse, InferSseStep how)
{
	sse->broken = how;
	return how;
}

/* The event has been read: the next one begins. */
static void
clear(InferSse *sse)
{
	infer_buf_reset(&sse->data);
	sse->whole = NULL;
	sse->has_data = sse->is_error = false;
	sse->dispatched = false;
}

/* Makes the event's data outlive the caller's bytes. False: no memory. */
static bool
keep_data(InferSse *sse)
{
	const char *whole = sse->whole;

	sse->whole = NULL;
	return whole == NULL || infer_buf_add(&sse->data, whole, sse->whole_len);
}

static bool
add_data(InferSse *sse, const char *value, size_t len, bool in_place)
{
	if (!sse->has_data && in_place)
	{
		sse->has_data = true;
		sse->whole = value;
		sse->whole_len = len;
		return true;
	}
	if (!keep_data(sse) || (sse->has_data && !infer_buf_addc(&sse->data, '\n')))
		return false;
	sse->has_data = true;
	return infer_buf_add(&sse->data, value, len);
}

/* One line without its end; not blank. False: no memory. */
static bool
read_field(InferSse *sse, const char *line, size_t len, bool in_place)
{
	const char *colon = memchr(line, ':', len);
	size_t name_len = colon == NULL ? len : (size_t) (colon - line);
	const char *value = colon == NULL ? line + len : colon + 1;
	size_t value_len = (size_t) (line + len - value);

	if (value_len > 0 && value[0] == ' ')
	{
		value++;
		value_len--;
	}
	if (name_len == 4 && memcmp(line, "data", 4) == 0)
		return add_data(sse, value, value_len, in_place);
	if (name_len == 5 && memcmp(line, "event", 5) == 0)
		sse->is_error = value_len == 5 && memcmp(value, "error", 5) == 0;
	return true; /* a comment, id, retry, or what is not known */
}

/* A blank line. */
static InferSseStep
dispatch(InferSse *sse, InferSseEvent *event)
{
	if (!sse->has_data)
	{
		clear(sse);
		return INFER_SSE_MORE;
	}
	*event = (InferSseEvent){
		.data = sse->whole != NULL ? sse->whole : sse->data.data,
		.len = sse->whole != NULL ? sse->whole_len : sse->data.len,
		.in_place = sse->whole != NULL,
		.is_error = sse->is_error,
	};
	if (event->data == NULL)
		event->data = ""; /* data without a byte */
	sse->dispatched = true;
	return INFER_SSE_EVENT;
}

static InferSseStep
read_line(InferSse *sse, const char *line, size_t len, bool in_place, InferSseEvent *event)
{
	if (len == 0)
		return dispatch(sse, event);
	if (len > sse->max_line)
		return broken(sse, INFER_SSE_TOO_LONG);
	return read_field(sse, line, len, in_place) ? INFER_SSE_MORE : broken(sse, INFER_SSE_NOMEM);
}

/* Puts the bytes into the line that has begun. */
static InferSseStep
begin_line(InferSse *sse, const char *bytes, size_t len)
{
	if (len > sse->max_line - sse->line.len)
		return broken(sse, INFER_SSE_TOO_LONG);
	return infer_buf_add(&sse->line, bytes, len) ? INFER_SSE_MORE : broken(sse, INFER_SSE_NOMEM);
}

/* The line that a piece broke off is complete. */
static InferSseStep
end_line(InferSse *sse, InferSseEvent *event)
{
	InferSseStep step = read_line(sse, sse->line.data, sse->line.len, false, event);

	infer_buf_reset(&sse->line);
	return step;
}

static const char mark[] = "\xEF\xBB\xBF";

/* What only began like a byte order mark is the start of a line, of no field that is known. */
static InferSseStep
start(InferSse *sse)
{
	sse->started = true;
	return sse->seen < 3 ? begin_line(sse, mark, sse->seen) : INFER_SSE_MORE;
}

/* Skips a byte order mark, which may come in pieces; not started yet: more are needed to tell. */
static InferSseStep
skip_mark(InferSse *sse, const char **p, const char *end)
{
	while (sse->seen < 3 && *p < end && **p == mark[sse->seen])
	{
		sse->seen++;
		(*p)++;
	}
	return sse->seen < 3 && *p == end ? INFER_SSE_MORE : start(sse);
}

static const char *
find_end(const char *p, const char *end)
{
	while (p < end && *p != '\n' && *p != '\r')
		p++;
	return p;
}

InferSseStep
infer_sse_next(InferSse *sse, const char **p, const char *end, InferSseEvent *event)
{
	InferSseStep step = INFER_SSE_MORE;

	if (sse->broken != INFER_SSE_MORE)
		return sse->broken;
	if (sse->dispatched)
		clear(sse);
	if (!sse->started)
		step = skip_mark(sse, p, end);
	while (*p < end && step == INFER_SSE_MORE)
	{
		const char *line = *p;
		const char *stop;

		if (sse->after_cr)
		{
			sse->after_cr = false;
			if (*line == '\n')
			{
				(*p)++;
				continue;
			}
		}
		stop = find_end(line, end);
		if (stop == end)
		{
			step = begin_line(sse, line, (size_t) (stop - line));
			*p = end;
			break;
		}
		sse->after_cr = *stop == '\r';
		*p = stop + 1;
		if (sse->line.len == 0)
			step = read_line(sse, line, (size_t) (stop - line), true, event);
		else if ((step = begin_line(sse, line, (size_t) (stop - line))) == INFER_SSE_MORE)
			step = end_line(sse, event);
	}
	/* the caller's bytes may be gone when the rest of the event comes */
	if (step == INFER_SSE_MORE && !keep_data(sse))
		return broken(sse, INFER_SSE_NOMEM);
	return step;
}

InferSseStep
infer_sse_end(InferSse *sse, InferSseEvent *event)
{
	InferSseStep step = INFER_SSE_MORE;

	if (sse->broken != INFER_SSE_MORE)
		return sse->broken;
	if (sse->dispatched)
		clear(sse);
	if (!sse->started)
		step = start(sse);
	if (step == INFER_SSE_MORE && sse->line.len > 0)
		step = end_line(sse, event);
	return step == INFER_SSE_MORE ? dispatch(sse, event) : step;
}

bool
infer_sse_sniff(const char *body, size_t len)
{
	static const char *const starts[] = {"data:", "event:", "id:", "retry:", ":"};

	if (len >= 3 && memcmp(body, "\xEF\xBB\xBF", 3) == 0)
	{
		body += 3;
		len -= 3;
	}
	while (len > 0 && (*body == '\n' || *body == '\r'))
	{
		body++;
		len--;
	}
	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
	{
		size_t n = strlen(starts[i]);

		if (len >= n && memcmp(body, starts[i], n) == 0)
			return true;
	}
	return false;
}
