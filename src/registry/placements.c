/*
 * registry/placements.c - the rows of infer.placement_catalog.
 *
 * Whoever owns a model decides where it runs, on servers that he has USAGE on.  Every function
 * locks the model's row first, so that changes of one set happen one after the other.  A placement
 * names its server by name: DROP SERVER leaves it behind, and calls go to the others.
 */
#include "postgres.h"

#include <math.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "registry/models.h"
#include "registry/placements.h"
#include "registry/servers.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rangetypes.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#define INFER_WEIGHT_MIN 1e-6
#define INFER_WEIGHT_MAX 1e6
#define INFER_FEEDS_MAX  64
#define INFER_FEED_MAX   255 /* bytes */

/* Columns of infer.placement_catalog. */
enum
{
	INFER_COLUMN_MODEL = 1,
	INFER_COLUMN_SERVER,
	INFER_COLUMN_REMOTE_MODEL,
	INFER_COLUMN_FIRST_FIELD /* in the order of infer_placement_fields */
};

const InferField infer_placement_fields[INFER_PLACEMENT_FIELDS] = {
	[INFER_PLACEMENT_VERSION] = {"version", TEXTOID},
	[INFER_PLACEMENT_WEIGHT] = {"weight", FLOAT8OID},
	[INFER_PLACEMENT_FEEDS] = {"feeds", TEXTARRAYOID},
	[INFER_PLACEMENT_TS_RANGE] = {"ts_range", TSTZRANGEOID},
	[INFER_PLACEMENT_IS_PRIMARY] = {"is_primary", BOOLOID},
	[INFER_PLACEMENT_SERVICE_CLASS] = {"service_class", TEXTOID},
};

const InferPlacementRow infer_placement_default = {
	.version = INFER_VERSION_NONE,
	.weight = 1,
	.ts_from = PG_INT64_MIN,
	.ts_to = PG_INT64_MAX,
};

int
infer_version_parse(const char *what, const char *version)
{
	size_t major = strspn(version, "0123456789");

	if (major < 1 || major > 5 || (version[0] == '0' && major > 1) || version[major] != '.' ||
		strspn(version + major + 1, "0123456789") != 2 || version[major + 3] != '\0')
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("invalid %s: \"%s\"", what, version),
						errhint("Write it as M.NN, for example 2.05: a number of up to five "
								"digits, a point, two digits.")));
	return atoi(version) * 100 + atoi(version + major + 1);
}

/* A range of times as [from, to) in microseconds. */
static void
infer_range_bounds(Datum value, int64 *from, int64 *to)
{
	TypeCacheEntry *type = lookup_type_cache(TSTZRANGEOID, TYPECACHE_RANGE_INFO);
	RangeBound lower;
	RangeBound upper;
	bool empty;

	range_deserialize(type, DatumGetRangeTypeP(value), &lower, &upper, &empty);
	*from = lower.infinite ? PG_INT64_MIN : DatumGetTimestampTz(lower.val);
	*to = upper.infinite ? PG_INT64_MAX : DatumGetTimestampTz(upper.val);
	if (!lower.infinite && !lower.inclusive)
		(*from)++;
	if (!upper.infinite && upper.inclusive && *to < PG_INT64_MAX)
		(*to)++;
}

static InferPlacementRow *
infer_placement_of_tuple(HeapTuple tuple, TupleDesc desc)
{
	InferPlacementRow *row = palloc(sizeof(InferPlacementRow));
	Datum values[INFER_PLACEMENT_FIELDS];
	bool nulls[INFER_PLACEMENT_FIELDS];
	bool isnull;

	*row = infer_placement_default;
	row->server = TextDatumGetCString(heap_getattr(tuple, INFER_COLUMN_SERVER, desc, &isnull));
	row->remote_model =
		TextDatumGetCString(heap_getattr(tuple, INFER_COLUMN_REMOTE_MODEL, desc, &isnull));
	for (int i = 0; i < INFER_PLACEMENT_FIELDS; i++)
		values[i] = heap_getattr(tuple, INFER_COLUMN_FIRST_FIELD + i, desc, &nulls[i]);

	if (!nulls[INFER_PLACEMENT_VERSION])
		row->version =
			infer_version_parse("version", TextDatumGetCString(values[INFER_PLACEMENT_VERSION]));
	row->weight = DatumGetFloat8(values[INFER_PLACEMENT_WEIGHT]);
	if (!nulls[INFER_PLACEMENT_FEEDS])
		row->feeds = infer_texts(values[INFER_PLACEMENT_FEEDS], &row->nfeeds);
	if (!nulls[INFER_PLACEMENT_TS_RANGE])
		infer_range_bounds(values[INFER_PLACEMENT_TS_RANGE], &row->ts_from, &row->ts_to);
	row->is_primary = DatumGetBool(values[INFER_PLACEMENT_IS_PRIMARY]);
	if (!nulls[INFER_PLACEMENT_SERVICE_CLASS])
		row->service_class = TextDatumGetCString(values[INFER_PLACEMENT_SERVICE_CLASS]);
	return row;
}

