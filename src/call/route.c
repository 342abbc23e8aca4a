/*
 * call/route.c - where a batch goes next: core/route and core/stages, fed from the catalogs and
 * from the route table.
 *
 * The decision is made for each batch when it is about to ask for a permit, over what the table
 * says at that moment, so the requests that left a microsecond ago count.  A class of one place has
 * nothing to choose: that place's first attempt goes there without asking anybody, also if the
 * server is thought to be down or not to have the model, for what is thought may be wrong, and the
 * key's own cooling (core/monitor) bounds what that costs.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/hsearch.h"
#include "miscadmin.h"

#include "call/batch.h"
#include "call/class.h"
#include "call/drain.h"
#include "call/finish.h"
#include "call/incarnation.h"
#include "call/lane.h"
#include "call/memo.h"
#include "call/permit.h"
#include "call/place.h"
#include "call/route.h"
#include "core/peer.h"
#include "core/proof.h"
#include "core/queue_model.h"
#include "core/route.h"
#include "core/stages.h"
#include "core/types.h"
#include "pg/clock.h"
#include "pg/guc.h"
#include "pg/health_weights.h"
#include "pg/random.h"
#include "pg/report.h"
#include "registry/registry.h"
#include "shmem/admission.h"
#include "shmem/drain.h"
#include "shmem/route.h"

static InferRouteDecision decision; /* of the last look */
static InferStagesStep step;

/* The session's last success. */
static struct
{
	char node[NAMEDATALEN]; /* "" = there is none, or whoever had it is gone */
	InferRouteRef slot;
	uint64 incarnation; /* 0 = not known */
} last;

/* --- What the table says --- */

void
infer_route_look(const InferRouteSnapshot *snapshot, bool dead, InferTask task, int items,
				 int limit, int64 now_us, InferRoutePlace *route)
{
	route->state = dead ? INFER_PLACE_DEAD : infer_route_state(snapshot, now_us);
	route->excluded = infer_queue_excluded(&snapshot->queue, now_us);
	route->outstanding = snapshot->queue.outstanding;
	route->penalty = snapshot->queue.penalty;
	route->latency_us = infer_queue_latency_us(&snapshot->queue, task, items);
	route->heard_us = infer_queue_heard_us(&snapshot->queue, task);
	route->doubted = infer_queue_doubted(&snapshot->queue, task);
	route->in_flight = snapshot->queue.in_flight;
	route->limit = limit;
	route->duration_weight = snapshot->duration_weight;
	route->node_load = infer_route_knows_node(snapshot, now_us) ? snapshot->node_load : 0;
	route->node_health = infer_route_knows_node(snapshot, now_us) ? snapshot->node_health : 0;
}

/* The table has nothing of the server as this statement knows it: it was altered since, or there
 * was no room.  What the process has there itself is all that is known. */
static void
look_without(const InferLane *lane, InferRoutePlace *route)
{
	route->excluded = route->doubted = false;
	route->outstanding = lane->running;
	route->penalty = 1;
	route->latency_us = 0;
	route->heard_us = 0;
	route->in_flight = lane->running;
	route->limit = lane->limit;
	route->duration_weight = lane->weight * lane->running;
	route->node_load = route->node_health = 0;
}

/* What is known of a place now. */
static void
look(InferPlace *place, InferRoutePlace *route, const InferBatch *batch, int64 now)
{
	const InferClass *class = place->class;
	const InferLane *lane = batch->lanes[place - class->places];
	bool draining = infer_drain_place_until(place) > 0;
	InferRouteSnapshot snapshot;

	route->state = draining ? INFER_PLACE_DRAINING : INFER_PLACE_UP;
	if (lane == NULL)
		return;
	if (infer_route_snapshot(place->slot, &snapshot))
		infer_route_look(
			&snapshot,
			infer_dead_is(&snapshot.dead, place->model_hash, class->target->set_version, now),
			class->task, class->task == INFER_TASK_EMBED ? batch->nanswers : 0, lane->limit, now,
			route);
	else
		look_without(lane, route);
	if (infer_incarnation_leaves_out(place))
		route->state = INFER_PLACE_DEAD;
	if (draining && route->state != INFER_PLACE_DEAD)
		route->state = INFER_PLACE_DRAINING;
	if (class->nplaces == 1 && route->state != INFER_PLACE_DRAINING)
		route->state = INFER_PLACE_UP;
}

