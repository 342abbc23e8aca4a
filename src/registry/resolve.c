/*
 * registry/resolve.c - from a model's name, as a caller writes it, to a server and a remote model.
 *
 * Targets are remembered by (task, name) in this process until a catalog they may depend on
 * changes; the privilege to use the server is checked every time.  Each kind of change counts up
 * one number, the generation; the whole memory of targets belongs to one generation and is thrown
 * away with it.  Catalog reads can deliver invalidations themselves, so a target is remembered only
 * if the generation was the same before and after reading it.
 *
 * Facts for planning are remembered likewise, also that there is no such model: planning asks for
 * each expression of each path, and must neither raise nor wait.
 */
#include "postgres.h"

#include "foreign/foreign.h"
#include "pg/report.h"
#include "registry/models.h"
#include "registry/placements.h"
#include "registry/registry.h"
#include "registry/servers.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#define INFER_TARGET_KEY_MAX   384 /* longer names are looked up every time */
#define INFER_TARGET_CACHE_MAX 256

typedef struct InferTargetSlot
{
	char key[INFER_TARGET_KEY_MAX]; /* hash key: task digit, then the name */
	InferTarget *target;
} InferTargetSlot;

typedef struct InferFactsSlot
{
	char key[INFER_TARGET_KEY_MAX]; /* hash key: the name */
	bool found;
	InferModelFacts facts;
} InferFactsSlot;

static uint64 generation = 1;
static uint64 cache_generation = 0; /* of what is in the caches */
static MemoryContext cache_context = NULL;
static HTAB *target_cache = NULL;
static HTAB *facts_cache = NULL;
static Oid model_catalog = InvalidOid; /* as last seen, to recognise its invalidation */

static void
infer_note_catalog_change(Datum arg, int cacheid, uint32 hashvalue)
{
	generation++;
}

static void
infer_note_relation_change(Datum arg, Oid relid)
{
	if (!OidIsValid(relid) || relid == model_catalog)
		generation++;
}

void
infer_registry_init(void)
{
	static const int caches[] = {
		FOREIGNSERVEROID, FOREIGNDATAWRAPPEROID, USERMAPPINGOID, AUTHOID,
		AUTHMEMMEMROLE,   DATABASEOID, /* whose owner is a member of pg_database_owner */
	};

	for (int i = 0; i < lengthof(caches); i++)
		CacheRegisterSyscacheCallback(caches[i], infer_note_catalog_change, (Datum) 0);
	CacheRegisterRelcacheCallback(infer_note_relation_change, (Datum) 0);
}

static char *
infer_copy_string(const char *string)
{
	return string ? pstrdup(string) : NULL;
}

/* Deep copies, into the current memory context. */
static InferServer *
infer_copy_server(const InferServer *from)
{
	InferServer *server = palloc(sizeof(InferServer));

	*server = *from;
	server->name = infer_copy_string(server->name);
	server->url = infer_copy_string(server->url);
	server->scheme = infer_copy_string(server->scheme);
	server->host = infer_copy_string(server->host);
	server->api = infer_copy_string(server->api);
	server->node = infer_copy_string(server->node);
	server->admission_key = infer_copy_string(server->admission_key);
	server->ca_file = infer_copy_string(server->ca_file);
	return server;
}

static void
infer_copy_placement(const InferPlacement *from, InferPlacement *to)
{
	*to = *from;
	to->server = infer_copy_server(from->server);
	to->remote_model = infer_copy_string(from->remote_model);
	to->service_class = infer_copy_string(from->service_class);
	to->feeds = palloc(sizeof(char *) * from->nfeeds);
	for (int i = 0; i < from->nfeeds; i++)
		to->feeds[i] = infer_copy_string(from->feeds[i]);
}

static InferTarget *
infer_copy_target(const InferTarget *from)
{
	InferTarget *target = palloc(sizeof(InferTarget));

	*target = *from;
	target->model = infer_copy_string(from->model);
	target->places = palloc(sizeof(InferPlacement) * from->nplaces);
	for (int i = 0; i < from->nplaces; i++)
		infer_copy_placement(&from->places[i], &target->places[i]);
	return target;
}