static int
infer_compare_rows(const ListCell *a, const ListCell *b)
{
	const InferPlacementRow *left = lfirst(a);
	const InferPlacementRow *right = lfirst(b);
	int order = strcmp(left->server, right->server);

	return order != 0 ? order : strcmp(left->remote_model, right->remote_model);
}

List *
infer_placements_read(const char *model, Snapshot snapshot)
{
	Relation catalog = infer_catalog_open("placement_catalog", AccessShareLock);
	Oid index = infer_catalog_relation("placement_catalog_pkey", true);
	List *rows = NIL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	ScanKeyInit(&key, INFER_COLUMN_MODEL, BTEqualStrategyNumber, F_TEXTEQ,
				CStringGetTextDatum(model));
	scan = systable_beginscan(catalog, index, OidIsValid(index), snapshot, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		rows = lappend(rows, infer_placement_of_tuple(tuple, RelationGetDescr(catalog)));
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	list_sort(rows, infer_compare_rows);
	return rows;
}

static void
infer_check_fields(const InferField *fields)
{
	const InferField *weight = &fields[INFER_PLACEMENT_WEIGHT];
	const InferField *range = &fields[INFER_PLACEMENT_TS_RANGE];
	int unused;

	if (fields[INFER_PLACEMENT_VERSION].given)
		infer_version_parse("version", TextDatumGetCString(fields[INFER_PLACEMENT_VERSION].value));
	if (weight->given && !(DatumGetFloat8(weight->value) >= INFER_WEIGHT_MIN &&
						   DatumGetFloat8(weight->value) <= INFER_WEIGHT_MAX))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the weight must be a number above 0, from 0.000001 to 1000000"),
				 errhint("A placement of weight 2 gets twice the work of one of weight 1. To give "
						 "it none, drop it.")));
	if (fields[INFER_PLACEMENT_FEEDS].given)
		infer_check_texts("list of feeds", fields[INFER_PLACEMENT_FEEDS].value, INFER_FEEDS_MAX,
						  INFER_FEED_MAX, &unused);
	if (range->given && RangeIsEmpty(DatumGetRangeTypeP(range->value)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("the ts_range must not be empty"),
				 errhint("Leave it out for a placement that has all times.")));
	if (fields[INFER_PLACEMENT_SERVICE_CLASS].given)
		infer_check_word("service_class",
						 TextDatumGetCString(fields[INFER_PLACEMENT_SERVICE_CLASS].value));
}

/* The rows of a model on that server or (NULL) on any; *first is one's server, or remote_model. */
static int
infer_find_placements(const char *model, const char *server, const char *wanted, char **first)
{
	InferField args[] = {
		infer_field_text(NULL, model),
		infer_field_text(NULL, server ? server : ""),
	};

	return (int) infer_catalog_query(
		psprintf("SELECT DISTINCT %s FROM infer.placement_catalog"
				 " WHERE model OPERATOR(pg_catalog.=) $1"
				 " AND ($2 OPERATOR(pg_catalog.=) '' OR server OPERATOR(pg_catalog.=) $2)",
				 wanted),
		args, lengthof(args), first);
}

const char *
infer_usual_remote_model(const char *model)
{
	char *name = NULL;
	int count = infer_find_placements(model, NULL, "remote_model", &name);

	if (count > 1)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("what does the server call model \"%s\"?", model),
						errdetail("The servers that it runs on have %d names for it.", count),
						errhint("Give the remote_model.")));
	return count == 1 ? name : model;
}

/* What the model is called on a server where it has one placement, if nobody says it. */
static const char *
infer_only_remote_model(const char *model, const char *server)
{
	char *name = NULL;
	int count = infer_find_placements(model, server, "remote_model", &name);

	if (count > 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("model \"%s\" has %d placements on server \"%s\"", model, count, server),
				 errhint("Say which one by remote_model; infer.placements lists them.")));
	return name;
}

static void
infer_no_placement(const char *model, const char *server, const char *remote_model)
{
	ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
					errmsg("model \"%s\" has no placement on server \"%s\"", model, server),
					remote_model ? errdetail("None that is called \"%s\" there.", remote_model) : 0,
					errhint("infer.placements lists them.")));
}

