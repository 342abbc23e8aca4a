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
#include "registry/models.h"
#include "registry/placements.h"
#include "registry/registry.h"
#include "registry/servers.h"
#include "registry/targets.h"
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
	if (cache_generation != generation)
		infer_servers_forget_gone();
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
	InferTarget *copy = infer_target_copy(target);
	InferTargetSlot *slot;

	MemoryContextSwitchTo(previous);
	slot = hash_search(target_cache, key, HASH_ENTER, NULL);
	slot->target = copy;
}

/* Whom the caller may ask; raises if that is nobody. */
static void
infer_check_usage(InferTarget *target, Oid userid)
{
	bool any = false;

	for (int i = 0; i < target->nplaces; i++)
	{
		InferPlacement *place = &target->places[i];

		place->permitted = infer_server_may_use(place->server->oid, userid);
		any |= place->permitted;
	}
	if (!any)
		infer_server_require_usage(target->places[0].server->oid, target->places[0].server->name,
								   userid);
}

/* Reads the catalogs, which leaves more behind than the target. key: to remember it by, or NULL. */
static InferTarget *
infer_read_target(const char *model, InferTask task, const char *key)
{
	MemoryContext context =
		AllocSetContextCreate(CurrentMemoryContext, "pg_inference target", ALLOCSET_SMALL_SIZES);
	MemoryContext previous = MemoryContextSwitchTo(context);
	uint64 seen = generation;
	InferTarget *read;
	InferTarget *target;

	model_catalog = infer_model_catalog(false);
	read = infer_target_read(model, task);
	if (key != NULL && seen == generation)
		infer_remember_target(key, read);
	MemoryContextSwitchTo(previous);
	target = infer_target_copy(read);
	MemoryContextDelete(context);
	return target;
}

InferTarget *
infer_resolve(const char *model, InferTask task, Oid userid)
{
	char key[INFER_TARGET_KEY_MAX];
	bool cacheable = snprintf(key, sizeof(key), "%d%s", (int) task, model) < (int) sizeof(key);
	InferTargetSlot *slot = NULL;
	InferTarget *target;

	/* a statement that locks no table would not hear of changes before its transaction ends */
	AcceptInvalidationMessages();
	infer_prepare_caches();
	if (cacheable)
		slot = hash_search(target_cache, key, HASH_FIND, NULL);
	if (slot != NULL)
		target = infer_target_copy(slot->target);
	else
		target = infer_read_target(model, task, cacheable ? key : NULL);
	infer_check_usage(target, userid);
	return target;
}

static void
infer_add_fact(InferModelFacts *facts, const char *server, const char *remote_model, double weight)
{
	Oid oid = get_foreign_server_oid(server, true);

	if (OidIsValid(oid))
		facts->places[facts->nplaces++] = (InferFactsPlace){oid, pstrdup(remote_model), weight};
}

static bool
infer_is_ascii(const char *name)
{
	while (*name != '\0' && !IS_HIGHBIT_SET(*name))
		name++;
	return *name == '\0';
}

/* What is no reference, or has names that some encodings could not have, has none. */
static void
infer_read_facts_of_ref(const char *text, InferModelFacts *facts)
{
	InferRef *ref = palloc(sizeof(InferRef));
	const char *problem;

	facts->places = palloc(sizeof(InferFactsPlace));
	if (infer_ref_read(text, strlen(text), ref, &problem) && infer_is_ascii(ref->server) &&
		infer_is_ascii(ref->model))
		infer_add_fact(facts, ref->server, ref->model, 1);
	pfree(ref);
}

/* Reads the catalogs; raises nothing for what is not there. */
static bool
infer_read_facts(const char *model, InferModelFacts *facts)
{
	const char *slash = strchr(model, '/');
	InferModel *row = infer_model_read(model);
	ListCell *cell;

	memset(facts, 0, sizeof(*facts));
	if (infer_ref_is(model))
		infer_read_facts_of_ref(model, facts);
	else if (row != NULL)
	{
		facts->input_price = Max(row->input_price, 0);
		facts->output_price = Max(row->output_price, 0);
		facts->places = palloc(sizeof(InferFactsPlace) * Max(list_length(row->placements), 1));
		foreach (cell, row->placements)
		{
			InferPlacementRow *placement = lfirst(cell);

			infer_add_fact(facts, placement->server, placement->remote_model, placement->weight);
		}
	}
	else if (slash != NULL)
	{
		facts->places = palloc(sizeof(InferFactsPlace));
		infer_add_fact(facts, pnstrdup(model, slash - model), slash + 1, 1);
	}
	return facts->nplaces > 0;
}

static void
infer_remember_facts(const char *key, bool found, const InferModelFacts *facts)
{
	MemoryContext previous = MemoryContextSwitchTo(cache_context);
	InferModelFacts copy = *facts;
	InferFactsSlot *slot;

	copy.places = palloc(sizeof(InferFactsPlace) * Max(facts->nplaces, 1));
	for (int i = 0; i < facts->nplaces; i++)
	{
		copy.places[i] = facts->places[i];
		copy.places[i].remote_model = pstrdup(facts->places[i].remote_model);
	}
	MemoryContextSwitchTo(previous);
	slot = hash_search(facts_cache, key, HASH_ENTER, NULL);
	slot->found = found;
	slot->facts = copy;
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
