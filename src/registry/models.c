/*
 * registry/models.c - the rows of infer.model_catalog.
 *
 * Reading needs no privilege, as with a system catalog, and uses a fresh catalog snapshot.  Writing
 * goes through SPI as the owner of the table, in a restricted security context, with every name and
 * operator qualified, so that the caller's search_path cannot redirect it.  A row is locked before
 * its owner is looked at, so that two roles cannot pass a model between check and change.
 */
#include "postgres.h"

#include <math.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "pg/report.h"
#include "registry/models.h"
#include "registry/servers.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#define INFER_REMOTE_MODEL_MAX 1024 /* bytes */

/* Columns of infer.model_catalog. */
enum
{
	INFER_MODEL_NAME = 1,
	INFER_MODEL_TASK,
	INFER_MODEL_SERVER,
	INFER_MODEL_REMOTE_MODEL,
	INFER_MODEL_OWNER,
	INFER_MODEL_INPUT_PRICE,
	INFER_MODEL_OUTPUT_PRICE,
	INFER_MODEL_COLUMNS = INFER_MODEL_OUTPUT_PRICE
};

static Oid
infer_catalog_relation(const char *name, bool missing_ok)
{
	Oid namespace = get_namespace_oid("infer", true);
	Oid relation = OidIsValid(namespace) ? get_relname_relid(name, namespace) : InvalidOid;

	if (!OidIsValid(relation) && !missing_ok)
		ereport(ERROR, (errcode(infer_errcode_config()),
						errmsg("pg_inference is not installed in this database"),
						errhint("Install it with CREATE EXTENSION pg_inference.")));
	return relation;
}

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

InferModel *
infer_model_read(const char *name)
{
	Relation catalog = table_open(infer_model_catalog(false), AccessShareLock);
	Oid index = infer_catalog_relation("model_catalog_pkey", true);
	InferModel *model = NULL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	ScanKeyInit(&key, INFER_MODEL_NAME, BTEqualStrategyNumber, F_TEXTEQ, CStringGetTextDatum(name));
	scan = systable_beginscan(catalog, index, OidIsValid(index), NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		TupleDesc desc = RelationGetDescr(catalog);

		model = palloc0(sizeof(InferModel));
		model->name = infer_text_column(tuple, desc, INFER_MODEL_NAME);
		model->task = infer_text_column(tuple, desc, INFER_MODEL_TASK);
		model->server = infer_text_column(tuple, desc, INFER_MODEL_SERVER);
		model->remote_model = infer_text_column(tuple, desc, INFER_MODEL_REMOTE_MODEL);
		model->owner = infer_text_column(tuple, desc, INFER_MODEL_OWNER);
		model->input_price = infer_price_column(tuple, desc, INFER_MODEL_INPUT_PRICE);
		model->output_price = infer_price_column(tuple, desc, INFER_MODEL_OUTPUT_PRICE);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return model;
}

/* Runs one statement over text parameters (NULL = SQL NULL) as the owner of the catalog. Returns
 * the number of rows; with result, also the first column of the first row. */
static uint64
infer_catalog_execute(const char *sql, int nargs, const char **args, char **result)
{
	Relation catalog = table_open(infer_model_catalog(false), RowExclusiveLock);
	MemoryContext caller = CurrentMemoryContext;
	Oid types[INFER_MODEL_COLUMNS];
	Datum values[INFER_MODEL_COLUMNS];
	char nulls[INFER_MODEL_COLUMNS + 1];
	Oid save_userid;
	int save_context;
	uint64 rows;

	Assert(nargs <= INFER_MODEL_COLUMNS);
	for (int i = 0; i < nargs; i++)
	{
		types[i] = TEXTOID;
		values[i] = args[i] ? CStringGetTextDatum(args[i]) : (Datum) 0;
		nulls[i] = args[i] ? ' ' : 'n';
	}
	nulls[nargs] = '\0';

	GetUserIdAndSecContext(&save_userid, &save_context);
	SetUserIdAndSecContext(catalog->rd_rel->relowner, save_context | SECURITY_LOCAL_USERID_CHANGE |
														  SECURITY_RESTRICTED_OPERATION);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	if (SPI_execute_with_args(sql, nargs, types, values, nulls, false, 0) < 0)
		elog(ERROR, "could not run \"%s\"", sql);
	rows = SPI_processed;
	if (result != NULL && rows > 0)
	{
		char *value = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);

		*result = MemoryContextStrdup(caller, value);
	}
	SPI_finish();
	SetUserIdAndSecContext(save_userid, save_context);
	table_close(catalog, NoLock);
	return rows;
}

static void
infer_check_text(const char *what, const char *value, size_t max)
{
	if (value[0] == '\0')
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("the %s must not be empty", what)));
	if (strlen(value) > max)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("the %s is longer than %zu bytes", what, max)));
	for (const char *p = value; *p; p++)
	{
		if ((unsigned char) *p < 0x20 || *p == 0x7f)
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("the %s must have no control characters", what)));
	}
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

