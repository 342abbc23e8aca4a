/*
 * sim/scenarios.h - the worlds that test_scenarios.c judges and simulate.c draws or repeats.
 */
#ifndef INFER_SIM_SCENARIOS_H
#define INFER_SIM_SCENARIOS_H

#include "world.h"

typedef struct Result
{
	double seconds;
	double ratio;   /* of the ideal to that */
	double refused; /* of the requests that were served, a fraction */
	int peak;       /* at the server */
	double use;     /* of its slots, in the time looked at */
	double jain;    /* fairness, where several compete */
	double limit;   /* of the first instance, at the end */
	double longest_wait_s;
	int failed;
	int dials; /* while nobody listened */
	int64_t given_up;
	int violations;
	char first_violation[200];
} Result;

/* What differs from the usual. */
typedef struct Variant
{
	uint64_t seed;
	uint32_t without; /* rules left out */
	double jitter;    /* sigma */
	bool warm;        /* a statement has run before */
	bool forgets;     /* what it learnt */
	bool blind;       /* nobody knows how many rows are left */
	bool never_cools; /* a server that fails */
	bool curves;      /* keep them: see last_world */
} Variant;

/* The jobs of the design: 2,000 rows on 64 slots of 100 ms, that many rows ... */
extern Result job_J2(int64_t rows, const Variant *v);
extern Result job_J3(const Variant *v);
extern Result job_J6(int64_t rows, const Variant *v);
extern Result job_no_latency(const Variant *v);
/* So many rows on so many slots, 256 of J6's say, after a short statement on the same server. */
extern Result after_a_short_one(int64_t rows, int slots, const Variant *v);
/* So many slots become 64; use is that from 10 s after the change on. */
extern Result recovery(int from, int queue, const Variant *v);
/* Instances that know nothing of each other on one server; queue < 0: it queues. */
extern Result several_instances(int n, int queue, const Variant *v);
extern Result many_sessions(const Variant *v);
extern Result one_high_among_low(const Variant *v);
extern Result trickle_then_burst(const Variant *v);
extern Result after_a_storm(const Variant *v);
extern Result small_server(const Variant *v);
/* Fails for so many seconds, from the start or after 5 s. failed: requests that it got meanwhile,
 * given_up: rows, seconds: until the last session was done. */
extern Result dead_server(int sessions, int64_t patience_s, const Variant *v);
extern Result outage(int sessions, int for_s, const Variant *v);
/* Nobody listens for so many ms from the start; failures are no reason to leave it alone. */
extern Result dead_host(int sessions, int for_ms, const Variant *v);
/* The most that reached the server in one minute is .peak, what it got of its rpm .use. */
extern Result requests_per_minute(const Variant *v);

/* A world made up by its seed, run to its end; break_it: a mutation by number, 0 = none. */
typedef enum Mutation
{
	MUTATION_NONE,
	MUTATION_NO_EPOCHS,
	MUTATION_RELEASE_FIRST,
	MUTATION_WAKE_ONE,
	MUTATION_NO_RECLAIM,
	MUTATION_PROBE_ALWAYS,
	MUTATION_DIAL_ALWAYS
} Mutation;

extern World *random_world(uint64_t seed, Mutation mutation);

/* With curves: the world of the last run, to be drawn and freed by the caller. */
extern World *last_world;

#endif
