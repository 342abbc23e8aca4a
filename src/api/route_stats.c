/*
 * api/route_stats.c - what infer.stat_servers, stat_nodes and latency_histogram() show.
 *
 * Of a server there is what the route table knows, and what its admission key does: its limit, who
 * waits, and whether it is left alone after failures.  Servers of other databases are for those who
 * may read all statistics; those of this one also for whoever may use them.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "commands/dbcommands.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "api/rows.h"
#include "pg/clock.h"
#include "pg/datum.h"
#include "registry/servers.h"
#include "shmem/admission.h"
#include "shmem/route.h"

PG_FUNCTION_INFO_V1(infer_latency_histogram);
PG_FUNCTION_INFO_V1(infer_stat_servers);

/* Columns of infer_stat_servers(), in order. */
enum
{
	COL_DATABASE,
	COL_SERVER,
	COL_NODE,
	COL_SERVICE_CLASS,
	COL_STATE,
	COL_SINCE,
	COL_WHY,
	COL_LAST_PROBE,
	COL_NEXT_PROBE,
	COL_COOLDOWN_UNTIL,
	COL_EXCLUDED_UNTIL,
	COL_DRAINING_UNTIL,
	COL_CURRENT_LIMIT,
	COL_IN_FLIGHT,
	COL_WAITING,
	COL_OUTSTANDING,
	COL_PENALTY,
	COL_DURATION_WEIGHT,
	COL_P50,
	COL_P99,
	COL_ANSWERS,
	COL_FAILURES,
	COL_ERRORS,
	COL_PROOF, /* one for each */
	COL_LAST_ANSWER = COL_PROOF + INFER_EXECUTED + 1,
	COL_LAST_FAILURE,
	COL_HEDGES_SENT,
	COL_HEDGES_WON,
	COL_LATE,
	COL_INCARNATION,
	COL_INCARNATIONS,
	COL_ADDRESS,
	COL_ADMISSION_KEY,
	COL_GENERATION,
	COL_NODE_LOAD,
	COL_NODE_HEALTH,
	COL_COUNT
};

/* Columns of infer_latency_histogram(), in order. */
enum
{
	HISTOGRAM_FROM,
	HISTOGRAM_TO,
	HISTOGRAM_ANSWERS,
	HISTOGRAM_RECENT,
	HISTOGRAM_BAR,
	HISTOGRAM_COUNT
};

#define BAR_LENGTH 40

/* A row that is being filled: both clocks at one moment, so that times can be told. */
typedef struct Row
{
	int64 now_us;
	TimestampTz now;
	Datum values[COL_COUNT];
	bool nulls[COL_COUNT];
} Row;

static void
put_text(Row *row, int column, const char *text)
{
	infer_rows_put_text(row->values, row->nulls, column, text);
}

/* us: of infer_now_us(); 0 = never */
static void
put_time(Row *row, int column, int64 us)
{
	row->nulls[column] = us <= 0;
	row->values[column] = TimestampTzGetDatum(row->now + (us - row->now_us));
}

/* A time that is of interest while it has not come yet. */
static void
put_until(Row *row, int column, int64 us)
{
	put_time(row, column, us > row->now_us ? us : 0);
}

static void
put_latency(Row *row, int column, const InferRouteEntry *entry, double p)
{
	int64 us = infer_histogram_quantile_us(entry->recent, p);

	row->nulls[column] = us < 0;
	row->values[column] = infer_interval_datum(us);
}

/* {"timeout": 3, ...}: those that happened. */
static void
put_errors(Row *row, const InferRouteEntry *entry)
{
	StringInfoData json;
	int64 sum = 0;

	initStringInfo(&json);
	for (int i = 0; i < INFER_REASON_COUNT; i++)
	{
		if (entry->errors[i] == 0)
			continue;
		appendStringInfo(&json, "%s\"%s\": " INT64_FORMAT, sum > 0 ? ", " : "",
						 infer_reason_name(i), entry->errors[i]);
		sum += entry->errors[i];
	}
	row->values[COL_FAILURES] = Int64GetDatum(sum);
	row->values[COL_ERRORS] =
		DirectFunctionCall1(jsonb_in, CStringGetDatum(psprintf("{%s}", json.data)));
	for (int i = 0; i <= INFER_EXECUTED; i++)
		row->values[COL_PROOF + i] = Int64GetDatum(entry->by_proof[i]);
}

