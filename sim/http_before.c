/*
 * sim/http_before.c - the part of test_http about requests before anything of them leaves: where
 * they may go, and what they say.
 */
#define _GNU_SOURCE
#include "http_hooks.h"
#include "http_kit.h"
#include "http_parts.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Connects until the queue of a listening socket that nobody accepts from is full. */
static int
make_blackhole(int *fds, int nfds, int *port)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t len = sizeof(address);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(fds[0], (struct sockaddr *) &address, len) != 0 || listen(fds[0], 0) != 0 ||
		getsockname(fds[0], (struct sockaddr *) &address, &len) != 0)
		return -1;
	for (int i = 1; i < nfds; i++)
	{
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		(void) connect(fds[i], (struct sockaddr *) &address, len);
	}
	*port = ntohs(address.sin_port);
	return 0;
}

void
test_not_left(void)
{
	int fds[8];
	int port = 0;
	char url[64];
	InferHttpRequest r;
	InferTransfer *transfer;

	if (make_blackhole(fds, 8, &port) != 0)
		perror("blackhole");
	snprintf(url, sizeof(url), "http://127.0.0.1:%d/", port);
	r = request(url);
	r.connect_timeout_ms = 150;
	expect_not_left(&r, INFER_WIRE_CONNECT, 1000, "fail_P1 connect timeout");
	r.connect_timeout_ms = 4000;
	r.timeout_ms = 150;
	expect_not_left(&r, INFER_WIRE_TIMEOUT, 1000, "the attempt's timeout while connecting");

	r.timeout_ms = 4000;
	transfer = infer_transport_submit(transport, &r);
	turn(50);
	ok(transfer != NULL && !infer_transfer_left(transfer), "cancelled while connecting: not left");
	give_back(transfer);
	for (int i = 0; i < 8; i++)
		close(fds[i]);

	expect_not_left(&r, INFER_WIRE_CONNECT, 1000, "fail_P1 refused port");
	r.url = "http://nowhere.invalid/v1";
	expect_not_left(&r, INFER_WIRE_LOOKUP, 1000, "fail_P1 a name that does not resolve");
	snprintf(url, sizeof(url), "https://127.0.0.1:%d/", bad.port);
	r.url = url;
	expect_not_left(&r, INFER_WIRE_TLS, 4000, "TLS to a server that speaks none");
	snprintf(url, sizeof(url), "https://127.0.0.1:%d/", mock_port);
	r.connect_timeout_ms = 150;
	expect_not_left(&r, INFER_WIRE_TLS, 1000, "a handshake that stalls");
	r.url = "ftp://127.0.0.1/";
	expect_not_left(&r, INFER_WIRE_INTERNAL, 1000, "only http and https");
}

static bool
refuse(void *arg, const char *ip, int port)
{
	if (port != bad.port || strcmp(ip, "127.0.0.1") != 0)
		(*(int *) arg) += 100;
	(*(int *) arg)++;
	return false;
}

void
test_address_check(void)
{
	int connections;
	int asked = 0;
	InferHttpRequest r = request(bad_url("/ok"));

	/* on the connection that is there already, then on a new one */
	give_back(run(&r));
	connections = atomic_load(&bad.connections);
	r.check_address = refuse;
	r.check_arg = &asked;
	expect_not_left(&r, INFER_WIRE_DENIED, 500, "a refused address on a kept connection");
	expect_not_left(&r, INFER_WIRE_DENIED, 500, "a refused address");
	sleep_ms(20);
	ok(atomic_load(&bad.connections) == connections, "... is not even connected to");
	ok(asked == 2, "the check sees address and port");
}

/* What a probe is: no body, a connection of its own, one header of the answer. */
void
test_get(void)
{
	InferHttpRequest r = request(bad_url("/head"));
	InferTransfer *transfer;
	int connections;
	int open;

	give_back(run(&r)); /* leaves a connection */
	connections = atomic_load(&bad.connections);
	open = atomic_load(&bad.open);
	r.get = true;
	r.own_connection = true;
	transfer = run(&r);
	ok(body_is(transfer, TEXT) && infer_transfer_result(transfer)->bytes_sent == 0 &&
		   strncmp(bad.last_head, "GET /head HTTP/1.1\r\n", 20) == 0 &&
		   strcasestr(bad.last_head, "content-length") == NULL,
	   "GET has no body");
	give_back(transfer);
	give_back(run(&r));
	ok(atomic_load(&bad.connections) == connections + 2, "a connection of its own is a new one");
	ok(reaches(&bad.open, open), "... and is closed");

	/* the same handle */
	r = request(bad_url("/head"));
	transfer = run(&r);
	ok(infer_transfer_result(transfer)->bytes_sent == 13 && strncmp(bad.last_head, "POST ", 5) == 0,
	   "after a GET a POST is one");
	ok(strcmp(infer_transfer_result(transfer)->address, "127.0.0.1") == 0,
	   "the address that it was sent to");
	ok(infer_transfer_result(transfer)->incarnation[0] == '\0', "no incarnation is asked for");
	give_back(transfer);
	connections = atomic_load(&bad.connections);
	give_back(run(&r));
	ok(atomic_load(&bad.connections) == connections, "... and its connection is kept");

	r.url = bad_url("/rate");
	r.incarnation_header = "X-RateLimit-Remaining-Requests";
	transfer = run(&r);
	ok(strcmp(infer_transfer_result(transfer)->incarnation, "3") == 0, "what the header says");
	give_back(transfer);
	r.url = bad_url("/ok");
	transfer = run(&r);
	ok(infer_transfer_result(transfer)->incarnation[0] == '\0', "... that is not there");
	give_back(transfer);
}

