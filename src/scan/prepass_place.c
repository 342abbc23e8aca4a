/*
 * scan/prepass_place.c - lets the planner place a condition with calls between the joins, by cost.
 *
 * PostgreSQL evaluates a condition on one table where it scans that table, however dear it is: with
 * few exceptions that is right for its own functions.  For a call it is wrong when a join leaves
 * fewer rows than the scan.  Written as
 *
 *     FROM t, b, r, LATERAL (SELECT WHERE <condition> OFFSET 0)
 *
 * it is one more relation to be joined, of one row for each row of t, and costs what the call costs
 * each time.  The join search then finds out behind which join there are the fewest rows to ask
 * for: behind those that drop rows, before those that multiply them.  OFFSET 0 keeps the planner
 * from pulling the sub-select up again.  What it becomes, a nested loop over a Result, is turned
 * into a pending condition by rewrite_lateral.c.
 *
 * The estimate of how many rows pass is lost (the sub-select has one row, and no estimate is less),
 * so this must not be done where that decides how many calls are made: with two conditions that
 * guard each other.  And the order in which conditions are evaluated changes, which nobody may
 * notice.  Hence a query level is left alone unless
 *
 *   - it is a SELECT of inner joins only, without row locks, not below UPDATE, DELETE or MERGE
 *     (EvalPlanQual wants whole rows of every relation);
 *   - its relations are tables, CTEs, VALUES or functions, none LATERAL, none with row-level
 *     security;
 *   - the conditions with calls read the same relations, not all there are, of this level only,
 *     and none is a join clause that an index, hash or merge join could use;
 *   - the other conditions, but those that read no further relation than these, cannot fail
 *     (infer_may_fail), nothing is volatile, and no sub-query may become one more join;
 *   - the planner will search through all orders: within the collapse limits, without GEQO.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/bitmapset.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/geqo.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "optimizer/planmain.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"

#include "scan/rewrite.h"
#include "scan/walk.h"

/* One query level. */
typedef struct PlaceLevel
{
	Query *query;
	Relids relations; /* what is joined */
	List *conditions; /* of ON and WHERE */
} PlaceLevel;

static bool
is_plain_relation(RangeTblEntry *rte)
{
	if (rte->lateral || rte->securityQuals != NIL)
		return false;
	return rte->rtekind == RTE_RELATION || rte->rtekind == RTE_CTE || rte->rtekind == RTE_VALUES ||
		   rte->rtekind == RTE_FUNCTION;
}

/* Nested ANDs are one list. */
static List *
flatten_and(List *conditions, Node *node)
{
	ListCell *lc;

	if (node == NULL)
		return conditions;
	if (!is_andclause(node))
		return lappend(conditions, node);
	foreach (lc, ((BoolExpr *) node)->args)
		conditions = flatten_and(conditions, lfirst(lc));
	return conditions;
}

/* Notes the relations and conditions of an item of FROM; false for what is not understood. */
static bool
read_from_item(PlaceLevel *level, Node *item)
{
	JoinExpr *join;

	if (IsA(item, RangeTblRef))
	{
		int number = ((RangeTblRef *) item)->rtindex;

		level->relations = bms_add_member(level->relations, number);
		return is_plain_relation(rt_fetch(number, level->query->rtable));
	}
	if (!IsA(item, JoinExpr))
		return false;
	join = (JoinExpr *) item;
	level->conditions = flatten_and(level->conditions, join->quals);
	return join->jointype == JOIN_INNER && read_from_item(level, join->larg) &&
		   read_from_item(level, join->rarg);
}

static bool
read_from(PlaceLevel *level)
{
	ListCell *lc;

	foreach (lc, level->query->jointree->fromlist)
	{
		if (!read_from_item(level, lfirst(lc)))
			return false;
	}
	level->conditions = flatten_and(level->conditions, level->query->jointree->quals);
	return true;
}

/* Does it read a row of an outer query? */
static bool
outer_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
		return ((Var *) node)->varlevelsup != 0;
	return expression_tree_walker(node, outer_walker, context);
}

