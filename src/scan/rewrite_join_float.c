/*
 * scan/rewrite_join_float.c - which side's conditions rise over a join.
 *
 * What may float: from the outer side of INNER, LEFT, SEMI and ANTI joins, from the inner side of
 * INNER joins but merge joins; and only over clauses that cannot fail for a row that the condition
 * would have dropped (invariant I3 in rewrite.c), and only if the other side makes no calls of its
 * own, which PostgreSQL would not make for a side without rows.  A side that computes something
 * for the join gets an InferScan anyway, so its conditions stay: the outputs of such a scan never
 * have to serve a condition above it (P28).
 */
#include "postgres.h"

#include "scan/rewrite_join.h"
#include "scan/walk.h"

/* Can this plan not fail for parameters of a row that a condition should have dropped? */
bool
infer_is_harmless(Plan *plan)
{
	List *exprs = list_concat_copy(plan->targetlist, plan->qual);

	switch (nodeTag(plan))
	{
		case T_SeqScan:
			break;
		case T_IndexScan:
			exprs = list_concat(exprs, ((IndexScan *) plan)->indexqualorig);
			exprs = list_concat(exprs, ((IndexScan *) plan)->indexorderbyorig);
			break;
		case T_IndexOnlyScan:
			exprs = list_concat(exprs, ((IndexOnlyScan *) plan)->indexqual);
			exprs = list_concat(exprs, ((IndexOnlyScan *) plan)->indexorderby);
			break;
		case T_BitmapHeapScan:
			exprs = list_concat(exprs, ((BitmapHeapScan *) plan)->bitmapqualorig);
			break;
		default:
			return false;
	}
	return !infer_may_fail((Node *) exprs);
}

static bool
clauses_may_fail(Join *node)
{
	if (IsA(node, HashJoin) && infer_may_fail((Node *) ((HashJoin *) node)->hashclauses))
		return true;
	if (IsA(node, MergeJoin) && infer_may_fail((Node *) ((MergeJoin *) node)->mergeclauses))
		return true;
	/* an inner join's condition moves instead */
	return node->jointype != JOIN_INNER && infer_may_fail((Node *) node->joinqual);
}

static bool
may_float(InferJoin *join, Join *node, InferJoinSide *side)
{
	if (side->proc->pending == NIL || side->wanted || clauses_may_fail(node))
		return false;
	if (side->varno == INNER_VAR)
		return node->jointype == JOIN_INNER && !IsA(node, MergeJoin);
	if (node->jointype != JOIN_INNER && node->jointype != JOIN_LEFT &&
		node->jointype != JOIN_SEMI && node->jointype != JOIN_ANTI)
		return false;
	return !IsA(node, NestLoop) || ((NestLoop *) node)->nestParams == NIL ||
		   infer_is_harmless(join->inner.proc->plan);
}

/* Fewer rows above the join, or an inner side that is scanned again for every outer row? */
static bool
is_float_useful(Join *node, InferJoinSide *side)
{
	bool repeated = IsA(node, NestLoop) && side->varno == INNER_VAR &&
					(side->wrappers == NIL || IsA(llast(side->wrappers), Memoize));

	return repeated || node->plan.plan_rows <= side->proc->plan->plan_rows;
}

static bool
wants_to_float(InferJoin *join, Join *node, InferJoinSide *side)
{
	return may_float(join, node, side) && is_float_useful(node, side);
}

/*
 * A side whose conditions leave no row may spare the join the other side.  Conditions that float
 * no longer do, so the other side must not ask anything; what floats with them is asked above.
 */
bool
infer_will_float(InferJoin *join, Join *node, InferJoinSide *side)
{
	InferJoinSide *other = side == &join->outer ? &join->inner : &join->outer;

	if (!wants_to_float(join, node, side))
		return false;
	if (IsA(node, NestLoop) && side == &join->inner)
		return true; /* the other one is read first */
	if (other->wanted || infer_plan_may_ask(other->proc->plan))
		return false;
	if (other->proc->pending == NIL)
		return true;
	return wants_to_float(join, node, other) && ((IsA(node, NestLoop) && other == &join->inner) ||
												 !infer_plan_may_ask(side->proc->plan));
}
