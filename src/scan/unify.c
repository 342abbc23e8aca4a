/*
 * scan/unify.c - from several expressions of one form to a single one over columns.
 *
 * The children of an Append, the rows of a VALUES list and the RETURNING lists of several result
 * relations (sources, all of them) say the same thing in different words: f(m, x) here with column
 * 2, there with column 3, there with a constant.  What they have in common, calls included, becomes
 * one expression; where they differ it reads a column, and each source says what that column is.
 *
 * Sources whose expressions differ in form, such as one that has no call there, get a column that
 * tells them apart, and the common expression is a CASE over it.  More than a few forms are not
 * unified: every row would try them all.
 *
 * What becomes a column is evaluated for each row of its source, wherever it stood before.  An
 * eager source evaluates all its expressions for each row anyway, so that only operands that might
 * have been skipped (those of CASE, AND, OR, COALESCE) must not fail.  Of any other nothing but
 * what cannot fail becomes a column.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"

#include "scan/unify.h"
#include "scan/walk.h"

#define MOST_FORMS 4

InferUnify *
infer_unify_begin(int varno, int count, bool eager)
{
	InferUnify *unify = palloc0(sizeof(InferUnify));

	unify->varno = varno;
	unify->count = count;
	unify->eager = eager;
	return unify;
}

static Node *
first_node(InferUnify *unify, Node **nodes)
{
	for (int i = 0; i < unify->count; i++)
	{
		if (nodes[i] != NULL)
			return nodes[i];
	}
	elog(ERROR, "nothing to unify");
}

/* Is this a form that we know how to look into? */
static bool
is_known_form(Node *node)
{
	switch (nodeTag(node))
	{
		case T_BoolExpr:
		case T_CoalesceExpr:
		case T_CaseExpr:
		case T_CaseTestExpr:
		case T_ArrayCoerceExpr:
		case T_SubscriptingRef:
		case T_RowCompareExpr:
		case T_SubPlan:
			return true;
		default:
			return infer_evaluates_all(node);
	}
}

static bool
is_atom(Node *node)
{
	return IsA(node, Var) || IsA(node, Const) || IsA(node, Param);
}

/* May a source evaluate this for each of its rows? */
static bool
may_become_column(InferUnify *unify, Node *node, bool guarded)
{
	/* a child's whole row, as its parent's */
	while (IsA(node, ConvertRowtypeExpr))
		node = (Node *) ((ConvertRowtypeExpr *) node)->arg;
	if (is_atom(node))
		return true;
	if (infer_contains_open_call(node) || infer_contains_case_test(node) ||
		expression_returns_set(node))
		return false;
	if (unify->eager && !guarded)
		return true;
	return is_known_form(node) && !infer_may_fail(node) && !contain_volatile_functions(node);
}

static bool
has_column_exprs(InferUnify *unify, const InferUnifyColumn *column, Node **nodes)
{
	for (int i = 0; i < unify->count; i++)
	{
		if (!equal(column->exprs[i], nodes[i]))
			return false;
	}
	return true;
}

Var *
infer_unify_column(InferUnify *unify, Node **nodes, Oid type, int32 typmod, Oid collation)
{
	InferUnifyColumn *column;
	bool shared = true;
	ListCell *lc;

	for (int i = 0; i < unify->count; i++)
		shared = shared && !contain_volatile_functions(nodes[i]);
	foreach (lc, unify->columns)
	{
		column = lfirst(lc);
		if (shared && column->type == type && column->typmod == typmod &&
			column->collation == collation && has_column_exprs(unify, column, nodes))
			return makeVar(unify->varno, foreach_current_index(lc) + 1, type, typmod, collation, 0);
	}
	column = palloc(sizeof(InferUnifyColumn));
	column->exprs = palloc(sizeof(Node *) * unify->count);
	memcpy(column->exprs, nodes, sizeof(Node *) * unify->count);
	column->type = type;
	column->typmod = typmod;
	column->collation = collation;
	unify->columns = lappend(unify->columns, column);
	return makeVar(unify->varno, list_length(unify->columns), type, typmod, collation, 0);
}

