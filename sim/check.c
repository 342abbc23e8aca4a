/*
 * sim/check.c - what must hold after every event, looked at from outside.
 *
 * in flight        what an instance counts is what its processes hold, and was within the limit
 *                  when granted; what was granted has been given back or is in flight
 * no idle permit   while permits are free, enough of those who wait have been woken to take them
 * priority         nobody is granted what a waiting process of higher priority wants
 * one decrease     of an epoch, however many requests tell of the overload
 * left alone       after so many failures in a row, one request a period
 * dials            after a connection that could not be made, one at a time, not at once
 * patience         nobody gives up on a server that has answered lately
 * feedback first   no place is given away between the end of a request and what it tells
 * the end          everything was answered, nothing is held, nobody waits
 */
#include "world.h"

#include <stdarg.h>
#include <stdio.h>

void
violation(World *w, const char *format, ...)
{
	va_list args;

	if (w->violations++ > 0)
		return;
	va_start(args, format);
	vsnprintf(w->first_violation, sizeof(w->first_violation), format, args);
	va_end(args);
}

/* Does it count, for who wants permits? */
static bool
is_present(const InferAdmissionNode *node, int64_t now)
{
	return node->want > 0 && (node->woken_us == 0 || now - node->woken_us <= 100 * MS);
}

static int
room_of(World *w, Instance *in)
{
	int by_rate = infer_ratelimit_room(&in->admission.rate, w->now);
	int room = infer_limiter_room(&in->admission.limiter, w->now);
	int by_health = infer_monitor_room(&in->admission.monitor, w->now);
	int by_dial = infer_dial_room(&in->admission.dial, w->now);

	if (by_rate < room)
		room = by_rate;
	if (by_health < room)
		room = by_health;
	return by_dial < room ? by_dial : room;
}

/* Is the one with the alarm about to look?  It is late by its work and the way to it. */
static bool
alarm_rings(const Instance *in, int64_t now)
{
	return in->admission.alarm != INFER_NOBODY && now - in->admission.alarm_us < 100 * MS &&
		   now >= in->admission.alarm_us - MS;
}

void
check_instance(World *w, int which, bool strict)
{
	Instance *in = &w->instances[which];
	InferLimiter *l = &in->admission.limiter;
	int64_t held = 0;
	int64_t wanted = 0;
	int64_t woken = 0;
	int waiting = 0;
	bool somebody_absent = false;
	int room;
	for (int i = 0; i < MAX_SESSIONS; i++)
	{
		const InferAdmissionNode *node = &in->nodes[i];

		held += node->held;
		waiting += node->want > 0;
		if (!is_present(node, w->now))
		{
			somebody_absent |= node->want > 0;
			continue;
		}
		wanted += node->want;
		if (node->woken_us != 0)
			woken += node->want;
	}
	if (held != l->in_flight)
		violation(w, "%d in flight, %d held", l->in_flight, (int) held);
	if (l->granted - l->released != l->in_flight)
		violation(w, "granted - released is not in flight");
	for (int p = 0; p < INFER_PRIORITY_COUNT; p++)
		waiting -= in->admission.waiting[p];
	if (waiting != 0)
		violation(w, "the line's length is wrong");
	if (wanted == 0 || in->admission.token_first != INFER_NOBODY)
		return;
	if (in->admission.alarm != INFER_NOBODY && w->now - in->admission.alarm_us >= 100 * MS)
		somebody_absent = true;
	if (somebody_absent)
		return; /* those behind it look by themselves, once a second */
	room = room_of(w, in);
	/* time may have opened more since: those who come will see to it */
	if (woken < (room < wanted ? room : wanted) && (strict || woken == 0) &&
		!alarm_rings(in, w->now))
		violation(w, "%d free, %d wanted, %d woken at %lld", room, (int) wanted, (int) woken,
				  (long long) w->now);
	if (room == 0 && woken == 0 && l->in_flight == 0 && in->admission.alarm == INFER_NOBODY)
		violation(w, "everybody waits, for nothing");
}

void
check_world(World *w)
{
	for (int i = 0; i < w->ninstances; i++)
		check_instance(w, i, false);
}

