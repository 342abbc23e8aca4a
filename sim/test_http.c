/*
 * sim/test_http.c - the HTTP engine against servers that behave and servers that do not.
 *
 *	test_http MOCKD
 *
 * MOCKD is the mock inference server's program, started here on a free port.  The servers that
 * misbehave run in this process (badserver.c), and so do failures of libc (http_hooks.c).  Test
 * names with a number refer to the project's lists of faults (fault_F), failure proofs (fail_P).
 */
#define _GNU_SOURCE
#include "http_hooks.h"
#include "http_kit.h"
#include "http_tls.h"

#include "http/headers.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECRET "sesame-7f3a"

/* --- answers --- */

static void
test_answers(void)
{
	InferTransfer *transfer = run_bad("/ok");
	const InferHttpResult *result = infer_transfer_result(transfer);

	ok(result->wire.end == INFER_WIRE_OK && result->wire.status == 200 && result->wire.has_body &&
		   body_is(transfer, TEXT) && result->bytes_sent == 13 && result->bytes_received == 23 &&
		   result->retry_after_ms == -1 && result->elapsed_us > 0,
	   "a whole answer");
	give_back(transfer);

	transfer = run_bad("/ok");
	ok(infer_transfer_result(transfer)->reused_connection && atomic_load(&bad.connections) == 1,
	   "the connection is used again");
	give_back(transfer);

	transfer = run_bad("/gzip");
	ok(body_is(transfer, TEXT), "fault_F71 chunked and gzip give the same text");
	give_back(transfer);
	transfer = run_bad("/split");
	ok(body_is(transfer, TEXT), "an answer in pieces of one byte");
	give_back(transfer);
	transfer = run_bad("/until-close");
	ok(infer_transfer_result(transfer)->wire.end == INFER_WIRE_OK && body_is(transfer, TEXT),
	   "an answer that ends with its connection");
	give_back(transfer);
	expect("/informed", INFER_WIRE_OK, 200, true, "1xx before the answer are not the answer");

	transfer = run_bad("/wait-seconds");
	result = infer_transfer_result(transfer);
	ok(result->wire.status == 429 && result->retry_after_ms == 7000 && !result->wire.has_body &&
		   body_is(transfer, "{\"error\":\"busy\"}"),
	   "fail_P9 Retry-After in seconds, and the body of the refusal");
	give_back(transfer);
	transfer = run_bad("/wait-date");
	result = infer_transfer_result(transfer);
	ok(result->wire.status == 503 && result->retry_after_ms >= 28000 &&
		   result->retry_after_ms <= 30000,
	   "Retry-After as a date");
	give_back(transfer);
	transfer = run_bad("/rate");
	result = infer_transfer_result(transfer);
	ok(result->rate.requests_left == 3 && result->rate.requests_reset_us == 3960500000 &&
		   result->rate.tokens_left == 0 && result->rate.tokens_reset_us == 20000,
	   "x-ratelimit: what is left, and until when");
	give_back(transfer);
	transfer = run_bad("/rate-odd");
	result = infer_transfer_result(transfer);
	ok(result->rate.requests_left == 3 && result->rate.requests_reset_us == -1 &&
		   result->rate.tokens_left == -1 && result->rate.tokens_reset_us == -1,
	   "x-ratelimit: what cannot be read is not believed");
	give_back(transfer);
	expect("/redirect", INFER_WIRE_OK, 307, true, "fail_P20 a redirect is an answer");
	ok(atomic_load(&bad.target) == 0, "fail_P20 ... and is not followed");
}

