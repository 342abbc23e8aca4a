/*
 * http/curl_address.c - which address the name in a transfer's url stands for.
 *
 * curl remembers names for a minute, whether or not their addresses answer.  Entries can be put
 * into that memory ("+name:port:address", which are forgotten like others) and taken out
 * ("-name:port") just before a request starts.  With an entry in it, no thread is started to look
 * the name up.  Nothing else changes: the name stays the one in the Host header and in the
 * handshake, and the address is judged like any other before it is connected to.
 */
#include "http/curl_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* malloc'd, or NULL. */
static char *
entry_of(const char *host, const char *port, const char *address)
{
	size_t size = strlen(host) + strlen(port) + (address != NULL ? strlen(address) : 0) + 6;
	char *entry = malloc(size);

	if (entry == NULL)
		return NULL;
	if (address == NULL)
		snprintf(entry, size, "-%s:%s", host, port);
	else if (strchr(address, ':') != NULL)
		snprintf(entry, size, "+%s:%s:[%s]", host, port, address);
	else
		snprintf(entry, size, "+%s:%s:%s", host, port, address);
	return entry;
}

static bool
make_entry(InferTransfer *transfer, const char *address)
{
	char *host = NULL;
	char *port = NULL;

	if (curl_url_get(transfer->parsed, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
		curl_url_get(transfer->parsed, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK)
		transfer->resolve.data = entry_of(host, port, address);
	curl_free(host);
	curl_free(port);
	return transfer->resolve.data != NULL;
}

bool
infer_transfer_set_address(InferTransfer *transfer, const InferHttpRequest *request)
{
	if (request->address == NULL && !request->fresh_lookup)
		return true;
	return make_entry(transfer, request->address) &&
		   curl_easy_setopt(transfer->easy, CURLOPT_RESOLVE, &transfer->resolve) == CURLE_OK;
}

void
infer_transfer_forget_address(InferTransfer *transfer)
{
	if (transfer->resolve.data == NULL)
		return;
	curl_easy_setopt(transfer->easy, CURLOPT_RESOLVE, NULL);
	free(transfer->resolve.data);
	transfer->resolve.data = NULL;
}
