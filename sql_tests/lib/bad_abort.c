/*
 * sql_tests/lib/bad_abort.c - a session whose transaction cannot be aborted when it exits.
 *
 * Loaded with LOAD.  When a process exits in the midst of a transaction, PostgreSQL aborts it; the
 * callback here raises an error then, as that of any other extension might.  While a process exits
 * an error is FATAL: it begins to exit anew, where it was, and what the abort had not done yet is
 * not done any more.  Resource owners are released after these callbacks, so that is what is left
 * out: whoever holds something of a resource owner still has it in its on_shmem_exit callbacks.
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "storage/ipc.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

static void
fail_at_exit(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_ABORT && proc_exit_inprogress)
		elog(ERROR, "this transaction cannot be aborted");
}

void
_PG_init(void)
{
	RegisterXactCallback(fail_at_exit, NULL);
}