/* What no server means by a time, although strtod() would read it; and what is too much. */
static void
test_header_values(void)
{
	static const struct
	{
		const char *text;
		int64_t us;
	} times[] = {{"1d1s", INT64_C(86400000000)},
				 {"59m59.999s", INT64_C(3599999000)},
				 {"7.", 7000000},
				 {"2.5", 2500000},
				 {"0x10s", -1},
				 {"1e3s", -1},
				 {".5s", -1},
				 {"-1s", -1},
				 {"1 s", -1},
				 {"5y", -1},
				 {"", -1},
				 {"99999999999999999999d", INT64_C(86400000000)}};

	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		ok(infer_header_time_us(times[i].text) == times[i].us, "x-ratelimit: a time");
	ok(infer_header_count("120") == 120 && infer_header_count("0x10") == -1 &&
		   infer_header_count("-1") == -1 && infer_header_count("") == -1 &&
		   infer_header_count("99999999999999999999") == INT64_MAX,
	   "x-ratelimit: counts");
	ok(infer_header_is_latin1("application/json; charset=ISO-8859-1") &&
		   infer_header_is_latin1("text/plain;charset=\"latin1\"; x=y") &&
		   !infer_header_is_latin1("application/json; charset=iso-8859-15") &&
		   !infer_header_is_latin1("application/json; charset=utf-8") &&
		   !infer_header_is_latin1("application/json") && !infer_header_is_latin1(""),
	   "Content-Type: latin-1");
	ok(infer_header_retry_after_ms("120", 0) == 120000 &&
		   infer_header_retry_after_ms("86401", 0) == INT64_C(86400000) &&
		   infer_header_retry_after_ms("99999999999999999999", 0) == INT64_C(86400000) &&
		   infer_header_retry_after_ms("Thu, 01 Jan 1970 00:01:00 GMT", 50) == 10000 &&
		   infer_header_retry_after_ms("Thu, 01 Jan 1970 00:01:00 GMT", 70) == 0 &&
		   infer_header_retry_after_ms("", 0) == -1 && infer_header_retry_after_ms("soon", 0) == -1,
	   "Retry-After: within a day, and never in the past");
}

/* Who looks now and then only cannot say how long an answer took, and by how much. */
static void
test_late_looks(void)
{
	InferHttpRequest r = request(bad_url("/ok"));
	InferTransfer *transfer = infer_transport_submit(transport, &r);

	while (infer_transport_next_done(transport) == NULL)
	{
		sleep_ms(30);
		infer_transport_step(transport);
	}
	ok(infer_transfer_result(transfer)->late_us >= 30000 &&
		   infer_transfer_result(transfer)->late_us <= infer_transfer_result(transfer)->elapsed_us,
	   "rpc_E11 an answer that nobody looked for may have been there for that long");
	give_back(transfer);
}

static void
test_broken_answers(void)
{
	static BadServer doomed;
	int port = bad.port;
	int executed;

	expect("/dies", INFER_WIRE_DISCONNECT, 0, true, "fail_P4 closed without a byte");
	expect("/reset", INFER_WIRE_DISCONNECT, 0, true, "reset before the answer");
	expect("/short", INFER_WIRE_PARTIAL, 200, true, "fail_P12 cut by close");
	expect("/short-reset", INFER_WIRE_PARTIAL, 200, true, "cut by reset");
	expect("/short-chunks", INFER_WIRE_PARTIAL, 200, true, "cut between chunks");
	expect("/garbage", INFER_WIRE_PROTOCOL, 0, true, "fail_P16 no HTTP at all");
	expect("/long-header", INFER_WIRE_PROTOCOL, 200, true, "a header without end");

	/* a fresh connection, a first request, and the second that the server runs and drops */
	executed = atomic_load(&bad.executed);
	expect("/second-dies", INFER_WIRE_OK, 200, true, "fail_P5 the first request is answered");
	expect("/second-dies", INFER_WIRE_DISCONNECT, 0, true, "fail_P5 the second is lost");
	ok(atomic_load(&bad.executed) == executed + 2, "fail_P5 ... and was executed exactly once");

	/* curl would try again, and find nobody: that is no proof that the first was not executed */
	if (badserver_start(&doomed) != 0)
		exit(1);
	bad.port = doomed.port;
	expect("/gone", INFER_WIRE_OK, 200, true, "fail_P5 a server answers, ...");
	expect("/gone", INFER_WIRE_DISCONNECT, 0, true, "fail_P5 ... and dies with the next request");
	ok(atomic_load(&doomed.executed) == 2, "fail_P5 ... which it had executed");
	bad.port = port;
	badserver_stop(&doomed);
}

