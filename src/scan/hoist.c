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
#include "scan/hoist.h"
#include "scan/moves.h"
#include "scan/rewrite.h"
#include "scan/walk.h"

typedef struct ReplaceContext
{
	InferRewrite *rw;
	List *hoisted;   /* of InferHoisted */
	Bitmapset *used; /* parameters put in place, in the node in hand */
} ReplaceContext;

static Node *
replace_mutator(Node *node, void *context)
{
	ReplaceContext *replace = context;
	ListCell *lc;

	if (node == NULL)
		return NULL;
	if (IsA(node, FuncExpr))
	{
		foreach (lc, replace->hoisted)
		{
			InferHoisted *hoisted = lfirst(lc);

			if (equal(hoisted->call, node))
			{
				replace->used = bms_add_member(replace->used, hoisted->param->paramid);
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
note_params(ReplaceContext *context, Plan *plan, Bitmapset *used)
{
	PartitionPruneInfo *info = NULL;
	ListCell *lh;
	ListCell *lr;

	infer_add_params(plan, used);
	if (IsA(plan, Memoize))
		((Memoize *) plan)->keyparamids = bms_add_members(((Memoize *) plan)->keyparamids, used);
	if (IsA(plan, FunctionScan))
	{
		foreach (lr, ((FunctionScan *) plan)->functions)
		{
			RangeTblFunction *function = lfirst_node(RangeTblFunction, lr);

			function->funcparams =
				bms_add_members(function->funcparams, infer_exec_params(function->funcexpr));
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
				relation->execparamids, infer_exec_params((Node *) relation->exec_pruning_steps));
		}
	}
}

Plan *
infer_subplan_plan(const InferRewrite *rw, const SubPlan *subplan)
{
	return list_nth(rw->stmt->subplans, subplan->plan_id - 1);
}

/* Puts parameters in place of the hoisted calls. Returns those that this plan reads now. */
static Bitmapset *
replace_in_plan(ReplaceContext *context, Plan *plan)
{
	Bitmapset *used;
	ListCell *lc;

	if (infer_is_closed(plan))
		return NULL;
	context->used = NULL;
	infer_map_exprs(context->rw->stmt, plan, replace_in_expr, context);
	used = context->used;
	foreach (lc, infer_plan_children(plan))
		used = bms_add_members(used, replace_in_plan(context, lfirst(lc)));
	foreach (lc, plan->initPlan)
		used = bms_add_members(
			used, replace_in_plan(context, infer_subplan_plan(context->rw, lfirst(lc))));
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

/* Calls and parameters that are to stand for them. */
static List *
make_hoisted(InferRewrite *rw, List *calls)
{
	List *hoisted = NIL;
	ListCell *lc;

	foreach (lc, calls)
	{
		InferHoisted *one = palloc0(sizeof(InferHoisted));

		one->call = copyObject((Node *) lfirst(lc));
		one->param = make_param(rw, one->call);
		hoisted = lappend(hoisted, one);
	}
	return hoisted;
}

/* Takes the certain calls out of a plan, wherever they stand in it. */
static List *
hoist_certain(InferRewrite *rw, Plan *plan, bool complete, const InferHoistParams *params)
{
	List *calls = infer_certain_calls(rw, plan, complete, params);
	ReplaceContext context = {rw, make_hoisted(rw, calls), NULL};

	if (context.hoisted != NIL)
		replace_in_plan(&context, plan);
	return context.hoisted;
}

/* Parameters of a nested loop, and those that its outer side can read. */
static void
read_join_params(InferHoistParams *params, NestLoop *node)
{
	Plan *plan = &node->join.plan;
	ListCell *lc;
	ListCell *li;

	params->outside = bms_copy(plan->extParam);
	foreach (lc, node->nestParams)
		params->own = bms_add_member(params->own, lfirst_node(NestLoopParam, lc)->paramno);
	foreach (lc, plan->initPlan)
	{
		foreach (li, lfirst_node(SubPlan, lc)->setParam)
			params->outside = bms_add_member(params->outside, lfirst_int(li));
	}
}

/*
 * Takes the calls out of a nested loop's inner side that are made for each outer row.  The answer
 * are InferHoisted whose calls are written over the outer side's layout; the join still has to hand
 * their values down.
 */
List *
infer_hoist_join(InferRewrite *rw, NestLoop *node)
{
	Join *join = &node->join;
	bool complete =
		join->jointype != JOIN_SEMI && join->jointype != JOIN_ANTI && !join->inner_unique;
	InferHoistParams params = {NULL, NULL};
	List *hoisted;
	ListCell *lc;

	if (infer_guc_hoist_calls == INFER_HOIST_OFF || node->nestParams == NIL)
		return NIL;
	read_join_params(&params, node);
	hoisted = hoist_certain(rw, join->plan.righttree, complete, &params);
	foreach (lc, hoisted)
	{
		InferHoisted *one = lfirst(lc);

		one->call = infer_unparametrize(one->call, node->nestParams);
	}
	return hoisted;
}

/*
 * Calls that the inner side may make, over the outer side's layout, for the outer side to make
 * ahead.  inner and pending are the inner side and the conditions that it applies, as they will be.
 */
List *
infer_ahead_join(InferRewrite *rw, NestLoop *node, Plan *inner, List *pending)
{
	InferHoistParams params = {NULL, NULL};
	List *ahead = NIL;
	ListCell *lc;

	if (infer_guc_hoist_calls != INFER_HOIST_ON || node->nestParams == NIL)
		return NIL;
	read_join_params(&params, node);
	foreach (lc, infer_possible_calls(rw, inner, pending, &params))
	{
		if (!infer_may_fail((Node *) lfirst_node(FuncExpr, lc)->args))
			ahead = lappend(ahead, infer_unparametrize(lfirst(lc), node->nestParams));
	}
	return ahead;
}

/* The correlated SubPlans of a statement. */
typedef struct SubPlanContext
{
	const PlannedStmt *stmt;
	List *found;
	bool opaque; /* there is a node that may hold more of them */
} SubPlanContext;

static bool
find_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, SubPlan) && ((SubPlan *) node)->parParam != NIL)
	{
		List **found = &((SubPlanContext *) context)->found;

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
find_in_plan(SubPlanContext *context, Plan *plan)
{
	ListCell *lc;

	if (!infer_map_exprs(context->stmt, plan, find_in_expr, context))
		context->opaque = true;
	foreach (lc, infer_plan_children(plan))
		find_in_plan(context, lfirst(lc));
}

static void
find_all(SubPlanContext *context)
{
	ListCell *lc;

	find_in_plan(context, context->stmt->planTree);
	foreach (lc, context->stmt->subplans)
	{
		if (lfirst(lc) != NULL)
			find_in_plan(context, lfirst(lc));
	}
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

/* Sets the new parameters where the others are set. */
static void
add_args(SubPlan *subplan, List *hoisted)
{
	List *ids = subplan->parParam;
	List *args = subplan->args;
	ListCell *lc;

	subplan->parParam = list_copy(ids);
	subplan->args = list_copy(args);
	foreach (lc, hoisted)
	{
		InferHoisted *one = lfirst(lc);

		subplan->parParam = lappend_int(subplan->parParam, one->param->paramid);
		subplan->args = lappend(subplan->args, infer_put_params(one->call, ids, args));
	}
}

/* Calls that an execution may make: arguments that are made, but that nobody reads. */
static List *
find_ahead(InferRewrite *rw, SubPlan *first, Plan *body, const InferHoistParams *params)
{
	List *calls = NIL;
	List *ahead;
	ListCell *lc;

	foreach (lc, infer_possible_calls(rw, body, NIL, params))
	{
		Node *args = (Node *) lfirst_node(FuncExpr, lc)->args;

		if (!infer_may_fail(infer_put_params(args, first->parParam, first->args)))
			calls = lappend(calls, lfirst(lc));
	}
	ahead = make_hoisted(rw, calls);
	foreach (lc, ahead)
		rw->ahead = bms_add_member(rw->ahead, ((InferHoisted *) lfirst(lc))->param->paramid);
	return ahead;
}

static void
hoist_from_subplan(InferRewrite *rw, List *references)
{
	SubPlan *first = linitial_node(SubPlan, references);
	Plan *body = infer_subplan_plan(rw, first);
	InferHoistParams params = {NULL, NULL};
	List *hoisted;
	ListCell *lc;

	foreach (lc, first->parParam)
		params.own = bms_add_member(params.own, lfirst_int(lc));
	params.outside = bms_difference(body->extParam, params.own);
	hoisted = hoist_certain(rw, body, first->subLinkType == ARRAY_SUBLINK, &params);
	if (infer_guc_hoist_calls == INFER_HOIST_ON)
		hoisted = list_concat(hoisted, find_ahead(rw, first, body, &params));
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
	SubPlanContext context = {.stmt = rw->stmt};
	bool any = false;
	ListCell *lc;

	foreach (lc, rw->stmt->subplans)
		any = any || (lfirst(lc) != NULL && infer_plan_has_call(lfirst(lc)));
	if (infer_guc_hoist_calls == INFER_HOIST_OFF || !any)
		return;
	find_all(&context);
	while (!context.opaque && context.found != NIL)
	{
		List *references = take_references(&context.found);

		if (are_alike(references))
			hoist_from_subplan(rw, references);
	}
}

/* Takes those arguments away again that were to be made ahead: nobody reads them. */
void
infer_drop_ahead(const InferRewrite *rw, SubPlan *subplan)
{
	List *ids = NIL;
	List *args = NIL;
	ListCell *li;
	ListCell *la;

	forboth(li, subplan->parParam, la, subplan->args)
	{
		if (bms_is_member(lfirst_int(li), rw->ahead))
			continue;
		ids = lappend_int(ids, lfirst_int(li));
		args = lappend(args, lfirst(la));
	}
	subplan->parParam = ids;
	subplan->args = args;
}

/* Where no InferScan took such arguments, the sub-plan makes its calls itself. */
void
infer_hoist_end(InferRewrite *rw)
{
	SubPlanContext context = {.stmt = rw->stmt};
	ListCell *lc;

	if (rw->ahead == NULL)
		return;
	find_all(&context);
	foreach (lc, context.found)
		infer_drop_ahead(rw, lfirst(lc));
}
