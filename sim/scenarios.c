/*
 * sim/scenarios.c - the worlds.  What they must show is in test_scenarios.c.
 */
#include "scenarios.h"

#include <stdio.h>
#include <string.h>

World *last_world;

static World *
begin(const Variant *v)
{
	World *w = world_new(v->seed + 1);

	w->config.limiter.rules &= ~v->without;
	w->window_means = (v->without & INFER_RULE_MEANS) == 0;
	if (v->without & INFER_RULE_FLOOR16)
		w->window_floor = 1;
	w->server.sigma = v->jitter;
	w->knows_left = !v->blind;
	if (v->never_cools)
		w->config.monitor.threshold = 0;
	/* no two machines are alike */
	w->server.net_us = 50 + random_below(&w->random, 400);
	w->turn_us = 20 + random_below(&w->random, 30);
	if (v->curves)
		w->sample_us = 10 * MS;
	return w;
}

static Result
finish(World *w, const Variant *v, Result result)
{
	const Server *s = &w->server;

	result.refused = s->served > 0 ? (double) s->refused / s->served : 0;
	if (result.peak == 0)
		result.peak = s->peak;
	result.limit = w->instances[0].admission.limiter.window;
	result.violations = w->violations;
	memcpy(result.first_violation, w->first_violation, sizeof(result.first_violation));
	if (v->curves)
		last_world = w;
	else
		world_free(w);
	return result;
}

static double
seconds(const Session *s)
{
	return (double) (s->ended_us - s->begun_us) / SECOND;
}

/* One statement over so many rows, alone, after another one if that is what is asked. */
static Result
statement(World *w, int64_t rows, double ideal, const Variant *v)
{
	Result result = {0};
	int session;

	instance_new(w);
	session = session_new(w, 0, rows, INFER_PRIORITY_NORMAL, w->now);
	world_run(w, INT64_MAX);
	if (v->warm)
	{
		if (v->forgets)
			instance_forget(w, 0);
		session = session_new(w, 0, rows, INFER_PRIORITY_NORMAL, w->now + SECOND);
		world_run(w, INT64_MAX);
	}
	check_end(w);
	result.seconds = seconds(&w->sessions[session]);
	result.ratio = ideal / result.seconds;
	return finish(w, v, result);
}

Result
job_J2(int64_t rows, const Variant *v)
{
	World *w = begin(v);

	return statement(w, rows, (double) rows * 0.1 / 64, v);
}

Result
job_J3(const Variant *v)
{
	World *w = begin(v);

	w->server.queue = 16;
	w->server.change_after = 1000;
	w->server.change_slots = 8;
	w->server.change_queue = 8;
	return statement(w, 2000, 13.3625, v);
}

Result
job_J6(int64_t rows, const Variant *v)
{
	World *w = begin(v);

	w->server.slots = 256;
	w->server.queue = 0;
	return statement(w, rows, (double) rows * 0.1 / 256, v);
}

Result
after_a_short_one(int64_t rows, int slots, const Variant *v)
{
	World *w = begin(v);
	Result result = {0};
	int session;

	w->server.slots = slots;
	w->server.queue = 0;
	instance_new(w);
	session_new(w, 0, 500, INFER_PRIORITY_NORMAL, w->now);
	world_run(w, INT64_MAX);
	session = session_new(w, 0, rows, INFER_PRIORITY_NORMAL, w->now + SECOND);
	world_run(w, INT64_MAX);
	check_end(w);
	result.seconds = seconds(&w->sessions[session]);
	result.ratio = (double) rows * 0.1 / slots / result.seconds;
	return finish(w, v, result);
}

/* J4: the session's own work is all there is. */
Result
job_no_latency(const Variant *v)
{
	World *w = begin(v);

	w->server.base_us = 1;
	w->server.net_us = 20;
	return statement(w, 20000, 20000.0 * 2 * (double) w->turn_us / SECOND, v);
}

/* From then on. */
static void
use_from_now(World *w)
{
	server_account(w);
	w->server.busy_us = w->server.slots_us = 0;
}