static HTAB *
infer_create_cache(const char *name, Size entrysize)
{
	HASHCTL ctl = {.keysize = INFER_TARGET_KEY_MAX, .entrysize = entrysize, .hcxt = cache_context};

	return hash_create(name, 16, &ctl, HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
}

/* Makes the caches ready for the present generation. */
static void
infer_prepare_caches(void)
{
	if (facts_cache != NULL && cache_generation == generation &&
		hash_get_num_entries(target_cache) < INFER_TARGET_CACHE_MAX &&
		hash_get_num_entries(facts_cache) < INFER_TARGET_CACHE_MAX)
		return;
	if (cache_context == NULL)
		cache_context =
			AllocSetContextCreate(CacheMemoryContext, "pg_inference targets", ALLOCSET_SMALL_SIZES);
	facts_cache = NULL;
	MemoryContextReset(cache_context);
	target_cache = infer_create_cache("pg_inference targets", sizeof(InferTargetSlot));
	facts_cache = infer_create_cache("pg_inference model facts", sizeof(InferFactsSlot));
	cache_generation = generation;
}

static void
infer_remember_target(const char *key, const InferTarget *target)
{
	MemoryContext previous = MemoryContextSwitchTo(cache_context);
	InferTarget *copy = infer_copy_target(target);
	InferTargetSlot *slot;

	MemoryContextSwitchTo(previous);
	slot = hash_search(target_cache, key, HASH_ENTER, NULL);
	slot->target = copy;
}

/* complete and chat ask the same kind of model, and a raw call may go to any. */
static bool
infer_task_fits(const char *has, InferTask wanted)
{
	if (wanted == INFER_TASK_CALL || strcmp(has, infer_task_name(wanted)) == 0)
		return true;
	if (wanted == INFER_TASK_COMPLETE)
		return strcmp(has, infer_task_name(INFER_TASK_CHAT)) == 0;
	if (wanted == INFER_TASK_CHAT)
		return strcmp(has, infer_task_name(INFER_TASK_COMPLETE)) == 0;
	return false;
}

static InferTarget *
infer_make_target(const char *model, int max_places)
{
	InferTarget *target = palloc0(sizeof(InferTarget));

	target->model = pstrdup(model);
	target->places = palloc0(sizeof(InferPlacement) * max_places);
	return target;
}

static void
infer_add_place(InferTarget *target, const InferModel *model, const InferPlacementRow *row,
				InferServer *server)
{
	InferPlacement *place = &target->places[target->nplaces++];

	place->server = server;
	place->remote_model = row->remote_model;
	place->input_price = model->input_price;
	place->output_price = model->output_price;
	place->version = row->version;
	place->weight = row->weight;
	place->feeds = (const char **) row->feeds;
	place->nfeeds = row->nfeeds;
	place->ts_from = row->ts_from;
	place->ts_to = row->ts_to;
	place->is_primary = row->is_primary;
	place->service_class = row->service_class;
}

/* What a server that is gone, or has lost its url, leaves behind does not count, as long as there
 * are others. */
static InferTarget *
infer_read_named_target(const InferModel *row, InferTask task)
{
	InferTarget *target = infer_make_target(row->name, list_length(row->placements));
	ListCell *cell;

	if (!infer_task_fits(row->task, task))
		ereport(ERROR,
				(errcode(infer_errcode_config()),
				 errmsg("model \"%s\" is for %s, not for %s", row->name, row->task,
						infer_task_name(task)),
				 errhint("Use infer.%s(), or name a model for %s; infer.models lists the models.",
						 row->task, infer_task_name(task))));
	target->set_version = row->set_version;
	foreach (cell, row->placements)
	{
		InferPlacementRow *placement = lfirst(cell);
		InferServer *server = infer_server_read_usable(placement->server);

		if (server != NULL)
			infer_add_place(target, row, placement, server);
	}
	if (target->nplaces > 0)
		return target;
	if (row->placements == NIL)
		ereport(ERROR,
				(errcode(infer_errcode_no_placement()),
				 errmsg("model \"%s\" has no placement", row->name),
				 errdetail("There is no server that it runs on."),
				 errhint("Add one with infer.add_placement('%s', server => '...').", row->name)));
	/* raises, for it is not usable */
	infer_server_read(
		infer_server_find(((InferPlacementRow *) linitial(row->placements))->server, row->name));
	return NULL; /* not reached */
}

static InferTarget *
infer_read_addressed_target(const char *model, InferTask task)
{
	const char *slash = strchr(model, '/');
	InferPlacementRow row = infer_placement_default;
	InferModel unpriced = {.input_price = INFER_PRICE_UNKNOWN, .output_price = INFER_PRICE_UNKNOWN};
	InferTarget *target;
	char *server;

	/* a raw body can name the model itself */
	if (slash == model || (slash[1] == '\0' && task != INFER_TASK_CALL))
		ereport(ERROR, (errcode(infer_errcode_config()), errmsg("\"%s\" names no model", model),
						errhint("Write it as server/remote_model, or create a model with "
								"infer.create_model().")));
	server = pnstrdup(model, slash - model);
	if (GetForeignServerByName(server, true) == NULL)
		ereport(
			ERROR,
			(errcode(infer_errcode_config()), errmsg("server \"%s\" does not exist", server),
			 errdetail("In \"%s\", what stands before the first slash is the server.", model),
			 errhint("Create it with CREATE SERVER %s FOREIGN DATA WRAPPER pg_inference OPTIONS "
					 "(url '...'), or put the name of a server and a slash before the model.",
					 quote_identifier(server))));
	row.remote_model = pstrdup(slash + 1);
	target = infer_make_target(model, 1);
	infer_add_place(target, &unpriced, &row, infer_server_read(infer_server_find(server, NULL)));
	return target;
}

/* Reads the catalogs. */
static InferTarget *
infer_read_target(const char *model, InferTask task)
{
	InferModel *row;

	model_catalog = infer_model_catalog(false);
	row = infer_model_read(model);
	if (row != NULL)
		return infer_read_named_target(row, task);
	if (strchr(model, '/') != NULL)
		return infer_read_addressed_target(model, task);
	if (GetForeignServerByName(model, true) != NULL)
		ereport(
			ERROR,
			(errcode(infer_errcode_config()), errmsg("\"%s\" is a server, not a model", model),
			 task == INFER_TASK_CALL
				 ? errhint("Write %s/, for the body names the model.", model)
				 : errhint("Write %s/remote_model, with what the server calls the model.", model)));
	ereport(ERROR,
			(errcode(infer_errcode_config()), errmsg("model \"%s\" does not exist", model),
			 errhint("Create it with infer.create_model('%s', task => '%s', server => '...'), or "
					 "write server/remote_model; infer.models lists the models.",
					 model, infer_task_name(task))));
	return NULL; /* not reached */
}

/* Whom the caller may ask; raises if that is nobody. */
static void
infer_check_usage(InferTarget *target, Oid userid)
{
	bool any = false;

	for (int i = 0; i < target->nplaces; i++)
	{
		InferPlacement *place = &target->places[i];

		place->permitted = infer_server_has_usage(place->server->oid, userid);
		any |= place->permitted;
	}
	if (!any)
		infer_server_require_usage(target->places[0].server->oid, target->places[0].server->name,
								   userid);
}

InferTarget *
infer_resolve(const char *model, InferTask task, Oid userid)
{
	char key[INFER_TARGET_KEY_MAX];
	bool cacheable = snprintf(key, sizeof(key), "%d%s", (int) task, model) < (int) sizeof(key);
	InferTargetSlot *slot = NULL;
	InferTarget *target;

	infer_prepare_caches();
	if (cacheable)
		slot = hash_search(target_cache, key, HASH_FIND, NULL);
	if (slot != NULL)
		target = infer_copy_target(slot->target);
	else
	{
		uint64 seen = generation;

		target = infer_read_target(model, task);
		if (cacheable && seen == generation)
			infer_remember_target(key, target);
	}
	infer_check_usage(target, userid);
	return target;
}

/* Reads the catalogs; raises nothing for what is not there. */
static bool
infer_read_facts(const char *model, InferModelFacts *facts)
{
	const char *slash = strchr(model, '/');
	InferModel *row;

	memset(facts, 0, sizeof(*facts));
	row = infer_model_read(model);
	if (row != NULL && row->placements != NIL)
	{
		InferPlacementRow *placement = linitial(row->placements);

		facts->server = get_foreign_server_oid(placement->server, true);
		facts->remote_model = placement->remote_model;
		facts->input_price = Max(row->input_price, 0);
		facts->output_price = Max(row->output_price, 0);
	}
	else if (row == NULL && slash != NULL)
	{
		facts->server = get_foreign_server_oid(pnstrdup(model, slash - model), true);
		facts->remote_model = pstrdup(slash + 1);
	}
	return OidIsValid(facts->server);
}

static void
infer_remember_facts(const char *key, bool found, const InferModelFacts *facts)
{
	char *remote_model = found ? MemoryContextStrdup(cache_context, facts->remote_model) : NULL;
	InferFactsSlot *slot = hash_search(facts_cache, key, HASH_ENTER, NULL);

	slot->found = found;
	slot->facts = *facts;
	slot->facts.remote_model = remote_model;
}

bool
infer_resolve_facts(const char *model, InferModelFacts *facts)
{
	bool cacheable = strlen(model) < INFER_TARGET_KEY_MAX;
	InferFactsSlot *slot = NULL;
	uint64 seen;
	bool found;

	infer_prepare_caches();
	if (cacheable)
		slot = hash_search(facts_cache, model, HASH_FIND, NULL);
	if (slot != NULL)
	{
		*facts = slot->facts;
		return slot->found;
	}
	seen = generation;
	model_catalog = infer_model_catalog(true);
	if (!OidIsValid(model_catalog))
		return false;
	found = infer_read_facts(model, facts);
	if (cacheable && seen == generation)
		infer_remember_facts(model, found, facts);
	return found;
}
