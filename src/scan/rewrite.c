/*
 * scan/rewrite.c - getting remote calls out of a finished plan: the driver and its moves.
 *
 * The planner has made its plan as if a call were an expensive function.  We walk that plan bottom
 * up and take calls out of expressions, into InferScan nodes that read ahead, ask many at once and
 * emit rows in input order.  Nothing else about the plan changes: not the joins, not the order of
 * rows, not a node's result.  A node or expression that no rule here knows stays as it is; the
 * function's own body is always right, only slower.
 *
 * Terms
 *   real column       what a plan's targetlist computes.
 *   virtual column    a column that a node promises but does not compute: an expression over real
 *                     ones.  Whoever needs the value puts an InferScan there.
 *   pending           a condition that a node should have applied and did not, for the same reason.
 *   layout            the planner's columns of a node, by position; parents refer to these numbers.
 *   to lift           to stop computing a column, or applying a condition, in a node, and hand it
 * up as virtual or pending. to materialise    to put an InferScan on top: infer_mat() gives back
 * exactly the layout (with names, junk marks and origins: junk columns are found by name, P5),
 *                     infer_mat_partial() only the columns that must be real.
 *
 * infer_proc(N) processes N's children, then N, and returns an InferProc.  The parent decides where
 * calls are made.  That is how calls rise above Sort, Limit, Unique and Gather (a LIMIT bounds
 * them exactly), and how a condition leaves the inner side of a nested loop, where every rescan
 * would ask again.
 *
 * Invariants
 *   I1  vexprs and pending use Var(OUTER_VAR, n) over plan->targetlist as it is now, only.
 *   I2  Conditions keep their order.  What is taken from a qual list is its suffix from the first
 *       call on (infer_take_quals), for the planner has sorted it by security level (P17).
 *   I3  While a condition is pending, nothing is evaluated for its rows that could fail or be
 *       noticed: infer_lift() lifts such columns too, joins refuse such clauses (infer_may_fail).
 *   I4  A volatile expression never floats: infer_lift() materialises it on the spot.
 *   I5  A node that gets another layout has every reference of its own renumbered by its rule, and
 *       its parent's by vexprs.
 *   I6  No InferScan above LockRows (P14), below nothing but rows: a Result without a child is what
 *       PL/pgSQL takes for an expression and stays as it is (P1).
 *   I7  plan_node_id is unique over the statement, sub-plans included (P2).
 *   I8  The statement's plan is ours to change: it came from the planner just now.
 *
 * P1..P28 are the pitfalls listed in README.md.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "jit/jit.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"

#include "scan/hoist.h"
#include "scan/moves.h"
#include "scan/plan.h"
#include "scan/rewrite.h"
#include "scan/walk.h"

Plan *
infer_proc_mat(InferRewrite *rw, Plan *plan)
{
	if (!infer_plan_has_call(plan))
		return plan;
	return infer_mat(rw, infer_proc(rw, plan));
}

/* Does this node consume all its input before it emits, whoever asks? */
static bool
reads_to_the_end(Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_Sort:
		case T_Hash:
		case T_Agg:
		case T_SetOp:
			return true;
		default:
			return false;
	}
}

