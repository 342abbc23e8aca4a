/*
 * scan/rewrite_modify.c - INSERT, UPDATE, DELETE and MERGE.
 *
 * What a ModifyTable reads keeps its layout.  Its RETURNING lists are lifted; those of several
 * result relations (partitions of different layouts) speak of the same columns by other numbers,
 * and are brought to a common list first (unify.c).
 *
 * MERGE evaluates its actions inside ModifyTable, row by row, when it has looked at the target.
 * An expression of an action that reads the source only is computed below, as one more column, if
 * it is known there that the action will be taken:
 *
 *     a row without a target (its ctid is NULL) takes the first WHEN NOT MATCHED action whose
 *     condition holds; such conditions read the source only
 *     a row with a target takes the first WHEN MATCHED action whose condition holds; that can be
 *     told as long as the conditions do not read the target
 *
 * ModifyTable computes the values of an action before it fires triggers, and before it notices that
 * the target has been changed meanwhile, so these are just the calls that it would make.  What
 * EvalPlanQual decides otherwise (a row that has lost its target, or has a new version which is
 * matched anew) keeps the row that was read at first: next to the value stands whether it was
 * computed, and where it was not the action makes the call.
 *
 * Not so for ON CONFLICT DO UPDATE: whether a row conflicts is known when it has been inserted, or
 * not; a look at the index beforehand would say nothing about rows that this or another
 * transaction inserts in the meantime, and call for rows whose action is not taken.  Those calls
 * stay, and so do MERGE's where row-level security may refuse a row before its action.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"

#include "scan/build.h"
#include "scan/moves.h"
#include "scan/rewrite.h"
#include "scan/unify.h"
#include "scan/walk.h"

/* 17 (commit 0294df2f1f84) has a third kind of rows: those of the target alone. */
#if PG_VERSION_NUM >= 170000
#define is_kind(action, kind) ((action)->matchKind == (kind))
#else
#define MERGE_WHEN_MATCHED               true
#define MERGE_WHEN_NOT_MATCHED_BY_TARGET false
#define is_kind(action, kind)            ((action)->matched == (kind))
#endif

/* Each action is guarded by the conditions of all before it: many would be planned for seconds. */
#define MOST_ACTIONS 16

typedef struct MergeWork
{
	InferBuild *build;
	List *vexprs; /* the source's columns, over build->child */
	List *guards; /* over INNER_VAR: what must hold for the place in hand to be reached */
} MergeWork;

static bool
other_var_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
		return ((Var *) node)->varno != INNER_VAR;
	return expression_tree_walker(node, other_var_walker, context);
}

/* Is its value known from the source's row, however often it is asked? */
static bool
reads_source_only(Node *node)
{
	return !other_var_walker(node, NULL) && !contain_volatile_functions(node) &&
		   !infer_contains_subplan(node) && !infer_contains_case_test(node);
}

/* One more column of the source, in the action's terms. */
static Node *
add_column(MergeWork *work, Node *expr)
{
	InferBuild *build = work->build;
	ListCell *lc;

	expr = infer_substitute(infer_renumber(expr, INNER_VAR, OUTER_VAR), OUTER_VAR, work->vexprs);
	expr = infer_extract(build, expr, NIL);
	foreach (lc, build->targetlist)
	{
		TargetEntry *tle = lfirst(lc);

		if (equal(tle->expr, expr))
			return (Node *) infer_var_for(INNER_VAR, tle->resno, expr);
	}
	infer_build_output(build, expr, makeTargetEntry((Expr *) expr, 1, NULL, true));
	return (Node *) infer_var_for(INNER_VAR, list_length(build->targetlist), expr);
}

static Node *
make_test(Node *condition, BoolTestType type)
{
	BooleanTest *test = makeNode(BooleanTest);

	test->arg = (Expr *) condition;
	test->booltesttype = type;
	test->location = -1;
	return (Node *) test;
}

/* Computed below for the rows that get here; for others, should there be any, in its place. */
static Node *
compute_below(MergeWork *work, Node *expr)
{
	Node *guard = (Node *) make_ands_explicit(copyObject(work->guards));
	Node *null = (Node *) makeNullConst(exprType(expr), exprTypmod(expr), exprCollation(expr));
	Node *value = add_column(work, infer_make_case(guard, expr, null));
	Node *computed = add_column(work, make_test(guard, IS_TRUE));

	return infer_make_case(computed, value, expr);
}

static Node *
action_mutator(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, List) || IsA(node, TargetEntry))
		return expression_tree_mutator(node, action_mutator, context);
	if (!infer_contains_open_call(node))
		return copyObject(node);
	if (reads_source_only(node))
		return compute_below(context, node);
	if (infer_evaluates_all(node))
		return expression_tree_mutator(node, action_mutator, context);
	return copyObject(node);
}

/*
 * One action, under the guards of its place. False: from its condition alone, the source cannot
 * tell which rows come to the actions behind it.
 */