static void
test_sizes(void)
{
	InferHttpRequest r;
	InferTransfer *transfer;
	const InferHttpResult *result;
	int connections;
	char *big;

	expect("/announced", INFER_WIRE_TOO_LARGE, 200, true, "an announced length above the cap");
	expect("/endless", INFER_WIRE_TOO_LARGE, 200, true, "fault_F91 a body above the cap");
	ok(atomic_load(&bad.sent) < (long) (16 * MB), "fault_F91 ... is stopped soon");
	expect("/bomb", INFER_WIRE_TOO_LARGE, 200, true, "the cap counts decoded bytes");

	transfer = run_bad("/long-error");
	result = infer_transfer_result(transfer);
	ok(result->wire.end == INFER_WIRE_OK && result->wire.status == 500 &&
		   result->body->len == 64 * 1024,
	   "of a long error 64 kB are kept");
	give_back(transfer);
	connections = atomic_load(&bad.connections);
	transfer = run_bad("/ok");
	ok(atomic_load(&bad.connections) == connections, "... and its connection stays usable");
	give_back(transfer);
	expect("/endless-error", INFER_WIRE_OK, 500, true, "an endless error is an error");

	/* a large body: whole, without "100 Continue"; then to a server that refuses it early */
	big = malloc(16 * MB);
	memset(big, 'x', 16 * MB);
	r = request(bad_url("/ok"));
	r.body = big;
	r.body_len = 3 * MB;
	transfer = run(&r);
	result = infer_transfer_result(transfer);
	ok(result->wire.status == 200 && result->elapsed_us < 900000 && result->wire.request_complete &&
		   result->bytes_sent == 3 * MB,
	   "a large request leaves without waiting for leave");
	give_back(transfer);

	r = request(bad_url("/early"));
	r.body = big;
	r.body_len = 16 * MB;
	transfer = run(&r);
	ok(infer_transfer_result(transfer)->wire.status == 413, "a status before the body was sent");
	give_back(transfer);

	r.url = bad_url("/unread");
	r.timeout_ms = 300;
	transfer = run(&r);
	result = infer_transfer_result(transfer);
	ok(result->wire.end == INFER_WIRE_TIMEOUT && result->wire.left &&
		   !result->wire.request_complete,
	   "fail_P8 a body the server did not take is incomplete");
	give_back(transfer);
	atomic_store(&bad.unread_over, 1);
	free(big);
}

/* --- before anything leaves --- */

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

static void
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

static void
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
static void
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
static void
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
static void
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
static void
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

/* --- giving up --- */

static void
test_timeout(void)
{
	InferHttpRequest r = request(bad_url("/hang"));
	InferTransfer *transfer;
	const InferHttpResult *result;
	int abandoned = atomic_load(&bad.abandoned);

	r.timeout_ms = 150;
	transfer = run(&r);
	result = infer_transfer_result(transfer);
	ok(result->wire.end == INFER_WIRE_TIMEOUT && result->wire.left &&
		   result->wire.request_complete && result->elapsed_us >= 150000 &&
		   result->elapsed_us < 400000,
	   "fail_P7 no answer in time, but it left");
	give_back(transfer);
	ok(reaches(&bad.abandoned, abandoned + 1), "... and its connection is closed");
}

static void
test_cancel(void)
{
	InferTransfer *transfers[50];
	InferHttpRequest r = request(bad_url("/hang"));
	int abandoned = atomic_load(&bad.abandoned);
	int64_t start;
	int left = 0;

	r.timeout_ms = 60000;
	for (int i = 0; i < 50; i++)
		transfers[i] = infer_transport_submit(transport, &r);
	ok(infer_transport_running(transport) == 50, "running counts what was submitted");
	while (atomic_load(&bad.waiting) < 50)
		turn(10);
	start = now_us();
	for (int i = 0; i < 50; i++)
	{
		left += infer_transfer_left(transfers[i]);
		give_back(transfers[i]);
	}
	ok(left == 50 && infer_transport_running(transport) == 0, "cancelled in flight: left");
	ok(reaches(&bad.abandoned, abandoned + 50) && now_us() - start < 500000,
	   "fault_F7 the server sees every connection closed within 500 ms");
	ok(infer_transport_next_done(transport) == NULL, "what was cancelled is never done");

	/* cancelled before it was started, and finished but never looked at */
	transfers[0] = infer_transport_submit(transport, &r);
	ok(!infer_transfer_left(transfers[0]), "submit alone sends nothing");
	give_back(transfers[0]);
	r.url = bad_url("/ok");
	transfers[0] = infer_transport_submit(transport, &r);
	while (infer_transport_running(transport) > 0)
		turn(100);
	give_back(transfers[0]);
	ok(infer_transport_next_done(transport) == NULL, "released before it was handed out");
}

