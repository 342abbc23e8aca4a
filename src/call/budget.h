/*
 * call/budget.h - the budgets of a statement and of a role's day, before a request leaves.
 */
#ifndef INFER_CALL_BUDGET_H
#define INFER_CALL_BUDGET_H

#include "postgres.h"

#include "call/types.h"

/*
 * May the loose batch, whose place is known, be sent there?  What the budgets allow is charged;
 * only the answers beyond that fail.  Where nothing is left the batch is freed, and false is
 * returned.
 */
extern bool infer_budget_allows(InferBatch *batch);
/* ... as a copy of one that is on its way, with nothing cut and nothing failed? */
extern bool infer_budget_allows_copy(InferBatch *batch);

#endif
