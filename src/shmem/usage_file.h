/*
 * shmem/usage_file.h - the file that keeps usage over restarts: pg_stat/pg_inference.usage.
 *
 * The file is one image, whole or not there: it is written under another name, synced, and renamed.
 * What is read is what was written, or it is said to be bad: a checksum covers all of it.  A bad
 * file is set aside as pg_inference.usage.bad, for people to look at.
 *
 * In pg_stat it lies where PostgreSQL keeps its own statistics: it is copied by base backups and
 * not by pg_upgrade.
 *
 * Nothing here raises; what goes wrong is logged.  No lock is taken.
 */
#ifndef INFER_SHMEM_USAGE_FILE_H
#define INFER_SHMEM_USAGE_FILE_H

#include "postgres.h"

typedef enum InferUsageFile
{
	INFER_USAGE_FILE_NONE, /* there is none */
	INFER_USAGE_FILE_GOOD,
	INFER_USAGE_FILE_BAD /* and it was set aside */
} InferUsageFile;

/* Part of a file: what is written one after the other, and comes back as one. */
typedef struct InferUsagePart
{
	const void *data;
	size_t size;
} InferUsagePart;

/* False: it could not be written, and the one that was there still is. */
extern bool infer_usage_file_write(const InferUsagePart *parts, int nparts);
/* GOOD: *data is malloc'd, for the caller to free. */
extern InferUsageFile infer_usage_file_read(char **data, size_t *size);
/* Sets the file aside, for a reason: its checksum is right, but not what it says. */
extern void infer_usage_file_set_aside(const char *reason);

#endif
