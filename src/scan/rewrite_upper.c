/*
 * scan/rewrite_upper.c - rules for what stands above scans and joins: sorting, limiting, grouping.
 */
#include "postgres.h"

#include "nodes/bitmapset.h"
#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"

#include "scan/build.h"
#include "scan/moves.h"
#include "scan/rewrite.h"
#include "scan/walk.h"

static Bitmapset *
columns_to_set(int ncols, const AttrNumber *columns)
{
	Bitmapset *set = NULL;

	for (int i = 0; i < ncols; i++)
		set = bms_add_member(set, columns[i]);
	return set;
}

/* Where the (real) columns are now. */
static void
renumber_columns(int ncols, AttrNumber *columns, InferProc *child)
{
	for (int i = 0; i < ncols; i++)
		columns[i] = castNode(Var, list_nth(child->vexprs, columns[i] - 1))->varattno;
}

/* Makes sort keys real, and applies what is pending, if one of them is virtual. */
static InferProc *
make_keys_real(InferRewrite *rw, InferProc *child, int ncols, const AttrNumber *columns)
{
	for (int i = 0; i < ncols; i++)
	{
		if (!infer_is_real(list_nth(child->vexprs, columns[i] - 1)))
			return infer_mat_partial(rw, child, columns_to_set(ncols, columns));
	}
	return child;
}

/* A node that passes columns on: what its child has not done rises above it. */
static InferProc *
pass_on(Plan *plan, InferProc *child)
{
	InferProc *proc = palloc0(sizeof(InferProc));

	if (child->plan == plan->lefttree && child->pending == NIL &&
		child->plan->targetlist == child->labels)
		return infer_unchanged(plan);
	proc->labels = plan->targetlist;
	plan->lefttree = child->plan;
	plan->targetlist = infer_dummy_tlist(child->plan->targetlist);
	proc->plan = plan;
	proc->vexprs = child->vexprs;
	proc->pending = child->pending;
	return proc;
}

/* Sort and IncrementalSort: the keys must be real, all else floats, so that LIMIT can bound it. */
InferProc *
infer_proc_sort(InferRewrite *rw, Sort *node)
{
	InferProc *child = infer_proc(rw, node->plan.lefttree);

	child = make_keys_real(rw, child, node->numCols, node->sortColIdx);
	renumber_columns(node->numCols, node->sortColIdx, child);
	return pass_on(&node->plan, child);
}

/* As Sort and Gather together: the sort columns are its child's, its targetlist may compute. */
InferProc *
infer_proc_gather_merge(InferRewrite *rw, GatherMerge *node)
{
	Plan *plan = &node->plan;
	InferProc *child = infer_proc(rw, plan->lefttree);

	child = make_keys_real(rw, child, node->numCols, node->sortColIdx);
	child = infer_settle(rw, child, plan->targetlist);
	renumber_columns(node->numCols, node->sortColIdx, child);
	plan->lefttree = child->plan;
	plan->targetlist =
		(List *) infer_substitute((Node *) plan->targetlist, OUTER_VAR, child->vexprs);
	return infer_lift(rw, plan, child->pending);
}

/* Conditions decide which rows count, so they stay below; columns float and cost only what is kept.
 */
InferProc *
infer_proc_limit(InferRewrite *rw, Limit *node)
{
	InferProc *child = infer_proc(rw, node->plan.lefttree);

	child = infer_mat_partial(rw, child, columns_to_set(node->uniqNumCols, node->uniqColIdx));
	renumber_columns(node->uniqNumCols, node->uniqColIdx, child);
	return pass_on(&node->plan, child);
}

InferProc *
infer_proc_unique(InferRewrite *rw, Unique *node)
{
	InferProc *child = infer_proc(rw, node->plan.lefttree);

	child = infer_mat_partial(rw, child, columns_to_set(node->numCols, node->uniqColIdx));
	renumber_columns(node->numCols, node->uniqColIdx, child);
	return pass_on(&node->plan, child);
}

/* Group reads its child's layout; calls over the group columns are made per group. */
InferProc *
infer_proc_group(InferRewrite *rw, Plan *plan)
{
	plan->lefttree = infer_proc_mat(rw, plan->lefttree);
	return infer_lift(rw, plan, infer_take_quals(&plan->qual, false));
}

/* What moves the calls out of aggregates' arguments. */
typedef struct AggContext
{
	InferBuild *build;
	List *vexprs;      /* the child's columns, over build->child */
	WindowAgg *window; /* or NULL */
} AggContext;

static Node *
extract_below(AggContext *context, Node *expr, List *guards)
{
	expr = infer_substitute(expr, OUTER_VAR, context->vexprs);
	return infer_extract(context->build, expr, guards);
}

