/*
 * http/curl_result.c - from CURLcode and what the callbacks saw to InferHttpResult.
 *
 * The claims rest on our own latch, not on curl's codes and counters: a code does not tell whether
 * something left (a timeout can strike in any phase), and after a hidden second transmission the
 * counters start again.
 *
 * HTTP/2's "refused stream" proves that nothing ran, but curl answers it by sending again, which
 * the veto stops, and tells nobody why it wanted to; so refused_stream is never claimed here.
 */
#include "http/curl_private.h"
#include "http/headers.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define PATIENCE_MS 1000 /* so long at least a server is waited for that is said to fail */

/* Which phase was it that took too long?  Before the latch only. */
static InferWireEnd
end_of_timeout(const InferTransfer *transfer)
{
	curl_off_t resolved = 0;

	if (transfer->left || transfer->result.elapsed_us >= (int64_t) transfer->timeout_ms * 1000)
		return INFER_WIRE_TIMEOUT;
	curl_easy_getinfo(transfer->easy, CURLINFO_NAMELOOKUP_TIME_T, &resolved);
	if (resolved == 0)
		return INFER_WIRE_LOOKUP;
	/* curl counts the handshake as a part of connecting; our callback knows better */
	return transfer->handshake ? INFER_WIRE_TLS : INFER_WIRE_CONNECT;
}

/* We ended it from inside a callback. */
static InferWireEnd
end_of_abort(const InferTransfer *transfer)
{
	return transfer->denied ? INFER_WIRE_DENIED : INFER_WIRE_INTERNAL;
}

/* The size cap, seen in the Content-Length or while the body came. */
static InferWireEnd
end_of_refused_body(const InferTransfer *transfer)
{
	int status = transfer->result.wire.status;

	if (transfer->body.nomem && !transfer->body.overflow)
		return INFER_WIRE_INTERNAL;
	/* an error status is an answer, however long its explanation */
	return status >= 300 ? INFER_WIRE_OK : INFER_WIRE_TOO_LARGE;
}

static InferWireEnd
end_of_lost_connection(const InferTransfer *transfer)
{
	if (transfer->result.wire.status != 0)
		return INFER_WIRE_PARTIAL;
	return transfer->left ? INFER_WIRE_DISCONNECT : INFER_WIRE_CONNECT;
}

/* curl bounds the head of an answer: each line, the number of lines, the whole.  Which code says so
 * depends on which of them, and on curl's version. */
static bool
head_is_too_large(const InferTransfer *transfer, CURLcode code)
{
	static const char whole[] = "Too large response headers";

	if (!transfer->left)
		return false;
#if LIBCURL_VERSION_NUM >= 0x080600
	if (code == CURLE_TOO_LARGE)
		return true;
#endif
	return (code == CURLE_OUT_OF_MEMORY && transfer->result.wire.status != 0) ||
		   (code == CURLE_RECV_ERROR && strncmp(transfer->error, whole, sizeof(whole) - 1) == 0);
}

static InferWireEnd
end_of(const InferTransfer *transfer, CURLcode code)
{
	if (head_is_too_large(transfer, code))
		return INFER_WIRE_PROTOCOL;
	if (transfer->vetoed && code != CURLE_OK)
		return INFER_WIRE_DISCONNECT;
	switch (code)
	{
		case CURLE_OK:
			return INFER_WIRE_OK;
		case CURLE_COULDNT_RESOLVE_HOST:
		case CURLE_COULDNT_RESOLVE_PROXY:
			return INFER_WIRE_LOOKUP;
		case CURLE_COULDNT_CONNECT:
			return transfer->denied ? INFER_WIRE_DENIED : INFER_WIRE_CONNECT;
		case CURLE_OPERATION_TIMEDOUT:
			return end_of_timeout(transfer);
		case CURLE_ABORTED_BY_CALLBACK:
			return end_of_abort(transfer);
		case CURLE_WRITE_ERROR:
		case CURLE_FILESIZE_EXCEEDED:
			return end_of_refused_body(transfer);
		case CURLE_SSL_CERTPROBLEM:
		case CURLE_SSL_CACERT_BADFILE:
			return transfer->left ? end_of_lost_connection(transfer) : INFER_WIRE_CERTIFICATE;
		case CURLE_BAD_FUNCTION_ARGUMENT: /* libcurl 8.22, of a key that does not fit */
			if (!transfer->left && transfer->identity.data != NULL)
				return INFER_WIRE_CERTIFICATE;
			return transfer->left ? end_of_lost_connection(transfer) : INFER_WIRE_INTERNAL;
		case CURLE_SSL_CONNECT_ERROR:
		case CURLE_PEER_FAILED_VERIFICATION:
		case CURLE_SSL_CIPHER:
		case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
		case CURLE_SSL_ISSUER_ERROR:
		case CURLE_SSL_INVALIDCERTSTATUS:
		case CURLE_SSL_CLIENTCERT:
		case CURLE_SSL_ENGINE_NOTFOUND:
		case CURLE_SSL_ENGINE_SETFAILED:
		case CURLE_SSL_ENGINE_INITFAILED:
		case CURLE_USE_SSL_FAILED:
			return transfer->left ? end_of_lost_connection(transfer) : INFER_WIRE_TLS;
		case CURLE_GOT_NOTHING:
		case CURLE_SEND_ERROR:
		case CURLE_RECV_ERROR:
		case CURLE_PARTIAL_FILE:
		case CURLE_HTTP2:
		case CURLE_HTTP2_STREAM:
		case CURLE_SEND_FAIL_REWIND:
			return end_of_lost_connection(transfer);
		case CURLE_WEIRD_SERVER_REPLY:
		case CURLE_BAD_CONTENT_ENCODING:
			return INFER_WIRE_PROTOCOL;
		case CURLE_UNSUPPORTED_PROTOCOL: /* also "this is no HTTP answer" */
			return transfer->left ? INFER_WIRE_PROTOCOL : INFER_WIRE_INTERNAL;
		case CURLE_OUT_OF_MEMORY:
			return INFER_WIRE_INTERNAL;
		default:
			return transfer->left ? end_of_lost_connection(transfer) : INFER_WIRE_INTERNAL;
	}
}

