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
#include "http_parts.h"

#include "http/headers.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

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
