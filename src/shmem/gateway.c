/*
 * shmem/gateway.c - is the gateway process there?
 *
 * The gateway notes the time whenever it looks around, at least once a second.  The note is all
 * that tells whether it is there: one that was stopped or hangs is as good as none, and after a
 * start, or the end of one, the next has a few seconds to come before anybody misses it.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"

#include "pg/clock.h"
#include "pg/compat.h"
#include "pg/guc.h"
#include "shmem/gateway.h"

#define MISSED_AFTER_US (10 * INT64CONST(1000000))

typedef struct GatewayRecord
{
	pg_atomic_uint32 pid;  /* 0: none */
	pg_atomic_uint32 proc; /* its place among the processes; good also when it has gone */
	pg_atomic_uint64 seen_us;
	pg_atomic_uint32 news; /* 1: it has been woken, and has not looked since */
} GatewayRecord;

static GatewayRecord *record = NULL;

size_t
infer_gateway_shmem_size(void)
{
	return MAXALIGN(sizeof(GatewayRecord));
}

void
infer_gateway_shmem_attach(void *memory, union LWLockPadded *locks, bool found)
{
	record = memory;
	if (found)
		return;
	pg_atomic_init_u32(&record->pid, 0);
	pg_atomic_init_u32(&record->proc, 0);
	pg_atomic_init_u64(&record->seen_us, infer_now_us());
	pg_atomic_init_u32(&record->news, 0);
}

static void
leave(int code, Datum arg)
{
	infer_gateway_beat();
	pg_atomic_write_u32(&record->pid, 0);
}

bool
infer_gateway_enter(void)
{
	uint32 nobody = 0;

	if (!pg_atomic_compare_exchange_u32(&record->pid, &nobody, MyProcPid))
		return false;
	before_shmem_exit(leave, 0);
	pg_atomic_write_u32(&record->proc, infer_my_proc_number());
	infer_gateway_beat();
	return true;
}

void
infer_gateway_beat(void)
{
	pg_atomic_write_u64(&record->seen_us, infer_now_us());
}

/* Its process, or 0. */
static int
gateway_pid(void)
{
	return (int) pg_atomic_read_u32(&record->pid);
}

static bool
seen_lately(void)
{
	return infer_now_us() - (int64) pg_atomic_read_u64(&record->seen_us) < MISSED_AFTER_US;
}

void
infer_gateway_wake(void)
{
	if (gateway_pid() == 0 || pg_atomic_exchange_u32(&record->news, 1) != 0)
		return;
	SetLatch(&GetPGProcByNumber(pg_atomic_read_u32(&record->proc))->procLatch);
}

bool
infer_gateway_woken(void)
{
	return pg_atomic_exchange_u32(&record->news, 0) != 0;
}

void
infer_gateway_check(void)
{
	static bool said = false;

	if (said || !infer_guc_gateway || !IsUnderPostmaster || seen_lately())
		return;
	said = true;
	ereport(
		WARNING,
		(errmsg("the gateway process of pg_inference is not running"),
		 errdetail("Calls go on, with what is known of the servers."),
		 gateway_pid() != 0
			 ? errhint("The process %d does not move; pg_terminate_backend() has it start anew.",
					   gateway_pid())
			 : errhint("See the server's log; max_worker_processes must have room for it.")));
}
