/*
 * shmem/segment.h - who asks for shared memory: one table of {size, init} in segment.c.
 */
#ifndef INFER_SHMEM_SEGMENT_H
#define INFER_SHMEM_SEGMENT_H

/* From _PG_init when preloaded: installs the request and startup hooks (chained). */
extern void infer_shmem_install(void);

#endif
