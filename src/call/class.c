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

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"

#include "call/internal.h"
#include "common/hashfn.h"
#include "pg/report.h"
#include "registry/servers.h"
#include "shmem/observed.h"

/* The most that a key may grow to where nobody says. */
#define DEFAULT_CEILING 1024

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

/* What limits a key is its server's own business; a call's word counts for the owner only, for it
 * is a way around the server's limit, and the table of keys is small. */
static void
check_owner(const InferClass *class)
{
	const InferCallOptions *options = &class->options;
	const InferServer *server = class->target->server;
	const char *option = options->admission_key != NULL ? "admission_key"
						 : options->rpm >= 0            ? "rpm"
						 : options->tpm >= 0            ? "tpm"
														: NULL;

	if (option == NULL || infer_server_is_owner(server->oid, class->userid))
		return;
	ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					options->admission_key != NULL
						? errmsg("permission denied to choose the admission key of a call")
						: errmsg("permission denied to choose the rate limit of a call"),
					errdetail("Only the owner of server \"%s\" may.", server->name),
					errhint("Leave out the option \"%s\", or have the owner set it for the server.",
							option)));
}

/*
 * How a key is limited.  What the server takes may be told (max_concurrency): then the limit starts
 * there, and shrinks if it was too much.  Else it starts low and finds out.
 */
static InferAdmissionConfig
admission_config(const InferClass *class)
{
	const InferServer *server = class->target->server;
	const InferCallOptions *options = &class->options;
	int ceiling = infer_guc_limiter_max_limit;
	int start = infer_guc_limiter_start;

	if (server->max_concurrency > 0)
	{
		ceiling = ceiling > 0 ? Min(ceiling, server->max_concurrency) : server->max_concurrency;
		start = ceiling;
	}
	else if (ceiling == 0)
		ceiling = DEFAULT_CEILING;
	return (InferAdmissionConfig){
		.limiter = {.ceiling = ceiling,
					.start = start,
					.floor = infer_guc_limiter_min_limit,
					.decrease_factor = infer_guc_limiter_decrease_factor,
					.adaptive = infer_guc_limiter_adaptive,
					.rules = INFER_RULES_ALL},
		.rpm = options->rpm >= 0 ? options->rpm : server->rpm,
		.tpm = options->tpm >= 0 ? options->tpm : server->tpm,
		.monitor = {.threshold = infer_guc_failure_threshold,
					.cooldown_us = (int64) infer_guc_failure_cooldown * 1000},
	};
}

/* "at most 8 requests in flight, 60 requests and 1000 tokens a minute"; palloc'd. */
static char *
describe_config(const InferAdmissionConfig *config)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, "at most %d requests in flight", config->limiter.ceiling);
	if (config->limiter.adaptive)
		appendStringInfo(&text, " (first %d, at least %g, after overload times %g)",
						 config->limiter.start, config->limiter.floor,
						 config->limiter.decrease_factor);
	else
		appendStringInfoString(&text, " (always, not adaptive)");
	if (config->rpm > 0)
		appendStringInfo(&text, ", " INT64_FORMAT " requests a minute", config->rpm);
	if (config->tpm > 0)
		appendStringInfo(&text, ", " INT64_FORMAT " tokens a minute", config->tpm);
	return text.data;
}

/* Keys longer than the table's are replaced by a hash of them. */
static InferKey
admission_key(InferClass *class)
{
	const char *name = class->options.admission_key ? class->options.admission_key
													: class->target->server->admission_key;
	InferAdmissionConfig wanted = admission_config(class);
	char hashed[32];
	bool conflict = false;
	InferKey key;

	check_owner(class);
	if (strlen(name) >= INFER_ADMISSION_KEY_MAX)
	{
		snprintf(hashed, sizeof(hashed), "hash:" UINT64_FORMAT,
				 hash_bytes_extended((const unsigned char *) name, strlen(name), 0));
		name = hashed;
	}
	key = infer_admission_key(name, &wanted, &conflict);
	if (key < 0)
		ereport(ERROR,
				(errcode(infer_errcode_config()), errmsg("no room for another admission key"),
				 errdetail("All %d entries are in use.", infer_guc_max_admission_keys),
				 errhint("Raise pg_inference.max_admission_keys and restart the server, or "
						 "let servers share an admission_key.")));
	if (conflict)
	{
		InferAdmissionConfig kept = infer_admission_config(key);

		ereport(WARNING,
				(errmsg("admission key \"%s\" keeps the limits it has", name),
				 errdetail("The first configuration of a key wins: %s. This one asks for %s.",
						   describe_config(&kept), describe_config(&wanted)),
				 errhint("Restart PostgreSQL, or give the server another "
						 "admission_key.")));
	}
	return key;
}

/*
 * What an answer may take, in tokens, before it is known: what answers of this model took of late,
 * else the most that the caller allows.  With neither, the first ones are charged when they come.
 */
static int64
output_guess(const InferClass *class)
{
	static const char *const names[] = {"max_tokens", "max_completion_tokens"};
	const InferTarget *target = class->target;
	Jsonb *parameters = (Jsonb *) class->raw[1];
	InferObservedKey key;
	InferPace pace;

	if (class->task == INFER_TASK_EMBED)
		return 0;
	infer_observed_key(&key, target->server->oid, class->task, target->remote_model);
	if (infer_observed_pace(&key, &pace) && pace.output_tokens >= 0)
		return (int64) ceil(pace.output_tokens);
	for (int i = 0; VARSIZE(parameters) > VARHDRSZ && i < lengthof(names); i++)
	{
		JsonbValue found;

		if (getKeyJsonValueFromContainer(&parameters->root, names[i], strlen(names[i]), &found) &&
			found.type == jbvNumeric)
		{
			double most = DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow,
															 NumericGetDatum(found.val.numeric)));

			return (int64) Min(Max(most, 0), INT_MAX);
		}
	}
	return 0;
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
	limits.max_tokens = server->max_batch_tokens;
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
	class->told_limits = batch_limits(class);
	infer_sizes_refresh(class);
	class->key = admission_key(class);
	class->output_guess = output_guess(class);
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
