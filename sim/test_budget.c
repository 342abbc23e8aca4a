/*
 * sim/test_budget.c - src/core/budget: limits, charges and corrections of an account.
 */
#include "core/budget.h"
#include "tap.h"

#include <math.h>

static const InferAmount no_limits = {0, 0, 0};
static const InferAmount limits = {10, 1000, 2.5};

static InferBudgetKind
exceeded(int64_t calls, int64_t tokens, double cost)
{
	InferAmount used = {calls, tokens, cost};
	InferAmount wanted = {1, 10, 0.5};

	return infer_budget_exceeded(&used, &limits, &wanted);
}

static void
test_budget_limits(void)
{
	InferAmount used = {1000, 1000000, 1e6};

	CHECK(!infer_budget_limits(&no_limits));
	CHECK(infer_budget_exceeded(&used, &no_limits, &limits) == INFER_BUDGET_NONE);
	CHECK(infer_budget_limits(&(InferAmount){1, 0, 0}));
	CHECK(infer_budget_limits(&(InferAmount){0, 1, 0}));
	CHECK(infer_budget_limits(&(InferAmount){0, 0, 0.1}));
	/* each up to the last, and no further */
	CHECK(exceeded(9, 990, 2) == INFER_BUDGET_NONE);
	CHECK(exceeded(10, 0, 0) == INFER_BUDGET_CALLS);
	CHECK(exceeded(0, 991, 0) == INFER_BUDGET_TOKENS);
	CHECK(exceeded(0, 0, 2.01) == INFER_BUDGET_COST);
	/* sums of fractions come short of a round figure, or a hair beyond it */
	used = no_limits;
	for (int i = 0; i < 24; i++)
		infer_amount_add(&used, &(InferAmount){0, 0, 0.1});
	CHECK(infer_budget_exceeded(&used, &(InferAmount){0, 0, 2.5}, &(InferAmount){0, 0, 0.1}) ==
		  INFER_BUDGET_NONE);
	CHECK(infer_budget_exceeded(&used, &(InferAmount){0, 0, 2.5}, &(InferAmount){0, 0, 0.2}) ==
		  INFER_BUDGET_COST);
}

static void
test_budget_amounts(void)
{
	InferAmount amount = {2, 20, 0.5};

	infer_amount_add(&amount, &(InferAmount){1, -5, 0.25});
	CHECK(amount.calls == 3 && amount.tokens == 15 && amount.cost == 0.75);
	infer_amount_add(&amount, &(InferAmount){-4, -16, -1});
	CHECK(amount.calls == 0 && amount.tokens == 0 && amount.cost == 0);
	infer_amount_add(&amount, &(InferAmount){0, 0, NAN});
	CHECK(amount.cost == 0);
}

static void
test_budget_account(void)
{
	InferAccount account = {0};
	int32_t day = 7;

	CHECK(infer_account_charge(&account, &day, &limits, &(InferAmount){8, 800, 1}) ==
		  INFER_BUDGET_NONE);
	CHECK(day == 7 && account.used.calls == 8 && account.used.tokens == 800);
	/* what is refused changes nothing */
	CHECK(infer_account_charge(&account, &day, &limits, &(InferAmount){3, 1, 0}) ==
		  INFER_BUDGET_CALLS);
	CHECK(account.used.calls == 8 && account.used.tokens == 800 && account.used.cost == 1);
	/* what was given back can be had */
	infer_account_correct(&account, 7, &(InferAmount){-1, -700, 0.5});
	CHECK(account.used.calls == 7 && account.used.tokens == 100 && account.used.cost == 1.5);
	CHECK(infer_account_charge(&account, &day, &limits, &(InferAmount){3, 900, 1}) ==
		  INFER_BUDGET_NONE);
}

static void
test_budget_days(void)
{
	InferAccount account = {0};
	int32_t day = 7;

	(void) infer_account_charge(&account, &day, &limits, &(InferAmount){10, 0, 0});
	day = 8;
	CHECK(infer_account_charge(&account, &day, &limits, &(InferAmount){1, 5, 0}) ==
		  INFER_BUDGET_NONE);
	CHECK(account.day == 8 && account.used.calls == 1);
	/* an answer to what was sent yesterday is yesterday's */
	infer_account_correct(&account, 7, &(InferAmount){-5, 100, 1});
	CHECK(account.used.calls == 1 && account.used.tokens == 5 && account.used.cost == 0);
	/* a clock that is set back gives no new day */
	day = 6;
	CHECK(infer_account_charge(&account, &day, &limits, &(InferAmount){9, 0, 0}) ==
		  INFER_BUDGET_NONE);
	CHECK(day == 8 && account.used.calls == 10);
	day = 6;
	CHECK(infer_account_charge(&account, &day, &limits, &(InferAmount){1, 0, 0}) ==
		  INFER_BUDGET_CALLS);
	/* spending without a limit begins a day as well */
	infer_account_correct(&account, 9, &(InferAmount){2, 0, 0});
	CHECK(account.day == 9 && account.used.calls == 2);
}

int
main(void)
{
	TEST(budget_limits);
	TEST(budget_amounts);
	TEST(budget_account);
	TEST(budget_days);
	return tap_done();
}
