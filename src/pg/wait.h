/*
 * pg/wait.h - the one place where a process of ours sleeps.
 */
#ifndef INFER_PG_WAIT_H
#define INFER_PG_WAIT_H

typedef enum InferWaitEvent
{
	INFER_WAIT_GATEWAY, /* "InferGateway": the gateway process has nothing to do */
	INFER_WAIT_NETWORK, /* "InferNetwork" */
	INFER_WAIT_PERMIT,  /* "InferPermit" */
	INFER_WAIT_RETRY    /* "InferRetry" */
} InferWaitEvent;

/*
 * Sleeps until the latch is set, the descriptor is readable, or timeout_ms has passed (-1: no
 * limit).  Postmaster death ends the process.  Resets the latch and serves interrupts before it
 * returns (so it raises for cancel and timeouts).  fd < 0: none; the descriptor must stay the same
 * open file for the life of the process (the transport's epoll), for the WaitEventSet is kept.
 * Never call it holding an LWLock.
 */
extern void infer_wait(int fd, long timeout_ms, InferWaitEvent event);

#endif
