/*
 * sim/fleet_call.c - the processes of the fleet: what call/ does with a call.
 */
#include "fleet.h"

#include <string.h>

#define BACKSTOP_US SECOND

void
client_schedule(Fleet *f, int which, int64_t at)
{
	Client *c = &f->clients[which];

	if (at >= c->look_us)
		return;
	c->look_us = at;
	fleet_at(f, at, FLEET_LOOK, which);
}

void
clients_hear_change(Fleet *f)
{
	for (int i = 0; i < f->nclients; i++)
		if (f->clients[i].on_change)
			client_schedule(f, i, f->now);
}

static void
leave_lines(Fleet *f, int which)
{
	for (int i = 0; i < f->nmachines; i++)
		slot_leave(f, i, which);
}

/* --- Begin and end --- */

static bool
happens(Fleet *f, double part)
{
	return random_unit(&f->random) < part;
}

/* To all servers; or by a reference to one, which it may have kept for long. */
static void
choose_places(Fleet *f, Client *c, Entry *entry)
{
	c->wanted_incarnation = 0;
	c->nplaces = f->nmachines;
	for (int i = 0; i < f->nmachines; i++)
		c->places[i] = i;
	if (!happens(f, f->by_reference))
		return;
	if (c->ref_incarnation == 0 || happens(f, 0.2))
	{
		c->ref_machine = random_below(&f->random, f->nmachines);
		c->ref_incarnation = f->slots[c->ref_machine].incarnation;
	}
	if (c->ref_incarnation == 0)
		return;
	c->nplaces = 1;
	c->places[0] = c->ref_machine;
	c->wanted_incarnation = c->ref_incarnation;
	entry->by_reference = true;
}

static void
begin(Fleet *f, int which)
{
	Client *c = &f->clients[which];
	Entry *entry;

	if (f->ncalls == f->ledger_size)
		f->ledger = sim_grow(f->ledger, &f->ledger_size, sizeof(Entry));
	c->call = f->ncalls++;
	entry = &f->ledger[c->call];
	*entry = (Entry){.begun_us = f->now, .ended_us = -1};
	if (c->calls_left > 0)
		c->calls_left--;
	c->set_version = f->set_version;
	c->rule = f->rule;
	c->rule.retry.policy = happens(f, f->never_retries)       ? INFER_RETRY_NEVER
						   : happens(f, f->permits_ambiguous) ? INFER_RETRY_AMBIGUOUS
															  : INFER_RETRY_NOT_ADMITTED;
	entry->policy = c->rule.retry.policy;
	entry->max_attempts = c->rule.retry.max_attempts;
	entry->hedges = happens(f, f->hedges);
	entry->keyed = happens(f, f->keyed);
	if (f->mutation == FLEET_RETRIES_ANYTHING)
		c->rule.retry.policy = INFER_RETRY_AMBIGUOUS;
	choose_places(f, c, entry);
	memset(&c->stages, 0, sizeof(c->stages));
	infer_route_request_init(&c->request);
	c->request.locality = f->locality;
	c->request.last_node = c->last_node;
	if (happens(f, f->cancels))
		fleet_at(f, f->now + random_below(&f->random, 2000) * MS, FLEET_CANCEL, c->call);
}

static void
finish(Fleet *f, int which)
{
	Client *c = &f->clients[which];
	Entry *entry = &f->ledger[c->call];

	entry->ended_us = f->now;
	fleet_digest(f, (uint64_t) entry->success << 8 | (uint64_t) entry->claim);
	if (f->now >= f->stats_from_us && entry->success)
	{
		if (f->ntook == f->took_size)
			f->took = sim_grow(f->took, &f->took_size, sizeof(int64_t));
		f->took[f->ntook++] = f->now - entry->begun_us;
	}
	leave_lines(f, which);
	c->call = -1;
	c->on_change = false;
	client_schedule(f, which, f->now + c->think_us);
}

