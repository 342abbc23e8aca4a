/*
 * registry/models.c - the rows of infer.model_catalog.
 *
 * Reading needs no privilege, as with a system catalog, and uses one fresh catalog snapshot for a
 * model and its placements, so that nobody sees a set that never was.  Writing is done as the owner
 * of the table (registry/catalog.c).  A row is locked before its owner is looked at, so that two
 * roles cannot pass a model between check and change.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "core/ref.h"
#include "miscadmin.h"
#include "registry/models.h"
#include "registry/placements.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Columns of infer.model_catalog. */
enum
{
	INFER_COLUMN_NAME = 1,
	INFER_COLUMN_TASK,
	INFER_COLUMN_OWNER,
	INFER_COLUMN_INPUT_PRICE,
	INFER_COLUMN_OUTPUT_PRICE,
	INFER_COLUMN_SET_VERSION,
	INFER_COLUMN_MIN_VERSION,
	INFER_COLUMN_TS_ARGS,
	INFER_COLUMN_CLASS_FNS,
	INFER_COLUMN_FALLBACKS,
	INFER_COLUMN_ROUTING,
	INFER_COLUMN_AFFINITY,
	INFER_COLUMN_AFFINITY_BYTES,
	INFER_COLUMN_STRATEGY
};

const InferField infer_model_fields[INFER_MODEL_FIELDS] = {
	[INFER_MODEL_INPUT_PRICE] = {"input_price", FLOAT8OID},
	[INFER_MODEL_OUTPUT_PRICE] = {"output_price", FLOAT8OID},
	[INFER_MODEL_MIN_VERSION] = {"min_version", TEXTOID},
	[INFER_MODEL_TS_ARGS] = {"ts_args", TEXTARRAYOID},
	[INFER_MODEL_CLASS_FNS] = {"class_fns", TEXTARRAYOID},
	[INFER_MODEL_FALLBACKS] = {"fallbacks", TEXTARRAYOID},
	[INFER_MODEL_ROUTING] = {"routing", JSONBOID},
	[INFER_MODEL_AFFINITY] = {"affinity", TEXTOID},
	[INFER_MODEL_AFFINITY_BYTES] = {"affinity_bytes", INT4OID},
	[INFER_MODEL_STRATEGY] = {"strategy", TEXTOID},
};

Oid
infer_model_catalog(bool missing_ok)
{
	return infer_catalog_relation("model_catalog", missing_ok);
}

/* One by one, for a later version of the extension may have more columns than this library knows.
 */
static char *
infer_text_column(HeapTuple tuple, TupleDesc desc, int column)
{
	bool isnull;
	Datum value = heap_getattr(tuple, column, desc, &isnull);

	if (isnull)
		elog(ERROR, "column %d of infer.model_catalog is null", column);
	return TextDatumGetCString(value);
}

static double
infer_price_column(HeapTuple tuple, TupleDesc desc, int column)
{
	bool isnull;
	Datum value = heap_getattr(tuple, column, desc, &isnull);

	return isnull ? INFER_PRICE_UNKNOWN : DatumGetFloat8(value);
}

static InferNames
infer_names_column(HeapTuple tuple, TupleDesc desc, int column)
{
	InferNames names = {0};
	bool isnull;
	Datum value = heap_getattr(tuple, column, desc, &isnull);

	if (!isnull)
		names.names = infer_texts(value, &names.n);
	return names;
}

