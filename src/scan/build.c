/*
 * scan/build.c - puts one InferScan together.
 *
 * Three spaces of column numbers meet here.  What comes in is written over the child's targetlist
 * (OUTER_VAR); the program and the outputs are written over the scan tuple (INDEX_VAR: the child's
 * columns, then one per call or computed condition); what goes up to the parent is written over the
 * outputs (OUTER_VAR again).  infer_extract() takes the first step, infer_build_expose() the
 * second.  Nobody else translates, so that a number never means two things (P7).
 *
 * A build that got no step ends as a plain Result, or as nothing when it would change nothing.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"

#include "scan/build.h"
#include "scan/moves.h"
#include "scan/plan.h"
#include "scan/rewrite.h"
#include "scan/walk.h"

InferBuild *
infer_build_begin(InferRewrite *rw, Plan *child)
{
	InferBuild *build = palloc0(sizeof(InferBuild));

	build->rw = rw;
	build->child = child;
	build->nchild = list_length(child->targetlist);
	return build;
}

/*
 * The scan tuple column for a column of the child.  A constant travels as itself: the executor
 * insists on seeing NULL constants for dropped columns of an INSERT's target.
 */
Node *
infer_build_child_var(InferBuild *build, const Var *var)
{
	TargetEntry *source;
	Var *result;

	if (var->varno != OUTER_VAR || var->varattno < 1 || var->varattno > build->nchild)
		elog(ERROR, "unexpected column %d.%d below InferScan", (int) var->varno, var->varattno);
	source = list_nth(build->child->targetlist, var->varattno - 1);
	if (IsA(source->expr, Const))
		return copyObject((Node *) source->expr);
	result = copyObject((Var *) var);
	result->varno = INDEX_VAR;
	return (Node *) result;
}

static void
add_step(InferBuild *build, InferStepKind kind, int column, Node *expr, List *guards, int constant)
{
	build->exprs = lappend(build->exprs, lcons(expr, list_copy(guards)));
	build->kinds = lappend_int(build->kinds, kind);
	build->targets = lappend_int(build->targets, column);
	build->constants = lappend_int(build->constants, constant);
}

void
infer_build_filters(InferBuild *build, List *quals)
{
	ListCell *lc;

	foreach (lc, quals)
		add_step(build, INFER_STEP_FILTER, 0, infer_extract(build, lfirst(lc), NIL), NIL, 0);
}

/* Is every guard of the earlier step among the first guards of the new one? */
static bool
guards_cover(List *earlier, List *guards)
{
	ListCell *le;
	ListCell *lg = list_head(guards);

	foreach (le, earlier)
	{
		if (lg == NULL || !equal(lfirst(le), lfirst(lg)))
			return false;
		lg = lnext(guards, lg);
	}
	return true;
}

static bool
step_stands(InferBuild *build, int column, List *guards)
{
	ListCell *lt;
	ListCell *le;

	forboth(lt, build->targets, le, build->exprs)
	{
		List *earlier = list_copy_tail(lfirst(le), 1);

		if (lfirst_int(lt) == column && guards_cover(earlier, guards))
			return true;
	}
	return false;
}

/* 1: the same for every row; 2: until the next rescan with other parameters; 0: ask per row. */
static int
classify_constant(FuncExpr *call)
{
	Node *args = (Node *) call->args;

	if (infer_contains_any_var(args) || infer_contains_subplan(args) ||
		contain_volatile_functions((Node *) call))
		return 0;
	return infer_contains_exec_param(args) ? 2 : 1;
}

static Var *
column_var(InferBuild *build, int column)
{
	return infer_var_for(INDEX_VAR, column, list_nth(build->columns, column - build->nchild - 1));
}

/* The column of a call whose arguments are in INDEX_VAR terms, made if it does not stand yet. */
Var *
infer_build_call(InferBuild *build, FuncExpr *call, List *guards)
{
	int column = 0;
	int i = build->nchild;
	ListCell *lc;

	if (!contain_volatile_functions((Node *) call))
	{
		foreach (lc, build->columns)
		{
			i++;
			if (equal(lfirst(lc), call))
			{
				column = i;
				break;
			}
		}
	}
	if (column == 0)
	{
		build->columns = lappend(build->columns, call);
		column = build->nchild + list_length(build->columns);
	}
	if (!step_stands(build, column, guards))
		add_step(build, INFER_STEP_CALL, column, (Node *) call, guards, classify_constant(call));
	return column_var(build, column);
}

/* A column for a value that must be computed once and used twice. */
Var *
infer_build_compute(InferBuild *build, Node *expr, List *guards)
{
	int column;

	build->columns = lappend(build->columns, expr);
	column = build->nchild + list_length(build->columns);
	add_step(build, INFER_STEP_COMPUTE, column, expr, guards, 0);
	return column_var(build, column);
}

