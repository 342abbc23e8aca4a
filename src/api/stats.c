/*
 * api/stats.c - what infer.stat_admission shows, and infer.stat_reset().
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "pg/guc.h"
#include "shmem/admission.h"

PG_FUNCTION_INFO_V1(infer_stat_admission);
PG_FUNCTION_INFO_V1(infer_stat_reset);

/* Columns of infer_stat_admission(), in order. */
enum
{
	COL_KEY,
	COL_MAX_LIMIT,
	COL_IN_FLIGHT,
	COL_WAITING,
	COL_PEAK,
	COL_GRANTED,
	COL_SUCCEEDED,
	COL_OVERLOADED,
	COL_FAILED,
	COL_IGNORED,
	COL_COUNT
};

/* A row per admission key. Entries are read one by one: each is consistent in itself. */
Datum
infer_stat_admission(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	InferAdmissionStat stat;

	infer_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	if (rsinfo->setDesc->natts != COL_COUNT)
		elog(ERROR, "infer_stat_admission is declared with %d columns instead of %d",
			 rsinfo->setDesc->natts, COL_COUNT);

	for (int i = 0; infer_admission_stat(i, &stat); i++)
	{
		Datum values[COL_COUNT];
		bool nulls[COL_COUNT] = {false};

		values[COL_KEY] = CStringGetTextDatum(stat.key);
		values[COL_MAX_LIMIT] = Int32GetDatum(stat.cap);
		values[COL_IN_FLIGHT] = Int32GetDatum(stat.in_flight);
		values[COL_WAITING] = Int32GetDatum(stat.waiting);
		values[COL_PEAK] = Int32GetDatum(stat.peak);
		values[COL_GRANTED] = Int64GetDatum(stat.granted);
		values[COL_SUCCEEDED] = Int64GetDatum(stat.succeeded);
		values[COL_OVERLOADED] = Int64GetDatum(stat.overloaded);
		values[COL_FAILED] = Int64GetDatum(stat.failed);
		values[COL_IGNORED] = Int64GetDatum(stat.ignored);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* Sets counters and peaks of all keys to zero. Who may: by EXECUTE privilege. */
Datum
infer_stat_reset(PG_FUNCTION_ARGS)
{
	infer_require_preload();
	infer_admission_stat_reset();
	PG_RETURN_VOID();
}
