/*
 * call/budget.c - the budgets of a statement and of a role's day, held against what a request may
 * take before it leaves.
 *
 * What a statement has spent is in its memo, what a role has spent today in shared memory
 * (shmem/usage.h), where it is checked and charged under one lock, so that all sessions of a role
 * together keep its limits.  A request that does not fit is cut: what fits is sent, and only the
 * answers beyond it fail.  Calls are exact.  Tokens and cost are guesses until the answer says what
 * they were (usage.c corrects them), so requests that take more than was guessed may exceed a
 * limit.
 *
 * A budget that cannot be held against anything is used up: a model without prices under a budget
 * of cost, a role whose spending of today is not known.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "call/batch.h"
#include "call/budget.h"
#include "call/class.h"
#include "call/finish.h"
#include "call/memo.h"
#include "call/usage.h"
#include "core/budget.h"
#include "core/types.h"
#include "pg/guc.h"
#include "shmem/usage.h"

/* A kind of limit: the setting, and what to do where it is reached. */
typedef struct Limit
{
	const char *setting;
	const char *hint;
} Limit;

#define OF_STATEMENT(setting)                                                                      \
	{                                                                                              \
		setting, "Raise " setting ", or ask for fewer rows."                                       \
	}
#define OF_DAY(setting)                                                                            \
	{                                                                                              \
		setting,                                                                                   \
			"The next day begins at midnight UTC. A superuser can raise " setting " for the role." \
	}

static const Limit of_statement[] = {
	[INFER_BUDGET_CALLS] = OF_STATEMENT("pg_inference.statement_call_budget"),
	[INFER_BUDGET_TOKENS] = OF_STATEMENT("pg_inference.statement_token_budget"),
	[INFER_BUDGET_COST] = OF_STATEMENT("pg_inference.statement_cost_budget"),
};
static const Limit of_day[] = {
	[INFER_BUDGET_CALLS] = OF_DAY("pg_inference.daily_call_budget"),
	[INFER_BUDGET_TOKENS] = OF_DAY("pg_inference.daily_token_budget"),
	[INFER_BUDGET_COST] = OF_DAY("pg_inference.daily_cost_budget"),
};

static InferAmount
statement_limits(void)
{
	return (InferAmount){infer_guc_statement_call_budget, infer_guc_statement_token_budget,
						 infer_guc_statement_cost_budget};
}

static InferAmount
daily_limits(void)
{
	return (InferAmount){infer_guc_daily_call_budget, infer_guc_daily_token_budget,
						 infer_guc_daily_cost_budget};
}

static void
fail(InferBatch *batch, const char *hint, const char *detail)
{
	for (int i = 0; i < batch->nanswers; i++)
		batch->answers[i]->hint = hint;
	infer_finish_fail(batch, INFER_REASON_BUDGET, INFER_NOT_ADMITTED, 0, detail);
}

/* Is the answer another call to this budget? An input counts once in a statement, however often it
 * is attempted; on a role's day, once for each batch that carries it. */
static bool
is_call(const InferBatch *batch, int i, bool daily)
{
	return daily ? batch->charge.calls == 0 : !batch->answers[i]->counted;
}

/* So many of the batch's answers fit, and would take that; kind: the limit of the one that does
 * not. */
static int
count_fitting(const InferBatch *batch, bool daily, const InferAmount *used,
			  const InferAmount *limits, InferAmount *takes, InferBudgetKind *kind)
{
	size_t bytes = 0;

	*takes = (InferAmount){0};
	*kind = INFER_BUDGET_NONE;
	for (int i = 0; i < batch->nanswers; i++)
	{
		InferAmount next = {.calls = takes->calls + (is_call(batch, i, daily) ? 1 : 0)};

		bytes += batch->answers[i]->input_len;
		infer_usage_guess(batch->place, bytes, i + 1, &next);
		*kind = infer_budget_exceeded(used, limits, &next);
		if (*kind != INFER_BUDGET_NONE)
			return i;
		*takes = next;
	}
	return batch->nanswers;
}

/* "... is 1000, used are 990, and the next call may take 30" */
static void
describe(const InferBatch *batch, const Limit *limit, InferBudgetKind kind, const char *when,
		 const InferAmount *limits, const InferAmount *used, const InferAmount *next, char *detail,
		 size_t size)
{
	if (kind == INFER_BUDGET_CALLS)
		snprintf(detail, size, "%s is " INT64_FORMAT ", used are " INT64_FORMAT "%s",
				 limit->setting, limits->calls, used->calls, when);
	else if (kind == INFER_BUDGET_TOKENS)
		snprintf(detail, size,
				 "%s is " INT64_FORMAT ", used are " INT64_FORMAT
				 "%s, and the next call may take " INT64_FORMAT,
				 limit->setting, limits->tokens, used->tokens, when, next->tokens);
	else
		snprintf(detail, size, "%s is %g, used are %g%s, and the next call may take %g",
				 limit->setting, limits->cost, used->cost, when, next->cost);
}

/*
 * Keeps what fits under the limits and fails the rest; false if nothing fits, then the batch is
 * gone.
 */
