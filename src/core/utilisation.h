/*
 * core/utilisation.h - how busy a server was of late, and the load factor of its node.
 *
 * A server's utilisation is sampled once a tick; the last 32 samples are kept.  The load factor of
 * a node is the 75th percentile of the samples of all its servers in which they were not idle: so
 * it says how busy they are when they are, and a node that stands idle for 32 ticks has none.
 *
 * FOR THE CALLER.  Flat, lives in shared memory, under its lock.  Memory must be zero before the
 * first use.
 */
#ifndef INFER_CORE_UTILISATION_H
#define INFER_CORE_UTILISATION_H

#include <stdint.h>

#define INFER_UTILISATION_SAMPLES 32
#define INFER_UTILISATION_STEPS   1000

typedef struct InferUtilisation
{
	uint16_t samples[INFER_UTILISATION_SAMPLES]; /* in thousandths; 0 = idle, or none yet */
	uint32_t next;
} InferUtilisation;

/* Samples of all servers of a node, counted. Memory must be zero before the first. */
typedef struct InferLoad
{
	uint32_t counts[INFER_UTILISATION_STEPS + 1];
	uint32_t n;
} InferLoad;

/* 0 to 1; what is more counts as 1, what is no number as idle. */
extern void infer_utilisation_sample(InferUtilisation *u, double utilisation);
extern void infer_load_add(InferLoad *load, const InferUtilisation *u);
/* 0 = idle. */
extern double infer_load_factor(const InferLoad *load);

#endif
