/*
 * scan/hoist_find.c - which calls of a plan depend on parameters only, and which of them each
 * execution makes.
 *
 * hoist.c has the reasons.  Certain is what the executor evaluates before it knows of any row, or
 * whatever rows there are.  Every case of collect_certain() follows the node's code in the
 * executor; what a case does not look at may or may not be evaluated.
 */
#include "postgres.h"

#include "nodes/bitmapset.h"
#include "nodes/extensible.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"

#include "scan/hoist.h"
#include "scan/plan.h"
#include "scan/rewrite.h"
#include "scan/walk.h"

typedef struct FindContext
{
	const InferRewrite *rw;
	const InferHoistParams *params;
	bool possible;    /* also those that are made only if there is a row */
	List *init_plans; /* of the nodes seen so far */
	List *calls;      /* found so far, each once */
} FindContext;

static bool collect_walker(Node *node, void *context);
static void collect_certain(FindContext *context, Plan *plan, bool complete);

/* What belongs to the row, or the group, that is being evaluated. */
static bool
row_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
		case T_Aggref:
		case T_WindowFunc:
		case T_GroupingFunc:
		case T_SubPlan:
		case T_AlternativeSubPlan:
		case T_CurrentOfExpr:
			return true;
		default:
			return expression_tree_walker(node, row_walker, context);
	}
}

/* Is it a call over our parameters and others that are known outside, and nothing else? */
static bool
is_hoistable(FindContext *context, Node *node)
{
	Bitmapset *ids;

	if (!infer_is_call(node) || row_walker(node, NULL) || infer_contains_case_test(node) ||
		expression_returns_set(node) || contain_volatile_functions(node))
		return false;
	ids = infer_exec_params(node);
	return bms_overlap(ids, context->params->own) &&
		   bms_is_subset(ids, bms_union(context->params->own, context->params->outside));
}

/* A sub-plan's arguments are evaluated before it; those that are made ahead need not be. */
static void
collect_args(FindContext *context, SubPlan *subplan)
{
	ListCell *li;
	ListCell *la;

	forboth(li, subplan->parParam, la, subplan->args)
	{
		if (context->possible || !bms_is_member(lfirst_int(li), context->rw->ahead))
			collect_walker(lfirst(la), context);
	}
}

/* A parameter that an InitPlan sets, when it is read: then the InitPlan is executed. */
static void
collect_init_plan(FindContext *context, Param *param)
{
	ListCell *lc;

	foreach (lc, context->init_plans)
	{
		SubPlan *init_plan = lfirst_node(SubPlan, lc);

		if (param->paramkind == PARAM_EXEC && init_plan->subLinkType != CTE_SUBLINK &&
			list_member_int(init_plan->setParam, param->paramid))
			collect_certain(context, infer_subplan_plan(context->rw, init_plan), false);
	}
}

/* Adds the calls of an expression that are made whenever it is evaluated. */
static bool
collect_walker(Node *node, void *context)
{
	FindContext *find = context;

	if (node == NULL)
		return false;
	if (is_hoistable(find, node))
	{
		find->calls = list_append_unique(find->calls, node);
		return false;
	}
	switch (nodeTag(node))
	{
		case T_BoolExpr:
			return collect_walker(linitial(((BoolExpr *) node)->args), context);
		case T_CoalesceExpr:
			return collect_walker(linitial(((CoalesceExpr *) node)->args), context);
		case T_Param:
			if (!find->possible)
				collect_init_plan(find, (Param *) node);
			return false;
		case T_SubscriptingRef:
			return collect_walker((Node *) ((SubscriptingRef *) node)->refexpr, context);
		case T_SubPlan:
			collect_args(find, (SubPlan *) node);
			return false;
		case T_Aggref:
			return find->possible && ((Aggref *) node)->aggfilter == NULL &&
				   collect_walker((Node *) ((Aggref *) node)->args, context);
		case T_List:
		case T_TargetEntry:
		case T_RangeTblFunction:
			return expression_tree_walker(node, collect_walker, context);
		default:
			return infer_evaluates_all(node) &&
				   expression_tree_walker(node, collect_walker, context);
	}
}