/* How a request finds its server. */
static void
infer_read_routing(InferModel *model, HeapTuple tuple, TupleDesc desc)
{
	bool isnull;
	Datum value = heap_getattr(tuple, INFER_COLUMN_MIN_VERSION, desc, &isnull);

	model->min_version = isnull ? INFER_VERSION_NONE
								: infer_version_parse("min_version", TextDatumGetCString(value));
	model->ts_args = infer_names_column(tuple, desc, INFER_COLUMN_TS_ARGS);
	model->class_fns = infer_names_column(tuple, desc, INFER_COLUMN_CLASS_FNS);
	model->fallbacks = infer_names_column(tuple, desc, INFER_COLUMN_FALLBACKS);
	value = heap_getattr(tuple, INFER_COLUMN_ROUTING, desc, &isnull);
	model->routing = isnull ? NULL : DatumGetJsonbPCopy(value);
	if (strcmp(infer_text_column(tuple, desc, INFER_COLUMN_AFFINITY), "prefix") == 0)
		model->affinity_bytes =
			DatumGetInt32(heap_getattr(tuple, INFER_COLUMN_AFFINITY_BYTES, desc, &isnull));
	model->strategy = strcmp(infer_text_column(tuple, desc, INFER_COLUMN_STRATEGY), "rr") == 0
						  ? INFER_STRATEGY_RR
						  : INFER_STRATEGY_SMART;
}

static InferModel *
infer_model_of_tuple(HeapTuple tuple, TupleDesc desc)
{
	InferModel *model = palloc0(sizeof(InferModel));
	bool isnull;

	model->name = infer_text_column(tuple, desc, INFER_COLUMN_NAME);
	model->task = infer_text_column(tuple, desc, INFER_COLUMN_TASK);
	model->owner = infer_text_column(tuple, desc, INFER_COLUMN_OWNER);
	model->input_price = infer_price_column(tuple, desc, INFER_COLUMN_INPUT_PRICE);
	model->output_price = infer_price_column(tuple, desc, INFER_COLUMN_OUTPUT_PRICE);
	model->set_version =
		DatumGetInt64(heap_getattr(tuple, INFER_COLUMN_SET_VERSION, desc, &isnull));
	infer_read_routing(model, tuple, desc);
	return model;
}

InferModel *
infer_model_read(const char *name)
{
	Relation catalog = infer_catalog_open("model_catalog", AccessShareLock);
	Oid index = infer_catalog_relation("model_catalog_pkey", true);
	Snapshot snapshot = RegisterSnapshot(GetCatalogSnapshot(RelationGetRelid(catalog)));
	InferModel *model = NULL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	ScanKeyInit(&key, INFER_COLUMN_NAME, BTEqualStrategyNumber, F_TEXTEQ,
				CStringGetTextDatum(name));
	scan = systable_beginscan(catalog, index, OidIsValid(index), snapshot, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		model = infer_model_of_tuple(tuple, RelationGetDescr(catalog));
	systable_endscan(scan);
	if (model != NULL)
		model->placements = infer_placements_read(name, snapshot);
	UnregisterSnapshot(snapshot);
	table_close(catalog, AccessShareLock);
	return model;
}

InferTask
infer_task_parse(const char *task)
{
	for (int i = 0; i < INFER_TASK_COUNT; i++)
	{
		if (strcmp(task, infer_task_name(i)) == 0)
			return i;
	}
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("unknown task \"%s\"", task),
					errhint("Tasks are: %s, %s, %s, %s.", infer_task_name(INFER_TASK_EMBED),
							infer_task_name(INFER_TASK_COMPLETE), infer_task_name(INFER_TASK_CHAT),
							infer_task_name(INFER_TASK_CALL))));
	return INFER_TASK_COUNT; /* not reached */
}

/*
 * Budgets of cost trust prices, so they are for the servers' owners to say.  Else who is under such
 * a budget would make a model of his own that costs nothing.
 */
void
infer_model_check_prices(const char *name)
{
	InferField args[] = {
		infer_field_text(NULL, name),
		{.type = OIDOID, .given = true, .value = ObjectIdGetDatum(GetUserId())},
	};
	char *server;

	if (infer_catalog_query(
			"SELECT s.srvname FROM infer.model_catalog AS m"
			" JOIN infer.placement_catalog AS p ON p.model OPERATOR(pg_catalog.=) m.name"
			" JOIN pg_catalog.pg_foreign_server AS s ON s.srvname OPERATOR(pg_catalog.=) p.server"
			" WHERE m.name OPERATOR(pg_catalog.=) $1"
			" AND (m.input_price IS NOT NULL OR m.output_price IS NOT NULL)"
			" AND NOT pg_catalog.pg_has_role($2, s.srvowner, 'USAGE')"
			" ORDER BY s.srvname LIMIT 1",
			args, lengthof(args), &server) > 0)
		ereport(
			ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied for model \"%s\", which has prices", name),
			 errdetail("Budgets trust prices, so this needs ownership of server \"%s\" as well.",
					   server),
			 errhint("Leave the prices out (infer.alter_model('%s', reset => "
					 "'{input_price,output_price}')), or have a role do it that owns the model "
					 "and its servers.",
					 name)));
}

