/*
 * http/curl_tls.c - whom a transfer trusts, and as whom it connects.
 *
 * Peer and host name are always verified; no request can say otherwise.  Authorities of a request
 * replace those of the system, file and folder both: curl would go on to look into the folder.
 *
 * A connection belongs to what it was made with.  curl uses one again, or resumes its session, only
 * for a transfer with the same authorities and the same client certificate, byte by byte, but does
 * not compare the certificate's key; so the identity, certificate and key in one text, is given to
 * it as both.  A connection keeps a copy of it as long as it lives.
 */
#include "http/curl_private.h"

#include <stdlib.h>
#include <string.h>

/* CURLOPT_SSL_CTX_FUNCTION, called when the connection stands and the handshake begins. */
static CURLcode
on_handshake(CURL *easy, void *context, void *arg)
{
	InferTransfer *transfer = arg;

	transfer->handshake = true;
	return CURLE_OK;
}

bool
infer_transfer_fix_tls(InferTransfer *transfer)
{
	CURL *easy = transfer->easy;
	bool ok;

	ok = curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L) == CURLE_OK;
	ok &= curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L) == CURLE_OK;
	ok &= curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long) CURL_SSLVERSION_TLSv1_2) == CURLE_OK;
	/* else the library would ask for a pass phrase on a terminal */
	ok &= curl_easy_setopt(easy, CURLOPT_KEYPASSWD, "") == CURLE_OK;

	/* nice to have: it tells timeouts apart */
	curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, on_handshake);
	curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, transfer);
	return ok;
}

static bool
same(const InferTlsText *have, const char *text, size_t len)
{
	if (have->data == NULL || text == NULL)
		return have->data == text;
	return have->len == len && memcmp(have->data, text, len) == 0;
}

static void
forget(InferTlsText *text)
{
	if (text->data != NULL)
		explicit_bzero(text->data, text->len);
	free(text->data);
	*text = (InferTlsText){NULL, 0};
}

/* Copies the text and gives the copy to curl. */
static bool
give(CURL *easy, CURLoption option, InferTlsText *text, const char *data, size_t len)
{
	struct curl_blob blob = {.len = len, .flags = CURL_BLOB_NOCOPY};

	text->data = malloc(len);
	if (text->data == NULL)
		return false;
	memcpy(text->data, data, len);
	text->len = len;
	blob.data = text->data;
	return curl_easy_setopt(easy, option, &blob) == CURLE_OK;
}

static bool
trust_system(InferTransfer *transfer)
{
	curl_easy_setopt(transfer->easy, CURLOPT_CAINFO_BLOB, NULL);
	forget(&transfer->authorities);
	return curl_easy_setopt(transfer->easy, CURLOPT_CAPATH,
							curl_version_info(CURLVERSION_NOW)->capath) == CURLE_OK;
}

static bool
set_authorities(InferTransfer *transfer, const InferHttpTls *tls)
{
	if (same(&transfer->authorities, tls->authorities, tls->authorities_len))
		return true;
	if (!trust_system(transfer))
		return false;
	if (tls->authorities == NULL)
		return true;
	if (curl_easy_setopt(transfer->easy, CURLOPT_CAPATH, NULL) == CURLE_OK &&
		give(transfer->easy, CURLOPT_CAINFO_BLOB, &transfer->authorities, tls->authorities,
			 tls->authorities_len))
		return true;
	(void) trust_system(transfer);
	return false;
}

static bool
set_identity(InferTransfer *transfer, const InferHttpTls *tls)
{
	struct curl_blob key = {.flags = CURL_BLOB_NOCOPY};

	if (tls->identity == NULL)
		return true;
	if (!give(transfer->easy, CURLOPT_SSLCERT_BLOB, &transfer->identity, tls->identity,
			  tls->identity_len))
		return false;
	key.data = transfer->identity.data;
	key.len = transfer->identity.len;
	return curl_easy_setopt(transfer->easy, CURLOPT_SSLKEY_BLOB, &key) == CURLE_OK;
}

bool
infer_transfer_set_tls(InferTransfer *transfer, const InferHttpTls *tls)
{
	return set_authorities(transfer, tls) && set_identity(transfer, tls);
}

void
infer_transfer_forget_identity(InferTransfer *transfer)
{
	if (transfer->identity.data == NULL)
		return;
	curl_easy_setopt(transfer->easy, CURLOPT_SSLCERT_BLOB, NULL);
	curl_easy_setopt(transfer->easy, CURLOPT_SSLKEY_BLOB, NULL);
	forget(&transfer->identity);
}

void
infer_transfer_free_tls(InferTransfer *transfer)
{
	forget(&transfer->authorities);
	forget(&transfer->identity);
}
