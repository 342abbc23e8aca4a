/*
 * api/fdw.c - the validator of the foreign data wrapper pg_inference.
 *
 * The wrapper has no handler: servers and user mappings are all we use of SQL/MED, and there are no
 * foreign tables.
 */
#include "postgres.h"

#include "access/reloptions.h"
#include "fmgr.h"
#include "registry/options.h"

PG_FUNCTION_INFO_V1(infer_fdw_validator);

Datum
infer_fdw_validator(PG_FUNCTION_ARGS)
{
	infer_options_validate(untransformRelOptions(PG_GETARG_DATUM(0)), PG_GETARG_OID(1));
	PG_RETURN_VOID();
}
