/*
 * pg/wait.c - the one place where a process of ours sleeps.
 *
 * One WaitEventSet per process, made at the first wait on a descriptor and kept: latch, postmaster
 * death, and the transport's epoll, behind which all its sockets are.  So a wait costs one system
 * call, however many sockets there are, and nothing is rebuilt when they change.
 *
 * Order matters: the latch is reset first, then interrupts are served, then the caller looks for
 * work.  Whoever sets the latch later than the reset makes the next wait return at once, so nothing
 * is lost.  Serving interrupts in every wait also answers the barriers that DROP DATABASE of any
 * database waits for.
 *
 * A wait for a permit wakes up once a second by itself: a release wakes those at the head of the
 * line, and one of them may be busy elsewhere (see shmem/admission.c); the next in line then finds
 * the permit with this look.
 */
#include "postgres.h"

#include <limits.h>

#include "miscadmin.h"
#include "storage/ipc.h"

#include "pg/compat.h"
#include "pg/wait.h"

#define PERMIT_LOOK_MS 1000

/* Positions in the set, in the order in which they are added. */
#define POS_LATCH 0

static WaitEventSet *wait_set = NULL;
static int wait_set_fd = -1;
static Latch *wait_set_latch = NULL;

/* What pg_stat_activity shows. */
static uint32
wait_event_info(InferWaitEvent event)
{
	static const char *const names[] = {"InferGateway", "InferNetwork", "InferPermit",
										"InferRetry"};
	static uint32 infos[lengthof(names)];

	if (infos[event] == 0)
		infos[event] = infer_new_wait_event(names[event]);
	return infos[event];
}

/* (Re)makes the set for this descriptor. */
static void
make_wait_set(int fd)
{
	WaitEventSet *set;

	if (wait_set != NULL)
	{
		FreeWaitEventSet(wait_set);
		wait_set = NULL;
	}

	set = infer_create_wait_set(3);
	PG_TRY();
	{
		AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
		AddWaitEventToSet(set, WL_SOCKET_READABLE, fd, NULL, NULL);
		if (IsUnderPostmaster)
			AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	}
	PG_CATCH();
	{
		FreeWaitEventSet(set);
		PG_RE_THROW();
	}
	PG_END_TRY();

	wait_set = set;
	wait_set_fd = fd;
	wait_set_latch = MyLatch;
}

void
infer_wait(int fd, long timeout_ms, InferWaitEvent event)
{
	uint32 info = wait_event_info(event);

	if (timeout_ms > INT_MAX)
		timeout_ms = INT_MAX;
	if (event == INFER_WAIT_PERMIT && (timeout_ms < 0 || timeout_ms > PERMIT_LOOK_MS))
		timeout_ms = PERMIT_LOOK_MS;

	if (fd < 0)
	{
		int wake = WL_LATCH_SET;

		if (IsUnderPostmaster)
			wake |= WL_EXIT_ON_PM_DEATH;
		if (timeout_ms >= 0)
			wake |= WL_TIMEOUT;
		(void) WaitLatch(MyLatch, wake, timeout_ms, info);
	}
	else
	{
		WaitEvent occurred[3];

		if (wait_set == NULL || wait_set_fd != fd)
			make_wait_set(fd);
		else if (wait_set_latch != MyLatch)
		{
			ModifyWaitEvent(wait_set, POS_LATCH, WL_LATCH_SET, MyLatch);
			wait_set_latch = MyLatch;
		}
		(void) WaitEventSetWait(wait_set, timeout_ms < 0 ? -1 : timeout_ms, occurred,
								lengthof(occurred), info);
	}

	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}
