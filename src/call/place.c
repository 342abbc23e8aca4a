/*
 * call/place.c - where the calls of a class can go (call/place.h).
 *
 * Making a place looks into catalogs and the table of admission keys, and happens once a statement
 * for each placement of the model.  One that the caller may not use is there all the same, barred,
 * so that what decides where a call goes can say why not there; if all are, the call is refused as
 * it would be with the first one alone.
 */
#include "postgres.h"

#include <math.h>

#include "access/xact.h"
#include "catalog/pg_foreign_server.h"
#include "common/hashfn.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "call/call.h"
#include "call/class.h"
#include "call/convert.h"
#include "call/incarnation.h"
#include "call/options.h"
#include "call/permit.h"
#include "call/place.h"
#include "call/signals.h"
#include "call/sizes.h"
#include "core/admission.h"
#include "core/batch.h"
#include "core/cost.h"
#include "core/limiter.h"
#include "core/types.h"
#include "http/transport.h"
#include "pg/compat.h"
#include "pg/guc.h"
#include "pg/report.h"
#include "provider/provider.h"
#include "registry/registry.h"
#include "registry/servers.h"
#include "shmem/admission.h"
#include "shmem/observed.h"
#include "shmem/route.h"

/* The most that a key may grow to where nobody says. */
#define DEFAULT_CEILING 1024

/* Servers that refused base64: OIDs, learned once per process. */
static List *no_base64 = NIL;

bool
infer_place_base64(const InferPlace *place)
{
	return place->class->task == INFER_TASK_EMBED &&
		   !list_member_oid(no_base64, place->placement->server->oid);
}

void
infer_place_no_base64(const InferPlace *place)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	no_base64 = list_append_unique_oid(no_base64, place->placement->server->oid);
	MemoryContextSwitchTo(old);
}

/* What limits a key is its server's own business; a call's word counts for the owner only, for it
 * is a way around the server's limit, and the table of keys is small. */
static void
check_owner(const InferPlace *place)
{
	const InferCallOptions *options = &place->class->options;
	const InferServer *server = place->placement->server;
	const char *option = options->admission_key != NULL ? "admission_key"
						 : options->rpm >= 0            ? "rpm"
						 : options->tpm >= 0            ? "tpm"
														: NULL;

	if (option == NULL || infer_server_is_owner(server->oid, place->class->userid))
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
admission_config(const InferServer *server)
{
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
					.dry_run = infer_guc_limiter_dry_run,
					.rules = INFER_RULES_ALL},
		.rpm = server->rpm,
		.tpm = server->tpm,
		.monitor = {.threshold = infer_guc_failure_threshold,
					.cooldown_us = (int64) infer_guc_failure_cooldown * 1000},
	};
}

/* The server as one who may configure a key; a change that this transaction has made may yet come
 * to nothing, and settles nothing. */
static InferConfigurer
configurer(const InferServer *server)
{
	InferConfigurer by = {.database = MyDatabaseId, .server = server->oid};

	if (!TransactionIdIsCurrentTransactionId(server->version))
		by.version = server->version;
	return by;
}

