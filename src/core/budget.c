/*
 * core/budget.c - what was spent, and what may be.
 */
#include "core/budget.h"

/* Costs are sums of corrected fractions: what they lack to a round figure is no money. */
#define COST_TOLERANCE 1e-9

bool
infer_budget_limits(const InferAmount *limits)
{
	return limits->calls > 0 || limits->tokens > 0 || limits->cost > 0;
}

InferBudgetKind
infer_budget_exceeded(const InferAmount *used, const InferAmount *limits, const InferAmount *wanted)
{
	if (limits->calls > 0 && used->calls + wanted->calls > limits->calls)
		return INFER_BUDGET_CALLS;
	if (limits->tokens > 0 && used->tokens + wanted->tokens > limits->tokens)
		return INFER_BUDGET_TOKENS;
	if (limits->cost > 0 && used->cost + wanted->cost > limits->cost * (1 + COST_TOLERANCE))
		return INFER_BUDGET_COST;
	return INFER_BUDGET_NONE;
}

void
infer_amount_add(InferAmount *amount, const InferAmount *change)
{
	amount->calls += change->calls;
	amount->tokens += change->tokens;
	amount->cost += change->cost;
	if (amount->calls < 0)
		amount->calls = 0;
	if (amount->tokens < 0)
		amount->tokens = 0;
	if (!(amount->cost >= 0))
		amount->cost = 0;
}

static void
open_day(InferAccount *account, int32_t day)
{
	if (account->day < day)
		*account = (InferAccount){.day = day};
}

InferBudgetKind
infer_account_charge(InferAccount *account, int32_t *day, const InferAmount *limits,
					 const InferAmount *wanted)
{
	InferBudgetKind kind;

	open_day(account, *day);
	*day = account->day;
	kind = infer_budget_exceeded(&account->used, limits, wanted);
	if (kind == INFER_BUDGET_NONE)
		infer_amount_add(&account->used, wanted);
	return kind;
}

void
infer_account_correct(InferAccount *account, int32_t day, const InferAmount *change)
{
	open_day(account, day);
	if (account->day == day)
		infer_amount_add(&account->used, change);
}
