/*
 * api/rows.c - what the functions share that return rows of figures.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"

#include "api/rows.h"
#include "pg/datum.h"
#include "pg/guc.h"

void
infer_rows_begin(FunctionCallInfo fcinfo, const char *symbol, int ncolumns)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	infer_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	if (rsinfo->setDesc->natts != ncolumns)
		elog(ERROR, "%s is declared with %d columns instead of %d", symbol, rsinfo->setDesc->natts,
			 ncolumns);
}

void
infer_rows_put_text(Datum *values, bool *nulls, int column, const char *text)
{
	nulls[column] = text == NULL || text[0] == '\0';
	if (!nulls[column])
		values[column] = infer_text_datum(text);
}

bool
infer_rows_may_see(Oid role)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS) ||
		   has_privs_of_role(GetUserId(), role);
}
