/*
 * core/types.h - the nouns that every layer shares.
 *
 * task       what is asked of a model: embed, complete, chat, call (a raw body).
 * reason     what went wrong with an attempt or a call.
 * execution  what is proved about it: nothing reached the server (NOT_ADMITTED), it may have run
 *            (MAYBE_EXECUTED), it ran but there is no usable answer (EXECUTED).
 * verdict    what the outcome says to the concurrency controllers.
 * duration   how long a request is expected to take, in four classes.
 *
 * Reason and execution are two independent axes; neither is derived from the
 * other.  Nothing here allocates, locks or raises.
 */
#ifndef INFER_CORE_TYPES_H
#define INFER_CORE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum InferTask
{
	INFER_TASK_EMBED,
	INFER_TASK_COMPLETE,
	INFER_TASK_CHAT,
	INFER_TASK_CALL,
	INFER_TASK_COUNT
} InferTask;

typedef enum InferExecution
{
	INFER_NOT_ADMITTED,
	INFER_MAYBE_EXECUTED,
	INFER_EXECUTED
} InferExecution;

typedef enum InferReason
{
	INFER_REASON_NONE,                 /* no failure */
	INFER_REASON_LOOKUP_FAILED,        /* the host name did not resolve */
	INFER_REASON_CONNECT_FAILED,       /* refused, unreachable, connect timeout */
	INFER_REASON_TLS_FAILED,           /* handshake or certificate */
	INFER_REASON_EGRESS_DENIED,        /* host or address not allowed */
	INFER_REASON_CREDENTIAL_MISSING,   /* the key file or variable cannot be read */
	INFER_REASON_CERTIFICATE_UNUSABLE, /* a file of certificates, or of a client's key */
	INFER_REASON_CREDENTIAL_WITHHELD,  /* a key would have travelled in clear text */
	INFER_REASON_CANCELLED,            /* given up by us */
	INFER_REASON_TIMEOUT,              /* request_timeout; 408 */
	INFER_REASON_DISCONNECTED,         /* the connection ended without a whole answer head */
	INFER_REASON_OVERLOADED,           /* 429, or 503 */
	INFER_REASON_QUOTA_EXCEEDED,       /* 402, or a body that says so: asking again is no use */
	INFER_REASON_CONFLICT,             /* 409 */
	INFER_REASON_UNAUTHENTICATED,      /* 401 */
	INFER_REASON_PERMISSION_DENIED,    /* 403 */
	INFER_REASON_NOT_FOUND,            /* 404 */
	INFER_REASON_BAD_REQUEST,          /* 400, 422 and other 4xx */
	INFER_REASON_REQUEST_TOO_LARGE,    /* 413, or more than the server's limits */
	INFER_REASON_SERVER_ERROR,         /* 5xx but 503 */
	INFER_REASON_SERVER_FAILED,        /* not asked: it has been failing for too long */
	INFER_REASON_NO_DEST,              /* no server of the model suits the request */
	INFER_REASON_DRAINING,             /* its server is being taken out of service */
	INFER_REASON_ALL_FAILED,           /* ... is up: waiting helps */
	INFER_REASON_STALE_ALTERNATIVES,   /* ... has the model any more */
	INFER_REASON_STALE_INCARNATION,    /* another run of the server than the call is for */
	INFER_REASON_REDIRECTED,           /* 3xx: never followed */
	INFER_REASON_MALFORMED_REPLY,      /* a whole answer that cannot be read */
	INFER_REASON_INCOMPLETE_REPLY,     /* an answer that was cut short */
	INFER_REASON_REPLY_TOO_LARGE,      /* over max_response_size */
	INFER_REASON_MISSING_RESULT,       /* a whole answer without this row's result */
	INFER_REASON_TRUNCATED,            /* the model stopped at a limit of tokens */
	INFER_REASON_FILTERED,             /* a content filter held the answer, or the request, back */
	INFER_REASON_REFUSED,              /* the model declines to answer */
	INFER_REASON_TOOL_CALL,            /* the model wants a tool called, and says nothing yet */
	INFER_REASON_MISALIGNED,           /* answers cannot be matched to rows: the query fails */
	INFER_REASON_BUDGET,               /* of the statement, or of the role's day */
	INFER_REASON_ERROR_RATIO,          /* max_error_ratio stopped the statement */
	INFER_REASON_INTERNAL,             /* out of memory, a bug */
	INFER_REASON_COUNT
} InferReason;

/* What the controllers hear of one finished request. */
typedef enum InferVerdict
{
	INFER_VERDICT_SUCCESS,
	INFER_VERDICT_OVERLOADED,
	INFER_VERDICT_ERROR, /* not a sign of load: no controller moves */
	INFER_VERDICT_IGNORE /* cancelled, never sent */
} InferVerdict;

/* Who may have written a status that comes from a server's address. */
typedef enum InferTrust
{
	INFER_TRUST_UNKNOWN,
	INFER_TRUST_DIRECT,   /* the inference server itself, with nothing in between */
	INFER_TRUST_PROVIDER, /* a hosted service that answers for its own front end */
	INFER_TRUST_PROXY     /* perhaps a proxy or gateway that has lost the server behind it */
} InferTrust;

typedef enum InferStreamingMode
{
	INFER_MODE_AUTOMATIC,
	INFER_MODE_PER_ROW,
	INFER_MODE_BATCH
} InferStreamingMode;

/* How many copies of a request there may be, of which an earlier one may have run. */
typedef enum InferDelivery
{
	INFER_DELIVERY_SINGLE,        /* one, unless the retry policy allows more */
	INFER_DELIVERY_RELIABLE,      /* another one also when the connection of the last one ended */
	INFER_DELIVERY_UNLESS_FAILED, /* the same, but not while its server has been failing for long */
	INFER_DELIVERY_COUNT
} InferDelivery;

typedef enum InferRetryPolicy
{
	INFER_RETRY_NEVER,
	INFER_RETRY_NOT_ADMITTED, /* only what provably did not run */
	INFER_RETRY_AMBIGUOUS     /* also what may have run */
} InferRetryPolicy;

/* How long a request is expected to take; the numbers are those that a caller may write. */
typedef enum InferDuration
{
	INFER_DURATION_SHORT = 1,
	INFER_DURATION_MEDIUM,
	INFER_DURATION_LONG,
	INFER_DURATION_EPIC
} InferDuration;

/* Lower-case words for SQL ("not_admitted", "timeout", "embed"); never NULL. */
extern const char *infer_execution_name(InferExecution execution);
extern const char *infer_reason_name(InferReason reason);
extern const char *infer_task_name(InferTask task);

/* The three characters of the reason in an SQLSTATE, e.g. "TMO". */
extern const char *infer_reason_code(InferReason reason);

#endif
