/*
 * scan/walk_plan.c - questions about finished plans. Nothing here changes a node.
 */
#include "postgres.h"

#include "nodes/bitmapset.h"
#include "nodes/plannodes.h"

#include "scan/walk.h"

/* All plans directly below this one (not those of its SubPlans). */
List *
infer_plan_children(Plan *plan)
{
	List *children = NIL;

	if (plan->lefttree)
		children = lappend(children, plan->lefttree);
	if (plan->righttree)
		children = lappend(children, plan->righttree);
	switch (nodeTag(plan))
	{
		case T_Append:
			return list_concat(children, ((Append *) plan)->appendplans);
		case T_MergeAppend:
			return list_concat(children, ((MergeAppend *) plan)->mergeplans);
		case T_BitmapAnd:
			return list_concat(children, ((BitmapAnd *) plan)->bitmapplans);
		case T_BitmapOr:
			return list_concat(children, ((BitmapOr *) plan)->bitmapplans);
		case T_SubqueryScan:
			return lappend(children, ((SubqueryScan *) plan)->subplan);
		case T_CustomScan:
			return list_concat(children, ((CustomScan *) plan)->custom_plans);
		default:
			return children;
	}
}

static bool
merge_has_call(ModifyTable *node)
{
	ListCell *ll;
	ListCell *lc;

	foreach (ll, node->mergeActionLists)
	{
		foreach (lc, (List *) lfirst(ll))
		{
			MergeAction *action = lfirst(lc);

			if (infer_contains_call(action->qual) ||
				infer_contains_call((Node *) action->targetList))
				return true;
		}
	}
	return false;
}

static bool
plan_exprs_have_call(Plan *plan)
{
	if (infer_contains_call((Node *) plan->targetlist) || infer_contains_call((Node *) plan->qual))
		return true;
	switch (nodeTag(plan))
	{
		case T_NestLoop:
		case T_MergeJoin:
			return infer_contains_call((Node *) ((Join *) plan)->joinqual);
		case T_HashJoin:
			return infer_contains_call((Node *) ((Join *) plan)->joinqual) ||
				   infer_contains_call((Node *) ((HashJoin *) plan)->hashclauses);
		case T_FunctionScan:
			return infer_contains_call((Node *) ((FunctionScan *) plan)->functions);
		/* calls that may be hoisted */
		case T_IndexScan:
			return infer_contains_call((Node *) ((IndexScan *) plan)->indexqual) ||
				   infer_contains_call((Node *) ((IndexScan *) plan)->indexorderby);
		case T_IndexOnlyScan:
			return infer_contains_call((Node *) ((IndexOnlyScan *) plan)->indexqual) ||
				   infer_contains_call((Node *) ((IndexOnlyScan *) plan)->indexorderby);
		case T_BitmapIndexScan:
			return infer_contains_call((Node *) ((BitmapIndexScan *) plan)->indexqual);
		case T_Result:
			return infer_contains_call(((Result *) plan)->resconstantqual);
		case T_Memoize:
			return infer_contains_call((Node *) ((Memoize *) plan)->param_exprs);
		case T_ValuesScan:
			return infer_contains_call((Node *) ((ValuesScan *) plan)->values_lists);
		case T_ModifyTable:
			return infer_contains_call((Node *) ((ModifyTable *) plan)->returningLists) ||
				   merge_has_call((ModifyTable *) plan);
		default:
			return false;
	}
}

/* Is there a call in this tree that a rule of ours could take out? */
bool
infer_plan_has_call(Plan *plan)
{
	List *children;
	ListCell *lc;
	bool found = false;

	if (plan_exprs_have_call(plan))
		return true;
	children = infer_plan_children(plan);
	foreach (lc, children)
		found = found || infer_plan_has_call(lfirst(lc));
	list_free(children);
	return found;
}

/* May running this tree make calls: in an InferScan, an expression, or a plan that it reads? */
bool
infer_plan_may_ask(Plan *plan)
{
	ListCell *lc;

	if (IsA(plan, CustomScan) || IsA(plan, CteScan) || plan_exprs_have_call(plan) ||
		infer_contains_subplan((Node *) plan->targetlist) ||
		infer_contains_subplan((Node *) plan->qual))
		return true;
	foreach (lc, infer_plan_children(plan))
	{
		if (infer_plan_may_ask(lfirst(lc)))
			return true;
	}
	return false;
}

/* Does it lock rows, or read a common table expression that may? */
bool
infer_plan_has_lock(Plan *plan)
{
	ListCell *lc;

	if (IsA(plan, LockRows) || IsA(plan, CteScan))
		return true;
	foreach (lc, infer_plan_children(plan))
	{
		if (infer_plan_has_lock(lfirst(lc)))
			return true;
	}
	return false;
}

int
infer_plan_max_id(Plan *plan, int seen)
{
	ListCell *lc;

	seen = Max(seen, plan->plan_node_id);
	foreach (lc, infer_plan_children(plan))
		seen = infer_plan_max_id(lfirst(lc), seen);
	return seen;
}

/* Parameters that InitPlans with calls set, and those that Gathers evaluate. */
typedef struct GatherContext
{
	PlannedStmt *stmt;
	Bitmapset *calls;
	Bitmapset *gathered;
} GatherContext;

static void
visit_gathers(GatherContext *context, Plan *plan)
{
	ListCell *lc;
	ListCell *li;

	foreach (lc, plan->initPlan)
	{
		SubPlan *init_plan = lfirst_node(SubPlan, lc);

		if (!infer_plan_has_call(list_nth(context->stmt->subplans, init_plan->plan_id - 1)))
			continue;
		foreach (li, init_plan->setParam)
			context->calls = bms_add_member(context->calls, lfirst_int(li));
	}
	if (IsA(plan, Gather))
		context->gathered = bms_add_members(context->gathered, ((Gather *) plan)->initParam);
	if (IsA(plan, GatherMerge))
		context->gathered = bms_add_members(context->gathered, ((GatherMerge *) plan)->initParam);
	foreach (lc, infer_plan_children(plan))
		visit_gathers(context, lfirst(lc));
}

bool
infer_gather_calls(PlannedStmt *stmt)
{
	GatherContext context = {stmt, NULL, NULL};
	ListCell *lc;

	visit_gathers(&context, stmt->planTree);
	foreach (lc, stmt->subplans)
	{
		if (lfirst(lc) != NULL)
			visit_gathers(&context, lfirst(lc));
	}
	return bms_overlap(context.calls, context.gathered);
}
