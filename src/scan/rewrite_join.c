/*
 * scan/rewrite_join.c - rules for joins.
 *
 * A side of a join is the plan below its wrappers (Hash, Material, Memoize): what is computed for
 * the join belongs below them, where it is done once, never above, where each rescan would repeat
 * it (P16).  A side's virtual columns become real.  Its pending conditions are applied there, or
 * float over the join if that is both right and useful.  They do not float when the side gets an
 * InferScan anyway, for a key or a call of the ON clause, so that such a scan's outputs never have
 * to serve a condition above it (P28).
 *
 * What may float: from the outer side of INNER, LEFT, SEMI and ANTI joins, from the inner side of
 * INNER joins but merge joins; and only over clauses that cannot fail for a row that the condition
 * would have dropped (invariant I3 in rewrite.c), and only if the other side makes no calls of its
 * own, which PostgreSQL would not make for a side without rows.
 *
 * Calls in the join's own conditions: an inner join's rise above it as pending; hash keys and, in
 * other joins, calls over one side become columns of that side; calls over both sides of an outer
 * join stay, for they decide inside the join.
 */
#include "postgres.h"

#include "nodes/bitmapset.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "scan/rewrite.h"

typedef struct JoinSide
{
	int varno;       /* OUTER_VAR or INNER_VAR in the join's expressions */
	List *wrappers;  /* outermost first */
	InferProc *proc; /* all columns real */
	bool one_row;
	bool wanted;       /* something must be computed here for the join */
	bool floats;       /* its conditions rise */
	List *earlier;     /* ON conditions of this side before the one in hand */
	InferBuild *build; /* set when wanted */
} JoinSide;

typedef struct JoinContext
{
	JoinSide outer;
	JoinSide inner;
	List *ahead;   /* ... that it makes ahead, for nobody to read */
	List *hoisted; /* of InferHoisted: calls of the inner side that the outer side makes */
	bool cross;    /* no condition but calls over one side each: they are not moved */
	bool dry;      /* only find out which side is wanted */
} JoinContext;

static void
open_side(InferRewrite *rw, JoinSide *side, Plan *plan, int varno, bool one_row)
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

/* An expression over this side's layout, in terms of the join as it will be. */
static Node *
side_expr(JoinSide *side, Node *expr)
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
	JoinContext *join = context;

	if (node == NULL)
		return NULL;
	if (IsA(node, Var))
	{
		Var *var = (Var *) node;

		if (var->varno == OUTER_VAR)
			return side_expr(&join->outer, node);
		if (var->varno == INNER_VAR)
			return side_expr(&join->inner, node);
	}
	return expression_tree_mutator(node, map_columns_mutator, context);
}

/* An expression over both sides' layouts; calls stay. */
static List *
map_columns(JoinContext *join, List *exprs)
{
	return (List *) map_columns_mutator((Node *) exprs, join);
}

/* The side whose columns a call reads, if it is one only. */
static JoinSide *
side_of_call(JoinContext *join, Node *node)
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
static JoinSide *
side_to_compute(JoinContext *join, Node *node)
{
	if (!infer_is_call(node) ||
		(!join->cross && infer_may_fail((Node *) ((FuncExpr *) node)->args)))
		return NULL;
	return side_of_call(join, node);
}

static Node *
one_sided_mutator(Node *node, void *context)
{
	JoinContext *join = context;
	JoinSide *side;
	List *operands;

	if (node == NULL)
		return NULL;
	if ((side = side_to_compute(join, node)) != NULL)
	{
		if (!join->dry)
			return side_expr(side, node);
		side->wanted = true;
		return node;
	}
	switch (nodeTag(node))
	{
		case T_BoolExpr:
		{
			BoolExpr *result = (BoolExpr *) copyObject(node);

			operands = list_copy_tail(result->args, 1);
			linitial(result->args) = one_sided_mutator(linitial(result->args), context);
			result->args = list_truncate(result->args, 1);
			if (!join->dry)
				operands = map_columns(join, operands);
			result->args = list_concat(result->args, operands);
			return (Node *) result;
		}
		case T_FuncExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_NullTest:
		case T_BooleanTest:
		case T_FieldSelect:
		case T_List:
			/* evaluates all its operands */
			return expression_tree_mutator(node, one_sided_mutator, context);
		default:
			return join->dry ? node : map_columns_mutator(node, context);
	}
}

/* Remembers a condition that guards those behind it, if one side can tell. */
static void
note_earlier(JoinContext *join, Node *qual)
{
	JoinSide *side = side_of_call(join, qual);

	if (side == NULL || contain_volatile_functions(qual) || infer_contains_subplan(qual))
		return;
	qual = infer_renumber(qual, side->varno, OUTER_VAR);
	qual = infer_substitute(qual, OUTER_VAR, side->proc->vexprs);
	side->earlier = lappend(side->earlier, qual);
}