static bool
cut(InferBatch *batch, bool daily, const InferAmount *used, const InferAmount *limits)
{
	InferAmount takes;
	InferAmount after = *used;
	InferAmount next = {0};
	InferBudgetKind kind;
	int n = count_fitting(batch, daily, used, limits, &takes, &kind);
	InferBatch *rest = batch;
	const Limit *limit;
	char detail[256];

	if (n == batch->nanswers)
		return true;
	limit = daily ? &of_day[kind] : &of_statement[kind];
	infer_amount_add(&after, &takes);
	infer_usage_guess(batch->place, batch->answers[n]->input_len, 1, &next);
	describe(batch, limit, kind, daily ? " today" : "", limits, &after, &next, detail,
			 sizeof(detail));
	if (n > 0)
	{
		rest = infer_batch_new(batch->client, batch->class);
		infer_batch_split(batch, rest, n);
		infer_batch_forget_body(batch);
	}
	fail(rest, limit->hint, detail);
	return n > 0;
}

/* A budget of cost is worth nothing where the cost is not known. */
static bool
has_prices(InferBatch *batch)
{
	const char *setting = infer_guc_statement_cost_budget > 0
							  ? of_statement[INFER_BUDGET_COST].setting
						  : infer_guc_daily_cost_budget > 0 ? of_day[INFER_BUDGET_COST].setting
															: NULL;
	char detail[128];

	if (setting == NULL || infer_usage_priced(batch->place))
		return true;
	snprintf(detail, sizeof(detail), "%s is set, and the prices of this model are not known",
			 setting);
	fail(batch,
		 "Set its input_price and output_price with infer.create_model() or infer.alter_model(), "
		 "and call it by its name.",
		 detail);
	return false;
}

/* Charges the role with all of the batch, if its day allows that; *used: what it has spent. */
static InferUsageAnswer
try_charge(InferBatch *batch, const InferAmount *limits, InferAmount *used)
{
	InferCharge *charge = &batch->charge;
	InferAmount no_limits = {0};
	InferAmount wanted;
	InferBudgetKind kind;
	InferUsageAnswer answer;

	(void) count_fitting(batch, true, &no_limits, &no_limits, &wanted, &kind);
	answer = infer_usage_charge(charge->role, &charge->day, limits, &wanted, used);
	if (answer != INFER_USAGE_CHARGED)
		return answer;
	charge->reserved = (InferAmount){.tokens = wanted.tokens, .cost = wanted.cost};
	if (wanted.calls > 0)
	{
		charge->calls = wanted.calls;
		charge->calls_day = charge->day;
	}
	return answer;
}

/* Charges the role with the batch, or with as much of it as its day allows. */
static bool
charge_role(InferBatch *batch)
{
	InferAmount limits = daily_limits();
	InferAmount used;
	char detail[128];

	for (;;)
	{
		switch (try_charge(batch, &limits, &used))
		{
			case INFER_USAGE_CHARGED:
				return true;
			case INFER_USAGE_EXCEEDED:
				if (!cut(batch, true, &used, &limits))
					return false;
				break;
			case INFER_USAGE_FULL:
				snprintf(detail, sizeof(detail),
						 "there is no room to count what the role spends: "
						 "pg_inference.max_usage_entries is %d",
						 infer_guc_max_usage_entries);
				fail(batch, "Raise pg_inference.max_usage_entries and restart the server.", detail);
				return false;
			case INFER_USAGE_UNREADABLE:
				fail(batch,
					 "The server's log says why. A superuser lets all roles begin anew with "
					 "SELECT infer.reset_usage().",
					 "the role has a daily budget, and what it has spent today is not known, for "
					 "the server could not read it");
				return false;
		}
	}
}

/* The statement has spent what the batch may take. */
static void
charge_statement(InferBatch *batch)
{
	InferAmount *spent = infer_memo_spent(batch->class->memo);
	InferAmount no_limits = {0};
	InferAmount takes;
	InferBudgetKind kind;

	(void) count_fitting(batch, false, spent, &no_limits, &takes, &kind);
	for (int i = 0; i < batch->nanswers; i++)
		batch->answers[i]->counted = true;
	infer_amount_add(spent, &takes);
	batch->charge.guess = (InferAmount){.tokens = takes.tokens, .cost = takes.cost};
}

/*
 * May the batch be sent? What the budgets allow is charged; only the answers beyond that fail.
 * Where nothing is left the batch is gone, and false is returned.
 */
bool
infer_budget_allows(InferBatch *batch)
{
	InferAmount *spent = infer_memo_spent(batch->class->memo);
	InferAmount limits = statement_limits();
	InferAmount daily = daily_limits();

	if (!has_prices(batch))
		return false;
	if (infer_budget_limits(&limits) && !cut(batch, false, spent, &limits))
		return false;
	infer_usage_open(batch);
	if (infer_budget_limits(&daily) && !charge_role(batch))
		return false;
	charge_statement(batch);
	return true;
}

/*
 * A copy is no other call of the statement, but it takes its tokens again, and on the role's day it
 * is one more request that carries these calls.
 */
bool
infer_budget_allows_copy(InferBatch *batch)
{
	InferAmount *spent = infer_memo_spent(batch->class->memo);
	InferAmount limits = statement_limits();
	InferAmount daily = daily_limits();
	InferAmount wanted;
	InferAmount used;
	InferBudgetKind kind;

	if (infer_budget_limits(&limits) &&
		count_fitting(batch, false, spent, &limits, &wanted, &kind) < batch->nanswers)
		return false;
	infer_usage_open(batch);
	if (infer_budget_limits(&daily) && try_charge(batch, &daily, &used) != INFER_USAGE_CHARGED)
		return false;
	charge_statement(batch);
	return true;
}
