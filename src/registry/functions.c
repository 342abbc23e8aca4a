/*
 * registry/functions.c - which pg_proc entries are our remote calls.
 *
 * The cache maps function OIDs to entries of the table below, or to NULL for "not ours", so that
 * planning a statement costs one hash probe a function.  Any change in pg_proc empties it.  The
 * cache is private to the process; no lock.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "registry/functions.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

/* The cache starts anew beyond this many functions, so that it cannot grow with pg_proc. */
#define INFER_FUNCTION_CACHE_MAX 4096

typedef struct InferFunctionSlot
{
	Oid funcid; /* hash key */
	const InferFunction *function;
	bool inlined; /* an SQL function: the planner may put its body in its place */
} InferFunctionSlot;

static const InferFunction infer_functions[] = {
	{"infer_embed", "embed", INFER_TASK_EMBED, INFER_VALUE_FLOATS, false, 4, 2, 3, false},
	{"infer_complete", "complete", INFER_TASK_COMPLETE, INFER_VALUE_TEXT, false, 4, 2, 3, false},
	{"infer_chat", "chat", INFER_TASK_CHAT, INFER_VALUE_TEXT, false, 4, 2, 3, true},
	{"infer_call_raw", "call", INFER_TASK_CALL, INFER_VALUE_JSONB, false, 3, -1, 2, true},
	{"infer_try_embed", "try_embed", INFER_TASK_EMBED, INFER_VALUE_FLOATS, true, 4, 2, 3, false},
	{"infer_try_complete", "try_complete", INFER_TASK_COMPLETE, INFER_VALUE_TEXT, true, 4, 2, 3,
	 false},
	{"infer_try_chat", "try_chat", INFER_TASK_CHAT, INFER_VALUE_TEXT, true, 4, 2, 3, true},
	{"infer_try_call", "try_call", INFER_TASK_CALL, INFER_VALUE_JSONB, true, 3, -1, 2, true},
};

static HTAB *function_cache = NULL;
static uint64 function_changes = 0;    /* counts invalidations */
static uint64 function_cache_time = 0; /* function_changes when the cache was begun */

static void
infer_note_proc_change(Datum arg, int cacheid, uint32 hashvalue)
{
	function_changes++;
}

/* Returns an empty or valid cache. */
static HTAB *
infer_prepare_function_cache(void)
{
	static bool registered = false;
	HASHCTL ctl = {0};

	if (!registered)
	{
		CacheRegisterSyscacheCallback(PROCOID, infer_note_proc_change, (Datum) 0);
		registered = true;
	}
	if (function_cache != NULL &&
		(function_cache_time != function_changes ||
		 hash_get_num_entries(function_cache) >= INFER_FUNCTION_CACHE_MAX))
	{
		hash_destroy(function_cache);
		function_cache = NULL;
	}
	if (function_cache == NULL)
	{
		ctl.keysize = sizeof(Oid);
		ctl.entrysize = sizeof(InferFunctionSlot);
		ctl.hcxt = CacheMemoryContext;
		function_cache =
			hash_create("pg_inference functions", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
		function_cache_time = function_changes;
	}
	return function_cache;
}

/* Is this probin our library, however its path was written? */
static bool
infer_is_our_library(const char *probin)
{
	const char *slash = strrchr(probin, '/');
	const char *name = slash ? slash + 1 : probin;

	return strcmp(name, "pg_inference") == 0 || strcmp(name, "pg_inference.so") == 0;
}

static const InferFunction *
infer_find_symbol(const char *symbol)
{
	for (int i = 0; i < lengthof(infer_functions); i++)
	{
		if (strcmp(infer_functions[i].symbol, symbol) == 0)
			return &infer_functions[i];
	}
	return NULL;
}

/* Reads pg_proc. */
static void
infer_identify_function(InferFunctionSlot *slot)
{
	HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(slot->funcid));
	Form_pg_proc form;

	slot->function = NULL;
	slot->inlined = false;
	if (!HeapTupleIsValid(tuple))
		return;
	form = (Form_pg_proc) GETSTRUCT(tuple);
	slot->inlined = form->prolang == SQLlanguageId;
	if (form->prolang == ClanguageId)
	{
		bool probin_null;
		bool prosrc_null;
		Datum probin = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_probin, &probin_null);
		Datum prosrc = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &prosrc_null);

		if (!probin_null && !prosrc_null && infer_is_our_library(TextDatumGetCString(probin)))
			slot->function = infer_find_symbol(TextDatumGetCString(prosrc));
		/* a declaration that does not fit the symbol is not treated specially */
		if (slot->function != NULL && form->pronargs != slot->function->nargs)
			slot->function = NULL;
	}
	ReleaseSysCache(tuple);
}

static InferFunctionSlot
infer_look_up(Oid funcid)
{
	HTAB *cache = infer_prepare_function_cache();
	InferFunctionSlot *known = hash_search(cache, &funcid, HASH_FIND, NULL);
	InferFunctionSlot slot = {.funcid = funcid};
	uint64 seen = function_changes;

	if (known != NULL)
		return *known;
	infer_identify_function(&slot);
	/* reading the catalog may have brought news: then do not remember what was read */
	if (seen == function_changes)
	{
		known = hash_search(cache, &funcid, HASH_ENTER, NULL);
		*known = slot;
	}
	return slot;
}

const InferFunction *
infer_function_lookup(Oid funcid)
{
	return funcid < FirstNormalObjectId ? NULL : infer_look_up(funcid).function;
}

bool
infer_function_may_call(Oid funcid)
{
	InferFunctionSlot slot;

	if (funcid < FirstNormalObjectId)
		return false;
	slot = infer_look_up(funcid);
	return slot.function != NULL || slot.inlined;
}

const InferFunction *
infer_function_by_symbol(const char *symbol)
{
	const InferFunction *function = infer_find_symbol(symbol);

	if (function == NULL)
		elog(ERROR, "pg_inference has no function %s", symbol);
	return function;
}