static InferProc *
proc_by_type(InferRewrite *rw, Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_SeqScan:
		case T_SampleScan:
		case T_IndexScan:
		case T_IndexOnlyScan:
		case T_BitmapHeapScan:
		case T_TidScan:
		case T_TidRangeScan:
		case T_SubqueryScan:
		case T_FunctionScan:
		case T_TableFuncScan:
		case T_ValuesScan:
		case T_CteScan:
		case T_NamedTuplestoreScan:
		case T_WorkTableScan:
		case T_ForeignScan:
			return infer_proc_scan(rw, plan);
		case T_Result:
		case T_Gather:
			return infer_proc_result(rw, plan);
		case T_GatherMerge:
			return infer_proc_gather_merge(rw, (GatherMerge *) plan);
		case T_ProjectSet:
			return infer_proc_project_set(rw, plan);
		case T_Sort:
		case T_IncrementalSort:
			return infer_proc_sort(rw, (Sort *) plan);
		case T_Limit:
			return infer_proc_limit(rw, (Limit *) plan);
		case T_Unique:
			return infer_proc_unique(rw, (Unique *) plan);
		case T_Group:
			return infer_proc_group(rw, plan);
		case T_Agg:
		case T_WindowAgg:
			return infer_proc_agg(rw, plan);
		case T_NestLoop:
		case T_MergeJoin:
		case T_HashJoin:
			return infer_proc_join(rw, (Join *) plan);
		case T_ModifyTable:
			return infer_proc_modify_table(rw, (ModifyTable *) plan);
		case T_LockRows:
		case T_Material:
		case T_Memoize:
		case T_Hash:
		case T_SetOp:
		case T_RecursiveUnion:
			return infer_proc_children(rw, plan);
		case T_Append:
			return infer_proc_append(rw, (Append *) plan);
		case T_MergeAppend:
			return infer_proc_merge_append(rw, (MergeAppend *) plan);
		default:
			/* not ours to change, nor what is below */
			return infer_unchanged(plan);
	}
}

InferProc *
infer_proc(InferRewrite *rw, Plan *plan)
{
	bool one_row = rw->one_row;
	InferProc *result;

	check_stack_depth();
	if (!infer_plan_has_call(plan))
		return infer_unchanged(plan);
	if (rw->has_locks && !IsA(plan, LockRows) && infer_plan_has_lock(plan))
		return infer_proc_children(rw, plan);
	if (reads_to_the_end(plan))
		rw->one_row = false;
	result = proc_by_type(rw, plan);
	rw->one_row = one_row;
	return result;
}

static bool
locks_rows(PlannedStmt *stmt)
{
	ListCell *lc;

	foreach (lc, stmt->rowMarks)
	{
		if (RowMarkRequiresRowShareLock(((PlanRowMark *) lfirst(lc))->markType))
			return true;
	}
	return false;
}

static bool
statement_has_call(PlannedStmt *stmt)
{
	ListCell *lc;

	foreach (lc, stmt->subplans)
	{
		if (lfirst(lc) != NULL && infer_plan_has_call(lfirst(lc)))
			return true;
	}
	return infer_plan_has_call(stmt->planTree);
}

/*
 * The cost of a call is time on the network.  Compiling expressions makes none of it shorter, but
 * takes tens of milliseconds and megabytes: the decision is made again without that cost.
 */
static void
reconsider_jit(InferRewrite *rw, Cost planned_cost)
{
	if (planned_cost - rw->call_cost < jit_above_cost)
		rw->stmt->jitFlags = PGJIT_NONE;
}

void
infer_rewrite(PlannedStmt *stmt, int cursor_options)
{
	InferRewrite rw = {.stmt = stmt};
	Cost planned_cost = stmt->planTree ? stmt->planTree->total_cost : 0;
	int max_id;
	ListCell *lc;

	if (stmt->commandType == CMD_UTILITY || !statement_has_call(stmt))
		return;
	max_id = infer_plan_max_id(stmt->planTree, 0);
	foreach (lc, stmt->subplans)
	{
		if (lfirst(lc) != NULL)
			max_id = infer_plan_max_id(lfirst(lc), max_id);
	}
	rw.next_id = max_id + 1;
	rw.has_locks = locks_rows(stmt);

	infer_hoist_subplans(&rw);
	foreach (lc, stmt->subplans)
	{
		if (lfirst(lc) != NULL)
			lfirst(lc) = infer_proc_mat(&rw, lfirst(lc));
	}
	stmt->planTree = infer_proc_mat(&rw, stmt->planTree);
	infer_hoist_end(&rw);

	/* The planner looked at this before the tree had nodes that cannot go back (P11). */
	if ((cursor_options & CURSOR_OPT_SCROLL) && !ExecSupportsBackwardScan(stmt->planTree))
		stmt->planTree = infer_make_material(&rw, stmt->planTree);
	reconsider_jit(&rw, planned_cost);
}
