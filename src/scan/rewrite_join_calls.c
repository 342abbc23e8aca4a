/*
 * scan/rewrite_join_calls.c - calls in a join's own conditions.
 *
 * An inner join's rise above it as pending (rewrite_join.c); hash keys and, in other joins, calls
 * over one side become columns of that side; calls over both sides of an outer join stay, for they
 * decide inside the join.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"

#include "scan/build.h"
#include "scan/moves.h"
#include "scan/rewrite_join.h"
#include "scan/walk.h"

/* An expression over this side's layout, in terms of the join as it will be. */
Node *
infer_side_expr(InferJoinSide *side, Node *expr)
{
	/* an InferScan on this side begins with the exact layout */
	if (IsA(expr, Var) && side->build)
		return copyObject(expr);
	expr = infer_renumber(expr, side->varno, OUTER_VAR);
	expr = infer_substitute(expr, OUTER_VAR, side->proc->vexprs);
	if (side->build)
	{
		List *guards = NIL;
		ListCell *lc;

		if (infer_contains_call(expr))
		{
			foreach (lc, side->earlier)
				guards = lappend(guards, infer_extract(side->build, lfirst(lc), guards));
		}
		expr = infer_build_expose(side->build, infer_extract(side->build, expr, guards));
	}
	return infer_renumber(expr, OUTER_VAR, side->varno);
}

static Node *
map_columns_mutator(Node *node, void *context)
{
	InferJoin *join = context;

	if (node == NULL)
		return NULL;
	if (IsA(node, Var))
	{
		Var *var = (Var *) node;

		if (var->varno == OUTER_VAR)
			return infer_side_expr(&join->outer, node);
		if (var->varno == INNER_VAR)
			return infer_side_expr(&join->inner, node);
	}
	return expression_tree_mutator(node, map_columns_mutator, context);
}

/* An expression over both sides' layouts; calls stay. */
List *
infer_map_columns(InferJoin *join, List *exprs)
{
	return (List *) map_columns_mutator((Node *) exprs, join);
}

/* The side whose columns a call reads, if it is one only. */
static InferJoinSide *
side_of_call(InferJoin *join, Node *node)
{
	bool outer = infer_contains_var(node, OUTER_VAR);
	bool inner = infer_contains_var(node, INNER_VAR);

	if (outer == inner || expression_returns_set(node) || infer_contains_case_test(node))
		return NULL;
	return outer ? &join->outer : &join->inner;
}

/*
 * The side that computes this call for the join.  Outside of inner joins also rows without a
 * partner are asked then, so the arguments must not fail.
 */
static InferJoinSide *
side_to_compute(InferJoin *join, Node *node)
{
	if (!infer_is_call(node) ||
		(!join->cross && infer_may_fail((Node *) ((FuncExpr *) node)->args)))
		return NULL;
	return side_of_call(join, node);
}

static Node *
one_sided_mutator(Node *node, void *context)
{
	InferJoin *join = context;
	InferJoinSide *side;
	List *operands;

	if (node == NULL)
		return NULL;
	if ((side = side_to_compute(join, node)) != NULL)
	{
		if (!join->dry)
			return infer_side_expr(side, node);
		side->wanted = true;
		return node;
	}
	if (IsA(node, BoolExpr))
	{
		BoolExpr *result = (BoolExpr *) copyObject(node);

		operands = list_copy_tail(result->args, 1);
		linitial(result->args) = one_sided_mutator(linitial(result->args), context);
		result->args = list_truncate(result->args, 1);
		if (!join->dry)
			operands = infer_map_columns(join, operands);
		result->args = list_concat(result->args, operands);
		return (Node *) result;
	}
	if (IsA(node, List) || infer_evaluates_all(node))
		return expression_tree_mutator(node, one_sided_mutator, context);
	return join->dry ? node : map_columns_mutator(node, context);
}

/* Remembers a condition that guards those behind it, if one side can tell. */
static void
note_earlier(InferJoin *join, Node *qual)
{
	InferJoinSide *side = side_of_call(join, qual);

	if (side == NULL || contain_volatile_functions(qual) || infer_contains_subplan(qual))
		return;
	qual = infer_renumber(qual, side->varno, OUTER_VAR);
	qual = infer_substitute(qual, OUTER_VAR, side->proc->vexprs);
	side->earlier = lappend(side->earlier, qual);
}

/* The ON conditions with their one-sided calls replaced by columns of that side. */
List *
infer_extract_one_sided(InferJoin *join, List *quals)
{
	List *result = NIL;
	ListCell *lc;

	foreach (lc, quals)
	{
		result = lappend(result, one_sided_mutator(lfirst(lc), join));
		if (!join->dry)
			note_earlier(join, lfirst(lc));
	}
	join->outer.earlier = NIL;
	join->inner.earlier = NIL;
	return result;
}

static bool
two_sided_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (infer_is_call(node))
		return side_of_call(context, node) == NULL;
	return expression_tree_walker(node, two_sided_walker, context);
}

/* A pure cross product would ask for every pair what depends on one side. */
static bool
is_cross_product(InferJoin *join, Join *node)
{
	return IsA(node, NestLoop) && ((NestLoop *) node)->nestParams == NIL && node->joinqual != NIL &&
		   infer_contains_call(linitial(node->joinqual)) &&
		   !two_sided_walker((Node *) node->joinqual, join);
}

/* Finds out which sides must compute something, before conditions are told to float. */
void
infer_find_wanted(InferJoin *join, Join *node)
{
	ListCell *lc;

	if (IsA(node, HashJoin))
	{
		foreach (lc, ((HashJoin *) node)->hashclauses)
		{
			List *args = castNode(OpExpr, lfirst(lc))->args;

			join->outer.wanted |= infer_contains_call(linitial(args));
			join->inner.wanted |= infer_contains_call(lsecond(args));
		}
	}
	join->cross = node->jointype == JOIN_INNER && is_cross_product(join, node);
	if (node->jointype != JOIN_INNER || join->cross)
	{
		join->dry = true;
		infer_extract_one_sided(join, node->joinqual);
		join->dry = false;
		join->cross = join->cross && (join->outer.wanted || join->inner.wanted);
	}
	join->outer.wanted |= join->hoisted != NIL;
	/* a parameterised inner side would compute them anew for every outer row */
	if (IsA(node, NestLoop) && ((NestLoop *) node)->nestParams != NIL)
		join->inner.wanted = false;
}
