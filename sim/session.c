/*
 * sim/session.c - instances and sessions: what shmem/admission.c and call/pump.c do with the core.
 */
#include "world.h"

#include "core/retry.h"

#define REQUEST_TIMEOUT (60 * SECOND)

/* --- Instances --- */

int
instance_new(World *w)
{
	int which = w->ninstances++;
	bool tell;

	infer_admission_configure(&w->instances[which].admission, MAX_SESSIONS, &w->config,
							  &(InferConfigurer){0}, w->now, &tell);
	return which;
}

/* What it has learnt is lost, as if each statement began anew. */
void
instance_forget(World *w, int instance)
{
	InferAdmission *a = &w->instances[instance].admission;
	InferLimiterConfig config = a->limiter.config;
	bool tell;

	a->limiter.sealed = false;
	infer_limiter_configure(&a->limiter, &config, &tell);
}

/* The session of a node, or -1. */
static int
session_of(const World *w, int instance, int node)
{
	for (int i = 0; i < w->nsessions; i++)
		if (w->sessions[i].alive && w->sessions[i].instance == instance &&
			w->sessions[i].node == node)
			return i;
	return -1;
}

void
session_wake_line(World *w, int instance, bool at_once)
{
	Instance *in = &w->instances[instance];
	int32_t who[8];
	int size = w->wakes_one ? 1 : 8;
	int n;

	do
	{
		n = infer_admission_wake(&in->admission, in->nodes, w->now, who, size);
		for (int i = 0; i < n; i++)
		{
			int which = session_of(w, instance, who[i]);

			if (which >= 0)
				session_schedule(w, which, w->now + (at_once ? 0 : w->wake_us));
			if (which >= 0 && at_once)
				session_look(w, which);
		}
	} while (n == size && !w->wakes_one);
	check_instance(w, instance, true);
}

/* --- Sessions --- */

void
session_schedule(World *w, int which, int64_t at)
{
	Session *s = &w->sessions[which];

	if (at < s->busy_until_us)
		at = s->busy_until_us;
	if (at >= s->look_us)
		return;
	s->look_us = at;
	world_at(w, at, EVENT_LOOK, which, 0);
}

static void
session_begin(World *w, int which)
{
	Session *s = &w->sessions[which];
	InferWindowConfig config = {.min = 1,
								.max = w->window_max,
								.step_coef = 1,
								.latency_floor = w->window_floor,
								.means = w->window_means};

	infer_limiter_begin_window(&w->instances[s->instance].admission.limiter, 16, &config);
	infer_window_init(&s->window, &config);
	s->alive = true;
	s->begun_us = w->now;
	s->ended_us = -1;
	session_schedule(w, which, w->now);
}

int
session_new(World *w, int instance, int64_t rows, InferPriority priority, int64_t at)
{
	int which = w->nsessions++;
	int node = 0;

	for (int i = 0; i < which; i++)
		node += w->sessions[i].instance == instance;
	w->sessions[which] = (Session){.instance = instance,
								   .node = node,
								   .life = 1,
								   .rows = rows,
								   .rows_all = rows,
								   .priority = priority,
								   .finished = -1,
								   .sleeping = -1,
								   .look_us = INT64_MAX,
								   .waits_since_us = -1,
								   .ended_us = -1};
	if (at >= 0)
		world_script(w, at, SCRIPT_JOIN, which, 0);
	return which;
}

void
session_reply(World *w, int which)
{
	Request *r = &w->requests[which];
	Session *s = &w->sessions[r->session];

	if (!s->alive || r->session_life != s->life)
	{
		world_drop_request(w, which);
		return;
	}
	r->next = s->finished;
	s->finished = which;
	session_schedule(w, r->session, w->now);
}