/*
 * Has a key that cools for want of a connection been seen to be reachable since, by a probe?  The
 * next call goes there.  Of other failures a probe knows nothing.
 */
static bool
is_back(const InferPeer *peer, const InferFailing *failing)
{
	switch (failing->reason)
	{
		case INFER_REASON_LOOKUP_FAILED:
		case INFER_REASON_CONNECT_FAILED:
		case INFER_REASON_TLS_FAILED:
			return failing->next_us <= 0 && peer->alive_us > peer->heard_us;
		default:
			return false;
	}
}

/* The state as the route table has it, but that a key which cools after failures fails as well. */
static void
put_state(Row *row, const InferRouteEntry *entry, const InferFailing *failing)
{
	const InferRouteSnapshot *snapshot = &entry->snapshot;
	InferPlaceState state = infer_route_state(snapshot, row->now_us);
	const char *word = "up";
	const char *why = NULL;
	int64 since = entry->since_us;

	if (state == INFER_PLACE_DRAINING)
	{
		word = "draining";
		since = 0;
	}
	else if (state == INFER_PLACE_FAILED)
	{
		word = "failed";
		why = infer_reason_name(entry->peer_reason);
		since = snapshot->peer.since_us;
	}
	else if (failing->cools && !is_back(&snapshot->peer, failing))
	{
		word = "failed";
		why = infer_reason_name(failing->reason);
		since = row->now_us - failing->for_us;
	}
	else if (state == INFER_PLACE_BEHIND)
	{
		word = "behind";
		why = "loading";
		since = infer_loading_since_us(&snapshot->loading, row->now_us);
	}
	row->values[COL_STATE] = CStringGetTextDatum(word);
	put_text(row, COL_WHY, why);
	put_time(row, COL_SINCE, since);
}

/* What the admission key does. */
static void
put_key(Row *row, const InferRouteEntry *entry)
{
	InferAdmissionStat stat;
	int waiting = 0;

	if (!infer_admission_stat(entry->identity.admission_key, &stat))
	{
		static const InferFailing well = {0};

		row->nulls[COL_CURRENT_LIMIT] = row->nulls[COL_WAITING] = true;
		row->nulls[COL_ADMISSION_KEY] = row->nulls[COL_COOLDOWN_UNTIL] = true;
		put_state(row, entry, &well);
		return;
	}
	for (int p = 0; p < INFER_PRIORITY_COUNT; p++)
		waiting += stat.waiting[p];
	row->values[COL_CURRENT_LIMIT] = Float8GetDatum(stat.limit);
	row->values[COL_WAITING] = Int32GetDatum(waiting);
	put_until(row, COL_COOLDOWN_UNTIL, row->now_us + stat.failing.next_us);
	put_text(row, COL_ADMISSION_KEY, stat.key);
	put_state(row, entry, &stat.failing);
}

static void
put_identity(Row *row, const InferRouteEntry *entry, const char *database)
{
	const InferRouteIdentity *identity = &entry->identity;

	row->values[COL_DATABASE] = infer_name_datum(database);
	row->values[COL_SERVER] = infer_name_datum(identity->name);
	put_text(row, COL_NODE, identity->node);
	put_text(row, COL_SERVICE_CLASS, identity->service_class);
	put_text(row, COL_INCARNATION, entry->incarnation);
	row->values[COL_INCARNATIONS] = Int64GetDatum(entry->incarnations);
	put_text(row, COL_ADDRESS, entry->address);
	row->values[COL_GENERATION] = Int64GetDatum(entry->ref.generation);
}

static void
put_queue(Row *row, const InferRouteSnapshot *snapshot)
{
	const InferQueueModel *queue = &snapshot->queue;

	put_until(row, COL_EXCLUDED_UNTIL, queue->excluded_until_us);
	put_until(row, COL_DRAINING_UNTIL, snapshot->drain_until_us);
	row->values[COL_IN_FLIGHT] = Int32GetDatum(queue->in_flight);
	row->values[COL_OUTSTANDING] = Float8GetDatum(queue->outstanding);
	row->values[COL_PENALTY] = Float8GetDatum(queue->penalty);
	row->values[COL_DURATION_WEIGHT] = Int32GetDatum(snapshot->duration_weight);
	row->values[COL_NODE_LOAD] = Float8GetDatum(snapshot->node_load);
	row->values[COL_NODE_HEALTH] = Float8GetDatum(snapshot->node_health);
}

