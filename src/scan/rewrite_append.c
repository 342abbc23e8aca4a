/*
 * scan/rewrite_append.c - one InferScan above an Append or MergeAppend.
 *
 * The children of an Append (partitions, arms of UNION ALL, an inheritance tree) usually lift the
 * same calls, each over its own column numbers.  An InferScan on each of them would send a batch
 * that is not full for every child.  So the children are brought to a common layout, which holds
 * what their expressions read (unify.c), and the expressions rise above the Append.
 *
 * Where they do not agree, each child keeps its own InferScan: conditions must be the same in all
 * children, for their order is that of row-level security (I2).
 */
#include "postgres.h"

#include "nodes/makefuncs.h"

#include "scan/build.h"
#include "scan/moves.h"
#include "scan/rewrite.h"
#include "scan/unify.h"
#include "scan/walk.h"

/* A child with what it can do without calls; is_async: it was fit for asynchronous execution. */
typedef struct AppendChild
{
	InferProc *proc;
	bool is_async;
} AppendChild;

typedef struct AppendWork
{
	InferRewrite *rw;
	Plan *plan;
	List **plans; /* the node's list of children */
	int count;
	AppendChild *children;
	InferUnify *unify;
} AppendWork;

/*
 * A child that is a Result without a child is an arm like SELECT f('a'), not an expression of
 * PL/pgSQL (P1).
 */
static InferProc *
proc_child(InferRewrite *rw, Plan *child)
{
	if (IsA(child, Result) && child->lefttree == NULL)
		return infer_lift(rw, child, NIL);
	return infer_proc(rw, child);
}

/* A remote modification is driven by the ModifyTable above, which must see its slot. */
static bool
is_direct_modify(Plan *plan)
{
	return IsA(plan, ForeignScan) && ((ForeignScan *) plan)->operation != CMD_SELECT;
}

static void
open_children(AppendWork *work)
{
	for (int i = 0; i < work->count; i++)
	{
		Plan *plan = list_nth(*work->plans, i);

		work->children[i].is_async = plan->async_capable;
		work->children[i].proc = proc_child(work->rw, plan);
	}
}

static bool
is_settled(const InferProc *proc)
{
	ListCell *lc;

	foreach (lc, proc->vexprs)
	{
		if (!infer_is_real(lfirst(lc)))
			return false;
	}
	return proc->pending == NIL;
}

/* A MergeAppend compares what its children give, so that keys cannot rise. */
static bool
has_virtual_key(const InferProc *proc, int nkeys, const AttrNumber *keys)
{
	for (int i = 0; i < nkeys; i++)
	{
		if (!infer_is_real(list_nth(proc->vexprs, keys[i] - 1)))
			return true;
	}
	return false;
}

/* Is there anything to move, and can it be? */
static bool
may_rise(AppendWork *work, int nkeys, const AttrNumber *keys)
{
	bool settled = true;

	for (int i = 0; i < work->count; i++)
	{
		const InferProc *proc = work->children[i].proc;

		if (is_direct_modify(proc->plan) || has_virtual_key(proc, nkeys, keys) ||
			list_length(proc->pending) != list_length(work->children[0].proc->pending))
			return false;
		settled = settled && is_settled(proc);
	}
	return !settled;
}

static Node *
unify_nth(AppendWork *work, bool pending, int n)
{
	Node **nodes = palloc(sizeof(Node *) * work->count);

	for (int i = 0; i < work->count; i++)
	{
		const InferProc *proc = work->children[i].proc;

		nodes[i] = list_nth(pending ? proc->pending : proc->vexprs, n);
	}
	return infer_unify(work->unify, nodes);
}

/* What all children promise, over a common layout; NULL if there is no such thing. */
static InferProc *
unify_children(AppendWork *work)
{
	InferProc *proc = palloc0(sizeof(InferProc));
	const InferProc *first = work->children[0].proc;

	proc->labels = work->plan->targetlist;
	for (int n = 0; n < list_length(first->pending); n++)
		proc->pending = lappend(proc->pending, unify_nth(work, true, n));
	for (int n = 0; n < list_length(first->vexprs); n++)
		proc->vexprs = lappend(proc->vexprs, unify_nth(work, false, n));
	if (list_member_ptr(proc->pending, NULL) || list_member_ptr(proc->vexprs, NULL))
		return NULL;
	return proc;
}

static int
compare_columns(const ListCell *a, const ListCell *b)
{
	const Node *left = ((InferUnifyColumn *) lfirst(a))->exprs[0];
	const Node *right = ((InferUnifyColumn *) lfirst(b))->exprs[0];
	int left_no = left && IsA(left, Var) ? ((Var *) left)->varattno : MaxAttrNumber;
	int right_no = right && IsA(right, Var) ? ((Var *) right)->varattno : MaxAttrNumber;

	return left_no - right_no;
}

/* Puts the columns in the first child's order, which is usually every child's. */
static void
order_columns(AppendWork *work, InferProc *proc)
{
	List *ordered = list_copy(work->unify->columns);
	List *places = NIL;
	ListCell *lc;

	list_sort(ordered, compare_columns);
	foreach (lc, work->unify->columns)
	{
		InferUnifyColumn *column = lfirst(lc);
		int place = 1;

		while (list_nth(ordered, place - 1) != column)
			place++;
		places = lappend(
			places, makeVar(OUTER_VAR, place, column->type, column->typmod, column->collation, 0));
	}
	work->unify->columns = ordered;
	proc->vexprs = (List *) infer_substitute((Node *) proc->vexprs, OUTER_VAR, places);
	proc->pending = (List *) infer_substitute((Node *) proc->pending, OUTER_VAR, places);
}

