/*
 * sim/badserver.c - see badserver.h.
 *
 *	/ok            200, kept alive
 *	/secret        as /ok; notes the Authorization header
 *	/second-dies   the first request of a connection is answered; a later one is executed, then the
 *	               connection is closed without a byte
 *	/gone          as /second-dies, but the server takes no further connections by then
 *	/dies          executed, then closed without a byte
 *	/reset         executed, then reset
 *	/short         200 with a Content-Length, cut after half of the body
 *	/short-reset   as /short, but reset
 *	/short-chunks  200 chunked, without the last chunk
 *	/until-close   200 without a length; whole
 *	/garbage       no HTTP
 *	/long-header   a header of 300 kB
 *	/informed      100 and 103 before the answer
 *	/announced     200 with a Content-Length of 1 GB
 *	/endless       200 chunked for ever
 *	/long-error    500 with 200 kB
 *	/endless-error 500 for ever
 *	/redirect      307 to /target
 *	/gzip          200 chunked and gzip, the same text as /ok
 *	/bomb          200 gzip: a few kB that become 64 MB
 *	/wait-seconds  429 with Retry-After: 7
 *	/wait-date     503 with Retry-After: a date in 30 seconds
 *	/rate          200 with x-ratelimit headers
 *	/rate-odd      200 with x-ratelimit headers that cannot be read
 *	/hang          reads the request and never answers
 *	/unread        reads the head of the request and no more
 *	/early         413 after the head of the request, then reset
 *	/split         a good answer in pieces of one byte
 *
 * TLS is answered with words.
 */
#define _GNU_SOURCE
#include "badserver.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TEXT "{\"text\":\"good morning\"}"

typedef struct Connection
{
	BadServer *server;
	int fd;
	int served; /* requests before this one */
	char *in;
	size_t len;
} Connection;

typedef enum Next
{
	KEEP,
	CLOSE,
	RESET
} Next;

static int
put(int fd, const void *bytes, size_t n)
{
	const char *p = bytes;

	while (n > 0)
	{
		ssize_t k = write(fd, p, n);

		if (k <= 0)
			return -1;
		p += k;
		n -= (size_t) k;
	}
	return 0;
}

static int
puts_to(int fd, const char *s)
{
	return put(fd, s, strlen(s));
}

static void
answer(int fd, const char *status, const char *headers, const char *body)
{
	char head[512];

	snprintf(head, sizeof(head), "HTTP/1.1 %s\r\n%sContent-Length: %zu\r\n\r\n", status, headers,
			 strlen(body));
	puts_to(fd, head);
	puts_to(fd, body);
}

static void
chunk(int fd, const void *bytes, size_t n)
{
	char size[32];

	snprintf(size, sizeof(size), "%zx\r\n", n);
	puts_to(fd, size);
	put(fd, bytes, n);
	puts_to(fd, "\r\n");
}

/* gzip of s in one stored block (RFC 1951 §3.2.4, RFC 1952). */
static size_t
gzip_stored(const char *s, unsigned char *out)
{
	static const unsigned char head[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1};
	uint32_t n = (uint32_t) strlen(s);
	uint32_t crc = 0xffffffffu;
	size_t at = sizeof(head);

	memcpy(out, head, at);
	for (int i = 0; i < 2; i++)
		out[at++] = (unsigned char) (n >> (8 * i));
	for (int i = 0; i < 2; i++)
		out[at++] = (unsigned char) (~n >> (8 * i));
	memcpy(out + at, s, n);
	at += n;
	for (uint32_t i = 0; i < n; i++)
	{
		crc ^= (unsigned char) s[i];
		for (int bit = 0; bit < 8; bit++)
			crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0);
	}
	crc = ~crc;
	for (int i = 0; i < 4; i++)
		out[at++] = (unsigned char) (crc >> (8 * i));
	for (int i = 0; i < 4; i++)
		out[at++] = (unsigned char) (n >> (8 * i));
	return at;
}

