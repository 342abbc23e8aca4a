/*
 * sim/world.c - the world: what happens in which order, and the server.
 */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_EVENTS 3000000

World *
world_new(uint64_t seed)
{
	World *w = sim_new(sizeof(World));

	w->random.state = seed;
	w->free_request = -1;
	w->server = (Server){.slots = 64,
						 .queue = -1,
						 .base_us = 100 * MS,
						 .net_us = 100,
						 .retry_after_us = SECOND,
						 .head = -1,
						 .tail = -1};
	w->config = sim_config();
	w->driver_window = true;
	w->window_means = true;
	w->window_max = 1024;
	w->window_floor = 16;
	w->turn_us = 30;
	w->wake_us = 50;
	w->knows_left = true;
	w->patience_us = INT64_MAX;
	w->now = SECOND; /* zero means never, here and there */
	w->server.since_us = w->now;
	return w;
}

void
world_free(World *w)
{
	events_free(&w->events);
	free(w->requests);
	free(w->samples);
	free(w->server.admitted);
	free(w);
}

int
world_request(World *w)
{
	int which = w->free_request;

	if (which >= 0)
		w->free_request = w->requests[which].next;
	else
	{
		if (w->nrequests == w->requests_size)
			w->requests = sim_grow(w->requests, &w->requests_size, sizeof(Request));
		which = w->nrequests++;
	}
	memset(&w->requests[which], 0, sizeof(Request));
	w->requests[which].next = -1;
	w->requests[which].life = ++w->serial;
	return which;
}

void
world_drop_request(World *w, int which)
{
	w->requests[which].life = 0;
	w->requests[which].next = w->free_request;
	w->free_request = which;
}

void
world_at(World *w, int64_t at, EventKind kind, int which, uint32_t life)
{
	events_add(&w->events, (Event){.at = at, .kind = kind, .which = which, .life = life});
}

void
world_script(World *w, int64_t at, ScriptKind kind, int64_t a, int64_t b)
{
	if (w->nscript == MAX_SCRIPT)
	{
		violation(w, "the script is too long");
		return;
	}
	w->script[w->nscript] = (Script){.kind = kind, .a = a, .b = b};
	world_at(w, at, EVENT_SCRIPT, w->nscript++, 0);
}

/* --- The server --- */

void
server_account(World *w)
{
	Server *s = &w->server;
	double passed = (double) (w->now - s->since_us);

	s->busy_us += passed * (s->busy < s->slots ? s->busy : s->slots);
	s->slots_us += passed * s->slots;
	s->since_us = w->now;
}

double
server_use(World *w)
{
	server_account(w);
	return w->server.slots_us > 0 ? w->server.busy_us / w->server.slots_us : 0;
}

static void
server_reply(World *w, int which, InferReason reason, int64_t retry_after_us)
{
	Request *r = &w->requests[which];

	r->at_server = false;
	r->verdict = reason == INFER_REASON_NONE         ? INFER_VERDICT_SUCCESS
				 : reason == INFER_REASON_OVERLOADED ? INFER_VERDICT_OVERLOADED
													 : INFER_VERDICT_ERROR;
	r->reason = reason;
	r->retry_after_us = retry_after_us;
	world_at(w, w->now + w->server.net_us, EVENT_REPLY, which, r->life);
}

static void
server_start(World *w, int which)
{
	Server *s = &w->server;
	double takes = s->sigma > 0 ? random_lognormal(&w->random, s->base_us, s->sigma) : s->base_us;

	if (w->now < s->cold_until_us)
		takes *= 4;
	s->busy++;
	world_at(w, w->now + (int64_t) takes, EVENT_SERVED, which, w->requests[which].life);
}

/* How many were let in during the last minute, this one counted. */
static int
count_minute(Server *s, int64_t now)
{
	int n = 0;

	if (s->nadmitted == s->admitted_size)
		s->admitted = sim_grow(s->admitted, &s->admitted_size, sizeof(int64_t));
	s->admitted[s->nadmitted++] = now;
	for (int i = s->nadmitted; i-- > 0 && s->admitted[i] > now - 60 * SECOND;)
		n++;
	return n;
}

void
server_send(World *w, int which)
{
	w->requests[which].life = ++w->serial; /* events of an earlier attempt are not its own */
	world_at(w, w->now + w->server.net_us, EVENT_ARRIVE, which, w->requests[which].life);
}

