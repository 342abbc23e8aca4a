/*
 * slow_dns - name resolution that misbehaves on demand, for LD_PRELOAD into a test server.
 *
 *   hang.test   never resolves: the call sleeps until the process ends (at most 10 minutes)
 *   fail.test   fails at once: no such name
 *   far.test    is 127.0.0.1 under a name that does not say so
 *
 * All other names are resolved as usual. Each call for hang.test adds a line with the process
 * number to the file $SLOW_DNS_LOG, so that a test knows who waits.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int (*resolver)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

static void
note_caller(void)
{
	const char *path = getenv("SLOW_DNS_LOG");
	char line[32];
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
	int len = snprintf(line, sizeof(line), "%d\n", (int) getpid());

	if (fd < 0)
		return;
	if (write(fd, line, (size_t) len) != len)
		abort();
	close(fd);
}

int
getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
			struct addrinfo **result)
{
	resolver real = (resolver) dlsym(RTLD_NEXT, "getaddrinfo");

	if (node != NULL && strcmp(node, "fail.test") == 0)
		return EAI_NONAME;
	if (node != NULL && strcmp(node, "hang.test") == 0)
	{
		note_caller();
		for (int i = 0; i < 6000; i++)
			nanosleep(&(struct timespec){.tv_nsec = 100 * 1000 * 1000}, NULL);
		return EAI_AGAIN;
	}
	if (node != NULL && strcmp(node, "far.test") == 0)
		node = "127.0.0.1";
	return real(node, service, hints, result);
}