/* Can this child compute other columns than it does, without doing anything twice? */
static bool
is_plain(Plan *plan)
{
	ListCell *lc;

	switch (nodeTag(plan))
	{
		case T_SeqScan:
		case T_IndexScan:
		case T_IndexOnlyScan:
		case T_BitmapHeapScan:
			break;
		case T_Result:
			if (plan->lefttree == NULL)
				break;
			return false;
		default:
			return false;
	}
	foreach (lc, plan->targetlist)
	{
		Node *expr = (Node *) ((TargetEntry *) lfirst(lc))->expr;

		if (!IsA(expr, Var) && !IsA(expr, Const) && !IsA(expr, Param))
			return false;
	}
	return true;
}

/* Its columns, in the order in which the common layout has them. */
static void
arrange_columns(AppendWork *work, int n)
{
	Plan *plan = work->children[n].proc->plan;
	List *exprs = NIL;
	List *tlist = NIL;
	ListCell *lc;

	foreach (lc, plan->targetlist)
		exprs = lappend(exprs, ((TargetEntry *) lfirst(lc))->expr);
	foreach (lc, work->unify->columns)
	{
		InferUnifyColumn *column = lfirst(lc);
		Node *expr = infer_substitute(infer_unify_expr(column, n), OUTER_VAR, exprs);

		tlist = lappend(tlist, makeTargetEntry((Expr *) expr, list_length(tlist) + 1, NULL, true));
		column->exprs[n] = (Node *) infer_var_for(OUTER_VAR, list_length(tlist), expr);
	}
	plan->targetlist = tlist;
}

/* The child with the common layout: as it is, if that is what it has, else below a projection. */
static Plan *
close_child(AppendWork *work, int n)
{
	AppendChild *child = &work->children[n];
	Plan *plan = child->proc->plan;
	InferBuild *build;
	Plan *result;
	ListCell *lc;

	if (is_plain(plan))
		arrange_columns(work, n);
	build = infer_build_begin(work->rw, plan);
	foreach (lc, work->unify->columns)
	{
		Node *expr = infer_unify_expr(lfirst(lc), n);
		TargetEntry *label = makeTargetEntry((Expr *) expr, 1, NULL, true);

		if (IsA(expr, Var) && ((Var *) expr)->varattno <= list_length(plan->targetlist))
			label = list_nth(plan->targetlist, ((Var *) expr)->varattno - 1);
		infer_build_output(build, infer_extract(build, expr, NIL), label);
	}
	result = infer_build_end(build);
	/* what a child computes does not matter to Append */
	result->async_capable = child->is_async && result == plan && IsA(plan, ForeignScan);
	return result;
}

static bool
is_same_constant(List *plans, int n)
{
	Node *first =
		(Node *) ((TargetEntry *) list_nth(((Plan *) linitial(plans))->targetlist, n))->expr;
	ListCell *lc;

	if (!IsA(first, Const))
		return false;
	foreach (lc, plans)
	{
		if (!equal(((TargetEntry *) list_nth(((Plan *) lfirst(lc))->targetlist, n))->expr, first))
			return false;
	}
	return true;
}

/* An Append computes nothing: its columns are its children's, and name the first one's. */
static List *
common_tlist(AppendWork *work)
{
	Plan *first = linitial(*work->plans);
	List *tlist = NIL;
	ListCell *lc;
	ListCell *ll;

	forboth(lc, work->unify->columns, ll, first->targetlist)
	{
		InferUnifyColumn *column = lfirst(lc);
		TargetEntry *tle = flatCopyTargetEntry(lfirst(ll));

		if (!is_same_constant(*work->plans, tle->resno - 1))
			tle->expr = (Expr *) makeVar(OUTER_VAR, tle->resno, column->type, column->typmod,
										 column->collation, 0);
		tlist = lappend(tlist, tle);
	}
	return tlist;
}

/* Each child on its own. */
static InferProc *
close_separately(AppendWork *work)
{
	for (int i = 0; i < work->count; i++)
		lfirst(list_nth_cell(*work->plans, i)) = infer_mat(work->rw, work->children[i].proc);
	return infer_unchanged(work->plan);
}

static InferProc *
proc_append(InferRewrite *rw, Plan *plan, List **plans, int nkeys, AttrNumber *keys)
{
	AppendWork work = {rw, plan, plans, list_length(*plans)};
	Cost saved = 0;
	InferProc *proc;

	work.children = palloc0(sizeof(AppendChild) * work.count);
	work.unify = infer_unify_begin(OUTER_VAR, work.count, false);
	for (int i = 0; i < work.count; i++)
		saved += ((Plan *) list_nth(*plans, i))->total_cost;
	open_children(&work);
	if (!may_rise(&work, nkeys, keys) || (proc = unify_children(&work)) == NULL)
		return close_separately(&work);

	order_columns(&work, proc);
	for (int i = 0; i < work.count; i++)
	{
		lfirst(list_nth_cell(*plans, i)) = close_child(&work, i);
		saved -= ((Plan *) list_nth(*plans, i))->total_cost;
	}
	plan->targetlist = common_tlist(&work);
	plan->total_cost = Max(plan->startup_cost, plan->total_cost - saved);
	for (int i = 0; i < nkeys; i++)
		keys[i] = castNode(Var, list_nth(proc->vexprs, keys[i] - 1))->varattno;
	proc->plan = plan;
	return proc;
}

InferProc *
infer_proc_append(InferRewrite *rw, Append *node)
{
	return proc_append(rw, &node->plan, &node->appendplans, 0, NULL);
}

InferProc *
infer_proc_merge_append(InferRewrite *rw, MergeAppend *node)
{
	return proc_append(rw, &node->plan, &node->mergeplans, node->numCols, node->sortColIdx);
}
