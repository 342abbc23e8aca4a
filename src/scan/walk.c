/*
 * scan/walk.c - questions about expressions and queries; those about plans are in walk_plan.c.
 *
 * Nothing here changes a node.  "Call" means a FuncExpr on one of our functions that may be taken
 * out of its expression: not SECURITY DEFINER and without SET clauses, for those need the function
 * manager's wrapper around each execution (P15).
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_proc.h"
#include "nodes/bitmapset.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "registry/functions.h"
#include "scan/walk.h"

bool
infer_is_call(const Node *node)
{
	const FuncExpr *call = (const FuncExpr *) node;
	HeapTuple tuple;
	bool plain;

	if (node == NULL || !IsA(node, FuncExpr) || call->funcid < FirstNormalObjectId ||
		call->funcretset || infer_function_lookup(call->funcid) == NULL)
		return false;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(call->funcid));
	if (!HeapTupleIsValid(tuple))
		return false;
	plain = !((Form_pg_proc) GETSTRUCT(tuple))->prosecdef &&
			heap_attisnull(tuple, Anum_pg_proc_proconfig, NULL);
	ReleaseSysCache(tuple);
	return plain;
}

static bool
contains_call_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (infer_is_call(node))
		return true;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, contains_call_walker, context, 0);
	return expression_tree_walker(node, contains_call_walker, context);
}

bool
infer_contains_call(Node *node)
{
	return contains_call_walker(node, NULL);
}

static bool
may_call_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
		case T_Const:
		case T_Param:
		case T_SortGroupClause:
		case T_RangeTblRef:
			return false;
		case T_FuncExpr:
			if (infer_function_may_call(((FuncExpr *) node)->funcid))
				return true;
			break;
		case T_OpExpr:
			/* its function is not known yet in a view or a cached plan */
			if (((OpExpr *) node)->opno >= FirstNormalObjectId &&
				infer_function_may_call(get_opcode(((OpExpr *) node)->opno)))
				return true;
			break;
		case T_Query:
			return query_tree_walker((Query *) node, may_call_walker, context, 0);
		default:
			break;
	}
	return expression_tree_walker(node, may_call_walker, context);
}

/*
 * Could the plan of this query have a call?  It has one that the query has, or that comes from an
 * SQL function (or an operator that is one), for which the planner puts its body.  Most statements
 * of most databases have neither, and pay for this walk only.
 */
bool
infer_query_may_call(Query *query)
{
	return may_call_walker((Node *) query, NULL);
}

static bool
contains_open_call_walker(Node *node, void *context)
{
	if (node == NULL || IsA(node, Aggref) || IsA(node, WindowFunc) || IsA(node, GroupingFunc))
		return false;
	if (infer_is_call(node))
		return true;
	return expression_tree_walker(node, contains_open_call_walker, context);
}

bool
infer_contains_open_call(Node *node)
{
	return contains_open_call_walker(node, NULL);
}

/* Does this evaluate all its operands, whatever they are? */
bool
infer_evaluates_all(Node *node)
{
	switch (nodeTag(node))
	{
		case T_FuncExpr:
		case T_NamedArgExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_FieldSelect:
		case T_FieldStore:
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_ConvertRowtypeExpr:
		case T_CollateExpr:
		case T_ArrayExpr:
		case T_RowExpr:
		case T_MinMaxExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_CoerceToDomain:
			return true;
		default:
			return false;
	}
}

/*
 * textcat() is not marked as leakproof, but it only joins what it gets, and fails for nothing less
 * than a gigabyte.  Prompts are made with it.
 */
static bool
is_leaky_function(Oid funcid, void *context)
{
	return funcid != F_TEXTCAT && !get_func_leakproof(funcid);
}

static bool
may_fail_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
		case T_Const:
		case T_Param:
		case T_CaseTestExpr:
		case T_Aggref:
		case T_WindowFunc:
		case T_GroupingFunc:
			/* no evaluation of its own at this place */
			return false;
		case T_List:
		case T_TargetEntry:
		case T_RelabelType:
		case T_BoolExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CoalesceExpr:
		case T_ArrayExpr:
		case T_RowExpr:
			break;
		case T_OpExpr:
		case T_FuncExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
			if (check_functions_in_node(node, is_leaky_function, NULL))
				return true;
			break;
		default:
			return true;
	}
	return expression_tree_walker(node, may_fail_walker, context);
}

