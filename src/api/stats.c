/*
 * api/stats.c - what infer.stat_admission, stat_models, stat_progress and stat_usage show, and
 * infer.stat_reset() and reset_usage().
 */
#include "postgres.h"

#include "commands/dbcommands.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "api/rows.h"
#include "call/call.h"
#include "pg/datum.h"
#include "pg/guc.h"
#include "shmem/admission.h"
#include "shmem/observed.h"
#include "shmem/progress.h"
#include "shmem/route.h"
#include "shmem/usage.h"

PG_FUNCTION_INFO_V1(infer_reset_usage);
PG_FUNCTION_INFO_V1(infer_retained_bytes);
PG_FUNCTION_INFO_V1(infer_stat_admission);
PG_FUNCTION_INFO_V1(infer_stat_models);
PG_FUNCTION_INFO_V1(infer_stat_progress);
PG_FUNCTION_INFO_V1(infer_stat_reset);
PG_FUNCTION_INFO_V1(infer_stat_usage);

/* Columns of infer_stat_admission(), in order. */
enum
{
	COL_KEY,
	COL_MAX_LIMIT,
	COL_CURRENT_LIMIT,
	COL_IN_FLIGHT,
	COL_WAITING,
	COL_WAITING_BY, /* one for each priority, the highest first */
	COL_PEAK = COL_WAITING_BY + INFER_PRIORITY_COUNT,
	COL_LOW_WATER,
	COL_DECREASES,
	COL_EPOCH,
	COL_GRANTED,
	COL_SUCCEEDED,
	COL_OVERLOADED,
	COL_FAILED,
	COL_IGNORED,
	COL_PACED,
	COL_OVER_LIMIT,
	COL_REQUESTS_LEFT,
	COL_TOKENS_LEFT,
	COL_RETRY_AFTER_UNTIL,
	COL_FAILURES_IN_A_ROW,
	COL_FAILING_SINCE,
	COL_COOLDOWN_UNTIL,
	COL_LAST_FAILURE,
	COL_RETRIES,
	COL_RETRIES_DENIED,
	COL_ABANDONED, /* one for each proof */
	COL_COUNT = COL_ABANDONED + INFER_EXECUTED + 1
};

/* Columns of infer_stat_models(), in order. */
enum
{
	MODEL_DATABASE,
	MODEL_SERVER,
	MODEL_REMOTE_MODEL,
	MODEL_TASK,
	MODEL_REQUESTS,
	MODEL_ROWS,
	MODEL_LATENCY,
	MODEL_ROWS_PER_REQUEST,
	MODEL_ROW_LATENCY,
	MODEL_INPUT_TOKENS,
	MODEL_OUTPUT_TOKENS,
	MODEL_LAST_ANSWER,
	MODEL_COUNT
};

/* Columns of infer_stat_progress(), in order. */
enum
{
	PROGRESS_PID,
	PROGRESS_DATABASE,
	PROGRESS_ROLE,
	PROGRESS_SINCE,
	PROGRESS_ROWS,
	PROGRESS_CALLS,
	PROGRESS_REQUESTS,
	PROGRESS_RETRIES,
	PROGRESS_ERRORS,
	PROGRESS_TOKENS,
	PROGRESS_IN_FLIGHT,
	PROGRESS_WAITING_FOR,
	PROGRESS_COUNT
};

/* Columns of infer_stat_usage(), in order. */
enum
{
	USAGE_DAY,
	USAGE_DATABASE,
	USAGE_ROLE,
	USAGE_SERVER,
	USAGE_REMOTE_MODEL,
	USAGE_TASK,
	USAGE_REQUESTS,
	USAGE_ATTEMPTS,
	USAGE_FAILED,
	USAGE_CALLS,
	USAGE_MEMO_HITS,
	USAGE_INPUT_TOKENS,
	USAGE_OUTPUT_TOKENS,
	USAGE_ESTIMATED,
	USAGE_COST,
	USAGE_UNPRICED,
	USAGE_COUNT
};

