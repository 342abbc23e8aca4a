/*
 * scan/hoist.c - calls that depend on parameters only move to where the parameters are set.
 *
 * A nested loop hands columns of its outer row to its inner side as parameters, and scans that side
 * anew for each of them; a correlated sub-plan is executed anew for each row of the query around
 * it.  A call inside that reads nothing but such parameters (lab.name = f(t.x) as an index
 * condition) has one value per execution.  Evaluated there it is one call at a time, for the next
 * execution begins only when this one has ended.  Outside it is a column of many rows.
 *
 * Exact hoists
 *
 *   An execution that begins evaluates some expressions whatever it finds: the keys of the index
 *   scan that it begins with, a LIMIT's count, the arguments of a function in FROM, the first
 *   one-time condition, the keys of Memoize.  A call there is made once for each outer row that the
 *   join reads, or each time that the sub-plan's expression is evaluated: just when a column of the
 *   outer side, or an argument of the sub-plan, would be.  The outer side's own conditions are
 *   applied before; a sub-plan's argument is guarded by what guards the sub-plan (extract.c).  So
 *   the same calls are made, the same errors are raised, for the same rows.  Such a call becomes a
 *   parameter of its own, wherever it stands in the inner side.  The node that reads it, and all
 *   between it and the top, must know the parameter, or they would not be scanned again (allParam,
 *   extParam); a Memoize must count it to its keys, or it would forget all at each change.
 *
 *   Which expressions these are says collect_certain(), node by node.  What it does not name is
 *   not certain.
 *
 * Calls that may be made
 *
 *   A call in a condition or column of the inner side is made only if there is a row.  Hoisting it
 *   makes calls, and raises errors, for outer rows that have none.  With pg_inference.hoist_calls =
 *   on it is still asked ahead: the outer side's InferScan makes the call, but nobody reads its
 *   column.  The inner side stays as it is and finds the answer, or the error, in the statement
 *   memo, where the outer row keeps it.  So what is at stake is the number of calls, never the
 *   result.  Arguments that may fail are refused, for they are evaluated for these rows too.
 *
 * Not done: across Gather (P25: parameters do not get there), out of recursive unions, foreign and
 * other extensions' nodes, from places that a guard may skip, for SubPlans that set several columns
 * (MULTIEXPR), for calls that a volatile function feeds.
 */
#include "postgres.h"

#include "nodes/bitmapset.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "pg/guc.h"
#include "scan/rewrite.h"

typedef struct HoistContext
{
	InferRewrite *rw;
	Bitmapset *own;     /* parameters that are set for each execution */
	Bitmapset *outside; /* parameters that can be read where those are set */
	List *calls;        /* found so far, each once */
	List *hoisted;      /* of InferHoisted, one per call, while they are replaced */
	Bitmapset *used;    /* parameters put in place, in the node in hand */
} HoistContext;

static void collect_certain(HoistContext *context, Plan *plan, bool complete);

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

static Bitmapset *
exec_params(Node *node)
{
	Bitmapset *ids = NULL;

	exec_params_walker(node, &ids);
	return ids;
}

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
is_hoistable(HoistContext *context, Node *node)
{
	Bitmapset *ids;

	if (!infer_is_call(node) || row_walker(node, NULL) || infer_contains_case_test(node) ||
		expression_returns_set(node) || contain_volatile_functions(node))
		return false;
	ids = exec_params(node);
	return bms_overlap(ids, context->own) &&
		   bms_is_subset(ids, bms_union(context->own, context->outside));
}

/* Adds the calls of an expression that are made whenever it is evaluated. */
static bool
collect_walker(Node *node, void *context)
{
	HoistContext *hoist = context;

	if (node == NULL)
		return false;
	if (is_hoistable(hoist, node))
	{
		hoist->calls = list_append_unique(hoist->calls, node);
		return false;
	}
	switch (nodeTag(node))
	{
		case T_BoolExpr:
			return collect_walker(linitial(((BoolExpr *) node)->args), context);
		case T_CoalesceExpr:
			return collect_walker(linitial(((CoalesceExpr *) node)->args), context);
		case T_SubPlan:
			return collect_walker((Node *) ((SubPlan *) node)->args, context);
		case T_List:
		case T_TargetEntry:
		case T_RangeTblFunction:
		case T_FuncExpr:
		case T_NamedArgExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_FieldSelect:
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_CollateExpr:
		case T_ArrayExpr:
		case T_RowExpr:
		case T_MinMaxExpr:
		case T_NullTest:
		case T_BooleanTest:
			/* evaluates all its operands */
			return expression_tree_walker(node, collect_walker, context);
		default:
			return false;
	}
}

