/*
 * core/service.h - what the answers of one key tell about its server: how long it takes, and how
 * many requests at a time are of use.
 *
 * horizon   the reference's service horizon (async-rpc.md 3.4): moving average of the latencies of
 *           successes, weight 1/8, one second before the first.
 * best      the lowest mean latency of a group of answers: what the server takes when nothing has
 *           to wait there.  Means, not the fastest answer: rule 1 of adaptive.md.  The lowest of
 *           many means would be too low by luck, so each has its standard error added.
 * useful    Little's law: answers per second times best (rules 2 and 8).  More than that in flight
 *           only waits at the server.  The rate is counted over the life of a request: how many
 *           were answered since it was sent.  In a steady state that is what was in flight one
 *           latency ago, so a limit of G times useful multiplies by at most G in one latency.
 *
 * A best that is never renewed would throttle a server that has become slower for good, one that
 * follows the mean would take the queue for the server.  So after RENEW_GROUPS groups in which the
 * estimate was in somebody's way, the limit goes below useful for three groups (draining), and the
 * mean of the third one, which found no queue, is the new best; at most a quarter more than the old
 * one, for the queue may be that of others, which we cannot drain.
 *
 * Pure and flat; part of InferLimiter, under its lock.
 */
#ifndef INFER_CORE_SERVICE_H
#define INFER_CORE_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct InferService
{
	bool fastest; /* without rule 1: compare with the fastest answer ever */
	/* us */
	double horizon;
	double best;  /* 0 = no group yet */
	double least; /* of the last group: its mean, less twice its standard error */
	/* the group */
	int count;
	double sum;
	double squares;
	/* useful: the most of this group and of the last one */
	double most;
	double most_before;
	uint32_t answered; /* ever; wraps */
	int64_t samples;
	/* renewal of best */
	int blocked;
	int draining; /* groups to go */
} InferService;

/* Of which nothing is known. */
extern void infer_service_init(InferService *s, bool fastest);
/* A success; answered: s->answered when it was sent; limit: how many a window's worth is. Returns
 * whether this closed a group. */
extern bool infer_service_answer(InferService *s, int64_t rtt_us, uint32_t answered, double limit);
/* Requests worth having in flight; 0 = not known yet. */
extern double infer_service_useful(const InferService *s);
/* The last group waited at the server. */
extern bool infer_service_queues(const InferService *s);
/* The estimate has kept somebody from growing, in this group. */
extern void infer_service_blocks(InferService *s);

#endif
