/*
 * call/options.h - the options of a call: its options argument over the model's over the settings.
 */
#ifndef INFER_CALL_OPTIONS_H
#define INFER_CALL_OPTIONS_H

#include "postgres.h"

#include "utils/jsonb.h"

#include "core/retry.h"
#include "core/types.h"
#include "pg/guc.h"
#include "pg/header.h"
#include "registry/registry.h"

/* Resolved once for each class of calls. */
typedef struct InferCallOptions
{
	InferOnError on_error;
	int timeout_ms; /* the longest of its places' */
	InferStreamingMode mode;
	int dispatch_batch_size;
	InferRetryRule rule;
	bool hedge;            /* a slow request may be sent to a second server as well */
	bool idempotent;       /* requests carry a key ... */
	char *idempotency_key; /* ... that this text fixes; NULL = the statement's own */
	int max_concurrency;   /* of this client for this class; 0 = the key's */
	char *admission_key;   /* NULL = the server's */
	int64 rpm;             /* -1 = the server's; 0 = no limit */
	int64 tpm;
	InferHeader header; /* its priority counts in the key's line */
	InferInvalidText invalid_text;
	InferTruncated truncated;
	InferMixed mixed;
	char *path; /* infer.call: below the server's url; "" */
} InferCallOptions;

/*
 * Reads the options argument.  options: jsonb, or the NULL pointer.  classified: the header that
 * takes the place of what setting, model and options say (call/classify.h); NULL: there is none.
 * parameters: of the call, or NULL: it has none.  Strings of the result are palloc'd, or the
 * target's.  Raises for an option that is unknown or has no such value.
 */
extern void infer_options_parse(InferTask task, Datum options, const InferTarget *target,
								Jsonb *classified, Jsonb *parameters, InferCallOptions *result);
/* What one attempt at that server may take, by them or by the server; in milliseconds. */
extern int infer_options_timeout_ms(const InferCallOptions *options, const InferServer *server);

#endif
