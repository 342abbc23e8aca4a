/*
 * call/class.c - call classes: calls of one user, task, model, parameters and options, which may
 * share a request.
 *
 * Looking one up is on the hot path: a client remembers the last one and compares bytes.  Resolving
 * one (catalog look-ups, privileges, option parsing, the admission key) happens once a statement.
 * When a server or model changes while a statement runs, the statement goes on with what it had.
 */
#include "postgres.h"

#include <math.h>

#include "common/hashfn.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"

#include "call/class.h"
#include "call/classify.h"
#include "call/client.h"
#include "call/convert.h"
#include "call/memo.h"
#include "call/options.h"
#include "call/place.h"
#include "call/route.h"
#include "core/types.h"
#include "pg/compat.h"
#include "pg/report.h"
#include "registry/functions.h"
#include "registry/registry.h"

/* The three arguments as plain varlenas with 4-byte headers, so that bytes compare. */
static void
get_raw(const InferFunction *function, const Datum *args, struct varlena *raw[3])
{
	static union
	{
		varattrib_4b header;
		struct varlena varlena;
	} empty;

	SET_VARSIZE(&empty.header, VARHDRSZ);
	raw[0] = pg_detoast_datum((struct varlena *) DatumGetPointer(args[0]));
	raw[1] =
		function->parameters_arg < 0
			? &empty.varlena
			: pg_detoast_datum((struct varlena *) DatumGetPointer(args[function->parameters_arg]));
	raw[2] = pg_detoast_datum((struct varlena *) DatumGetPointer(args[function->options_arg]));
}

static bool
is_class(const InferClass *class, Oid userid, InferTask task, struct varlena *const raw[3])
{
	if (class->userid != userid || class->task != task)
		return false;
	for (int i = 0; i < 3; i++)
		if (VARSIZE(class->raw[i]) != VARSIZE(raw[i]) ||
			memcmp(class->raw[i], raw[i], VARSIZE(raw[i])) != 0)
			return false;
	return true;
}

/* The text of a jsonb object that goes to the model as it is, in UTF-8. */
static char *
parameters_json(struct varlena *raw)
{
	Jsonb *jb = (Jsonb *) raw;

	if (VARSIZE(raw) <= VARHDRSZ)
		return pstrdup("{}");
	if (!JB_ROOT_IS_OBJECT(jb))
		ereport(ERROR, (errcode(infer_errcode_config()),
						errmsg("the parameters of a call must be a JSON object"),
						errhint("For example '{\"temperature\": 0}'.")));
	return infer_convert_to_utf8(JsonbToCString(NULL, &jb->root, VARSIZE(jb)));
}

/* NULL: calls of this task have none. */
static Jsonb *
parameters_of(struct varlena *raw)
{
	return VARSIZE(raw) > VARHDRSZ ? (Jsonb *) raw : NULL;
}

/* With its key (copied) and nothing else, below the current context. */
static InferClass *
new_class(InferTask task, struct varlena *const raw[3], uint32 hash)
{
	MemoryContext context =
		AllocSetContextCreate(CurrentMemoryContext, "pg_inference class", ALLOCSET_SMALL_SIZES);
	InferClass *class = MemoryContextAllocZero(context, sizeof(InferClass));

	class->context = context;
	class->userid = GetUserId();
	class->task = task;
	class->hash = hash;
	for (int i = 0; i < 3; i++)
	{
		class->raw[i] = MemoryContextAlloc(context, VARSIZE(raw[i]));
		memcpy(class->raw[i], raw[i], VARSIZE(raw[i]));
	}
	return class;
}

/* All of it, in its context. */
static void
resolve(InferClass *class, Jsonb *classified)
{
	MemoryContext old = MemoryContextSwitchTo(class->context);

	class->parameters_json = parameters_json(class->raw[1]);
	infer_options_parse(class->task, PointerGetDatum(class->raw[2]), class->target, classified,
						parameters_of(class->raw[1]), &class->options);
	infer_places_make(class);
	infer_route_prepare(class);
	class->bytes = MemoryContextMemAllocated(class->context, true);
	MemoryContextSwitchTo(old);
}

/*
 * The memo has no such class.  It gets it when the class is complete: what raises before leaves
 * nothing there.  The model's classification functions run while there is none: they may call
 * models themselves, and so make, and drop, classes of this memo, this one included.
 */
static InferClass *
find_or_make(InferTask task, struct varlena *const raw[3], uint32 hash)
{
	char *model = text_to_cstring((text *) raw[0]);
	InferClass *class = new_class(task, raw, hash);
	MemoryContext old = MemoryContextSwitchTo(class->context);
	Jsonb *classified = NULL;

	class->target = infer_resolve(model, task, class->userid);
	MemoryContextSwitchTo(old);
	if (class->target->class_fns.n > 0)
	{
		InferClass *made;

		check_stack_depth();
		classified = infer_classify(class->target, (Jsonb *) raw[2], parameters_of(raw[1]));
		made = infer_memo_class_find(infer_memo_current(), class->userid, task, raw, &hash);
		if (made != NULL)
		{
			MemoryContextDelete(class->context);
			return made;
		}
	}
	resolve(class, classified);
	infer_memo_class_add(infer_memo_current(), class);
	return class;
}

/*
 * The class of a call with these (non-NULL) arguments, for the current user.  Raises configuration
 * errors; leaves nothing behind then.  The client's last class stays referenced by the client.
 */
InferClass *
infer_class_get(InferClient *client, const InferFunction *function, const Datum *args)
{
	struct varlena *raw[3];
	Oid userid = GetUserId();
	InferMemo *memo = infer_memo_current();
	InferClass *class = client->last_class;
	uint32 hash;

	get_raw(function, args, raw);
	if (class != NULL && class->memo == memo && is_class(class, userid, function->task, raw))
		return class;
	class = infer_memo_class_find(memo, userid, function->task, raw, &hash);
	if (class == NULL)
		class = find_or_make(function->task, raw, hash);
	infer_memo_class_hold(class);
	if (client->last_class != NULL)
		infer_memo_class_release(client->last_class);
	client->last_class = class;
	return class;
}