/*
 * Could evaluating this for a row that a pending condition would have dropped be noticed?  A
 * leakproof function neither raises an error that depends on its arguments nor tells anybody about
 * them, which is just what is needed.
 */
bool
infer_may_fail(Node *node)
{
	return may_fail_walker(node, NULL);
}

/* A question about each node of an expression. */
typedef struct Search
{
	bool (*is)(const Node *node, const void *arg);
	const void *arg;
} Search;

static bool
search_walker(Node *node, void *context)
{
	const Search *search = context;

	return node != NULL &&
		   (search->is(node, search->arg) || expression_tree_walker(node, search_walker, context));
}

/* Is it so of any of them? */
static bool
contains(Node *expr, bool (*is)(const Node *node, const void *arg), const void *arg)
{
	Search search = {is, arg};

	return search_walker(expr, &search);
}

static bool
is_subplan(const Node *node, const void *arg)
{
	return IsA(node, SubPlan) || IsA(node, AlternativeSubPlan);
}

bool
infer_contains_subplan(Node *node)
{
	return contains(node, is_subplan, NULL);
}

static bool
is_multiexpr(const Node *node, const void *arg)
{
	return IsA(node, SubPlan) && ((const SubPlan *) node)->subLinkType == MULTIEXPR_SUBLINK;
}

/* SET (a, b) = (SELECT ...): a sub-plan whose results the other columns read as parameters. */
bool
infer_contains_multiexpr(Node *node)
{
	return contains(node, is_multiexpr, NULL);
}

static bool
is_exec_param(const Node *node, const void *ids)
{
	const Param *param = (const Param *) node;

	return IsA(node, Param) && param->paramkind == PARAM_EXEC &&
		   (ids == NULL || bms_is_member(param->paramid, ids));
}

/* Does it hold one of these PARAM_EXEC ids? */
bool
infer_contains_params(Node *node, const Bitmapset *ids)
{
	return ids != NULL && contains(node, is_exec_param, ids);
}

bool
infer_contains_exec_param(Node *node)
{
	return contains(node, is_exec_param, NULL);
}

static bool
exec_params_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
	{
		Bitmapset **ids = context;

		*ids = bms_add_member(*ids, ((Param *) node)->paramid);
	}
	return expression_tree_walker(node, exec_params_walker, context);
}

/* The PARAM_EXEC ids in it. */
Bitmapset *
infer_exec_params(Node *node)
{
	Bitmapset *ids = NULL;

	exec_params_walker(node, &ids);
	return ids;
}

static bool
case_test_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, CaseTestExpr))
		return true;
	if (IsA(node, CaseExpr) && ((CaseExpr *) node)->arg != NULL)
		return case_test_walker((Node *) ((CaseExpr *) node)->arg, context);
	if (IsA(node, ArrayCoerceExpr))
		return case_test_walker((Node *) ((ArrayCoerceExpr *) node)->arg, context);
#if PG_VERSION_NUM >= 160000
	if (IsA(node, JsonConstructorExpr))
		return case_test_walker((Node *) ((JsonConstructorExpr *) node)->args, context) ||
			   case_test_walker((Node *) ((JsonConstructorExpr *) node)->func, context);
#endif
	return expression_tree_walker(node, case_test_walker, context);
}

/* Is there a placeholder for the argument of an enclosing CASE (not of one inside)? */
bool
infer_contains_case_test(Node *node)
{
	return case_test_walker(node, NULL);
}

static bool
is_var(const Node *node, const void *varno)
{
	return IsA(node, Var) && (varno == NULL || ((const Var *) node)->varno == *(const int *) varno);
}

bool
infer_contains_var(Node *node, int varno)
{
	return contains(node, is_var, &varno);
}

bool
infer_contains_any_var(Node *node)
{
	return contains(node, is_var, NULL);
}

bool
infer_is_real(const Node *vexpr)
{
	return IsA(vexpr, Var);
}

typedef struct CountContext
{
	int varno;
	AttrNumber attno;
	int count;
} CountContext;

static bool
count_walker(Node *node, void *context)
{
	CountContext *count = context;

	if (node == NULL)
		return false;
	if (IsA(node, Var))
	{
		Var *var = (Var *) node;

		if (var->varno == count->varno && var->varattno == count->attno)
			count->count++;
		return false;
	}
	return expression_tree_walker(node, count_walker, context);
}

int
infer_count_references(Node *node, int varno, AttrNumber attno)
{
	CountContext count = {varno, attno, 0};

	count_walker(node, &count);
	return count.count;
}