/* The caller may bind a model to this server. */
static void
infer_check_server(const char *server)
{
	infer_server_require_usage(infer_server_find(server, NULL), server, GetUserId());
}

/* A checked price as text; NULL stays NULL. */
static const char *
infer_price_text(const char *what, const double *price)
{
	if (price == NULL)
		return NULL;
	if (isnan(*price) || isinf(*price) || *price < 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("the %s must be a finite number that is not negative", what),
						errhint("It is what a million tokens cost; 0 stands for free of charge.")));
	return float8out_internal(*price);
}

/*
 * After a change: budgets of cost trust prices, so they are for the server's owner to say.  Else
 * who is under such a budget would make a model of his own that costs nothing.
 */
static void
infer_check_prices(const char *name)
{
	char *server;

	if (infer_catalog_execute("SELECT server FROM infer.model_catalog"
							  " WHERE name OPERATOR(pg_catalog.=) $1"
							  " AND (input_price IS NOT NULL OR output_price IS NOT NULL)",
							  1, &name, &server) > 0 &&
		!infer_server_is_owner(infer_server_find(server, NULL), GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to say the prices of model \"%s\"", name),
				 errdetail("Only the owner of server \"%s\" may, for budgets trust them.", server),
				 errhint("Leave the prices out, or have the owner create the model.")));
}

void
infer_model_create(const char *name, const char *task, const char *server, const char *remote_model,
				   const double *input_price, const double *output_price)
{
	const char *args[INFER_MODEL_COLUMNS];

	PreventCommandIfReadOnly("infer.create_model()");
	infer_check_text("name of a model", name, INFER_MODEL_NAME_MAX);
	if (strchr(name, '/') != NULL)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("the name of a model must have no slash: \"%s\"", name),
						errdetail("A name with a slash means server/remote_model."),
						errhint("Give what the server calls the model as remote_model.")));
	(void) infer_task_parse(task);
	infer_check_server(server);
	if (remote_model != NULL)
		infer_check_text("remote_model", remote_model, INFER_REMOTE_MODEL_MAX);

	args[INFER_MODEL_NAME - 1] = name;
	args[INFER_MODEL_TASK - 1] = task;
	args[INFER_MODEL_SERVER - 1] = server;
	args[INFER_MODEL_REMOTE_MODEL - 1] = remote_model ? remote_model : name;
	args[INFER_MODEL_OWNER - 1] = GetUserNameFromId(GetUserId(), false);
	args[INFER_MODEL_INPUT_PRICE - 1] = infer_price_text("input_price", input_price);
	args[INFER_MODEL_OUTPUT_PRICE - 1] = infer_price_text("output_price", output_price);
	if (infer_catalog_execute("INSERT INTO infer.model_catalog (name, task, server, remote_model,"
							  " owner, input_price, output_price) VALUES ($1, $2, $3, $4, $5,"
							  " CAST($6 AS pg_catalog.float8), CAST($7 AS pg_catalog.float8))"
							  " ON CONFLICT (name) DO NOTHING",
							  INFER_MODEL_COLUMNS, args, NULL) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT), errmsg("model \"%s\" already exists", name),
				 errhint("Change it with infer.alter_model().")));
	infer_check_prices(name);
}

/* Locks the model's row until the end of the transaction and checks that the caller owns it. */
static void
infer_model_lock(const char *name)
{
	char *owner;
	Oid role;

	if (infer_catalog_execute("SELECT owner FROM infer.model_catalog"
							  " WHERE name OPERATOR(pg_catalog.=) $1 FOR UPDATE",
							  1, &name, &owner) == 0)
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
				  const double *input_price, const double *output_price)
{
	const char *args[] = {name, server, remote_model, infer_price_text("input_price", input_price),
						  infer_price_text("output_price", output_price)};

	PreventCommandIfReadOnly("infer.alter_model()");
	if (server == NULL && remote_model == NULL && input_price == NULL && output_price == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("nothing to change in model \"%s\"", name),
				 errhint("Give one or more of server, remote_model, input_price, output_price.")));
	infer_model_lock(name);
	if (server != NULL)
		infer_check_server(server);
	if (remote_model != NULL)
		infer_check_text("remote_model", remote_model, INFER_REMOTE_MODEL_MAX);
	infer_catalog_execute("UPDATE infer.model_catalog SET server = COALESCE($2, server),"
						  " remote_model = COALESCE($3, remote_model),"
						  " input_price = COALESCE(CAST($4 AS pg_catalog.float8), input_price),"
						  " output_price = COALESCE(CAST($5 AS pg_catalog.float8), output_price)"
						  " WHERE name OPERATOR(pg_catalog.=) $1",
						  lengthof(args), args, NULL);
	infer_check_prices(name);
}

void
infer_model_drop(const char *name)
{
	PreventCommandIfReadOnly("infer.drop_model()");
	infer_model_lock(name);
	infer_catalog_execute("DELETE FROM infer.model_catalog WHERE name OPERATOR(pg_catalog.=) $1", 1,
						  &name, NULL);
}
