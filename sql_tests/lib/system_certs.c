/*
 * system_certs - for LD_PRELOAD into a test server: the system's folder of authorities is another.
 *
 * OpenSSL looks for an authority in a file named after a hash of its subject, 1a2b3c4d.0. Such
 * files, wherever they are wanted from, are those of the folder $SYSTEM_CERTS.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *
elsewhere(const char *path, char *buffer, size_t size)
{
	const char *folder = getenv("SYSTEM_CERTS");
	const char *name = strrchr(path, '/');

	if (folder == NULL || name == NULL || strspn(name + 1, "0123456789abcdef") != 8 ||
		strcmp(name + 9, ".0") != 0)
		return path;
	snprintf(buffer, size, "%s%s", folder, name);
	return buffer;
}

int
stat(const char *path, struct stat *result)
{
	char buffer[4096];
	int (*real)(const char *, struct stat *) =
		(int (*)(const char *, struct stat *)) dlsym(RTLD_NEXT, "stat");

	return real(elsewhere(path, buffer, sizeof(buffer)), result);
}

FILE *
fopen(const char *path, const char *mode)
{
	char buffer[4096];
	FILE *(*real)(const char *, const char *) =
		(FILE * (*) (const char *, const char *)) dlsym(RTLD_NEXT, "fopen");

	return real(elsewhere(path, buffer, sizeof(buffer)), mode);
}

FILE *
fopen64(const char *path, const char *mode)
{
	return fopen(path, mode);
}
