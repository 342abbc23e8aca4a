/*
 * http/curl_private.h - what the files of the curl engine share.
 *
 * curl_engine.c   the transport: submit, step, release; lists of transfers; deadline
 * curl_multi.c    its multi handle: birth, callbacks, end
 * curl_easy.c     one transfer's handle: options, callbacks, the latch and the veto
 * curl_address.c  which address a name stands for
 * curl_tls.c      whom a transfer trusts, and as whom it connects
 * curl_result.c   from CURLcode and what the callbacks saw to InferHttpResult
 *
 * Nothing in a callback may raise, wait, or call back into the library's multi interface.
 */
#ifndef INFER_HTTP_CURL_PRIVATE_H
#define INFER_HTTP_CURL_PRIVATE_H

#include <curl/curl.h>

#include "http/pollset.h"
#include "http/transport.h"

/* Of the body of an error status so much is kept; the rest is read and dropped, so that the
 * connection stays usable, unless it goes on for ever. */
#define INFER_ERROR_BODY_KEPT    (64 * 1024)
#define INFER_ERROR_BODY_DROPPED (1024 * 1024)

typedef enum InferTransferState
{
	INFER_TRANSFER_POOLED,  /* in transport->pool */
	INFER_TRANSFER_RUNNING, /* in transport->running; curl has it */
	INFER_TRANSFER_DONE,    /* in transport->done */
	INFER_TRANSFER_HANDED   /* in transport->handed: the caller has seen it */
} InferTransferState;

typedef struct InferTransferList
{
	InferTransfer *first;
	InferTransfer *last;
	int count;
} InferTransferList;

typedef struct InferTlsText
{
	char *data; /* malloc'd, or NULL */
	size_t len;
} InferTlsText;

struct InferTransfer
{
	InferTransfer *prev;
	InferTransfer *next;
	InferTransferState state;
	CURL *easy;

	/* the request */
	void *user;
	InferAddressCheck check_address;
	void *check_arg;
	size_t body_len;
	int64_t started_us; /* monotonic */

	/* what the handle is set to already; asked again only when it differs */
	char *url;
	CURLU *parsed; /* NULL: it is none */
	bool tls;
	struct curl_slist *headers; /* fixed headers, then the caller's */
	int timeout_ms;
	int connect_timeout_ms;
	int max_idle_s;
	bool own_connection;
	size_t max_response_size;

	/* the secret header heads the list of this request and is wiped with it */
	struct curl_slist secret;
	size_t secret_len;

	const char *incarnation_header;

	/* what this request's name is said to stand for: a list of one, or of none */
	struct curl_slist resolve;

	InferTlsText authorities; /* what the handle is set to, NULL: the system's */
	InferTlsText identity;    /* of this request, wiped with it */

	/* what the callbacks saw */
	bool handshake; /* TLS has begun: there is a connection */
	bool left;      /* the latch: set before the first byte may go, never cleared */
	bool vetoed;    /* curl wanted to send it once more */
	bool denied;    /* the address check refused a peer */
	bool body_seen; /* the first body byte came: status is final */
	bool success;   /* ... and it is a 2xx */
	size_t dropped; /* bytes of an error body not kept */
	char denied_address[INFER_ADDRESS_LEN];

	InferBuf body;
	InferHttpResult result;
	char error[CURL_ERROR_SIZE];
};

struct InferTransport
{
	CURLM *multi;
	InferPollset pollset;
	int64_t deadline_us; /* monotonic; -1 = none */
	int64_t looked_us;   /* monotonic; until then all that was ready had been seen */
	int64_t late_us;     /* of what this step finds */
	int64_t nudge_us;    /* monotonic; when to look at silent sockets; -1 = not */
	int64_t nudge_pause_us;
	int tls_running;
	int max_connections;
	long connection_limit; /* what multi was told */
	InferTransferList running;
	InferTransferList done;
	InferTransferList handed;
	InferTransferList pool;
};

/* curl_engine.c */
extern int64_t infer_monotonic_us(void);

/* curl_multi.c; false without memory */
extern bool infer_curl_initialise(void); /* once a process */
extern bool infer_multi_open(InferTransport *transport);
/* No handle of a transfer may be in it any more. */
extern void infer_multi_close(InferTransport *transport);

/* curl_easy.c */
extern InferTransfer *infer_transfer_new(void); /* NULL without memory */
extern void infer_transfer_free(InferTransfer *transfer);
/* Readies the handle for a request; false without memory, or for a header of several lines. */
extern bool infer_transfer_prepare(InferTransfer *transfer, const InferHttpRequest *request);
/* Forgets the request (the secret first of all), keeps the handle. */
extern void infer_transfer_clear(InferTransfer *transfer);

/* curl_address.c; false without memory, or if the url has no host */
extern bool infer_transfer_set_address(InferTransfer *transfer, const InferHttpRequest *request);
extern void infer_transfer_forget_address(InferTransfer *transfer);

/* curl_tls.c; false without memory, or where the TLS library cannot do it */
extern bool infer_transfer_fix_tls(InferTransfer *transfer); /* what holds for all requests */
extern bool infer_transfer_set_tls(InferTransfer *transfer, const InferHttpTls *tls);
extern void infer_transfer_forget_identity(InferTransfer *transfer);
extern void infer_transfer_free_tls(InferTransfer *transfer); /* the handle is gone */

/* curl_result.c */
extern void infer_transfer_conclude(InferTransfer *transfer, CURLcode code);
/* For transfers that fail without curl's saying so. */
extern void infer_transfer_conclude_internal(InferTransfer *transfer, const char *why);

#endif