/* A gzip head and a fixed-code block of one zero and repetitions of it: 13 bits per 258 bytes. */
static size_t
gzip_bomb(unsigned char *out, size_t size)
{
	static const unsigned char head[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
	size_t bit = sizeof(head) * 8;
	const char *bits = "11000101" /* length 258 */ "00000" /* distance 1 */;

	memset(out, 0, size);
	memcpy(out, head, sizeof(head));
	/* last block, fixed codes, literal zero (00110000) */
	for (const char *b = "11000110000"; *b != '\0'; b++, bit++)
		out[bit / 8] |= (unsigned char) ((*b - '0') << (bit % 8));
	while (bit / 8 + 4 < size)
	{
		for (const char *b = bits; *b != '\0'; b++, bit++)
			out[bit / 8] |= (unsigned char) ((*b - '0') << (bit % 8));
	}
	return size;
}

/* Until the client goes; whatever it still sends is not taken. */
static void
wait_for_client(Connection *c)
{
	char byte;

	atomic_fetch_add(&c->server->waiting, 1);
	while (recv(c->fd, &byte, 1, 0) > 0)
		continue;
	atomic_fetch_sub(&c->server->waiting, 1);
	atomic_fetch_add(&c->server->abandoned, 1);
}

static Next
endless(Connection *c, const char *status)
{
	char head[128];
	static const char piece[16384];

	snprintf(head, sizeof(head), "HTTP/1.1 %s\r\nTransfer-Encoding: chunked\r\n\r\n", status);
	puts_to(c->fd, head);
	for (;;)
	{
		char size[] = "4000\r\n";

		if (puts_to(c->fd, size) != 0 || put(c->fd, piece, sizeof(piece)) != 0 ||
			puts_to(c->fd, "\r\n") != 0)
			return CLOSE;
		atomic_fetch_add(&c->server->sent, (long) sizeof(piece));
	}
}

static Next
serve_sizes(Connection *c, const char *path)
{
	static char big[300 * 1024];
	unsigned char zip[256];

	if (strcmp(path, "/long-header") == 0)
	{
		memset(big, 'x', sizeof(big));
		puts_to(c->fd, "HTTP/1.1 200 OK\r\nX-Long: ");
		put(c->fd, big, sizeof(big));
		puts_to(c->fd, "\r\n\r\n");
		return CLOSE;
	}
	if (strcmp(path, "/announced") == 0)
	{
		puts_to(c->fd, "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n" TEXT);
		wait_for_client(c);
		return CLOSE;
	}
	if (strcmp(path, "/endless") == 0)
		return endless(c, "200 OK");
	if (strcmp(path, "/endless-error") == 0)
		return endless(c, "500 Internal Server Error");
	if (strcmp(path, "/long-error") == 0)
	{
		memset(big, 'e', 200 * 1024);
		puts_to(c->fd, "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 204800\r\n\r\n");
		put(c->fd, big, 200 * 1024);
		return KEEP;
	}
	if (strcmp(path, "/bomb") == 0)
	{
		size_t size = 64 * 1024 * 1024 / 258 * 13 / 8;
		unsigned char *bomb = malloc(size);

		size = gzip_bomb(bomb, size);
		puts_to(c->fd, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n");
		put(c->fd, bomb, size);
		free(bomb);
		return CLOSE;
	}
	if (strcmp(path, "/gzip") == 0)
	{
		size_t n = gzip_stored(TEXT, zip);

		puts_to(c->fd, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n"
					   "Transfer-Encoding: chunked\r\n\r\n");
		for (size_t at = 0; at < n; at += 7)
			chunk(c->fd, zip + at, n - at < 7 ? n - at : 7);
		puts_to(c->fd, "0\r\n\r\n");
		return KEEP;
	}
	return CLOSE;
}

static Next
serve_cut(Connection *c, const char *path)
{
	if (strcmp(path, "/second-dies") == 0 || strcmp(path, "/gone") == 0)
	{
		if (c->served == 0)
			answer(c->fd, "200 OK", "", TEXT);
		else if (path[1] == 'g')
			shutdown(c->server->listen_fd, SHUT_RDWR);
		return c->served == 0 ? KEEP : CLOSE;
	}
	if (strcmp(path, "/reset") == 0)
		return RESET;
	if (strncmp(path, "/short", 6) == 0)
	{
		if (strcmp(path, "/short-chunks") == 0)
		{
			puts_to(c->fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
			chunk(c->fd, TEXT, 10);
			return CLOSE;
		}
		puts_to(c->fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" TEXT);
		if (strcmp(path, "/short") == 0)
			return CLOSE;
		usleep(50000); /* or the reset would overtake the bytes */
		return RESET;
	}
	if (strcmp(path, "/until-close") == 0)
		puts_to(c->fd, "HTTP/1.1 200 OK\r\n\r\n" TEXT);
	if (strcmp(path, "/garbage") == 0)
		puts_to(c->fd, "Good morning, this is no HTTP\r\nat all\r\n\r\n");
	return CLOSE; /* /dies, too */
}

static Next
serve(Connection *c, const char *path)
{
	if (strcmp(path, "/ok") == 0 || strcmp(path, "/secret") == 0 || strcmp(path, "/head") == 0)
		answer(c->fd, "200 OK", "", TEXT);
	else if (strcmp(path, "/informed") == 0)
	{
		puts_to(c->fd, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nX-A: b\r\n\r\n");
		answer(c->fd, "200 OK", "", TEXT);
	}
	else if (strcmp(path, "/split") == 0)
	{
		const char *whole = "HTTP/1.1 200 OK\r\nContent-Length: 23\r\n\r\n" TEXT;

		for (; *whole != '\0'; whole++)
		{
			put(c->fd, whole, 1);
			usleep(200);
		}
	}
	else if (strcmp(path, "/redirect") == 0)
		answer(c->fd, "307 Temporary Redirect", "Location: /target\r\n", "");
	else if (strcmp(path, "/target") == 0)
	{
		atomic_fetch_add(&c->server->target, 1);
		answer(c->fd, "200 OK", "", TEXT);
	}
	else if (strcmp(path, "/wait-seconds") == 0)
		answer(c->fd, "429 Too Many Requests", "Retry-After: 7\r\n", "{\"error\":\"busy\"}");
	else if (strcmp(path, "/wait-date") == 0)
	{
		char header[64];
		time_t when = time(NULL) + 30;
		struct tm tm;

		gmtime_r(&when, &tm);
		strftime(header, sizeof(header), "Retry-After: %a, %d %b %Y %H:%M:%S GMT\r\n", &tm);
		answer(c->fd, "503 Service Unavailable", header, "{\"error\":\"later\"}");
	}
	else if (strcmp(path, "/rate") == 0)
		answer(c->fd, "200 OK",
			   "x-ratelimit-remaining-requests: 3\r\nx-ratelimit-reset-requests: 1h6m0.5s\r\n"
			   "X-RateLimit-Remaining-Tokens: 0\r\nX-RateLimit-Reset-Tokens: 20ms\r\n",
			   TEXT);
	else if (strcmp(path, "/rate-odd") == 0)
		answer(c->fd, "200 OK",
			   "x-ratelimit-remaining-requests: 3\r\nx-ratelimit-reset-requests: 1 hour\r\n"
			   "x-ratelimit-remaining-tokens: many\r\nx-ratelimit-reset-tokens: 2\r\n",
			   TEXT);
	else if (strcmp(path, "/hang") == 0)
	{
		wait_for_client(c);
		return CLOSE;
	}
	else
	{
		Next next = serve_sizes(c, path);

		return next == KEEP ? next : serve_cut(c, path);
	}
	return KEEP;
}

/* Reads until there is a head, and unless told otherwise the body that it announces. */
static int
read_request(Connection *c, char *path, size_t path_size)
{
	size_t want = 0;
	char *body = NULL;
	char *header;

	c->len = 0;
	while (body == NULL || c->len < want)
	{
		ssize_t k;

		c->in = realloc(c->in, c->len + 65537);
		k = read(c->fd, c->in + c->len, 65536);
		if (k <= 0)
			return -1;
		c->len += (size_t) k;
		c->in[c->len] = '\0';
		if (c->in[0] == 0x16) /* the first byte of TLS */
		{
			puts_to(c->fd, "HTTP/1.1 400 Bad Request\r\n\r\n");
			return -1;
		}
		if (body != NULL || (body = strstr(c->in, "\r\n\r\n")) == NULL)
			continue;
		header = strcasestr(c->in, "\r\nContent-Length:");
		want = (size_t) (body + 4 - c->in) + (header != NULL ? strtoul(header + 17, NULL, 10) : 0);
		header = c->in + strcspn(c->in, " ") + 1; /* behind the method */
		snprintf(path, path_size, "%.*s", (int) strcspn(header, " "), header);
		if (strcmp(path, "/head") == 0)
			snprintf(c->server->last_head, sizeof(c->server->last_head), "%.*s",
					 (int) (body - c->in), c->in);
		if (strcmp(path, "/secret") == 0)
		{
			header = strcasestr(c->in, "\r\nAuthorization: ");
			c->server->last_secret[0] = '\0';
			if (header != NULL)
				sscanf(header + 17, "%63[^\r]", c->server->last_secret);
		}
		if (strcmp(path, "/unread") == 0 || strcmp(path, "/early") == 0)
			return 0;
	}
	atomic_fetch_add(&c->server->executed, 1);
	return 0;
}

static void *
connection_main(void *arg)
{
	Connection *c = arg;
	char path[64];
	Next next = KEEP;

	while (next == KEEP && read_request(c, path, sizeof(path)) == 0)
	{
		if (strcmp(path, "/unread") == 0)
		{
			/* with the window closed nothing would tell us that the client went */
			atomic_fetch_add(&c->server->waiting, 1);
			while (!atomic_load(&c->server->unread_over))
				usleep(10000);
			atomic_fetch_sub(&c->server->waiting, 1);
			next = RESET;
		}
		else if (strcmp(path, "/early") == 0)
		{
			answer(c->fd, "413 Payload Too Large", "Connection: close\r\n", "{\"error\":\"big\"}");
			usleep(50000);
			next = RESET;
		}
		else
			next = serve(c, path);
		c->served++;
	}
	if (next == RESET)
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
	close(c->fd);
	atomic_fetch_sub(&c->server->open, 1);
	free(c->in);
	free(c);
	return NULL;
}

static void *
server_main(void *arg)
{
	BadServer *server = arg;
	int fd;

	while ((fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0)
	{
		Connection *c = calloc(1, sizeof(*c));
		pthread_t thread;

		c->server = server;
		c->fd = fd;
		atomic_fetch_add(&server->connections, 1);
		atomic_fetch_add(&server->open, 1);
		pthread_create(&thread, NULL, connection_main, c);
		pthread_detach(thread);
	}
	return NULL;
}

int
badserver_start(BadServer *server)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t len = sizeof(address);
	pthread_t thread;

	memset(server, 0, sizeof(*server));
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	server->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(server->listen_fd, (struct sockaddr *) &address, sizeof(address)) != 0 ||
		listen(server->listen_fd, 128) != 0 ||
		getsockname(server->listen_fd, (struct sockaddr *) &address, &len) != 0 ||
		pthread_create(&thread, NULL, server_main, server) != 0)
		return -1;
	pthread_detach(thread);
	server->port = ntohs(address.sin_port);
	return 0;
}

void
badserver_stop(BadServer *server)
{
	shutdown(server->listen_fd, SHUT_RDWR);
	close(server->listen_fd);
}
