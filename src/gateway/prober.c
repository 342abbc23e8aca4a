/*
 * gateway/prober.c - which server is probed when, and what its answer says.
 *
 * The route table is walked whenever a probe is due, or a session says that there is news.  A
 * server in use is probed once per pg_inference.probe_interval, however many sessions use it; at
 * once when it is new here; sooner while nobody can connect to it (core/probe.h); and when a
 * session has found that its address does not answer.  One that no session has used for some
 * minutes is left in peace: it may not even exist any more.
 *
 * A probe goes where calls to the server would, under the same rules: the host must be allowed, the
 * address is judged, and TLS trusts whom the server's ca_file names.  It carries no key: the
 * gateway has none, for it reads no catalogs.  Where that is not enough to learn how the server is,
 * calls tell it.
 *
 * The usual path is /health; where there is none, the list of models, which every server of that
 * API has.
 *
 * Which probe of which server: the transfer carries its watch, and the watch says whom it is about.
 * A slot that has become another server's drops the probe of the first.
 */
#include "gateway/internal.h"

#include "core/probe.h"
#include "pg/clock.h"
#include "pg/guc.h"
#include "pg/random.h"
#include "registry/secrets.h"
#include "shmem/gateway.h"
#include "utils/memutils.h"

#define MAX_PROBES        64 /* at a time; the others wait for their turn */
#define ANSWER_MAX        (64 * 1024)
#define ANSWER_TIMEOUT_MS 10000 /* a probe that takes longer says nothing more */
#define USUAL_PATH        "/health"
#define NOT_FOUND         404
/* Between two looks at the table, which has many slots: at least, where there is no news; at most,
 * for servers that are used again. */
#define LOOK_PAUSE_US 50000
#define LOOK_AGAIN_US 1000000
#define HEADER_OPTION "header:" /* an incarnation that answers have in a header */

static InferTransport *transport;
static InferWatch *watches; /* by slot */
static InferWatchCounts counts;
static int64 next_look_us; /* at the route table */
static bool some_wait;     /* for a running probe's end */

void
infer_prober_init(void)
{
	transport = infer_transport_create(1);
	if (transport == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("could not set up HTTP connections"),
						errdetail("There is no memory or no file descriptor left.")));
	watches = MemoryContextAllocZero(TopMemoryContext, sizeof(InferWatch) * infer_route_slots());
}

int
infer_prober_fd(void)
{
	return infer_transport_fd(transport);
}

InferWatchCounts
infer_prober_counts(void)
{
	return counts;
}

static void
drop_probe(InferWatch *watch)
{
	if (watch->transfer != NULL)
		infer_transfer_release(transport, watch->transfer);
	watch->transfer = NULL;
}

/* The watch of a slot's server, which may have changed. */
static InferWatch *
watch_of(const InferRouteEntry *entry)
{
	InferWatch *watch = &watches[entry->ref.slot];

	if (watch->ref.generation != entry->ref.generation)
	{
		drop_probe(watch);
		*watch = (InferWatch){.ref = entry->ref};
	}
	return watch;
}

/* scheme://host:port, as far as the server's url names it, and the path; palloc'd. */
static char *
probe_url(const InferRouteIdentity *identity, const InferWatch *watch)
{
	const char *host = strstr(identity->url, "://") + 3;
	int origin = (int) (host - identity->url) + (int) strcspn(host, "/");

	if (identity->health_path[0] != '\0')
		return psprintf("%.*s%s", origin, identity->url, identity->health_path);
	if (watch->other_path)
		return psprintf("%s/models", identity->url);
	return psprintf("%.*s" USUAL_PATH, origin, identity->url);
}

/* Ends a probe, be it made or not. */
static void
conclude(InferWatch *watch, InferRouteProbe *probe, InferProbeHealth health)
{
	watch->ended = true;
	watch->next_us =
		infer_probe_next_us(health, watch->sent_us, (int64) infer_guc_probe_interval * 1000,
							infer_random_draw(watch->ref.slot));
	probe->sent_us = watch->sent_us;
	probe->next_us = watch->next_us;
	infer_route_probed(watch->ref, probe);
}

/* There will be no answer: the reason says why. */
static void
conclude_unmade(InferWatch *watch, InferReason reason)
{
	InferRouteProbe probe = {.reason = reason};

	conclude(watch, &probe, INFER_PROBE_SILENT);
}

/* The name of the header that says which incarnation the server is; NULL = none does. */
static const char *
incarnation_header(InferWatch *watch, const InferRouteIdentity *identity)
{
	size_t len = strlen(HEADER_OPTION);

	if (strncmp(identity->incarnation, HEADER_OPTION, len) != 0)
		return NULL;
	strlcpy(watch->header, identity->incarnation + len, sizeof(watch->header));
	return watch->header;
}

static void
send_probe(InferWatch *watch, const InferRouteEntry *entry, const InferSecrets *secrets)
{
	InferHttpRequest request = {
		.url = probe_url(&entry->identity, watch),
		.get = true,
		.own_connection = true,
		.tls = {.authorities = secrets->authorities,
				.authorities_len = secrets->authorities ? strlen(secrets->authorities) : 0},
		.connect_timeout_ms = infer_guc_probe_connect_timeout,
		.timeout_ms = ANSWER_TIMEOUT_MS,
		.max_response_size = ANSWER_MAX,
		.max_idle_s = 1,
		.watch_header = incarnation_header(watch, &entry->identity),
		.check_address = infer_egress_address,
		.check_arg = &watch->egress,
		.user = watch,
	};

	infer_resolver_prepare(&watch->name, entry, watch->sent_us, &request);
	request.timeout_ms += request.connect_timeout_ms;
	watch->transfer = infer_transport_submit(transport, &request);
	if (watch->transfer == NULL)
		conclude_unmade(watch, INFER_REASON_INTERNAL);
}

