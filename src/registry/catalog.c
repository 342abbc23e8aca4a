/*
 * registry/catalog.c - the tables of the extension, as rows of named fields.
 *
 * Writing goes through SPI as the owner of the tables, in a restricted security context, with every
 * name and operator qualified, so that the caller's search_path cannot redirect it.  Statements are
 * put together from names that stand in our own source; all values are parameters.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "pg/report.h"
#include "registry/catalog.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#define INFER_FIELDS_MAX 24
#define INFER_WORD_MAX   63 /* bytes */

InferField
infer_field_text(const char *column, const char *value)
{
	InferField field = {
		.column = column, .type = TEXTOID, .given = true, .value = CStringGetTextDatum(value)};

	return field;
}

Oid
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

/* One that is dropped before its lock is had is gone, unless another one has come. */
Relation
infer_catalog_open(const char *name, LOCKMODE mode)
{
	Relation relation;

	do
		relation = try_table_open(infer_catalog_relation(name, false), mode);
	while (relation == NULL);
	return relation;
}

uint64
infer_catalog_query(const char *sql, const InferField *args, int nargs, char **result)
{
	Relation catalog = infer_catalog_open("model_catalog", RowExclusiveLock);
	MemoryContext caller = CurrentMemoryContext;
	Oid types[INFER_FIELDS_MAX];
	Datum values[INFER_FIELDS_MAX];
	char nulls[INFER_FIELDS_MAX + 1];
	Oid save_userid;
	int save_context;
	uint64 rows;

	Assert(nargs <= INFER_FIELDS_MAX);
	for (int i = 0; i < nargs; i++)
	{
		types[i] = args[i].type;
		values[i] = args[i].value;
		nulls[i] = args[i].given ? ' ' : 'n';
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

		*result = value ? MemoryContextStrdup(caller, value) : NULL;
	}
	SPI_finish();
	SetUserIdAndSecContext(save_userid, save_context);
	table_close(catalog, NoLock);
	return rows;
}

bool
infer_catalog_insert(const char *table, const InferField *fields, int nfields)
{
	InferField args[INFER_FIELDS_MAX];
	StringInfoData sql;
	int nargs = 0;

	initStringInfo(&sql);
	appendStringInfo(&sql, "INSERT INTO infer.%s (", table);
	for (int i = 0; i < nfields; i++)
	{
		if (!fields[i].given)
			continue;
		appendStringInfo(&sql, "%s%s", nargs > 0 ? ", " : "", fields[i].column);
		args[nargs++] = fields[i];
	}
	appendStringInfoString(&sql, ") VALUES (");
	for (int i = 1; i <= nargs; i++)
		appendStringInfo(&sql, "%s$%d", i > 1 ? ", " : "", i);
	appendStringInfoString(&sql, ") ON CONFLICT DO NOTHING");
	return infer_catalog_query(sql.data, args, nargs, NULL) > 0;
}

uint64
infer_catalog_update(const char *table, const InferField *fields, int nfields,
					 const InferField *key, int nkey)
{
	InferField args[INFER_FIELDS_MAX];
	StringInfoData sql;
	int nargs = 0;
	int nset = 0;
	int nwhere = 0;

	if (!infer_fields_any(fields, nfields))
		return 0;
	initStringInfo(&sql);
	appendStringInfo(&sql, "UPDATE infer.%s SET ", table);
	for (int i = 0; i < nfields; i++)
	{
		if (!fields[i].given && !fields[i].reset)
			continue;
		appendStringInfo(&sql, "%s%s = ", nset++ > 0 ? ", " : "", fields[i].column);
		if (fields[i].reset)
			appendStringInfoString(&sql, "DEFAULT");
		else
		{
			args[nargs++] = fields[i];
			appendStringInfo(&sql, "$%d", nargs);
		}
	}
	for (int i = 0; i < nkey; i++)
	{
		if (!key[i].given)
			continue;
		args[nargs++] = key[i];
		appendStringInfo(&sql, " %s %s OPERATOR(pg_catalog.=) $%d", nwhere++ > 0 ? "AND" : "WHERE",
						 key[i].column, nargs);
	}
	return infer_catalog_query(sql.data, args, nargs, NULL);
}

bool
infer_fields_any(const InferField *fields, int nfields)
{
	for (int i = 0; i < nfields; i++)
	{
		if (fields[i].given || fields[i].reset)
			return true;
	}
	return false;
}

char *
infer_fields_names(const InferField *fields, int nfields)
{
	StringInfoData names;

	initStringInfo(&names);
	for (int i = 0; i < nfields; i++)
		appendStringInfo(&names, "%s%s", i > 0 ? ", " : "", fields[i].column);
	return names.data;
}

void
infer_fields_reset(InferField *fields, int nfields, Datum names)
{
	int count;
	char **wanted = infer_check_texts("list reset", names, nfields, NAMEDATALEN, &count);

	for (int i = 0; i < count; i++)
	{
		int field = 0;

		while (field < nfields && strcmp(fields[field].column, wanted[i]) != 0)
			field++;
		if (field == nfields)
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("\"%s\" cannot be reset", wanted[i]),
							errhint("These can: %s.", infer_fields_names(fields, nfields))));
		if (fields[field].given)
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("\"%s\" is both given and reset", wanted[i])));
		fields[field].reset = true;
	}
}

void
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

void
infer_check_word(const char *what, const char *value)
{
	infer_check_text(what, value, INFER_WORD_MAX);
	for (const char *p = value; *p; p++)
	{
		if ((unsigned char) *p >= 0x7f)
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("the %s must have only printable ASCII characters", what)));
	}
}

char **
infer_texts(Datum value, int *count)
{
	Datum *elements;
	char **texts;

	deconstruct_array(DatumGetArrayTypeP(value), TEXTOID, -1, false, TYPALIGN_INT, &elements, NULL,
					  count);
	texts = palloc(sizeof(char *) * Max(*count, 1));
	for (int i = 0; i < *count; i++)
		texts[i] = TextDatumGetCString(elements[i]);
	return texts;
}

char **
infer_check_texts(const char *what, Datum value, int max_count, size_t max, int *count)
{
	ArrayType *array = DatumGetArrayTypeP(value);
	char **texts;

	if (ARR_NDIM(array) > 1)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("the %s must have one dimension", what)));
	if (array_contains_nulls(array))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("the %s must have no nulls", what)));
	texts = infer_texts(PointerGetDatum(array), count);
	if (*count > max_count)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("the %s has %d members, where at most %d are allowed", what, *count,
							   max_count)));
	for (int i = 0; i < *count; i++)
	{
		infer_check_text(psprintf("member of the %s", what), texts[i], max);
		for (int j = 0; j < i; j++)
		{
			if (strcmp(texts[i], texts[j]) == 0)
				ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
								errmsg("the %s has \"%s\" twice", what, texts[i])));
		}
	}
	return texts;
}