/* The ON conditions with their one-sided calls replaced by columns of that side. */
static List *
extract_one_sided(JoinContext *join, List *quals)
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
is_cross_product(JoinContext *join, Join *node)
{
	return IsA(node, NestLoop) && ((NestLoop *) node)->nestParams == NIL && node->joinqual != NIL &&
		   infer_contains_call(linitial(node->joinqual)) &&
		   !two_sided_walker((Node *) node->joinqual, join);
}

/* A call whose column is not handed up: whoever needs the answer asks the statement memo. */
static void
make_ahead(JoinSide *side, Node *call)
{
	call = infer_substitute(call, OUTER_VAR, side->proc->vexprs);
	(void) infer_extract(side->build, call, NIL);
}

/* Finds out which sides must compute something, before conditions are told to float. */
static void
find_wanted(JoinContext *join, Join *node)
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
		extract_one_sided(join, node->joinqual);
		join->dry = false;
		join->cross = join->cross && (join->outer.wanted || join->inner.wanted);
	}
	join->outer.wanted |= join->hoisted != NIL;
	/* a parameterised inner side would compute them anew for every outer row */
	if (IsA(node, NestLoop) && ((NestLoop *) node)->nestParams != NIL)
		join->inner.wanted = false;
}

/* Could this plan fail for parameters of a row that a condition should have dropped? */
static bool
is_harmless(Plan *plan)
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
may_float(JoinContext *join, Join *node, JoinSide *side)
{
	if (side->proc->pending == NIL || side->wanted || clauses_may_fail(node))
		return false;
	if (side->varno == INNER_VAR)
		return node->jointype == JOIN_INNER && !IsA(node, MergeJoin);
	if (node->jointype != JOIN_INNER && node->jointype != JOIN_LEFT &&
		node->jointype != JOIN_SEMI && node->jointype != JOIN_ANTI)
		return false;
	return !IsA(node, NestLoop) || ((NestLoop *) node)->nestParams == NIL ||
		   is_harmless(join->inner.proc->plan);
}

/* Fewer rows above the join, or an inner side that is scanned again for every outer row? */
static bool
is_float_useful(Join *node, JoinSide *side)
{
	bool repeated = IsA(node, NestLoop) && side->varno == INNER_VAR &&
					(side->wrappers == NIL || IsA(llast(side->wrappers), Memoize));

	return repeated || node->plan.plan_rows <= side->proc->plan->plan_rows;
}

static bool
wants_to_float(JoinContext *join, Join *node, JoinSide *side)
{
	return may_float(join, node, side) && is_float_useful(node, side);
}

/*
 * A side whose conditions leave no row may spare the join the other side.  Conditions that float
 * no longer do, so the other side must not ask anything; what floats with them is asked above.
 */
