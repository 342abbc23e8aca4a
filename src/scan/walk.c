/*
 * scan/walk.c - questions about expressions, queries and finished plans.
 *
 * Nothing here changes a node.  "Call" means a FuncExpr on one of our functions that may be taken
 * out of its expression: not SECURITY DEFINER and without SET clauses, for those need the function
 * manager's wrapper around each execution (P15).
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_proc.h"
#include "nodes/bitmapset.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "registry/functions.h"
#include "scan/plan.h"
#include "scan/rewrite.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

bool
infer_is_call(const Node *node)
{
	const FuncExpr *call = (const FuncExpr *) node;
	HeapTuple tuple;
	bool plain;

	if (node == NULL || !IsA(node, FuncExpr) || call->funcid < FirstNormalObjectId ||
		call->funcretset || infer_function_lookup(call->funcid) == NULL)
		return false;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(call->funcid));
	if (!HeapTupleIsValid(tuple))
		return false;
	plain = !((Form_pg_proc) GETSTRUCT(tuple))->prosecdef &&
			heap_attisnull(tuple, Anum_pg_proc_proconfig, NULL);
	ReleaseSysCache(tuple);
	return plain;
}

static bool
contains_call_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (infer_is_call(node))
		return true;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, contains_call_walker, context, 0);
	return expression_tree_walker(node, contains_call_walker, context);
}

bool
infer_contains_call(Node *node)
{
	return contains_call_walker(node, NULL);
}

static bool
may_call_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
		case T_Const:
		case T_Param:
		case T_SortGroupClause:
		case T_RangeTblRef:
			return false;
		case T_FuncExpr:
			if (infer_function_may_call(((FuncExpr *) node)->funcid))
				return true;
			break;
		case T_OpExpr:
			/* its function is not known yet in a view or a cached plan */
			if (((OpExpr *) node)->opno >= FirstNormalObjectId &&
				infer_function_may_call(get_opcode(((OpExpr *) node)->opno)))
				return true;
			break;
		case T_Query:
			return query_tree_walker((Query *) node, may_call_walker, context, 0);
		default:
			break;
	}
	return expression_tree_walker(node, may_call_walker, context);
}

/*
 * Could the plan of this query have a call?  It has one that the query has, or that comes from an
 * SQL function (or an operator that is one), for which the planner puts its body.  Most statements
 * of most databases have neither, and pay for this walk only.
 */
bool
infer_query_may_call(Query *query)
{
	return may_call_walker((Node *) query, NULL);
}

static bool
contains_open_call_walker(Node *node, void *context)
{
	if (node == NULL || IsA(node, Aggref) || IsA(node, WindowFunc) || IsA(node, GroupingFunc))
		return false;
	if (infer_is_call(node))
		return true;
	return expression_tree_walker(node, contains_open_call_walker, context);
}

bool
infer_contains_open_call(Node *node)
{
	return contains_open_call_walker(node, NULL);
}

/* Does this evaluate all its operands, whatever they are? */
bool
infer_evaluates_all(Node *node)
{
	switch (nodeTag(node))
	{
		case T_FuncExpr:
		case T_NamedArgExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_FieldSelect:
		case T_FieldStore:
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_ConvertRowtypeExpr:
		case T_CollateExpr:
		case T_ArrayExpr:
		case T_RowExpr:
		case T_MinMaxExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_CoerceToDomain:
			return true;
		default:
			return false;
	}
}

/*
 * textcat() is not marked as leakproof, but it only joins what it gets, and fails for nothing less
 * than a gigabyte.  Prompts are made with it.
 */
static bool
is_leaky_function(Oid funcid, void *context)
{
	return funcid != F_TEXTCAT && !get_func_leakproof(funcid);
}

static bool
may_fail_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
		case T_Const:
		case T_Param:
		case T_CaseTestExpr:
		case T_Aggref:
		case T_WindowFunc:
		case T_GroupingFunc:
			/* no evaluation of its own at this place */
			return false;
		case T_List:
		case T_TargetEntry:
		case T_RelabelType:
		case T_BoolExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CoalesceExpr:
		case T_ArrayExpr:
		case T_RowExpr:
			break;
		case T_OpExpr:
		case T_FuncExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
			if (check_functions_in_node(node, is_leaky_function, NULL))
				return true;
			break;
		default:
			return true;
	}
	return expression_tree_walker(node, may_fail_walker, context);
}

