/*
 * sim/http_kit.c - see http_kit.h.
 */
#define _GNU_SOURCE
#include "http_kit.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

InferTransport *transport;
BadServer bad;
int mock_port;
int passed, failed;

void
ok(bool good, const char *name)
{
	printf("%s - %s\n", good ? "ok" : "not ok", name);
	fflush(stdout);
	if (good)
		passed++;
	else
		failed++;
}

int64_t
now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t) t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t
cpu_us(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * (int64_t) 1000000 + u.ru_utime.tv_usec +
		   u.ru_stime.tv_usec;
}

void
sleep_ms(int ms)
{
	usleep((useconds_t) ms * 1000);
}

/* Waits until the counter has the value; false after two seconds. */
bool
reaches(atomic_int *counter, int value)
{
	for (int i = 0; i < 400; i++)
	{
		if (atomic_load(counter) == value)
			return true;
		sleep_ms(5);
	}
	return false;
}

/* One turn of the owner's loop: sleep, then step. */
void
turn(int max_ms)
{
	struct pollfd p = {infer_transport_fd(transport), POLLIN, 0};
	long ms = infer_transport_timeout_ms(transport);

	if (ms < 0 || ms > max_ms)
		ms = max_ms;
	(void) poll(&p, 1, (int) ms);
	infer_transport_watched(transport);
	infer_transport_step(transport);
}

InferHttpRequest
request(const char *url)
{
	return (InferHttpRequest){
		.url = url,
		.body = "{\"model\":\"m\"}",
		.body_len = 13,
		.connect_timeout_ms = 2000,
		.timeout_ms = 5000,
		.max_response_size = MB,
		.max_idle_s = 10,
	};
}

/* A url of the misbehaving server; good until the fourth call after this one. */
const char *
bad_url(const char *path)
{
	static char urls[4][128];
	static int next;
	char *url = urls[next++ % 4];

	snprintf(url, sizeof(urls[0]), "http://127.0.0.1:%d%s", bad.port, path);
	return url;
}

InferTransfer *
wait_done(void)
{
	InferTransfer *transfer;
	int64_t end = now_us() + 20 * 1000000;

	while ((transfer = infer_transport_next_done(transport)) == NULL && now_us() < end)
		turn(1000);
	if (transfer == NULL)
	{
		printf("Bail out! a transfer never ended\n");
		exit(1);
	}
	return transfer;
}

InferTransfer *
run(const InferHttpRequest *r)
{
	if (infer_transport_submit(transport, r) == NULL)
	{
		printf("Bail out! submit failed\n");
		exit(1);
	}
	return wait_done();
}

InferTransfer *
run_bad(const char *path)
{
	InferHttpRequest r = request(bad_url(path));

	return run(&r);
}

void
give_back(InferTransfer *transfer)
{
	infer_transfer_release(transport, transfer);
}

/* Runs path and compares how it ended. */
void
expect(const char *path, InferWireEnd end, int status, bool left, const char *name)
{
	InferTransfer *transfer = run_bad(path);
	const InferHttpResult *result = infer_transfer_result(transfer);
	const InferWire *wire = &result->wire;
	bool good = wire->end == end && wire->status == status && wire->left == left &&
				wire->request_complete == left && infer_transfer_left(transfer) == left &&
				(end == INFER_WIRE_OK) == (result->error[0] == '\0');

	if (!good)
		printf("# %s: end %d status %d left %d complete %d body %d error '%s'\n", path, wire->end,
			   wire->status, wire->left, wire->request_complete, wire->has_body, result->error);
	ok(good, name);
	give_back(transfer);
}

bool
body_is(const InferTransfer *transfer, const char *text)
{
	const InferBuf *body = infer_transfer_result(transfer)->body;

	return body->len == strlen(text) && memcmp(body->data, text, body->len) == 0;
}

void
expect_not_left(const InferHttpRequest *r, InferWireEnd end, int64_t max_ms, const char *name)
{
	InferTransfer *transfer = run(r);
	const InferHttpResult *result = infer_transfer_result(transfer);
	bool good = result->wire.end == end && !result->wire.left && !result->wire.request_complete &&
				result->wire.status == 0 && !infer_transfer_left(transfer) &&
				result->elapsed_us < max_ms * 1000 && result->error[0] != '\0';

	if (!good)
		printf("# end %d left %d elapsed %lld error '%s'\n", result->wire.end, result->wire.left,
			   (long long) result->elapsed_us, result->error);
	ok(good, name);
	give_back(transfer);
}

/* A number out of GET /stats, or what POST /control answers. */
long
mock_say(const char *method, const char *path, const char *name)
{
	static char answer[65536];
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t) mock_port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t len = 0;
	ssize_t n;
	char *at;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (connect(fd, (struct sockaddr *) &address, sizeof(address)) != 0)
	{
		close(fd);
		return -1;
	}
	dprintf(fd, "%s %s HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
			method, path);
	while ((n = read(fd, answer + len, sizeof(answer) - 1 - len)) > 0)
		len += (size_t) n;
	close(fd);
	answer[len] = '\0';
	at = name != NULL ? strstr(answer, name) : NULL;
	return at != NULL ? atol(at + strlen(name) + 1) : 0;
}

pid_t
start_mock(const char *program)
{
	int fds[2];
	char line[256] = "";
	pid_t pid;
	char *at;
	ssize_t n;

	if (pipe2(fds, O_CLOEXEC) != 0)
		return -1;
	pid = fork();
	if (pid == 0)
	{
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(fds[1], 1);
		execl(program, program, "-p", "0", "base_ms=0", "slots=0", (char *) NULL);
		_exit(127);
	}
	close(fds[1]);
	n = read(fds[0], line, sizeof(line) - 1);
	close(fds[0]);
	if (n <= 0)
		return -1;
	/* "... http://127.0.0.1:PORT ..." */
	at = strstr(line, "127.0.0.1:");
	mock_port = at != NULL ? atoi(at + 10) : 0;
	return mock_port > 0 ? pid : -1;
}
