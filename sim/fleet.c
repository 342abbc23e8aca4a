/*
 * sim/fleet.c - the fleet's clock, and what happens to it from outside.
 */
#include "fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_EVENTS 4000000

const char *const fleet_nodes[FLEET_NODES] = {"a", "b", "c", "d"};

const char *const fleet_sometimes_names[SOMETIMES_COUNT] = {
	[SOMETIMES_SUCCESS] = "success",
	[SOMETIMES_STAGE_1] = "stage 1",
	[SOMETIMES_STAGE_2] = "stage 2",
	[SOMETIMES_ROUND] = "another round",
	[SOMETIMES_EXCLUDED] = "excluded",
	[SOMETIMES_EXCLUDED_USED] = "excluded, and used for want of another",
	[SOMETIMES_SPILL] = "spill to another node",
	[SOMETIMES_FAILED_ADDRESS] = "failed address",
	[SOMETIMES_PROBE] = "probe after all failed",
	[SOMETIMES_PROBE_SUCCESS] = "probe that finds it well",
	[SOMETIMES_ALL_FAILED] = "all failed",
	[SOMETIMES_DEAD] = "a server without the model",
	[SOMETIMES_STALE_SET] = "no server with the model",
	[SOMETIMES_AMBIGUOUS_RETRY] = "retry of what may have been executed",
	[SOMETIMES_EXECUTED_TWICE] = "executed twice",
	[SOMETIMES_KEY_REPEATED] = "retry for its key alone",
	[SOMETIMES_KEY_KNOWN] = "known by its key, and not executed again",
	[SOMETIMES_BLOCKED] = "blocked by ambiguity",
	[SOMETIMES_BLOCKED_COPY_WINS] = "blocked, and the copy wins",
	[SOMETIMES_COPY] = "copy",
	[SOMETIMES_COPY_AT_ONCE] = "copy at once",
	[SOMETIMES_COPY_WINS] = "copy that wins",
	[SOMETIMES_COPY_DENIED] = "copy denied",
	[SOMETIMES_LATE] = "late loser",
	[SOMETIMES_EVICTED] = "late loser given up",
	[SOMETIMES_RENEWAL] = "another incarnation",
	[SOMETIMES_STALE_BEFORE] = "stale before it left",
	[SOMETIMES_STALE_AFTER] = "stale by its answer",
	[SOMETIMES_BEHIND] = "behind",
	[SOMETIMES_COOLDOWN] = "cooldown",
	[SOMETIMES_DIAL_WAITS] = "dial that waits",
	[SOMETIMES_CANCELLED] = "cancelled",
	[SOMETIMES_KILLED] = "process killed",
	[SOMETIMES_LIE] = "a server that says it is well, and fails",
	[SOMETIMES_GLOOM] = "a server that says it is not ready, and is",
	[SOMETIMES_SLOW] = "an answer of a server that has slowed down",
	[SOMETIMES_FLAP] = "down again within a second",
};

const char *const fleet_mutation_names[FLEET_MUTATIONS] = {
	[FLEET_SOUND] = "none",
	[FLEET_RETRIES_ANYTHING] = "retries whatever is permitted",
	[FLEET_DROPS_KEPT] = "no release of what is given up",
	[FLEET_NO_BUDGET] = "copies without a budget",
	[FLEET_COPIES_ANYTHING] = "copies of what forbids them",
	[FLEET_NO_PROBE] = "no probe after all failed",
	[FLEET_ANY_INCARNATION] = "any incarnation for a reference",
	[FLEET_LEARNS_NOTHING] = "an incarnation inherits",
	[FLEET_LAGS_FOR_EVER] = "late losers without a bound",
	[FLEET_LATE_EARNS] = "late losers earn",
	[FLEET_KEYS_TRAVEL] = "any server for a key that one knows",
};

Fleet *
fleet_new(uint64_t seed)
{
	Fleet *f = sim_new(sizeof(Fleet));

	f->random.state = seed;
	f->now = SECOND;
	f->digest = 0xcbf29ce484222325u;
	f->lagging_first = f->lagging_last = -1;
	infer_hedge_init(&f->hedge);
	f->config = sim_config();
	f->rule = (InferStagesRule){.retry = {.delivery = INFER_DELIVERY_SINGLE,
										  .policy = INFER_RETRY_NOT_ADMITTED,
										  .max_attempts = 4},
								.stage1_retries = 2,
								.stage2_retries = 2,
								.all_failed_wait_us = SECOND};
	f->timeout_us = 20 * SECOND;
	f->connect_timeout_us = SECOND;
	f->hedge_base_us = 50 * MS;
	f->lagging_most = 4;
	f->lagging_us = 10 * SECOND;
	f->healed_us = f->settled_us = f->stop_us = INT64_MAX;
	return f;
}

void
fleet_free(Fleet *f)
{
	events_free(&f->events);
	free(f->attempts);
	free(f->ledger);
	free(f->script);
	free(f->took);
	free(f);
}

int
fleet_machine(Fleet *f, int node)
{
	f->machines[f->nmachines] = (Machine){.node = node,
										  .slots = 32,
										  .queue = -1,
										  .base_us = 100 * MS,
										  .net_us = 100,
										  .up = true,
										  .slow = 1,
										  .incarnation = 1 + f->nmachines * 1000,
										  .head = -1,
										  .tail = -1};
	return f->nmachines++;
}