void
infer_model_create(const char *name, const char *task, const char *server, const char *remote_model,
				   InferField *fields)
{
	InferField row[3 + INFER_MODEL_FIELDS] = {
		infer_field_text("name", name),
		infer_field_text("task", task),
		infer_field_text("owner", GetUserNameFromId(GetUserId(), false)),
	};

	PreventCommandIfReadOnly("infer.create_model()");
	infer_check_text("name of a model", name, INFER_MODEL_NAME_MAX);
	if (infer_ref_is(name))
		ereport(ERROR, (errcode(ERRCODE_RESERVED_NAME),
						errmsg("name of a model must not begin as service references do"),
						errdetail("\"infer:ref:\" is for what infer.ref() returns.")));
	if (strchr(name, '/') != NULL)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("the name of a model must have no slash: \"%s\"", name),
						errdetail("A name with a slash means server/remote_model."),
						errhint("Give what the server calls the model as remote_model.")));
	(void) infer_task_parse(task);
	if (server == NULL && remote_model != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("remote_model without a server"),
				 errhint("Give the server as well, or leave both out and add placements with "
						 "infer.add_placement().")));
	infer_model_check_fields(name, infer_task_parse(task), fields);
	memcpy(&row[3], fields, sizeof(InferField) * INFER_MODEL_FIELDS);
	if (!infer_catalog_insert("model_catalog", row, lengthof(row)))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT), errmsg("model \"%s\" already exists", name),
				 errhint("Change it with infer.alter_model().")));
	if (server != NULL)
		infer_placement_insert(name, server, remote_model, infer_placement_fields);
	infer_model_check_prices(name);
}

void
infer_model_lock(const char *name)
{
	InferField key = infer_field_text(NULL, name);
	char *owner;
	Oid role;

	if (infer_catalog_query("SELECT owner FROM infer.model_catalog"
							" WHERE name OPERATOR(pg_catalog.=) $1 FOR UPDATE",
							&key, 1, &owner) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("model \"%s\" does not exist", name),
				 errhint("infer.models lists the models.")));
	role = get_role_oid(owner, true);
	if (OidIsValid(role) ? !has_privs_of_role(GetUserId(), role) : !superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of model \"%s\"", name),
				 OidIsValid(role)
					 ? 0
					 : errdetail("Its owner, the role \"%s\", does not exist any more.", owner)));
}

void
infer_model_alter(const char *name, const char *server, const char *remote_model,
				  InferField *fields)
{
	InferField key = infer_field_text("name", name);

	PreventCommandIfReadOnly("infer.alter_model()");
	if (server == NULL && remote_model == NULL && !infer_fields_any(fields, INFER_MODEL_FIELDS))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("nothing to change in model \"%s\"", name),
						errhint("Give one or more of server, remote_model, %s.",
								infer_fields_names(fields, INFER_MODEL_FIELDS))));
	infer_model_lock(name);
	if (server != NULL || remote_model != NULL)
		infer_placement_move(name, server, remote_model);
	infer_model_check_fields(name, infer_task_parse(infer_model_read(name)->task), fields);
	infer_catalog_update("model_catalog", fields, INFER_MODEL_FIELDS, &key, 1);
	infer_model_check_prices(name);
}

void
infer_model_drop(const char *name)
{
	InferField key = infer_field_text(NULL, name);

	PreventCommandIfReadOnly("infer.drop_model()");
	infer_model_lock(name);
	infer_catalog_query("DELETE FROM infer.model_catalog WHERE name OPERATOR(pg_catalog.=) $1",
						&key, 1, NULL);
}