static void
put_waiting(const InferAdmissionStat *stat, Datum *values)
{
	int all = 0;

	for (int p = 0; p < INFER_PRIORITY_COUNT; p++)
	{
		values[COL_WAITING_BY + INFER_PRIORITY_COUNT - 1 - p] = Int32GetDatum(stat->waiting[p]);
		all += stat->waiting[p];
	}
	values[COL_WAITING] = Int32GetDatum(all);
}

static void
put_left(int64 left, int column, Datum *values, bool *nulls)
{
	values[column] = Int64GetDatum(left);
	nulls[column] = left < 0;
}

static void
put_failing(const InferFailing *failing, Datum *values, bool *nulls)
{
	TimestampTz now = GetCurrentTimestamp();

	values[COL_FAILURES_IN_A_ROW] = Int32GetDatum(failing->failures);
	values[COL_FAILING_SINCE] = TimestampTzGetDatum(now - failing->for_us);
	nulls[COL_FAILING_SINCE] = failing->for_us == 0;
	values[COL_COOLDOWN_UNTIL] = TimestampTzGetDatum(now + failing->next_us);
	nulls[COL_COOLDOWN_UNTIL] = failing->next_us == 0;
	values[COL_LAST_FAILURE] = CStringGetTextDatum(infer_reason_name(failing->reason));
	nulls[COL_LAST_FAILURE] = failing->reason == INFER_REASON_NONE;
}