static void
server_arrive(World *w, int which)
{
	Server *s = &w->server;
	bool full;

	server_account(w);
	if (s->dead)
	{
		s->dials++;
		server_reply(w, which, INFER_REASON_CONNECT_FAILED, -1);
		return;
	}
	if (s->rpm > 0)
	{
		int n = count_minute(s, w->now);

		if (n > s->most_a_minute)
			s->most_a_minute = n;
	}
	if (s->broken)
	{
		s->failed++;
		server_reply(w, which, INFER_REASON_SERVER_ERROR, -1);
		return;
	}
	full = s->busy >= s->slots && s->queue >= 0 && s->queued >= s->queue;
	if (s->storm || full)
	{
		s->refused++;
		server_reply(w, which, INFER_REASON_OVERLOADED, s->retry_after_us);
		return;
	}
	w->requests[which].at_server = true;
	if (s->busy < s->slots)
		server_start(w, which);
	else
	{
		w->requests[which].next = -1;
		if (s->tail >= 0)
			w->requests[s->tail].next = which;
		else
			s->head = which;
		s->tail = which;
		s->queued++;
	}
	if (s->busy + s->queued > s->peak)
		s->peak = s->busy + s->queued;
}

static void
server_fill(World *w)
{
	Server *s = &w->server;

	while (s->head >= 0 && s->busy < s->slots)
	{
		int which = s->head;

		s->head = w->requests[which].next;
		if (s->head < 0)
			s->tail = -1;
		s->queued--;
		server_start(w, which);
	}
}

static void
server_served(World *w, int which)
{
	Server *s = &w->server;

	server_account(w);
	s->busy--;
	s->served++;
	if (s->change_after > 0 && s->served == s->change_after)
	{
		s->slots = s->change_slots;
		s->queue = s->change_queue;
	}
	server_reply(w, which, INFER_REASON_NONE, -1);
	server_fill(w);
}

/* All of its requests end at once, and it starts anew. */
static void
server_fail(World *w, int64_t cold_us)
{
	Server *s = &w->server;

	server_account(w);
	for (int i = 0; i < w->nrequests; i++)
	{
		Request *r = &w->requests[i];

		if (!r->at_server)
			continue;
		server_reply(w, i, INFER_REASON_SERVER_ERROR, -1);
	}
	s->busy = s->queued = 0;
	s->head = s->tail = -1;
	s->cold_until_us = w->now + cold_us;
}

static void
play(World *w, const Script *script)
{
	switch (script->kind)
	{
		case SCRIPT_SLOTS:
			server_account(w);
			w->server.slots = (int) script->a;
			w->server.queue = (int) script->b;
			server_fill(w);
			break;
		case SCRIPT_STORM:
			w->server.storm = script->a != 0;
			break;
		case SCRIPT_BREAK:
			w->server.broken = script->a != 0;
			break;
		case SCRIPT_DEAD:
			w->server.dead = script->a != 0;
			break;
		case SCRIPT_FAIL:
			server_fail(w, script->a);
			break;
		default:
			session_script(w, script);
	}
}

static void
take_sample(World *w)
{
	Sample *sample;

	if (w->nsamples == w->samples_size)
		w->samples = sim_grow(w->samples, &w->samples_size, sizeof(Sample));
	sample = &w->samples[w->nsamples++];
	memset(sample, 0, sizeof(*sample));
	sample->at = w->now;
	for (int i = 0; i < w->ninstances; i++)
	{
		sample->limit[i] = w->instances[i].admission.limiter.window;
		sample->in_flight[i] = w->instances[i].admission.limiter.in_flight;
	}
	sample->at_server = w->server.busy + w->server.queued;
	sample->slots = w->server.slots;
	sample->refused = w->server.refused;
	if (w->events.n > 0)
		world_at(w, w->now + w->sample_us, EVENT_SAMPLE, 0, 0);
}

/* A request may have ended otherwise before its time at the server was over. */
static bool
is_due(const World *w, const Event *event)
{
	const Request *r = &w->requests[event->which];

	return r->life == event->life && (event->kind != EVENT_SERVED || r->at_server);
}

void
world_run(World *w, int64_t until)
{
	if (w->sample_us > 0 && w->nsamples == 0)
		take_sample(w);
	while (w->events.n > 0 && w->events.heap[0].at <= until &&
		   !(w->stops_at_violation && w->violations > 0))
	{
		Event event = events_next(&w->events);

		w->now = event.at;
		if (++w->events_done > MAX_EVENTS)
		{
			violation(w, "it does not end: %d events at %lld", w->events.n, (long long) w->now);
			return;
		}
		switch (event.kind)
		{
			case EVENT_LOOK:
				session_look(w, event.which);
				break;
			case EVENT_ARRIVE:
				server_arrive(w, event.which);
				break;
			case EVENT_SERVED:
				if (is_due(w, &event))
					server_served(w, event.which);
				break;
			case EVENT_REPLY:
				session_reply(w, event.which);
				break;
			case EVENT_SCRIPT:
				play(w, &w->script[event.which]);
				break;
			case EVENT_SAMPLE:
				take_sample(w);
				break;
		}
		check_world(w);
	}
	if (until != INT64_MAX && w->now < until)
		w->now = until;
}