static void
expect_address(const InferHttpRequest *r, const char *address, const char *name)
{
	InferTransfer *transfer = run(r);
	const InferHttpResult *result = infer_transfer_result(transfer);

	ok(result->wire.status == (address[0] != '\0' ? 200 : 0) &&
		   strcmp(result->address, address) == 0,
	   name);
	give_back(transfer);
}

/* A name that nobody knows, which stands for what the request says. */
void
test_known_address(void)
{
	char url[64];
	char host[64];
	InferHttpRequest r;
	int asked = 0;

	snprintf(url, sizeof(url), "http://hang.invalid:%d/head", bad.port);
	r = request(url);
	r.own_connection = true;
	r.address = "127.0.0.1";
	atomic_store(&hook_resolver_hangs, 1);
	expect_address(&r, "127.0.0.1", "fail_P73 a known address is connected to");
	ok(atomic_load(&hook_resolvers_busy) == 0, "... and nobody looks the name up");
	snprintf(host, sizeof(host), "\r\nHost: hang.invalid:%d\r\n", bad.port);
	ok(strstr(bad.last_head, host) != NULL, "... under its name");
	atomic_store(&hook_resolver_hangs, 0);

	r.address = "127.0.0.2";
	expect_not_left(&r, INFER_WIRE_CONNECT, 500, "another address takes the place of the first");
	r.address = "127.0.0.1";
	expect_address(&r, "127.0.0.1", "... and that one its place");
	r.address = NULL;
	expect_address(&r, "127.0.0.1", "fail_P73 it is remembered");
	r.fresh_lookup = true;
	expect_address(&r, "", "fail_P73 unless the name is to be looked up");
	r.fresh_lookup = false;
	expect_address(&r, "", "... and is forgotten then");

	/* given back before it had begun: the handle's next request knows of no address */
	r.address = "127.0.0.1";
	give_back(infer_transport_submit(transport, &r));
	r.address = NULL;
	expect_address(&r, "", "what has not begun leaves nothing behind");

	r.address = "127.0.0.1";
	r.check_address = refuse;
	r.check_arg = &asked;
	expect_not_left(&r, INFER_WIRE_DENIED, 500, "a known address is judged like any other");
	ok(asked == 1, "... once");
	r.check_address = NULL;
	r.address = "::1";
	expect_not_left(&r, INFER_WIRE_CONNECT, 500, "an IPv6 address, where nobody listens");
}

/* A line of the head is one line, whatever the caller makes of it. */
void
test_header_lines(void)
{
	static const char *const evil[] = {"X-Model: a\r\nX-Evil: 1", "X-Model: a\nX-Evil: 1",
									   "X-Model: a\rX-Evil: 1", "X-Model: a\x7f"};
	InferHttpRequest r = request(bad_url("/ok"));
	const char *headers[] = {"X-Model: \xc3\xa9\ta", NULL};
	int requests = atomic_load(&bad.executed);
	int refused = 0;

	for (size_t i = 0; i < sizeof(evil) / sizeof(evil[0]); i++)
	{
		headers[0] = evil[i];
		r.headers = headers;
		refused += infer_transport_submit(transport, &r) == NULL;
		r.headers = NULL;
		r.secret_header = evil[i];
		refused += infer_transport_submit(transport, &r) == NULL;
		r.secret_header = NULL;
	}
	ok(refused == 8 && infer_transport_running(transport) == 0,
	   "a header with a line break or another control character is refused");
	headers[0] = "X-Model: \xc3\xa9\ta";
	r.headers = headers;
	give_back(run(&r));
	ok(atomic_load(&bad.executed) == requests + 1, "... and its handle is as good as before");
}

/* Handles keep the parts of their last url. */
void
test_head(void)
{
	char url[64];
	char host[64];
	InferHttpRequest r = request(bad_url("/ok"));
	InferTransfer *transfer;

	give_back(run(&r));
	snprintf(url, sizeof(url), "http://localhost:%d/head", bad.port);
	snprintf(host, sizeof(host), "POST /head HTTP/1.1\r\nHost: localhost:%d\r\n", bad.port);
	r.url = url;
	give_back(run(&r));
	ok(strncmp(bad.last_head, host, strlen(host)) == 0, "another url, in the same handle");
	ok(strstr(bad.last_head, "\r\nUser-Agent: pg_inference\r\n") != NULL &&
		   strstr(bad.last_head, "\r\nContent-Type: application/json\r\n") != NULL &&
		   strcasestr(bad.last_head, "expect") == NULL,
	   "who asks, and what the body is");
	r.url = "http://no host/head";
	transfer = run(&r);
	ok(infer_transfer_result(transfer)->wire.end == INFER_WIRE_INTERNAL &&
		   !infer_transfer_left(transfer) && infer_transfer_result(transfer)->error[0] != '\0',
	   "what is no url goes nowhere");
	give_back(transfer);
	snprintf(host, sizeof(host), "POST /head HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n", bad.port);
	r.url = bad_url("/head");
	give_back(run(&r));
	ok(strncmp(bad.last_head, host, strlen(host)) == 0, "... and its handle is as good as before");
}
