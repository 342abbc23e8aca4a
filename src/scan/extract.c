/*
 * scan/extract.c - from an expression to steps of a program.
 *
 * The expression is walked top-down with a list of guards: booleans that must all be true for this
 * place to be reached at all.  A call becomes a step under the guards of its place; its arguments
 * are extracted first, so that nesting turns into dependency.  The expression that is left reads
 * the calls' columns.
 *
 *   a AND b       b is guarded by "a IS NOT FALSE"; OR: "a IS NOT TRUE"
 *   COALESCE      each argument by "IS NULL" of all before it
 *   CASE          a condition by "IS NOT TRUE" of those before it, a result by its condition too,
 *                 ELSE by all "IS NOT TRUE"; CASE x WHEN v: the guard has x in v's placeholder
 *
 * A guard is evaluated in the program and again in the expression.  If that could give two answers
 * (a volatile function) or is dear (a sub-plan), its value becomes a computed column which both use
 * (P18).
 *
 * Where the executor may skip an operand by a rule not listed here (row comparison, subscripts of a
 * NULL array, clauses of SQL/JSON queries, per-element coercion), calls stay where they are: their
 * own body is always right.
 */
#include "postgres.h"

#include "nodes/bitmapset.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"

#include "scan/build.h"
#include "scan/hoist.h"
#include "scan/moves.h"
#include "scan/walk.h"

typedef struct ExtractContext
{
	InferBuild *build;
	List *guards;
	Bitmapset *local_params; /* outputs of the SubPlan whose test expression we are in */
} ExtractContext;

static Node *extract_mutator(Node *node, void *context);

/* Only moves the columns: for places whose calls must stay. */
static Node *
leave_mutator(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var))
		return infer_build_child_var(((ExtractContext *) context)->build, (Var *) node);
	return expression_tree_mutator(node, leave_mutator, context);
}

static Node *
extract_under(ExtractContext *context, Node *node, List *guards)
{
	ExtractContext inner = *context;

	inner.guards = guards;
	return extract_mutator(node, &inner);
}

/* Can this be evaluated in the program instead of here? */
static bool
is_portable(ExtractContext *context, Node *node)
{
	return !infer_contains_params(node, context->local_params) && !infer_contains_case_test(node) &&
		   !expression_returns_set(node);
}

static Node *
extract_call(ExtractContext *context, FuncExpr *call)
{
	FuncExpr *moved;

	if (!is_portable(context, (Node *) call->args))
		return leave_mutator((Node *) call, context);
	moved = copyObject(call);
	moved->args = (List *) extract_mutator((Node *) call->args, context);
	return (Node *) infer_build_call(context->build, moved, context->guards);
}

/* Once evaluated here and once in a guard: is that one value, cheaply? */
static bool
is_repeatable(Node *expr)
{
	return !contain_volatile_functions(expr) && !infer_contains_subplan(expr);
}

static Node *
make_test(Node *condition, BoolTestType type)
{
	BooleanTest *test = makeNode(BooleanTest);

	test->arg = copyObject((Expr *) condition);
	test->booltesttype = type;
	test->location = -1;
	return (Node *) test;
}

static Node *
make_is_null(Node *value)
{
	NullTest *test = makeNode(NullTest);

	test->arg = copyObject((Expr *) value);
	test->nulltesttype = IS_NULL;
	test->argisrow = false;
	test->location = -1;
	return (Node *) test;
}

/* A value that guards what follows: itself, or the column that it was computed into. */
static Node *
extract_tested(ExtractContext *context, Node *node, List *guards)
{
	Node *value = extract_under(context, node, guards);

	if (is_repeatable(value))
		return value;
	return (Node *) infer_build_compute(context->build, value, guards);
}

/*
 * The operands of AND, OR and COALESCE, left to right.  An operand that cannot be evaluated in the
 * program cannot guard, so that from there on calls stay.
 */
static List *
extract_operands(ExtractContext *context, List *operands, Node *(*guard)(Node *value))
{
	List *guards = list_copy(context->guards);
	List *result = NIL;
	bool open = true;
	ListCell *lc;

	foreach (lc, operands)
	{
		Node *operand = lfirst(lc);
		List *rest = list_copy_tail(operands, foreach_current_index(lc) + 1);
		Node *value;

		if (!open)
			value = leave_mutator(operand, context);
		else if (!infer_contains_call((Node *) rest))
			value = extract_under(context, operand, guards);
		else if (!is_portable(context, operand))
		{
			value = extract_under(context, operand, guards);
			open = false;
		}
		else
		{
			value = extract_tested(context, operand, guards);
			guards = lappend(list_copy(guards), guard(value));
		}
		result = lappend(result, value);
	}
	return result;
}

static Node *
guard_not_false(Node *value)
{
	return make_test(value, IS_NOT_FALSE);
}

static Node *
guard_not_true(Node *value)
{
	return make_test(value, IS_NOT_TRUE);
}

