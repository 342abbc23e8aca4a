/*
 * sim/fleet_worlds.c - fleets that are made up by their seed.
 */
#include "fleet.h"

#include <stdlib.h>

#define CHAOS_US   (20 * SECOND)
#define SETTLES_US (10 * SECOND)
#define CALM_US    (6 * SECOND)

static int64_t
some_time(Fleet *f, int most_ms)
{
	return f->now + random_below(&f->random, most_ms) * MS;
}

/* Down and up again, every second. */
static void
flap(Fleet *f, int machine)
{
	int64_t at = some_time(f, 10000);

	for (int i = random_below(&f->random, 8); i >= 0; i--)
	{
		fleet_script(f, at, FLEET_CRASH, machine, 0);
		fleet_script(f, at + 500 * MS, FLEET_BOOT, machine, 0);
		at += SECOND;
	}
}

/* All at once, for long enough to be taken for failed. */
static void
all_down(Fleet *f)
{
	int64_t at = some_time(f, 8000);
	int64_t back = at + (4000 + random_below(&f->random, 6000)) * MS;

	for (int i = 0; i < f->nmachines; i++)
	{
		fleet_script(f, at, FLEET_CRASH, i, 0);
		fleet_script(f, back, FLEET_BOOT, i, random_below(&f->random, 2) * 500 * MS);
	}
}

static void
trouble(Fleet *f)
{
	Random *r = &f->random;
	int machine = random_below(r, f->nmachines);
	int64_t at = some_time(f, 15000);
	int64_t until = at + random_below(r, 8000) * MS;

	switch (random_below(r, 10))
	{
		case 0:
		case 1:
			fleet_script(f, at, FLEET_CRASH, machine, 0);
			fleet_script(f, until, FLEET_BOOT, machine,
						 random_below(r, 2) * random_below(r, 3000) * MS);
			break;
		case 2:
			flap(f, machine);
			break;
		case 3:
			fleet_script(f, at, FLEET_SILENT, machine, 1);
			fleet_script(f, until, FLEET_SILENT, machine, 0);
			break;
		case 4:
			fleet_script(f, at, FLEET_BROKEN, machine, 1);
			fleet_script(f, until, FLEET_BROKEN, machine, 0);
			break;
		case 5:
			fleet_script(f, at, FLEET_GLOOMY, machine, 1);
			fleet_script(f, until, FLEET_GLOOMY, machine, 0);
			break;
		case 6:
			fleet_script(f, at, FLEET_SLOW, machine, 200 + random_below(r, 2000));
			fleet_script(f, until, FLEET_SLOW, machine, 100);
			break;
		case 7:
			for (int i = 0; i < f->nmachines; i++)
				if (i == machine || random_below(r, 4) != 0)
				{
					fleet_script(f, at, FLEET_AMNESIC, i, 1);
					fleet_script(f, until, FLEET_AMNESIC, i, 0);
				}
			break;
		case 8:
			fleet_script(f, at, FLEET_KILL, random_below(r, f->nclients),
						 random_below(r, 2000) * MS);
			break;
		default:
			all_down(f);
	}
}

static void
random_machines(Fleet *f)
{
	Random *r = &f->random;
	int n = 2 + random_below(r, FLEET_SERVERS - 1);
	int nodes = 1 + random_below(r, 3);

	for (int i = 0; i < n; i++)
	{
		Machine *m = &f->machines[fleet_machine(f, random_below(r, nodes))];

		m->slots = 1 + random_below(r, 6);
		m->queue = random_below(r, 2) == 0 ? -1 : random_below(r, 4);
		m->base_us = 30000.0 + random_unit(r) * random_unit(r) * 400000;
		m->sigma = random_below(r, 2) * random_unit(r) * 0.8;
		m->net_us = 50 + random_below(r, 3000);
		m->honours = random_below(r, 2) == 0;
	}
}

Fleet *
fleet_random(uint64_t seed, FleetMutation mutation)
{
	Fleet *f = fleet_new(seed);
	Random *r = &f->random;
	int nclients = 2 + random_below(r, 9);

	f->mutation = mutation;
	f->stops_at_violation = mutation != FLEET_SOUND;
	random_machines(f);
	f->gateway = random_below(r, 2) == 0;
	f->locality = random_below(r, 2) == 0 ? NULL : fleet_nodes[random_below(r, 2)];
	f->timeout_us = (2 + random_below(r, 6)) * SECOND;
	f->hedge_base_us = (5 + random_below(r, 50)) * MS;
	f->lagging_most = random_below(r, FLEET_LAGGING);
	f->lagging_us = (100 + random_below(r, 3000)) * MS;
	f->config.monitor.threshold = random_below(r, 3) == 0 ? 0 : 3;
	f->rule.retry.max_attempts = 2 + random_below(r, 6);
	f->rule.stage1_retries = random_below(r, 3);
	f->rule.stage2_retries = 1 + random_below(r, 3);
	f->rule.all_failed_wait_us = (200 + random_below(r, 1000)) * MS;
	f->cancels = 0.03;
	f->by_reference = random_below(r, 3) == 0 ? 0.3 : 0;
	f->hedges = random_below(r, 2) * 0.7;
	f->permits_ambiguous = random_unit(r) * 0.6;
	f->never_retries = 0.05;
	f->keyed = random_below(r, 2) * 0.5;
	for (int i = 0; i < nclients; i++)
		fleet_client(f, -1, (1 + random_below(r, 100)) * MS);
	for (int i = random_below(r, 6); i >= 0; i--)
		trouble(f);
	f->healed_us = f->now + CHAOS_US;
	f->settled_us = f->healed_us + SETTLES_US;
	f->stop_us = f->settled_us + CALM_US;
	fleet_script(f, f->healed_us, FLEET_HEAL, 0, 0);
	fleet_begin(f);
	fleet_run(f, f->stop_us + 300 * SECOND);
	if (f->violations == 0)
		check_fleet_end(f);
	return f;
}

static int
compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *) a;
	int64_t y = *(const int64_t *) b;

	return (x > y) - (x < y);
}

double
fleet_percentile(Fleet *f, double part)
{
	int at = (int) (part * f->ntook);

	if (f->ntook == 0)
		return 0;
	qsort(f->took, (size_t) f->ntook, sizeof(int64_t), compare);
	return (double) f->took[at < f->ntook ? at : f->ntook - 1];
}
