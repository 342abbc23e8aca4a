/*
 * call/budget.c - statement_call_budget and statement_token_budget, looked at before a request
 * leaves.
 *
 * The memo counts (an input once, however often it is attempted; tokens as answers report them),
 * for it belongs to the statement like the budgets do.
 */
#include "postgres.h"

#include "call/internal.h"

static void
fail_for_calls(InferBatch *batch)
{
	char detail[128];

	snprintf(detail, sizeof(detail),
			 "pg_inference.statement_call_budget is %d, and as many calls were made",
			 infer_guc_statement_call_budget);
	infer_finish_fail(batch, INFER_REASON_BUDGET, INFER_NOT_ADMITTED, 0, detail);
}

/*
 * Is there anything that forbids sending it at all? Then the batch fails, and false is returned.
 * The calls that the statement has left are made: only the answers beyond them fail.
 */
bool
infer_budget_allows(InferBatch *batch)
{
	char detail[128];
	int64 used;

	if (!infer_memo_tokens_left(batch->class->memo, &used))
	{
		snprintf(detail, sizeof(detail),
				 "pg_inference.statement_token_budget is %d, used are " INT64_FORMAT,
				 infer_guc_statement_token_budget, used);
		infer_finish_fail(batch, INFER_REASON_BUDGET, INFER_NOT_ADMITTED, 0, detail);
		return false;
	}
	for (int i = 0; i < batch->nanswers; i++)
	{
		InferBatch *rest = batch;

		if (infer_memo_charge_call(batch->answers[i]))
			continue;
		if (i > 0)
		{
			rest = infer_batch_new(batch->client, batch->class);
			infer_batch_split(batch, rest, i);
		}
		fail_for_calls(rest);
		return i > 0;
	}
	return true;
}
