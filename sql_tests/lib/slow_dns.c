/*
 * slow_dns - name resolution that misbehaves on demand, for LD_PRELOAD into a test server.
 *
 *   hang.test   never resolves: the call sleeps until the process ends (at most 10 minutes)
 *   fail.test   fails at once: no such name
 *   far.test    is 127.0.0.1 under a name that does not say so
 *
 * and the names that stand in the file $DNS_HOSTS, which is read at each call: a line each, the name
 * and its addresses, as many as there are. All others are resolved as usual. Each call for hang.test
 * adds a line with the process number to the file $SLOW_DNS_LOG, so that a test knows who waits;
 * each call at all adds the name and the process number to the file $DNS_LOG.
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
add_line(const char *path, const char *text)
{
	char line[300];
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
	int len = snprintf(line, sizeof(line), "%.250s\n", text);

	if (fd < 0)
		return;
	if (write(fd, line, (size_t) len) != len)
		abort();
	close(fd);
}

/* The addresses of a line, in their order. */
static int
resolve_all(resolver real, char *addresses, const char *service, const struct addrinfo *hints,
			struct addrinfo **result)
{
	struct addrinfo **end = result;
	char *rest = addresses;
	char *address;

	*result = NULL;
	while ((address = strtok_r(rest, " \n", &rest)) != NULL)
	{
		if (real(address, service, hints, end) != 0)
			*end = NULL;
		while (*end != NULL)
			end = &(*end)->ai_next;
	}
	return *result != NULL ? 0 : EAI_NONAME;
}

int
getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
			struct addrinfo **result)
{
	resolver real = (resolver) dlsym(RTLD_NEXT, "getaddrinfo");
	const char *hosts = getenv("DNS_HOSTS");
	FILE *file = node != NULL && hosts != NULL ? fopen(hosts, "r") : NULL;
	char line[500];

	if (node != NULL)
	{
		char who[300];

		snprintf(who, sizeof(who), "%.240s %d", node, (int) getpid());
		add_line(getenv("DNS_LOG"), who);
	}
	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
	{
		size_t len = strlen(node);

		if (strncmp(line, node, len) == 0 && line[len] == ' ')
		{
			fclose(file);
			return resolve_all(real, line + len, service, hints, result);
		}
	}
	if (file != NULL)
		fclose(file);
	if (node != NULL && strcmp(node, "fail.test") == 0)
		return EAI_NONAME;
	if (node != NULL && strcmp(node, "hang.test") == 0)
	{
		char pid[20];

		snprintf(pid, sizeof(pid), "%d", (int) getpid());
		add_line(getenv("SLOW_DNS_LOG"), pid);
		for (int i = 0; i < 6000; i++)
			nanosleep(&(struct timespec){.tv_nsec = 100 * 1000 * 1000}, NULL);
		return EAI_AGAIN;
	}
	if (node != NULL && strcmp(node, "far.test") == 0)
		node = "127.0.0.1";
	return real(node, service, hints, result);
}