/* The controllers hear of one ended request, and its place is free. */
static void
land(World *w, Session *s, Request *r)
{
	Instance *in = &w->instances[s->instance];
	InferLimiter before = in->admission.limiter;
	InferOutcome outcome = {.verdict = r->verdict,
							.reason = r->reason,
							.draw = r->verdict == INFER_VERDICT_ERROR ? random_unit(&w->random) : 0,
							.rtt_us = w->now - r->sent_us,
							.units = 1,
							.retry_after_us = r->retry_after_us,
							.left = w->knows_left ? s->rows : -1};
	InferPermit permit = r->permit;

	if (w->ignores_epochs)
		permit.epoch = before.epoch;
	if (r->verdict == INFER_VERDICT_SUCCESS)
		infer_window_sample(&s->window, outcome.rtt_us, s->in_flight);
	else if (r->verdict == INFER_VERDICT_OVERLOADED)
		infer_window_overload(&s->window, r->window_epoch);
	s->in_flight--;
	if (s->tokens > 0 && r->verdict == INFER_VERDICT_SUCCESS)
		infer_ratelimit_correct(&in->admission.rate, r->stamp, s->tokens, s->tokens / 2, w->now);
	if (w->releases_first)
	{
		InferOutcome nothing = {.verdict = INFER_VERDICT_IGNORE};

		infer_admission_give(&in->admission, in->nodes, s->node, &permit, 1, &nothing, w->now);
		session_wake_line(w, s->instance, true);
		infer_limiter_feedback(&in->admission.limiter, &permit, &outcome, w->now);
	}
	else
		infer_admission_give(&in->admission, in->nodes, s->node, &permit, 1, &outcome, w->now);
	check_feedback(w, s->instance, &before, &r->permit, r->verdict);
	check_health(w, s->instance, r);
	session_wake_line(w, s->instance, false);
}

/* Oldest first. */
static int
reversed(World *w, int list)
{
	int result = -1;

	while (list >= 0)
	{
		int next = w->requests[list].next;

		w->requests[list].next = result;
		result = list;
		list = next;
	}
	return result;
}

static int
collect(World *w, Session *s)
{
	int list = reversed(w, s->finished);
	int n = 0;

	s->finished = -1;
	while (list >= 0)
	{
		int which = list;
		Request *r = &w->requests[which];

		list = r->next;
		n++;
		land(w, s, r);
		if (r->verdict == INFER_VERDICT_SUCCESS)
		{
			s->rows_done++;
			world_drop_request(w, which);
			continue;
		}
		s->retries++;
		r->not_before_us =
			w->now + MS * infer_retry_delay_ms(r->attempts,
											   r->retry_after_us < 0 ? -1 : r->retry_after_us / MS,
											   random_unit(&w->random));
		r->next = s->sleeping;
		s->sleeping = which;
	}
	return n;
}

/* A request to be sent: one whose pause is over, or a new row; -1 = none. */
static int
next_request(World *w, Session *s, int which)
{
	int *link = &s->sleeping;
	int request;

	for (; *link >= 0; link = &w->requests[*link].next)
	{
		if (w->requests[*link].not_before_us > w->now)
			continue;
		request = *link;
		*link = w->requests[request].next;
		return request;
	}
	if (s->rows == 0)
		return -1;
	s->rows--;
	request = world_request(w);
	w->requests[request].session = which;
	w->requests[request].session_life = s->life;
	return request;
}

static int
count_ready(const World *w, const Session *s)
{
	int64_t n = s->rows;

	for (int i = s->sleeping; i >= 0; i = w->requests[i].next)
		n += w->requests[i].not_before_us <= w->now;
	return n > 100000 ? 100000 : (int) n;
}

static int
take(World *w, int which, int want, InferPermit *permit, int64_t *stamp)
{
	Session *s = &w->sessions[which];
	Instance *in = &w->instances[s->instance];
	InferAsk ask = {.want = want,
					.priority = s->priority,
					.tokens = s->tokens,
					.lasts_us = REQUEST_TIMEOUT,
					.patience_us = w->patience_us,
					.wait = true};
	int granted =
		infer_admission_take(&in->admission, in->nodes, s->node, &ask, w->now, permit, stamp);

	if (granted == INFER_ADMISSION_GIVES_UP)
		check_give_up(w, s->instance);
	else
	{
		check_grant(w, s->instance, which, granted);
		check_probe(w, s->instance, granted);
		check_dial(w, s->instance, granted);
	}
	if (w->probes_always)
		in->admission.monitor.until_us = 0;
	if (w->dials_always)
		in->admission.dial.next_us = 0;
	session_wake_line(w, s->instance, false);
	return granted;
}

/* All that could be sent now fails instead. */
static void
give_up(World *w, Session *s, int which)
{
	int request;

	s->rows_failed += s->rows;
	s->rows = 0;
	while ((request = next_request(w, s, which)) >= 0)
	{
		s->rows_failed++;
		world_drop_request(w, request);
	}
	s->waits_since_us = -1;
}

