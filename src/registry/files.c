/*
 * registry/files.c - small text files that options name: keys, certificates.
 *
 * Opened by hand, not through fd.c, for that would raise when descriptors run out; nothing between
 * open and close can raise.  Read at each use, so that a file which was replaced counts at once.
 */
#include "registry/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Into buffer, which has room for max + 1 bytes. Returns NULL or what went wrong. */
static const char *
infer_read_all(int fd, char *buffer, size_t max, size_t *len)
{
	struct stat status;

	*len = 0;
	if (fstat(fd, &status) != 0)
		return strerror(errno);
	if (!S_ISREG(status.st_mode))
		return "it is not a regular file";
	while (*len <= max)
	{
		ssize_t got = read(fd, buffer + *len, max + 1 - *len);

		if (got == 0)
			return NULL;
		if (got > 0)
			*len += got;
		else if (errno != EINTR)
			return strerror(errno);
	}
	return NULL;
}

char *
infer_file_read(const char *path, size_t max, size_t *len, const char **problem)
{
	char *buffer = palloc(max + 1);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block us */

	*len = 0;
	*problem = fd < 0 ? strerror(errno) : infer_read_all(fd, buffer, max, len);
	if (fd >= 0)
		close(fd);
	if (*problem == NULL && *len > max)
		*problem = psprintf("it has more than %zu kB", max / 1024);
	if (*problem == NULL && memchr(buffer, '\0', *len) != NULL)
		*problem = "it holds binary data";
	if (*problem == NULL)
	{
		buffer[*len] = '\0';
		return buffer;
	}
	explicit_bzero(buffer, *len);
	pfree(buffer);
	return NULL;
}
