/*
 * registry/replace.c - a whole set of placements from a JSON array, for programs that know which
 * servers there are.
 *
 * Such programs may run twice at a time, or late; so a set is taken only with a later version than
 * the present one has, and with exactly that version.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "registry/models.h"
#include "registry/placements.h"
#include "registry/versions.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"

/* One element of the array. */
typedef struct InferPlacementJson
{
	char *server;
	const char *remote_model;
	InferField fields[INFER_PLACEMENT_FIELDS];
} InferPlacementJson;

static void
infer_bad_placement(const char *key, const char *wanted)
{
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("\"%s\" of a placement must be %s", key, wanted)));
}

static char *
infer_json_string(const char *key, const JsonbValue *value)
{
	if (value->type != jbvString)
		infer_bad_placement(key, "a string");
	return pnstrdup(value->val.string.val, value->val.string.len);
}

static Datum
infer_json_strings(const char *key, const JsonbValue *value)
{
	ArrayBuildState *state = initArrayResult(TEXTOID, CurrentMemoryContext, false);
	JsonbIterator *iterator;
	JsonbIteratorToken token;
	JsonbValue element;

	if (value->type != jbvBinary || !JsonContainerIsArray(value->val.binary.data))
		infer_bad_placement(key, "an array of strings");
	iterator = JsonbIteratorInit(value->val.binary.data);
	while ((token = JsonbIteratorNext(&iterator, &element, true)) != WJB_DONE)
	{
		if (token != WJB_ELEM)
			continue;
		if (element.type != jbvString)
			infer_bad_placement(key, "an array of strings");
		accumArrayResult(state, CStringGetTextDatum(infer_json_string(key, &element)), false,
						 TEXTOID, CurrentMemoryContext);
	}
	return makeArrayResult(state, CurrentMemoryContext);
}

static Datum
infer_json_range(const char *key, const JsonbValue *value)
{
	Oid input;
	Oid parameter;

	getTypeInputInfo(TSTZRANGEOID, &input, &parameter);
	return OidInputFunctionCall(input, infer_json_string(key, value), parameter, -1);
}

static void
infer_read_field(InferField *field, const JsonbValue *value)
{
	switch (field->type)
	{
		case FLOAT8OID:
			if (value->type != jbvNumeric)
				infer_bad_placement(field->column, "a number");
			field->value = DirectFunctionCall1(numeric_float8, NumericGetDatum(value->val.numeric));
			break;
		case BOOLOID:
			if (value->type != jbvBool)
				infer_bad_placement(field->column, "true or false");
			field->value = BoolGetDatum(value->val.boolean);
			break;
		case TEXTARRAYOID:
			field->value = infer_json_strings(field->column, value);
			break;
		case TSTZRANGEOID:
			field->value = infer_json_range(field->column, value);
			break;
		default:
			field->value = CStringGetTextDatum(infer_json_string(field->column, value));
			break;
	}
	field->given = true;
}

static void
infer_read_key(InferPlacementJson *placement, const char *key, const JsonbValue *value)
{
	InferField *fields = placement->fields;

	if (strcmp(key, "server") == 0)
		placement->server = infer_json_string(key, value);
	else if (strcmp(key, "remote_model") == 0)
		placement->remote_model = value->type == jbvNull ? NULL : infer_json_string(key, value);
	else
	{
		int i = 0;

		while (i < INFER_PLACEMENT_FIELDS && strcmp(fields[i].column, key) != 0)
			i++;
		if (i == INFER_PLACEMENT_FIELDS)
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("a placement has no \"%s\"", key),
							errhint("It has: server, remote_model, %s.",
									infer_fields_names(fields, INFER_PLACEMENT_FIELDS))));
		if (value->type != jbvNull)
			infer_read_field(&fields[i], value);
	}
}

