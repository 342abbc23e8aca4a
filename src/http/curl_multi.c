/*
 * http/curl_multi.c - a transport's multi handle: how it begins and ends, and what curl tells it.
 *
 * Nothing raises.
 */
#include "http/curl_private.h"

#include <stdlib.h>
#include <string.h>

/*
 * CURLMOPT_SOCKETFUNCTION.  A removal must be honoured at once: the number may come back as another
 * socket before we look again.  -1 makes curl give up the whole multi handle; step() replaces it.
 */
static int
on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
	InferTransport *transport = arg;
	unsigned interest;

	if (what == CURL_POLL_REMOVE)
	{
		infer_pollset_forget(&transport->pollset, fd);
		return 0;
	}
	interest = ((what & CURL_POLL_IN) != 0 ? INFER_POLL_IN : 0u) |
			   ((what & CURL_POLL_OUT) != 0 ? INFER_POLL_OUT : 0u);
	return infer_pollset_watch(&transport->pollset, fd, interest) ? 0 : -1;
}

/* CURLMOPT_TIMERFUNCTION */
static int
on_timer(CURLM *multi, long timeout_ms, void *arg)
{
	InferTransport *transport = arg;

	transport->deadline_us =
		timeout_ms < 0 ? -1 : infer_monotonic_us() + (int64_t) timeout_ms * 1000;
	return 0;
}

bool
infer_multi_open(InferTransport *transport)
{
	CURLM *multi = curl_multi_init();

	if (multi == NULL)
		return false;
	transport->multi = multi;
	transport->deadline_us = -1;
	transport->nudge_us = -1;
	transport->connection_limit = transport->max_connections;
	curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, transport);
	curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timer);
	curl_multi_setopt(multi, CURLMOPT_TIMERDATA, transport);
	curl_multi_setopt(multi, CURLMOPT_PIPELINING, (long) CURLPIPE_MULTIPLEX);
	curl_multi_setopt(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, 0L);
	curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, transport->connection_limit);
#if LIBCURL_VERSION_NUM >= 0x081400
	curl_multi_setopt(multi, CURLMOPT_QUICK_EXIT, 1L);
#endif
	return true;
}

/* Closing connections would call the callbacks again, with nobody left to be told. */
void
infer_multi_close(InferTransport *transport)
{
	if (transport->multi == NULL)
		return;
	curl_multi_setopt(transport->multi, CURLMOPT_SOCKETFUNCTION, NULL);
	curl_multi_setopt(transport->multi, CURLMOPT_TIMERFUNCTION, NULL);
	curl_multi_cleanup(transport->multi);
	transport->multi = NULL;
	transport->deadline_us = -1;
	transport->nudge_us = -1;
}

/*
 * Not earlier than at first use: the state of TLS must not be inherited by forked processes.  The
 * variable would have curl write the keys of all connections to a file; it looks for it here.
 */
bool
infer_curl_initialise(void)
{
	static const char key_log[] = "SSLKEYLOGFILE";
	static bool initialised = false;
	const char *value;
	char *kept;

	if (initialised)
		return true;
	value = getenv(key_log);
	kept = value != NULL ? strdup(value) : NULL;
	if (value != NULL && (kept == NULL || unsetenv(key_log) != 0))
	{
		free(kept);
		return false;
	}
	initialised = curl_global_init(CURL_GLOBAL_ALL) == CURLE_OK;
	if (kept != NULL)
		(void) setenv(key_log, kept, 1);
	free(kept);
	return initialised;
}
