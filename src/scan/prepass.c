/*
 * scan/prepass.c - variable-free calls become InitPlans, before the planner sees them.
 *
 * infer.embed(m, 'query') in "ORDER BY v <-> infer.embed(m, 'query')" has one value per execution.
 * Left as it is, the planner would call the model to estimate selectivities, also under plain
 * EXPLAIN.  Written as (SELECT infer.embed(m, 'query')) it is evaluated at most once, lazily, and
 * its value can be an index condition.
 *
 * Works on a copy: the plan cache keeps the original tree.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"

#include "pg/guc.h"
#include "scan/plan.h"
#include "scan/rewrite.h"
#include "scan/walk.h"

/* One query level. */
typedef struct PrepassLevel
{
	bool has_from; /* PL/pgSQL takes a level without FROM for an expression: hands off (P1) */
	bool added;
	bool guarded;    /* in a place that CASE, COALESCE, AND or OR may skip */
	bool *skippable; /* a call in such a place became an InitPlan */
	bool placeable;  /* the levels above allow infer_place_calls() */
} PrepassLevel;

/* Anything whose value may differ from row to row, or that a sub-select may not hold? */
static bool
varies_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
		case T_Aggref:
		case T_WindowFunc:
		case T_GroupingFunc:
		case T_SubLink:
		case T_SubPlan:
		case T_CaseTestExpr:
		case T_CoerceToDomainValue:
		case T_SetToDefault:
		case T_CurrentOfExpr:
		case T_PlaceHolderVar:
			return true;
		case T_Param:
			return ((Param *) node)->paramkind != PARAM_EXTERN;
		default:
			return expression_tree_walker(node, varies_walker, context);
	}
}

static bool
is_constant_call(Node *node)
{
	return infer_is_call(node) && !varies_walker(node, NULL) && !expression_returns_set(node) &&
		   !contain_volatile_functions(node);
}

static Node *
make_scalar_subselect(Node *call)
{
	Query *query = makeNode(Query);
	SubLink *link = makeNode(SubLink);

	query->commandType = CMD_SELECT;
	query->querySource = QSRC_ORIGINAL;
	query->canSetTag = true;
	query->targetList = list_make1(makeTargetEntry((Expr *) call, 1, pstrdup("call"), false));
	query->jointree = makeFromExpr(NIL, NULL);
	query->stmt_location = -1;

	link->subLinkType = EXPR_SUBLINK;
	link->subselect = (Node *) query;
	link->location = -1;
	return (Node *) link;
}

static Query *prepass_level(Query *query, bool placeable, bool *skippable);
static Node *prepass_mutator(Node *node, void *context);

/* All operands but the first may be skipped. */
static List *
prepass_operands(PrepassLevel *level, List *operands)
{
	bool guarded = level->guarded;
	List *result = NIL;
	ListCell *lc;

	foreach (lc, operands)
	{
		result = lappend(result, prepass_mutator(lfirst(lc), level));
		level->guarded = true;
	}
	level->guarded = guarded;
	return result;
}

/* Its argument, or else its first condition, is evaluated; the rest may be. */
static Node *
prepass_case(PrepassLevel *level, CaseExpr *expr)
{
	bool guarded = level->guarded;
	CaseExpr *result = makeNode(CaseExpr);

	*result = *expr;
	result->arg = (Expr *) prepass_mutator((Node *) expr->arg, level);
	level->guarded = true;
	result->args = (List *) prepass_mutator((Node *) expr->args, level);
	result->defresult = (Expr *) prepass_mutator((Node *) expr->defresult, level);
	level->guarded = guarded;
	return (Node *) result;
}

static Node *
prepass_quals(PrepassLevel *level, Node *quals)
{
	BoolExpr *result;

	if (quals == NULL || !is_andclause(quals))
		return prepass_mutator(quals, level);
	result = copyObject((BoolExpr *) quals);
	result->args = (List *) prepass_mutator((Node *) ((BoolExpr *) quals)->args, level);
	return (Node *) result;
}

