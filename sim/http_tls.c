/*
 * sim/http_tls.c - what a handle of the HTTP engine is set to for TLS, request by request.
 *
 * Whether curl then does as it is told is a matter of sql_tests/t/160_tls.pl.
 */
#include "http_kit.h"
#include "http_parts.h"

#include "http/curl_private.h"

#include <string.h>

/* One handle serves a request with authorities and a client certificate, then one with neither. */
void
test_tls_settings(void)
{
	InferHttpRequest r = request(bad_url("/ok"));
	InferTransfer *first;
	InferTransfer *transfer;

	r.tls = (InferHttpTls){"authorities", 11, "certificate and key", 19};
	first = run(&r);
	ok(first->authorities.len == 11 && first->identity.len == 19 &&
		   memcmp(first->identity.data, "certificate and key", 19) == 0,
	   "a handle has its own copy of authorities and identity");
	give_back(first);
	ok(first->identity.data == NULL, "the identity goes with its request");

	r.tls = (InferHttpTls){0};
	transfer = run(&r);
	ok(transfer == first && transfer->authorities.data == NULL && transfer->identity.data == NULL,
	   "... and so do the authorities, when the handle's next request names none");
	give_back(transfer);
}