int
fleet_client(Fleet *f, int64_t calls, int64_t think_us)
{
	f->clients[f->nclients] = (Client){.alive = true,
									   .call = -1,
									   .running = {-1, -1},
									   .look_us = INT64_MAX,
									   .calls_left = calls,
									   .think_us = think_us,
									   .last_node = ""};
	return f->nclients++;
}

void
fleet_begin(Fleet *f)
{
	bool tell;

	for (int i = 0; i < f->nmachines; i++)
	{
		infer_queue_init(&f->slots[i].queue);
		infer_admission_configure(&f->slots[i].admission, FLEET_CLIENTS, &f->config,
								  &(InferConfigurer){0}, f->now, &tell);
		if (f->gateway)
			fleet_at(f, f->now + random_below(&f->random, 5000) * MS, FLEET_PROBE, i);
	}
	for (int i = 0; i < f->nclients; i++)
		client_schedule(f, i, f->now + random_below(&f->random, 100) * MS);
}

void
fleet_at(Fleet *f, int64_t at, FleetEvent kind, int which)
{
	events_add(&f->events, (Event){.at = at, .kind = kind, .which = which});
}

void
fleet_script(Fleet *f, int64_t at, FleetScriptKind kind, int a, int64_t b)
{
	if (f->nscript == f->script_size)
		f->script = sim_grow(f->script, &f->script_size, sizeof(FleetScript));
	f->script[f->nscript] = (FleetScript){.kind = kind, .a = a, .b = b};
	fleet_at(f, at, FLEET_SCRIPT, f->nscript++);
}

void
fleet_digest(Fleet *f, uint64_t what)
{
	f->digest = (f->digest ^ what) * 0x100000001b3u;
}

/* Well, and large enough for all: nothing has a reason to fail any more. */
static void
heal(Fleet *f)
{
	for (int i = 0; i < f->nmachines; i++)
	{
		Machine *m = &f->machines[i];

		if (!m->up)
			machine_boot(f, i, 0);
		m->silent = m->broken = m->gloomy = m->amnesic = false;
		m->slow = 1;
		m->loading_until_us = 0;
		m->sigma = 0; /* no answer takes longer than its timeout */
		m->queue = -1;
		m->slots += f->nclients;
	}
	f->set_version++;
}

static void
play(Fleet *f, const FleetScript *script)
{
	Machine *m = &f->machines[script->a % FLEET_SERVERS]; /* where it is one */

	/* what is healed stays so */
	if (f->now > f->healed_us && script->kind != FLEET_REVIVE)
		return;
	switch (script->kind)
	{
		case FLEET_CRASH:
			machine_crash(f, script->a);
			break;
		case FLEET_BOOT:
			machine_boot(f, script->a, script->b);
			break;
		case FLEET_SILENT:
			m->silent = script->b != 0;
			break;
		case FLEET_BROKEN:
			m->broken = script->b != 0;
			break;
		case FLEET_GLOOMY:
			m->gloomy = script->b != 0;
			break;
		case FLEET_AMNESIC:
			m->amnesic = script->b != 0;
			break;
		case FLEET_SLOW:
			m->slow = (double) script->b / 100;
			break;
		case FLEET_KILL:
			client_kill(f, script->a, script->b);
			break;
		case FLEET_REVIVE:
			f->clients[script->a].alive = true;
			client_schedule(f, script->a, f->now);
			break;
		case FLEET_HEAL:
			heal(f);
			break;
	}
}

static void
happen(Fleet *f, const Event *event)
{
	switch ((FleetEvent) event->kind)
	{
		case FLEET_LOOK:
			client_look(f, event->which);
			break;
		case FLEET_ARRIVE:
			machine_arrive(f, event->which);
			break;
		case FLEET_SERVED:
			machine_served(f, event->which);
			break;
		case FLEET_REPLY:
			client_reply(f, event->which);
			break;
		case FLEET_TIMEOUT:
			client_timeout(f, event->which);
			break;
		case FLEET_HEDGE:
			client_hedge(f, event->which);
			break;
		case FLEET_EVICT:
			client_evict(f, event->which);
			break;
		case FLEET_CANCEL:
			client_cancel(f, event->which);
			break;
		case FLEET_PROBE:
			slot_probe(f, event->which);
			break;
		case FLEET_PROBED:
			slot_probed(f, event->which);
			break;
		case FLEET_SCRIPT:
			play(f, &f->script[event->which]);
			break;
	}
}

void
fleet_run(Fleet *f, int64_t until)
{
	while (f->events.n > 0 && f->events.heap[0].at <= until &&
		   !(f->stops_at_violation && f->violations > 0))
	{
		Event event = events_next(&f->events);

		f->now = event.at;
		if (++f->events_done > MAX_EVENTS)
		{
			fleet_violation(f, "it does not end: %d events at %lld", f->events.n,
							(long long) f->now);
			return;
		}
		fleet_digest(f, (uint64_t) event.at);
		fleet_digest(f, (uint64_t) event.kind << 32 | (uint64_t) event.which);
		happen(f, &event);
		check_fleet(f);
	}
}