static void
put_counts(Row *row, const InferRouteEntry *entry)
{
	put_latency(row, COL_P50, entry, 0.5);
	put_latency(row, COL_P99, entry, 0.99);
	row->values[COL_ANSWERS] = Int64GetDatum(entry->answers);
	put_errors(row, entry);
	put_time(row, COL_LAST_PROBE, entry->probed_us);
	put_time(row, COL_NEXT_PROBE, entry->next_probe_us);
	put_time(row, COL_LAST_ANSWER, entry->answered_us);
	put_text(row, COL_LAST_FAILURE,
			 entry->last_error_us > 0 ? infer_reason_name(entry->last_error) : NULL);
	row->values[COL_HEDGES_SENT] = Int64GetDatum(entry->events[INFER_ROUTE_HEDGE_SENT]);
	row->values[COL_HEDGES_WON] = Int64GetDatum(entry->events[INFER_ROUTE_HEDGE_WON]);
	row->values[COL_LATE] = Int64GetDatum(entry->events[INFER_ROUTE_LATE]);
}

static bool
may_see(Oid database, Oid server)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS) ||
		   (database == MyDatabaseId && infer_server_may_use(server, GetUserId()));
}

/* A row per server in use, of all databases that are still there.  Each is consistent in itself. */
Datum
infer_stat_servers(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	InferRouteEntry *entry = palloc(sizeof(InferRouteEntry));

	infer_rows_begin(fcinfo, "infer_stat_servers", COL_COUNT);
	infer_servers_forget_gone();
	for (int i = 0; i < infer_route_slots(); i++)
	{
		Row row = {.now_us = infer_now_us(), .now = GetCurrentTimestamp()};
		char *database;

		if (!infer_route_entry(i, entry) ||
			!may_see(entry->identity.database, entry->identity.server) ||
			(database = get_database_name(entry->identity.database)) == NULL)
			continue;
		put_identity(&row, entry, database);
		put_key(&row, entry);
		put_queue(&row, &entry->snapshot);
		put_counts(&row, entry);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
	}
	return (Datum) 0;
}

/* Rows from the first bucket that has something to the last one. */
static void
put_buckets(ReturnSetInfo *rsinfo, const InferHistogram *histogram)
{
	uint64 recent[INFER_HISTOGRAM_BUCKETS];
	uint64 most = 0;
	int first = INFER_HISTOGRAM_BUCKETS;
	int last = -1;

	infer_histogram_recent(histogram, infer_now_us(), recent);
	for (int i = 0; i < INFER_HISTOGRAM_BUCKETS; i++)
	{
		if (histogram->all[i] == 0)
			continue;
		first = Min(first, i);
		last = i;
		most = Max(most, histogram->all[i]);
	}
	for (int i = first; i <= last; i++)
	{
		Datum values[HISTOGRAM_COUNT];
		bool nulls[HISTOGRAM_COUNT] = {false};
		uint64 length = (histogram->all[i] * BAR_LENGTH + most - 1) / most;

		values[HISTOGRAM_FROM] = infer_interval_datum(infer_histogram_begin_us(i));
		values[HISTOGRAM_TO] = infer_interval_datum(infer_histogram_begin_us(i + 1));
		nulls[HISTOGRAM_TO] = i + 1 == INFER_HISTOGRAM_BUCKETS;
		values[HISTOGRAM_ANSWERS] = Int64GetDatum((int64) histogram->all[i]);
		values[HISTOGRAM_RECENT] = Int64GetDatum((int64) recent[i]);
		values[HISTOGRAM_BAR] = CStringGetTextDatum(
			psprintf("%.*s", (int) length, "########################################"));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
}

/* What answers of one server of this database took; no rows if there were none. */
Datum
infer_latency_histogram(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const char *name = NameStr(*PG_GETARG_NAME(0));
	InferHistogram *histogram = palloc(sizeof(InferHistogram));
	Oid server;

	infer_rows_begin(fcinfo, "infer_latency_histogram", HISTOGRAM_COUNT);
	server = infer_server_find(name, NULL);
	if (!may_see(MyDatabaseId, server))
		infer_server_require_usage(server, name, GetUserId());
	if (infer_route_latencies(infer_route_find(MyDatabaseId, server), histogram))
		put_buckets(rsinfo, histogram);
	return (Datum) 0;
}
