/*
 * provider/provider.h - wire formats: inputs to request bytes, answer bytes to results.
 *
 * Pure: knows neither PostgreSQL nor curl.  No tree is ever built of an answer: it is walked once,
 * and floats are read from the bytes or decoded from base64 on the way.  All text is
 * UTF-8.  Nothing raises; failures come back in an InferFault.
 */
#ifndef INFER_PROVIDER_PROVIDER_H
#define INFER_PROVIDER_PROVIDER_H

#include "core/buf.h"
#include "core/sizes.h"
#include "core/types.h"

typedef struct InferProvider InferProvider;

/* One input of a request: text (embed, complete) or a JSON document (chat messages, raw body). */
typedef struct InferInput
{
	const char *data; /* borrowed, UTF-8, not NUL-terminated */
	size_t len;
} InferInput;

typedef struct InferFault
{
	InferReason reason; /* NONE = fine */
	char message[256];  /* printable UTF-8, NUL-terminated; never contains request text or keys */
	InferExecution
		execution; /* what it proves; of a request that could not be built NOT_ADMITTED */
} InferFault;

typedef struct InferRequestShape
{
	InferTask task;
	const char *remote_model;    /* NUL-terminated */
	const char *parameters_json; /* a JSON object's text, NULL = none; its members go into the body
								  * unchanged, except `model` and the one that holds the input
								  * (`input`, `messages`): these are ours */
	bool ask_base64;             /* embeddings as base64 (unless parameters say otherwise) */
} InferRequestShape;

/* NULL if there is no such provider. "openai" is the one there is. */
extern const InferProvider *infer_provider_find(const char *name);
/* Comma-separated list for error hints. */
extern const char *infer_provider_names(void);

/* Path below the server's url, e.g. "/embeddings". For INFER_TASK_CALL "" (the caller appends the
 * option `path`). */
extern const char *infer_provider_path(const InferProvider *provider, InferTask task);
/* The header that carries an idempotency key. */
extern const char *infer_provider_idempotency_header(const InferProvider *provider);
/* Most inputs a request may carry when the server object says nothing: openai embed 128, complete 1
 * (completions go to chat/completions as one user message), chat 1, call 1; and bytes of inputs. */
extern int infer_provider_max_items(const InferProvider *provider, InferTask task);
extern size_t infer_provider_max_bytes(const InferProvider *provider, InferTask task);

/* Appends the request body. Returns false with fault set on bad parameters (not an object, or
 * "stream": true for embeddings), on an input that is not UTF-8, and when out was full. For
 * INFER_TASK_CALL the single input is the body. Only embed takes more than one input. */
extern bool infer_provider_build(const InferProvider *provider, const InferRequestShape *shape,
								 const InferInput *inputs, int ninputs, InferBuf *out,
								 InferFault *fault);

/* One answer of a reply, by position of the input. */
typedef struct InferItem
{
	InferReason reason; /* NONE, or why this item has no result; TRUNCATED may have a text */
	const char *text;   /* completion text or JSON text: into the reply's memory; UTF-8 */
	size_t text_len;
	bool text_has_nul;   /* the text held U+0000: not representable, reason is set */
	int dims;            /* embeddings: number of floats */
	const float *floats; /* embeddings: in the reply's memory */
	bool base64;         /* the server did send base64 */
} InferItem;

typedef struct InferReply
{
	int nitems;
	InferItem *items;      /* nitems of them */
	int64_t prompt_tokens; /* -1 = not said */
	int64_t completion_tokens;
	const char *usage_json; /* slice of the body, NULL if none */
	size_t usage_len;
	char words[257]; /* of a model that refuses: one line, safe to show, NUL-terminated */
	bool repair;     /* as asked */
	void *arena;     /* private */
} InferReply;

/*
 * Reads a 2xx body for a request of ninputs inputs.  body must stay until infer_reply_free().
 * Places embeddings by `index`: a missing one is that item's MISSING_RESULT; no indexes and a wrong
 * count, a duplicate or an out-of-range index is INFER_REASON_MISALIGNED in fault (false is
 * returned).  Bodies that cannot be read: MALFORMED_REPLY in fault.  A list of floats is checked
 * in full here (strict JSON numbers, finite as float4), so infer_reply_floats() cannot fail.
 * On failure, reply still says what is known of the usage, and is not to be freed.
 * complete and chat: a stream of events is read as well (see openai_stream.c).
 * repair: what is not valid in a text is replaced by U+FFFD instead of failing its item.
 * INFER_TASK_CALL: one item, text = the body, checked to be UTF-8 and one JSON value; a "usage"
 * object in it is taken for one.
 */
extern bool infer_provider_parse(const InferProvider *provider, InferTask task, const char *body,
								 size_t len, int ninputs, bool repair, InferReply *reply,
								 InferFault *fault);
/* What an answer of any status, whole or not, says of its usage; the rest of reply is empty. */
extern void infer_provider_find_usage(const char *body, size_t len, InferReply *reply);
/* What a streamed answer to complete or chat has come to, be it whole or not. */
typedef struct InferStreamFacts
{
	bool tokens; /* something of the answer has come: the model ran */
	bool ended;  /* with its end, an error, or in a way that cannot be read: what follows is ignored
				  */
} InferStreamFacts;

/* False: the body is no stream. */
extern bool infer_provider_stream_facts(const char *body, size_t len, InferStreamFacts *facts);
/* Copies the dims floats of an embedding item into dst. */
extern void infer_reply_floats(const InferItem *item, float *dst);
extern void infer_reply_free(InferReply *reply);

/* The remote's own words in an error body (error.message, error as a string, detail, or the first
 * line of text), at most 256 bytes, control characters escaped, cut at a character boundary, into
 * out (NUL-terminated). Empty if there are none. */
extern void infer_provider_error_text(const char *body, size_t len, char *out, size_t out_size);
/* Does the body of a refusal say that a content filter did not like the request? */
extern bool infer_provider_is_filter_error(const char *body, size_t len);
/* Does a 400/413 body say that the batch was too large (to be split)? For later issues too. */
extern bool infer_provider_is_size_error(int status, const char *body, size_t len);
/* What of a request was too much, as far as its refusal says so. */
extern InferSizeKind infer_provider_size_kind(const char *body, size_t len);
/* Does a 503 body say that the model is still being loaded? */
extern bool infer_provider_is_loading(int status, const char *body, size_t len);
/* Does a 404 body say that it is the model which is not there, and not the path? */
extern bool infer_provider_says_model(int status, const char *body, size_t len);
/* Does a 4xx body say that money or a quota is used up, so that no pause will help? */
extern bool infer_provider_is_quota_error(int status, const char *body, size_t len);

#endif
