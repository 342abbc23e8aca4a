/*
 * scan/rewrite_lateral.c - nested loops that are only a projection.
 *
 * FROM t, LATERAL f(t.x) and LATERAL (SELECT f(t.x)) become a nested loop whose inner side is a
 * function scan, or a Result without a child: one row for each outer row, one call each.
 * Such a join is the same as computing the inner columns over the outer side, which is what we turn
 * it into: parameters become the columns they carry, conditions become pending.  In a left join a
 * row that fails its conditions stays, with NULL for the inner columns, so that there each column
 * is a CASE over the conditions.
 *
 * A call whose column nobody reads, or only behind a condition, is made for fewer rows then.  What
 * FROM does with an answer, as in CAST(f(t.x) AS int), is another matter: it may raise an error,
 * and PostgreSQL executes it for each outer row.  If we would not, the join is left alone.
 *
 * A function scan turns a NULL of a composite type into a row of NULLs.  So do we: the columns are
 * the fields, and its whole row is made of them.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"

#include "scan/moves.h"
#include "scan/rewrite.h"
#include "scan/walk.h"

/* What an inner side computes: columns and conditions, over nothing but parameters. */
typedef struct InnerRow
{
	List *columns;
	List *quals;
	List *eager; /* what a function scan computes, besides calls, that may fail */
	Oid rowtype; /* composite type whose fields the columns are, or InvalidOid */
} InnerRow;

typedef struct ScanContext
{
	int scanrelid;
	InnerRow *row;
	List *names; /* of a function scan's columns */
} ScanContext;

/*
 * An anonymous row is what UPDATE and DELETE carry along for EvalPlanQual, which has no use for it
 * once the scan that it belongs to is gone, but finds its column by name.
 */
static bool
is_whole_row(Var *var, ScanContext *scan)
{
	if (var->varno != scan->scanrelid || var->varattno != 0)
		return false;
	if (var->vartype == RECORDOID)
		return list_length(scan->names) == list_length(scan->row->columns);
	return OidIsValid(var->vartype) && var->vartype == scan->row->rowtype;
}

static bool
odd_column_walker(Node *node, void *context)
{
	ScanContext *scan = context;

	if (node == NULL)
		return false;
	if (IsA(node, Var))
	{
		Var *var = (Var *) node;

		return !is_whole_row(var, scan) && (var->varno != scan->scanrelid || var->varattno < 1 ||
											var->varattno > list_length(scan->row->columns));
	}
	return expression_tree_walker(node, odd_column_walker, context);
}

static Node *
whole_row_mutator(Node *node, void *context)
{
	ScanContext *scan = context;

	if (node == NULL)
		return NULL;
	if (IsA(node, Var) && is_whole_row((Var *) node, scan))
	{
		RowExpr *expr = makeNode(RowExpr);

		expr->args = copyObject(scan->row->columns);
		expr->row_typeid = ((Var *) node)->vartype;
		if (expr->row_typeid == RECORDOID)
			expr->colnames = copyObject(scan->names);
		expr->row_format = COERCE_EXPLICIT_CALL;
		expr->location = -1;
		return (Node *) expr;
	}
	return expression_tree_mutator(node, whole_row_mutator, context);
}

/* An expression of a scan node over what it scans. */
static Node *
apply_columns(Node *expr, ScanContext *context)
{
	return infer_substitute(whole_row_mutator(expr, context), context->scanrelid,
							context->row->columns);
}