/* What is known of a request that is given up: the evidence of a proof that no error carries. */
static void
test_fail_P3_P8_withdrawn(void)
{
	InferHttpRequest r = request(bad_url("/hang"));
	InferTransfer *transfer = infer_transport_submit(transport, &r);
	InferWire wire = infer_transfer_withdraw(transport, transfer);
	int abandoned = atomic_load(&bad.abandoned);

	ok(wire.end == INFER_WIRE_CANCELLED && !wire.left && !wire.request_complete,
	   "fail_P3 withdrawn before it was started: not left");
	ok(infer_transport_running(transport) == 0, "it runs no more");
	give_back(transfer);

	transfer = infer_transport_submit(transport, &r);
	while (atomic_load(&bad.waiting) == 0)
		turn(10);
	wire = infer_transfer_withdraw(transport, transfer);
	ok(wire.end == INFER_WIRE_CANCELLED && wire.left && wire.request_complete && wire.status == 0,
	   "withdrawn while the server works: left in full");
	ok(reaches(&bad.abandoned, abandoned + 1), "the server sees it at once");
	ok(infer_transport_next_done(transport) == NULL, "it is never done");
	give_back(transfer);

	r.url = bad_url("/endless");
	r.max_response_size = (size_t) 1 << 30;
	transfer = infer_transport_submit(transport, &r);
	while (infer_transfer_result(transfer)->body->len == 0)
		turn(10);
	wire = infer_transfer_withdraw(transport, transfer);
	ok(wire.end == INFER_WIRE_CANCELLED && wire.status == 200 && wire.has_body,
	   "withdrawn while it answers: a body had come");
	give_back(transfer);

	r.url = bad_url("/ok");
	transfer = infer_transport_submit(transport, &r);
	while (infer_transport_running(transport) > 0)
		turn(100);
	wire = infer_transfer_withdraw(transport, transfer);
	ok(wire.end == INFER_WIRE_OK && wire.status == 200 && wire.has_body,
	   "withdrawn after its end: that is how it ended");
	give_back(transfer);
	ok(infer_transport_next_done(transport) == NULL, "and it is not handed out");
}

static void
test_hanging_resolver(void)
{
	InferHttpRequest r = request("http://hang.invalid/v1");
	InferTransport *kept = transport;
	InferTransfer *transfer;
	int64_t start;

	atomic_store(&hook_resolver_hangs, 1);
	transfer = infer_transport_submit(transport, &r);
	while (atomic_load(&hook_resolvers_busy) == 0)
		turn(10);
	start = now_us();
	ok(!infer_transfer_left(transfer), "cancelled while resolving: not left");
	give_back(transfer);
	ok(now_us() - start < 50000, "release does not wait for the resolver");

	r.connect_timeout_ms = 100;
	expect_not_left(&r, INFER_WIRE_LOOKUP, 400, "a resolver that hangs is timed out");

	transport = infer_transport_create(4);
	infer_transport_submit(transport, &r);
	while (atomic_load(&hook_resolvers_busy) < 3)
		turn(10);
	start = now_us();
	infer_transport_destroy(transport);
	ok(now_us() - start < 50000, "destroy does not wait for the resolver");
	transport = kept;

	atomic_store(&hook_resolver_hangs, 0);
	ok(reaches(&hook_resolvers_busy, 0), "the threads end when the resolver answers");
	ok(atomic_load(&hook_resolver_exposed) == 0, "no signal is open in the resolver's thread");
	sleep_ms(50);
}

/* --- failures of the system --- */

static void
test_system_failures(void)
{
	InferTransfer *transfer;
	const InferHttpResult *result;
	int executed;

	/* a kept connection that died: nothing was sent, so it may be sent again */
	give_back(run_bad("/ok"));
	executed = atomic_load(&bad.executed);
	atomic_store(&hook_fail_sends, 1);
	transfer = run_bad("/ok");
	result = infer_transfer_result(transfer);
	ok(result->wire.end == INFER_WIRE_OK && body_is(transfer, TEXT) &&
		   atomic_load(&bad.executed) == executed + 1,
	   "a send that failed whole on a kept connection is repeated");
	give_back(transfer);

	/* ... but a second one is a loss */
	atomic_store(&hook_fail_sends, 2);
	transfer = run_bad("/ok");
	result = infer_transfer_result(transfer);
	ok(result->wire.end == INFER_WIRE_DISCONNECT && result->wire.left &&
		   !result->wire.request_complete && atomic_load(&bad.executed) == executed + 1,
	   "a send that failed whole is not complete");
	give_back(transfer);

	/* an answer that is there at once may be read without a watch */
	atomic_store(&hook_fail_watches, 1);
	transfer = run_bad("/hang");
	result = infer_transfer_result(transfer);
	ok(result->wire.end == INFER_WIRE_INTERNAL && result->error[0] != '\0',
	   "a socket that cannot be watched fails its request");
	give_back(transfer);
	expect("/ok", INFER_WIRE_OK, 200, true, "... and the next one works");
}

