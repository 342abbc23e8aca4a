/*
 * sim/clock.c - chance, and events in their order.
 */
#include "clock.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* splitmix64 */
static uint64_t
random_next(Random *r)
{
	uint64_t z = (r->state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

double
random_unit(Random *r)
{
	return (double) (random_next(r) >> 11) / 9007199254740992.0;
}

int
random_below(Random *r, int n)
{
	return (int) (random_unit(r) * n);
}

double
random_lognormal(Random *r, double mean, double sigma)
{
	double u = 1 - random_unit(r);
	double v = random_unit(r);
	double normal = sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);

	return mean * exp(sigma * normal - sigma * sigma / 2);
}

InferAdmissionConfig
sim_config(void)
{
	return (InferAdmissionConfig){.limiter = {.ceiling = 1024,
											  .start = 16,
											  .floor = 1,
											  .decrease_factor = 0.5,
											  .adaptive = true,
											  .rules = INFER_RULES_ALL},
								  .monitor = {.threshold = 3, .cooldown_us = SECOND}};
}

void *
sim_new(size_t size)
{
	void *memory = calloc(1, size);

	if (memory == NULL)
	{
		fprintf(stderr, "out of memory\n");
		exit(2);
	}
	return memory;
}

void *
sim_grow(void *array, int *size, size_t each)
{
	void *bigger;

	*size = *size == 0 ? 64 : *size * 2;
	bigger = realloc(array, (size_t) *size * each);
	if (bigger == NULL)
	{
		fprintf(stderr, "out of memory\n");
		exit(2);
	}
	return bigger;
}

static bool
earlier(const Event *a, const Event *b)
{
	return a->at < b->at || (a->at == b->at && a->seq < b->seq);
}

void
events_add(Events *events, Event event)
{
	int i = events->n++;

	event.seq = events->seq++;
	if (events->n > events->size)
		events->heap = sim_grow(events->heap, &events->size, sizeof(Event));
	for (; i > 0 && earlier(&event, &events->heap[(i - 1) / 2]); i = (i - 1) / 2)
		events->heap[i] = events->heap[(i - 1) / 2];
	events->heap[i] = event;
}

Event
events_next(Events *events)
{
	Event first = events->heap[0];
	Event last = events->heap[--events->n];
	int i = 0;

	for (;;)
	{
		int child = 2 * i + 1;

		if (child >= events->n)
			break;
		if (child + 1 < events->n && earlier(&events->heap[child + 1], &events->heap[child]))
			child++;
		if (!earlier(&events->heap[child], &last))
			break;
		events->heap[i] = events->heap[child];
		i = child;
	}
	events->heap[i] = last;
	return first;
}

void
events_free(Events *events)
{
	free(events->heap);
	*events = (Events){0};
}
