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
 * API has.  Which incarnation answers is in that answer, or, where it is a metric, in one more,
 * which is asked for after each probe that was answered.
 *
 * There are places for so many probes at a time.  Most of them end at once; those that took their
 * time when they were last made share half of the places and take turns, so that servers which do
 * not answer keep nobody waiting but each other.
 *
 * Which probe of which server: the transfer carries its watch, and the watch says whom it is about.
 * A slot that has become another server's drops the probe of the first.
 */
#include "gateway/internal.h"

#include "core/probe.h"
#include "pg/clock.h"
#include "pg/guc.h"
#include "pg/random.h"
#include "provider/incarnation.h"
#include "registry/secrets.h"
#include "shmem/gateway.h"
#include "utils/memutils.h"

#define MAX_PROBES        64 /* at a time; the others wait for their turn */
#define MAX_SLOW          (MAX_PROBES / 2)
#define SLOW_US           500000
#define ANSWER_MAX        (64 * 1024)
#define ANSWER_TIMEOUT_MS 10000 /* a probe that takes longer says nothing more */
#define USUAL_PATH        "/health"
#define METRICS_PATH      "/metrics"
#define METRICS_MAX       (1024 * 1024)
#define FINE              200
#define NOT_FOUND         404
/* Between two looks at the table, which has many slots: at least, where there is no news; at most,
 * for servers that are used again. */
#define LOOK_PAUSE_US 50000
#define LOOK_AGAIN_US 1000000

static InferTransport *transport;
static InferWatch *watches; /* by slot */
static InferWatchCounts counts;
static int64 next_look_us; /* at the route table */
static bool some_wait;     /* for a running probe's end */
static int first_slot;     /* whose turn it is */
static int slow_running;   /* probes of servers that are slow */

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
	if (watch->transfer == NULL)
		return;
	slow_running -= watch->slow;
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

/* scheme://host:port, as the server's url has it; palloc'd. */
static char *
origin(const InferRouteIdentity *identity)
{
	const char *host = strstr(identity->url, "://") + 3;

	return pnstrdup(identity->url, host - identity->url + strcspn(host, "/"));
}

static char *
probe_url(const InferRouteIdentity *identity, const InferWatch *watch)
{
	if (identity->health_path[0] != '\0')
		return psprintf("%s%s", origin(identity), identity->health_path);
	if (watch->other_path)
		return psprintf("%s/models", identity->url);
	return psprintf("%s" USUAL_PATH, origin(identity));
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

/* Which incarnation the server is: where its answers say it, and under which name. */
static InferIncarnationPlace
incarnation_place(const InferRouteEntry *entry, const char **name)
{
	return infer_incarnation_place(entry->identity.incarnation, name);
}

/* The name of the header that says it; NULL = none does. */
static const char *
incarnation_header(InferWatch *watch, const InferRouteEntry *entry)
{
	const char *name;

	if (incarnation_place(entry, &name) != INFER_INCARNATION_HEADER)
		return NULL;
	strlcpy(watch->header, name, sizeof(watch->header));
	return watch->header;
}

static InferReason
send_request(InferWatch *watch, const InferRouteEntry *entry, const InferSecrets *secrets,
			 const char *url, size_t answer_max)
{
	InferHttpRequest request = {
		.url = url,
		.get = true,
		.own_connection = true,
		.tls = {.authorities = secrets->authorities,
				.authorities_len = secrets->authorities ? strlen(secrets->authorities) : 0},
		.connect_timeout_ms = infer_guc_probe_connect_timeout,
		.timeout_ms = ANSWER_TIMEOUT_MS,
		.max_response_size = answer_max,
		.max_idle_s = 1,
		.incarnation_header = incarnation_header(watch, entry),
		.check_address = infer_egress_address,
		.check_arg = &watch->egress,
		.user = watch,
	};

	infer_resolver_prepare(&watch->name, entry, watch->sent_us, &request);
	request.timeout_ms += request.connect_timeout_ms;
	watch->transfer = infer_transport_submit(transport, &request);
	if (watch->transfer == NULL)
		return INFER_REASON_INTERNAL;
	slow_running += watch->slow;
	return INFER_REASON_NONE;
}

/* Asks the server, under the rules that calls have.  Another reason than NONE: it was not asked. */
static InferReason
ask(InferWatch *watch, const InferRouteEntry *entry, const char *url, size_t answer_max)
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

	infer_egress_init(&watch->egress, &server);
	if (!infer_egress_host(&server))
		return INFER_REASON_EGRESS_DENIED;
	if (infer_certificates_read(&server, &nobody, CurrentMemoryContext, &secrets, &detail) !=
		INFER_REASON_NONE)
		return INFER_REASON_CERTIFICATE_UNUSABLE;
	return send_request(watch, entry, &secrets, url, answer_max);
}

