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

/* One query level. */
typedef struct PlaceLevel
{
	Query *query;
	Relids relations; /* what is joined */
	Relids *joined;   /* by number of a join: its relations */
	List *conditions; /* of ON clauses */
	Relids wanted;    /* what the conditions with calls read */
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

/* The relations of one item of FROM, noted with its conditions; false for what is not understood.
 */
static bool
read_from_item(PlaceLevel *level, Node *item, Relids *relids)
{
	JoinExpr *join;
	Relids right;

	if (IsA(item, RangeTblRef))
	{
		int number = ((RangeTblRef *) item)->rtindex;

		*relids = bms_make_singleton(number);
		level->relations = bms_add_member(level->relations, number);
		return is_plain_relation(rt_fetch(number, level->query->rtable));
	}
	if (!IsA(item, JoinExpr))
		return false;
	join = (JoinExpr *) item;
	if (join->jointype != JOIN_INNER || !read_from_item(level, join->larg, relids) ||
		!read_from_item(level, join->rarg, &right))
		return false;
	*relids = bms_union(*relids, right);
	level->joined[join->rtindex] = *relids;
	level->conditions = flatten_and(level->conditions, join->quals);
	return true;
}

static bool
read_from(PlaceLevel *level)
{
	Relids relids;
	ListCell *lc;

	level->joined = palloc0((list_length(level->query->rtable) + 1) * sizeof(Relids));
	foreach (lc, level->query->jointree->fromlist)
	{
		if (!read_from_item(level, lfirst(lc), &relids))
			return false;
	}
	return true;
}

/* The relations of this level that an expression reads; a join's name stands for all it joins. */
static Relids
read_relations(PlaceLevel *level, Node *node)
{
	Relids numbers = pull_varnos(NULL, node);
	Relids result = NULL;
	int number = -1;

	while ((number = bms_next_member(numbers, number)) >= 0)
	{
		if (level->joined[number] != NULL)
			result = bms_union(result, level->joined[number]);
		else
			result = bms_add_member(result, number);
	}
	return result;
}

static bool
immovable_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
			/* a correlated sub-query is made a join only if all of this stays in its WHERE */
			return ((Var *) node)->varlevelsup != 0;
		case T_SubLink:
		case T_Aggref:
		case T_GroupingFunc:
		case T_CurrentOfExpr:
			return true;
		case T_Param:
			return ((Param *) node)->paramkind != PARAM_EXTERN;
		default:
			return expression_tree_walker(node, immovable_walker, context);
	}
}

/* Two sides that read relations each: planned by more than its value per row. */
static bool
is_join_clause(PlaceLevel *level, Node *node)
{
	List *args;

	if (IsA(node, OpExpr))
		args = ((OpExpr *) node)->args;
	else if (IsA(node, ScalarArrayOpExpr))
		args = ((ScalarArrayOpExpr *) node)->args;
	else
		return false;
	return list_length(args) == 2 && read_relations(level, linitial(args)) != NULL &&
		   read_relations(level, lsecond(args)) != NULL &&
		   bms_membership(read_relations(level, node)) == BMS_MULTIPLE;
}

static bool
is_movable(PlaceLevel *level, Node *condition)
{
	return !immovable_walker(condition, NULL) && !is_join_clause(level, condition) &&
		   !expression_returns_set(condition);
}

/* Splits the level's conditions; false if it must stay as it is. */
static bool
choose_conditions(PlaceLevel *level, List *conditions, List **chosen)
{
	ListCell *lc;

	*chosen = NIL;
	foreach (lc, conditions)
	{
		Relids relids;

		if (!infer_contains_call(lfirst(lc)))
			continue;
		relids = read_relations(level, lfirst(lc));
		if (*chosen == NIL)
			level->wanted = relids;
		if (!is_movable(level, lfirst(lc)) || !bms_equal(relids, level->wanted))
			return false;
		*chosen = lappend(*chosen, lfirst(lc));
	}
	if (*chosen == NIL || bms_is_empty(level->wanted) ||
		bms_is_subset(level->relations, level->wanted))
		return false;

	foreach (lc, conditions)
	{
		if (!infer_contains_call(lfirst(lc)) && infer_may_fail(lfirst(lc)) &&
			!bms_is_subset(read_relations(level, lfirst(lc)), level->wanted))
			return false;
	}
	return !contain_volatile_functions((Node *) conditions) &&
		   !checkExprHasSubLink((Node *) conditions);
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
	List *conditions;
	List *chosen;
	ListCell *lc;

	if (query->commandType != CMD_SELECT || query->setOperations != NULL ||
		query->rowMarks != NIL || !read_from(&level) || !is_searched(&level))
		return;
	conditions = flatten_and(level.conditions, from->quals);
	if (!choose_conditions(&level, conditions, &chosen))
		return;

	foreach (lc, from->fromlist)
		remove_from_item(lfirst(lc), chosen);
	from->quals = remove_from(from->quals, chosen);
	ref = makeNode(RangeTblRef);
	ref->rtindex = add_subselect(query, chosen);
	from->fromlist = lappend(from->fromlist, ref);
}
