/*
 * registry/files.h - small text files that options name.
 */
#ifndef INFER_REGISTRY_FILES_H
#define INFER_REGISTRY_FILES_H

#include "postgres.h"

/*
 * Reads a whole file into the current memory context, with a zero behind it.  NULL if that cannot
 * be, or if it has more than max bytes or a zero byte; *problem then completes "... cannot be used:
 * ". Raises for lack of memory only, with nothing open.
 */
extern char *infer_file_read(const char *path, size_t max, size_t *len, const char **problem);

#endif
