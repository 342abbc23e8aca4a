/*
 * call/class.c - call classes: calls of one user, task, model, parameters and options, which may
 * share a request.
 *
 * Looking one up is on the hot path: a client remembers the last one and compares bytes.  Resolving
 * one (catalog look-ups, privileges, option parsing, the admission key) happens once a statement.
 * When a server or model changes while a statement runs, the statement goes on with what it had.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"

#include "call/internal.h"
#include "common/hashfn.h"
#include "pg/report.h"
#include "registry/servers.h"

#define DEFAULT_CAP 64 /* permits of a key that nobody configured (design: until adaptive) */

/* Servers that refused base64: OIDs, learned once per process. */
static List *no_base64 = NIL;

/* Are embeddings to be asked as base64? It is 80 times cheaper to read. */
bool
infer_class_base64(const InferClass *class)
{
	return class->task == INFER_TASK_EMBED &&
		   !list_member_oid(no_base64, class->target->server->oid);
}

void
infer_class_no_base64(const InferClass *class)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	no_base64 = list_append_unique_oid(no_base64, class->target->server->oid);
	MemoryContextSwitchTo(old);
}

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

static char *
to_utf8(const char *s)
{
	char *utf8 = pg_server_to_any(s, strlen(s), PG_UTF8);

	return utf8 == s ? pstrdup(s) : utf8;
}

/* Keys longer than the table's are replaced by a hash of them. */
static InferKey
admission_key(InferClass *class)
{
	const InferServer *server = class->target->server;
	const char *name =
		class->options.admission_key ? class->options.admission_key : server->admission_key;
	char hashed[32];
	bool conflict = false;
	InferKey key;
	int cap = server->max_concurrency;

	/* a key of one's own is a way around the server's limit, and the table of keys is small */
	if (class->options.admission_key != NULL && !infer_server_is_owner(server->oid, class->userid))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to choose the admission key of a call"),
				 errdetail("Only the owner of server \"%s\" may.", server->name),
				 errhint("Leave out the option \"admission_key\", or have the owner set it for "
						 "the server.")));
	if (cap == 0)
		cap = infer_guc_limiter_max_limit > 0 ? infer_guc_limiter_max_limit : DEFAULT_CAP;
	else if (infer_guc_limiter_max_limit > 0)
		cap = Min(cap, infer_guc_limiter_max_limit);
	if (strlen(name) >= INFER_ADMISSION_KEY_MAX)
	{
		snprintf(hashed, sizeof(hashed), "hash:" UINT64_FORMAT,
				 hash_bytes_extended((const unsigned char *) name, strlen(name), 0));
		name = hashed;
	}
	key = infer_admission_key(name, cap, &conflict);
	if (key < 0)
		ereport(ERROR,
				(errcode(infer_errcode_config()), errmsg("no room for another admission key"),
				 errdetail("All %d entries are in use.", infer_guc_max_admission_keys),
				 errhint("Raise pg_inference.max_admission_keys and restart the server, or "
						 "let servers share an admission_key.")));
	if (conflict)
		ereport(WARNING,
				(errmsg("admission key \"%s\" keeps its limit of %d requests", name,
						infer_admission_cap(key)),
				 errdetail("The first configuration of a key wins; this one asks for %d.", cap),
				 errhint("Restart the server to start with another one.")));
	return key;
}

static InferBatchLimits
batch_limits(const InferClass *class)
{
	const InferServer *server = class->target->server;
	InferBatchLimits limits = {
		.max_items = infer_provider_max_items(class->provider, class->task),
		.max_bytes = infer_provider_max_bytes(class->provider, class->task),
	};

	if (limits.max_items > 1 && server->max_batch_size > 0)
		limits.max_items = server->max_batch_size;
	if (server->max_batch_bytes > 0)
		limits.max_bytes = server->max_batch_bytes;
	return infer_batch_limits(class->options.mode, class->options.dispatch_batch_size, limits);
}

/* In the class's context. */
static void
resolve(InferClass *class)
{
	char *model = text_to_cstring((text *) class->raw[0]);
	InferTarget *target = infer_resolve(model, class->task, class->userid);
	const InferServer *server = target->server;
	char *parameters = pstrdup("{}");

	if (!infer_egress_host(server))
		ereport(ERROR,
				(errcode(infer_errcode_config()),
				 errmsg("host \"%s\" of server \"%s\" is not allowed", server->host, server->name),
				 errhint("A superuser can add it to pg_inference.allowed_hosts.")));
	class->provider = infer_provider_find(server->api);
	if (class->provider == NULL)
		ereport(ERROR,
				(errcode(infer_errcode_config()),
				 errmsg("server \"%s\" has the unknown api \"%s\"", server->name, server->api),
				 errhint("Known are: %s.", infer_provider_names())));
	if (VARSIZE(class->raw[1]) > VARHDRSZ)
	{
		Jsonb *jb = (Jsonb *) class->raw[1];

		if (!JB_ROOT_IS_OBJECT(jb))
			ereport(ERROR, (errcode(infer_errcode_config()),
							errmsg("the parameters of a call must be a JSON object"),
							errhint("For example '{\"temperature\": 0}'.")));
		parameters = to_utf8(JsonbToCString(NULL, &jb->root, VARSIZE(jb)));
	}
	infer_options_parse(class->task, PointerGetDatum(class->raw[2]), server, &class->options);
	class->parameters_json = parameters;
	class->remote_model = to_utf8(target->remote_model);
	class->url = psprintf("%s%s%s", server->url, infer_provider_path(class->provider, class->task),
						  class->options.path);
	infer_egress_init(&class->egress, server);
	class->target = target;
	class->limits = batch_limits(class);
	class->key = admission_key(class);
	class->cap = infer_admission_cap(class->key);
	if (class->options.max_concurrency > 0)
		class->cap = Min(class->cap, class->options.max_concurrency);
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
	{
		MemoryContext old = CurrentMemoryContext;

		class = infer_memo_class_new(memo, userid, function->task, raw, hash);
		PG_TRY();
		{
			MemoryContextSwitchTo(class->context);
			resolve(class);
			class->bytes = MemoryContextMemAllocated(class->context, true);
		}
		PG_CATCH();
		{
			MemoryContextSwitchTo(old);
			infer_memo_class_discard(class);
			PG_RE_THROW();
		}
		PG_END_TRY();
		MemoryContextSwitchTo(old);
	}
	infer_memo_class_hold(class);
	if (client->last_class != NULL)
		infer_memo_class_release(client->last_class);
	client->last_class = class;
	return class;
}