static void
start_probe(InferWatch *watch, const InferRouteEntry *entry, int64 now)
{
	InferReason reason;

	watch->sent_us = now;
	watch->asks_metrics = false;
	reason = ask(watch, entry, probe_url(&entry->identity, watch), ANSWER_MAX);
	if (reason != INFER_REASON_NONE)
		conclude_unmade(watch, reason);
}

/* After a probe, where it is a metric that says which incarnation has answered it. */
static void
start_metrics(InferWatch *watch, const InferRouteEntry *entry)
{
	watch->asks_metrics = true;
	(void) ask(watch, entry, psprintf("%s" METRICS_PATH, origin(&entry->identity)), METRICS_MAX);
}

static void
finish_metrics(const InferWatch *watch, const InferRouteEntry *entry)
{
	const InferHttpResult *result = infer_transfer_result(watch->transfer);
	char incarnation[INFER_INCARNATION_MAX];
	const char *name;

	if (incarnation_place(entry, &name) != INFER_INCARNATION_METRIC || result->wire.status != FINE)
		return;
	infer_provider_read_metric(result->body->data, result->body->len, name, incarnation);
	infer_route_said(watch->ref, incarnation, watch->sent_us);
}

/* Which incarnation has answered a probe, by its header or its body; "": it does not say. */
static void
read_incarnation(const InferRouteEntry *entry, const InferHttpResult *result, char *incarnation)
{
	const char *name;

	if (incarnation_place(entry, &name) == INFER_INCARNATION_FIELD)
		infer_provider_read_field(result->body->data, result->body->len, name, incarnation);
	else
		memcpy(incarnation, result->incarnation, INFER_INCARNATION_MAX);
}

static void
finish_probe(InferWatch *watch, const InferRouteEntry *entry, int64 now)
{
	const InferHttpResult *result = infer_transfer_result(watch->transfer);
	char incarnation[INFER_INCARNATION_MAX];
	InferProbeHealth health = infer_probe_judge(&result->wire);
	InferRouteProbe probe = {
		.reason = infer_proof_classify(&result->wire).reason,
		.http_status = result->wire.status,
		.behind = health == INFER_PROBE_BEHIND,
		.untold = health == INFER_PROBE_ANSWERS,
		.address = infer_resolver_note(&watch->name, entry, result, now),
		.incarnation = incarnation,
	};

	read_incarnation(entry, result, incarnation);
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

/* A transfer of the server's has ended. Another one may follow at once. */
static void
take_end(InferWatch *watch, const InferRouteEntry *entry, int64 now)
{
	const char *name;
	bool answered = infer_transfer_result(watch->transfer)->wire.status > 0;
	bool follows = !watch->asks_metrics && answered &&
				   incarnation_place(entry, &name) == INFER_INCARNATION_METRIC;

	if (watch->asks_metrics)
		finish_metrics(watch, entry);
	else
		finish_probe(watch, entry, now);
	drop_probe(watch);
	watch->slow = now - watch->sent_us >= SLOW_US;
	if (follows)
		start_metrics(watch, entry);
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
			take_end(watch, &entry, now);
		else
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

static bool
has_place(const InferWatch *watch)
{
	return infer_transport_running(transport) < MAX_PROBES &&
		   (!watch->slow || slow_running < MAX_SLOW);
}

/* Starts the slot's probe if it is due. False: it has to wait for a place. */
static bool
look_at(int i, int64 now)
{
	InferRouteEntry entry;
	InferWatch *watch;
	int64 due;

	if (!infer_route_entry(i, &entry))
	{
		drop_probe(&watches[i]);
		return true;
	}
	watch = watch_of(&entry);
	if (!is_watched(&entry, now))
		return true;
	count_server(&entry, now);
	if (watch->transfer != NULL)
		return true;
	due = due_us(watch, &entry);
	if (due > now)
		next_look_us = Min(next_look_us, due);
	else if (has_place(watch))
		start_probe(watch, &entry, now);
	else
		return false;
	return true;
}

/* Starts what is due in the whole table; sets when to look again, and who is first then. */
static void
look_around(int64 now)
{
	int slots = infer_route_slots();
	int first = first_slot;

	next_look_us = now + LOOK_AGAIN_US;
	some_wait = false;
	counts = (InferWatchCounts){0};
	for (int n = 0; n < slots; n++)
	{
		int i = (first + n) % slots;

		if (look_at(i, now) || some_wait)
			continue;
		some_wait = true;
		first_slot = i;
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