static void
fail(Fleet *f, int which, InferExecution claim)
{
	Entry *entry = &f->ledger[f->clients[which].call];

	entry->claim = claim;
	finish(f, which);
}

/* --- Attempts --- */

static int
new_attempt(Fleet *f, int which, int place, InferAttemptKind kind)
{
	Client *c = &f->clients[which];

	if (f->nattempts == f->attempts_size)
		f->attempts = sim_grow(f->attempts, &f->attempts_size, sizeof(Attempt));
	f->attempts[f->nattempts] = (Attempt){.client = which,
										  .call = c->call,
										  .machine = c->places[place],
										  .place = place,
										  .kind = kind,
										  .set_version = c->set_version,
										  .next = -1,
										  .lag_next = -1};
	c->running[kind == INFER_ATTEMPT_COPY] = f->nattempts;
	return f->nattempts++;
}

static void
see_stages(Fleet *f, const InferStages *before, const InferStages *now)
{
	f->seen[SOMETIMES_STAGE_1] += now->stage1 > before->stage1;
	f->seen[SOMETIMES_STAGE_2] += now->stage2 > before->stage2;
	f->seen[SOMETIMES_ROUND] += now->rounds > 0;
}

/* When a copy of it is due. */
static void
plan_copy(Fleet *f, int attempt, const InferRoutePlace *places)
{
	Attempt *a = &f->attempts[attempt];
	Client *c = &f->clients[a->client];
	bool permitted = f->ledger[a->call].hedges || f->mutation == FLEET_COPIES_ANYTHING;
	int order[INFER_ROUTE_MAX_PLACES];
	int64_t first_us = (int64_t) places[a->place].latency_us;
	int64_t delay_us;

	if (infer_stages_copies(&c->stages, &f->decision, order) == 0)
		return;
	delay_us = infer_hedge_delay_us(&f->hedge, a->kind, permitted, first_us,
									(int64_t) places[order[0]].latency_us, f->hedge_base_us);
	if (delay_us == INFER_HEDGE_NEVER)
		return;
	f->seen[SOMETIMES_COPY_AT_ONCE] += delay_us == 0;
	fleet_at(f, f->now + delay_us, FLEET_HEDGE, attempt);
}

static void
send_first_or_retry(Fleet *f, int which, int place, const InferPermit *permit,
					const InferRoutePlace *places)
{
	Client *c = &f->clients[which];
	InferStages before = c->stages;
	int attempt = new_attempt(f, which, place,
							  before.attempts == 0 ? INFER_ATTEMPT_FIRST : INFER_ATTEMPT_RETRY);

	f->seen[SOMETIMES_AMBIGUOUS_RETRY] += f->ledger[c->call].ambiguous;
	f->seen[SOMETIMES_KEY_REPEATED] += before.by_key;
	f->seen[SOMETIMES_PROBE] += f->step.probe;
	f->ledger[c->call].primaries++;
	slot_send(f, attempt, permit);
	infer_stages_started(&c->stages, places, place, false);
	see_stages(f, &before, &c->stages);
	plan_copy(f, attempt, places);
	leave_lines(f, which);
}

/* A copy is due. Where to is chosen now. */
void
client_hedge(Fleet *f, int attempt)
{
	Attempt *a = &f->attempts[attempt];
	Client *c = &f->clients[a->client];
	InferRoutePlace places[FLEET_SERVERS];
	bool refused[FLEET_SERVERS] = {false};
	int order[INFER_ROUTE_MAX_PLACES];
	InferPermit permit;
	int n;

	if (a->heard || a->lagging || !c->alive)
		return;
	slot_describe(f, c, places);
	infer_route_decide(&c->request, places, c->nplaces, f->now, random_unit(&f->random),
					   &f->decision);
	n = infer_stages_copies(&c->stages, &f->decision, order);
	if (n == 0)
		return;
	if (!infer_hedge_take(&f->hedge, true))
	{
		f->seen[SOMETIMES_COPY_DENIED]++;
		if (f->mutation != FLEET_NO_BUDGET)
			return;
	}
	for (int i = 0; i < n; i++)
	{
		int machine = c->places[order[i]];
		int copy;

		if (slot_take(f, machine, a->client, false, &permit) <= 0)
			continue;
		check_start(f, c, places, order[i], INFER_ATTEMPT_COPY, refused, false);
		copy = new_attempt(f, a->client, order[i], INFER_ATTEMPT_COPY);
		f->attempts[attempt].copied = true;
		f->seen[SOMETIMES_COPY]++;
		f->ledger[c->call].copies++;
		slot_send(f, copy, &permit);
		infer_stages_started(&c->stages, places, order[i], true);
		return;
	}
	infer_hedge_untake(&f->hedge);
}