/* A row per admission key. Entries are read one by one: each is consistent in itself. */
Datum
infer_stat_admission(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	InferAdmissionStat stat;

	infer_rows_begin(fcinfo, "infer_stat_admission", COL_COUNT);
	for (int i = 0; infer_admission_stat(i, &stat); i++)
	{
		const int64 *verdicts = stat.verdicts;
		Datum values[COL_COUNT];
		bool nulls[COL_COUNT] = {false};

		values[COL_KEY] = CStringGetTextDatum(stat.key);
		values[COL_MAX_LIMIT] = Int32GetDatum(stat.config.limiter.ceiling);
		values[COL_CURRENT_LIMIT] = Float8GetDatum(stat.limit);
		values[COL_IN_FLIGHT] = Int32GetDatum(stat.in_flight);
		put_waiting(&stat, values);
		values[COL_PEAK] = Int32GetDatum(stat.peak);
		values[COL_LOW_WATER] = Float8GetDatum(stat.low_water);
		values[COL_DECREASES] = Int64GetDatum(stat.decreases);
		values[COL_EPOCH] = Int64GetDatum(stat.epoch);
		values[COL_GRANTED] = Int64GetDatum(stat.granted);
		values[COL_SUCCEEDED] = Int64GetDatum(verdicts[INFER_VERDICT_SUCCESS]);
		values[COL_OVERLOADED] = Int64GetDatum(verdicts[INFER_VERDICT_OVERLOADED]);
		values[COL_FAILED] = Int64GetDatum(verdicts[INFER_VERDICT_ERROR]);
		values[COL_IGNORED] = Int64GetDatum(verdicts[INFER_VERDICT_IGNORE]);
		values[COL_PACED] = Int64GetDatum(stat.paced);
		values[COL_OVER_LIMIT] = Int64GetDatum(stat.over_limit);
		put_left(stat.requests_left, COL_REQUESTS_LEFT, values, nulls);
		put_left(stat.tokens_left, COL_TOKENS_LEFT, values, nulls);
		values[COL_RETRY_AFTER_UNTIL] =
			TimestampTzGetDatum(GetCurrentTimestamp() + stat.held_for_us);
		nulls[COL_RETRY_AFTER_UNTIL] = stat.held_for_us == 0;
		put_failing(&stat.failing, values, nulls);
		values[COL_RETRIES] = Int64GetDatum(stat.retries);
		values[COL_RETRIES_DENIED] = Int64GetDatum(stat.retries_denied);
		for (int a = 0; a < lengthof(stat.abandoned); a++)
			values[COL_ABANDONED + a] = Int64GetDatum(stat.abandoned[a]);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

static Datum
seconds_datum(double seconds)
{
	return infer_interval_datum((int64) (seconds * USECS_PER_SEC));
}

/* A row per model, server and task that answered, of all databases that are still there. */
Datum
infer_stat_models(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	InferObservedStat stat;

	infer_rows_begin(fcinfo, "infer_stat_models", MODEL_COUNT);
	for (int i = 0; i < INFER_OBSERVED_PLACES; i++)
	{
		const InferObserved *observed = &stat.observed;
		Datum values[MODEL_COUNT];
		bool nulls[MODEL_COUNT] = {false};
		char *database;

		if (!infer_observed_stat(i, &stat) ||
			(database = get_database_name(stat.key.database)) == NULL)
			continue;
		values[MODEL_DATABASE] = infer_name_datum(database);
		values[MODEL_SERVER] = infer_name_datum(stat.server_name);
		values[MODEL_REMOTE_MODEL] = infer_text_datum(stat.key.remote_model);
		values[MODEL_TASK] = CStringGetTextDatum(infer_task_name(stat.key.task));
		values[MODEL_REQUESTS] = Int64GetDatum(observed->requests);
		values[MODEL_ROWS] = Int64GetDatum(observed->rows);
		values[MODEL_LATENCY] = seconds_datum(observed->seconds_per_request);
		values[MODEL_ROWS_PER_REQUEST] = Float8GetDatum(observed->rows_per_request);
		values[MODEL_ROW_LATENCY] = seconds_datum(observed->pace.seconds);
		values[MODEL_INPUT_TOKENS] = Float8GetDatum(observed->pace.input_tokens);
		nulls[MODEL_INPUT_TOKENS] = observed->pace.input_tokens < 0;
		values[MODEL_OUTPUT_TOKENS] = Float8GetDatum(observed->pace.output_tokens);
		nulls[MODEL_OUTPUT_TOKENS] = observed->pace.output_tokens < 0;
		values[MODEL_LAST_ANSWER] = TimestampTzGetDatum(stat.last);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* A row per running scan. */
Datum
infer_stat_progress(PG_FUNCTION_ARGS)
{
	static const char *const waits[] = {
		[INFER_PROGRESS_ANSWERS] = "answers",
		[INFER_PROGRESS_PERMIT] = "permit",
		[INFER_PROGRESS_RETRY] = "retry",
	};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	InferProgress progress;

	infer_rows_begin(fcinfo, "infer_stat_progress", PROGRESS_COUNT);
	for (int i = 0; infer_progress_stat(i, &progress); i++)
	{
		const InferProgressFigures *figures = &progress.figures;
		Datum values[PROGRESS_COUNT];
		bool nulls[PROGRESS_COUNT] = {false};

		if (progress.pid == 0 || !infer_rows_may_see(progress.role))
			continue;
		values[PROGRESS_PID] = Int32GetDatum(progress.pid);
		values[PROGRESS_DATABASE] = ObjectIdGetDatum(progress.database);
		values[PROGRESS_ROLE] = ObjectIdGetDatum(progress.role);
		values[PROGRESS_SINCE] = TimestampTzGetDatum(progress.since);
		values[PROGRESS_ROWS] = Int64GetDatum(figures->rows);
		values[PROGRESS_CALLS] = Int64GetDatum(figures->calls);
		values[PROGRESS_REQUESTS] = Int64GetDatum(figures->requests);
		values[PROGRESS_RETRIES] = Int64GetDatum(figures->retries);
		values[PROGRESS_ERRORS] = Int64GetDatum(figures->errors);
		values[PROGRESS_TOKENS] = Int64GetDatum(figures->tokens);
		values[PROGRESS_IN_FLIGHT] = Int32GetDatum(figures->in_flight);
		nulls[PROGRESS_WAITING_FOR] = figures->wait == INFER_PROGRESS_RUNNING;
		if (!nulls[PROGRESS_WAITING_FOR])
			values[PROGRESS_WAITING_FOR] = CStringGetTextDatum(waits[figures->wait]);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

static void
put_usage_key(const InferUsageRow *row, Datum *values, bool *nulls)
{
	const InferUsageKey *key = &row->key;
	bool folded = !OidIsValid(key->model.server);

	values[USAGE_DAY] = DateADTGetDatum(key->day);
	values[USAGE_DATABASE] = ObjectIdGetDatum(key->model.database);
	values[USAGE_ROLE] = ObjectIdGetDatum(key->role);
	values[USAGE_SERVER] = infer_name_datum(row->server_name);
	values[USAGE_REMOTE_MODEL] = infer_text_datum(key->model.remote_model);
	values[USAGE_TASK] = CStringGetTextDatum(infer_task_name(key->model.task));
	nulls[USAGE_DAY] = key->day == INFER_USAGE_OLDER;
	nulls[USAGE_DATABASE] = nulls[USAGE_SERVER] = folded;
	nulls[USAGE_REMOTE_MODEL] = nulls[USAGE_TASK] = folded;
	nulls[USAGE_ROLE] = !OidIsValid(key->role);
}

static void
put_usage(const InferUsage *usage, Datum *values, bool *nulls)
{
	values[USAGE_REQUESTS] = Int64GetDatum(usage->requests);
	values[USAGE_ATTEMPTS] = Int64GetDatum(usage->attempts);
	values[USAGE_FAILED] = Int64GetDatum(usage->failed);
	values[USAGE_CALLS] = Int64GetDatum(usage->calls);
	values[USAGE_MEMO_HITS] = Int64GetDatum(usage->memo_hits);
	values[USAGE_INPUT_TOKENS] = Int64GetDatum(usage->input_tokens);
	values[USAGE_OUTPUT_TOKENS] = Int64GetDatum(usage->output_tokens);
	values[USAGE_ESTIMATED] = Int64GetDatum(usage->estimated);
	values[USAGE_COST] = Float8GetDatum(usage->cost);
	/* where no price is known nothing is known, not even that it was free of charge */
	nulls[USAGE_COST] = usage->unpriced > 0 && usage->cost == 0;
	values[USAGE_UNPRICED] = Int64GetDatum(usage->unpriced);
}

/* A row per day, database, role, model and task. */
Datum
infer_stat_usage(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	InferUsageImage *image;

	infer_rows_begin(fcinfo, "infer_stat_usage", USAGE_COUNT);
	image = infer_usage_image();
	for (int i = 0; i < image->nrows; i++)
	{
		const InferUsageRow *row = &image->rows[i];
		Datum values[USAGE_COUNT];
		bool nulls[USAGE_COUNT] = {false};

		if (!infer_rows_may_see(row->key.role) ||
			(i == 0 && row->usage.attempts + row->usage.memo_hits == 0))
			continue;
		put_usage_key(row, values, nulls);
		put_usage(&row->usage, values, nulls);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* Sets counters and peaks of keys and servers to zero, and forgets what was observed. Who may: by
 * EXECUTE privilege. */
Datum
infer_stat_reset(PG_FUNCTION_ARGS)
{
	infer_require_preload();
	infer_admission_stat_reset();
	infer_observed_reset();
	infer_route_reset();
	PG_RETURN_VOID();
}

/* What this session keeps of requests that may have to be sent again. */
Datum
infer_retained_bytes(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(infer_call_retained_bytes());
}

/* Forgets what calls have taken, also of today, of all roles. Who may: by EXECUTE privilege. */
Datum
infer_reset_usage(PG_FUNCTION_ARGS)
{
	infer_require_preload();
	if (!infer_usage_reset())
		ereport(WARNING, (errmsg("usage was reset, but could not be written to its file"),
						  errhint("The server's log says why. It is written again later.")));
	PG_RETURN_VOID();
}