static void
infer_read_placement(const JsonbValue *element, InferPlacementJson *placement)
{
	JsonbIterator *iterator;
	JsonbIteratorToken token;
	JsonbValue item;
	char *key = NULL;

	placement->server = NULL;
	placement->remote_model = NULL;
	memcpy(placement->fields, infer_placement_fields, sizeof(placement->fields));
	if (element->type != jbvBinary || !JsonContainerIsObject(element->val.binary.data))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("a placement must be a JSON object"),
						errhint("For example {\"server\": \"gpu\", \"weight\": 2}.")));
	iterator = JsonbIteratorInit(element->val.binary.data);
	while ((token = JsonbIteratorNext(&iterator, &item, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			key = pnstrdup(item.val.string.val, item.val.string.len);
		else if (token == WJB_VALUE)
			infer_read_key(placement, key, &item);
	}
	if (placement->server == NULL)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("a placement must name its server"),
						errhint("For example {\"server\": \"gpu\", \"weight\": 2}.")));
}

static List *
infer_read_placements(const char *model, Jsonb *placements)
{
	JsonbIterator *iterator = JsonbIteratorInit(&placements->root);
	List *list = NIL;
	JsonbIteratorToken token;
	JsonbValue element;

	while ((token = JsonbIteratorNext(&iterator, &element, true)) != WJB_DONE)
	{
		InferPlacementJson *placement;

		if (token != WJB_ELEM)
			continue;
		placement = palloc(sizeof(InferPlacementJson));
		infer_read_placement(&element, placement);
		if (placement->remote_model == NULL)
			placement->remote_model = infer_usual_remote_model(model);
		list = lappend(list, placement);
	}
	return list;
}

/* The new set in place of the old one. The model's row is written also if both are empty. */
static void
infer_write_placements(const char *model, List *placements)
{
	InferField key = infer_field_text(NULL, model);
	ListCell *cell;

	infer_catalog_query("DELETE FROM infer.placement_catalog WHERE model OPERATOR(pg_catalog.=) $1",
						&key, 1, NULL);
	foreach (cell, placements)
	{
		InferPlacementJson *placement = lfirst(cell);

		infer_placement_insert(model, placement->server, placement->remote_model,
							   placement->fields);
	}
	infer_catalog_query("UPDATE infer.model_catalog SET name = name"
						" WHERE name OPERATOR(pg_catalog.=) $1",
						&key, 1, NULL);
}

static void
infer_check_version(const char *model, int64 version)
{
	InferField key = infer_field_text(NULL, model);
	char *present = NULL;

	if (version < 1 || version > INFER_SET_VERSION_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the version must be from 1 to " INT64_FORMAT, INFER_SET_VERSION_MAX)));
	infer_catalog_query("SELECT set_version FROM infer.model_catalog"
						" WHERE name OPERATOR(pg_catalog.=) $1",
						&key, 1, &present);
	if (DatumGetInt64(DirectFunctionCall1(int8in, CStringGetDatum(present))) >= version)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the placements of model \"%s\" have version %s, which is not "
						"before " INT64_FORMAT,
						model, present, version),
				 errhint("Somebody else changed them. Look at infer.placements, and give a version "
						 "beyond set_version of infer.models.")));
}

void
infer_placements_replace(const char *model, Jsonb *placements, int64 version)
{
	List *list;

	PreventCommandIfReadOnly("infer.replace_placements()");
	if (!JB_ROOT_IS_ARRAY(placements) || JB_ROOT_IS_SCALAR(placements))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("the placements must be a JSON array"),
						errhint("For example '[{\"server\": \"gpu1\"}, {\"server\": \"gpu2\"}]'; "
								"'[]' for none.")));
	infer_model_lock(model);
	infer_check_version(model, version);
	list = infer_read_placements(model, placements);
	infer_versions_say(version);
	PG_TRY();
	{
		infer_write_placements(model, list);
	}
	PG_FINALLY();
	{
		infer_versions_say(0);
	}
	PG_END_TRY();
	infer_model_check_prices(model);
}
