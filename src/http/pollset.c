/*
 * http/pollset.c - an epoll that knows when a descriptor number has changed hands.
 *
 * Events are collected in bulk and acted upon one by one.  Acting on one may close a socket whose
 * event is still in the list and open another one under the same number; handing the new socket the
 * old one's error would fail an innocent request.  Each watch therefore has a number of its own
 * that travels with the event.
 */
#include "http/pollset.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define MAX_COLLECT 64

bool
infer_pollset_open(InferPollset *set)
{
	memset(set, 0, sizeof(*set));
	set->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return set->epoll_fd >= 0;
}

void
infer_pollset_close(InferPollset *set)
{
	if (set->epoll_fd >= 0)
		close(set->epoll_fd);
	set->epoll_fd = -1;
	free(set->watches);
	set->watches = NULL;
	set->nwatches = 0;
}

/* The table is as long as the highest descriptor, which the process limit bounds. */
static bool
make_room(InferPollset *set, int fd)
{
	int n = set->nwatches > 0 ? set->nwatches : 64;
	uint32_t *watches;

	if (fd < set->nwatches)
		return true;
	while (n <= fd)
		n *= 2;
	watches = realloc(set->watches, (size_t) n * sizeof(*watches));
	if (watches == NULL)
		return false;
	memset(watches + set->nwatches, 0, (size_t) (n - set->nwatches) * sizeof(*watches));
	set->watches = watches;
	set->nwatches = n;
	return true;
}

bool
infer_pollset_watch(InferPollset *set, int fd, unsigned what)
{
	struct epoll_event event = {0};
	uint32_t watch;
	bool known;

	if (fd < 0 || !make_room(set, fd))
		return false;
	known = (set->watches[fd] & 1) != 0;
	watch = known ? set->watches[fd] : set->watches[fd] + 1;

	event.events = ((what & INFER_POLL_IN) != 0 ? EPOLLIN : 0u) |
				   ((what & INFER_POLL_OUT) != 0 ? EPOLLOUT : 0u);
	event.data.u64 = (uint64_t) watch << 32 | (uint32_t) fd;
	if (epoll_ctl(set->epoll_fd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) != 0)
		return false;
	set->watches[fd] = watch;
	return true;
}

void
infer_pollset_forget(InferPollset *set, int fd)
{
	if (fd < 0 || fd >= set->nwatches || (set->watches[fd] & 1) == 0)
		return;
	set->watches[fd]++;
	(void) epoll_ctl(set->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

int
infer_pollset_collect(InferPollset *set, InferReady *ready, int max)
{
	struct epoll_event events[MAX_COLLECT];
	int n;

	do
	{
		n = epoll_wait(set->epoll_fd, events, max < MAX_COLLECT ? max : MAX_COLLECT, 0);
	} while (n < 0 && errno == EINTR);

	for (int i = 0; i < n; i++)
	{
		uint32_t bits = events[i].events;

		ready[i].fd = (int) (uint32_t) events[i].data.u64;
		ready[i].watch = (uint32_t) (events[i].data.u64 >> 32);
		ready[i].what = ((bits & EPOLLIN) != 0 ? INFER_POLL_IN : 0u) |
						((bits & EPOLLOUT) != 0 ? INFER_POLL_OUT : 0u) |
						((bits & (EPOLLERR | EPOLLHUP)) != 0 ? INFER_POLL_ERR : 0u);
	}
	return n > 0 ? n : 0;
}

bool
infer_pollset_is_watched(const InferPollset *set, int fd)
{
	return fd >= 0 && fd < set->nwatches && (set->watches[fd] & 1) != 0;
}

bool
infer_pollset_is_current(const InferPollset *set, const InferReady *ready)
{
	return ready->fd < set->nwatches && set->watches[ready->fd] == ready->watch;
}