static Node *
extract_bool(ExtractContext *context, BoolExpr *expr)
{
	BoolExpr *result = makeNode(BoolExpr);

	*result = *expr;
	if (expr->boolop == NOT_EXPR)
		result->args = (List *) extract_mutator((Node *) expr->args, context);
	else
		result->args = extract_operands(
			context, expr->args, expr->boolop == AND_EXPR ? guard_not_false : guard_not_true);
	return (Node *) result;
}

static Node *
extract_coalesce(ExtractContext *context, CoalesceExpr *expr)
{
	CoalesceExpr *result = makeNode(CoalesceExpr);

	*result = *expr;
	result->args = extract_operands(context, expr->args, make_is_null);
	return (Node *) result;
}

/* Puts the argument of a CASE into the placeholders that are its own. */
static Node *
fill_case_mutator(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, CaseTestExpr))
		return copyObject((Node *) context);
	if (IsA(node, CaseExpr) && ((CaseExpr *) node)->arg != NULL)
	{
		CaseExpr *inner = copyObject((CaseExpr *) node);

		inner->arg = (Expr *) fill_case_mutator((Node *) inner->arg, context);
		return (Node *) inner;
	}
	if (IsA(node, ArrayCoerceExpr))
	{
		ArrayCoerceExpr *inner = copyObject((ArrayCoerceExpr *) node);

		inner->arg = (Expr *) fill_case_mutator((Node *) inner->arg, context);
		return (Node *) inner;
	}
#if PG_VERSION_NUM >= 160000
	if (IsA(node, JsonConstructorExpr))
	{
		JsonConstructorExpr *inner = copyObject((JsonConstructorExpr *) node);

		inner->args = (List *) fill_case_mutator((Node *) inner->args, context);
		inner->func = (Expr *) fill_case_mutator((Node *) inner->func, context);
		return (Node *) inner;
	}
#endif
#if PG_VERSION_NUM >= 160000 && PG_VERSION_NUM < 170000
	if (IsA(node, JsonValueExpr))
	{
		JsonValueExpr *inner = copyObject((JsonValueExpr *) node);

		inner->raw_expr = (Expr *) fill_case_mutator((Node *) inner->raw_expr, context);
		return (Node *) inner;
	}
#endif
	return expression_tree_mutator(node, fill_case_mutator, context);
}

/* One WHEN: its condition as it stands in the new CASE; *guard is the boolean to test. */
static Node *
extract_when(ExtractContext *context, Node *condition, Node *arg, List *guards, Node **guard)
{
	Node *value = extract_under(context, condition, guards);
	Node *filled = arg == NULL ? value : fill_case_mutator(value, arg);

	if (is_repeatable(filled))
	{
		*guard = filled;
		return value;
	}
	*guard = (Node *) infer_build_compute(context->build, filled, guards);
	return *guard;
}

static Node *
extract_case(ExtractContext *context, CaseExpr *expr)
{
	CaseExpr *result = copyObject(expr);
	List *guards = list_copy(context->guards);
	ListCell *lc;

	if (!is_portable(context, (Node *) expr))
		return leave_mutator((Node *) expr, context);
	if (expr->arg)
		result->arg = (Expr *) extract_tested(context, (Node *) expr->arg, guards);
	foreach (lc, result->args)
	{
		CaseWhen *when = lfirst(lc);
		Node *guard;
		List *taken;

		when->expr = (Expr *) extract_when(context, (Node *) when->expr, (Node *) result->arg,
										   guards, &guard);
		taken = lappend(list_copy(guards), copyObject(guard));
		when->result = (Expr *) extract_under(context, (Node *) when->result, taken);
		guards = lappend(list_copy(guards), make_test(guard, IS_NOT_TRUE));
	}
	result->defresult = (Expr *) extract_under(context, (Node *) expr->defresult, guards);
	return (Node *) result;
}

/*
 * Arguments and test belong to our row; the test also reads what the sub-plan returned.  It is not
 * evaluated at all if that is nothing, which a correlated sub-plan decides for each row.  Arguments
 * that are made ahead have become steps now.
 */
static Node *
extract_subplan(ExtractContext *context, SubPlan *expr)
{
	SubPlan *result = copyObject(expr);
	ExtractContext inner = *context;
	ListCell *lc;

	result->args = (List *) extract_mutator((Node *) expr->args, context);
	infer_drop_ahead(context->build->rw, result);
	inner.local_params = bms_copy(context->local_params);
	foreach (lc, expr->paramIds)
		inner.local_params = bms_add_member(inner.local_params, lfirst_int(lc));
	result->testexpr = expr->parParam == NIL ? extract_mutator(expr->testexpr, &inner)
											 : leave_mutator(expr->testexpr, &inner);
	return (Node *) result;
}

/* Only the first operand is evaluated for sure. */
static Node *
extract_row_compare(ExtractContext *context, RowCompareExpr *expr)
{
	RowCompareExpr *result = (RowCompareExpr *) leave_mutator((Node *) expr, context);

	linitial(result->largs) = extract_mutator(linitial(expr->largs), context);
	linitial(result->rargs) = extract_mutator(linitial(expr->rargs), context);
	return (Node *) result;
}

