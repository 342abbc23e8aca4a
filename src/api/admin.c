/*
 * api/admin.c - SQL functions that manage models.
 *
 * The functions run as their caller; registry/models.c checks what he may do and writes the catalog
 * as its owner.  Managing models needs no shared memory, so that a dump restores into a server that
 * does not load the library yet.
 */
#include "postgres.h"

#include "commands/trigger.h"
#include "fmgr.h"
#include "registry/models.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(infer_create_model);
PG_FUNCTION_INFO_V1(infer_alter_model);
PG_FUNCTION_INFO_V1(infer_drop_model);
PG_FUNCTION_INFO_V1(infer_note_model_change);

/* A text argument as a C string, NULL for SQL NULL. */
static char *
infer_optional_text(FunctionCallInfo fcinfo, int arg)
{
	return PG_ARGISNULL(arg) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(arg));
}

static char *
infer_required_text(FunctionCallInfo fcinfo, int arg, const char *name)
{
	if (PG_ARGISNULL(arg))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("argument \"%s\" must not be null", name)));
	return infer_optional_text(fcinfo, arg);
}

/* A double precision argument, NULL for SQL NULL. */
static const double *
infer_optional_float(FunctionCallInfo fcinfo, int arg, double *value)
{
	if (PG_ARGISNULL(arg))
		return NULL;
	*value = PG_GETARG_FLOAT8(arg);
	return value;
}

/* create_model(name, task, server, remote_model, input_price, output_price) */
Datum
infer_create_model(PG_FUNCTION_ARGS)
{
	double input_price;
	double output_price;

	infer_model_create(infer_required_text(fcinfo, 0, "name"),
					   infer_required_text(fcinfo, 1, "task"),
					   infer_required_text(fcinfo, 2, "server"), infer_optional_text(fcinfo, 3),
					   infer_optional_float(fcinfo, 4, &input_price),
					   infer_optional_float(fcinfo, 5, &output_price));
	PG_RETURN_VOID();
}

/* alter_model(name, server, remote_model, input_price, output_price) */
Datum
infer_alter_model(PG_FUNCTION_ARGS)
{
	double input_price;
	double output_price;

	infer_model_alter(infer_required_text(fcinfo, 0, "name"), infer_optional_text(fcinfo, 1),
					  infer_optional_text(fcinfo, 2), infer_optional_float(fcinfo, 3, &input_price),
					  infer_optional_float(fcinfo, 4, &output_price));
	PG_RETURN_VOID();
}

/* drop_model(name) */
Datum
infer_drop_model(PG_FUNCTION_ARGS)
{
	infer_model_drop(infer_required_text(fcinfo, 0, "name"));
	PG_RETURN_VOID();
}

/* Statement trigger of the model catalog: has all backends read it anew after commit. */
Datum
infer_note_model_change(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("this function can only be called as a trigger")));
	CacheInvalidateRelcacheByRelid(
		RelationGetRelid(((TriggerData *) fcinfo->context)->tg_relation));
	return PointerGetDatum(NULL);
}