static void
collect_expr(FindContext *context, void *expr)
{
	collect_walker((Node *) expr, context);
}

/* Conditions that must all be true: those behind the first may not be looked at. */
static void
collect_first(FindContext *context, List *quals)
{
	if (quals != NIL)
		collect_expr(context, linitial(quals));
}

/*
 * All keys are evaluated when a scan begins; those of row comparisons one by one, as keys.  Of the
 * arrays of a bitmap scan, those behind an empty one may not be.
 */
static void
collect_keys(FindContext *context, List *clauses, bool all_arrays)
{
	bool arrays = true;
	ListCell *lc;

	foreach (lc, clauses)
	{
		if (IsA(lfirst(lc), ScalarArrayOpExpr))
		{
			if (arrays)
				collect_expr(context, lfirst(lc));
			arrays = all_arrays;
		}
		else if (IsA(lfirst(lc), OpExpr))
			collect_expr(context, lfirst(lc));
		else if (IsA(lfirst(lc), RowCompareExpr))
			collect_expr(context, ((RowCompareExpr *) lfirst(lc))->rargs);
	}
}

/*
 * A Memoize looks its keys up each time; what is below is scanned only for new ones.  With keys
 * that are compared bit by bit, a key that was seen means that the call was made.
 */
static void
collect_memoize(FindContext *context, Memoize *node)
{
	collect_expr(context, node->param_exprs);
	if (node->binary_mode)
		collect_certain(context, node->plan.lefttree, false);
}

static void
collect_children(FindContext *context, List *children, bool all)
{
	ListCell *lc;

	foreach (lc, children)
	{
		collect_certain(context, lfirst(lc), all);
		if (!all)
			break;
	}
}

/* With pruning at run time it is certain only that a partition is looked for. */
static void
collect_append(FindContext *context, Plan *plan, List *children, bool all)
{
	PartitionPruneInfo *info = infer_prune_info(context->rw->stmt, plan);
	PartitionedRelPruneInfo *root;

	if (info == NULL)
	{
		collect_children(context, children, all);
		return;
	}
	root = linitial_node(PartitionedRelPruneInfo, linitial(info->prune_infos));
	if (root->exec_pruning_steps != NIL &&
		IsA(linitial(root->exec_pruning_steps), PartitionPruneStepOp))
		collect_first(context,
					  ((PartitionPruneStepOp *) linitial(root->exec_pruning_steps))->exprs);
}

static void
collect_limit(FindContext *context, Limit *node)
{
	Node *count = node->limitCount;

	collect_expr(context, node->limitOffset);
	collect_expr(context, count);
	if (count == NULL || (IsA(count, Const) && (((Const *) count)->constisnull ||
												DatumGetInt64(((Const *) count)->constvalue) > 0)))
		collect_certain(context, node->plan.lefttree, false);
}

static void
collect_result(FindContext *context, Result *node, bool complete)
{
	if (node->resconstantqual != NULL)
		collect_first(context, (List *) node->resconstantqual);
	else if (node->plan.lefttree != NULL)
		collect_certain(context, node->plan.lefttree, complete);
	else
		collect_expr(context, node->plan.targetlist);
}

/* Without GROUP BY there is a row, whatever comes in. */
static void
collect_agg(FindContext *context, Agg *node, bool complete)
{
	bool plain = node->aggstrategy == AGG_PLAIN && node->groupingSets == NIL;

	complete = complete || node->aggstrategy == AGG_PLAIN || node->aggstrategy == AGG_HASHED;
	collect_certain(context, node->plan.lefttree, complete);
	if (plain && node->plan.qual == NIL)
		collect_expr(context, node->plan.targetlist);
}

/*
 * Collects calls that are made whenever this plan is asked for its first row, or, if complete, for
 * all its rows.
 */