/* A scan node's columns and conditions; false for what only the scan itself can give. */
static bool
apply_scan(InferRewrite *rw, Scan *scan, InnerRow *row)
{
	ScanContext context = {scan->scanrelid, row, NIL};
	List *columns = NIL;
	ListCell *lc;

	if (IsA(scan, FunctionScan))
		context.names = rt_fetch(scan->scanrelid, rw->stmt->rtable)->eref->colnames;

	if (odd_column_walker((Node *) scan->plan.targetlist, &context) ||
		odd_column_walker((Node *) scan->plan.qual, &context))
		return false;
	row->quals =
		list_concat(row->quals, (List *) apply_columns((Node *) scan->plan.qual, &context));
	foreach (lc, scan->plan.targetlist)
		columns =
			lappend(columns, apply_columns((Node *) ((TargetEntry *) lfirst(lc))->expr, &context));
	row->columns = columns;
	row->rowtype = InvalidOid;
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

/* The columns of one function of a function scan; NIL if it is none to be made a projection. */
static List *
function_columns(Node *call, Oid *type)
{
	TupleDesc desc;

	if (expression_returns_set(call))
		return NIL;
	switch (get_expr_result_type(call, type, &desc))
	{
		case TYPEFUNC_SCALAR:
			return list_make1(call);
		case TYPEFUNC_COMPOSITE:
			/* any other function would be executed once a field */
			return infer_is_call(call) ? select_fields((Expr *) call, desc) : NIL;
		default:
			return NIL;
	}
}

/* ROWS FROM lists functions, of which none returns a set: one row, the first. */
static bool
read_function(InferRewrite *rw, FunctionScan *scan, InnerRow *row)
{
	Oid type = InvalidOid;
	ListCell *lc;

	foreach (lc, scan->functions)
	{
		Node *function = ((RangeTblFunction *) lfirst(lc))->funcexpr;
		List *columns = function_columns(function, &type);

		if (columns == NIL)
			return false;
		if (!infer_is_call(function) && infer_may_fail(function))
			row->eager = lappend(row->eager, function);
		row->columns = list_concat(row->columns, columns);
	}
	if (scan->funcordinality)
		row->columns = lappend(row->columns, makeConst(INT8OID, -1, InvalidOid, sizeof(int64),
													   Int64GetDatum(1), false, FLOAT8PASSBYVAL));
	else if (list_length(scan->functions) == 1)
		row->rowtype = type;
	return apply_scan(rw, &scan->scan, row);
}

/* Is it a plan that gives at most one row, of expressions? */
static bool
read_inner(InferRewrite *rw, Plan *plan, InnerRow *row)
{
	ListCell *lc;

	if (plan->initPlan != NIL)
		return false;
	switch (nodeTag(plan))
	{
		case T_Memoize:
		case T_Material:
			return read_inner(rw, plan->lefttree, row);
		case T_SubqueryScan:
			return read_inner(rw, ((SubqueryScan *) plan)->subplan, row) &&
				   apply_scan(rw, (Scan *) plan, row);
		case T_FunctionScan:
			return read_function(rw, (FunctionScan *) plan, row);
		case T_Result:
			/* with columns, it stands for a relation that is known to be empty */
			if (plan->lefttree != NULL || infer_contains_any_var((Node *) plan->targetlist))
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
	List *all = list_concat_copy(row->columns, row->quals);

	if (node->join.jointype == JOIN_LEFT)
		all = list_concat(all, node->join.joinqual);
	else if (node->join.jointype != JOIN_INNER)
		return false;
	return infer_contains_call((Node *) all) && !contain_volatile_functions((Node *) all) &&
		   !infer_contains_subplan((Node *) all) && !expression_returns_set((Node *) all);
}

/* A column of a left join's inner side: NULL where the conditions are not met. */
static Node *
make_nullable(Node *column, List *quals)
{
	Node *null =
		(Node *) makeNullConst(exprType(column), exprTypmod(column), exprCollation(column));

	return infer_make_case((Node *) copyObject(make_ands_explicit(quals)), column, null);
}

/* Makes the conditions of a left join part of the inner columns. */
static void
take_join_conditions(Join *join, InnerRow *row)
{
	List *joinqual = (List *) infer_substitute((Node *) join->joinqual, INNER_VAR, row->columns);
	List *quals = list_concat(row->quals, joinqual);
	ListCell *lc;

	row->quals = NIL;
	if (quals == NIL)
		return;
	foreach (lc, row->columns)
		lfirst(lc) = make_nullable(lfirst(lc), quals);
}

static bool
reaches_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (equal(node, context))
		return true;
	switch (nodeTag(node))
	{
		case T_BoolExpr:
			return reaches_walker(linitial(((BoolExpr *) node)->args), context);
		case T_CaseExpr:
			/* as make_nullable() builds it */
			return ((CaseExpr *) node)->arg == NULL &&
				   reaches_walker((Node *) linitial_node(CaseWhen, ((CaseExpr *) node)->args)->expr,
								  context);
		case T_List:
		case T_TargetEntry:
			return expression_tree_walker(node, reaches_walker, context);
		default:
			return infer_evaluates_all(node) &&
				   expression_tree_walker(node, reaches_walker, context);
	}
}

/* Are these evaluated for each row by a projection with these conditions? */
static bool
evaluates(List *targetlist, List *quals, List *exprs)
{
	void *first = quals != NIL ? linitial(quals) : targetlist;
	ListCell *lc;

	foreach (lc, exprs)
	{
		if (!reaches_walker(first, lfirst(lc)))
			return false;
	}
	return true;
}

/* The projection that the join amounts to, or NULL. */
InferProc *
infer_fold_lateral(InferRewrite *rw, NestLoop *node)
{
	Plan *join = &node->join.plan;
	InnerRow row = {.rowtype = InvalidOid};
	Result *result;
	List *quals = NIL;
	List *targetlist;

	if (!read_inner(rw, join->righttree, &row) || !is_foldable(node, &row))
		return NULL;
	row.columns = (List *) infer_unparametrize((Node *) row.columns, node->nestParams);
	row.quals = (List *) infer_unparametrize((Node *) row.quals, node->nestParams);
	row.eager = (List *) infer_unparametrize((Node *) row.eager, node->nestParams);
	if (node->join.jointype == JOIN_LEFT)
		take_join_conditions(&node->join, &row);
	else
		quals = list_copy(node->join.joinqual);
	quals = list_concat(quals, join->qual);
	quals = (List *) infer_substitute((Node *) quals, INNER_VAR, row.columns);
	quals = list_concat(row.quals, quals);
	targetlist = (List *) infer_substitute((Node *) join->targetlist, INNER_VAR, row.columns);
	if (!evaluates(targetlist, quals, row.eager))
		return NULL;

	result = makeNode(Result);
	infer_copy_plan_info(&result->plan, join);
	infer_take_init_plans(&result->plan, join);
	result->plan.plan_node_id = join->plan_node_id;
	result->plan.targetlist = targetlist;
	return infer_project(rw, &result->plan, infer_proc(rw, join->lefttree), quals);
}
