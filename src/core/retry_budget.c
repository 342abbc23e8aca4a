/*
 * core/retry_budget.c - how many retries the traffic of an admission key can bear.  Why:
 * core/retry_budget.h.
 */
#include "core/retry_budget.h"

#define RETRY INT64_C(1000000)

void
infer_retry_budget_earn(InferRetryBudget *budget, int percent)
{
	int64_t most = (INFER_RETRY_BUDGET_MOST - INFER_RETRY_BUDGET_START) * RETRY;

	budget->earned += RETRY * percent / (100 - percent);
	if (budget->earned > most)
		budget->earned = most;
}

bool
infer_retry_budget_spend(InferRetryBudget *budget)
{
	if (budget->earned + INFER_RETRY_BUDGET_START * RETRY < RETRY)
		return false;
	budget->earned -= RETRY;
	return true;
}