/* A column for what the sources do not have in common, or NULL. */
static Node *
differ(InferUnify *unify, Node **nodes, bool guarded)
{
	Node *first = first_node(unify, nodes);
	Oid type;
	int32 typmod;
	Oid collation;

	for (int i = 0; i < unify->count; i++)
	{
		if (nodes[i] != NULL && !may_become_column(unify, nodes[i], guarded))
			return NULL;
	}
	type = exprType(first);
	typmod = exprTypmod(first);
	collation = exprCollation(first);
	for (int i = 0; i < unify->count; i++)
	{
		if (nodes[i] == NULL)
			continue;
		if (exprType(nodes[i]) != type || exprCollation(nodes[i]) != collation)
			return NULL;
		if (exprTypmod(nodes[i]) != typmod)
			typmod = -1;
	}
	/* nobody could tell the fields of an anonymous record that is computed elsewhere */
	if (guarded && get_typtype(type) == TYPTYPE_PSEUDO)
		return NULL;
	return (Node *) infer_unify_column(unify, nodes, type, typmod, collation);
}

/* What only holds operands, and is no expression itself. */
static bool
is_holder(Node *node)
{
	return IsA(node, List) || IsA(node, CaseWhen);
}

/* Takes the operands out of an expression; what is left is its shape. */
static Node *
shape_mutator(Node *node, void *context)
{
	List **operands = context;

	if (node == NULL)
		return NULL;
	if (is_holder(node))
		return expression_tree_mutator(node, shape_mutator, context);
	*operands = lappend(*operands, node);
	return makeBoolConst(false, true);
}

static Node *
fill_mutator(Node *node, void *context)
{
	List **operands = context;
	Node *operand;

	if (node == NULL)
		return NULL;
	if (is_holder(node))
		return expression_tree_mutator(node, fill_mutator, context);
	operand = linitial(*operands);
	*operands = list_delete_first(*operands);
	return operand;
}

static Node *unify_nodes(InferUnify *unify, Node **nodes, bool guarded);

/* All sources' operand number n. */
static Node *
unify_operand(InferUnify *unify, List **operands, int n, bool guarded)
{
	Node **nodes = palloc0(sizeof(Node *) * unify->count);

	for (int i = 0; i < unify->count; i++)
	{
		if (operands[i] != NIL)
			nodes[i] = list_nth(operands[i], n);
	}
	return unify_nodes(unify, nodes, guarded);
}

/* Expressions of one shape, operand by operand; NULL if they are not or an operand cannot be. */
static Node *
unify_operands(InferUnify *unify, Node **nodes, bool guarded)
{
	Node *first = first_node(unify, nodes);
	List **operands = palloc0(sizeof(List *) * unify->count);
	Node *shape = NULL;
	List *unified = NIL;
	int noperands = 0;

	if (IsA(first, Var) || !is_known_form(first))
		return NULL;
	for (int i = 0; i < unify->count; i++)
	{
		Node *own;

		if (nodes[i] == NULL)
			continue;
		if (nodeTag(nodes[i]) != nodeTag(first))
			return NULL;
		own = expression_tree_mutator(nodes[i], shape_mutator, &operands[i]);
		if (shape != NULL && !equal(own, shape))
			return NULL;
		shape = own;
		noperands = list_length(operands[i]);
	}
	guarded = guarded || !infer_evaluates_all(first);
	for (int n = 0; n < noperands; n++)
	{
		Node *operand = unify_operand(unify, operands, n, guarded);

		if (operand == NULL)
			return NULL;
		unified = lappend(unified, operand);
	}
	return expression_tree_mutator(first, fill_mutator, &unified);
}

static bool
is_same_constant(InferUnify *unify, Node **nodes)
{
	Node *first = first_node(unify, nodes);

	if (!IsA(first, Const) && !IsA(first, Param))
		return false;
	for (int i = 0; i < unify->count; i++)
	{
		if (nodes[i] != NULL && !equal(nodes[i], first))
			return false;
	}
	return true;
}

