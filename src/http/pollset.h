/*
 * http/pollset.h - the sockets of the HTTP library behind one descriptor.
 *
 * An epoll of our own, so that a process can sleep on one descriptor (beside its latch) however
 * many sockets come and go.  Owned by one transport; one thread; no lock.
 */
#ifndef INFER_HTTP_POLLSET_H
#define INFER_HTTP_POLLSET_H

#include <stdbool.h>
#include <stdint.h>

#define INFER_POLL_IN  1
#define INFER_POLL_OUT 2
#define INFER_POLL_ERR 4 /* reported only */

typedef struct InferPollset
{
	int epoll_fd;
	int nwatches;
	uint32_t *watches; /* by descriptor: odd while watched; changes with each new watch */
} InferPollset;

typedef struct InferReady
{
	int fd;
	unsigned what;
	uint32_t watch; /* which watch of fd it was reported for */
} InferReady;

/* False without memory or descriptors; to be closed all the same. */
extern bool infer_pollset_open(InferPollset *set);
/* Closes the epoll descriptor; those that it watched are their owners'. */
extern void infer_pollset_close(InferPollset *set);
/* Watches fd for IN and/or OUT from now on, or changes what for. False without memory. */
extern bool infer_pollset_watch(InferPollset *set, int fd, unsigned what);
/* To be called before fd is closed. */
extern void infer_pollset_forget(InferPollset *set, int fd);
/* What is ready now, at most max; never waits. */
extern int infer_pollset_collect(InferPollset *set, InferReady *ready, int max);
extern bool infer_pollset_is_watched(const InferPollset *set, int fd);
/* Is it still the same watch?  A descriptor number may have become another socket meanwhile. */
extern bool infer_pollset_is_current(const InferPollset *set, const InferReady *ready);

#endif