void
infer_route_describe(const InferPlacement *placement, bool permitted, InferRoutePlace *route)
{
	const InferServer *server = placement->server;

	*route = (InferRoutePlace){
		.server = server->name,
		.node = server->node != NULL ? server->node : server->name,
		.service_class = placement->service_class,
		.version = placement->version,
		.weight = placement->weight,
		.feeds = {placement->nfeeds, placement->feeds},
		.ts_range = {.set = placement->ts_from != PG_INT64_MIN || placement->ts_to != PG_INT64_MAX,
					 .from = placement->ts_from,
					 .to = placement->ts_to},
		.primary = placement->is_primary,
		.tier = placement->tier,
		.permitted = permitted,
		.penalty = 1,
		.health_weight = infer_health_weight(placement->service_class),
	};
}

/* --- The request --- */

typedef struct Turns
{
	uint64 model; /* a hash of its name */
	uint64 turn;  /* counts this session's requests to it */
} Turns;

/* Each model has its own: two that are called in turn shall not have every second turn each.  One
 * that has none yet gets it if `make`, which may raise; else NULL.  It stays where it is. */
static uint64 *
turn_of(const InferTarget *target, bool make)
{
	static HTAB *table = NULL;
	const unsigned char *name = (const unsigned char *) target->model;
	uint64 model = hash_bytes_extended(name, (int) strlen(target->model), 0);
	bool found = false;
	Turns *turns = NULL;

	if (table == NULL)
		table = hash_create("pg_inference turns", 16,
							&(HASHCTL){.keysize = sizeof(uint64), .entrysize = sizeof(Turns)},
							HASH_ELEM | HASH_BLOBS);
	turns = hash_search(table, &model, make ? HASH_ENTER : HASH_FIND, &found);
	if (make && !found)
		turns->turn = murmurhash32(MyProcPid); /* not all sessions begin with the same */
	return turns != NULL ? &turns->turn : NULL;
}

/* Another incarnation of that server has nothing left of what the session asked it. */
static const char *
last_node(void)
{
	InferRouteSnapshot snapshot;

	if (last.incarnation != 0 &&
		(!infer_route_snapshot(last.slot, &snapshot) || snapshot.incarnation != last.incarnation))
		last.node[0] = '\0';
	return last.node;
}

void
infer_route_session(const InferTarget *target, InferRouteRequest *request)
{
	const uint64 *turn = turn_of(target, false);

	request->last_node = last_node();
	request->turn = turn != NULL ? *turn : murmurhash32(MyProcPid);
}

/* What could be decided of all requests of a class raises for all of them. */
static void
check(const InferClass *class)
{
	if (decision.cause == INFER_CAUSE_NO_PRIVILEGE)
		for (int i = 0; i < class->nplaces; i++)
			if (decision.places[i].reason == INFER_BY_PRIVILEGE)
				infer_place_refuse(&class->places[i]);
	if (decision.n_plan > 1)
		ereport(ERROR, (errcode(infer_errcode_config()),
						errmsg("the call to model \"%s\" needs %d servers at once",
							   class->target->model, decision.n_plan),
						errdetail("A call inside a statement goes to one server."),
						errhint("Ask for one service class, and include one server or node.")));
}

void
infer_route_prepare(InferClass *class)
{
	class->request = class->options.header.route;
	class->routes = palloc0(sizeof(InferRoutePlace) * class->nplaces);
	for (int i = 0; i < class->nplaces; i++)
	{
		InferReason barred = class->places[i].barred;

		infer_route_describe(class->places[i].placement,
							 barred == INFER_REASON_NONE || barred == INFER_REASON_NO_DEST,
							 &class->routes[i]);
		class->routes[i].no_room = barred == INFER_REASON_NO_DEST;
	}
	infer_route_decide(&class->request, class->routes, class->nplaces, infer_now_us(), 0,
					   &decision);
	check(class);
	class->sole = class->nplaces == 1 && decision.cause == INFER_CAUSE_NONE;
	class->turn = turn_of(class->target, true);
}

