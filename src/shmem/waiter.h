/*
 * shmem/waiter.h - a process that waits for its turn, as seen by others.
 */
#ifndef INFER_SHMEM_WAITER_H
#define INFER_SHMEM_WAITER_H

#include "postgres.h"
#include "storage/proc.h"

#include "core/admission.h"

typedef struct InferWaiter
{
	int pid;
	Oid database;
	Oid role;   /* as it logged in */
	int wanted; /* requests */
	InferPriority priority;
	InferDuration duration;
	int64 since_us;    /* as infer_now_us() */
	int64 deadline_us; /* 0 = none */
} InferWaiter;

/* A process in line cannot exit without the line's lock, which must be held. */
static inline void
infer_waiter_process(InferWaiter *waiter, int process)
{
	const PGPROC *proc = GetPGProcByNumber(process);

	waiter->pid = proc->pid;
	waiter->database = proc->databaseId;
	waiter->role = proc->roleId;
}

#endif