/* The caller may have a model run on this server. */
static void
infer_check_server(const char *server)
{
	infer_server_require_usage(infer_server_find(server, NULL), server, GetUserId());
}

void
infer_placement_insert(const char *model, const char *server, const char *remote_model,
					   const InferField *fields)
{
	InferField row[3 + INFER_PLACEMENT_FIELDS];
	char *unused;

	infer_check_server(server);
	if (remote_model == NULL)
		remote_model = infer_usual_remote_model(model);
	infer_check_text("remote_model", remote_model, INFER_REMOTE_MODEL_MAX);
	infer_check_fields(fields);
	row[0] = infer_field_text("model", model);
	row[1] = infer_field_text("server", server);
	row[2] = infer_field_text("remote_model", remote_model);
	memcpy(&row[3], fields, sizeof(InferField) * INFER_PLACEMENT_FIELDS);
	if (!infer_catalog_insert("placement_catalog", row, lengthof(row)))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("model \"%s\" has a placement on server \"%s\" already", model, server),
				 errdetail("There it is called \"%s\".", remote_model),
				 errhint("Change it with infer.alter_placement().")));
	if (infer_find_placements(model, NULL, "server, remote_model", &unused) > INFER_PLACEMENTS_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("model \"%s\" has more than %d placements", model, INFER_PLACEMENTS_MAX)));
}

void
infer_placement_add(const char *model, const char *server, const char *remote_model,
					const InferField *fields)
{
	PreventCommandIfReadOnly("infer.add_placement()");
	infer_model_lock(model);
	infer_placement_insert(model, server, remote_model, fields);
	infer_model_check_prices(model);
}

void
infer_placement_alter(const char *model, const char *server, const char *remote_model,
					  const InferField *fields)
{
	InferField key[3];

	PreventCommandIfReadOnly("infer.alter_placement()");
	if (!infer_fields_any(fields, INFER_PLACEMENT_FIELDS))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("nothing to change in a placement of model \"%s\"", model),
						errhint("Give one or more of %s.",
								infer_fields_names(fields, INFER_PLACEMENT_FIELDS))));
	infer_model_lock(model);
	infer_check_fields(fields);
	if (remote_model == NULL)
		remote_model = infer_only_remote_model(model, server);
	if (remote_model == NULL)
		infer_no_placement(model, server, NULL);
	key[0] = infer_field_text("model", model);
	key[1] = infer_field_text("server", server);
	key[2] = infer_field_text("remote_model", remote_model);
	if (infer_catalog_update("placement_catalog", fields, INFER_PLACEMENT_FIELDS, key,
							 lengthof(key)) == 0)
		infer_no_placement(model, server, remote_model);
}

void
infer_placement_drop(const char *model, const char *server, const char *remote_model)
{
	InferField key[3];

	PreventCommandIfReadOnly("infer.drop_placement()");
	infer_model_lock(model);
	if (remote_model == NULL)
		remote_model = infer_only_remote_model(model, server);
	if (remote_model == NULL)
		infer_no_placement(model, server, NULL);
	key[0] = infer_field_text(NULL, model);
	key[1] = infer_field_text(NULL, server);
	key[2] = infer_field_text(NULL, remote_model);
	if (infer_catalog_query("DELETE FROM infer.placement_catalog"
							" WHERE model OPERATOR(pg_catalog.=) $1"
							" AND server OPERATOR(pg_catalog.=) $2"
							" AND remote_model OPERATOR(pg_catalog.=) $3",
							key, lengthof(key), NULL) == 0)
		infer_no_placement(model, server, remote_model);
}

void
infer_placement_move(const char *model, const char *server, const char *remote_model)
{
	InferField key = infer_field_text("model", model);
	InferField place[] = {
		{.column = "server", .type = TEXTOID},
		{.column = "remote_model", .type = TEXTOID},
	};
	char *unused;
	int count = infer_find_placements(model, NULL, "server, remote_model", &unused);

	if (count == 0)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("model \"%s\" has no placement", model),
						errhint("Add one with infer.add_placement().")));
	if (count > 1)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("model \"%s\" has %d placements", model, count),
						errdetail("server and remote_model are for a model that has one."),
						errhint("Change them with infer.add_placement(), infer.drop_placement(), "
								"infer.alter_placement() or infer.replace_placements().")));
	if (server != NULL)
	{
		infer_check_server(server);
		place[0] = infer_field_text("server", server);
	}
	if (remote_model != NULL)
	{
		infer_check_text("remote_model", remote_model, INFER_REMOTE_MODEL_MAX);
		place[1] = infer_field_text("remote_model", remote_model);
	}
	infer_catalog_update("placement_catalog", place, lengthof(place), &key, 1);
}