static bool
rewrite_action(MergeWork *work, MergeAction *action)
{
	List *place = work->guards;
	List *quals = NIL;
	ListCell *lc;

	foreach (lc, (List *) action->qual)
	{
		Node *qual = lfirst(lc);

		quals = lappend(quals, action_mutator(qual, work));
		if (!reads_source_only(qual))
		{
			quals = list_concat(
				quals, list_copy_tail((List *) action->qual, foreach_current_index(lc) + 1));
			action->qual = (Node *) quals;
			return false;
		}
		work->guards = lappend(list_copy(work->guards), qual);
	}
	action->targetList = (List *) action_mutator((Node *) action->targetList, work);
	if (quals == NIL)
		return false;
	work->guards = lappend(
		list_copy(place),
		make_test((Node *) make_ands_explicit(copyObject((List *) action->qual)), IS_NOT_TRUE));
	action->qual = (Node *) quals;
	return true;
}

/* The actions of one kind for one result relation, in the order in which they are tried. */
static void
rewrite_actions(MergeWork *work, List *actions, Var *ctid, int kind)
{
	NullTest *test = makeNode(NullTest);
	ListCell *lc;

	test->arg = (Expr *) ctid;
	test->nulltesttype = kind == MERGE_WHEN_MATCHED ? IS_NOT_NULL : IS_NULL;
	test->location = -1;
	work->guards = list_make1(test);
	foreach (lc, actions)
	{
		MergeAction *action = lfirst(lc);

		if (is_kind(action, kind) && !rewrite_action(work, action))
			return;
	}
}

/* The column that tells whether a row has a target, unless that is a view. */
static Var *
find_ctid(List *tlist)
{
	ListCell *lc;

	foreach (lc, tlist)
	{
		TargetEntry *tle = lfirst(lc);

		if (tle->resjunk && tle->resname && strcmp(tle->resname, "ctid") == 0)
			return infer_var_for(INNER_VAR, tle->resno, (Node *) tle->expr);
	}
	return NULL;
}

/* Can rows with a source and a target still be those of the target alone? */
static bool
has_join_condition(ModifyTable *node)
{
#if PG_VERSION_NUM >= 170000
	ListCell *lc;

	foreach (lc, node->mergeJoinConditions)
	{
		if (lfirst(lc) != NULL)
			return true;
	}
#endif
	return false;
}

/* What MERGE reads, with the columns that its actions need computed. */
static Plan *
rewrite_merge(InferRewrite *rw, ModifyTable *node, Plan *source)
{
	Var *ctid = find_ctid(source->targetlist);
	InferProc *proc = infer_proc(rw, source);
	MergeWork work = {infer_build_begin(rw, proc->plan), proc->vexprs};
	ListCell *lv;
	ListCell *ll;

	infer_build_filters(work.build, proc->pending);
	forboth(lv, proc->vexprs, ll, proc->labels)
		infer_build_output(work.build, infer_extract(work.build, lfirst(lv), NIL), lfirst(ll));
	foreach (ll, node->mergeActionLists)
	{
		if (ctid == NULL || node->withCheckOptionLists != NIL ||
			list_length(lfirst(ll)) > MOST_ACTIONS)
			break;
		rewrite_actions(&work, lfirst(ll), ctid, MERGE_WHEN_NOT_MATCHED_BY_TARGET);
		if (!has_join_condition(node))
			rewrite_actions(&work, lfirst(ll), ctid, MERGE_WHEN_MATCHED);
	}
	return infer_build_end(work.build);
}

/* The RETURNING lists of several result relations, if they make the same calls. */
static InferProc *
unify_returning(ModifyTable *node)
{
	int count = list_length(node->returningLists);
	InferUnify *unify = infer_unify_begin(OUTER_VAR, count, true);
	InferProc *proc = palloc0(sizeof(InferProc));
	List *lists = NIL;
	ListCell *lc;

	proc->plan = &node->plan;
	proc->labels = linitial(node->returningLists);
	for (int n = 0; n < list_length(proc->labels); n++)
	{
		Node **nodes = palloc(sizeof(Node *) * count);
		Node *vexpr;

		for (int i = 0; i < count; i++)
		{
			List *list = list_nth(node->returningLists, i);

			nodes[i] = (Node *) ((TargetEntry *) list_nth(list, n))->expr;
		}
		vexpr = infer_unify(unify, nodes);
		if (vexpr == NULL)
			return infer_unchanged(&node->plan);
		proc->vexprs = lappend(proc->vexprs, vexpr);
	}
	for (int i = 0; i < count; i++)
	{
		List *list = NIL;

		foreach (lc, unify->columns)
			list = lappend(list, makeTargetEntry((Expr *) infer_unify_expr(lfirst(lc), i),
												 list_length(list) + 1, NULL, true));
		lists = lappend(lists, list);
	}
	node->returningLists = lists;
	node->plan.targetlist = linitial(lists);
	return proc;
}

InferProc *
infer_proc_modify_table(InferRewrite *rw, ModifyTable *node)
{
	Plan *plan = &node->plan;
	InferProc *proc;

	if (node->operation == CMD_MERGE)
		plan->lefttree = rewrite_merge(rw, node, plan->lefttree);
	else
		plan->lefttree = infer_proc_mat(rw, plan->lefttree);
	if (!infer_contains_call((Node *) node->returningLists) ||
		!bms_is_empty(node->fdwDirectModifyPlans))
		return infer_unchanged(plan);
	if (list_length(node->returningLists) > 1)
		return unify_returning(node);
	plan->targetlist = linitial(node->returningLists);
	proc = infer_lift(rw, plan, NIL);
	node->returningLists = list_make1(plan->targetlist);
	return proc;
}