/* The next output column, in INDEX_VAR terms, labelled as the planner labelled it. */
void
infer_build_output(InferBuild *build, Node *expr, TargetEntry *label)
{
	TargetEntry *tle = flatCopyTargetEntry(label);

	tle->expr = (Expr *) expr;
	tle->resno = list_length(build->targetlist) + 1;
	build->targetlist = lappend(build->targetlist, tle);
}

static Node *
expose_mutator(Node *node, void *context)
{
	InferBuild *build = context;
	TargetEntry *tle;
	ListCell *lc;

	if (node == NULL)
		return NULL;
	if (!IsA(node, Var))
		return expression_tree_mutator(node, expose_mutator, context);
	foreach (lc, build->targetlist)
	{
		tle = lfirst(lc);
		if (equal(tle->expr, node))
			return (Node *) infer_var_for(OUTER_VAR, tle->resno, node);
	}
	tle = makeTargetEntry((Expr *) node, list_length(build->targetlist) + 1, NULL, true);
	build->targetlist = lappend(build->targetlist, tle);
	return (Node *) infer_var_for(OUTER_VAR, tle->resno, node);
}

/* Rewrites an INDEX_VAR expression over the outputs, adding those that are missing. */
Node *
infer_build_expose(InferBuild *build, Node *expr)
{
	return expose_mutator(expr, build);
}

static bool
is_identity(InferBuild *build)
{
	ListCell *lc;
	int n = 0;

	if (list_length(build->targetlist) != build->nchild)
		return false;
	foreach (lc, build->targetlist)
	{
		TargetEntry *tle = lfirst(lc);
		TargetEntry *source = list_nth(build->child->targetlist, n++);

		if (IsA(tle->expr, Const) && equal(tle->expr, source->expr))
			continue;
		if (!IsA(tle->expr, Var) || ((Var *) tle->expr)->varattno != n)
			return false;
	}
	return true;
}

/* The child serves as it is, under the names and marks that are expected from here on. */
static Plan *
relabel_child(InferBuild *build)
{
	List *tlist = NIL;
	ListCell *ll;
	ListCell *lc;

	forboth(ll, build->targetlist, lc, build->child->targetlist)
	{
		TargetEntry *tle = flatCopyTargetEntry(lfirst(ll));

		tle->expr = ((TargetEntry *) lfirst(lc))->expr;
		tlist = lappend(tlist, tle);
	}
	build->child->targetlist = tlist;
	return build->child;
}

static Plan *
make_projection(InferBuild *build)
{
	Result *result = makeNode(Result);

	infer_copy_plan_info(&result->plan, build->child);
	result->plan.plan_node_id = build->rw->next_id++;
	result->plan.targetlist =
		(List *) infer_renumber((Node *) build->targetlist, INDEX_VAR, OUTER_VAR);
	result->plan.lefttree = build->child;
	infer_add_params(&result->plan, infer_exec_params((Node *) result->plan.targetlist));
	return &result->plan;
}

/* The child's columns and what the program adds to them. */
static List *
make_scan_tlist(InferBuild *build)
{
	List *tlist = infer_dummy_tlist(build->child->targetlist);
	ListCell *lc;

	foreach (lc, build->columns)
		tlist = lappend(tlist, makeTargetEntry(copyObject((Expr *) lfirst(lc)),
											   list_length(tlist) + 1, NULL, false));
	return tlist;
}

static void
add_step_costs(InferBuild *build, Plan *plan)
{
	ListCell *lc;
	QualCost cost;

	foreach (lc, build->exprs)
	{
		Cost step;

		cost_qual_eval_node(&cost, linitial(lfirst(lc)), NULL);
		step = cost.startup + cost.per_tuple * plan->plan_rows;
		plan->total_cost += step;
		build->rw->call_cost += step;
	}
}

/* The finished node above the child; the child itself if there is nothing to do. */
Plan *
infer_build_end(InferBuild *build)
{
	CustomScan *scan;
	Plan *plan;

	if (build->exprs == NIL)
		return is_identity(build) ? relabel_child(build) : make_projection(build);

	scan = makeNode(CustomScan);
	plan = &scan->scan.plan;
	infer_copy_plan_info(plan, build->child);
	infer_take_init_plans(plan, build->child);
	add_step_costs(build, plan);
	plan->plan_node_id = build->rw->next_id++;
	plan->targetlist = build->targetlist;
	plan->lefttree = build->child;
	build->child->async_capable = false;
	/* what came from other nodes may read parameters that the child knows nothing of */
	infer_add_params(plan, infer_exec_params((Node *) build->exprs));
	infer_add_params(plan, infer_exec_params((Node *) build->targetlist));

	scan->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	scan->methods = &infer_scan_methods;
	scan->custom_exprs = build->exprs;
	scan->custom_scan_tlist = make_scan_tlist(build);
	scan->custom_private =
		list_make5(build->kinds, build->targets, list_make1_int(build->nchild), build->constants,
				   list_make1_int(build->rw->one_row ? INFER_HINT_ONE_ROW : 0));
	Assert(list_length(scan->custom_private) == INFER_PRIVATE_COUNT);
	return plan;
}
