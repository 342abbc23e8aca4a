/*
 * scan/rewrite_join.c - rules for joins.
 *
 * A side of a join is the plan below its wrappers (Hash, Material, Memoize): what is computed for
 * the join belongs below them, where it is done once, never above, where each rescan would repeat
 * it (P16).  A side's virtual columns become real.  Its pending conditions are applied there, or
 * float over the join if that is both right and useful (rewrite_join_float.c).
 *
 * Calls in the join's own conditions: an inner join's rise above it as pending, others may become
 * columns of one side (rewrite_join_calls.c).
 */
#include "postgres.h"

#include "nodes/bitmapset.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"

#include "scan/build.h"
#include "scan/hoist.h"
#include "scan/moves.h"
#include "scan/rewrite.h"
#include "scan/rewrite_join.h"
#include "scan/walk.h"

static void
open_side(InferRewrite *rw, InferJoinSide *side, Plan *plan, int varno, bool one_row)
{
	bool saved = rw->one_row;

	side->varno = varno;
	while (varno == INNER_VAR && (IsA(plan, Hash) || IsA(plan, Material) || IsA(plan, Memoize)))
	{
		side->wrappers = lappend(side->wrappers, plan);
		plan = plan->lefttree;
	}
	side->one_row = one_row && side->wrappers == NIL;
	rw->one_row = side->one_row;
	side->proc = infer_mat_columns(rw, infer_proc(rw, plan));
	rw->one_row = saved;
}

/* A call whose column is not handed up: whoever needs the answer asks the statement memo. */
static void
make_ahead(InferJoinSide *side, Node *call)
{
	call = infer_substitute(call, OUTER_VAR, side->proc->vexprs);
	(void) infer_extract(side->build, call, NIL);
}

/* What floats out of the inner side is made above the join, for the rows that there are. */
static void
find_ahead(InferRewrite *rw, InferJoin *join, NestLoop *node)
{
	InferProc *inner = join->inner.proc;
	bool floats = infer_will_float(join, &node->join, &join->inner);

	join->ahead = infer_ahead_join(rw, node, inner->plan, floats ? NIL : inner->pending);
	join->outer.wanted |= join->ahead != NIL;
}

/* Decides what the side's own plan still does, before anything is renumbered. */
static void
settle_side(InferRewrite *rw, InferJoin *join, Join *node, InferJoinSide *side)
{
	bool saved = rw->one_row;
	ListCell *lv;
	ListCell *ll;

	side->floats = infer_will_float(join, node, side);
	if (side->floats)
		return;
	rw->one_row = side->one_row;
	if (!side->wanted)
		side->proc = infer_mat_partial(rw, side->proc, NULL);
	rw->one_row = saved;
	if (!side->wanted)
		return;
	side->build = infer_build_begin(rw, side->proc->plan);
	infer_build_filters(side->build, side->proc->pending);
	forboth(lv, side->proc->vexprs, ll, side->proc->labels)
		infer_build_output(side->build, infer_extract(side->build, lfirst(lv), NIL), lfirst(ll));
}

static Plan *
close_side(InferRewrite *rw, InferJoinSide *side)
{
	bool saved = rw->one_row;
	Plan *plan = side->proc->plan;

	rw->one_row = side->one_row;
	if (side->build)
		plan = infer_build_end(side->build);
	rw->one_row = saved;
	for (int i = list_length(side->wrappers) - 1; i >= 0; i--)
	{
		Plan *wrapper = list_nth(side->wrappers, i);

		wrapper->lefttree = plan;
		infer_add_params(wrapper, plan->extParam);
		wrapper->targetlist = infer_dummy_tlist(plan->targetlist);
		/* whatever proved that one row is enough may have moved up (P9) */
		if (IsA(wrapper, Memoize) && side->floats)
			((Memoize *) wrapper)->singlerow = false;
		plan = wrapper;
	}
	return plan;
}

/* Conditions of a side that float, in terms of the join as it will be. */
static List *
floating(InferJoinSide *side, List *nest_params)
{
	Node *pending = side->floats ? (Node *) side->proc->pending : NULL;

	if (side->varno == INNER_VAR)
	{
		pending = infer_renumber(pending, OUTER_VAR, INNER_VAR);
		pending = infer_unparametrize(pending, nest_params);
	}
	return (List *) pending;
}

static void
map_hash_keys(InferJoin *join, HashJoin *node)
{
	Hash *hash = castNode(Hash, node->join.plan.righttree);
	List *keys = NIL;
	List *clauses = NIL;
	ListCell *lc;

	foreach (lc, node->hashclauses)
	{
		OpExpr *clause = copyObject(castNode(OpExpr, lfirst(lc)));

		linitial(clause->args) = infer_side_expr(&join->outer, linitial(clause->args));
		lsecond(clause->args) = infer_side_expr(&join->inner, lsecond(clause->args));
		clauses = lappend(clauses, clause);
	}
	node->hashclauses = clauses;
	foreach (lc, node->hashkeys)
		keys = lappend(keys, infer_side_expr(&join->outer, lfirst(lc)));
	node->hashkeys = keys;
	keys = NIL;
	foreach (lc, hash->hashkeys)
	{
		Node *key = infer_renumber(lfirst(lc), OUTER_VAR, INNER_VAR);

		key = infer_side_expr(&join->inner, key);
		keys = lappend(keys, infer_renumber(key, INNER_VAR, OUTER_VAR));
	}
	hash->hashkeys = keys;
}

