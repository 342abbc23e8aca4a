/*
 * http/curl_easy.c - one transfer's handle: options, callbacks, the latch and the veto.
 *
 * The latch and the veto.  curl calls on_prerequest() after the
 * connection stands and immediately before it sends a request, each time it does.  The first call
 * sets `left`: from there on the server may have seen something.  A second call means that curl is
 * about to send the request again, of its own accord: it does so, POST or not, when a connection
 * that was used before ends without a byte of an answer.  The server may have executed the first
 * one, so the second is forbidden, and the caller hears that the connection was lost.  There is one
 * exception: if no send of the first succeeded (the counter of request bytes is still zero), the
 * whole request cannot have left, and curl may go on.  Where curl has no other connection for it,
 * it is forbidden to make one: that this one failed would be taken for the request's own end.
 *
 * Handles are pooled with their options; a request sets what differs from the handle's last one.
 * curl copies strings, but neither header lists nor bodies: both live as long as the transfer.
 */
#include "http/curl_private.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define BODY_KEPT (64 * 1024) /* memory a pooled handle may keep */

/* curl waits a second for a "100 Continue" before it sends a large body unless told not to.  As an
 * option of its own, the user agent would be put together anew for each request. */
static const char *const fixed_headers[] = {"Content-Type: application/json",
											"User-Agent: pg_inference", "Expect:"};
#define NFIXED (sizeof(fixed_headers) / sizeof(fixed_headers[0]))

static void
copy_address(char *into, const char *ip)
{
	size_t len = strnlen(ip, INFER_ADDRESS_LEN - 1);

	memcpy(into, ip, len);
	into[len] = '\0';
}

static bool
address_allowed(InferTransfer *transfer, const char *ip, int port)
{
	if (transfer->check_address == NULL || transfer->check_address(transfer->check_arg, ip, port))
		return true;
	transfer->denied = true;
	copy_address(transfer->denied_address, ip);
	return false;
}

/* Is curl about to send once more what may have arrived?  Then it is forbidden. */
static bool
is_vetoed(InferTransfer *transfer)
{
	long sent = 0;

	if (!transfer->left)
		return false;
	curl_easy_getinfo(transfer->easy, CURLINFO_REQUEST_SIZE, &sent);
	/* a request without a body could be whole although its send failed late (HTTP/2) */
	if (sent > 0 || transfer->body_len == 0)
		transfer->vetoed = true;
	return transfer->vetoed;
}

/* CURLOPT_PREREQFUNCTION; see the top of the file. */
static int
on_prerequest(void *arg, char *peer_ip, char *local_ip, int peer_port, int local_port)
{
	InferTransfer *transfer = arg;

	if (is_vetoed(transfer))
		return CURL_PREREQFUNC_ABORT;
	/* the connection may have been made for another caller, with another check */
	if (!address_allowed(transfer, peer_ip, peer_port))
		return CURL_PREREQFUNC_ABORT;
	transfer->left = true;
	copy_address(transfer->result.address, peer_ip);
	return CURL_PREREQFUNC_OK;
}

/*
 * CURLOPT_OPENSOCKETFUNCTION: refuses an address before anything is sent to it, not even a SYN; and
 * keeps the socket out of the programs that this process may execute.
 */
static curl_socket_t
on_open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
	InferTransfer *transfer = arg;
	char ip[INFER_ADDRESS_LEN] = "";
	int port = 0;

	if (address->family == AF_INET)
	{
		struct sockaddr_in in;

		memcpy(&in, &address->addr, sizeof(in));
		inet_ntop(AF_INET, &in.sin_addr, ip, sizeof(ip));
		port = ntohs(in.sin_port);
	}
	else if (address->family == AF_INET6)
	{
		struct sockaddr_in6 in6;

		/* addr is the first member of what is really a larger structure */
		memcpy(&in6, (const char *) address + offsetof(struct curl_sockaddr, addr), sizeof(in6));
		inet_ntop(AF_INET6, &in6.sin6_addr, ip, sizeof(ip));
		port = ntohs(in6.sin6_port);
	}
	if (is_vetoed(transfer) || !address_allowed(transfer, ip, port))
		return CURL_SOCKET_BAD;
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/*
 * CURLOPT_CLOSESOCKETFUNCTION: a peer that no longer reads would never see the end of a connection
 * that still has something to send; the kernel keeps both for minutes.  A reset arrives at once.
 */
