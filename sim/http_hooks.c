/*
 * sim/http_hooks.c - see http_hooks.h.
 */
#define _GNU_SOURCE
#include "http_hooks.h"

#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

atomic_int hook_fail_sends;
atomic_int hook_fail_watches;
atomic_int hook_resolver_hangs;
atomic_int hook_resolvers_busy;
atomic_int hook_resolver_exposed;
atomic_int hook_wiped;
const char *hook_secret = "";

/* Takes one from the counter if there is one. */
static int
take(atomic_int *counter)
{
	int n = atomic_load(counter);

	while (n > 0)
	{
		if (atomic_compare_exchange_weak(counter, &n, n - 1))
			return 1;
	}
	return 0;
}

static int
ends_with(const char *s, const char *end)
{
	size_t n = strlen(s);
	size_t m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

int
getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
			struct addrinfo **result)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
	sigset_t mask;

	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	if (!sigismember(&mask, SIGUSR1) || !sigismember(&mask, SIGALRM) ||
		!sigismember(&mask, SIGTERM))
		atomic_fetch_add(&hook_resolver_exposed, 1);

	if (node != NULL && ends_with(node, ".invalid"))
	{
		if (strcmp(node, "hang.invalid") == 0)
		{
			struct timespec pause = {0, 10 * 1000 * 1000};

			atomic_fetch_add(&hook_resolvers_busy, 1);
			while (atomic_load(&hook_resolver_hangs))
				nanosleep(&pause, NULL);
			atomic_fetch_sub(&hook_resolvers_busy, 1);
		}
		return EAI_NONAME;
	}
	*(void **) &real = dlsym(RTLD_NEXT, "getaddrinfo");
	return real(node, service, hints, result);
}

ssize_t
send(int fd, const void *bytes, size_t n, int flags)
{
	ssize_t (*real)(int, const void *, size_t, int);

	if (take(&hook_fail_sends))
	{
		errno = EPIPE;
		return -1;
	}
	*(void **) &real = dlsym(RTLD_NEXT, "send");
	return real(fd, bytes, n, flags);
}

int
epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event)
{
	int (*real)(int, int, int, struct epoll_event *);

	if (op == EPOLL_CTL_ADD && take(&hook_fail_watches))
	{
		errno = ENOMEM;
		return -1;
	}
	*(void **) &real = dlsym(RTLD_NEXT, "epoll_ctl");
	return real(epoll_fd, op, fd, event);
}

void
explicit_bzero(void *bytes, size_t n)
{
	volatile char *p = bytes;
	const char *secret = hook_secret;
	size_t len = strlen(secret);

	for (size_t i = 0; len > 0 && i + len <= n; i++)
	{
		size_t same = 0;

		while (same < len && p[i + same] == secret[same])
			same++;
		if (same == len)
			atomic_fetch_add(&hook_wiped, 1);
	}
	while (n-- > 0)
		*p++ = 0;
}
