/*
 * scan/rewrite_scan.c - rules for scans and projections: nodes that compute expressions per row.
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"

#include "scan/build.h"
#include "scan/moves.h"
#include "scan/rewrite.h"
#include "scan/walk.h"

static bool
is_liftable(Plan *plan)
{
	ForeignScan *foreign = (ForeignScan *) plan;

	/* a remote modification, or a pushed-down join with a local plan for rechecks */
	if (IsA(plan, ForeignScan))
		return foreign->operation == CMD_SELECT && plan->lefttree == NULL;
	return true;
}

/*
 * Any scan.  What a SubqueryScan reads keeps its exact layout, for the scan's column numbers and
 * the names in its range table entry count on it (P19).
 */
InferProc *
infer_proc_scan(InferRewrite *rw, Plan *plan)
{
	List *taken;
	InferProc *proc;

	if (!is_liftable(plan))
		return infer_unchanged(plan);
	if (IsA(plan, SubqueryScan))
	{
		SubqueryScan *scan = (SubqueryScan *) plan;

		scan->subplan = infer_proc_mat(rw, scan->subplan);
	}
	if (IsA(plan, ValuesScan))
		infer_lift_values(rw, (ValuesScan *) plan);
	taken = infer_take_quals(&plan->qual, false);
	proc = infer_lift(rw, plan, taken);
	/* no longer what Append would drive asynchronously (P12) */
	if (plan->targetlist != proc->labels)
		plan->async_capable = false;
	return proc;
}

/* A Result that only passes columns on is not needed any more. */
static bool
is_only_columns(Plan *plan)
{
	ListCell *lc;

	if (!IsA(plan, Result) || ((Result *) plan)->resconstantqual != NULL || plan->initPlan != NIL)
		return false;
	foreach (lc, plan->targetlist)
	{
		Node *expr = (Node *) ((TargetEntry *) lfirst(lc))->expr;

		if (!IsA(expr, Var) && !infer_contains_open_call(expr))
			return false;
	}
	return true;
}

/*
 * A projecting node (targetlist and quals over the child's layout) on top of a processed child:
 * what the child has not done yet becomes part of the expressions and rises.
 */
InferProc *
infer_project(InferRewrite *rw, Plan *plan, InferProc *child, List *quals)
{
	InferProc *proc;
	List *pending;
	ListCell *lc;

	child = infer_settle(rw, child, list_concat_copy(plan->targetlist, quals));
	plan->lefttree = child->plan;
	quals = (List *) infer_substitute((Node *) quals, OUTER_VAR, child->vexprs);
	pending = list_concat_copy(child->pending, quals);
	plan->targetlist =
		(List *) infer_substitute((Node *) plan->targetlist, OUTER_VAR, child->vexprs);
	if (!is_only_columns(plan))
		return infer_lift(rw, plan, pending);

	proc = palloc0(sizeof(InferProc));
	proc->plan = child->plan;
	proc->labels = plan->targetlist;
	foreach (lc, plan->targetlist)
		proc->vexprs = lappend(proc->vexprs, ((TargetEntry *) lfirst(lc))->expr);
	proc->pending = pending;
	return infer_hold_volatile(rw, proc);
}

/* Result and Gather.  A Result without a child is left alone (P1). Neither has conditions per row.
 */
InferProc *
infer_proc_result(InferRewrite *rw, Plan *plan)
{
	if (plan->lefttree == NULL)
		return infer_unchanged(plan);
	return infer_project(rw, plan, infer_proc(rw, plan->lefttree), NIL);
}

/*
 * ProjectSet: an InferScan below it computes the calls, in the arguments of set-returning functions
 * and beside them, once per input row instead of once per output row.
 */
InferProc *
infer_proc_project_set(InferRewrite *rw, Plan *plan)
{
	InferProc *child = infer_proc(rw, plan->lefttree);
	InferBuild *build;
	List *tlist;

	child = infer_settle(rw, child, plan->targetlist);
	build = infer_build_begin(rw, child->plan);
	infer_build_filters(build, child->pending);
	tlist = (List *) infer_substitute((Node *) plan->targetlist, OUTER_VAR, child->vexprs);
	tlist = (List *) infer_extract(build, (Node *) tlist, NIL);
	plan->targetlist = (List *) infer_build_expose(build, (Node *) tlist);
	plan->lefttree = infer_build_end(build);
	return infer_unchanged(plan);
}

/* Nodes that need all columns and conditions of their children: their layout stays. */
InferProc *
infer_proc_children(InferRewrite *rw, Plan *plan)
{
	List *children = NIL;
	ListCell *lc;

	if (plan->lefttree)
		plan->lefttree = infer_proc_mat(rw, plan->lefttree);
	if (plan->righttree)
		plan->righttree = infer_proc_mat(rw, plan->righttree);
	if (IsA(plan, Append))
		children = ((Append *) plan)->appendplans;
	else if (IsA(plan, MergeAppend))
		children = ((MergeAppend *) plan)->mergeplans;
	foreach (lc, children)
		lfirst(lc) = infer_proc_mat(rw, lfirst(lc));
	if (IsA(plan, SubqueryScan))
		((SubqueryScan *) plan)->subplan = infer_proc_mat(rw, ((SubqueryScan *) plan)->subplan);
	if (IsA(plan, MergeJoin))
		infer_keep_mark_restore(rw, (MergeJoin *) plan);
	return infer_unchanged(plan);
}