static Node *
extract_subscript(ExtractContext *context, SubscriptingRef *expr)
{
	SubscriptingRef *result = (SubscriptingRef *) leave_mutator((Node *) expr, context);

	result->refexpr = (Expr *) extract_mutator((Node *) expr->refexpr, context);
	return (Node *) result;
}

static Node *
extract_array_coerce(ExtractContext *context, ArrayCoerceExpr *expr)
{
	ArrayCoerceExpr *result = copyObject(expr);

	result->arg = (Expr *) extract_mutator((Node *) expr->arg, context);
	return (Node *) result;
}

#if PG_VERSION_NUM >= 160000
/* The coercion works on a placeholder for the result. */
static Node *
extract_json_constructor(ExtractContext *context, JsonConstructorExpr *expr)
{
	JsonConstructorExpr *result = copyObject(expr);

	result->args = (List *) extract_mutator((Node *) expr->args, context);
	result->func = (Expr *) extract_mutator((Node *) expr->func, context);
	return (Node *) result;
}
#endif

#if PG_VERSION_NUM >= 170000
/* JSON_VALUE and its like: what is behind the document is not evaluated if that is NULL. */
static Node *
extract_json_query(ExtractContext *context, JsonExpr *expr)
{
	JsonExpr *result = (JsonExpr *) leave_mutator((Node *) expr, context);

	result->formatted_expr = extract_mutator(expr->formatted_expr, context);
	return (Node *) result;
}
#endif

static Node *
extract_mutator(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (infer_is_call(node))
		return extract_call(context, (FuncExpr *) node);
	if (!IsA(node, Var) && !infer_contains_call(node))
		return leave_mutator(node, context);
	switch (nodeTag(node))
	{
		case T_Var:
			return infer_build_child_var(((ExtractContext *) context)->build, (Var *) node);
		case T_BoolExpr:
			return extract_bool(context, (BoolExpr *) node);
		case T_CoalesceExpr:
			return extract_coalesce(context, (CoalesceExpr *) node);
		case T_CaseExpr:
			return extract_case(context, (CaseExpr *) node);
		case T_SubPlan:
			return extract_subplan(context, (SubPlan *) node);
		case T_RowCompareExpr:
			return extract_row_compare(context, (RowCompareExpr *) node);
		case T_SubscriptingRef:
			return extract_subscript(context, (SubscriptingRef *) node);
		case T_ArrayCoerceExpr:
			return extract_array_coerce(context, (ArrayCoerceExpr *) node);
#if PG_VERSION_NUM >= 160000
		case T_JsonConstructorExpr:
			return extract_json_constructor(context, (JsonConstructorExpr *) node);
#endif
#if PG_VERSION_NUM >= 170000
		case T_JsonExpr:
			return extract_json_query(context, (JsonExpr *) node);
		case T_JsonValueExpr:
#endif
#if PG_VERSION_NUM >= 160000
		case T_JsonIsPredicate:
#endif
		case T_List:
		case T_TargetEntry:
		case T_XmlExpr:
			return expression_tree_mutator(node, extract_mutator, context);
		default:
			return infer_evaluates_all(node)
					   ? expression_tree_mutator(node, extract_mutator, context)
					   : leave_mutator(node, context);
	}
}

Node *
infer_extract(InferBuild *build, Node *expr, List *guards)
{
	ExtractContext context = {build, guards, NULL};

	return extract_mutator(expr, &context);
}

Node *
infer_extract_condition(InferBuild *build, Node *expr, List *guards, Node **guard)
{
	ExtractContext context = {build, guards, NULL};
	Node *value = extract_tested(&context, expr, guards);

	*guard = copyObject(value);
	return value;
}

static Node *
reuse_mutator(Node *node, void *context)
{
	InferBuild *build = ((ExtractContext *) context)->build;

	if (node == NULL)
		return NULL;
	if (IsA(node, Var))
		return infer_build_child_var(build, (Var *) node);
	if (infer_is_call(node) && !contain_volatile_functions(node))
	{
		FuncExpr *call = (FuncExpr *) expression_tree_mutator(node, reuse_mutator, context);
		ListCell *le;
		ListCell *lt;

		forboth(le, build->exprs, lt, build->targets)
		{
			if (lfirst_int(lt) > 0 && list_length(lfirst(le)) == 1 &&
				equal(linitial(lfirst(le)), call))
				return (Node *) infer_var_for(INDEX_VAR, lfirst_int(lt), (Node *) call);
		}
		return (Node *) call;
	}
	return expression_tree_mutator(node, reuse_mutator, context);
}

Node *
infer_reuse(InferBuild *build, Node *expr)
{
	ExtractContext context = {build, NIL, NULL};

	return reuse_mutator(expr, &context);
}