static void
collect_expr(HoistContext *context, void *expr)
{
	collect_walker((Node *) expr, context);
}

/* Conditions that must all be true: those behind the first may not be looked at. */
static void
collect_first(HoistContext *context, List *quals)
{
	if (quals != NIL)
		collect_expr(context, linitial(quals));
}

/* All keys are evaluated when a scan begins; those of row comparisons one by one, as keys. */
static void
collect_keys(HoistContext *context, List *clauses, bool arrays)
{
	ListCell *lc;

	foreach (lc, clauses)
	{
		if (IsA(lfirst(lc), OpExpr) || (arrays && IsA(lfirst(lc), ScalarArrayOpExpr)))
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
collect_memoize(HoistContext *context, Memoize *node)
{
	collect_expr(context, node->param_exprs);
	if (node->binary_mode)
		collect_certain(context, node->plan.lefttree, false);
}

static void
collect_children(HoistContext *context, List *children, bool all)
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
collect_append(HoistContext *context, Plan *plan, List *children, bool all)
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
collect_limit(HoistContext *context, Limit *node)
{
	Node *count = node->limitCount;

	collect_expr(context, node->limitOffset);
	collect_expr(context, count);
	if (count == NULL || (IsA(count, Const) && (((Const *) count)->constisnull ||
												DatumGetInt64(((Const *) count)->constvalue) > 0)))
		collect_certain(context, node->plan.lefttree, false);
}

static void
collect_result(HoistContext *context, Result *node, bool complete)
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
collect_agg(HoistContext *context, Agg *node, bool complete)
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
collect_certain(HoistContext *context, Plan *plan, bool complete)
{
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
static bool
is_closed(const Plan *plan)
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

static Node *
replace_mutator(Node *node, void *context)
{
	HoistContext *hoist = context;
	ListCell *lc;

	if (node == NULL)
		return NULL;
	if (IsA(node, FuncExpr))
	{
		foreach (lc, hoist->hoisted)
		{
			InferHoisted *hoisted = lfirst(lc);

			if (equal(hoisted->call, node))
			{
				hoist->used = bms_add_member(hoist->used, hoisted->param->paramid);
				return copyObject((Node *) hoisted->param);
			}
		}
	}
	return expression_tree_mutator(node, replace_mutator, context);
}

static Node *
replace_in_expr(Node *expr, void *context)
{
	return infer_contains_call(expr) ? replace_mutator(expr, context) : expr;
}

/* Nodes that keep lists of the parameters that they depend on. */
static void
note_params(HoistContext *context, Plan *plan, Bitmapset *used)
{
	PartitionPruneInfo *info = NULL;
	ListCell *lh;
	ListCell *lr;

	plan->extParam = bms_add_members(plan->extParam, used);
	plan->allParam = bms_add_members(plan->allParam, used);
	if (IsA(plan, Memoize))
		((Memoize *) plan)->keyparamids = bms_add_members(((Memoize *) plan)->keyparamids, used);
	if (IsA(plan, FunctionScan))
	{
		foreach (lr, ((FunctionScan *) plan)->functions)
		{
			RangeTblFunction *function = lfirst_node(RangeTblFunction, lr);

			function->funcparams =
				bms_add_members(function->funcparams, exec_params(function->funcexpr));
		}
	}
	if (IsA(plan, Append) || IsA(plan, MergeAppend))
		info = infer_prune_info(context->rw->stmt, plan);
	foreach (lh, info == NULL ? NIL : info->prune_infos)
	{
		foreach (lr, (List *) lfirst(lh))
		{
			PartitionedRelPruneInfo *relation = lfirst_node(PartitionedRelPruneInfo, lr);

			relation->execparamids = bms_add_members(
				relation->execparamids, exec_params((Node *) relation->exec_pruning_steps));
		}
	}
}

/* Puts parameters in place of the hoisted calls. Returns those that this plan reads now. */
static Bitmapset *
replace_in_plan(HoistContext *context, Plan *plan)
{
	Bitmapset *used;
	ListCell *lc;

	if (is_closed(plan))
		return NULL;
	context->used = NULL;
	infer_map_exprs(context->rw->stmt, plan, replace_in_expr, context);
	used = context->used;
	foreach (lc, infer_plan_children(plan))
		used = bms_add_members(used, replace_in_plan(context, lfirst(lc)));
	if (used != NULL)
		note_params(context, plan, used);
	return used;
}

static Param *
make_param(InferRewrite *rw, Node *call)
{
	Param *param = makeNode(Param);

	param->paramkind = PARAM_EXEC;
	param->paramid = list_length(rw->stmt->paramExecTypes);
	param->paramtype = exprType(call);
	param->paramtypmod = exprTypmod(call);
	param->paramcollid = exprCollation(call);
	param->location = -1;
	rw->stmt->paramExecTypes = lappend_oid(rw->stmt->paramExecTypes, param->paramtype);
	return param;
}

/* Replaces the calls that were found by parameters of their own, in the whole plan. */
static List *
replace_calls(HoistContext *context, Plan *plan)
{
	ListCell *lc;

	foreach (lc, context->calls)
	{
		InferHoisted *hoisted = palloc0(sizeof(InferHoisted));

		hoisted->call = copyObject((Node *) lfirst(lc));
		hoisted->param = make_param(context->rw, hoisted->call);
		context->hoisted = lappend(context->hoisted, hoisted);
	}
	if (context->hoisted != NIL)
		replace_in_plan(context, plan);
	return context->hoisted;
}

/* Parameters of a nested loop, and those that its outer side can read. */
static void
open_join(HoistContext *context, InferRewrite *rw, NestLoop *node)
{
	Plan *plan = &node->join.plan;
	ListCell *lc;
	ListCell *li;

	context->rw = rw;
	context->outside = bms_copy(plan->extParam);
	foreach (lc, node->nestParams)
		context->own = bms_add_member(context->own, lfirst_node(NestLoopParam, lc)->paramno);
	foreach (lc, plan->initPlan)
	{
		foreach (li, lfirst_node(SubPlan, lc)->setParam)
			context->outside = bms_add_member(context->outside, lfirst_int(li));
	}
}

/* Writes calls over the outer side, which will be scanned again when what they read changes. */
static void
close_join(HoistContext *context, NestLoop *node, List *calls)
{
	Plan *outer = node->join.plan.lefttree;
	Bitmapset *ids = bms_difference(exec_params((Node *) calls), context->own);

	outer->extParam = bms_add_members(outer->extParam, ids);
	outer->allParam = bms_add_members(outer->allParam, ids);
}

/*
 * Takes the calls out of a nested loop's inner side that are made for each outer row.  The answer
 * are InferHoisted whose calls are written over the outer side's layout; the join still has to hand
 * them down.
 */
List *
infer_hoist_join(InferRewrite *rw, NestLoop *node)
{
	HoistContext context = {0};
	Join *join = &node->join;
	List *hoisted;
	ListCell *lc;

	if (infer_guc_hoist_calls == INFER_HOIST_OFF || node->nestParams == NIL)
		return NIL;
	open_join(&context, rw, node);
	collect_certain(&context, join->plan.righttree,
					join->jointype != JOIN_SEMI && join->jointype != JOIN_ANTI &&
						!join->inner_unique);
	hoisted = replace_calls(&context, join->plan.righttree);
	close_join(&context, node, context.calls);
	foreach (lc, hoisted)
	{
		InferHoisted *one = lfirst(lc);

		one->call = linitial(infer_unparametrize(list_make1(one->call), node->nestParams));
	}
	return hoisted;
}

/* The correlated SubPlans of a statement. */
typedef struct FindContext
{
	const PlannedStmt *stmt;
	List *found;
	bool opaque; /* there is a node that may hold more of them */
} FindContext;

static bool
find_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, SubPlan) && ((SubPlan *) node)->parParam != NIL)
	{
		List **found = &((FindContext *) context)->found;

		*found = list_append_unique_ptr(*found, node);
	}
	return expression_tree_walker(node, find_walker, context);
}

