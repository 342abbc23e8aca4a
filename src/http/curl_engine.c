/*
 * http/curl_engine.c - the transport: libcurl's multi interface behind transport.h.
 *
 * curl tells us which sockets it watches, and when it wants to be called at the latest: see
 * curl_multi.c.  The sockets go into our epoll, whose one descriptor the owner of the transport
 * sleeps on; the time becomes the deadline it sleeps until.  infer_transport_step() then tells curl
 * what is ready.  This costs the same per request however many are in flight, which curl's own
 * poll-everything interface does not.
 *
 * Where a transfer is:
 *
 *	pool --submit--> running --step--> done --next_done--> handed --release--> pool
 *	                    \________________\____________________________release____/
 *
 * Threads and signals.  curl resolves names in a thread of its own, which inherits the signal mask
 * of its creator.  All signals are blocked while curl may start one, else the thread would run the
 * handlers of a process that has no idea of threads.  A release never waits for such a thread:
 * CURLOPT_QUICK_EXIT makes curl detach it (lib/asyn-thread.c of 7.87 and later), and its memory
 * goes when the resolver at last answers.
 *
 * Lost wake-ups.  libcurl 7.88 over HTTP/2 now and then leaves the end of an answer in a buffer of
 * its own and waits for a socket that stays silent (seen with sixty answers of 300 kB on one
 * connection: one in 300 stood until its timeout).  While TLS transfers run and no socket has
 * spoken for 20 ms, curl is therefore told to look all the same; the pause doubles up to a second.
 *
 * Idle connections.  curl counts busy ones among the connections it keeps and closes the longest
 * idle one whenever a transfer ends above the limit.  The limit therefore moves with the number of
 * running transfers, a quarter above it; it falls back to max_connections as they become fewer.
 *
 * One thread, no lock.  Nothing raises.
 */
#include "http/curl_private.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#define EVENTS_PER_ROUND 64
#define ROUNDS_PER_STEP  16
#define POOL_MAX         256
#define NUDGE_FIRST_US   20000
#define NUDGE_LAST_US    1000000

static void
list_append(InferTransferList *list, InferTransfer *transfer)
{
	transfer->prev = list->last;
	transfer->next = NULL;
	if (list->last != NULL)
		list->last->next = transfer;
	else
		list->first = transfer;
	list->last = transfer;
	list->count++;
}

static void
list_remove(InferTransferList *list, InferTransfer *transfer)
{
	if (transfer->prev != NULL)
		transfer->prev->next = transfer->next;
	else
		list->first = transfer->next;
	if (transfer->next != NULL)
		transfer->next->prev = transfer->prev;
	else
		list->last = transfer->prev;
	list->count--;
}

int64_t
infer_monotonic_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

InferTransport *
infer_transport_create(int max_connections)
{
	InferTransport *transport;

	if (!infer_curl_initialise())
		return NULL;

	transport = calloc(1, sizeof(*transport));
	if (transport == NULL)
		return NULL;
	transport->max_connections = max_connections > 0 ? max_connections : 1;
	if (!infer_pollset_open(&transport->pollset) || !infer_multi_open(transport))
	{
		infer_transport_destroy(transport);
		return NULL;
	}
	return transport;
}

static void
free_all(InferTransferList *list)
{
	while (list->first != NULL)
	{
		InferTransfer *transfer = list->first;

		list_remove(list, transfer);
		infer_transfer_free(transfer);
	}
}

void
infer_transport_destroy(InferTransport *transport)
{
	if (transport == NULL)
		return;
	for (InferTransfer *transfer = transport->running.first; transfer != NULL;
		 transfer = transfer->next)
		curl_multi_remove_handle(transport->multi, transfer->easy);
	infer_multi_close(transport);
	free_all(&transport->running);
	free_all(&transport->done);
	free_all(&transport->handed);
	free_all(&transport->pool);
	infer_pollset_close(&transport->pollset);
	free(transport);
}

int
infer_transport_fd(const InferTransport *transport)
{
	return transport->pollset.epoll_fd;
}

long
infer_transport_timeout_ms(const InferTransport *transport)
{
	int64_t when_us = transport->deadline_us;
	int64_t left_us;

	if (transport->done.count > 0)
		return 0; /* somebody should take them */
	if (transport->nudge_us >= 0 && (when_us < 0 || transport->nudge_us < when_us))
		when_us = transport->nudge_us;
	if (when_us < 0)
		return -1;
	left_us = when_us - infer_monotonic_us();
	return left_us <= 0 ? 0 : (long) ((left_us + 999) / 1000);
}

