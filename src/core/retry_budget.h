/*
 * core/retry_budget.h - how many retries the traffic of an admission key can bear.
 *
 * A server that fails much would otherwise get a multiple of its load at the worst moment, from
 * many sessions that each stay within their own max_attempts.  So retries may be a share of all
 * attempts: at 20 per cent each first attempt earns a quarter of a retry.  A new key has some to
 * begin with, for there is no traffic yet, and nobody saves up more than 100.
 *
 * Counted in integers (millionths of a retry), so that four quarters are one.  Pure and flat;
 * memory that is zero is a new key's.
 */
#ifndef INFER_CORE_RETRY_BUDGET_H
#define INFER_CORE_RETRY_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define INFER_RETRY_BUDGET_START 10
#define INFER_RETRY_BUDGET_MOST  100
#define INFER_RETRY_BUDGET_OFF   100 /* per cent */

typedef struct InferRetryBudget
{
	int64_t earned; /* millionths of a retry beyond INFER_RETRY_BUDGET_START; may be negative */
} InferRetryBudget;

/* A first attempt was made; percent: the share of attempts that may be retries, from 1 to 99. */
extern void infer_retry_budget_earn(InferRetryBudget *budget, int percent);
/* Takes a retry, if there is one. */
extern bool infer_retry_budget_spend(InferRetryBudget *budget);

#endif