/* Hands one more expression over the outer side's layout down to the inner side. */
static NestLoopParam *
make_nest_param(InferJoin *join, InferHoisted *hoisted)
{
	NestLoopParam *param = makeNode(NestLoopParam);

	param->paramno = hoisted->param->paramid;
	param->paramval = castNode(Var, infer_side_expr(&join->outer, hoisted->call));
	return param;
}

static void
map_nest_params(InferJoin *join, NestLoop *node)
{
	List *params = NIL;
	ListCell *lc;

	foreach (lc, node->nestParams)
	{
		NestLoopParam *param = copyObject((NestLoopParam *) lfirst(lc));

		param->paramval = castNode(Var, infer_side_expr(&join->outer, (Node *) param->paramval));
		params = lappend(params, param);
	}
	foreach (lc, join->hoisted)
		params = lappend(params, make_nest_param(join, lfirst(lc)));
	node->nestParams = params;
}

/* The join's own conditions. Returns those that rise above it, in their order. */
static List *
map_conditions(InferJoin *join, Join *node)
{
	bool floats = join->outer.floats || join->inner.floats;
	List *moved = NIL;

	if (IsA(node, HashJoin))
		map_hash_keys(join, (HashJoin *) node);
	else if (IsA(node, MergeJoin))
		((MergeJoin *) node)->mergeclauses =
			infer_map_columns(join, ((MergeJoin *) node)->mergeclauses);
	else
		map_nest_params(join, (NestLoop *) node);

	if (node->jointype == JOIN_INNER && !join->cross)
	{
		moved = infer_take_quals(&node->joinqual, floats);
		/* uniqueness may have been proved by one of them (P9) */
		if (moved != NIL || join->inner.floats)
			node->inner_unique = false;
		node->joinqual = infer_map_columns(join, node->joinqual);
	}
	else
		node->joinqual = infer_extract_one_sided(join, node->joinqual);

	if (floats)
	{
		moved = list_concat(moved, node->plan.qual);
		node->plan.qual = NIL;
	}
	else
		moved = list_concat(moved, infer_take_quals(&node->plan.qual, false));
	node->plan.qual = infer_map_columns(join, node->plan.qual);
	return infer_map_columns(join, moved);
}

static bool
supports_mark_restore(Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_IndexScan:
		case T_IndexOnlyScan:
		case T_Material:
		case T_Sort:
			return true;
		case T_CustomScan:
			return (((CustomScan *) plan)->flags & CUSTOMPATH_SUPPORT_MARK_RESTORE) != 0;
		case T_Result:
			return plan->lefttree != NULL && supports_mark_restore(plan->lefttree);
		default:
			return false;
	}
}

/* The planner decided about Material for the inner child that it knew (P10). */
void
infer_keep_mark_restore(InferRewrite *rw, MergeJoin *node)
{
	Plan *inner = node->join.plan.righttree;

	if (!node->skip_mark_restore && !supports_mark_restore(inner))
		node->join.plan.righttree = infer_make_material(rw, inner);
}

/*
 * The executor fetches an outer row before it builds the hash table if the outer side starts for
 * less than the table costs: without one it spares the table.  Where that row costs calls, and the
 * table neither calls nor anything that could be noticed, the table goes first: without rows in it
 * there is no call at all.
 */
static void
build_table_first(HashJoin *node)
{
	Plan *outer = node->join.plan.lefttree;
	Plan *hash = node->join.plan.righttree;
	Cost more = hash->total_cost - outer->startup_cost;

	if (more <= 0 || !bms_is_empty(hash->allParam) || !infer_is_harmless(hash->lefttree) ||
		!infer_plan_may_ask(outer))
		return;
	outer->startup_cost += more;
	outer->total_cost += more;
}

InferProc *
infer_proc_join(InferRewrite *rw, Join *node)
{
	Plan *plan = &node->plan;
	InferJoin join = {.dry = false};
	bool stops_early = node->jointype == JOIN_SEMI || node->jointype == JOIN_ANTI;
	InferProc *folded;
	List *pending;
	List *moved;
	ListCell *lc;

	if (IsA(node, NestLoop))
	{
		if ((folded = infer_fold_lateral(rw, (NestLoop *) node)) != NULL)
			return folded;
		join.hoisted = infer_hoist_join(rw, (NestLoop *) node);
	}
	open_side(rw, &join.outer, plan->lefttree, OUTER_VAR, rw->one_row);
	open_side(rw, &join.inner, plan->righttree, INNER_VAR,
			  IsA(node, NestLoop) && (stops_early || rw->one_row));
	infer_find_wanted(&join, node);
	if (IsA(node, NestLoop))
		find_ahead(rw, &join, (NestLoop *) node);
	settle_side(rw, &join, node, &join.outer);
	settle_side(rw, &join, node, &join.inner);
	foreach (lc, join.ahead)
		make_ahead(&join.outer, lfirst(lc));

	moved = map_conditions(&join, node);
	plan->targetlist = infer_map_columns(&join, plan->targetlist);
	pending = list_copy(floating(&join.outer, NIL));
	pending =
		list_concat(pending, floating(&join.inner,
									  IsA(node, NestLoop) ? ((NestLoop *) node)->nestParams : NIL));
	pending = list_concat(pending, moved);

	plan->lefttree = close_side(rw, &join.outer);
	plan->righttree = close_side(rw, &join.inner);
	if (IsA(node, MergeJoin))
		infer_keep_mark_restore(rw, (MergeJoin *) node);
	if (IsA(node, HashJoin))
		build_table_first((HashJoin *) node);
	return infer_lift(rw, plan, pending);
}
