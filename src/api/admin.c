/*
 * api/admin.c - SQL functions that manage models and where they run.
 *
 * The functions run as their caller; registry/ checks what he may do and writes the catalogs as
 * their owner.  Managing models needs no shared memory, so that a dump restores into a server that
 * does not load the library yet.  And infer.apply_limits(), for what limits a server.
 */
#include "postgres.h"

#include "call/call.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "pg/guc.h"
#include "registry/models.h"
#include "registry/placements.h"
#include "registry/versions.h"
#include "utils/builtins.h"
#include "utils/inval.h"

PG_FUNCTION_INFO_V1(infer_apply_limits);
PG_FUNCTION_INFO_V1(infer_create_model);
PG_FUNCTION_INFO_V1(infer_alter_model);
PG_FUNCTION_INFO_V1(infer_drop_model);
PG_FUNCTION_INFO_V1(infer_add_placement);
PG_FUNCTION_INFO_V1(infer_alter_placement);
PG_FUNCTION_INFO_V1(infer_drop_placement);
PG_FUNCTION_INFO_V1(infer_replace_placements);
PG_FUNCTION_INFO_V1(infer_note_model_change);
PG_FUNCTION_INFO_V1(infer_count_model_version);
PG_FUNCTION_INFO_V1(infer_count_placement_version);

/* A text argument as a C string, NULL for SQL NULL. */
static char *
infer_optional_text(FunctionCallInfo fcinfo, int arg)
{
	return PG_ARGISNULL(arg) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(arg));
}

static void
infer_require(FunctionCallInfo fcinfo, int arg, const char *name)
{
	if (PG_ARGISNULL(arg))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("argument \"%s\" must not be null", name)));
}

static char *
infer_required_text(FunctionCallInfo fcinfo, int arg, const char *name)
{
	infer_require(fcinfo, arg, name);
	return infer_optional_text(fcinfo, arg);
}

/* The arguments from the first on, as the fields they stand for. */
static void
infer_read_fields(FunctionCallInfo fcinfo, int first, const InferField *known, InferField *fields,
				  int nfields)
{
	memcpy(fields, known, sizeof(InferField) * nfields);
	for (int i = 0; i < nfields; i++)
	{
		fields[i].given = !PG_ARGISNULL(first + i);
		fields[i].value = fields[i].given ? PG_GETARG_DATUM(first + i) : (Datum) 0;
	}
}

/* ... and behind them the list of those to reset. */
static void
infer_read_changes(FunctionCallInfo fcinfo, int first, const InferField *known, InferField *fields,
				   int nfields)
{
	infer_read_fields(fcinfo, first, known, fields, nfields);
	if (!PG_ARGISNULL(first + nfields))
		infer_fields_reset(fields, nfields, PG_GETARG_DATUM(first + nfields));
}

/* create_model(name, task, server, remote_model, fields ...) */
Datum
infer_create_model(PG_FUNCTION_ARGS)
{
	InferField fields[INFER_MODEL_FIELDS];

	infer_read_fields(fcinfo, 4, infer_model_fields, fields, lengthof(fields));
	infer_model_create(infer_required_text(fcinfo, 0, "name"),
					   infer_required_text(fcinfo, 1, "task"), infer_optional_text(fcinfo, 2),
					   infer_optional_text(fcinfo, 3), fields);
	PG_RETURN_VOID();
}

/* alter_model(name, server, remote_model, fields ..., reset) */
Datum
infer_alter_model(PG_FUNCTION_ARGS)
{
	InferField fields[INFER_MODEL_FIELDS];

	infer_read_changes(fcinfo, 3, infer_model_fields, fields, lengthof(fields));
	infer_model_alter(infer_required_text(fcinfo, 0, "name"), infer_optional_text(fcinfo, 1),
					  infer_optional_text(fcinfo, 2), fields);
	PG_RETURN_VOID();
}

/* drop_model(name) */
Datum
infer_drop_model(PG_FUNCTION_ARGS)
{
	infer_model_drop(infer_required_text(fcinfo, 0, "name"));
	PG_RETURN_VOID();
}

/* add_placement(model, server, remote_model, fields ...) */
Datum
infer_add_placement(PG_FUNCTION_ARGS)
{
	InferField fields[INFER_PLACEMENT_FIELDS];

	infer_read_fields(fcinfo, 3, infer_placement_fields, fields, lengthof(fields));
	infer_placement_add(infer_required_text(fcinfo, 0, "model"),
						infer_required_text(fcinfo, 1, "server"), infer_optional_text(fcinfo, 2),
						fields);
	PG_RETURN_VOID();
}

/* alter_placement(model, server, remote_model, fields ..., reset) */
Datum
infer_alter_placement(PG_FUNCTION_ARGS)
{
	InferField fields[INFER_PLACEMENT_FIELDS];

	infer_read_changes(fcinfo, 3, infer_placement_fields, fields, lengthof(fields));
	infer_placement_alter(infer_required_text(fcinfo, 0, "model"),
						  infer_required_text(fcinfo, 1, "server"), infer_optional_text(fcinfo, 2),
						  fields);
	PG_RETURN_VOID();
}

/* drop_placement(model, server, remote_model) */
Datum
infer_drop_placement(PG_FUNCTION_ARGS)
{
	infer_placement_drop(infer_required_text(fcinfo, 0, "model"),
						 infer_required_text(fcinfo, 1, "server"), infer_optional_text(fcinfo, 2));
	PG_RETURN_VOID();
}

/* replace_placements(model, placements, version) */
Datum
infer_replace_placements(PG_FUNCTION_ARGS)
{
	char *model = infer_required_text(fcinfo, 0, "model");

	infer_require(fcinfo, 1, "placements");
	infer_require(fcinfo, 2, "version");
	infer_placements_replace(model, PG_GETARG_JSONB_P(1), PG_GETARG_INT64(2));
	PG_RETURN_VOID();
}

static TriggerData *
infer_trigger(FunctionCallInfo fcinfo)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("this function can only be called as a trigger")));
	return (TriggerData *) fcinfo->context;
}

/* Statement trigger of both catalogs: has all backends read models anew after commit. */
Datum
infer_note_model_change(PG_FUNCTION_ARGS)
{
	Oid models = infer_model_catalog(true);

	infer_trigger(fcinfo);
	if (OidIsValid(models))
		CacheInvalidateRelcacheByRelid(models);
	return PointerGetDatum(NULL);
}

/* Trigger of the model catalog. */
Datum
infer_count_model_version(PG_FUNCTION_ARGS)
{
	return PointerGetDatum(infer_versions_of_models(infer_trigger(fcinfo)));
}

/* Trigger of the placement catalog. */
Datum
infer_count_placement_version(PG_FUNCTION_ARGS)
{
	return PointerGetDatum(infer_versions_of_placements(infer_trigger(fcinfo)));
}

/* apply_limits(server) */
Datum
infer_apply_limits(PG_FUNCTION_ARGS)
{
	infer_require_preload();
	infer_call_apply_limits(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	PG_RETURN_VOID();
}
