/*
 * provider/incarnation.c - where answers say which run of their server gave them: a member of the
 * JSON object at the top, or a Prometheus metric.
 *
 * Of a streamed answer, the first events count: each of them is an object with that member.  Of a
 * metric, the first sample, whatever its labels.  What is cut short, or no such document, says
 * nothing, and is no error: answers of other kinds come from the same server.
 */
#include "provider/incarnation.h"

#include <string.h>

#include "provider/json_scan.h"
#include "provider/sse.h"

#define MAX_EVENTS 4 /* that are looked at */
#define MAX_TEXT   1024

/* A string or a number at the cursor; crosses any other value. False: not JSON. */
static bool
take_value(InferJson *j, char *to)
{
	char text[MAX_TEXT];
	char first = infer_json_peek(j);
	InferSlice value;
	size_t len;

	if (first == '"')
	{
		if (!infer_json_string(j, &value))
			return false;
		if (value.escaped && value.len <= sizeof(text) &&
			infer_json_decode(&value, text, &len) == INFER_TEXT_FINE)
			infer_incarnation_put(to, text, len);
		else
			infer_incarnation_put(to, value.data, value.len);
		return true;
	}
	if (!infer_json_value(j, &value))
		return false;
	if (first == '-' || (first >= '0' && first <= '9'))
		infer_incarnation_put(to, value.data, value.len);
	return true;
}

static void
read_object(const char *text, size_t len, const char *name, char *to)
{
	InferJson j = infer_json_start(text, len);
	InferSlice key;
	bool first = true;

	if (infer_json_peek(&j) != '{' || !infer_json_open(&j, '{'))
		return;
	while (to[0] == '\0' && infer_json_next_member(&j, &first, &key) == INFER_JSON_ITEM)
	{
		if (!(infer_json_key_is(&key, name) ? take_value(&j, to) : infer_json_value(&j, NULL)))
			return;
	}
}

static void
read_events(const char *body, size_t len, const char *name, char *to)
{
	const char *p = body;
	InferSse sse;
	InferSseEvent event;

	infer_sse_init(&sse, INFER_SSE_MAX_LINE);
	for (int i = 0; i < MAX_EVENTS && to[0] == '\0'; i++)
	{
		if (infer_sse_next(&sse, &p, body + len, &event) != INFER_SSE_EVENT)
			break;
		read_object(event.data, event.len, name, to);
	}
	infer_sse_free(&sse);
}

void
infer_provider_read_field(const char *body, size_t len, const char *name, char *to)
{
	to[0] = '\0';
	if (len == 0)
		return;
	if (infer_sse_sniff(body, len))
		read_events(body, len, name, to);
	else
		read_object(body, len, name, to);
}

/* Behind the labels of a sample, whose brace is at p; NULL: they do not end. */
static const char *
skip_labels(const char *p, const char *end)
{
	bool quoted = false;

	for (p++; p < end; p++)
	{
		if (quoted && *p == '\\')
			p++;
		else if (*p == '"')
			quoted = !quoted;
		else if (*p == '}' && !quoted)
			return p + 1;
	}
	return NULL;
}

/* The value of a line's sample, if it is of that metric. */
static void
read_sample(const char *line, const char *end, const char *name, char *to)
{
	size_t name_len = strlen(name);
	const char *p = line + name_len;
	const char *value;

	if ((size_t) (end - line) <= name_len || memcmp(line, name, name_len) != 0)
		return;
	if (*p == '{')
		p = skip_labels(p, end);
	else if (*p != ' ' && *p != '\t')
		return; /* a longer name */
	while (p != NULL && p < end && (*p == ' ' || *p == '\t'))
		p++;
	for (value = p; p != NULL && p < end && *p != ' ' && *p != '\t' && *p != '\r';)
		p++;
	if (p != NULL)
		infer_incarnation_put(to, value, (size_t) (p - value));
}

void
infer_provider_read_metric(const char *body, size_t len, const char *name, char *to)
{
	const char *line = body;

	to[0] = '\0';
	while (len > 0 && to[0] == '\0')
	{
		const char *end = memchr(line, '\n', len);

		if (end == NULL)
			return; /* cut short: each line has an end */
		read_sample(line, end, name, to);
		len -= (size_t) (end + 1 - line);
		line = end + 1;
	}
}
