/*
 * sim/clock.h - what the simulated worlds share: chance from a seed, and events in their order.
 */
#ifndef INFER_SIM_CLOCK_H
#define INFER_SIM_CLOCK_H

#include "core/admission.h"

#include <stddef.h>
#include <stdint.h>

#define SECOND INT64_C(1000000)
#define MS     INT64_C(1000)

typedef struct Random
{
	uint64_t state;
} Random;

extern double random_unit(Random *r); /* [0, 1) */
extern int random_below(Random *r, int n);
extern double random_lognormal(Random *r, double mean, double sigma);

/* Kind and which are the world's; life, to know events whose cause is gone. */
typedef struct Event
{
	int64_t at;
	uint64_t seq;
	int kind;
	int which;
	uint32_t life;
} Event;

/* By time, then in the order of adding. Memory must be zero before the first. */
typedef struct Events
{
	Event *heap;
	int n;
	int size;
	uint64_t seq;
} Events;

extern void events_add(Events *events, Event event);
extern Event events_next(Events *events); /* n > 0 */
extern void events_free(Events *events);

/* What both worlds begin with: a server whose limit is to be found, and that has not failed. */
extern InferAdmissionConfig sim_config(void);
/* Zeroed memory; ends the program when there is none. */
extern void *sim_new(size_t size);
/* Doubles an array; ends the program when memory does. */
extern void *sim_grow(void *array, int *size, size_t each);

#endif
