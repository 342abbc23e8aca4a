/*
 * sim/fleet_check.c - the judge of the fleet, with a ledger and counts of its own.
 *
 * proof            what is said not to have been executed was not, then or later; what is said to
 *                  have been was; for each attempt, and for each call as a whole
 * permission       nothing starts after a failure that the call does not permit to be repeated, but
 *                  where it is known by its key; at most max_attempts, and one copy, of a first
 *                  attempt, if the call permits it
 * executions       at most one of a call that permits no more, and one for its copy
 * budget           one copy for twenty answers without one
 * reservations     in flight are those that were started and have not ended, at any time; the
 *                  permits likewise; at the end nothing is
 * late losers      no more than are kept, and gone in the end
 * exclusion        no first attempt goes to an excluded server while one that is not would take it
 * incarnations     a reference is never answered by another one; and nothing is inherited
 * the end          whoever began has ended; what began when all had been well for a while succeeded
 */
#include "fleet.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

void
fleet_violation(Fleet *f, const char *format, ...)
{
	va_list args;

	if (f->violations++ > 0)
		return;
	va_start(args, format);
	vsnprintf(f->first_violation, sizeof(f->first_violation), format, args);
	va_end(args);
}

static void
check_slot(Fleet *f, int which)
{
	const Slot *s = &f->slots[which];

	if (s->queue.in_flight != s->live)
		fleet_violation(f, "server %d: %d reserved, %d under way", which, s->queue.in_flight,
						s->live);
	if (s->admission.limiter.in_flight != s->live)
		fleet_violation(f, "server %d: %d permits, %d under way", which,
						s->admission.limiter.in_flight, s->live);
	if (s->queue.outstanding < s->live - 1e-6 || (s->live == 0 && s->queue.outstanding != 0))
		fleet_violation(f, "server %d: %g outstanding, %d under way", which, s->queue.outstanding,
						s->live);
	if ((int) s->queue.epoch != s->renewals)
		fleet_violation(f, "server %d: incarnation %d inherits", which, s->renewals);
}

void
check_fleet(Fleet *f)
{
	for (int i = 0; i < f->nmachines; i++)
		check_slot(f, i);
	if (f->lagging > f->lagging_most)
		fleet_violation(f, "%d late losers are kept", f->lagging);
}

/* A place that would have been as good as the chosen one, and is not excluded. */
static int
better_place(const Client *c, const InferRoutePlace *places, int place, const bool *refused)
{
	for (int i = 0; i < c->nplaces; i++)
		if (i != place && !refused[i] && places[i].state == INFER_PLACE_UP && !places[i].excluded)
			return i;
	return -1;
}

static void
check_exclusion(Fleet *f, const Client *c, const InferRoutePlace *places, int place,
				const bool *refused)
{
	const char *near = c->request.locality;
	bool is_near = near != NULL && places[place].node == near;
	int near_ones = 0;

	for (int i = 0; i < c->nplaces; i++)
		near_ones += near != NULL && places[i].node == near && places[i].state == INFER_PLACE_UP &&
					 !refused[i];
	f->seen[SOMETIMES_SPILL] += near_ones > 0 && !is_near;
	if (!places[place].excluded)
		return;
	f->seen[SOMETIMES_EXCLUDED_USED]++;
	/* the near ones come first, unless enough of them are bad */
	if (!is_near && better_place(c, places, place, refused) >= 0)
		fleet_violation(f, "an excluded server is used, and %s would do",
						places[better_place(c, places, place, refused)].server);
}

