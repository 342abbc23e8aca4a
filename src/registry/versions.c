/*
 * registry/versions.c - the version of a model's set of placements, which only grows.
 *
 * Triggers count it up with each change of a model or one of its placements, whoever makes it.  New
 * versions come from one sequence for all models, so that a model which is dropped and made again
 * has a later one than before.  A version may also be said (infer.replace_placements), so a row's
 * version may be beyond the sequence.  That does no harm as long as the row is there: its next
 * version is the next of the sequence, or one more than it has, whichever is larger.  When the row
 * goes, the sequence is moved beyond its version.
 *
 * Rows that come with a version keep it: they are a dump's.  For that placements have one, too,
 * that of their set when they were written; else restoring them would count, and what was restored
 * would not be what was dumped.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "executor/spi.h"
#include "registry/catalog.h"
#include "registry/versions.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/rel.h"

#define INFER_VERSIONS "set_versions"

static int64 said = 0; /* the version that all rows get now; 0: the next one */

void
infer_versions_say(int64 version)
{
	said = version;
}

/*
 * The next version, at least this one; of the sequence, which is moved there if it was behind.  The
 * lock makes a unit of the look and the move, and is not kept: the sequence takes no part in
 * transactions.
 */
static int64
infer_next_version(int64 at_least)
{
	Datum sequence = ObjectIdGetDatum(infer_catalog_relation(INFER_VERSIONS, false));
	int64 version;

	LockDatabaseObject(RelationRelationId, DatumGetObjectId(sequence), 1, ExclusiveLock);
	version = DatumGetInt64(DirectFunctionCall1(nextval_oid, sequence));
	if (version < at_least)
	{
		version = at_least;
		DirectFunctionCall2(setval_oid, sequence, Int64GetDatum(version));
	}
	UnlockDatabaseObject(RelationRelationId, DatumGetObjectId(sequence), 1, ExclusiveLock);
	return version;
}

/* The number of a column; a trigger can be put on any table. */
static int
infer_column_of(Relation relation, const char *name)
{
	int column = SPI_fnumber(RelationGetDescr(relation), name);

	if (column <= 0)
		elog(ERROR, "table \"%s\" has no column \"%s\"", RelationGetRelationName(relation), name);
	return column;
}

static int64
infer_version_of(Relation relation, HeapTuple tuple)
{
	bool isnull;
	Datum value = heap_getattr(tuple, infer_column_of(relation, "set_version"),
							   RelationGetDescr(relation), &isnull);

	return isnull ? 0 : DatumGetInt64(value);
}

static HeapTuple
infer_with_version(Relation relation, HeapTuple tuple, int64 version)
{
	int column = infer_column_of(relation, "set_version");
	Datum value = Int64GetDatum(version);
	bool isnull = false;

	return heap_modify_tuple_by_cols(tuple, RelationGetDescr(relation), 1, &column, &value,
									 &isnull);
}

/* A later version than it had, and no earlier one than it says. */
static HeapTuple
infer_count_model(Relation models, HeapTuple old, HeapTuple new)
{
	int64 version = infer_version_of(models, new);
	int64 next;

	if (said != 0)
		return infer_with_version(models, new, said);
	if (old == NULL && version > 0)
		return new;
	if (old != NULL)
		version = Max(version, infer_version_of(models, old) + 1);
	next = infer_next_version(0);
	return infer_with_version(models, new, Max(version, next));
}

/* Runs one statement on our tables, as whoever fired the trigger. Returns the first column of its
 * first row, 0 without one. */
static int64
infer_run(const char *sql, const char *model)
{
	Oid type = TEXTOID;
	Datum value = model ? CStringGetTextDatum(model) : (Datum) 0;
	int64 result = 0;

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	if (SPI_execute_with_args(sql, model ? 1 : 0, &type, &value, NULL, false, 0) < 0)
		elog(ERROR, "could not run \"%s\"", sql);
	if (SPI_tuptable != NULL && SPI_processed > 0)
	{
		bool isnull;
		Datum first = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);

		result = isnull ? 0 : DatumGetInt64(first);
	}
	SPI_finish();
	return result;
}

HeapTuple
infer_versions_of_models(TriggerData *trigger)
{
	Relation models = trigger->tg_relation;

	if (!TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
		infer_next_version(
			infer_run("SELECT pg_catalog.max(set_version) FROM infer.model_catalog", NULL));
	else if (TRIGGER_FIRED_BY_DELETE(trigger->tg_event))
		infer_next_version(infer_version_of(models, trigger->tg_trigtuple));
	else if (TRIGGER_FIRED_BY_UPDATE(trigger->tg_event))
		return infer_count_model(models, trigger->tg_trigtuple, trigger->tg_newtuple);
	else
		return infer_count_model(models, NULL, trigger->tg_trigtuple);
	return NULL;
}

/* Writing the model's row counts its version up. Returns the new one, 0 if there is no model. */
static int64
infer_touch_model(Relation placements, HeapTuple tuple)
{
	char *model =
		SPI_getvalue(tuple, RelationGetDescr(placements), infer_column_of(placements, "model"));

	return model == NULL ? 0
						 : infer_run("UPDATE infer.model_catalog SET name = name"
									 " WHERE name OPERATOR(pg_catalog.=) $1 RETURNING set_version",
									 model);
}

HeapTuple
infer_versions_of_placements(TriggerData *trigger)
{
	Relation placements = trigger->tg_relation;
	HeapTuple tuple = trigger->tg_trigtuple;

	if (!TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
		infer_run("UPDATE infer.model_catalog SET name = name", NULL);
	else if (TRIGGER_FIRED_BY_DELETE(trigger->tg_event))
		infer_touch_model(placements, tuple);
	else if (TRIGGER_FIRED_BY_UPDATE(trigger->tg_event))
	{
		infer_touch_model(placements, tuple);
		tuple = trigger->tg_newtuple;
		return infer_with_version(placements, tuple, infer_touch_model(placements, tuple));
	}
	else if (infer_version_of(placements, tuple) == 0)
		return infer_with_version(placements, tuple, infer_touch_model(placements, tuple));
	else
		return tuple;
	return NULL;
}
