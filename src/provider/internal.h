/*
 * provider/internal.h - what a wire format is made of; shared by the files of this folder only.
 */
#ifndef INFER_PROVIDER_INTERNAL_H
#define INFER_PROVIDER_INTERNAL_H

#include "provider/floats.h"
#include "provider/provider.h"

struct InferProvider
{
	const char *name;
	const char *idempotency_header;
	const char *path[INFER_TASK_COUNT];
	int max_items[INFER_TASK_COUNT];
	size_t max_bytes[INFER_TASK_COUNT];
	bool (*build)(const InferRequestShape *shape, const InferInput *inputs, int ninputs,
				  InferBuf *out, InferFault *fault);
	bool (*parse)(InferTask task, InferJson *body, InferReply *reply, InferFault *fault);
};

/* What a reply owns. */
typedef struct InferArena
{
	InferFloats floats; /* of all items, one behind the other */
	char *text;         /* a decoded completion */
} InferArena;

extern const InferProvider infer_provider_openai;

/* Fills fault (message is printf-like, cut to fit) and returns false. */
extern bool infer_fault(InferFault *fault, InferReason reason, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
extern bool infer_fault_memory(InferFault *fault);
extern bool infer_fault_json(InferFault *fault);

/* Makes the string the item's text: in place where it has no escapes, else decoded into the arena.
 * False: no memory. */
extern bool infer_item_set_text(InferReply *reply, InferItem *item, const InferSlice *string);
/* Reads the `usage` object at the cursor into reply. False: not JSON. */
extern bool infer_reply_read_usage(InferReply *reply, InferJson *j);

/* The first line of a text, fit to be shown, in out (NUL-terminated). */
extern void infer_show_line(const char *text, size_t len, char *out, size_t out_size);
/* A JSON string's first line, likewise. */
extern void infer_show_string(const InferSlice *string, char *out, size_t out_size);

/* What was found in a choice; data NULL = nothing yet. */
typedef struct InferOpenaiChoice
{
	InferSlice content; /* a value: string or array */
	InferSlice text;    /* likewise */
	InferSlice finish;  /* a string */
	InferSlice refusal; /* a string that is not empty */
	bool calls_tools;
} InferOpenaiChoice;

/* openai_text.c, for streams too.  Reads a string that is not empty, or crosses any other value. */
extern bool infer_openai_words(InferJson *j, InferSlice *words);
/* A list of tool calls with something in it, or an object that is one. */
extern bool infer_openai_tools(InferJson *j, bool *calls_tools);
/* One part of a content list: its text, if it is of a kind that is shown. part is a valid value. */
extern bool infer_openai_part(const InferSlice *part, InferSlice *text, InferSlice *refusal);
/* Makes the item of what was found. False: no memory. */
extern bool infer_openai_take_choice(InferReply *reply, InferOpenaiChoice *choice);

/* openai_stream.c: as infer_provider_parse(), ..._find_usage() and ..._stream_facts(). */
extern bool infer_openai_parse_stream(const char *body, size_t len, InferReply *reply,
									  InferFault *fault);
extern void infer_openai_stream_usage(const char *body, size_t len, InferReply *reply);
extern void infer_openai_stream_facts(const char *body, size_t len, InferStreamFacts *facts);

/* openai_embed.c, openai_text.c: parse of their tasks. */
extern bool infer_openai_parse_embeddings(InferJson *body, InferReply *reply, InferFault *fault);
extern bool infer_openai_parse_text(InferJson *body, InferReply *reply, InferFault *fault);

#endif
