/*
 * core/budget.h - what was spent, and what may be: calls, tokens, cost.
 *
 * A request is charged before it leaves with what it may take, and corrected when it is known what
 * it took.  An account is what one role has spent on one day, charges of requests on their way
 * included.  Pure and flat: an InferAccount lives in shared memory, under somebody else's lock.
 */
#ifndef INFER_CORE_BUDGET_H
#define INFER_CORE_BUDGET_H

#include "core/types.h"

/* Spent, wanted, or the limits of a budget, where 0 is no limit. */
typedef struct InferAmount
{
	int64_t calls;
	int64_t tokens;
	double cost; /* in units of the models' prices */
} InferAmount;

typedef enum InferBudgetKind
{
	INFER_BUDGET_NONE,
	INFER_BUDGET_CALLS,
	INFER_BUDGET_TOKENS,
	INFER_BUDGET_COST
} InferBudgetKind;

typedef struct InferAccount
{
	int32_t day;
	InferAmount used; /* on that day */
} InferAccount;

/* Is there any limit? */
extern bool infer_budget_limits(const InferAmount *limits);
/* The first of the limits that would be exceeded. */
extern InferBudgetKind infer_budget_exceeded(const InferAmount *used, const InferAmount *limits,
											 const InferAmount *wanted);
/* Nothing of it ever falls below zero. */
extern void infer_amount_add(InferAmount *amount, const InferAmount *change);

/*
 * Charges what is wanted, if the limits allow.  *day: today; an account never goes back to an
 * earlier day (a clock that is set back must not give a new budget), so it comes back as the day
 * that was charged.
 */
extern InferBudgetKind infer_account_charge(InferAccount *account, int32_t *day,
											const InferAmount *limits, const InferAmount *wanted);
/* Changes what was charged on that day, if the account has not gone on to a later one. */
extern void infer_account_correct(InferAccount *account, int32_t day, const InferAmount *change);

#endif