void
check_grant(World *w, int instance, int session, int granted)
{
	Instance *in = &w->instances[instance];
	InferLimiter *l = &in->admission.limiter;
	int64_t higher = 0;

	if (granted == 0 || l->config.dry_run)
		return;
	if (l->in_flight > infer_limiter_limit(l))
		violation(w, "granted %d beyond the limit of %d", l->in_flight, infer_limiter_limit(l));
	if (l->config.adaptive && l->window < 1 && l->in_flight > 1)
		violation(w, "paced, and %d in flight", l->in_flight);
	for (int i = 0; i < MAX_SESSIONS; i++)
		if (in->nodes[i].priority > (int) w->sessions[session].priority &&
			is_present(&in->nodes[i], w->now))
			higher += in->nodes[i].want;
	if (higher > 0 && room_of(w, in) < higher)
		violation(w, "granted %d to priority %d while higher ones want %d", granted,
				  (int) w->sessions[session].priority, (int) higher);
}

void
check_feedback(World *w, int instance, const InferLimiter *before, const InferPermit *permit,
			   InferVerdict verdict)
{
	const InferLimiter *l = &w->instances[instance].admission.limiter;

	if (l->granted != before->granted)
		violation(w, "its place was given away before it was heard");
	if (verdict != INFER_VERDICT_OVERLOADED)
	{
		if (l->window < before->window && !before->slow_start)
			violation(w, "the limit fell without overload");
		return;
	}
	if (permit->epoch != before->epoch && l->decreases != before->decreases)
		violation(w, "a second decrease in one epoch");
	if (l->decreases - before->decreases > 1 || l->epoch - before->epoch > 1)
		violation(w, "two decreases at once");
	if (l->window > before->window)
		violation(w, "overload raised the limit");
}

/* Seen from outside; failures a minute apart are no run, unless it is left alone already. */
void
check_health(World *w, int which, const Request *r)
{
	Instance *in = &w->instances[which];
	int threshold = w->config.monitor.threshold;

	if (r->reason == INFER_REASON_CONNECT_FAILED && r->sent_us > in->opened_us)
	{
		in->dial_us = in->closed ? in->dial_us : r->sent_us;
		in->closed = true;
	}
	else if (r->reason != INFER_REASON_CONNECT_FAILED)
	{
		in->closed = false;
		in->opened_us = w->now;
	}
	if (r->verdict != INFER_VERDICT_ERROR)
	{
		in->failures = 0;
		in->alive_us = w->now;
		return;
	}
	if (r->sent_us <= in->alive_us)
		return;
	if (in->failures < threshold && w->now - in->failed_us > 60 * SECOND)
		in->failures = 0;
	in->failures++;
	in->failed_us = w->now;
	if (in->failures == threshold)
		in->probe_us = w->now;
}

void
check_probe(World *w, int which, int granted)
{
	Instance *in = &w->instances[which];

	/* what was sent in the same moment may have been before or after an answer */
	if (granted == 0 || w->config.monitor.threshold == 0 ||
		in->failures < w->config.monitor.threshold || in->alive_us == w->now)
		return;
	if (granted > 1)
		violation(w, "%d permits for a server that fails", granted);
	if (w->now - in->probe_us < w->config.monitor.cooldown_us * 3 / 4)
		violation(w, "a probe %d ms after the last one", (int) ((w->now - in->probe_us) / MS));
	in->probe_us = w->now;
}

/* 50 ms after the last one, less the jitter; of one that is still under way nobody knows. */
void
check_dial(World *w, int which, int granted)
{
	Instance *in = &w->instances[which];

	if (granted == 0 || !in->closed)
		return;
	if (granted > 1)
		violation(w, "%d dials at once", granted);
	if (w->now - in->dial_us < 45 * MS)
		violation(w, "a dial %d ms after the last one", (int) ((w->now - in->dial_us) / MS));
	in->dial_us = w->now;
}

void
check_give_up(World *w, int which)
{
	const Instance *in = &w->instances[which];

	if (w->now - in->alive_us < w->patience_us)
		violation(w, "given up on a server that answered %d ms ago",
				  (int) ((w->now - in->alive_us) / MS));
}

void
check_end(World *w)
{
	for (int i = 0; i < w->nsessions; i++)
	{
		const Session *s = &w->sessions[i];

		if (s->alive && s->rows_done + s->rows_failed != s->rows_all)
			violation(w, "session %d: %lld of %lld rows done", i, (long long) s->rows_done,
					  (long long) s->rows_all);
	}
	for (int i = 0; i < w->ninstances; i++)
	{
		const InferAdmission *a = &w->instances[i].admission;

		if (a->limiter.in_flight != 0)
			violation(w, "instance %d: %d still in flight", i, a->limiter.in_flight);
		for (int p = 0; p < INFER_PRIORITY_COUNT; p++)
			if (a->waiting[p] != 0)
				violation(w, "instance %d: somebody still waits", i);
	}
}