/* --- Looking --- */

/* Is a server that the call may go to known to be another one than is wanted? */
static bool
is_stale(const Fleet *f, const Client *c)
{
	int known = f->slots[c->places[0]].incarnation;

	return c->wanted_incarnation != 0 && known != 0 && known != c->wanted_incarnation &&
		   f->mutation != FLEET_ANY_INCARNATION;
}

/* The first in order that grants a permit; else it is in all their lines. False: it was sent, or
 * the step has to be looked for anew. */
static bool
try_to_send(Fleet *f, int which, const InferRoutePlace *places)
{
	Client *c = &f->clients[which];
	bool refused[FLEET_SERVERS] = {false};
	bool waits[FLEET_SERVERS] = {false};
	bool any_line = false;
	InferPermit permit;

	for (int i = 0; i < f->step.n_order; i++)
	{
		int place = f->step.order[i];
		int machine = c->places[place];
		int granted = slot_take(f, machine, which, true, &permit);

		if (granted > 0)
		{
			check_start(f, c, places, place, INFER_ATTEMPT_FIRST, refused, f->step.probe);
			send_first_or_retry(f, which, place, &permit, places);
			return false;
		}
		refused[place] = true;
		waits[machine] = granted == 0;
		any_line |= granted == 0;
	}
	if (!any_line)
	{
		/* all of them have been failing for too long to be waited for */
		InferStagesOutcome outcome = {.finding = {.reason = INFER_REASON_SERVER_FAILED}};
		int place = f->step.order[0];

		f->ledger[c->call].primaries++;
		infer_stages_started(&c->stages, places, place, false);
		infer_stages_ended(&c->stages, &c->rule, place, &outcome, f->now);
		f->ledger[c->call].failed = true;
		client_schedule(f, which, f->now);
		return false;
	}
	for (int i = 0; i < f->nmachines; i++)
		if (!waits[i])
			slot_leave(f, i, which);
	return true;
}

static void
look(Fleet *f, int which)
{
	Client *c = &f->clients[which];
	InferRoutePlace places[FLEET_SERVERS];
	int64_t alarm;

	slot_describe(f, c, places);
	if (is_stale(f, c))
	{
		f->seen[SOMETIMES_STALE_BEFORE]++;
		fail(f, which, infer_stages_execution(&c->stages));
		return;
	}
	infer_stages_next(&c->stages, &c->rule, &c->request, places, c->nplaces, f->now,
					  random_unit(&f->random), &f->decision, &f->step);
	if (f->step.probe && f->mutation == FLEET_NO_PROBE)
		f->step.action = INFER_STAGES_END;
	c->on_change = false;
	switch (f->step.action)
	{
		case INFER_STAGES_HOLD:
			break;
		case INFER_STAGES_END:
			f->seen[SOMETIMES_ALL_FAILED] += f->decision.cause == INFER_CAUSE_ALL_FAILED;
			f->seen[SOMETIMES_STALE_SET] += f->decision.cause == INFER_CAUSE_STALE;
			fail(f, which, infer_stages_execution(&c->stages));
			break;
		case INFER_STAGES_WAIT:
			leave_lines(f, which);
			c->on_change = f->step.on_change;
			client_schedule(f, which, f->step.until_us);
			break;
		case INFER_STAGES_SEND:
			if (!try_to_send(f, which, places))
				break;
			alarm = slot_alarm(f, which);
			if (alarm > f->now + BACKSTOP_US)
				alarm = f->now + BACKSTOP_US;
			client_schedule(f, which, alarm);
			break;
	}
}