static int
send(World *w, int which)
{
	Session *s = &w->sessions[which];
	int64_t room = infer_window_limit(&s->window) - s->in_flight;
	int want = count_ready(w, s);
	int granted;
	InferPermit permit;
	int64_t stamp;

	if (w->driver_window && want > room)
		want = room > 0 ? (int) room : 0;
	if (want == 0)
	{
		infer_admission_leave(&w->instances[s->instance].admission, w->instances[s->instance].nodes,
							  s->node);
		session_wake_line(w, s->instance, false);
		s->waits_since_us = -1;
		return 0;
	}
	if (s->waits_since_us < 0)
		s->waits_since_us = w->now;
	granted = take(w, which, want, &permit, &stamp);
	if (granted == INFER_ADMISSION_GIVES_UP)
	{
		give_up(w, s, which);
		return 0;
	}
	if (granted > 0)
	{
		int64_t waited = w->now - s->waits_since_us;

		if (waited > s->longest_wait_us)
			s->longest_wait_us = waited;
		s->waits_since_us = granted < want ? w->now : -1;
	}
	for (int i = 0; i < granted; i++)
	{
		int request = next_request(w, s, which);
		Request *r = &w->requests[request];

		r->permit = permit;
		r->permit.level = permit.level - granted + 1 + i;
		r->stamp = stamp;
		r->window_epoch = s->window.epoch;
		r->sent_us = w->now;
		r->attempts++;
		s->in_flight++;
		server_send(w, request);
	}
	return granted;
}

/* When to look again without being woken. */
static void
set_alarm(World *w, int which)
{
	Session *s = &w->sessions[which];
	Instance *in = &w->instances[s->instance];
	int64_t at = infer_admission_alarm_us(&in->admission, in->nodes, s->node, w->now);

	if (in->nodes[s->node].want > 0 && w->backstop_us > 0 && at > w->now + w->backstop_us)
		at = w->now + w->backstop_us;
	for (int i = s->sleeping; i >= 0; i = w->requests[i].next)
		if (w->requests[i].not_before_us > w->now && w->requests[i].not_before_us < at)
			at = w->requests[i].not_before_us;
	if (at != INT64_MAX)
		session_schedule(w, which, at);
}

/* One turn of the session's loop. */
void
session_look(World *w, int which)
{
	Session *s = &w->sessions[which];
	int n;

	if (w->now != s->look_us)
		return; /* an earlier look has been asked for since */
	s->look_us = INT64_MAX;
	if (!s->alive || s->paused)
		return;
	if (w->now < s->busy_until_us)
	{
		session_schedule(w, which, s->busy_until_us);
		return;
	}
	n = collect(w, s);
	n += send(w, which);
	s->busy_until_us = w->now + n * w->turn_us;
	if (s->finished >= 0)
		session_schedule(w, which, s->busy_until_us);
	set_alarm(w, which);
	if (s->rows == 0 && s->in_flight == 0 && s->sleeping < 0 && s->ended_us < 0)
		s->ended_us = w->now;
}

/* --- From outside --- */

static void
session_crash(World *w, int which, int64_t reclaim_us)
{
	Session *s = &w->sessions[which];

	if (!s->alive)
		return;
	s->alive = false;
	s->life++;
	s->look_us = INT64_MAX;
	/* what had come back is nobody's any more */
	for (int list = s->finished; list >= 0;)
	{
		int next = w->requests[list].next;

		world_drop_request(w, list);
		list = next;
	}
	for (int list = s->sleeping; list >= 0;)
	{
		int next = w->requests[list].next;

		world_drop_request(w, list);
		list = next;
	}
	s->finished = s->sleeping = -1;
	s->in_flight = 0;
	if (!w->skips_reclaim)
		world_script(w, w->now + reclaim_us, SCRIPT_RECLAIM, which, 0);
}

void
session_script(World *w, const Script *script)
{
	int which = (int) script->a;
	Session *s = &w->sessions[which];
	Instance *in = &w->instances[s->instance];

	switch (script->kind)
	{
		case SCRIPT_JOIN:
			session_begin(w, which);
			break;
		case SCRIPT_LEAVE:
			s->rows_all -= s->rows;
			s->rows = 0;
			if (s->alive)
				session_schedule(w, which, w->now);
			break;
		case SCRIPT_CRASH:
			session_crash(w, which, script->b);
			break;
		case SCRIPT_RECLAIM:
			infer_admission_reclaim(&in->admission, in->nodes, s->node);
			session_wake_line(w, s->instance, false);
			break;
		case SCRIPT_PAUSE:
			s->paused = true;
			world_script(w, w->now + script->b, SCRIPT_RESUME, which, 0);
			break;
		case SCRIPT_RESUME:
			s->paused = false;
			if (s->alive)
				session_schedule(w, which, w->now);
			break;
		default:
			break;
	}
}