/* Was the key configured by a server that has been dropped since, as far as can be seen here? */
static bool
is_left_behind(const char *key)
{
	InferConfigurer by = infer_admission_configurer(key);

	return by.server != 0 && by.database == MyDatabaseId &&
		   !SearchSysCacheExists1(FOREIGNSERVEROID, ObjectIdGetDatum(by.server));
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

#define HASHED_SIZE 32

/* Keys longer than the table's are replaced by a hash of them, for which there must be room. */
static const char *
short_key(const char *name, char *hashed)
{
	if (strlen(name) < INFER_ADMISSION_KEY_MAX)
		return name;
	snprintf(hashed, HASHED_SIZE, "hash:" UINT64_FORMAT,
			 hash_bytes_extended((const unsigned char *) name, strlen(name), 0));
	return hashed;
}

static void
refuse_key(void)
{
	ereport(ERROR, (errcode(infer_errcode_config()), errmsg("no room for another admission key"),
					errdetail("All %d entries are in use.", infer_guc_max_admission_keys),
					errhint("Raise pg_inference.max_admission_keys and restart the server, or "
							"let servers share an admission_key.")));
}

/* The other servers of the model serve the calls. */
static void
tell_no_room(const char *server)
{
	static bool told = false;

	if (told)
		return;
	told = true;
	ereport(
		WARNING,
		(errmsg("server \"%s\" is left out, for there is no room for its admission key", server),
		 errdetail("All %d entries are in use.", infer_guc_max_admission_keys),
		 errhint("Raise pg_inference.max_admission_keys and restart the server, or "
				 "let servers share an admission_key.")));
}

bool
infer_place_has_room(const InferServer *server)
{
	char hashed[HASHED_SIZE];

	return infer_admission_has_room(short_key(server->admission_key, hashed));
}

/* Less than 0: there is no room for it. */
static InferKey
admission_key(const InferPlace *place)
{
	const InferCallOptions *options = &place->class->options;
	const InferServer *server = place->placement->server;
	bool own = options->admission_key != NULL || options->rpm >= 0 || options->tpm >= 0;
	InferAdmissionConfig wanted = admission_config(server);
	InferConfigurer by = {.database = MyDatabaseId}; /* a call's own: no server's */
	char hashed[HASHED_SIZE];
	const char *name =
		short_key(options->admission_key ? options->admission_key : server->admission_key, hashed);
	bool conflict = false;
	InferKey key;

	check_owner(place);
	if (options->rpm >= 0)
		wanted.rpm = options->rpm;
	if (options->tpm >= 0)
		wanted.tpm = options->tpm;
	if (!own)
	{
		by = configurer(server);
		by.insists = is_left_behind(name);
	}
	key = infer_admission_key(name, &wanted, &by, &conflict);
	if (conflict)
	{
		InferAdmissionConfig kept = infer_admission_config(key);

		ereport(WARNING,
				(errmsg("admission key \"%s\" keeps the limits it has", name),
				 errdetail("The first configuration of a key wins: %s. This one asks for %s.",
						   describe_config(&kept), describe_config(&wanted)),
				 own ? errhint("Use another admission_key for such calls.")
					 : errhint("Give the server another admission_key, or have these limits "
							   "count with infer.apply_limits().")));
	}
	return key;
}

/*
 * For the server's owner, if the key is the server's to configure: it came first, or whoever did is
 * gone.  For superusers always.
 */
void
infer_call_apply_limits(const char *server_name)
{
	InferServer *server = infer_server_read(server_name, NULL);
	InferAdmissionConfig wanted = admission_config(server);
	InferConfigurer by = configurer(server);
	InferConfigurer first;
	char hashed[HASHED_SIZE];
	const char *name = short_key(server->admission_key, hashed);
	bool conflict;

	if (!infer_server_is_owner(server->oid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_SERVER, server_name);
	first = infer_admission_configurer(name);
	if (first.database != 0 && !superuser() && !is_left_behind(name) &&
		(first.server != by.server || first.database != by.database))
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						errmsg("admission key \"%s\" has its limits from somebody else", name),
						errdetail("Its limits are those of who used it first, in this database or "
								  "another one."),
						errhint("Have its owner or a superuser change them, or give server \"%s\" "
								"another admission_key.",
								server_name)));
	by.insists = true;
	if (infer_admission_key(name, &wanted, &by, &conflict) < 0)
		refuse_key();
}

/*
 * What an answer may take, in tokens, before it is known: what answers of this model took of late,
 * else the most that the caller allows.  With neither, the first ones are charged when they come.
 */
