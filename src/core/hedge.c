/*
 * core/hedge.c - when a second copy is due, and what pays for it.  See core/hedge.h.
 */
#include "core/hedge.h"

#define GROWTH          40 /* .01 */
#define DECAY           1  /* .00025 */
#define MOST_MULTIPLIER (1000 * INFER_HEDGE_ONE)
#define LONGEST_US      INT64_C(86400000000)

void
infer_hedge_init(InferHedge *h)
{
	*h = (InferHedge){.multiplier = INFER_HEDGE_ONE};
}

int64_t
infer_hedge_delay_us(const InferHedge *h, InferAttemptKind kind, bool permitted, int64_t first_us,
					 int64_t second_us, int64_t base_us)
{
	double delay_us =
		(double) h->multiplier / INFER_HEDGE_ONE * (double) second_us + (double) base_us;

	if (kind != INFER_ATTEMPT_FIRST || !permitted)
		return INFER_HEDGE_NEVER;
	if ((double) first_us > 2 * delay_us)
		return 0;
	return delay_us < (double) LONGEST_US ? (int64_t) delay_us : LONGEST_US;
}

bool
infer_hedge_take(InferHedge *h, bool permitted)
{
	if (!permitted)
		return false;
	if (h->budget < INFER_HEDGE_COPY)
	{
		h->denied++;
		return false;
	}
	h->budget -= INFER_HEDGE_COPY;
	h->multiplier += GROWTH;
	if (h->multiplier > MOST_MULTIPLIER)
		h->multiplier = MOST_MULTIPLIER;
	h->sent++;
	return true;
}

void
infer_hedge_untake(InferHedge *h)
{
	h->budget += INFER_HEDGE_COPY;
	if (h->budget > INFER_HEDGE_MOST)
		h->budget = INFER_HEDGE_MOST;
	h->multiplier -= GROWTH;
	if (h->multiplier < INFER_HEDGE_ONE)
		h->multiplier = INFER_HEDGE_ONE;
	h->sent--;
}

void
infer_hedge_landed(InferHedge *h, InferAttemptKind kind, bool copied, bool late, bool won)
{
	h->late += late;
	h->wins += won && kind == INFER_ATTEMPT_COPY;
	if (kind == INFER_ATTEMPT_COPY || copied || late)
		return;
	if (h->budget < INFER_HEDGE_MOST)
		h->budget++;
	h->multiplier -= DECAY;
	if (h->multiplier < INFER_HEDGE_ONE)
		h->multiplier = INFER_HEDGE_ONE;
}