/* Connections and the epoll; curl's private wake-up pair is beyond reach, and harmless. */
static bool
all_close_on_exec(void)
{
	bool good = (fcntl(infer_transport_fd(transport), F_GETFD) & FD_CLOEXEC) != 0;
	int connections = 0;

	for (int fd = 0; fd < 1024; fd++)
	{
		int domain = 0;
		socklen_t len = sizeof(domain);

		if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) != 0 || domain != AF_INET)
			continue;
		connections++;
		good = good && (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
	}
	return good && connections > 0;
}

static void
test_process(void)
{
	const char *headers[] = {"X-Request-Id: 1", NULL};
	InferHttpRequest r = request(bad_url("/secret"));
	InferTransfer *transfer;
	sigset_t before, after;
	bool same = true;

	r.headers = headers;
	r.secret_header = "Authorization: Bearer " SECRET;
	hook_secret = SECRET;
	transfer = run(&r);
	ok(strcmp(bad.last_secret, "Bearer " SECRET) == 0, "the secret header is sent");
	ok(atomic_load(&hook_wiped) == 0, "... and kept while the transfer lives");
	give_back(transfer);
	ok(atomic_load(&hook_wiped) == 1, "... and wiped on release");
	r.secret_header = NULL;
	give_back(run(&r));
	ok(bad.last_secret[0] == '\0', "... and not sent by the next user of the handle");
	hook_secret = "";

	pthread_sigmask(SIG_SETMASK, NULL, &before);
	give_back(run_bad("/ok"));
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	for (int s = 1; s < 32; s++)
		same = same && sigismember(&before, s) == sigismember(&after, s);
	ok(same, "the signal mask is as before");
	ok(all_close_on_exec(), "no connection is inherited by other programs");
}

static void
test_idle(void)
{
	InferHttpRequest r = request(bad_url("/ok"));
	int connections;

	r.max_idle_s = 1;
	give_back(run(&r));
	connections = atomic_load(&bad.connections);
	give_back(run(&r));
	ok(atomic_load(&bad.connections) == connections, "used again at once");
	sleep_ms(1100);
	give_back(run(&r));
	ok(atomic_load(&bad.connections) == connections + 1, "not used again after max_idle_s");
}

/* --- many --- */

/* total requests to path, at most window at a time; returns how many were good. */
static int
run_many(const char *path, int total, int window)
{
	char url[128];
	const char *body = "{\"model\":\"m\",\"max_tokens\":4,"
					   "\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}";
	InferHttpRequest r;
	int started = 0, done = 0, good = 0;

	snprintf(url, sizeof(url), "http://127.0.0.1:%d%s", mock_port, path);
	r = request(url);
	r.body = body;
	r.body_len = strlen(body);
	r.timeout_ms = 30000;
	r.secret_header = "Authorization: Bearer secret";
	while (done < total)
	{
		InferTransfer *transfer;

		while (started < total && started - done < window)
		{
			if (infer_transport_submit(transport, &r) == NULL)
				return -1;
			started++;
		}
		turn(5000);
		while ((transfer = infer_transport_next_done(transport)) != NULL)
		{
			good += infer_transfer_result(transfer)->wire.status == 200 &&
					strstr(infer_transfer_result(transfer)->body->data, "choices") != NULL;
			give_back(transfer);
			done++;
		}
	}
	return good;
}

static void
count_ends(int *ends, int *wrong)
{
	InferTransfer *transfer;

	while ((transfer = infer_transport_next_done(transport)) != NULL)
	{
		ends[infer_transfer_result(transfer)->wire.end]++;
		if (infer_transfer_user(transfer) != NULL && !body_is(transfer, TEXT))
			(*wrong)++;
	}
}

/*
 * Good and bad paths at random, forty at a time, some cancelled on the way: descriptors come back
 * as other sockets while events of the old ones are pending, handles change from user to user.
 */