/* Two sides that read relations each: planned by more than its value per row. */
static bool
is_join_clause(Node *node)
{
	List *args;

	if (IsA(node, OpExpr))
		args = ((OpExpr *) node)->args;
	else if (IsA(node, ScalarArrayOpExpr))
		args = ((ScalarArrayOpExpr *) node)->args;
	else
		return false;
	return list_length(args) == 2 && !bms_is_empty(pull_varnos(NULL, linitial(args))) &&
		   !bms_is_empty(pull_varnos(NULL, lsecond(args))) &&
		   bms_membership(pull_varnos(NULL, node)) == BMS_MULTIPLE;
}

/* The level's conditions with calls; NIL if it must stay as it is. */
static List *
choose_conditions(PlaceLevel *level)
{
	List *chosen = NIL;
	Relids wanted = NULL;
	ListCell *lc;

	foreach (lc, level->conditions)
	{
		Relids relids;

		if (!infer_contains_call(lfirst(lc)))
			continue;
		relids = pull_varnos(NULL, lfirst(lc));
		if (chosen == NIL)
			wanted = relids;
		if (!bms_equal(relids, wanted) || outer_walker(lfirst(lc), NULL) ||
			is_join_clause(lfirst(lc)))
			return NIL;
		chosen = lappend(chosen, lfirst(lc));
	}
	if (bms_is_empty(wanted) || bms_equal(wanted, level->relations))
		return NIL;

	foreach (lc, level->conditions)
	{
		if (!infer_contains_call(lfirst(lc)) && infer_may_fail(lfirst(lc)) &&
			!bms_is_subset(pull_varnos(NULL, lfirst(lc)), wanted))
			return NIL;
	}
	if (contain_volatile_functions((Node *) level->conditions) ||
		checkExprHasSubLink((Node *) level->conditions))
		return NIL;
	return chosen;
}

/* Will the planner try all orders of joining these relations and one more, with nested loops? */
static bool
is_searched(PlaceLevel *level)
{
	int items = bms_num_members(level->relations) + 1;

	return enable_nestloop && items <= Min(from_collapse_limit, join_collapse_limit) &&
		   !(enable_geqo && items >= geqo_threshold);
}

/* LATERAL (SELECT WHERE conditions OFFSET 0), whose number is returned. */
static int
add_subselect(Query *query, List *conditions)
{
	Query *subselect = makeNode(Query);
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	Node *quals = (Node *) make_ands_explicit(copyObject(conditions));

	IncrementVarSublevelsUp(quals, 1, 0);
	subselect->commandType = CMD_SELECT;
	subselect->querySource = QSRC_ORIGINAL;
	subselect->canSetTag = true;
	subselect->jointree = makeFromExpr(NIL, quals);
	subselect->limitOffset = (Node *) makeConst(INT8OID, -1, InvalidOid, sizeof(int64),
												Int64GetDatum(0), false, FLOAT8PASSBYVAL);
	subselect->stmt_location = -1;

	rte->rtekind = RTE_SUBQUERY;
	rte->subquery = subselect;
	rte->alias = makeAlias("placed", NIL);
	rte->eref = copyObject(rte->alias);
	rte->lateral = true;
	rte->inFromCl = true;
	query->rtable = lappend(query->rtable, rte);
	return list_length(query->rtable);
}

static Node *
remove_from(Node *quals, List *chosen)
{
	List *kept = list_difference_ptr(flatten_and(NIL, quals), chosen);

	return kept == NIL ? NULL : (Node *) make_ands_explicit(kept);
}

static void
remove_from_item(Node *item, List *chosen)
{
	JoinExpr *join;

	if (!IsA(item, JoinExpr))
		return;
	join = (JoinExpr *) item;
	remove_from_item(join->larg, chosen);
	remove_from_item(join->rarg, chosen);
	join->quals = remove_from(join->quals, chosen);
}

/* Changes a query level, which is a copy of ours, if that is right and could be of use. */
void
infer_place_calls(Query *query)
{
	PlaceLevel level = {.query = query};
	FromExpr *from = query->jointree;
	RangeTblRef *ref;
	List *chosen;
	ListCell *lc;

	if (!read_from(&level) || !is_searched(&level))
		return;
	chosen = choose_conditions(&level);
	if (chosen == NIL)
		return;
	foreach (lc, from->fromlist)
		remove_from_item(lfirst(lc), chosen);
	from->quals = remove_from(from->quals, chosen);
	ref = makeNode(RangeTblRef);
	ref->rtindex = add_subselect(query, chosen);
	from->fromlist = lappend(from->fromlist, ref);
}