static int
on_close_socket(void *arg, curl_socket_t fd)
{
	struct linger reset = {.l_onoff = 1, .l_linger = 0};
	int unsent = 0;

	if (ioctl(fd, SIOCOUTQNSD, &unsent) == 0 && unsent > 0)
		(void) setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	return close(fd);
}

/* The body of an error status explains; it is kept in part and never makes the transfer fail. */
static size_t
keep_error_body(InferTransfer *transfer, const char *bytes, size_t n)
{
	size_t limit = INFER_ERROR_BODY_KEPT;
	size_t room;

	if (limit > transfer->body.max)
		limit = transfer->body.max;
	room = limit - transfer->body.len;
	if (room > n)
		room = n;
	if (room > 0 && !infer_buf_add(&transfer->body, bytes, room))
		return 0;
	transfer->dropped += n - room;
	return transfer->dropped > INFER_ERROR_BODY_DROPPED ? 0 : n;
}

/* CURLOPT_WRITEFUNCTION: decoded body bytes.  0 makes curl end the transfer. */
static size_t
on_write(char *bytes, size_t size, size_t nitems, void *arg)
{
	InferTransfer *transfer = arg;
	size_t n = size * nitems;

	if (!transfer->body_seen)
	{
		long status = 0;
		curl_off_t length = -1;

		transfer->body_seen = true;
		curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
		transfer->success = status >= 200 && status < 300;
		/* room for all of it at once; only a hint, for the bytes may be decoded ones */
		curl_easy_getinfo(transfer->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
		if (transfer->success && length > 0 && (uint64_t) length <= transfer->body.max)
			(void) infer_buf_reserve(&transfer->body, (size_t) length);
	}
	if (n == 0)
		return 0;
	if (!transfer->success)
		return keep_error_body(transfer, bytes, n);
	return infer_buf_add(&transfer->body, bytes, n) ? n : 0;
}

/* Options that never change in a handle's life.  False if one cannot be had: without the latch and
 * the restriction to HTTP there is no transfer. */
static bool
set_fixed_options(InferTransfer *transfer)
{
	CURL *easy = transfer->easy;
	bool ok;

	ok = curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_prerequest) == CURLE_OK;
	ok &= curl_easy_setopt(easy, CURLOPT_PREREQDATA, transfer) == CURLE_OK;
	ok &= curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
	ok &= curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK;
	/* the environment decides neither where a request goes nor whether it may */
	ok &= curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK;
	ok &= curl_easy_setopt(easy, CURLOPT_NOPROXY, "*") == CURLE_OK;
	ok &= curl_easy_setopt(easy, CURLOPT_NETRC, (long) CURL_NETRC_IGNORED) == CURLE_OK;
	ok &= infer_transfer_fix_tls(transfer);
	ok &= curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open_socket) == CURLE_OK;
	ok &= curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, transfer) == CURLE_OK;
	ok &= curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_close_socket) == CURLE_OK;
	ok &= curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_write) == CURLE_OK;
	ok &= curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer) == CURLE_OK;
	ok &= curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer) == CURLE_OK;
	ok &= curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->error) == CURLE_OK;
	/* no signal handler of curl's over ours, and no waiting for its resolver thread */
	ok &= curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;
	ok &= curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L) == CURLE_OK;
	ok &= curl_easy_setopt(easy, CURLOPT_POST, 1L) == CURLE_OK;

	/* what is nice to have */
	curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "");
	curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 30L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 15L);
	return ok;
}

InferTransfer *
infer_transfer_new(void)
{
	InferTransfer *transfer = calloc(1, sizeof(*transfer));

	if (transfer == NULL)
		return NULL;
	infer_buf_init(&transfer->body, 0);
	/* nothing is set yet: no request has these values */
	transfer->timeout_ms = -1;
	transfer->connect_timeout_ms = -1;
	transfer->max_idle_s = -1;
	transfer->max_response_size = SIZE_MAX;
	transfer->easy = curl_easy_init();
	if (transfer->easy == NULL || !set_fixed_options(transfer))
	{
		infer_transfer_free(transfer);
		return NULL;
	}
	return transfer;
}