static void
test_storm(void)
{
	static const char *const paths[] = {"/ok",      "/ok",          "/ok",      "/second-dies",
										"/dies",    "/reset",       "/short",   "/short-reset",
										"/garbage", "/until-close", "/gzip",    "/long-error",
										"/hang",    "/redirect",    "/refused", "/short-chunks"};
	InferTransfer *transfers[40] = {NULL};
	bool hangs[40] = {false};
	int nhangs = 0;
	int ends[INFER_WIRE_INTERNAL + 1] = {0};
	int wrong = 0;
	unsigned seed = 1;

	for (int i = 0; i < 4000; i++)
	{
		int slot = rand_r(&seed) % 40;
		const char *path = paths[(unsigned) rand_r(&seed) % (sizeof(paths) / sizeof(paths[0]))];
		InferHttpRequest r = request(bad_url(path));

		r.user = (void *) (strcmp(path, "/ok") == 0 || strcmp(path, "/gzip") == 0 ? TEXT : NULL);
		if (transfers[slot] != NULL)
			give_back(transfers[slot]);
		transfers[slot] = infer_transport_submit(transport, &r);
		hangs[slot] = strcmp(path, "/hang") == 0;
		turn(rand_r(&seed) % 2);
		count_ends(ends, &wrong);
	}
	/* the last ones have the time to end by themselves */
	for (int i = 0; i < 40; i++)
		nhangs += hangs[i];
	for (int i = 0; i < 1000 && infer_transport_running(transport) > nhangs; i++)
	{
		turn(20);
		count_ends(ends, &wrong);
	}
	for (int i = 0; i < 40; i++)
	{
		if (transfers[i] != NULL)
			give_back(transfers[i]);
	}
	ok(wrong == 0 && ends[INFER_WIRE_INTERNAL] == 0 && ends[INFER_WIRE_TIMEOUT] == 0,
	   "a storm: every good request has its answer");
	printf("# ok %d, disconnected %d, partial %d, no HTTP %d\n", ends[INFER_WIRE_OK],
		   ends[INFER_WIRE_DISCONNECT], ends[INFER_WIRE_PARTIAL], ends[INFER_WIRE_PROTOCOL]);
	ok(ends[INFER_WIRE_OK] > 0 && ends[INFER_WIRE_DISCONNECT] > 0 && ends[INFER_WIRE_PARTIAL] > 0 &&
		   ends[INFER_WIRE_PROTOCOL] > 0,
	   "... and every bad one its fault");
	ok(infer_transport_running(transport) == 0 && infer_transport_next_done(transport) == NULL,
	   "... and nothing is left over");
}

static void
test_many(void)
{
	int64_t start = now_us();
	int64_t cpu;
	long connections;

	mock_say("POST", "/control?base_ms=400&slots=0", NULL);
	ok(run_many("/v1/chat/completions", 1000, 1000) == 1000 && now_us() - start < 5000000,
	   "1,000 requests at once");
	ok(mock_say("GET", "/stats", "\"max_in_flight\"") >= 900, "... are in flight together");

	mock_say("POST", "/control?base_ms=0&slots=0", NULL);
	mock_say("POST", "/reset", NULL);
	connections = mock_say("GET", "/stats", "\"connections\"");
	cpu = cpu_us();
	ok(run_many("/v1/chat/completions", 20000, 16) == 20000, "20,000 small requests");
	printf("# %.1f us of CPU a request\n", (double) (cpu_us() - cpu) / 20000);
	connections = mock_say("GET", "/stats", "\"connections\"") - connections;
	ok(connections <= 18, "fault_F74 ... over no more than 16 connections");

	/* the many of before are gone but for max_connections */
	ok(mock_say("GET", "/stats", "\"open_connections\"") <= 64 + 18, "idle connections are few");
}

int
main(int argc, char **argv)
{
	pid_t mock;

	if (argc != 2)
	{
		fprintf(stderr, "usage: test_http MOCKD\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	mock = start_mock(argv[1]);
	if (mock < 0 || badserver_start(&bad) != 0 || (transport = infer_transport_create(64)) == NULL)
	{
		perror("set-up");
		return 2;
	}
	test_answers();
	test_header_values();
	test_late_looks();
	test_broken_answers();
	test_sizes();
	test_not_left();
	test_address_check();
	test_get();
	test_known_address();
	test_header_lines();
	test_head();
	test_tls_settings();
	test_timeout();
	test_cancel();
	test_fail_P3_P8_withdrawn();
	test_hanging_resolver();
	test_system_failures();
	test_process();
	test_idle();
	test_storm();
	test_many();

	infer_transport_destroy(transport);
	ok(reaches(&bad.open, 0), "destroy closes every connection");
	badserver_stop(&bad);
	kill(mock, SIGTERM);
	waitpid(mock, NULL, 0);
	printf("http: %d passed, %d failed\n", passed, failed);
	return failed > 0;
}