static int64
output_guess(const InferPlace *place)
{
	static const char *const names[] = {"max_tokens", "max_completion_tokens"};
	const InferClass *class = place->class;
	Jsonb *parameters = (Jsonb *) class->raw[1];
	InferObservedKey key;
	InferPace pace;

	if (class->task == INFER_TASK_EMBED)
		return 0;
	infer_observed_key(&key, place->placement->server->oid, class->task,
					   place->placement->remote_model);
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
batch_limits(const InferPlace *place)
{
	const InferClass *class = place->class;
	const InferServer *server = place->placement->server;
	InferBatchLimits limits = {
		.max_items = infer_provider_max_items(place->provider, class->task),
		.max_bytes = infer_provider_max_bytes(place->provider, class->task),
	};

	if (limits.max_items > 1 && server->max_batch_size > 0)
		limits.max_items = server->max_batch_size;
	if (server->max_batch_bytes > 0)
		limits.max_bytes = server->max_batch_bytes;
	limits.max_tokens = server->max_batch_tokens;
	return infer_batch_limits(class->options.mode, class->options.dispatch_batch_size, limits);
}

/* May the caller's requests go there at all? */
static InferReason
bar(const InferPlace *place)
{
	if (!place->placement->permitted)
		return INFER_REASON_PERMISSION_DENIED;
	return infer_egress_host(place->placement->server) ? INFER_REASON_NONE
													   : INFER_REASON_EGRESS_DENIED;
}

/* A text of the identity, "" if there is none; what does not fit is cut. */
static void
put(InferRouteIdentity *id, char *to, const char *from, size_t size)
{
	if (from != NULL && strlcpy(to, from, size) >= size)
		id->cut = true;
}

/* The server's slot in the route table. */
static InferRouteRef
publish(const InferPlace *place)
{
	const InferServer *server = place->placement->server;
	InferRouteIdentity id = {
		.database = MyDatabaseId,
		.server = server->oid,
		.version = server->version,
		.port = server->port,
		.admission_key = place->key,
	};

	put(&id, id.name, server->name, sizeof(id.name));
	put(&id, id.scheme, server->scheme, sizeof(id.scheme));
	put(&id, id.host, server->host, sizeof(id.host));
	put(&id, id.url, server->url, sizeof(id.url));
	put(&id, id.api, server->api, sizeof(id.api));
	put(&id, id.node, server->node, sizeof(id.node));
	put(&id, id.service_class, server->service_class, sizeof(id.service_class));
	put(&id, id.health_path, server->health_path, sizeof(id.health_path));
	put(&id, id.incarnation, server->incarnation, sizeof(id.incarnation));
	put(&id, id.ca_file, server->ca_file, sizeof(id.ca_file));
	return infer_route_slot(&id);
}

static void
make(InferPlace *place, InferClass *class, const InferPlacement *placement)
{
	const InferServer *server = placement->server;

	place->class = class;
	place->placement = placement;
	place->slot.slot = INFER_ROUTE_OUTDATED;
	place->barred = bar(place);
	if (place->barred != INFER_REASON_NONE)
		return;
	place->provider = infer_provider_find(server->api);
	if (place->provider == NULL)
		ereport(ERROR,
				(errcode(infer_errcode_config()),
				 errmsg("server \"%s\" has the unknown api \"%s\"", server->name, server->api),
				 errhint("Known are: %s.", infer_provider_names())));
	place->remote_model = infer_convert_to_utf8(placement->remote_model);
	place->url = psprintf("%s%s%s", server->url, infer_provider_path(place->provider, class->task),
						  class->options.path);
	infer_egress_init(&place->egress, server);
	place->timeout_ms = infer_options_timeout_ms(&class->options, server);
	place->fairness = server->signals ? infer_signals_fairness(class) : NULL;
	place->told_limits = batch_limits(place);
	place->key = admission_key(place);
	if (place->key < 0)
	{
		place->barred = INFER_REASON_NO_DEST;
		return;
	}
	place->output_guess = output_guess(place);
	place->slot = publish(place);
	infer_incarnation_prepare(place);
	place->model_hash = infer_route_model(placement->remote_model, class->userid);
}

void
infer_place_refuse(const InferPlace *place)
{
	const InferServer *server = place->placement->server;

	if (place->barred == INFER_REASON_PERMISSION_DENIED)
		infer_server_require_usage(server->oid, server->name, place->class->userid);
	if (place->barred == INFER_REASON_EGRESS_DENIED)
		ereport(ERROR,
				(errcode(infer_errcode_config()),
				 errmsg("host \"%s\" of server \"%s\" is not allowed", server->host, server->name),
				 errhint("A superuser can add it to pg_inference.allowed_hosts.")));
	if (place->barred == INFER_REASON_NO_DEST)
		refuse_key();
}

void
infer_place_address(const InferPlace *place, InferHttpRequest *request)
{
	static char address[INFER_ROUTE_TEXT]; /* for as long as the request is being submitted */
	bool failing;

	if (infer_route_address(place->slot, address, &failing))
		request->address = address;
	else
		request->fresh_lookup = failing;
}

void
infer_places_make(InferClass *class)
{
	const InferTarget *target = class->target;
	int usable = 0;

	class->nplaces = target->nplaces;
	class->places = palloc0(sizeof(InferPlace) * target->nplaces);
	for (int i = 0; i < target->nplaces; i++)
	{
		make(&class->places[i], class, &target->places[i]);
		usable += class->places[i].barred == INFER_REASON_NONE ? 1 : 0;
	}
	/* of those that the caller has a right to, if there is one: resolving has looked at that */
	for (int i = 0; usable == 0 && i < class->nplaces; i++)
		if (class->places[i].barred != INFER_REASON_PERMISSION_DENIED)
			infer_place_refuse(&class->places[i]);
	for (int i = 0; i < class->nplaces; i++)
		if (class->places[i].barred == INFER_REASON_NO_DEST)
			tell_no_room(class->places[i].placement->server->name);
	infer_sizes_refresh(class);
}

int
infer_places_wanted(const InferClass *class)
{
	int least = INT_MAX;

	for (int i = 0; i < class->nplaces; i++)
		if (class->places[i].barred == INFER_REASON_NONE)
			least = Min(least, infer_permit_wanted(class->places[i].key));
	return least;
}
