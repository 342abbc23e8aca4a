/*
 * http/transport.h - the seam between calls and the network: submit, cancel, step, poll descriptor,
 * deadline.  The implementation is libcurl's multi interface (http/curl_engine.c) over an epoll of
 * our own (http/pollset.c).  Knows nothing of PostgreSQL; nothing raises, nothing is palloc'd.
 *
 * One transport per process, made at first use and kept, for its connections.  The owner waits for
 * infer_transport_fd() to be readable or for infer_transport_timeout_ms(), then calls
 * infer_transport_step().  Finished transfers queue up until infer_transport_next_done() hands them
 * out.  A transfer that was removed before it finished never shows up there; its connection is
 * closed, so that the peer sees it.
 */
#ifndef INFER_HTTP_TRANSPORT_H
#define INFER_HTTP_TRANSPORT_H

#include "core/buf.h"
#include "core/incarnation.h"
#include "core/proof.h"

typedef struct InferTransport InferTransport;
typedef struct InferTransfer InferTransfer;

/* Decides whether a resolved peer address may be connected to. Called from inside
 * the library: must not raise, allocate or block. */
typedef bool (*InferAddressCheck)(void *arg, const char *ip, int port);

/* What a TLS connection is made with. Texts in PEM, lengths in bytes; NULL and 0 where there is
 * none. */
typedef struct InferHttpTls
{
	const char *authorities; /* who may vouch for the server; NULL: whom the system trusts */
	size_t authorities_len;
	const char *identity; /* our certificate, those that vouch for it, and its private key */
	size_t identity_len;
} InferHttpTls;

typedef struct InferHttpRequest
{
	const char *url; /* borrowed until submit returns */
	bool get;        /* GET, and no body; else POST */
	/* The IP address that the url's host has, for this request and those that follow; borrowed
	 * until submit returns.  NULL: it is looked up, unless the library remembers it. */
	const char *address;
	bool fresh_lookup;              /* without address: nothing is remembered */
	bool own_connection;            /* on a connection of its own, which is closed afterwards */
	const char *incarnation_header; /* in which the answer says which run of the server gave it;
									 * NULL: in none; borrowed until the transfer is released */
	const char *const *headers;     /* NULL-terminated "Name: value" lines, copied; besides
									 * Content-Type: application/json, which is always sent */
	const char *secret_header; /* "Authorization: Bearer ..." or NULL; copied, wiped on release */
	InferHttpTls tls; /* copied, the identity wiped on release; a connection that was made with
					   * another one is not used */
	const char *body; /* borrowed until the transfer is released */
	size_t body_len;
	int connect_timeout_ms;
	int timeout_ms; /* of the whole attempt */
	size_t max_response_size;
	int max_idle_s; /* a connection unused for longer is not used again (below the server's
					 * keep-alive) */
	InferAddressCheck check_address; /* may be NULL */
	void *check_arg;
	void *user; /* the caller's */
} InferHttpRequest;

/* What an answer's header says of its server's rate limits (x-ratelimit-*); -1 = nothing. */
typedef struct InferHttpRate
{
	int64_t requests_left;
	int64_t requests_reset_us;
	int64_t tokens_left;
	int64_t tokens_reset_us;
} InferHttpRate;

#define INFER_ADDRESS_LEN 46 /* INET6_ADDRSTRLEN */

/* What is known of a finished transfer; valid until release. */
typedef struct InferHttpResult
{
	InferWire wire;
	const char *error; /* the library's words for end != OK, without url query or secrets; "" */
	InferBuf *body;    /* what was received, also for error statuses; owned by the transfer */
	bool latin1;       /* its head says that it is in ISO 8859-1 */
	bool perhaps_ours; /* it may have failed for the caller alone: by its impatience, or the
						* certificate that it has not */
	int64_t retry_after_ms; /* -1 none; from Retry-After (seconds or HTTP date) */
	InferHttpRate rate;
	int64_t elapsed_us;
	int64_t late_us;       /* so long at most the end waited for somebody to look */
	size_t bytes_sent;     /* of the body */
	size_t bytes_received; /* of the body, as it travelled */
	bool reused_connection;
	char address[INFER_ADDRESS_LEN];         /* that it was sent to, if it left; "" */
	char incarnation[INFER_INCARNATION_MAX]; /* as its header says; "": it does not */
} InferHttpResult;

/* NULL without memory or descriptors. max_connections: idle ones kept. */
extern InferTransport *infer_transport_create(int max_connections);
/* Closes everything; transfers become invalid. */
extern void infer_transport_destroy(InferTransport *transport);
extern int infer_transport_fd(const InferTransport *transport);
/* Milliseconds until step must be called without readiness; -1 = no deadline; 0 = now. */
extern long infer_transport_timeout_ms(const InferTransport *transport);
/* The owner has watched the descriptor until now: what is ready is so since now. */
extern void infer_transport_watched(InferTransport *transport);
/* Does what is ready, never blocks. */
extern void infer_transport_step(InferTransport *transport);
/* NULL without memory, or if a header has a control character; the request has not left then. On
 * success the transfer is started (queued inside; the first bytes leave in step). */
extern InferTransfer *infer_transport_submit(InferTransport *transport,
											 const InferHttpRequest *request);
/* The next finished transfer (completion order), or NULL. */
extern InferTransfer *infer_transport_next_done(InferTransport *transport);
extern void *infer_transfer_user(const InferTransfer *transfer);
extern void infer_transfer_set_user(InferTransfer *transfer, void *user);
extern const InferHttpResult *infer_transfer_result(const InferTransfer *transfer);
/* Has any byte of it perhaps left already? (for proofs of cancelled calls) */
extern bool infer_transfer_left(const InferTransfer *transfer);
/* Gives up a transfer, if it still runs, and tells what the wire shows of it, whether finished or
 * not. It is still to be released; as safe as that. */
extern InferWire infer_transfer_withdraw(InferTransport *transport, InferTransfer *transfer);
/* Gives the transfer back, cancelling it if it still runs. Safe at any time outside callbacks,
 * also while the process exits. Never blocks (resolver thread included). */
extern void infer_transfer_release(InferTransport *transport, InferTransfer *transfer);
extern int infer_transport_running(const InferTransport *transport);

#endif