/*
 * Could evaluating this for a row that a pending condition would have dropped be noticed?  A
 * leakproof function neither raises an error that depends on its arguments nor tells anybody about
 * them, which is just what is needed.
 */
bool
infer_may_fail(Node *node)
{
	return may_fail_walker(node, NULL);
}

static bool
subplan_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, SubPlan) || IsA(node, AlternativeSubPlan))
		return true;
	return expression_tree_walker(node, subplan_walker, context);
}

bool
infer_contains_subplan(Node *node)
{
	return subplan_walker(node, NULL);
}

static bool
multiexpr_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, SubPlan) && ((SubPlan *) node)->subLinkType == MULTIEXPR_SUBLINK)
		return true;
	return expression_tree_walker(node, multiexpr_walker, context);
}

/* SET (a, b) = (SELECT ...): a sub-plan whose results the other columns read as parameters. */
bool
infer_contains_multiexpr(Node *node)
{
	return multiexpr_walker(node, NULL);
}

static bool
params_walker(Node *node, void *context)
{
	const Bitmapset *ids = context;

	if (node == NULL)
		return false;
	if (IsA(node, Param))
	{
		Param *param = (Param *) node;

		return param->paramkind == PARAM_EXEC &&
			   (ids == NULL || bms_is_member(param->paramid, ids));
	}
	return expression_tree_walker(node, params_walker, context);
}

/* Does it hold one of these PARAM_EXEC ids? */
bool
infer_contains_params(Node *node, const Bitmapset *ids)
{
	return ids != NULL && params_walker(node, (void *) ids);
}

bool
infer_contains_exec_param(Node *node)
{
	return params_walker(node, NULL);
}

static bool
exec_params_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
	{
		Bitmapset **ids = context;

		*ids = bms_add_member(*ids, ((Param *) node)->paramid);
	}
	return expression_tree_walker(node, exec_params_walker, context);
}

/* The PARAM_EXEC ids in it. */
Bitmapset *
infer_exec_params(Node *node)
{
	Bitmapset *ids = NULL;

	exec_params_walker(node, &ids);
	return ids;
}

static bool
case_test_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, CaseTestExpr))
		return true;
	if (IsA(node, CaseExpr) && ((CaseExpr *) node)->arg != NULL)
		return case_test_walker((Node *) ((CaseExpr *) node)->arg, context);
	if (IsA(node, ArrayCoerceExpr))
		return case_test_walker((Node *) ((ArrayCoerceExpr *) node)->arg, context);
#if PG_VERSION_NUM >= 160000
	if (IsA(node, JsonConstructorExpr))
		return case_test_walker((Node *) ((JsonConstructorExpr *) node)->args, context) ||
			   case_test_walker((Node *) ((JsonConstructorExpr *) node)->func, context);
#endif
	return expression_tree_walker(node, case_test_walker, context);
}

/* Is there a placeholder for the argument of an enclosing CASE (not of one inside)? */
bool
infer_contains_case_test(Node *node)
{
	return case_test_walker(node, NULL);
}

static bool
var_walker(Node *node, void *context)
{
	int varno = *(int *) context;

	if (node == NULL)
		return false;
	if (IsA(node, Var))
		return varno == 0 || ((Var *) node)->varno == varno;
	return expression_tree_walker(node, var_walker, context);
}

bool
infer_contains_var(Node *node, int varno)
{
	return var_walker(node, &varno);
}

bool
infer_contains_any_var(Node *node)
{
	int any = 0;

	return var_walker(node, &any);
}

bool
infer_is_real(const Node *vexpr)
{
	return IsA(vexpr, Var);
}

typedef struct CountContext
{
	int varno;
	AttrNumber attno;
	int count;
} CountContext;

static bool
count_walker(Node *node, void *context)
{
	CountContext *count = context;

	if (node == NULL)
		return false;
	if (IsA(node, Var))
	{
		Var *var = (Var *) node;

		if (var->varno == count->varno && var->varattno == count->attno)
			count->count++;
		return false;
	}
	return expression_tree_walker(node, count_walker, context);
}

int
infer_count_references(Node *node, int varno, AttrNumber attno)
{
	CountContext count = {varno, attno, 0};

	count_walker(node, &count);
	return count.count;
}

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
