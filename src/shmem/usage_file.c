/*
 * shmem/usage_file.c - the file that keeps usage over restarts.
 *
 *   magic | format | size of what follows | CRC-32C of what follows and of these | parts
 *
 * PostgreSQL's own functions for files raise when descriptors run out, and this is called at the
 * end of requests, where nothing may; so it takes BasicOpenFile(), which does not.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pgstat.h"
#include "port/pg_crc32c.h"
#include "storage/fd.h"

#include "shmem/usage_file.h"

#define FOLDER PGSTAT_STAT_PERMANENT_DIRECTORY
#define PATH   FOLDER "/pg_inference.usage"
#define ASIDE  PATH ".bad"
#define BESIDE PATH ".tmp"

#define MAGIC  0x70676975 /* "pgiu" */
#define FORMAT 1          /* to be raised when the image changes */

#define MAX_SIZE ((uint64) 4 << 30)

typedef struct UsageFileHead
{
	uint32 magic;
	uint32 format;
	uint64 size;
	pg_crc32c crc; /* computed with this as 0 */
} UsageFileHead;

static pg_crc32c
checksum(const UsageFileHead *head, const InferUsagePart *parts, int nparts)
{
	UsageFileHead zeroed;
	pg_crc32c crc;

	memset(&zeroed, 0, sizeof(zeroed));
	zeroed.magic = head->magic;
	zeroed.format = head->format;
	zeroed.size = head->size;
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &zeroed, sizeof(zeroed));
	for (int i = 0; i < nparts; i++)
		COMP_CRC32C(crc, parts[i].data, parts[i].size);
	FIN_CRC32C(crc);
	return crc;
}

static bool
write_all(int fd, const void *data, size_t size)
{
	const char *at = data;

	while (size > 0)
	{
		ssize_t n = write(fd, at, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
		{
			if (n == 0)
				errno = ENOSPC;
			return false;
		}
		at += n;
		size -= n;
	}
	return true;
}

static bool
read_all(int fd, void *data, size_t size)
{
	char *at = data;

	while (size > 0)
	{
		ssize_t n = read(fd, at, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		size -= n;
	}
	return true;
}

/* Makes the rename last. */
static bool
sync_folder(void)
{
	int fd = BasicOpenFile(FOLDER, O_RDONLY | PG_BINARY);
	bool synced;

	if (fd < 0)
		return false;
	/* some file systems cannot sync a folder, and need not */
	synced = pg_fsync(fd) == 0 || errno == EBADF || errno == EINVAL;
	close(fd);
	return synced;
}

static bool
write_beside(const UsageFileHead *head, const InferUsagePart *parts, int nparts)
{
	int fd = BasicOpenFile(BESIDE, O_WRONLY | O_CREAT | O_TRUNC | PG_BINARY);
	bool written;

	if (fd < 0)
		return false;
	written = write_all(fd, head, sizeof(*head));
	for (int i = 0; written && i < nparts; i++)
		written = write_all(fd, parts[i].data, parts[i].size);
	written = written && pg_fsync(fd) == 0;
	return close(fd) == 0 && written;
}

bool
infer_usage_file_write(const InferUsagePart *parts, int nparts)
{
	UsageFileHead head;

	memset(&head, 0, sizeof(head));
	head.magic = MAGIC;
	head.format = FORMAT;
	for (int i = 0; i < nparts; i++)
		head.size += parts[i].size;
	head.crc = checksum(&head, parts, nparts);
	if (write_beside(&head, parts, nparts) && rename(BESIDE, PATH) == 0 && sync_folder())
		return true;
	ereport(LOG, (errcode_for_file_access(),
				  errmsg("pg_inference could not write file \"%s\": %m", PATH),
				  errdetail("What calls have taken since it was written last would be forgotten "
							"in a crash.")));
	return false;
}

void
infer_usage_file_set_aside(const char *reason)
{
	bool moved = rename(PATH, ASIDE) == 0 && sync_folder();

	ereport(WARNING,
			(errmsg("pg_inference could not read file \"%s\": %s", PATH, reason),
			 moved ? errdetail("It is \"%s\" now. Roles with a daily budget are refused.", ASIDE)
				   : errdetail("Roles with a daily budget are refused."),
			 errhint("What they have spent today is not known. A superuser lets them begin anew "
					 "with SELECT infer.reset_usage().")));
}

/* NULL: the file is good. */
static const char *
read_open(int fd, char **data, size_t *size)
{
	UsageFileHead head;
	struct stat st;
	InferUsagePart part;

	if (fstat(fd, &st) != 0)
		return strerror(errno);
	if (st.st_size < sizeof(head) || !read_all(fd, &head, sizeof(head)))
		return "it is too short";
	if (head.magic != MAGIC || head.format != FORMAT)
		return "it has another format";
	if (head.size > MAX_SIZE || head.size != (uint64) st.st_size - sizeof(head))
		return "it has another size than it says";
	*size = head.size;
	*data = malloc(Max(head.size, 1));
	if (*data == NULL)
		return "out of memory";
	if (!read_all(fd, *data, *size))
		return "it cannot be read to its end";
	part = (InferUsagePart){*data, *size};
	if (checksum(&head, &part, 1) != head.crc)
		return "its checksum is wrong";
	return NULL;
}

InferUsageFile
infer_usage_file_read(char **data, size_t *size)
{
	int fd = BasicOpenFile(PATH, O_RDONLY | PG_BINARY);
	const char *problem;

	*data = NULL;
	if (fd < 0 && errno == ENOENT)
		return INFER_USAGE_FILE_NONE;
	problem = fd < 0 ? strerror(errno) : read_open(fd, data, size);
	if (fd >= 0)
		close(fd);
	if (problem == NULL)
		return INFER_USAGE_FILE_GOOD;
	infer_usage_file_set_aside(problem);
	free(*data);
	*data = NULL;
	return INFER_USAGE_FILE_BAD;
}