/* --- The walk --- */

static InferStagesRule
rule_of(const InferClass *class)
{
	return (InferStagesRule){.retry = class->options.rule,
							 .stage1_retries = infer_guc_stage1_retries,
							 .stage2_retries = infer_guc_stage2_retries,
							 .all_failed_wait_us = (int64) infer_guc_all_failed_wait * 1000};
}

/*
 * The draw of a decision and of a pause: by the first input and the attempt, so that a seed fixes
 * it.  One for each attempt: a batch that waits is decided anew each time it is looked at, and
 * would else go where there is room, and not where chance had sent it.
 */
static double
draw(InferBatch *batch)
{
	const InferAnswer *first = batch->answers[0];

	if (batch->drawn != batch->attempts + 1)
		batch->draw = infer_random_draw(hash_bytes_extended(
			(const unsigned char *) first->input, (int) first->input_len, batch->attempts));
	batch->drawn = batch->attempts + 1;
	return batch->draw;
}

/* Requests that begin alike want the same server. One with several inputs has no one beginning. */
static uint64
affinity_of(const InferBatch *batch)
{
	const InferAnswer *first = batch->answers[0];
	size_t len = batch->class->target->affinity_bytes;

	if (len == 0 || batch->nanswers > 1)
		return 0;
	return Max(1, hash_bytes_extended((const unsigned char *) first->input,
									  (int) Min(len, first->input_len), 0));
}

/* What the batch asks for now, beside what all of its class do. */
static void
ask_for(InferRouteRequest *request, const InferBatch *batch)
{
	request->last_node = last_node();
	request->turn = *batch->class->turn;
	request->affinity = affinity_of(batch);
	request->min_tier = batch->stages.tier;
	request->probe = false;
}

/* A batch that was refused for its size goes where that shows what the server takes. */
static void
prefer_refusing(const InferBatch *batch)
{
	for (int i = 1; batch->refusal != NULL && i < step.n_order; i++)
		if (&batch->class->places[step.order[i]] == batch->place)
		{
			memmove(step.order + 1, step.order, sizeof(int) * i);
			step.order[0] = batch->place - batch->class->places;
			break;
		}
}

/*
 * Servers that keep failing, or cannot be connected to, are left alone (core/monitor, InferDial),
 * and a call that waits for one of them waits in its key's line.  So where somebody else can serve
 * it, a fallback included, it goes there as if they were down.  False: nobody can, or none is left
 * alone; nothing has changed.
 */
static bool
pass_over_cooling(InferBatch *batch, const InferStagesRule *rule, int64 now)
{
	InferClass *class = batch->class;
	InferStages trial = batch->stages;
	InferPlaceState before[INFER_ROUTE_MAX_PLACES];
	int n = Min(class->nplaces, INFER_ROUTE_MAX_PLACES);
	bool any = false;

	for (int i = 0; i < n; i++)
	{
		const InferPlace *place = &class->places[i];
		InferRoutePlace *route = &class->routes[i];

		before[i] = route->state;
		if (batch->lanes[i] == NULL || route->state > INFER_PLACE_BEHIND ||
			!infer_admission_shut(place->key))
			continue;
		route->state = INFER_PLACE_FAILED;
		any = true;
	}
	if (!any)
		return false;
	infer_stages_next(&trial, rule, &class->request, class->routes, class->nplaces, now,
					  draw(batch), &decision, &step);
	if (step.action == INFER_STAGES_SEND && !step.probe)
	{
		batch->stages = trial;
		return true;
	}
	for (int i = 0; i < n; i++)
		class->routes[i].state = before[i];
	return false;
}