static Node *
find_in_expr(Node *expr, void *context)
{
	find_walker(expr, context);
	return expr;
}

static void
find_in_plan(FindContext *context, Plan *plan)
{
	ListCell *lc;

	if (!infer_map_exprs(context->stmt, plan, find_in_expr, context))
		context->opaque = true;
	foreach (lc, infer_plan_children(plan))
		find_in_plan(context, lfirst(lc));
}

/* Takes out of this list what refers to the first one's plan. */
static List *
take_references(List **subplans)
{
	int plan_id = linitial_node(SubPlan, *subplans)->plan_id;
	List *taken = NIL;
	List *others = NIL;
	ListCell *lc;

	foreach (lc, *subplans)
	{
		if (lfirst_node(SubPlan, lc)->plan_id == plan_id)
			taken = lappend(taken, lfirst(lc));
		else
			others = lappend(others, lfirst(lc));
	}
	*subplans = others;
	return taken;
}

/* All references must set the same parameters, to values that may be evaluated twice. */
static bool
are_alike(List *references)
{
	SubPlan *first = linitial_node(SubPlan, references);
	ListCell *lc;

	foreach (lc, references)
	{
		SubPlan *subplan = lfirst_node(SubPlan, lc);

		if (subplan->subLinkType == MULTIEXPR_SUBLINK ||
			!equal(subplan->parParam, first->parParam) ||
			contain_volatile_functions((Node *) subplan->args) ||
			infer_contains_subplan((Node *) subplan->args))
			return false;
	}
	return true;
}