/* Conditions of WHERE and ON are all to be applied, in whatever order: none guards another. */
static Node *
prepass_join(PrepassLevel *level, Node *node)
{
	if (IsA(node, FromExpr))
	{
		FromExpr *result = makeNode(FromExpr);

		*result = *(FromExpr *) node;
		result->fromlist = (List *) prepass_mutator((Node *) result->fromlist, level);
		result->quals = prepass_quals(level, result->quals);
		return (Node *) result;
	}
	else
	{
		JoinExpr *result = makeNode(JoinExpr);

		*result = *(JoinExpr *) node;
		result->larg = prepass_mutator(result->larg, level);
		result->rarg = prepass_mutator(result->rarg, level);
		result->quals = prepass_quals(level, result->quals);
		return (Node *) result;
	}
}

static Node *
prepass_mutator(Node *node, void *context)
{
	PrepassLevel *level = context;

	if (node == NULL)
		return NULL;
	if (IsA(node, Query))
		return (Node *) prepass_level((Query *) node, level->placeable, level->skippable);
	if (IsA(node, FromExpr) || IsA(node, JoinExpr))
		return prepass_join(level, node);
	if (IsA(node, CaseExpr))
		return prepass_case(level, (CaseExpr *) node);
	if (IsA(node, CoalesceExpr) || (IsA(node, BoolExpr) && ((BoolExpr *) node)->boolop != NOT_EXPR))
	{
		Node *result = copyObject(node);

		if (IsA(node, BoolExpr))
			((BoolExpr *) result)->args = prepass_operands(level, ((BoolExpr *) node)->args);
		else
			((CoalesceExpr *) result)->args =
				prepass_operands(level, ((CoalesceExpr *) node)->args);
		return result;
	}
	/* a level that becomes a semi-join is planned per row of the outer one, which would be lost */
	if (IsA(node, SubLink))
	{
		bool placeable = level->placeable;
		Node *result;

		level->placeable = false;
		result = expression_tree_mutator(node, prepass_mutator, context);
		level->placeable = placeable;
		return result;
	}
	/* FROM f('a') runs once already, and a composite result must stay a function's */
	if (IsA(node, RangeTblFunction) && infer_is_call(((RangeTblFunction *) node)->funcexpr))
		return copyObject(node);
	if (level->has_from && is_constant_call(node))
	{
		level->added = true;
		*level->skippable |= level->guarded;
		return make_scalar_subselect(copyObject(node));
	}
	return expression_tree_mutator(node, prepass_mutator, context);
}

/*
 * A VALUES list of several rows keeps its calls: an InitPlan per row would make them one at a time,
 * rewrite_values.c makes them many at a time.  A list of one row becomes part of the query around
 * it.
 */
static void
restore_values(Query *query, Query *original)
{
	ListCell *lc;
	ListCell *lo;

	forboth(lc, query->rtable, lo, original->rtable)
	{
		RangeTblEntry *rte = lfirst(lc);

		if (rte->rtekind == RTE_VALUES && list_length(rte->values_lists) > 1)
			rte->values_lists = copyObject(((RangeTblEntry *) lfirst(lo))->values_lists);
	}
}

static Query *
prepass_level(Query *query, bool placeable, bool *skippable)
{
	PrepassLevel level = {.has_from = query->jointree != NULL && query->jointree->fromlist != NIL,
						  .skippable = skippable};
	Query *result;

	if (!infer_contains_call((Node *) query))
		return query;
	/* EvalPlanQual reads whole rows of the relations of these and of what is pulled up into them */
	level.placeable = placeable && query->rowMarks == NIL &&
					  (query->commandType == CMD_SELECT || query->commandType == CMD_INSERT);
	result = query_tree_mutator(query, prepass_mutator, &level, 0);
	restore_values(result, query);
	result->hasSubLinks = result->hasSubLinks || level.added;
	if (level.placeable && level.has_from)
		infer_place_calls(result);
	return result;
}

Query *
infer_prepass(Query *query, bool *skippable)
{
	*skippable = false;
	return prepass_level(query, infer_guc_enable && infer_guc_place_calls, skippable);
}