static bool
will_float(JoinContext *join, Join *node, JoinSide *side)
{
	JoinSide *other = side == &join->outer ? &join->inner : &join->outer;

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

/* What floats out of the inner side is made above the join, for the rows that there are. */
static void
find_ahead(InferRewrite *rw, JoinContext *join, NestLoop *node)
{
	InferProc *inner = join->inner.proc;
	bool floats = will_float(join, &node->join, &join->inner);

	join->ahead = infer_ahead_join(rw, node, inner->plan, floats ? NIL : inner->pending);
	join->outer.wanted |= join->ahead != NIL;
}

/* Decides what the side's own plan still does, before anything is renumbered. */
static void
settle_side(InferRewrite *rw, JoinContext *join, Join *node, JoinSide *side)
{
	bool saved = rw->one_row;
	ListCell *lv;
	ListCell *ll;

	side->floats = will_float(join, node, side);
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
close_side(InferRewrite *rw, JoinSide *side)
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

static Node *
unparametrize_mutator(Node *node, void *context)
{
	ListCell *lc;

	if (node == NULL)
		return NULL;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
	{
		foreach (lc, (List *) context)
		{
			NestLoopParam *param = lfirst(lc);

			if (param->paramno == ((Param *) node)->paramid)
				return copyObject((Node *) param->paramval);
		}
	}
	return expression_tree_mutator(node, unparametrize_mutator, context);
}

/* Puts the values of outer columns in place of the parameters that carry them (P8). */
List *
infer_unparametrize(List *exprs, List *nest_params)
{
	return (List *) unparametrize_mutator((Node *) exprs, nest_params);
}

/* Conditions of a side that float, in terms of the join as it will be. */
static List *
floating(JoinSide *side, List *nest_params)
{
	List *pending = side->floats ? side->proc->pending : NIL;

	if (side->varno == INNER_VAR)
	{
		pending = (List *) infer_renumber((Node *) pending, OUTER_VAR, INNER_VAR);
		pending = infer_unparametrize(pending, nest_params);
	}
	return pending;
}

static void
map_hash_keys(JoinContext *join, HashJoin *node)
{
	Hash *hash = castNode(Hash, node->join.plan.righttree);
	List *keys = NIL;
	List *clauses = NIL;
	ListCell *lc;

	foreach (lc, node->hashclauses)
	{
		OpExpr *clause = copyObject(castNode(OpExpr, lfirst(lc)));

		linitial(clause->args) = side_expr(&join->outer, linitial(clause->args));
		lsecond(clause->args) = side_expr(&join->inner, lsecond(clause->args));
		clauses = lappend(clauses, clause);
	}
	node->hashclauses = clauses;
	foreach (lc, node->hashkeys)
		keys = lappend(keys, side_expr(&join->outer, lfirst(lc)));
	node->hashkeys = keys;
	keys = NIL;
	foreach (lc, hash->hashkeys)
	{
		Node *key = infer_renumber(lfirst(lc), OUTER_VAR, INNER_VAR);

		key = side_expr(&join->inner, key);
		keys = lappend(keys, infer_renumber(key, INNER_VAR, OUTER_VAR));
	}
	hash->hashkeys = keys;
}

/* Hands one more expression over the outer side's layout down to the inner side. */
static NestLoopParam *
make_nest_param(JoinContext *join, InferHoisted *hoisted)
{
	NestLoopParam *param = makeNode(NestLoopParam);

	param->paramno = hoisted->param->paramid;
	param->paramval = castNode(Var, side_expr(&join->outer, hoisted->call));
	return param;
}

static void
map_nest_params(JoinContext *join, NestLoop *node)
{
	List *params = NIL;
	ListCell *lc;

	foreach (lc, node->nestParams)
	{
		NestLoopParam *param = copyObject((NestLoopParam *) lfirst(lc));

		param->paramval = castNode(Var, side_expr(&join->outer, (Node *) param->paramval));
		params = lappend(params, param);
	}
	foreach (lc, join->hoisted)
		params = lappend(params, make_nest_param(join, lfirst(lc)));
	node->nestParams = params;
}

/* The join's own conditions. Returns those that rise above it, in their order. */
static List *
map_conditions(JoinContext *join, Join *node)
{
	bool floats = join->outer.floats || join->inner.floats;
	List *moved = NIL;

	if (IsA(node, HashJoin))
		map_hash_keys(join, (HashJoin *) node);
	else if (IsA(node, MergeJoin))
		((MergeJoin *) node)->mergeclauses = map_columns(join, ((MergeJoin *) node)->mergeclauses);
	else
		map_nest_params(join, (NestLoop *) node);

	if (node->jointype == JOIN_INNER && !join->cross)
	{
		moved = infer_take_quals(&node->joinqual, floats);
		/* uniqueness may have been proved by one of them (P9) */
		if (moved != NIL || join->inner.floats)
			node->inner_unique = false;
		node->joinqual = map_columns(join, node->joinqual);
	}
	else
		node->joinqual = extract_one_sided(join, node->joinqual);

	if (floats)
	{
		moved = list_concat(moved, node->plan.qual);
		node->plan.qual = NIL;
	}
	else
		moved = list_concat(moved, infer_take_quals(&node->plan.qual, false));
	node->plan.qual = map_columns(join, node->plan.qual);
	return map_columns(join, moved);
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

InferProc *
infer_proc_join(InferRewrite *rw, Join *node)
{
	Plan *plan = &node->plan;
	JoinContext join = {.dry = false};
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
	find_wanted(&join, node);
	if (IsA(node, NestLoop))
		find_ahead(rw, &join, (NestLoop *) node);
	settle_side(rw, &join, node, &join.outer);
	settle_side(rw, &join, node, &join.inner);
	foreach (lc, join.ahead)
		make_ahead(&join.outer, lfirst(lc));

	moved = map_conditions(&join, node);
	plan->targetlist = map_columns(&join, plan->targetlist);
	pending = list_copy(floating(&join.outer, NIL));
	pending =
		list_concat(pending, floating(&join.inner,
									  IsA(node, NestLoop) ? ((NestLoop *) node)->nestParams : NIL));
	pending = list_concat(pending, moved);

	plan->lefttree = close_side(rw, &join.outer);
	plan->righttree = close_side(rw, &join.inner);
	if (IsA(node, MergeJoin))
		infer_keep_mark_restore(rw, (MergeJoin *) node);
	return infer_lift(rw, plan, pending);
}