void
client_look(Fleet *f, int which)
{
	Client *c = &f->clients[which];

	if (f->now != c->look_us)
		return; /* an earlier look has been asked for since */
	c->look_us = INT64_MAX;
	if (!c->alive)
		return;
	if (c->call < 0)
	{
		if (f->now >= f->stop_us || c->calls_left == 0)
			return;
		begin(f, which);
	}
	if (c->running[0] < 0 && c->running[1] < 0)
		look(f, which);
}

/* --- Answers --- */

static void
forget_running(Fleet *f, const Attempt *a)
{
	f->clients[a->client].running[a->kind == INFER_ATTEMPT_COPY] = -1;
}

static void
unlink_lagging(Fleet *f, int attempt)
{
	int *link = &f->lagging_first;
	int previous = -1;

	while (*link != attempt)
	{
		previous = *link;
		link = &f->attempts[previous].lag_next;
	}
	*link = f->attempts[attempt].lag_next;
	if (f->lagging_last == attempt)
		f->lagging_last = previous;
	f->lagging--;
}

/* Nobody waits for it any more. */
static void
give_up(Fleet *f, int attempt)
{
	Attempt *a = &f->attempts[attempt];

	a->heard = true;
	slot_given_up(f, attempt);
}

void
client_evict(Fleet *f, int attempt)
{
	if (f->attempts[attempt].heard || f->mutation == FLEET_LAGS_FOR_EVER)
		return;
	unlink_lagging(f, attempt);
	f->seen[SOMETIMES_EVICTED]++;
	give_up(f, attempt);
}

/* The call has a result, this one is still under way: what it takes is worth knowing. */
static void
lag(Fleet *f, int attempt)
{
	Attempt *a = &f->attempts[attempt];

	forget_running(f, a);
	a->lagging = true;
	if (f->lagging_last >= 0)
		f->attempts[f->lagging_last].lag_next = attempt;
	else
		f->lagging_first = attempt;
	f->lagging_last = attempt;
	f->lagging++;
	fleet_at(f, f->now + f->lagging_us, FLEET_EVICT, attempt);
	while (f->lagging > f->lagging_most && f->mutation != FLEET_LAGS_FOR_EVER)
		client_evict(f, f->lagging_first);
}

static void
succeed(Fleet *f, const Attempt *a)
{
	Client *c = &f->clients[a->client];
	Entry *entry = &f->ledger[a->call];

	entry->success = true;
	entry->wrong = c->wanted_incarnation != 0 && a->incarnation != c->wanted_incarnation;
	c->last_node = fleet_nodes[f->machines[a->machine].node];
	f->seen[SOMETIMES_SUCCESS]++;
	f->seen[SOMETIMES_PROBE_SUCCESS] += c->stages.probed;
	f->seen[SOMETIMES_COPY_WINS] += a->kind == INFER_ATTEMPT_COPY;
	f->seen[SOMETIMES_BLOCKED_COPY_WINS] += entry->ambiguous && c->stages.blocked;
	for (int i = 0; i < 2; i++)
		if (c->running[i] >= 0)
			lag(f, c->running[i]);
	finish(f, a->client);
}