Result
recovery(int from, int queue, const Variant *v)
{
	World *w = begin(v);
	Result result = {0};

	w->server.slots = from;
	w->server.queue = queue;
	world_script(w, w->now + 20 * SECOND, SCRIPT_SLOTS, 64, queue);
	instance_new(w);
	session_new(w, 0, 1000000, INFER_PRIORITY_NORMAL, w->now);
	world_run(w, w->now + 30 * SECOND);
	use_from_now(w);
	world_run(w, w->now + 5 * SECOND);
	result.use = server_use(w);
	return finish(w, v, result);
}

/* (sum x)^2 / (n sum x^2) of the rows done since then. */
static double
jain(const World *w, const int64_t *before)
{
	double sum = 0;
	double squares = 0;

	for (int i = 0; i < w->nsessions; i++)
	{
		double x = (double) (w->sessions[i].rows_done - before[i]);

		sum += x;
		squares += x * x;
	}
	return squares > 0 ? sum * sum / (w->nsessions * squares) : 0;
}

Result
several_instances(int n, int queue, const Variant *v)
{
	World *w = begin(v);
	Result result = {0};
	int64_t before[MAX_INSTANCES];

	w->server.queue = queue;
	for (int i = 0; i < n; i++)
	{
		instance_new(w);
		session_new(w, i, 1000000, INFER_PRIORITY_NORMAL, w->now + i * 3 * SECOND);
	}
	world_run(w, w->now + 30 * SECOND);
	for (int i = 0; i < n; i++)
		before[i] = w->sessions[i].rows_done;
	use_from_now(w);
	world_run(w, w->now + 60 * SECOND);
	result.use = server_use(w);
	result.jain = jain(w, before);
	return finish(w, v, result);
}

/* 50 sessions with 1,000 rows each; the server has as many slots as its owner says. */
Result
many_sessions(const Variant *v)
{
	World *w = begin(v);
	Result result = {0};
	int64_t before[50] = {0};

	w->server.queue = 0;
	w->config.limiter.ceiling = 64;
	instance_new(w);
	for (int i = 0; i < 50; i++)
		session_new(w, 0, 1000, INFER_PRIORITY_NORMAL, w->now);
	world_run(w, w->now + 5 * SECOND);
	use_from_now(w);
	world_run(w, w->now + 60 * SECOND);
	result.use = server_use(w);
	result.jain = jain(w, before);
	world_run(w, INT64_MAX);
	check_end(w);
	return finish(w, v, result);
}

Result
one_high_among_low(const Variant *v)
{
	World *w = begin(v);
	Result result = {0};
	int high;

	w->server.queue = 0;
	w->config.limiter.ceiling = 64;
	instance_new(w);
	for (int i = 0; i < 50; i++)
		session_new(w, 0, 200, INFER_PRIORITY_LOW, w->now);
	high = session_new(w, 0, 200, INFER_PRIORITY_HIGH, w->now + 3 * SECOND);
	world_run(w, INT64_MAX);
	check_end(w);
	result.longest_wait_s = (double) w->sessions[high].longest_wait_us / SECOND;
	result.seconds = seconds(&w->sessions[high]);
	return finish(w, v, result);
}

/* One row at a time for long, then many: is the limit still one that has been tried? */
Result
trickle_then_burst(const Variant *v)
{
	World *w = begin(v);
	Result result = {0};

	w->server.queue = 0;
	w->server.slots = 32;
	w->server.base_us = 5 * MS;
	w->window_max = 1;
	instance_new(w);
	session_new(w, 0, 5000, INFER_PRIORITY_NORMAL, w->now);
	world_run(w, INT64_MAX);
	w->window_max = 1024;
	session_new(w, 0, 500, INFER_PRIORITY_NORMAL, w->now + SECOND);
	world_run(w, INT64_MAX);
	check_end(w);
	return finish(w, v, result);
}

/* Refused for two seconds; how much of the server is used ten seconds later? */
Result
after_a_storm(const Variant *v)
{
	World *w = begin(v);
	Result result = {0};

	world_script(w, w->now + 5 * SECOND, SCRIPT_STORM, 1, 0);
	world_script(w, w->now + 7 * SECOND, SCRIPT_STORM, 0, 0);
	instance_new(w);
	session_new(w, 0, 1000000, INFER_PRIORITY_NORMAL, w->now);
	world_run(w, w->now + 20 * SECOND);
	use_from_now(w);
	world_run(w, w->now + 5 * SECOND);
	result.use = server_use(w);
	return finish(w, v, result);
}