static void
start_probe(InferWatch *watch, const InferRouteEntry *entry, int64 now)
{
	static const InferCredential nobody = {0};
	const InferRouteIdentity *identity = &entry->identity;
	InferServer server = {
		.scheme = pstrdup(identity->scheme),
		.host = pstrdup(identity->host),
		.ca_file = identity->ca_file[0] != '\0' ? pstrdup(identity->ca_file) : NULL,
	};
	InferSecrets secrets = {0};
	char *detail;

	watch->sent_us = now;
	infer_egress_init(&watch->egress, &server);
	if (!infer_egress_host(&server))
		conclude_unmade(watch, INFER_REASON_EGRESS_DENIED);
	else if (infer_certificates_read(&server, &nobody, CurrentMemoryContext, &secrets, &detail) !=
			 INFER_REASON_NONE)
		conclude_unmade(watch, INFER_REASON_CERTIFICATE_UNUSABLE);
	else
		send_probe(watch, entry, &secrets);
}

static void
finish_probe(InferWatch *watch, const InferRouteEntry *entry, int64 now)
{
	const InferHttpResult *result = infer_transfer_result(watch->transfer);
	InferProbeHealth health = infer_probe_judge(&result->wire);
	InferRouteProbe probe = {
		.reason = infer_proof_classify(&result->wire).reason,
		.http_status = result->wire.status,
		.behind = health == INFER_PROBE_BEHIND,
		.untold = health == INFER_PROBE_ANSWERS,
		.address = infer_resolver_note(&watch->name, entry, result, now),
		.incarnation = result->watched[0] != '\0' ? result->watched : NULL,
	};

	if (health == INFER_PROBE_READY || health == INFER_PROBE_BEHIND)
		probe.reason = INFER_REASON_NONE;
	conclude(watch, &probe, health);
	if (result->wire.status == NOT_FOUND && !watch->other_path &&
		entry->identity.health_path[0] == '\0')
	{
		watch->other_path = true;
		watch->next_us = now;
	}
}

static void
collect(int64 now)
{
	InferTransfer *transfer;
	InferRouteEntry entry;

	infer_transport_step(transport);
	while ((transfer = infer_transport_next_done(transport)) != NULL)
	{
		InferWatch *watch = infer_transfer_user(transfer);

		if (infer_route_entry(watch->ref.slot, &entry) &&
			entry.ref.generation == watch->ref.generation)
			finish_probe(watch, &entry, now);
		drop_probe(watch);
		next_look_us = Min(next_look_us, some_wait ? now : watch->next_us);
	}
}

/* Is the server to be probed at all? */
static bool
is_watched(const InferRouteEntry *entry, int64 now)
{
	return infer_guc_probe_interval > 0 && !entry->identity.cut &&
		   now - entry->used_us < INFER_ROUTE_IDLE_US;
}

/*
 * When the server's next probe is due.  A gateway that has just come goes on where the last one
 * was, as far as the route table knows; one that was told of a shorter interval does not wait for
 * the end of a longer one.
 */
static int64
due_us(const InferWatch *watch, const InferRouteEntry *entry)
{
	int64 interval_us = (int64) infer_guc_probe_interval * 1000;

	if (!watch->ended)
		return entry->next_probe_us;
	if (infer_resolver_was_dropped(&watch->name, entry))
		return infer_probe_next_us(INFER_PROBE_UNREACHABLE, watch->sent_us, interval_us, 0.5);
	return Min(watch->next_us,
			   infer_probe_next_us(INFER_PROBE_READY, watch->sent_us, interval_us, 1));
}

static void
count_server(const InferRouteEntry *entry, int64 now)
{
	InferPlaceState state = infer_route_state(&entry->snapshot, now);

	counts.servers++;
	counts.failed += state == INFER_PLACE_FAILED;
	counts.behind += state == INFER_PLACE_BEHIND;
}

/* Starts what is due in the whole table; sets when to look again. */
static void
look_around(int64 now)
{
	InferRouteEntry entry;

	next_look_us = now + LOOK_AGAIN_US;
	some_wait = false;
	counts = (InferWatchCounts){0};
	for (int i = 0; i < infer_route_slots(); i++)
	{
		InferWatch *watch;
		int64 due;

		if (!infer_route_entry(i, &entry))
		{
			drop_probe(&watches[i]);
			continue;
		}
		watch = watch_of(&entry);
		if (!is_watched(&entry, now))
			continue;
		count_server(&entry, now);
		if (watch->transfer != NULL)
			continue;
		due = due_us(watch, &entry);
		if (due > now)
			next_look_us = Min(next_look_us, due);
		else if (infer_transport_running(transport) < MAX_PROBES)
			start_probe(watch, &entry, now);
		else
			some_wait = true;
	}
	next_look_us = Max(next_look_us, now + LOOK_PAUSE_US);
	infer_transport_step(transport);
}

int64
infer_prober_turn(int64 now)
{
	long timeout_ms;

	collect(now);
	if (infer_gateway_woken() || now >= next_look_us)
		look_around(now);
	timeout_ms = infer_transport_timeout_ms(transport);
	return timeout_ms < 0 ? next_look_us : Min(next_look_us, now + timeout_ms * 1000);
}