const InferStagesStep *
infer_route_next(InferBatch *batch)
{
	InferClass *class = batch->class;
	InferStagesRule rule = rule_of(class);
	int64 now;

	if (class->sole && batch->stages.attempts == 0 &&
		infer_drain_place_until(&class->places[0]) == 0)
	{
		step.action = INFER_STAGES_SEND;
		step.probe = false;
		step.n_order = 1;
		step.order[0] = 0;
		return &step;
	}
	now = infer_now_us();
	batch->changes = infer_route_changes();
	for (int i = 0; i < class->nplaces; i++)
		look(&class->places[i], &class->routes[i], batch, now);
	ask_for(&class->request, batch);
	if (class->nplaces == 1 || !pass_over_cooling(batch, &rule, now))
		infer_stages_next(&batch->stages, &rule, &class->request, class->routes, class->nplaces,
						  now, draw(batch), &decision, &step);
	if (step.action == INFER_STAGES_SEND)
		prefer_refusing(batch);
	batch->on_change = step.action == INFER_STAGES_WAIT && step.on_change;
	if (batch->on_change)
		infer_route_wait_begin();
	return &step;
}

void
infer_route_started(InferBatch *batch)
{
	InferClass *class = batch->class;

	(*class->turn)++;
	batch->before = batch->stages;
	infer_stages_started(&batch->stages, class->routes, batch->place - class->places, false);
}

void
infer_route_copied(InferBatch *batch, const InferPlace *place)
{
	const InferClass *class = batch->class;

	infer_stages_started(&batch->stages, class->routes, place - class->places, true);
}

int
infer_route_copies(InferBatch *batch, int *order)
{
	InferClass *class = batch->class;
	int64 now = infer_now_us();

	for (int i = 0; i < class->nplaces; i++)
		look(&class->places[i], &class->routes[i], batch, now);
	ask_for(&class->request, batch);
	infer_route_decide(&class->request, class->routes, class->nplaces, now, draw(batch), &decision);
	return infer_stages_copies(&batch->stages, &decision, order);
}

/* Does the server know what it has seen before by its key? */
static bool
honours_key(const InferBatch *batch)
{
	return batch->class->options.idempotent && batch->place->placement->server->keys_honoured;
}

bool
infer_route_would_end(const InferBatch *batch, const InferFinding *finding)
{
	InferStagesRule rule = rule_of(batch->class);
	InferStages trial = batch->stages;
	InferStagesOutcome outcome = {.finding = *finding,
								  .declined = infer_incarnation_repeats(batch, finding),
								  .key_honoured = honours_key(batch)};

	infer_stages_ended(&trial, &rule, batch->place - batch->class->places, &outcome,
					   infer_now_us());
	return trial.ended;
}

void
infer_route_ended(InferBatch *batch, const InferFinding *finding, bool declined,
				  int64 retry_after_ms)
{
	InferClass *class = batch->class;
	InferStagesRule rule = rule_of(class);
	InferStagesOutcome outcome = {.finding = *finding,
								  .declined = declined,
								  .key_honoured = honours_key(batch),
								  .retry_after_us = retry_after_ms * 1000};

	infer_stages_ended(&batch->stages, &rule, batch->place - class->places, &outcome,
					   infer_now_us());
	batch->priority = infer_stages_priority(&batch->stages, class->options.header.priority);
}

void
infer_route_undo(InferBatch *batch)
{
	int copies = batch->stages.copies;

	batch->stages = batch->before;
	batch->stages.copies = copies; /* which are sent once */
	if (batch->stages.attempts == 0)
		batch->deadline_us = 0; /* its time begins with its first attempt */
}

void
infer_route_succeeded(const InferBatch *batch)
{
	const InferPlace *place = batch->place;
	InferRouteSnapshot snapshot;

	strlcpy(last.node, batch->class->routes[place - batch->class->places].node, sizeof(last.node));
	last.slot = place->slot;
	last.incarnation =
		place->says != INFER_INCARNATION_NOWHERE && infer_route_snapshot(place->slot, &snapshot)
			? snapshot.incarnation
			: 0;
}

/* Their servers have been failing for longer than the call would wait: they are out for it, without
 * having been asked. */
