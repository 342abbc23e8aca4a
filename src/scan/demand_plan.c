/*
 * scan/demand_plan.c - what the plan above a scan wants of it.
 *
 * Walked once, when the executor has started: each node says of its children how many of their rows
 * it may want, and whether it stops early.  demand.c makes numbers of that.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"

#include "scan/state.h"

static void visit(PlanState *state, InferDemand demand);

/* For a child that is read to its end before anything else happens. */
static InferDemand
takes_all(InferDemand demand)
{
	return (InferDemand){.kind = INFER_DEMAND_ALL, .main_tree = demand.main_tree};
}

/* For a child of which nothing is known. */
static InferDemand
unknown(bool one_row)
{
	return (InferDemand){.kind = INFER_DEMAND_UNKNOWN, .one_row = one_row};
}

/* For a Limit's child. */
static InferDemand
limited(LimitState *state, InferDemand demand)
{
	InferLimit *limit = MemoryContextAlloc(state->ps.state->es_query_cxt, sizeof(InferLimit));

	limit->state = state;
	limit->above = demand;
	demand.limit = limit;
	demand.exact = true;
	return demand;
}

static void
visit_array(PlanState **states, int n, InferDemand demand)
{
	for (int i = 0; i < n; i++)
		visit(states[i], demand);
}

/* InitPlans and SubPlans. A CTE is visited from where it is read, too. */
static void
visit_subplans(List *subplans)
{
	ListCell *lc;

	foreach (lc, subplans)
	{
		SubPlanState *state = lfirst_node(SubPlanState, lc);
		InferDemand demand = unknown(false);

		switch (state->subplan->subLinkType)
		{
			case EXISTS_SUBLINK:
			case EXPR_SUBLINK:
			case MULTIEXPR_SUBLINK:
			case ROWCOMPARE_SUBLINK:
				demand.one_row = true;
				break;
			case ARRAY_SUBLINK:
				demand.kind = INFER_DEMAND_ALL;
				break;
			case ANY_SUBLINK:
			case ALL_SUBLINK:
				if (state->subplan->useHashTable)
					demand.kind = INFER_DEMAND_ALL;
				else
					demand.one_row = true; /* the first one may settle it */
				break;
			default:
				break;
		}
		visit(state->planstate, demand);
	}
}

/*
 * Two readers of a CTE, each of which wants what the other may have read already.  Where one of
 * them may stop early, the scan starts with a row.  A limit within the CTE holds for both.
 */
static InferDemand
either(InferDemand a, InferDemand b)
{
	if (a.limit != NULL && b.limit != NULL && a.limit->state == b.limit->state)
	{
		InferDemand both = limited(a.limit->state, either(a.limit->above, b.limit->above));

		both.exact = a.exact;
		return both;
	}
	if (a.hash_join != b.hash_join)
		b.hash_join = NULL;
	if (a.limit == NULL && !a.one_row && b.limit == NULL && !b.one_row)
		return b;
	return (InferDemand){.kind = INFER_DEMAND_UNKNOWN, .one_row = true, .cte = true};
}

/* An InferScan passes on what is wanted of it, row for row unless it filters. */
static void
visit_scan(InferScanState *scan, InferDemand demand)
{
	if (scan->demand.cte && demand.cte)
		demand = either(scan->demand, demand);
	if (scan->demand.kind != INFER_DEMAND_ALL)
		scan->demand = demand;
	demand.exact = demand.exact && scan->nfilters == 0;
	visit(outerPlanState(&scan->css.ss.ps), demand);
}

/* Unless it returns outer rows without a partner, it ends if the inner side is empty. */
static void
visit_hashjoin(HashJoinState *state, InferDemand demand)
{
	visit(innerPlanState(state), demand);
	if (state->hj_NullInnerTupleSlot == NULL)
	{
		InferHashJoin *join =
			MemoryContextAlloc(state->js.ps.state->es_query_cxt, sizeof(InferHashJoin));

		join->state = state;
		join->above = demand.hash_join;
		demand.hash_join = join;
	}
	visit(outerPlanState(state), demand);
}

static void
visit_nestloop(NestLoopState *join, InferDemand demand)
{
	visit(outerPlanState(join), demand);
	if (join->js.single_match || join->js.jointype == JOIN_SEMI || join->js.jointype == JOIN_ANTI)
		demand = unknown(true);
	visit(innerPlanState(join), demand);
}

/* It ends with the side that ends first, unless it returns the rest of the other one too. */
static void
visit_mergejoin(MergeJoinState *join, InferDemand demand)
{
	InferDemand partly = demand;

	partly.kind = INFER_DEMAND_UNKNOWN;
	visit(outerPlanState(join), join->mj_FillOuter ? demand : partly);
	visit(innerPlanState(join), join->mj_FillInner ? demand : partly);
}

/*
 * Tells the scans below what is wanted of them.  Nodes that are not named here may drop or multiply
 * rows: the demand passes on as a guess.
 */
static void
visit(PlanState *state, InferDemand demand)
{
	if (state == NULL)
		return;
	check_stack_depth();
	visit_subplans(state->initPlan);
	visit_subplans(state->subPlan);
	if (state->qual != NULL)
		demand.exact = false;
	switch (nodeTag(state))
	{
		case T_LimitState:
			visit(outerPlanState(state), limited((LimitState *) state, demand));
			return;
		case T_ResultState:
			visit(outerPlanState(state), demand);
			return;
		case T_SubqueryScanState:
			visit(((SubqueryScanState *) state)->subplan, demand);
			return;
		case T_AppendState:
			visit_array(((AppendState *) state)->appendplans, ((AppendState *) state)->as_nplans,
						demand);
			return;
		case T_MergeAppendState:
			visit_array(((MergeAppendState *) state)->mergeplans,
						((MergeAppendState *) state)->ms_nplans, demand);
			return;
		case T_CustomScanState:
			if (infer_scan_is(state))
				visit_scan((InferScanState *) state, demand);
			return;
		case T_CteScanState:
			demand.exact = false;
			demand.main_tree = false;
			demand.cte = true;
			visit(((CteScanState *) state)->cteplanstate, demand);
			return;
		case T_ModifyTableState:
			if (((ModifyTable *) state->plan)->returningLists == NIL)
				demand = takes_all(demand);
			break;
		case T_AggState:
			if (((Agg *) state->plan)->aggstrategy == AGG_PLAIN ||
				((Agg *) state->plan)->aggstrategy == AGG_HASHED)
				demand = takes_all(demand);
			break;
		case T_SortState:
		case T_HashState:
			demand = takes_all(demand);
			break;
		case T_NestLoopState:
			demand.exact = false;
			visit_nestloop((NestLoopState *) state, demand);
			return;
		case T_HashJoinState:
			demand.exact = false;
			visit_hashjoin((HashJoinState *) state, demand);
			return;
		case T_MergeJoinState:
			demand.exact = false;
			visit_mergejoin((MergeJoinState *) state, demand);
			return;
		default:
			break;
	}
	demand.exact = false;
	visit(outerPlanState(state), demand);
	visit(innerPlanState(state), demand);
}

/* Tells all scans of an execution, from its root. */
void
infer_demand_visit(PlanState *root)
{
	visit(root, (InferDemand){.kind = INFER_DEMAND_RUN, .main_tree = true});
}