/*
 * Whoever waits for a few milliseconds only, or has no certificate that the server takes, will
 * fail where others do not.  A server that sends an alert of TLS is there.
 */
static bool
may_be_ours(const InferTransfer *transfer, CURLcode code)
{
	int patience_ms = transfer->timeout_ms;

	if (!transfer->left && transfer->connect_timeout_ms < patience_ms)
		patience_ms = transfer->connect_timeout_ms;
	if (code == CURLE_OPERATION_TIMEDOUT)
		return patience_ms < PATIENCE_MS;
	return transfer->result.wire.status == 0 && strstr(transfer->error, "alert") != NULL;
}

/* An empty text, which means nothing anywhere, if there is no such header. */
static const char *
header_text(CURL *easy, const char *name)
{
	struct curl_header *header;

	if (curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &header) != CURLHE_OK)
		return "";
	return header->value;
}

/* What many servers say of the caller's minute. */
static InferHttpRate
rate_of(CURL *easy)
{
	InferHttpRate rate = {-1, -1, -1, -1};

	rate.requests_left = infer_header_count(header_text(easy, "x-ratelimit-remaining-requests"));
	if (rate.requests_left >= 0)
		rate.requests_reset_us =
			infer_header_time_us(header_text(easy, "x-ratelimit-reset-requests"));
	rate.tokens_left = infer_header_count(header_text(easy, "x-ratelimit-remaining-tokens"));
	if (rate.tokens_left >= 0)
		rate.tokens_reset_us = infer_header_time_us(header_text(easy, "x-ratelimit-reset-tokens"));
	return rate;
}

/* Ours where we know better than the library, else its own; control characters are masked. */
static void
describe(InferTransfer *transfer, CURLcode code)
{
	InferHttpResult *result = &transfer->result;
	char *text = transfer->error;
	size_t size = sizeof(transfer->error);

	if (result->wire.end == INFER_WIRE_OK)
		text[0] = '\0';
	else if (transfer->vetoed || strncmp(text, "Connection died", 15) == 0)
		/* the library counts as its own attempts what on_prerequest() has vetoed */
		snprintf(text, size, "the server closed a kept connection without an answer");
	else if (result->wire.end == INFER_WIRE_DENIED)
		snprintf(text, size, "the address %s is not allowed", transfer->denied_address);
	else if (result->wire.end == INFER_WIRE_TOO_LARGE)
		snprintf(text, size, "the answer is larger than %zu bytes", transfer->max_response_size);
	else if (head_is_too_large(transfer, code))
		snprintf(text, size, "the header of the answer is too long");
	else if (text[0] == '\0')
		snprintf(text, size, "%s", curl_easy_strerror(code));
	for (char *c = text; *c != '\0'; c++)
	{
		if ((unsigned char) *c < ' ' || *c == 0x7f)
			*c = '?';
	}
	result->error = text;
}

void
infer_transfer_conclude(InferTransfer *transfer, CURLcode code)
{
	InferHttpResult *result = &transfer->result;
	InferWire *wire = &result->wire;
	CURL *easy = transfer->easy;
	curl_off_t uploaded = 0;
	curl_off_t downloaded = 0;
	long status = 0;
	long request_size = 0;
	long new_connections = 0;

	curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &request_size);
	curl_easy_getinfo(easy, CURLINFO_SIZE_UPLOAD_T, &uploaded);
	curl_easy_getinfo(easy, CURLINFO_SIZE_DOWNLOAD_T, &downloaded);
	curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &new_connections);

	result->elapsed_us = infer_monotonic_us() - transfer->started_us;
	result->bytes_sent = (size_t) uploaded;
	result->bytes_received = (size_t) downloaded;
	result->reused_connection = transfer->left && new_connections == 0;

	wire->left = transfer->left;
	wire->status = status >= 200 ? (int) status : 0; /* 1xx is not an answer */
	/* request_size is zero as long as no send has succeeded; after a veto nothing is sure */
	wire->request_complete =
		transfer->left &&
		(transfer->vetoed || (request_size > 0 && (uint64_t) uploaded >= transfer->body_len));
	wire->has_body = transfer->success && transfer->body.len > 0;
	wire->end = end_of(transfer, code);
	result->perhaps_ours = may_be_ours(transfer, code);
	if (wire->status >= 300)
		result->retry_after_ms =
			infer_header_retry_after_ms(header_text(easy, "Retry-After"), (int64_t) time(NULL));
	if (wire->status != 0)
	{
		result->rate = rate_of(easy);
		if (transfer->incarnation_header != NULL)
		{
			const char *said = header_text(easy, transfer->incarnation_header);

			infer_incarnation_put(result->incarnation, said, strlen(said));
		}
		result->latin1 = infer_header_is_latin1(header_text(easy, "Content-Type"));
	}
	describe(transfer, code);
}

void
infer_transfer_conclude_internal(InferTransfer *transfer, const char *why)
{
	InferWire *wire = &transfer->result.wire;

	wire->end = INFER_WIRE_INTERNAL;
	wire->left = transfer->left;
	wire->request_complete = transfer->left;
	snprintf(transfer->error, sizeof(transfer->error), "%s", why);
	transfer->result.error = transfer->error;
}
