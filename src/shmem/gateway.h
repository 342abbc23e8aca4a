/*
 * shmem/gateway.h - is the gateway process there?
 *
 * One record in shared memory, which the gateway writes and everybody reads, without a lock.  Calls
 * never wait for the gateway: what it would have told them they find out for themselves.
 */
#ifndef INFER_SHMEM_GATEWAY_H
#define INFER_SHMEM_GATEWAY_H

#include "postgres.h"

/* For the gateway: this process is it, from now on and until it exits.  False: another one is. */
extern bool infer_gateway_enter(void);
/* For the gateway, at least once a second: it is at work. */
extern void infer_gateway_beat(void);

/* Something in the route table wants to be looked at.  Does nothing where there is no gateway; good
 * to call under a lock. */
extern void infer_gateway_wake(void);
/* For the gateway: has somebody called that since it last asked? */
extern bool infer_gateway_woken(void);
/* Says once a session that calls go on without it, where it should be there and is not. */
extern void infer_gateway_check(void);

/* For segment.c: memory (no locks), and where it is. found: another process filled it. */
union LWLockPadded;
extern size_t infer_gateway_shmem_size(void);
extern void infer_gateway_shmem_attach(void *memory, union LWLockPadded *locks, bool found);

#endif