/* Expressions of those sources that have one here (the others' are NULL). */
static Node *
unify_nodes(InferUnify *unify, Node **nodes, bool guarded)
{
	int kept = list_length(unify->columns);
	Node *result = NULL;

	check_stack_depth();
	if (is_same_constant(unify, nodes))
		return copyObject(first_node(unify, nodes));
	/* what is evaluated there anyway stays there */
	if (unify->eager && !guarded)
		result = differ(unify, nodes, guarded);
	if (result == NULL)
		result = unify_operands(unify, nodes, guarded);
	if (result == NULL)
	{
		unify->columns = list_truncate(unify->columns, kept);
		result = differ(unify, nodes, guarded);
	}
	return result;
}

/* What an expression looks like if one forgets all that has no call in it. */
static Node *
form_mutator(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (!is_holder(node) && !infer_contains_open_call(node))
		return makeBoolConst(false, true);
	return expression_tree_mutator(node, form_mutator, context);
}

/* Tells sources of one form from the others. */
static Node *
form_test(InferUnify *unify, const int *forms, int form)
{
	Node **nodes = palloc(sizeof(Node *) * unify->count);

	for (int i = 0; i < unify->count; i++)
		nodes[i] = makeBoolConst(forms[i] == form, false);
	return (Node *) infer_unify_column(unify, nodes, BOOLOID, -1, InvalidOid);
}

static Node *
unify_form(InferUnify *unify, Node **nodes, const int *forms, int form)
{
	Node **own = palloc0(sizeof(Node *) * unify->count);

	for (int i = 0; i < unify->count; i++)
	{
		if (forms[i] == form)
			own[i] = nodes[i];
	}
	return unify_nodes(unify, own, false);
}

static Node *
unify_forms(InferUnify *unify, Node **nodes, const int *forms, int nforms)
{
	CaseExpr *result = makeNode(CaseExpr);
	Node *value;

	for (int form = 0; form < nforms; form++)
	{
		CaseWhen *when = makeNode(CaseWhen);

		value = unify_form(unify, nodes, forms, form);
		if (value == NULL)
			return NULL;
		if (form == 0)
		{
			result->casetype = exprType(value);
			result->casecollid = exprCollation(value);
		}
		else if (exprType(value) != result->casetype || exprCollation(value) != result->casecollid)
			return NULL;
		if (form == nforms - 1)
		{
			result->defresult = (Expr *) value;
			break;
		}
		when->expr = (Expr *) form_test(unify, forms, form);
		when->result = (Expr *) value;
		when->location = -1;
		result->args = lappend(result->args, when);
	}
	result->location = -1;
	return (Node *) result;
}

/* One expression (over Var(varno, n)) for one of each source; NULL if there is none. */
Node *
infer_unify(InferUnify *unify, Node **nodes)
{
	int *forms = palloc(sizeof(int) * unify->count);
	Node *seen[MOST_FORMS];
	int kept = list_length(unify->columns);
	int nforms = 0;
	Node *result;

	for (int i = 0; i < unify->count; i++)
	{
		Node *form = form_mutator(nodes[i], NULL);

		for (forms[i] = 0; forms[i] < nforms; forms[i]++)
		{
			if (equal(seen[forms[i]], form))
				break;
		}
		if (forms[i] < nforms)
			continue;
		if (nforms == MOST_FORMS)
			return NULL;
		seen[nforms++] = form;
	}
	result =
		nforms == 1 ? unify_nodes(unify, nodes, false) : unify_forms(unify, nodes, forms, nforms);
	if (result == NULL || contain_volatile_functions(result))
	{
		unify->columns = list_truncate(unify->columns, kept);
		return NULL;
	}
	return result;
}

/* What a source computes for a column; NULL of its type if that is never read. */
Node *
infer_unify_expr(const InferUnifyColumn *column, int source)
{
	if (column->exprs[source] != NULL)
		return column->exprs[source];
	return (Node *) makeNullConst(column->type, column->typmod, column->collation);
}