/* Eight slots, no queue: refusals are a part of life. */
Result
small_server(const Variant *v)
{
	World *w = begin(v);

	w->server.slots = 8;
	w->server.queue = 0;
	return statement(w, 1000, 12.5, v);
}

Result
requests_per_minute(const Variant *v)
{
	World *w = begin(v);
	Result result = {0};

	w->config.rpm = 60;
	w->server.rpm = 60;
	instance_new(w);
	for (int i = 0; i < 8; i++)
		session_new(w, 0, 75, INFER_PRIORITY_NORMAL, w->now + random_below(&w->random, 1000) * MS);
	world_run(w, w->now + 605 * SECOND);
	result.use = w->server.served / 600.0;
	world_run(w, INT64_MAX);
	check_end(w);
	result.peak = w->server.most_a_minute;
	return finish(w, v, result);
}

static Result
failing(World *w, const Variant *v)
{
	Result result = {.failed = w->server.failed, .dials = w->server.dials};
	int64_t last = 0;

	check_end(w);
	for (int i = 0; i < w->nsessions; i++)
	{
		const Session *s = &w->sessions[i];

		result.given_up += s->rows_failed;
		last = s->ended_us > last ? s->ended_us : last;
	}
	result.seconds = (double) (last - SECOND) / SECOND; /* worlds begin at one second */
	return finish(w, v, result);
}

/* Nobody ever gets an answer. */
Result
dead_server(int sessions, int64_t patience_s, const Variant *v)
{
	World *w = begin(v);

	w->server.broken = true;
	w->patience_us = patience_s * SECOND;
	instance_new(w);
	for (int i = 0; i < sessions; i++)
		session_new(w, 0, 100, INFER_PRIORITY_NORMAL, w->now + random_below(&w->random, 1000) * MS);
	world_run(w, w->now + 120 * SECOND);
	return failing(w, v);
}

/* Broken in the midst of the work; patience is longer than that lasts. */
Result
outage(int sessions, int for_s, const Variant *v)
{
	World *w = begin(v);

	w->patience_us = 60 * SECOND;
	world_script(w, w->now + 5 * SECOND, SCRIPT_BREAK, 1, 0);
	world_script(w, w->now + 5 * SECOND, SCRIPT_FAIL, 0, 0);
	world_script(w, w->now + (5 + for_s) * SECOND, SCRIPT_BREAK, 0, 0);
	instance_new(w);
	for (int i = 0; i < sessions; i++)
		session_new(w, 0, 8000 / sessions, INFER_PRIORITY_NORMAL, w->now);
	world_run(w, INT64_MAX);
	return failing(w, v);
}

Result
dead_host(int sessions, int for_ms, const Variant *v)
{
	World *w = begin(v);

	w->server.dead = true;
	w->config.monitor.threshold = 0;
	world_script(w, w->now + for_ms * MS, SCRIPT_DEAD, 0, 0);
	instance_new(w);
	for (int i = 0; i < sessions; i++)
		session_new(w, 0, 100, INFER_PRIORITY_NORMAL, w->now + random_below(&w->random, 100) * MS);
	world_run(w, INT64_MAX);
	return failing(w, v);
}

/* --- Random worlds --- */

static void
random_server(World *w, Random *r)
{
	Server *s = &w->server;

	s->slots = 1 + random_below(r, 80);
	s->queue = random_below(r, 3) == 0 ? -1 : random_below(r, 2) * random_below(r, 40);
	s->base_us = 1000.0 + random_unit(r) * random_unit(r) * 300000;
	s->sigma = random_below(r, 2) * random_unit(r) * 0.7;
	s->net_us = 50 + random_below(r, 5000);
	s->retry_after_us = random_below(r, 3) == 0 ? -1 : (1 + random_below(r, 30)) * 100 * MS;
}