void
infer_transfer_free(InferTransfer *transfer)
{
	infer_transfer_clear(transfer);
	if (transfer->easy != NULL)
		curl_easy_cleanup(transfer->easy);
	infer_transfer_free_tls(transfer);
	curl_slist_free_all(transfer->headers);
	curl_url_cleanup(transfer->parsed);
	free(transfer->url);
	infer_buf_free(&transfer->body);
	free(transfer);
}

void
infer_transfer_clear(InferTransfer *transfer)
{
	if (transfer->secret.data != NULL)
	{
		explicit_bzero(transfer->secret.data, transfer->secret_len);
		free(transfer->secret.data);
		transfer->secret.data = NULL;
	}
	infer_transfer_forget_identity(transfer);
	infer_transfer_forget_address(transfer);
	if (transfer->body.cap > BODY_KEPT)
		infer_buf_free(&transfer->body);
	else
		infer_buf_reset(&transfer->body);
}

static bool
headers_equal(const struct curl_slist *have, const char *const *want)
{
	for (size_t i = 0; i < NFIXED && have != NULL; i++)
		have = have->next;
	for (; want != NULL && *want != NULL; want++)
	{
		if (have == NULL || strcmp(have->data, *want) != 0)
			return false;
		have = have->next;
	}
	return have == NULL;
}

/* curl sends a line as it is, also one that is two. */
static bool
is_header_line(const char *line)
{
	for (; *line != '\0'; line++)
	{
		if (((unsigned char) *line < ' ' && *line != '\t') || *line == 0x7f)
			return false;
	}
	return true;
}

static bool
append_header(struct curl_slist **list, const char *line)
{
	struct curl_slist *longer = is_header_line(line) ? curl_slist_append(*list, line) : NULL;

	if (longer == NULL)
		return false;
	*list = longer;
	return true;
}

static bool
set_headers(InferTransfer *transfer, const InferHttpRequest *request)
{
	struct curl_slist *list = NULL;
	bool ok = true;

	if (transfer->headers == NULL || !headers_equal(transfer->headers, request->headers))
	{
		for (size_t i = 0; i < NFIXED; i++)
			ok = ok && append_header(&list, fixed_headers[i]);
		for (const char *const *line = request->headers; line != NULL && *line != NULL; line++)
			ok = ok && append_header(&list, *line);
		if (!ok)
		{
			curl_slist_free_all(list);
			return false;
		}
		curl_slist_free_all(transfer->headers);
		transfer->headers = list;
	}
	list = transfer->headers;
	if (request->secret_header != NULL)
	{
		transfer->secret.data =
			is_header_line(request->secret_header) ? strdup(request->secret_header) : NULL;
		if (transfer->secret.data == NULL)
			return false;
		transfer->secret_len = strlen(transfer->secret.data);
		transfer->secret.next = transfer->headers;
		list = &transfer->secret;
	}
	return curl_easy_setopt(transfer->easy, CURLOPT_HTTPHEADER, list) == CURLE_OK;
}

/*
 * Gives the handle the url in its parts, so that curl need not take it apart for each request.  One
 * that is none stays a text: then it is curl that says what is wrong.
 */
static bool
set_parts(InferTransfer *transfer, const char *url)
{
	CURLU *parsed = curl_url();
	CURLUcode code =
		parsed != NULL ? curl_url_set(parsed, CURLUPART_URL, url, 0) : CURLUE_OUT_OF_MEMORY;

	if (code != CURLUE_OK)
	{
		curl_url_cleanup(parsed);
		parsed = NULL;
	}
	(void) curl_easy_setopt(transfer->easy, CURLOPT_CURLU, parsed);
	curl_url_cleanup(transfer->parsed);
	transfer->parsed = parsed;
	return code != CURLUE_OUT_OF_MEMORY;
}

/*
 * HTTP/2 where TLS can negotiate it.  Not over clear text: libcurl 7.88 breaks every reused
 * connection of that kind.
 */