/* Before an attempt leaves. */
void
check_start(Fleet *f, const Client *c, const InferRoutePlace *places, int place,
			InferAttemptKind kind, const bool *refused, bool probe)
{
	const Entry *entry = &f->ledger[c->call];

	if (entry->failed && entry->policy == INFER_RETRY_NEVER)
		fleet_violation(f, "a retry of a call that forbids them");
	if (entry->ambiguous && entry->policy != INFER_RETRY_AMBIGUOUS &&
		(entry->forgotten || (entry->kept_by & 1u << c->places[place]) == 0))
		fleet_violation(f, "it may have been executed, and is sent again");
	if (kind == INFER_ATTEMPT_COPY)
	{
		if (!entry->hedges)
			fleet_violation(f, "a copy of a call that forbids it");
		if (entry->copies > 0 || entry->primaries != 1 || entry->failed)
			fleet_violation(f, "a second copy, or one of a retry");
		if ((f->seen[SOMETIMES_COPY] + 1) * INFER_HEDGE_COPY > f->earned)
			fleet_violation(f, "copy %d after %d answers", (int) f->seen[SOMETIMES_COPY] + 1,
							(int) f->earned);
		return;
	}
	if (entry->primaries >= entry->max_attempts)
		fleet_violation(f, "attempt %d of %d", entry->primaries + 1, entry->max_attempts);
	if (entry->primaries == 0 && !probe)
		check_exclusion(f, c, places, place, refused);
}

void
check_landing(Fleet *f, const Attempt *a, const InferFinding *finding)
{
	Attempt *noted = &f->attempts[a - f->attempts];

	noted->claimed = true;
	noted->claim = finding->reason == INFER_REASON_NONE ? INFER_EXECUTED : finding->execution;
	f->earned += a->kind != INFER_ATTEMPT_COPY && !a->copied && !a->lagging;
}

/* --- The end --- */

static void
check_attempts(Fleet *f)
{
	for (int i = 0; i < f->nattempts; i++)
	{
		const Attempt *a = &f->attempts[i];

		if (a->held)
			fleet_violation(f, "attempt %d is never given back", i);
		if (a->claimed && a->claim == INFER_NOT_ADMITTED && a->executed)
			fleet_violation(f, "attempt %d: not executed, it is said; it was", i);
		if (a->claimed && a->claim == INFER_EXECUTED && !a->executed)
			fleet_violation(f, "attempt %d: executed, it is said; it was not", i);
	}
}

static void
check_entry(Fleet *f, int call)
{
	const Entry *e = &f->ledger[call];
	int most = (e->policy == INFER_RETRY_AMBIGUOUS ? e->max_attempts : 1) + (e->hedges ? 1 : 0);

	if (e->ended_us < 0)
		fleet_violation(f, "call %d does not end", call);
	if (e->executions > most)
		fleet_violation(f, "call %d: executed %d times, permitted are %d", call, e->executions,
						most);
	if (e->success && e->executions == 0)
		fleet_violation(f, "call %d: a result without an execution", call);
	if (e->wrong)
		fleet_violation(f, "call %d: answered by another incarnation than it asked for", call);
	if (!e->success && e->claim == INFER_NOT_ADMITTED && e->executions > 0)
		fleet_violation(f, "call %d: not executed, it says; it was", call);
	if (!e->success && e->claim == INFER_EXECUTED && e->executions == 0)
		fleet_violation(f, "call %d: executed, it says; it was not", call);
	if (!e->success && !e->cancelled && !e->by_reference && e->begun_us >= f->settled_us)
		fleet_violation(f, "call %d fails %d ms after all is well", call,
						(int) ((e->begun_us - f->healed_us) / MS));
}

void
check_fleet_end(Fleet *f)
{
	check_fleet(f);
	check_attempts(f);
	for (int i = 0; i < f->ncalls; i++)
		check_entry(f, i);
	if (f->lagging != 0)
		fleet_violation(f, "%d late losers in the end", f->lagging);
	for (int i = 0; i < f->nmachines; i++)
	{
		const Slot *s = &f->slots[i];
		int64_t ended = 0;

		for (int end = 0; end < INFER_QUEUE_END_COUNT; end++)
			ended += s->queue.ended[end];
		if (s->live != 0 || s->started != s->ended || s->queue.reserved != s->started ||
			ended != s->started)
			fleet_violation(f, "server %d: %d started, %d ended, %d reserved, %d released", i,
							(int) s->started, (int) s->ended, (int) s->queue.reserved, (int) ended);
		for (int p = 0; p < INFER_PRIORITY_COUNT; p++)
			if (s->admission.waiting[p] != 0)
				fleet_violation(f, "server %d: somebody waits in the end", i);
	}
}
