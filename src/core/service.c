/*
 * core/service.c - latency and useful concurrency of one key's server.  Why: core/service.h.
 */
#include "core/service.h"

#include <math.h>

#define HORIZON_WEIGHT   0.125
#define FIRST_HORIZON_US 1000000.0
/* A group's mean says something from so many answers on; more than that many are not needed. */
#define GROUP_LEAST 32
#define GROUP_MOST  64
/* A mean of this many bests is a queue, not noise. */
#define QUEUE_FACTOR 1.2
#define RENEW_GROUPS 64
/* So much at a time: others may have filled the queue that we have drained. */
#define MOST_RENEWAL 1.25

void
infer_service_init(InferService *s, bool fastest)
{
	*s = (InferService){.fastest = fastest, .horizon = FIRST_HORIZON_US};
}

static void
close_group(InferService *s)
{
	double mean = s->sum / s->count;
	double variance = s->squares / s->count - mean * mean;
	double error = sqrt((variance > 0 ? variance : 0) / s->count);
	double bound = mean + error;

	s->least = mean - 2 * error;
	s->count = 0;
	s->sum = 0;
	s->squares = 0;
	s->most_before = s->most;
	s->most = 0;
	if (s->draining > 0)
	{
		if (--s->draining == 0)
			s->best = bound < MOST_RENEWAL * s->best ? bound : MOST_RENEWAL * s->best;
	}
	else if (s->blocked >= RENEW_GROUPS)
	{
		s->blocked = 0;
		s->draining = 3;
	}
	if (!s->fastest && (s->best <= 0 || bound < s->best))
		s->best = bound;
}

bool
infer_service_answer(InferService *s, int64_t rtt_us, uint32_t answered, double limit)
{
	double rtt = rtt_us > 1 ? (double) rtt_us : 1;
	double group = limit < GROUP_LEAST ? GROUP_LEAST : limit > GROUP_MOST ? GROUP_MOST : limit;
	double best;

	s->answered++;
	s->horizon = s->samples++ == 0 ? rtt : s->horizon + HORIZON_WEIGHT * (rtt - s->horizon);
	s->count++;
	s->sum += rtt;
	s->squares += rtt * rtt;
	if (s->fastest && (s->best <= 0 || rtt < s->best))
		s->best = rtt;

	/* the answers during a short life are few, and their number is mostly luck */
	best = s->best > 0 ? s->best : s->horizon;
	if (rtt >= 0.9 * best)
	{
		double useful = (double) (uint32_t) (s->answered - answered) * best / rtt;

		if (useful > s->most)
			s->most = useful;
	}
	if (s->count < group)
		return false;
	close_group(s);
	return true;
}

double
infer_service_useful(const InferService *s)
{
	return s->most > s->most_before ? s->most : s->most_before;
}

bool
infer_service_queues(const InferService *s)
{
	return s->best > 0 && s->least > QUEUE_FACTOR * s->best;
}

void
infer_service_blocks(InferService *s)
{
	if (s->count == 0)
		s->blocked++;
}
