/*
 * provider/sse.h - reading a stream of server-sent events.
 *
 * Bytes come in pieces that may end anywhere: inside a character, a field's name, or between CR and
 * LF.  As the WHATWG's HTML standard has it: lines end with CR LF, LF or CR; those of one event's
 * data are joined by line feeds; a blank line ends the event; a colon begins a comment; an event
 * without data is none; a byte order mark at the start is skipped.  The fields id and retry are of
 * no use here and crossed.  Pure; nothing raises.
 */
#ifndef INFER_PROVIDER_SSE_H
#define INFER_PROVIDER_SSE_H

#include "core/buf.h"

/* A line that is longer, without its end, breaks the stream. */
#define INFER_SSE_MAX_LINE ((size_t) 1 << 20)

typedef enum InferSseStep
{
	INFER_SSE_EVENT,
	INFER_SSE_MORE,     /* all bytes are taken, and no event is complete */
	INFER_SSE_TOO_LONG, /* a line is over the cap; the stream is of no more use */
	INFER_SSE_NOMEM     /* likewise */
} InferSseStep;

/* Good until the next call. */
typedef struct InferSseEvent
{
	const char *data; /* never NULL */
	size_t len;
	bool in_place; /* data points into the bytes of the caller */
	bool is_error; /* its type is "error" */
} InferSseEvent;

typedef struct InferSse
{
	InferBuf line;     /* the beginning of a line that is not complete */
	InferBuf data;     /* of the event, unless it is in `whole` */
	const char *whole; /* its only line of data, in the caller's bytes; NULL = none */
	size_t whole_len;
	size_t seen; /* bytes at the start that may be a byte order mark */
	size_t max_line;
	bool has_data;
	bool is_error;
	bool after_cr;       /* a LF now belongs to the line before it */
	bool started;        /* the byte order mark is behind us */
	bool dispatched;     /* the last call returned what is in the event */
	InferSseStep broken; /* how it ended, else MORE */
} InferSse;

/* At the start of a stream; to be freed. max_line: bytes, as INFER_SSE_MAX_LINE. */
extern void infer_sse_init(InferSse *sse, size_t max_line);
extern void infer_sse_free(InferSse *sse);

/* Takes bytes from *p on, up to the end of an event or of the piece, and moves *p there. */
extern InferSseStep infer_sse_next(InferSse *sse, const char **p, const char *end,
								   InferSseEvent *event);
/* The stream has ended: what was begun counts as complete, for some servers leave out the last
 * blank line. EVENT, MORE (there is nothing), or how it broke. */
extern InferSseStep infer_sse_end(InferSse *sse, InferSseEvent *event);

/* Does a body begin like such a stream? No JSON value does. */
extern bool infer_sse_sniff(const char *body, size_t len);

#endif