static bool
set_url(InferTransfer *transfer, const char *url)
{
	CURL *easy = transfer->easy;
	bool tls = strncasecmp(url, "https:", 6) == 0;
	char *copy;

	if (transfer->url != NULL && strcmp(transfer->url, url) == 0)
		return true;
	copy = strdup(url);
	if (copy == NULL)
		return false;
	free(transfer->url);
	transfer->url = copy;
	transfer->tls = tls;
	if (!set_parts(transfer, url) || curl_easy_setopt(easy, CURLOPT_URL, url) != CURLE_OK)
	{
		free(transfer->url);
		transfer->url = NULL;
		return false;
	}
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
					 (long) (tls ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1));
	/* rather wait for a connection that may take many streams than open one each */
	curl_easy_setopt(easy, CURLOPT_PIPEWAIT, tls ? 1L : 0L);
	return true;
}

/*
 * The option's value for "no longer than".  Up to 8.14 curl compares whole seconds, rounded down,
 * with "more than"; from 8.15 on milliseconds, and zero means for ever.
 */
static long
max_age(int max_idle_s)
{
	bool exact = curl_version_info(CURLVERSION_NOW)->version_num >= 0x080f00;
	long age = exact ? max_idle_s : max_idle_s - 1;
	long least = exact ? 1 : 0;

	return age > least ? age : least;
}

static void
set_limits(InferTransfer *transfer, const InferHttpRequest *request)
{
	CURL *easy = transfer->easy;

	if (transfer->timeout_ms != request->timeout_ms)
	{
		transfer->timeout_ms = request->timeout_ms;
		curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long) request->timeout_ms);
	}
	if (transfer->connect_timeout_ms != request->connect_timeout_ms)
	{
		transfer->connect_timeout_ms = request->connect_timeout_ms;
		curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long) request->connect_timeout_ms);
	}
	if (transfer->max_idle_s != request->max_idle_s)
	{
		transfer->max_idle_s = request->max_idle_s;
		curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, max_age(request->max_idle_s));
	}
	if (transfer->own_connection != request->own_connection)
	{
		transfer->own_connection = request->own_connection;
		curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, request->own_connection ? 1L : 0L);
		curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, request->own_connection ? 1L : 0L);
	}
	if (transfer->max_response_size != request->max_response_size)
	{
		/* a Content-Length above it ends the transfer before its body */
		transfer->max_response_size = request->max_response_size;
		curl_easy_setopt(easy, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t) request->max_response_size);
	}
	transfer->body.max = request->max_response_size;
}

/* Naming a body makes it a POST; without one it may not be NULL, or curl would read it from a
 * callback. */
static bool
set_method(InferTransfer *transfer, const InferHttpRequest *request)
{
	CURL *easy = transfer->easy;

	if (request->get)
		return curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L) == CURLE_OK;
	return curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) request->body_len) ==
			   CURLE_OK &&
		   curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body_len > 0 ? request->body : "") ==
			   CURLE_OK;
}

bool
infer_transfer_prepare(InferTransfer *transfer, const InferHttpRequest *request)
{
	transfer->user = request->user;
	transfer->check_address = request->check_address;
	transfer->check_arg = request->check_arg;
	transfer->incarnation_header = request->incarnation_header;
	transfer->body_len = request->get ? 0 : request->body_len;
	transfer->started_us = infer_monotonic_us();
	transfer->handshake = false;
	transfer->left = false;
	transfer->vetoed = false;
	transfer->denied = false;
	transfer->body_seen = false;
	transfer->success = false;
	transfer->dropped = 0;
	transfer->error[0] = '\0';
	memset(&transfer->result, 0, sizeof(transfer->result));
	transfer->result.error = "";
	transfer->result.body = &transfer->body;
	transfer->result.retry_after_ms = -1;
	transfer->result.rate = (InferHttpRate){-1, -1, -1, -1};

	if (!set_url(transfer, request->url) || !set_headers(transfer, request) ||
		!infer_transfer_set_address(transfer, request) ||
		!infer_transfer_set_tls(transfer, &request->tls))
		return false;
	set_limits(transfer, request);
	return set_method(transfer, request);
}