static void
random_script(World *w, Random *r, bool *pauses)
{
	int n = random_below(r, 12);

	if (random_below(r, 3) == 0)
	{
		int64_t at = w->now + random_below(r, 5000) * MS;

		w->patience_us = random_below(r, 2) == 0 ? random_below(r, 60) * SECOND : INT64_MAX;
		world_script(w, at, SCRIPT_BREAK, 1, 0);
		world_script(w, at + random_below(r, 40000) * MS, SCRIPT_BREAK, 0, 0);
	}
	if (random_below(r, 4) == 0)
	{
		int64_t at = w->now + random_below(r, 5000) * MS;

		for (int i = random_below(r, 3); i >= 0; i--)
		{
			world_script(w, at, SCRIPT_DEAD, 1, 0);
			at += random_below(r, 10000) * MS;
			world_script(w, at, SCRIPT_DEAD, 0, 0);
			at += random_below(r, 3000) * MS;
		}
	}

	for (int i = 0; i < n; i++)
	{
		int64_t at = w->now + random_below(r, 10000) * MS;
		int session = random_below(r, w->nsessions);

		switch (random_below(r, 6))
		{
			case 0:
				world_script(w, at, SCRIPT_SLOTS, 1 + random_below(r, 80), w->server.queue);
				break;
			case 1:
				world_script(w, at, SCRIPT_STORM, 1, 0);
				world_script(w, at + random_below(r, 4000) * MS, SCRIPT_STORM, 0, 0);
				break;
			case 2:
				world_script(w, at, SCRIPT_FAIL, random_below(r, 3000) * MS, 0);
				break;
			case 3:
				world_script(w, at, SCRIPT_LEAVE, session, 0);
				break;
			case 4:
				world_script(w, at, SCRIPT_PAUSE, session, random_below(r, 3000) * MS);
				*pauses = true;
				break;
			default:
				world_script(w, at, SCRIPT_CRASH, session, random_below(r, 2000) * MS);
		}
	}
}

World *
random_world(uint64_t seed, Mutation mutation)
{
	World *w = world_new(seed);
	Random *r = &w->random;
	int ninstances = 1 + random_below(r, 3) / 2;
	int64_t rows = 200 + random_below(r, 2500);
	bool pauses = false;
	int nsessions;

	random_server(w, r);
	w->driver_window = random_below(r, 2) == 0;
	w->knows_left = random_below(r, 2) == 0;
	w->turn_us = 10 + random_below(r, 100);
	w->config.limiter.ceiling = 1 + random_below(r, 200);
	w->config.limiter.start = random_below(r, 40);
	w->config.limiter.floor = random_below(r, 3) == 0 ? 0.1 : 1;
	w->config.limiter.adaptive = random_below(r, 8) != 0;
	if (random_below(r, 3) == 0)
		w->config.limiter.rules = random_below(r, 2) * (INFER_RULES_ALL & ~INFER_RULE_USED);
	if (random_below(r, 6) == 0)
	{
		w->config.rpm = 30 + random_below(r, 200);
		rows = rows < 300 ? rows : 300;
	}
	if (random_below(r, 4) == 0)
		w->config.monitor.threshold = 0;
	for (int i = 0; i < ninstances; i++)
		instance_new(w);
	nsessions = 1 + random_below(r, 24);
	for (int i = 0; i < nsessions; i++)
	{
		int s = session_new(w, random_below(r, ninstances), 1 + rows / nsessions,
							(InferPriority) random_below(r, INFER_PRIORITY_COUNT),
							w->now + random_below(r, 2) * random_below(r, 8000) * MS);

		if (w->config.rpm > 0 && random_below(r, 2) == 0)
			w->sessions[s].tokens = 1 + random_below(r, 50);
	}
	random_script(w, r, &pauses);
	w->backstop_us = pauses ? SECOND : 0;
	w->ignores_epochs = mutation == MUTATION_NO_EPOCHS;
	w->releases_first = mutation == MUTATION_RELEASE_FIRST;
	w->wakes_one = mutation == MUTATION_WAKE_ONE;
	w->skips_reclaim = mutation == MUTATION_NO_RECLAIM;
	w->probes_always = mutation == MUTATION_PROBE_ALWAYS;
	w->dials_always = mutation == MUTATION_DIAL_ALWAYS;
	w->stops_at_violation = mutation != MUTATION_NONE;

	world_run(w, w->now + 2 * 3600 * SECOND);
	if (w->violations == 0)
		check_end(w);
	return w;
}
