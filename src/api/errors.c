/*
 * api/errors.c - infer.statement_errors(): why calls failed.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "api/rows.h"
#include "call/causes.h"
#include "pg/report.h"

PG_FUNCTION_INFO_V1(infer_statement_errors);

/* Its columns, in order. */
enum
{
	ERROR_ORDINAL,
	ERROR_CALLS,
	ERROR_MODEL,
	ERROR_SERVER,
	ERROR_TASK,
	ERROR_REASON,
	ERROR_EXECUTION,
	ERROR_SQLSTATE,
	ERROR_HTTP_STATUS,
	ERROR_ATTEMPTS,
	ERROR_ERROR,
	ERROR_INPUT_MD5,
	ERROR_AT,
	ERROR_COUNT
};

static void
put_cause(const InferCause *cause, Datum *values, bool *nulls)
{
	InferFailure failure = {
		.reason = cause->reason,
		.execution = cause->execution,
		.http_status = cause->http_status,
		.attempts = cause->attempts,
		.detail = cause->detail,
	};
	bool group = cause->ordinal == 0;

	values[ERROR_MODEL] = CStringGetTextDatum(cause->model);
	values[ERROR_SERVER] = CStringGetTextDatum(cause->server);
	values[ERROR_TASK] = CStringGetTextDatum(infer_task_name(cause->task));
	values[ERROR_REASON] = CStringGetTextDatum(infer_reason_name(cause->reason));
	values[ERROR_EXECUTION] = CStringGetTextDatum(infer_execution_name(cause->execution));
	values[ERROR_SQLSTATE] = CStringGetTextDatum(
		unpack_sql_state(infer_report_sqlstate(cause->reason, cause->execution)));
	values[ERROR_HTTP_STATUS] = Int32GetDatum(cause->http_status);
	nulls[ERROR_HTTP_STATUS] = cause->http_status == 0;
	values[ERROR_ATTEMPTS] = Int32GetDatum(cause->attempts);
	nulls[ERROR_ATTEMPTS] = group;
	values[ERROR_ERROR] = CStringGetTextDatum(infer_report_cause(&failure));
	nulls[ERROR_INPUT_MD5] = cause->md5 == NULL;
	if (cause->md5 != NULL)
		values[ERROR_INPUT_MD5] = CStringGetTextDatum(cause->md5);
}

static void
show_cause(const InferCause *cause, void *arg)
{
	ReturnSetInfo *rsinfo = arg;
	Datum values[ERROR_COUNT] = {0};
	bool nulls[ERROR_COUNT] = {false};

	/* what failed for a role whose rights one does not have (the definer of a function, or who one
	 * was before SET ROLE) may quote a server that one must not ask */
	if (!cause->any && !infer_rows_may_see(cause->userid))
		return;
	if (cause->any)
		memset(nulls, true, sizeof(nulls));
	else
		put_cause(cause, values, nulls);
	values[ERROR_ORDINAL] = Int64GetDatum(cause->ordinal);
	nulls[ERROR_ORDINAL] = cause->ordinal == 0;
	values[ERROR_CALLS] = Int64GetDatum(cause->calls);
	values[ERROR_AT] = TimestampTzGetDatum(cause->at);
	nulls[ERROR_CALLS] = nulls[ERROR_AT] = false;
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* A row per failed call of the last statement of this session that made any, up to a number; the
 * others by cause. */
Datum
infer_statement_errors(PG_FUNCTION_ARGS)
{
	infer_rows_begin(fcinfo, "infer_statement_errors", ERROR_COUNT);
	infer_causes_each(show_cause, fcinfo->resultinfo);
	return (Datum) 0;
}
