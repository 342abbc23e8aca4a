/*
 * scan/rewrite_lateral.c - nested loops that are only a projection.
 *
 * FROM t, LATERAL f(t.x) and LATERAL (SELECT f(t.x)) become a nested loop whose inner side is a
 * function scan, or a Result without a child: one row for each outer row, one call each.
 * Such a join is the same as computing the inner columns over the outer side, which is what we turn
 * it into: parameters become the columns they carry, conditions become pending.
 */
#include "postgres.h"

#include "funcapi.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "scan/rewrite.h"

/* What an inner side computes: columns and conditions, over nothing but parameters. */
typedef struct InnerRow
{
	List *columns;
	List *quals;
} InnerRow;

typedef struct ScanContext
{
	int scanrelid;
	int ncolumns;
} ScanContext;

static bool
odd_column_walker(Node *node, void *context)
{
	ScanContext *scan = context;

	if (node == NULL)
		return false;
	if (IsA(node, Var))
	{
		Var *var = (Var *) node;

		return var->varno != scan->scanrelid || var->varattno < 1 || var->varattno > scan->ncolumns;
	}
	return expression_tree_walker(node, odd_column_walker, context);
}

/* Expressions of a scan node over what it scans; false for whole rows and system columns. */
static bool
apply_scan(Scan *scan, InnerRow *row)
{
	ScanContext context = {scan->scanrelid, list_length(row->columns)};
	List *columns = NIL;
	ListCell *lc;

	if (odd_column_walker((Node *) scan->plan.targetlist, &context) ||
		odd_column_walker((Node *) scan->plan.qual, &context))
		return false;
	row->quals = list_concat(row->quals, (List *) infer_substitute((Node *) scan->plan.qual,
																   scan->scanrelid, row->columns));
	foreach (lc, scan->plan.targetlist)
	{
		Node *expr = (Node *) ((TargetEntry *) lfirst(lc))->expr;

		columns = lappend(columns, infer_substitute(expr, scan->scanrelid, row->columns));
	}
	row->columns = columns;
	return true;
}

/* The fields of a composite result; NIL if they do not match the scan's columns one to one. */
static List *
select_fields(Expr *call, TupleDesc desc)
{
	List *fields = NIL;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);
		FieldSelect *field = makeNode(FieldSelect);

		if (attribute->attisdropped)
			return NIL;
		field->arg = call;
		field->fieldnum = i + 1;
		field->resulttype = attribute->atttypid;
		field->resulttypmod = attribute->atttypmod;
		field->resultcollid = attribute->attcollation;
		fields = lappend(fields, field);
	}
	return fields;
}

static bool
read_function(FunctionScan *scan, InnerRow *row)
{
	RangeTblFunction *function = linitial(scan->functions);
	Oid type;
	TupleDesc desc;

	if (list_length(scan->functions) != 1 || scan->funcordinality ||
		!infer_is_call(function->funcexpr))
		return false;
	switch (get_expr_result_type(function->funcexpr, &type, &desc))
	{
		case TYPEFUNC_SCALAR:
			row->columns = list_make1(function->funcexpr);
			break;
		case TYPEFUNC_COMPOSITE:
			row->columns = select_fields((Expr *) function->funcexpr, desc);
			break;
		default:
			break;
	}
	return row->columns != NIL && apply_scan(&scan->scan, row);
}

/* Is it a plan that gives at most one row, of expressions? */
static bool
read_inner(Plan *plan, InnerRow *row)
{
	ListCell *lc;

	if (plan->initPlan != NIL)
		return false;
	switch (nodeTag(plan))
	{
		case T_Memoize:
		case T_Material:
			return read_inner(plan->lefttree, row);
		case T_SubqueryScan:
			return read_inner(((SubqueryScan *) plan)->subplan, row) &&
				   apply_scan((Scan *) plan, row);
		case T_FunctionScan:
			return read_function((FunctionScan *) plan, row);
		case T_Result:
			if (plan->lefttree != NULL)
				return false;
			row->quals = list_copy((List *) ((Result *) plan)->resconstantqual);
			foreach (lc, plan->targetlist)
				row->columns = lappend(row->columns, ((TargetEntry *) lfirst(lc))->expr);
			return true;
		default:
			return false;
	}
}

/* The expressions get copied to wherever they are read, so they must bear that. */
static bool
is_foldable(NestLoop *node, InnerRow *row)
{
	Join *join = &node->join;
	List *all = list_concat_copy(row->columns, row->quals);

	if (join->jointype == JOIN_LEFT)
	{
		/* a condition would have to give a row of NULLs */
		if (row->quals != NIL || join->joinqual != NIL)
			return false;
	}
	else if (join->jointype != JOIN_INNER)
		return false;
	return infer_contains_call((Node *) all) && !contain_volatile_functions((Node *) all) &&
		   !infer_contains_subplan((Node *) all) && !expression_returns_set((Node *) all);
}

/* The projection that the join amounts to, or NULL. */
InferProc *
infer_fold_lateral(InferRewrite *rw, NestLoop *node)
{
	Plan *join = &node->join.plan;
	InnerRow row = {NIL, NIL};
	Result *result;
	List *quals;

	if (!read_inner(join->righttree, &row) || !is_foldable(node, &row))
		return NULL;
	row.columns = infer_unparametrize(row.columns, node->nestParams);
	row.quals = infer_unparametrize(row.quals, node->nestParams);

	result = makeNode(Result);
	infer_copy_plan_info(&result->plan, join);
	infer_take_init_plans(&result->plan, join);
	result->plan.plan_node_id = join->plan_node_id;
	result->plan.targetlist =
		(List *) infer_substitute((Node *) join->targetlist, INNER_VAR, row.columns);
	quals = list_concat_copy(node->join.joinqual, join->qual);
	quals = (List *) infer_substitute((Node *) quals, INNER_VAR, row.columns);
	quals = list_concat(row.quals, quals);
	return infer_project(rw, &result->plan, infer_proc(rw, join->lefttree), quals);
}