typedef struct ArgContext
{
	List *ids;
	List *args;
} ArgContext;

static Node *
args_mutator(Node *node, void *context)
{
	ArgContext *args = context;
	ListCell *li;
	ListCell *la;

	if (node == NULL)
		return NULL;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
	{
		forboth(li, args->ids, la, args->args)
		{
			if (lfirst_int(li) == ((Param *) node)->paramid)
				return copyObject((Node *) lfirst(la));
		}
	}
	return expression_tree_mutator(node, args_mutator, context);
}

/* Sets the new parameters where the others are set. */
static void
add_args(SubPlan *subplan, List *hoisted)
{
	ArgContext context = {subplan->parParam, subplan->args};
	ListCell *lc;

	subplan->parParam = list_copy(subplan->parParam);
	subplan->args = list_copy(subplan->args);
	foreach (lc, hoisted)
	{
		InferHoisted *one = lfirst(lc);

		subplan->parParam = lappend_int(subplan->parParam, one->param->paramid);
		subplan->args = lappend(subplan->args, args_mutator(one->call, &context));
	}
}

static void
hoist_from_subplan(InferRewrite *rw, List *references)
{
	SubPlan *first = linitial_node(SubPlan, references);
	Plan *body = list_nth(rw->stmt->subplans, first->plan_id - 1);
	HoistContext context = {.rw = rw};
	List *hoisted;
	ListCell *lc;

	foreach (lc, first->parParam)
		context.own = bms_add_member(context.own, lfirst_int(lc));
	context.outside = bms_difference(body->extParam, context.own);
	collect_certain(&context, body, first->subLinkType == ARRAY_SUBLINK);
	hoisted = replace_calls(&context, body);
	foreach (lc, hoisted == NIL ? NIL : references)
		add_args(lfirst_node(SubPlan, lc), hoisted);
}

/*
 * Takes the calls out of correlated sub-plans that are made at each execution: they become
 * arguments.  A plan may be referred to from several places, and each must set the new parameters,
 * so all must be known.
 */
void
infer_hoist_subplans(InferRewrite *rw)
{
	FindContext context = {.stmt = rw->stmt};
	bool any = false;
	ListCell *lc;

	foreach (lc, rw->stmt->subplans)
		any = any || (lfirst(lc) != NULL && infer_plan_has_call(lfirst(lc)));
	if (infer_guc_hoist_calls == INFER_HOIST_OFF || !any)
		return;
	find_in_plan(&context, rw->stmt->planTree);
	foreach (lc, rw->stmt->subplans)
	{
		if (lfirst(lc) != NULL)
			find_in_plan(&context, lfirst(lc));
	}
	while (!context.opaque && context.found != NIL)
	{
		List *references = take_references(&context.found);

		if (are_alike(references))
			hoist_from_subplan(rw, references);
	}
}
