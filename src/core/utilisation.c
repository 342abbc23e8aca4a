/*
 * core/utilisation.c - how busy a server was of late, and the load factor of its node.
 */
#include "core/utilisation.h"

#define PERCENTILE 75

void
infer_utilisation_sample(InferUtilisation *u, double utilisation)
{
	uint16_t sample = 0;

	if (utilisation >= 1)
		sample = INFER_UTILISATION_STEPS;
	else if (utilisation > 0) /* not NAN */
	{
		sample = (uint16_t) (utilisation * INFER_UTILISATION_STEPS + 0.5);
		if (sample == 0)
			sample = 1; /* hardly busy is not idle */
	}
	u->samples[u->next++ % INFER_UTILISATION_SAMPLES] = sample;
}

void
infer_load_add(InferLoad *load, const InferUtilisation *u)
{
	for (int i = 0; i < INFER_UTILISATION_SAMPLES; i++)
	{
		if (u->samples[i] == 0)
			continue;
		load->counts[u->samples[i]]++;
		load->n++;
	}
}

double
infer_load_factor(const InferLoad *load)
{
	uint32_t wanted = (load->n * PERCENTILE + 99) / 100;
	uint32_t seen = 0;

	if (load->n == 0)
		return 0;
	for (int i = 1; i <= INFER_UTILISATION_STEPS; i++)
	{
		seen += load->counts[i];
		if (seen >= wanted)
			return (double) i / INFER_UTILISATION_STEPS;
	}
	return 1;
}
