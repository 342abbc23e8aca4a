/*
 * scan/rewrite_values.c - calls in a VALUES list of several rows.
 *
 * A scan of VALUES (1, f('a')), (2, f('b')) evaluates each row's expressions when it gets there:
 * one call at a time, with nothing to read ahead from.  Here what the rows' expressions have in
 * common, casts included, is taken out (unify.c) and what differs stays:
 *
 *     VALUES (1, f('a')), (2, f('b'))   ->   column 1, f(column 2) over VALUES (1, 'a'), (2, 'b')
 *
 * which is a scan like any other, whose calls rise.  Everything that stays is evaluated where it
 * was, once per row and in the same order.  A column for which this cannot be done exactly keeps
 * its calls, and so does a list whose rows are read as a whole: except by EvalPlanQual, which hands
 * back such a row to this same scan (it must have the scan's layout, whatever that is).
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"

#include "scan/rewrite.h"
#include "scan/unify.h"
#include "scan/walk.h"

typedef struct ValuesWork
{
	ValuesScan *scan;
	InferUnify *unify; /* the list's columns as they will be */
	List *outputs;     /* per column of the old list, over the new one */
	bool lifted;
} ValuesWork;

static bool
has_call(Node **nodes, int count)
{
	for (int i = 0; i < count; i++)
	{
		if (infer_contains_open_call(nodes[i]))
			return true;
	}
	return false;
}

static void
lift_column(ValuesWork *work, int n)
{
	int count = work->unify->count;
	Node **nodes = palloc(sizeof(Node *) * count);
	Node *output = NULL;

	for (int i = 0; i < count; i++)
		nodes[i] = list_nth((List *) list_nth(work->scan->values_lists, i), n);
	if (has_call(nodes, count))
		output = infer_unify(work->unify, nodes);
	if (output != NULL)
		work->lifted = true;
	else
		output = (Node *) infer_unify_column(work->unify, nodes, exprType(nodes[0]),
											 exprTypmod(nodes[0]), exprCollation(nodes[0]));
	work->outputs = lappend(work->outputs, output);
}

static bool
whole_row_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
		return ((Var *) node)->varno == *(int *) context && ((Var *) node)->varattno < 1;
	return expression_tree_walker(node, whole_row_walker, context);
}

static bool
has_row_mark(InferRewrite *rw, int rti)
{
	ListCell *lc;

	foreach (lc, rw->stmt->rowMarks)
	{
		if (((PlanRowMark *) lfirst(lc))->rti == rti)
			return true;
	}
	return false;
}

/* A column as it was read, with the type modifier and collation that it was read with. */
static Node *
values_mutator(Node *node, void *context)
{
	ValuesWork *work = context;
	Var *var = (Var *) node;
	Node *output;

	if (node == NULL)
		return NULL;
	if (!IsA(node, Var) || var->varno != work->scan->scan.scanrelid)
		return expression_tree_mutator(node, values_mutator, context);
	if (var->varattno < 1)
		return copyObject(node);
	output = copyObject((Node *) list_nth(work->outputs, var->varattno - 1));
	if (IsA(output, Var))
	{
		AttrNumber attno = ((Var *) output)->varattno;

		var = copyObject(var);
		var->varattno = attno;
		return (Node *) var;
	}
	if (exprTypmod(output) == var->vartypmod && exprCollation(output) == var->varcollid)
		return output;
	return (Node *) makeRelabelType((Expr *) output, var->vartype, var->vartypmod, var->varcollid,
									COERCE_IMPLICIT_CAST);
}

/* EXPLAIN finds the columns' names in the range table. */
static void
name_columns(InferRewrite *rw, ValuesWork *work)
{
	RangeTblEntry *rte = rt_fetch(work->scan->scan.scanrelid, rw->stmt->rtable);
	List *names = NIL;

	for (int n = 1; n <= list_length(work->unify->columns); n++)
		names = lappend(names, makeString(psprintf("column%d", n)));
	rte->eref = makeAlias(rte->eref->aliasname, names);
	rte->alias = NULL;
}

/* Takes the calls out of the list, into the scan's targetlist and conditions. */
void
infer_lift_values(InferRewrite *rw, ValuesScan *scan)
{
	ValuesWork work = {.scan = scan};
	int scanrelid = scan->scan.scanrelid;
	Plan *plan = &scan->scan.plan;
	List *rows = NIL;
	ListCell *lc;

	if (!infer_contains_open_call((Node *) scan->values_lists))
		return;
	if ((whole_row_walker((Node *) plan->targetlist, &scanrelid) ||
		 whole_row_walker((Node *) plan->qual, &scanrelid)) &&
		!has_row_mark(rw, scanrelid))
		return;
	work.unify = infer_unify_begin(scanrelid, list_length(scan->values_lists), true);
	for (int n = 0; n < list_length(linitial(scan->values_lists)); n++)
		lift_column(&work, n);
	if (!work.lifted)
		return;
	for (int i = 0; i < work.unify->count; i++)
	{
		List *row = NIL;

		foreach (lc, work.unify->columns)
			row = lappend(row, infer_unify_expr(lfirst(lc), i));
		rows = lappend(rows, row);
	}
	scan->values_lists = rows;
	plan->targetlist = (List *) values_mutator((Node *) plan->targetlist, &work);
	plan->qual = (List *) values_mutator((Node *) plan->qual, &work);
	name_columns(rw, &work);
}