static void
update_connection_limit(InferTransport *transport)
{
	long limit = transport->running.count + transport->running.count / 4;

	if (limit < transport->max_connections)
		limit = transport->max_connections;
	if (limit != transport->connection_limit)
	{
		curl_multi_setopt(transport->multi, CURLMOPT_MAXCONNECTS, limit);
		transport->connection_limit = limit;
	}
}

static void
stop_running(InferTransport *transport, InferTransfer *transfer)
{
	curl_multi_remove_handle(transport->multi, transfer->easy);
	list_remove(&transport->running, transfer);
	if (transfer->tls)
		transport->tls_running--;
}

static void
move_to_done(InferTransport *transport, InferTransfer *transfer)
{
	stop_running(transport, transfer);
	transfer->state = INFER_TRANSFER_DONE;
	list_append(&transport->done, transfer);
}

static void
collect_finished(InferTransport *transport)
{
	CURLMsg *message;
	int rest;

	while ((message = curl_multi_info_read(transport->multi, &rest)) != NULL)
	{
		/* the message goes with the handle */
		CURLcode code = message->data.result;
		InferTransfer *transfer = NULL;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **) &transfer);
		infer_transfer_conclude(transfer, code);
		transfer->result.late_us = transport->late_us < transfer->result.elapsed_us
									   ? transport->late_us
									   : transfer->result.elapsed_us;
		move_to_done(transport, transfer);
	}
}

/* The multi handle is lost (no memory to watch a socket): fail what runs and begin afresh. */
static void
replace_multi(InferTransport *transport)
{
	collect_finished(transport);
	while (transport->running.first != NULL)
	{
		infer_transfer_conclude_internal(transport->running.first, "cannot watch its socket");
		move_to_done(transport, transport->running.first);
	}
	infer_multi_close(transport);
	/* without memory there is no multi handle until submit() finds some */
	(void) infer_multi_open(transport);
}

static bool
act_on(InferTransport *transport, int fd, int bits)
{
	int running;

	return curl_multi_socket_action(transport->multi, fd, bits, &running) == CURLM_OK;
}

/* See "Lost wake-ups" above.  spoke: a socket was ready in this step. */
static bool
nudge(InferTransport *transport, bool spoke)
{
	const InferPollset *set = &transport->pollset;
	int64_t now;

	if (transport->tls_running == 0)
	{
		transport->nudge_us = -1;
		return true;
	}
	now = infer_monotonic_us();
	if (spoke || transport->nudge_us < 0)
		transport->nudge_pause_us = NUDGE_FIRST_US;
	else if (now < transport->nudge_us)
		return true;
	else
	{
		for (int fd = 0; fd < set->nwatches; fd++)
		{
			if (infer_pollset_is_watched(set, fd) && !act_on(transport, fd, CURL_CSELECT_IN))
				return false;
		}
		transport->nudge_pause_us *= 2;
		if (transport->nudge_pause_us > NUDGE_LAST_US)
			transport->nudge_pause_us = NUDGE_LAST_US;
	}
	transport->nudge_us = now + transport->nudge_pause_us;
	return true;
}

/* Tells curl what is ready; false if it gave up its multi handle. */
static bool
act_on_ready(InferTransport *transport)
{
	InferReady ready[EVENTS_PER_ROUND];
	bool spoke = false;
	int n;

	for (int round = 0; round < ROUNDS_PER_STEP; round++)
	{
		n = infer_pollset_collect(&transport->pollset, ready, EVENTS_PER_ROUND);
		for (int i = 0; i < n; i++)
		{
			int bits = ((ready[i].what & INFER_POLL_IN) != 0 ? CURL_CSELECT_IN : 0) |
					   ((ready[i].what & INFER_POLL_OUT) != 0 ? CURL_CSELECT_OUT : 0) |
					   ((ready[i].what & INFER_POLL_ERR) != 0 ? CURL_CSELECT_ERR : 0);

			if (infer_pollset_is_current(&transport->pollset, &ready[i]) &&
				!act_on(transport, ready[i].fd, bits))
				return false;
		}
		spoke = spoke || n > 0;
		if (n < EVENTS_PER_ROUND)
			break;
	}
	if (transport->deadline_us >= 0 && transport->deadline_us <= infer_monotonic_us())
	{
		/* curl's timer fires once; it sets the next one itself */
		transport->deadline_us = -1;
		if (!act_on(transport, CURL_SOCKET_TIMEOUT, 0))
			return false;
	}
	return nudge(transport, spoke);
}

