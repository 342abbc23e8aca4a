/*
 * gateway/worker.c - the gateway process: its birth, its loop, its end.
 *
 * One background worker per instance.  It is connected to no database: so DROP DATABASE never waits
 * for it, and it reads no catalog.  What it must know of servers, backends put into shared memory
 * (shmem/route.h) when they first use one.  It is a helper: calls never wait for it, and whatever
 * it holds in memory of its own it can find out anew.  So its end loses nothing.
 *
 * It ends at SIGTERM and at any error; the postmaster starts another one a second later.  Exiting
 * with 1 and not 0 is what makes it do so.  There is no way to go on after an error: a fresh
 * process is the simplest state that is known to be good.
 *
 * The loop: serve the signals, look after everything that is due, sleep until the next thing is.
 * Signals only set flags and the latch, so that nothing interrupts the HTTP library; interrupts
 * (the barriers of DROP DATABASE among them) are served in infer_wait().
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/sinval.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "gateway/gateway.h"
#include "gateway/internal.h"
#include "pg/clock.h"
#include "pg/guc.h"
#include "pg/wait.h"
#include "shmem/gateway.h"

#define GATEWAY_NAME "pg_inference gateway"
#define RESTART_S    1
#define BEAT_MS      1000 /* others take it for dead after some times as long */

extern PGDLLEXPORT void infer_gateway_main(Datum arg);

void
infer_gateway_init(void)
{
	BackgroundWorker worker = {
		.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION,
		.bgw_start_time = BgWorkerStart_ConsistentState,
		.bgw_restart_time = RESTART_S,
		.bgw_name = GATEWAY_NAME,
		.bgw_type = GATEWAY_NAME,
		.bgw_library_name = "pg_inference",
		.bgw_function_name = "infer_gateway_main",
	};

	/* the servers that pg_upgrade starts have no calls to make */
	if (infer_guc_gateway && !IsBinaryUpgrade)
		RegisterBackgroundWorker(&worker);
}

/*
 * No database, but a session as far as PostgreSQL is concerned: pg_stat_activity shows it, and
 * pg_terminate_backend() reaches it.  A cancel has no statement to end here.
 */
static void
begin(void)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGINT, SIG_IGN);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	if (!infer_gateway_enter())
		ereport(ERROR, (errmsg("another gateway process of pg_inference is running")));
	pgstat_report_activity(STATE_IDLE, "no servers in use");
	infer_prober_init();
}

static void
serve_signals(void)
{
	if (ShutdownRequestPending)
		proc_exit(1);
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
	/* nothing here reads catalogs, but who is behind is in the way of those who change them */
	if (catchupInterruptPending)
		ProcessCatchupInterrupt();
}

/* What pg_stat_activity shows as its query. */
static void
show_activity(void)
{
	static InferWatchCounts shown;
	InferWatchCounts now = infer_prober_counts();
	char text[128];

	if (memcmp(&now, &shown, sizeof(now)) == 0)
		return;
	shown = now;
	if (now.servers == 0)
		strlcpy(text, "no servers in use", sizeof(text));
	else
		snprintf(text, sizeof(text), "watching servers: %d in use, %d failed, %d not ready",
				 now.servers, now.failed, now.behind);
	pgstat_report_activity(STATE_IDLE, text);
}

/* What comes by itself; returns when next. */
static int64
tick(int64 now)
{
	static int64 next_us;

	if (now >= next_us)
	{
		infer_load_turn();
		next_us = now + (int64) infer_guc_timer_interval * 1000;
	}
	return next_us;
}

void
infer_gateway_main(Datum arg)
{
	MemoryContext turn;

	begin();
	turn = AllocSetContextCreate(TopMemoryContext, "pg_inference gateway", ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(turn);
	for (;;)
	{
		int64 now = infer_now_us();
		int64 next_us;

		serve_signals();
		infer_gateway_beat();
		next_us = Min(tick(now), infer_prober_turn(now));
		show_activity();
		MemoryContextReset(turn);
		infer_wait(infer_prober_fd(), Min(BEAT_MS, Max(0, (next_us - infer_now_us() + 999) / 1000)),
				   INFER_WAIT_GATEWAY);
	}
}