static void
disappoint(Fleet *f, const Attempt *a, const InferFinding *finding)
{
	Client *c = &f->clients[a->client];
	Entry *entry = &f->ledger[a->call];
	InferStagesOutcome outcome = {.finding = *finding,
								  .declined = a->loading,
								  .key_honoured = entry->keyed && f->machines[a->machine].honours,
								  .retry_after_us = a->retry_after_us};

	entry->failed = true;
	if (finding->execution != INFER_NOT_ADMITTED)
	{
		entry->ambiguous = true;
		entry->kept_by |= outcome.key_honoured ? 1u << a->machine : 0;
		entry->forgotten |= !outcome.key_honoured;
	}
	if (outcome.key_honoured && f->mutation == FLEET_KEYS_TRAVEL)
		c->rule.retry.policy = INFER_RETRY_AMBIGUOUS;
	infer_stages_ended(&c->stages, &c->rule, a->place, &outcome, f->now);
	f->seen[SOMETIMES_BLOCKED] += entry->ambiguous && c->stages.blocked;
	client_schedule(f, a->client, f->now);
}

static void
landed(Fleet *f, int attempt)
{
	Attempt a;
	InferFinding finding;
	bool late = f->attempts[attempt].lagging;
	bool success;

	f->attempts[attempt].heard = true;
	finding = slot_landed(f, attempt);
	a = f->attempts[attempt];
	success = finding.reason == INFER_REASON_NONE;
	check_landing(f, &f->attempts[attempt], &finding);
	infer_hedge_landed(&f->hedge, a.kind, a.copied && f->mutation != FLEET_LATE_EARNS,
					   late && f->mutation != FLEET_LATE_EARNS, success && !late);
	if (late)
	{
		unlink_lagging(f, attempt);
		f->seen[SOMETIMES_LATE]++;
		return;
	}
	forget_running(f, &a);
	if (success && f->clients[a.client].wanted_incarnation != 0 &&
		a.incarnation != f->clients[a.client].wanted_incarnation &&
		f->mutation != FLEET_ANY_INCARNATION)
	{
		f->seen[SOMETIMES_STALE_AFTER]++;
		finding = (InferFinding){.reason = INFER_REASON_MISALIGNED, .execution = INFER_EXECUTED};
		success = false;
	}
	if (success)
		succeed(f, &a);
	else
		disappoint(f, &a, &finding);
}

void
client_reply(Fleet *f, int attempt)
{
	if (!f->attempts[attempt].heard)
		landed(f, attempt);
}

void
client_timeout(Fleet *f, int attempt)
{
	Attempt *a = &f->attempts[attempt];

	if (a->heard)
		return;
	a->wire = (InferWire){.end = INFER_WIRE_TIMEOUT, .left = true, .request_complete = true};
	landed(f, attempt);
}

/* --- From outside --- */

void
client_cancel(Fleet *f, int call)
{
	InferExecution claim;
	int which = 0;
	Client *c;

	while (which < f->nclients && f->clients[which].call != call)
		which++;
	if (which == f->nclients)
		return; /* it has ended */
	c = &f->clients[which];
	claim = infer_stages_execution(&c->stages);
	for (int i = 0; i < 2; i++)
	{
		if (c->running[i] >= 0)
			give_up(f, c->running[i]);
		c->running[i] = -1;
	}
	f->ledger[call].cancelled = true;
	f->seen[SOMETIMES_CANCELLED]++;
	fail(f, which, claim);
}

void
client_kill(Fleet *f, int which, int64_t back_us)
{
	Client *c = &f->clients[which];

	if (!c->alive)
		return;
	for (int i = f->lagging_first, next; i >= 0; i = next)
	{
		next = f->attempts[i].lag_next;
		if (f->attempts[i].client == which)
			unlink_lagging(f, i);
	}
	slot_process_gone(f, which);
	if (c->call >= 0)
	{
		f->ledger[c->call].cancelled = true;
		f->ledger[c->call].claim = infer_stages_execution(&c->stages);
		f->ledger[c->call].ended_us = f->now;
	}
	c->alive = false;
	c->call = -1;
	c->on_change = false;
	c->running[0] = c->running[1] = -1;
	f->seen[SOMETIMES_KILLED]++;
	fleet_script(f, f->now + back_us, FLEET_REVIVE, which, 0);
}
