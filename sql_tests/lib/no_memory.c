/*
 * For LD_PRELOAD: memory that is not there.
 *
 * While the file NO_MEMORY_FILE exists there is none for pieces of NO_MEMORY_FROM to NO_MEMORY_TO
 * bytes, if these are set.  Where it says "PID N" there is none for the Nth piece that the process
 * asks for since, of whatever size, nor for the hundredth after it and so on; the file
 * NO_MEMORY_FILE.PID appears with the first of them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AGAIN 100

/* glibc's own, for looking the real ones up would need memory */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *piece, size_t size);

static bool
is_of_bad_size(size_t size)
{
	static size_t from, to; /* the environment does not change */

	if (from == 0)
	{
		const char *low = getenv("NO_MEMORY_FROM");
		const char *high = getenv("NO_MEMORY_TO");

		from = low != NULL ? strtoul(low, NULL, 10) : 1;
		to = high != NULL ? strtoul(high, NULL, 10) : 0;
	}
	return size >= from && size <= to;
}

static void
leave_trace(const char *path)
{
	char trace[300];
	int fd;

	snprintf(trace, sizeof(trace), "%s.%d", path, (int) getpid());
	fd = open(trace, O_WRONLY | O_CREAT, 0600);
	if (fd >= 0)
		close(fd);
}

/* Has this process's turn come? */
static bool
is_due(const char *path, int fd)
{
	static char seen[40];
	static long count;
	char said[40] = "";
	int pid;
	long n;

	if (read(fd, said, sizeof(said) - 1) <= 0 || sscanf(said, "%d %ld", &pid, &n) != 2 ||
		pid != (int) getpid())
		return false;
	if (strcmp(said, seen) != 0)
	{
		memcpy(seen, said, sizeof(seen));
		count = 0;
	}
	if (++count < n || (count - n) % AGAIN != 0)
		return false;
	leave_trace(path);
	return true;
}

static bool
is_missing(size_t size)
{
	const char *path = getenv("NO_MEMORY_FILE");
	int before = errno;
	int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	bool missing = fd >= 0 && (is_of_bad_size(size) || is_due(path, fd));

	if (fd >= 0)
		close(fd);
	errno = missing ? ENOMEM : before;
	return missing;
}

void *
malloc(size_t size)
{
	return is_missing(size) ? NULL : __libc_malloc(size);
}

void *
calloc(size_t n, size_t size)
{
	return is_missing(n * size) ? NULL : __libc_calloc(n, size);
}

void *
realloc(void *piece, size_t size)
{
	return is_missing(size) ? NULL : __libc_realloc(piece, size);
}
