/*
 * api/drain.c - infer.drain() and infer.undrain(): servers out of service, and back.
 *
 * The state is set first, at all servers that are meant, then all are waited for together.  It is
 * no part of the transaction: it holds when the call is cancelled while it waits, and when the
 * transaction is rolled back.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "api/rows.h"
#include "pg/clock.h"
#include "pg/datum.h"
#include "pg/guc.h"
#include "pg/wait.h"
#include "registry/servers.h"
#include "shmem/drain.h"
#include "shmem/route.h"

PG_FUNCTION_INFO_V1(infer_drain);
PG_FUNCTION_INFO_V1(infer_undrain);

#define LOOK_MS 10
/* What is in flight when the grace ends is cut off by its process at once, if that looks. */
#define LATE_US INT64CONST(2000000)

/* Columns of infer.drain(), in order. */
enum
{
	COL_SERVER,
	COL_DRAINED,
	COL_ALREADY,
	COL_FINISHED,
	COL_ABANDONED,
	COL_ENDED, /* one for each proof */
	COL_REFUSED = COL_ENDED + INFER_EXECUTED + 1,
	COL_LEFT,
	COL_COUNT
};

/* The servers that are meant, all of which the user may drain: one of that name, or all. */
static List *
find_servers(const char *name)
{
	bool all = has_privs_of_role(GetUserId(), ROLE_PG_SIGNAL_BACKEND);
	List *servers = name != NULL ? list_make1_oid(infer_server_find(name, NULL)) : NIL;

	if (name == NULL && !all)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to drain all servers"),
				 errhint("Only roles with the privileges of pg_signal_backend may. The owner of a "
						 "server may name it.")));
	if (name != NULL && !all && !infer_server_is_owner(linitial_oid(servers), GetUserId()))
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						errmsg("permission denied to drain server \"%s\"", name),
						errhint("Only its owner and roles with the privileges of pg_signal_backend "
								"may.")));
	return name != NULL ? servers : infer_server_list();
}

/* One that is drained. Its name is kept: it may be dropped meanwhile. */
typedef struct Drained
{
	Oid server;
	char *name;
	bool already; /* nothing was left to wait for */
} Drained;

static int
in_flight(Oid server)
{
	InferRouteSnapshot snapshot;

	return infer_route_snapshot(infer_route_find(MyDatabaseId, server), &snapshot)
			   ? snapshot.queue.in_flight
			   : 0;
}

/* One server begins, or has begun already. */
static void
begin(Oid server, int64 until_us)
{
	bool begun = infer_drain_begin(MyDatabaseId, server, &until_us);

	if (!begun)
	{
		infer_servers_undrain_gone();
		begun = infer_drain_begin(MyDatabaseId, server, &until_us);
	}
	if (!begun)
		ereport(ERROR, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
						errmsg("no room for another drained server"),
						errdetail("All %d entries are in use.", infer_guc_max_servers),
						errhint("Call infer.undrain() for others, or raise "
								"pg_inference.max_servers and restart the server.")));
	infer_route_drain(infer_route_find(MyDatabaseId, server));
}

/* Is there nothing more to wait for? Also when somebody has put it back into service meanwhile. */
static bool
is_over(Oid server)
{
	int64 until = infer_drain_until(MyDatabaseId, server);

	return until == 0 || in_flight(server) == 0 || infer_now_us() > until + LATE_US;
}

/* Begins with all of them; returns Drained. */
static List *
begin_all(List *servers, int64 until_us)
{
	List *drained = NIL;
	ListCell *cell;

	foreach (cell, servers)
	{
		ForeignServer *foreign = GetForeignServerExtended(lfirst_oid(cell), FSV_MISSING_OK);
		Drained *one;

		if (foreign == NULL)
			continue; /* has just been dropped */
		one = palloc(sizeof(Drained));
		one->server = foreign->serverid;
		one->name = foreign->servername;
		one->already =
			infer_drain_until(MyDatabaseId, one->server) > 0 && in_flight(one->server) == 0;
		begin(one->server, until_us);
		drained = lappend(drained, one);
	}
	return drained;
}

static void
wait_for(List *drained)
{
	ListCell *cell;

	foreach (cell, drained)
		while (!is_over(((Drained *) lfirst(cell))->server))
			infer_wait(-1, LOOK_MS, INFER_WAIT_NETWORK);
}

static void
put_report(ReturnSetInfo *rsinfo, const Drained *drained)
{
	InferDrainReport report = {0};
	bool there = infer_drain_report(MyDatabaseId, drained->server, &report);
	int left = in_flight(drained->server);
	int64 ended = 0;
	Datum values[COL_COUNT];
	bool nulls[COL_COUNT] = {false};

	values[COL_SERVER] = infer_name_datum(drained->name);
	for (int proof = 0; proof < lengthof(report.ended); proof++)
	{
		values[COL_ENDED + proof] = Int64GetDatum(report.ended[proof]);
		ended += report.ended[proof];
	}
	values[COL_DRAINED] = BoolGetDatum(there && ended == 0 && left == 0);
	values[COL_ALREADY] = BoolGetDatum(drained->already);
	values[COL_FINISHED] = Int64GetDatum(report.finished);
	values[COL_ABANDONED] = Int64GetDatum(report.abandoned);
	values[COL_REFUSED] = Int64GetDatum(report.refused);
	values[COL_LEFT] = Int64GetDatum(left);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* Milliseconds of a grace; months count as thirty days. */
static int64
grace_us(FunctionCallInfo fcinfo, int arg)
{
	const Interval *grace = PG_GETARG_INTERVAL_P(arg);
	double us = (grace->month * (double) DAYS_PER_MONTH + grace->day) * USECS_PER_DAY + grace->time;

	if (us < 0 || us > INT_MAX * 1000.0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("the grace of a drain must be a time from 0 to 24 days")));
	return (int64) us;
}

Datum
infer_drain(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	List *servers;
	List *drained;
	ListCell *cell;

	infer_rows_begin(fcinfo, "infer_drain", COL_COUNT);
	servers = find_servers(PG_ARGISNULL(0) ? NULL : NameStr(*PG_GETARG_NAME(0)));
	if (PG_ARGISNULL(1))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("argument \"%s\" must not be null", "grace")));
	drained = begin_all(servers, infer_now_us() + grace_us(fcinfo, 1));
	infer_drain_wake();
	wait_for(drained);
	foreach (cell, drained)
		put_report(rsinfo, lfirst(cell));
	return (Datum) 0;
}

Datum
infer_undrain(PG_FUNCTION_ARGS)
{
	bool was_drained = false;
	List *servers;
	ListCell *cell;

	infer_require_preload();
	servers = find_servers(PG_ARGISNULL(0) ? NULL : NameStr(*PG_GETARG_NAME(0)));
	foreach (cell, servers)
	{
		was_drained |= infer_drain_end(MyDatabaseId, lfirst_oid(cell));
		infer_route_drain(infer_route_find(MyDatabaseId, lfirst_oid(cell)));
	}
	PG_RETURN_BOOL(was_drained);
}
