/*
 * For LD_PRELOAD: there is no memory for pieces of NO_MEMORY_FROM to NO_MEMORY_TO bytes while the
 * file NO_MEMORY_FILE exists.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

void *
malloc(size_t size)
{
	static void *(*real)(size_t);
	static size_t from = 1, to; /* the environment does not change */

	if (real == NULL)
	{
		const char *low = getenv("NO_MEMORY_FROM");
		const char *high = getenv("NO_MEMORY_TO");

		real = (void *(*) (size_t)) dlsym(RTLD_NEXT, "malloc");
		if (low != NULL && high != NULL)
		{
			from = strtoul(low, NULL, 10);
			to = strtoul(high, NULL, 10);
		}
	}
	if (size >= from && size <= to && access(getenv("NO_MEMORY_FILE"), F_OK) == 0)
	{
		errno = ENOMEM;
		return NULL;
	}
	return real(size);
}