/* FILTER guards the arguments. Everything is rewritten over the outputs of the new child. */
static void
extract_aggregate(AggContext *context, List **args, Expr **filter)
{
	List *guards = NIL;
	Node *value = NULL;

	if (*filter)
	{
		Node *guard;

		value = infer_substitute((Node *) *filter, OUTER_VAR, context->vexprs);
		value = infer_extract_condition(context->build, value, NIL, &guard);
		guards = list_make1(guard);
	}
	*args = (List *) extract_below(context, (Node *) *args, guards);
	*args = (List *) infer_build_expose(context->build, (Node *) *args);
	if (value)
		*filter = (Expr *) infer_build_expose(context->build, value);
}

/* Does this function look at one row of a whole partition?  Others pass by almost all of them. */
static bool
reads_one_row(WindowAgg *window, WindowFunc *func)
{
	switch (func->winfnoid)
	{
		case F_FIRST_VALUE:
		case F_NTH_VALUE:
			return (window->frameOptions & FRAMEOPTION_START_UNBOUNDED_PRECEDING) != 0;
		case F_LAST_VALUE:
			return (window->frameOptions & FRAMEOPTION_END_UNBOUNDED_FOLLOWING) != 0;
		default:
			return false;
	}
}

/*
 * The arguments of a window function that may stay unevaluated for a row: lag(a, n, default) looks
 * at what is behind the first one only if it has to.
 */
static List *
take_lazy_arguments(WindowAgg *window, WindowFunc *func)
{
	int eager = reads_one_row(window, func) ? 0 : 1;
	List *lazy;

	if (func->winagg || list_length(func->args) <= eager)
		return NIL;
	lazy = list_copy_tail(func->args, eager);
	func->args = list_truncate(func->args, eager);
	return lazy;
}

static Node *
aggregate_mutator(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Aggref))
	{
		Aggref *result = copyObject((Aggref *) node);

		if (infer_contains_call((Node *) result->args) ||
			infer_contains_call((Node *) result->aggfilter))
			extract_aggregate(context, &result->args, &result->aggfilter);
		return (Node *) result;
	}
	if (IsA(node, WindowFunc))
	{
		WindowFunc *result = copyObject((WindowFunc *) node);
		List *lazy = take_lazy_arguments(((AggContext *) context)->window, result);

		if (infer_contains_call((Node *) result->args) ||
			infer_contains_call((Node *) result->aggfilter))
			extract_aggregate(context, &result->args, &result->aggfilter);
		result->args = list_concat(result->args, lazy);
		return (Node *) result;
	}
	return expression_tree_mutator(node, aggregate_mutator, context);
}

/* Where each column of the old targetlist is in the new one, 0 if it was lifted. */
static List *
output_positions(List *old_tlist, List *new_tlist)
{
	List *positions = NIL;
	ListCell *lo;
	ListCell *ln;

	foreach (lo, old_tlist)
	{
		int position = 0;

		foreach (ln, new_tlist)
		{
			if (equal(((TargetEntry *) lfirst(ln))->expr, ((TargetEntry *) lfirst(lo))->expr))
				position = foreach_current_index(ln) + 1;
		}
		positions = lappend_int(positions, position);
	}
	return positions;
}

/* A run condition reads the node's own outputs, by number. */
static Node *
run_condition_mutator(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var))
	{
		Var *var = copyObject((Var *) node);

		var->varattno = list_nth_int((List *) context, var->varattno - 1);
		return (Node *) var;
	}
	return expression_tree_mutator(node, run_condition_mutator, context);
}

/*
 * Agg and WindowAgg.  Grouping, partitioning and ordering columns are positions in the child's
 * layout, so the child gets exactly that, plus one column per call inside an aggregate's (or window
 * function's) arguments.  Calls outside of them work on results: they are lifted.
 */
InferProc *
infer_proc_agg(InferRewrite *rw, Plan *plan)
{
	InferProc *child = infer_proc(rw, plan->lefttree);
	WindowAgg *window = IsA(plan, WindowAgg) ? (WindowAgg *) plan : NULL;
	AggContext context = {infer_build_begin(rw, child->plan), child->vexprs, window};
	InferProc *proc;
	List *labels;
	ListCell *lv;
	ListCell *ll;

	infer_build_filters(context.build, child->pending);
	forboth(lv, child->vexprs, ll, child->labels) infer_build_output(
		context.build, infer_extract(context.build, lfirst(lv), NIL), lfirst(ll));
	plan->targetlist = (List *) aggregate_mutator((Node *) plan->targetlist, &context);
	plan->qual = (List *) aggregate_mutator((Node *) plan->qual, &context);
	plan->lefttree = infer_build_end(context.build);

	if (window == NULL)
		return infer_lift(rw, plan, infer_take_quals(&plan->qual, false));

	/* its conditions stop the window early: they stay */
	labels = plan->targetlist;
	proc = infer_lift(rw, plan, NIL);
	if (plan->targetlist != labels && window->runCondition != NIL)
		window->runCondition = (List *) run_condition_mutator(
			(Node *) window->runCondition, output_positions(labels, plan->targetlist));
	return proc;
}