void
infer_route_give_up(InferBatch *batch)
{
	InferClass *class = batch->class;
	InferStagesRule rule = rule_of(class);
	InferStages before = batch->stages;
	InferStagesOutcome failed = {
		.finding = {.reason = INFER_REASON_SERVER_FAILED, .execution = INFER_NOT_ADMITTED}};

	for (int i = 0; i < step.n_order; i++)
	{
		infer_stages_started(&batch->stages, class->routes, step.order[i], false);
		infer_stages_ended(&batch->stages, &rule, step.order[i], &failed, infer_now_us());
	}
	before.out = batch->stages.out;
	before.tried = batch->stages.tried;
	batch->stages = before;
}

/* --- Nowhere to go --- */

static InferReason
reason_of_cause(void)
{
	if (step.probe)
		return INFER_REASON_ALL_FAILED;
	switch (decision.cause)
	{
		case INFER_CAUSE_STALE:
			return INFER_REASON_STALE_ALTERNATIVES;
		case INFER_CAUSE_DRAINING:
			return INFER_REASON_DRAINING;
		case INFER_CAUSE_ALL_FAILED:
			return INFER_REASON_ALL_FAILED;
		case INFER_CAUSE_NO_PRIVILEGE:
		case INFER_CAUSE_NO_DEST:
		case INFER_CAUSE_NONE:
			break;
	}
	return INFER_REASON_NO_DEST;
}

/* What left nothing, in words for the DETAIL. */
static void
describe_cause(const InferClass *class, char *detail, size_t size)
{
	const char *by = infer_route_reason_name(decision.reason);

	if (step.probe || decision.cause == INFER_CAUSE_ALL_FAILED)
		snprintf(detail, size, "none of its %d placements can be reached", class->nplaces);
	else if (decision.cause == INFER_CAUSE_STALE)
		snprintf(detail, size, "the servers of its %d placements said so", class->nplaces);
	else if (decision.reason == INFER_BY_NOTHING)
		snprintf(detail, size, "the model has no placement");
	else if (decision.target == NULL)
		snprintf(detail, size, "\"%s\" leaves none of its %d placements", by, class->nplaces);
	else if (decision.target_reason == INFER_BY_NOTHING)
		snprintf(detail, size, "\"%s\" names \"%s\", where it has no placement", by,
				 decision.target);
	else
		snprintf(detail, size, "\"%s\" names \"%s\", which \"%s\" leaves out", by, decision.target,
				 infer_route_reason_name(decision.target_reason));
}

/* Refused for the first of the servers that might have served it. */
static void
note_refusal(const InferBatch *batch)
{
	const InferClass *class = batch->class;
	int i = 0;

	while (i < class->nplaces - 1 && decision.places[i].reason != INFER_BY_DRAINING)
		i++;
	infer_drain_note(&class->places[i], INFER_DRAIN_REFUSED);
}

void
infer_route_fail(InferBatch *batch, InferStagesEnd end)
{
	InferReason reason = reason_of_cause();
	char detail[512] = "";

	infer_permit_want(batch, false);
	if (end == INFER_STAGES_LAST && batch->last_reason != INFER_REASON_NONE)
	{
		if (batch->last_detail != NULL)
			strlcpy(detail, batch->last_detail, sizeof(detail));
		if (batch->last_reason == INFER_REASON_STALE_INCARNATION)
			infer_incarnation_hint(batch);
		infer_finish_fail(batch, batch->last_reason, batch->floor, batch->last_status, detail);
		return;
	}
	if (decision.cause == INFER_CAUSE_DRAINING)
		note_refusal(batch);
	else if ((decision.cause == INFER_CAUSE_STALE || decision.cause == INFER_CAUSE_ALL_FAILED) &&
			 infer_incarnation_left_nothing(batch, detail, sizeof(detail)))
		reason = decision.cause == INFER_CAUSE_STALE ? INFER_REASON_STALE_INCARNATION : reason;
	else
		describe_cause(batch->class, detail, sizeof(detail));
	if (batch->class->nplaces > 1)
		batch->place = NULL; /* it is no failure of any server */
	infer_finish_fail(batch, reason, INFER_NOT_ADMITTED, 0, detail);
}