static void
collect_certain(FindContext *context, Plan *plan, bool complete)
{
	context->init_plans = list_concat(context->init_plans, plan->initPlan);
	switch (nodeTag(plan))
	{
		case T_IndexScan:
			collect_keys(context, ((IndexScan *) plan)->indexqual, true);
			collect_expr(context, ((IndexScan *) plan)->indexorderby);
			break;
		case T_IndexOnlyScan:
			collect_keys(context, ((IndexOnlyScan *) plan)->indexqual, true);
			collect_expr(context, ((IndexOnlyScan *) plan)->indexorderby);
			break;
		case T_BitmapIndexScan:
			collect_keys(context, ((BitmapIndexScan *) plan)->indexqual, false);
			break;
		case T_BitmapAnd:
			collect_certain(context, linitial(((BitmapAnd *) plan)->bitmapplans), true);
			break;
		case T_BitmapOr:
			collect_children(context, ((BitmapOr *) plan)->bitmapplans, true);
			break;
		case T_FunctionScan:
			collect_expr(context, ((FunctionScan *) plan)->functions);
			break;
		case T_SubqueryScan:
			collect_certain(context, ((SubqueryScan *) plan)->subplan, complete);
			break;
		case T_Memoize:
			collect_memoize(context, (Memoize *) plan);
			break;
		case T_Append:
			collect_append(context, plan, ((Append *) plan)->appendplans, complete);
			break;
		case T_MergeAppend:
			collect_append(context, plan, ((MergeAppend *) plan)->mergeplans, true);
			break;
		case T_Limit:
			collect_limit(context, (Limit *) plan);
			break;
		case T_Result:
			collect_result(context, (Result *) plan, complete);
			break;
		case T_Agg:
			collect_agg(context, (Agg *) plan, complete);
			break;
		case T_Sort:
			collect_certain(context, plan->lefttree, true);
			break;
		case T_BitmapHeapScan:
		case T_Material:
		case T_IncrementalSort:
		case T_Unique:
		case T_Group:
		case T_WindowAgg:
		case T_ProjectSet:
			collect_certain(context, plan->lefttree, complete && !IsA(plan, WindowAgg));
			break;
		case T_NestLoop:
		case T_MergeJoin:
			/* the outer side is looked at first; the inner side only for one of its rows */
			collect_certain(context, plan->lefttree, false);
			break;
		default:
			break;
	}
}

/* Nodes that parameters do not get through, or that we do not understand. */
bool
infer_is_closed(const Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_Gather:
		case T_GatherMerge:
		case T_RecursiveUnion:
		case T_ModifyTable:
		case T_LockRows:
		case T_ForeignScan:
		case T_CustomScan:
			return true;
		default:
			return false;
	}
}

List *
infer_certain_calls(InferRewrite *rw, Plan *plan, bool complete, const InferHoistParams *params)
{
	FindContext context = {.rw = rw, .params = params};

	collect_certain(&context, plan, complete);
	return context.calls;
}

static Node *
collect_in_expr(Node *expr, void *context)
{
	collect_walker(expr, context);
	return expr;
}

static bool
is_infer_scan(const Plan *plan)
{
	return IsA(plan, CustomScan) && ((const CustomScan *) plan)->methods == &infer_scan_methods;
}

/* Steps of an InferScan that no guard may skip. */
static void
collect_steps(FindContext *context, CustomScan *scan)
{
	ListCell *lc;

	foreach (lc, scan->custom_exprs)
	{
		if (list_length(lfirst(lc)) == 1)
			collect_expr(context, linitial(lfirst(lc)));
	}
}

static void
collect_possible(FindContext *context, Plan *plan)
{
	ListCell *lc;

	if (is_infer_scan(plan))
		collect_steps(context, (CustomScan *) plan);
	else if (infer_is_closed(plan) ||
			 !infer_map_exprs(context->rw->stmt, plan, collect_in_expr, context))
		return;
	foreach (lc, infer_plan_children(plan))
		collect_possible(context, lfirst(lc));
	foreach (lc, plan->initPlan)
		collect_possible(context, infer_subplan_plan(context->rw, lfirst(lc)));
}

/* Calls of a plan, and of conditions that are still to be applied to it, that are made for a row.
 */
List *
infer_possible_calls(InferRewrite *rw, Plan *plan, List *pending, const InferHoistParams *params)
{
	FindContext context = {.rw = rw, .params = params, .possible = true};

	collect_possible(&context, plan);
	collect_expr(&context, pending);
	return context.calls;
}