void
infer_transport_step(InferTransport *transport)
{
	sigset_t all;
	sigset_t before;
	bool alive;

	if (transport->multi == NULL)
		return;
	update_connection_limit(transport);
	transport->late_us = infer_monotonic_us() - transport->looked_us;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	alive = act_on_ready(transport);
	pthread_sigmask(SIG_SETMASK, &before, NULL);

	if (alive)
		collect_finished(transport);
	else
		replace_multi(transport);
	transport->looked_us = infer_monotonic_us();
}

void
infer_transport_watched(InferTransport *transport)
{
	transport->looked_us = infer_monotonic_us();
}

/* Into the pool, or out of the world when it is full. */
static void
pool_transfer(InferTransport *transport, InferTransfer *transfer)
{
	infer_transfer_clear(transfer);
	if (transport->pool.count >= POOL_MAX)
	{
		infer_transfer_free(transfer);
		return;
	}
	transfer->state = INFER_TRANSFER_POOLED;
	list_append(&transport->pool, transfer);
}

InferTransfer *
infer_transport_submit(InferTransport *transport, const InferHttpRequest *request)
{
	/* the one used last: its settings, headers and memory are most likely to fit */
	InferTransfer *transfer = transport->pool.last;

	if (transport->multi == NULL && !infer_multi_open(transport))
		return NULL;
	if (transfer != NULL)
		list_remove(&transport->pool, transfer);
	else
		transfer = infer_transfer_new();
	if (transfer == NULL)
		return NULL;

	if (!infer_transfer_prepare(transfer, request) ||
		curl_multi_add_handle(transport->multi, transfer->easy) != CURLM_OK)
	{
		pool_transfer(transport, transfer);
		return NULL;
	}
	transfer->state = INFER_TRANSFER_RUNNING;
	list_append(&transport->running, transfer);
	if (transfer->tls)
		transport->tls_running++;
	return transfer;
}

InferTransfer *
infer_transport_next_done(InferTransport *transport)
{
	InferTransfer *transfer = transport->done.first;

	if (transfer == NULL)
		return NULL;
	list_remove(&transport->done, transfer);
	transfer->state = INFER_TRANSFER_HANDED;
	list_append(&transport->handed, transfer);
	return transfer;
}

void
infer_transfer_set_user(InferTransfer *transfer, void *user)
{
	transfer->user = user;
}

void *
infer_transfer_user(const InferTransfer *transfer)
{
	return transfer->user;
}

const InferHttpResult *
infer_transfer_result(const InferTransfer *transfer)
{
	return &transfer->result;
}

bool
infer_transfer_left(const InferTransfer *transfer)
{
	return transfer->left;
}

InferWire
infer_transfer_withdraw(InferTransport *transport, InferTransfer *transfer)
{
	if (transfer->state == INFER_TRANSFER_RUNNING)
	{
		/* what curl counted stays readable: nothing more can leave from here on */
		stop_running(transport, transfer);
		infer_transfer_conclude(transfer, CURLE_ABORTED_BY_CALLBACK);
		transfer->result.wire.end = INFER_WIRE_CANCELLED;
		transfer->state = INFER_TRANSFER_HANDED;
		list_append(&transport->handed, transfer);
	}
	return transfer->result.wire;
}

void
infer_transfer_release(InferTransport *transport, InferTransfer *transfer)
{
	switch (transfer->state)
	{
		case INFER_TRANSFER_POOLED:
			return;
		case INFER_TRANSFER_RUNNING:
			/* half-way through an exchange: curl closes the connection (HTTP/1) or resets the
			 * stream (HTTP/2), and the server hears of it */
			stop_running(transport, transfer);
			break;
		case INFER_TRANSFER_DONE:
			list_remove(&transport->done, transfer);
			break;
		case INFER_TRANSFER_HANDED:
			list_remove(&transport->handed, transfer);
			break;
	}
	pool_transfer(transport, transfer);
}

int
infer_transport_running(const InferTransport *transport)
{
	return transport->running.count;
}
