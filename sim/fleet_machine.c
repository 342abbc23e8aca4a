/*
 * sim/fleet_machine.c - the servers of the fleet: what they do with a request.
 */
#include "fleet.h"

static void
reply(Fleet *f, int which, int64_t after_us)
{
	Attempt *a = &f->attempts[which];
	Machine *m = &f->machines[a->machine];

	a->state = ATTEMPT_OVER;
	if (a->wire.status > 0)
		a->incarnation = m->incarnation;
	if (m->silent && a->wire.end != INFER_WIRE_CONNECT)
		return; /* it is lost */
	fleet_at(f, f->now + after_us, FLEET_REPLY, which);
}

/* An answer with that status. */
static void
answer(Fleet *f, int which, int status)
{
	f->attempts[which].wire = (InferWire){.end = INFER_WIRE_OK,
										  .left = true,
										  .request_complete = true,
										  .status = status,
										  .has_body = true,
										  .trust = INFER_TRUST_DIRECT};
	reply(f, which, f->machines[f->attempts[which].machine].net_us);
}

static void
execute(Fleet *f, int which)
{
	Attempt *a = &f->attempts[which];
	Entry *entry = &f->ledger[a->call];
	uint32_t here = 1u << a->machine;

	a->executed = true;
	a->incarnation = f->machines[a->machine].incarnation;
	if (entry->keyed && f->machines[a->machine].honours && (entry->known_to & here) != 0)
	{
		f->seen[SOMETIMES_KEY_KNOWN]++;
		return;
	}
	entry->known_to |= here;
	if (++entry->executions == 2)
		f->seen[SOMETIMES_EXECUTED_TWICE]++;
}

static void
start(Fleet *f, int which)
{
	Attempt *a = &f->attempts[which];
	Machine *m = &f->machines[a->machine];
	double takes = m->sigma > 0 ? random_lognormal(&f->random, m->base_us, m->sigma) : m->base_us;

	m->busy++;
	a->state = ATTEMPT_SERVING;
	execute(f, which);
	fleet_at(f, f->now + (int64_t) (takes * m->slow), FLEET_SERVED, which);
}

static void
cannot_connect(Fleet *f, int which, int64_t after_us)
{
	f->attempts[which].wire = (InferWire){.end = INFER_WIRE_CONNECT};
	reply(f, which, after_us);
}

void
machine_arrive(Fleet *f, int which)
{
	Attempt *a = &f->attempts[which];
	Machine *m = &f->machines[a->machine];

	if (m->silent)
	{
		cannot_connect(f, which, f->connect_timeout_us);
		return;
	}
	if (!m->up)
	{
		cannot_connect(f, which, m->net_us);
		return;
	}
	if (f->now < m->loading_until_us)
	{
		a->loading = true;
		answer(f, which, 503);
		return;
	}
	if (m->amnesic)
	{
		answer(f, which, 404);
		return;
	}
	if (m->broken)
	{
		if (random_below(&f->random, 2) == 0)
			execute(f, which);
		answer(f, which, 500);
		return;
	}
	if (m->busy < m->slots)
	{
		start(f, which);
		return;
	}
	if (m->queue >= 0 && m->queued >= m->queue)
	{
		if (random_below(&f->random, 4) == 0)
			a->retry_after_us = random_below(&f->random, 2000) * MS;
		answer(f, which, 429);
		return;
	}
	a->state = ATTEMPT_QUEUED;
	a->next = -1;
	if (m->tail >= 0)
		f->attempts[m->tail].next = which;
	else
		m->head = which;
	m->tail = which;
	m->queued++;
}

void
machine_served(Fleet *f, int which)
{
	Attempt *a = &f->attempts[which];
	Machine *m = &f->machines[a->machine];

	if (a->state != ATTEMPT_SERVING)
		return; /* it has crashed since */
	m->busy--;
	m->served++;
	f->seen[SOMETIMES_SLOW] += m->slow > 1;
	answer(f, which, 200);
	while (m->head >= 0 && m->busy < m->slots)
	{
		int next = m->head;

		m->head = f->attempts[next].next;
		if (m->head < 0)
			m->tail = -1;
		m->queued--;
		start(f, next);
	}
}

void
machine_crash(Fleet *f, int which)
{
	Machine *m = &f->machines[which];

	if (!m->up)
		return;
	m->up = false;
	f->seen[SOMETIMES_FLAP] += m->booted_us > 0 && f->now - m->booted_us < SECOND;
	for (int i = 0; i < f->nattempts; i++)
	{
		Attempt *a = &f->attempts[i];

		if (a->machine != which || (a->state != ATTEMPT_QUEUED && a->state != ATTEMPT_SERVING))
			continue;
		a->wire = (InferWire){.end = INFER_WIRE_DISCONNECT, .left = true, .request_complete = true};
		reply(f, i, m->net_us);
	}
	m->busy = m->queued = 0;
	m->head = m->tail = -1;
}

void
machine_boot(Fleet *f, int which, int64_t loads_us)
{
	Machine *m = &f->machines[which];

	if (m->up)
		return;
	m->up = true;
	m->booted_us = f->now;
	m->incarnation++;
	m->loading_until_us = f->now + loads_us;
}
