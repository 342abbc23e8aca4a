/*
 * scan/moves.c - the moves that every node rule is made of: renumbering, materialising, lifting.
 *
 * The terms and the invariants (I1..I8) are those of the essay in rewrite.c.
 */
#include "postgres.h"

#include "nodes/bitmapset.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"

#include "scan/build.h"
#include "scan/moves.h"
#include "scan/rewrite.h"
#include "scan/walk.h"

Var *
infer_var_for(int varno, AttrNumber attno, const Node *expr)
{
	return makeVar(varno, attno, exprType(expr), exprTypmod(expr), exprCollation(expr), 0);
}

/* Costs, flags and parameters of a node that another one now stands in for. */
void
infer_copy_plan_info(Plan *to, Plan *from)
{
	to->startup_cost = from->startup_cost;
	to->total_cost = from->total_cost;
	to->plan_rows = from->plan_rows;
	to->plan_width = from->plan_width;
#if PG_VERSION_NUM >= 180000
	to->disabled_nodes = from->disabled_nodes;
#endif
	to->parallel_safe = from->parallel_safe;
	to->extParam = bms_copy(from->extParam);
	to->allParam = bms_copy(from->allParam);
}

/* Parameters that a node reads now: it must be scanned again when they change. */
void
infer_add_params(Plan *plan, const Bitmapset *ids)
{
	plan->extParam = bms_add_members(plan->extParam, ids);
	plan->allParam = bms_add_members(plan->allParam, ids);
}

/* InitPlans hang on the topmost node of their query level. */
void
infer_take_init_plans(Plan *to, Plan *from)
{
	to->initPlan = from->initPlan;
	from->initPlan = NIL;
}

/* CASE WHEN condition THEN value ELSE otherwise END */
Node *
infer_make_case(Node *condition, Node *value, Node *otherwise)
{
	CaseExpr *result = makeNode(CaseExpr);
	CaseWhen *when = makeNode(CaseWhen);

	when->expr = (Expr *) condition;
	when->result = (Expr *) value;
	when->location = -1;
	result->casetype = exprType(value);
	result->casecollid = exprCollation(value);
	result->args = list_make1(when);
	result->defresult = (Expr *) otherwise;
	result->location = -1;
	return (Node *) result;
}

/* The targetlist of a node that only passes its child's columns on (as setrefs.c makes it). */
List *
infer_dummy_tlist(List *child_tlist)
{
	List *tlist = NIL;
	ListCell *lc;

	foreach (lc, child_tlist)
	{
		TargetEntry *tle = flatCopyTargetEntry(lfirst(lc));

		if (!IsA(tle->expr, Const))
			tle->expr = (Expr *) infer_var_for(OUTER_VAR, tle->resno, (Node *) tle->expr);
		tlist = lappend(tlist, tle);
	}
	return tlist;
}

Plan *
infer_make_material(InferRewrite *rw, Plan *child)
{
	Material *material = makeNode(Material);

	infer_copy_plan_info(&material->plan, child);
	infer_take_init_plans(&material->plan, child);
	material->plan.plan_node_id = rw->next_id++;
	material->plan.targetlist = infer_dummy_tlist(child->targetlist);
	material->plan.lefttree = child;
	return &material->plan;
}

typedef struct SubstituteContext
{
	int varno;
	List *vexprs;
} SubstituteContext;

static Node *
substitute_mutator(Node *node, void *context)
{
	SubstituteContext *substitute = context;

	if (node == NULL)
		return NULL;
	if (IsA(node, Var) && ((Var *) node)->varno == substitute->varno)
	{
		AttrNumber attno = ((Var *) node)->varattno;

		if (attno < 1 || attno > list_length(substitute->vexprs))
			elog(ERROR, "unexpected column %d while InferScan is planned", attno);
		return copyObject((Node *) list_nth(substitute->vexprs, attno - 1));
	}
	return expression_tree_mutator(node, substitute_mutator, context);
}

/* Replaces references to columns of one input by what these columns are now. */
Node *
infer_substitute(Node *node, int varno, List *vexprs)
{
	SubstituteContext context = {varno, vexprs};

	return substitute_mutator(node, &context);
}

typedef struct ParamContext
{
	List *ids;
	List *values;
} ParamContext;

static Node *
put_params_mutator(Node *node, void *context)
{
	ParamContext *params = context;
	ListCell *li;
	ListCell *lv;

	if (node == NULL)
		return NULL;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
	{
		forboth(li, params->ids, lv, params->values)
		{
			if (lfirst_int(li) == ((Param *) node)->paramid)
				return copyObject((Node *) lfirst(lv));
		}
	}
	return expression_tree_mutator(node, put_params_mutator, context);
}

/* Replaces parameters by what they are set to. */
Node *
infer_put_params(Node *node, List *ids, List *values)
{
	ParamContext context = {ids, values};

	return put_params_mutator(node, &context);
}

/* Replaces the parameters that carry a nested loop's outer columns by these columns (P8). */
Node *
infer_unparametrize(Node *node, List *nest_params)
{
	List *ids = NIL;
	List *values = NIL;
	ListCell *lc;

	foreach (lc, nest_params)
	{
		ids = lappend_int(ids, lfirst_node(NestLoopParam, lc)->paramno);
		values = lappend(values, lfirst_node(NestLoopParam, lc)->paramval);
	}
	return infer_put_params(node, ids, values);
}

static Node *
renumber_mutator(Node *node, void *context)
{
	int *numbers = context;

	if (node == NULL)
		return NULL;
	if (IsA(node, Var) && ((Var *) node)->varno == numbers[0])
	{
		Var *var = copyObject((Var *) node);

		var->varno = numbers[1];
		return (Node *) var;
	}
	return expression_tree_mutator(node, renumber_mutator, context);
}

/* The same columns of another input: OUTER_VAR to INNER_VAR and the like. */
Node *
infer_renumber(Node *node, int from, int to)
{
	int numbers[2] = {from, to};

	return renumber_mutator(node, numbers);
}

/* A node whose columns are all real, as the planner made it. */
InferProc *
infer_unchanged(Plan *plan)
{
	InferProc *proc = palloc0(sizeof(InferProc));
	ListCell *lc;

	proc->plan = plan;
	proc->labels = plan->targetlist;
	foreach (lc, plan->targetlist)
	{
		TargetEntry *tle = lfirst(lc);

		proc->vexprs =
			lappend(proc->vexprs, infer_var_for(OUTER_VAR, tle->resno, (Node *) tle->expr));
	}
	return proc;
}

/* Exactly the planner's layout, every column real, nothing pending. */
Plan *
infer_mat(InferRewrite *rw, InferProc *proc)
{
	InferBuild *build = infer_build_begin(rw, proc->plan);
	ListCell *lv;
	ListCell *ll;

	infer_build_filters(build, proc->pending);
	forboth(lv, proc->vexprs, ll, proc->labels)
		infer_build_output(build, infer_extract(build, lfirst(lv), NIL), lfirst(ll));
	return infer_build_end(build);
}

static InferProc *
finish_partial(InferBuild *build, InferProc *proc, List *vexprs)
{
	InferProc *result = palloc0(sizeof(InferProc));
	ListCell *lc;

	foreach (lc, vexprs)
	{
		if (!infer_is_real(lfirst(lc)))
			lfirst(lc) = infer_build_expose(build, infer_reuse(build, lfirst(lc)));
	}
	result->plan = infer_build_end(build);
	result->labels = proc->labels;
	result->vexprs = vexprs;
	return result;
}

/*
 * Applies what is pending and makes the needed columns (by position, from 1) real; the others stay
 * virtual, written over the new node's outputs.  A call that was made here anyway is not made
 * again for them.  Unchanged if there is nothing to do.
 */
InferProc *
infer_mat_partial(InferRewrite *rw, InferProc *proc, const Bitmapset *need)
{
	InferBuild *build;
	List *vexprs = NIL;
	bool work = proc->pending != NIL;
	ListCell *lv;
	ListCell *ll;

	foreach (lv, proc->vexprs)
		work = work ||
			   (!infer_is_real(lfirst(lv)) && bms_is_member(foreach_current_index(lv) + 1, need));
	if (!work)
		return proc;

	build = infer_build_begin(rw, proc->plan);
	infer_build_filters(build, proc->pending);
	forboth(lv, proc->vexprs, ll, proc->labels)
	{
		Node *vexpr = lfirst(lv);

		if (infer_is_real(vexpr) || bms_is_member(foreach_current_index(lv) + 1, need))
		{
			infer_build_output(build, infer_extract(build, vexpr, NIL), lfirst(ll));
			vexpr = (Node *) infer_var_for(OUTER_VAR, list_length(build->targetlist), vexpr);
		}
		vexprs = lappend(vexprs, vexpr);
	}
	return finish_partial(build, proc, vexprs);
}

/* All columns real; conditions stay pending if no column was virtual. */
InferProc *
infer_mat_columns(InferRewrite *rw, InferProc *proc)
{
	Bitmapset *need = NULL;
	ListCell *lc;

	foreach (lc, proc->vexprs)
	{
		if (!infer_is_real(lfirst(lc)))
			need = bms_add_member(need, foreach_current_index(lc) + 1);
	}
	return need == NULL ? proc : infer_mat_partial(rw, proc, need);
}

/*
 * Makes those virtual columns real that must not be copied into several places of their users: a
 * sub-plan would run once per copy.
 */
InferProc *
infer_settle(InferRewrite *rw, InferProc *proc, List *users)
{
	Bitmapset *need = NULL;
	ListCell *lc;

	foreach (lc, proc->vexprs)
	{
		AttrNumber attno = foreach_current_index(lc) + 1;

		if (!infer_is_real(lfirst(lc)) && infer_contains_subplan(lfirst(lc)) &&
			infer_count_references((Node *) users, OUTER_VAR, attno) > 1)
			need = bms_add_member(need, attno);
	}
	return need == NULL ? proc : infer_mat_partial(rw, proc, need);
}

/*
 * Takes from a qual list its suffix that starts at the first call; with unsafe_too also at the
 * first qual that may fail (because a condition that stood before it is pending).
 */
List *
infer_take_quals(List **quals, bool unsafe_too)
{
	ListCell *lc;

	foreach (lc, *quals)
	{
		Node *qual = lfirst(lc);

		if (infer_contains_open_call(qual) || (unsafe_too && infer_may_fail(qual)))
		{
			int kept = foreach_current_index(lc);
			List *taken = list_copy_tail(*quals, kept);

			*quals = list_truncate(list_copy(*quals), kept);
			return taken;
		}
	}
	return NIL;
}

/* What only the node itself can evaluate. */
static bool
is_component(Node *node)
{
	switch (nodeTag(node))
	{
		case T_Var:
		case T_Aggref:
		case T_WindowFunc:
		case T_GroupingFunc:
#if PG_VERSION_NUM >= 170000
		case T_MergeSupportFunc:
#endif
#if PG_VERSION_NUM >= 180000
		case T_ReturningExpr:
#endif
			return true;
#if PG_VERSION_NUM >= 160000
		case T_JsonConstructorExpr:
		{
			/* JSON_ARRAYAGG and its like: EXPLAIN wants to see the aggregate in it */
			Node *func = (Node *) ((JsonConstructorExpr *) node)->func;

			return func != NULL && (IsA(func, Aggref) || IsA(func, WindowFunc));
		}
#endif
		default:
			return false;
	}
}

/* Writes a lifted expression over the node's outputs, adding the components that it needs. */
static Node *
lift_mutator(Node *node, void *context)
{
	List **tlist = context;
	TargetEntry *tle;
	ListCell *lc;

	if (node == NULL)
		return NULL;
	if (!is_component(node))
		return expression_tree_mutator(node, lift_mutator, context);
	foreach (lc, *tlist)
	{
		tle = lfirst(lc);
		if (equal(tle->expr, node))
			return (Node *) infer_var_for(OUTER_VAR, tle->resno, node);
	}
	tle = makeTargetEntry((Expr *) node, list_length(*tlist) + 1, NULL, true);
	*tlist = lappend(*tlist, tle);
	return (Node *) infer_var_for(OUTER_VAR, tle->resno, node);
}

/* A node that computes less also costs less; its InferScan will show the difference. */
static void
subtract_cost(Plan *node, List *exprs)
{
	QualCost cost;

	cost_qual_eval(&cost, exprs, NULL);
	node->total_cost =
		Max(node->startup_cost, node->total_cost - cost.startup - cost.per_tuple * node->plan_rows);
}

/* Applies on the spot what must not float (I4). */
InferProc *
infer_hold_volatile(InferRewrite *rw, InferProc *proc)
{
	Bitmapset *need = NULL;
	bool force = contain_volatile_functions((Node *) proc->pending);
	ListCell *lc;

	foreach (lc, proc->vexprs)
	{
		if (contain_volatile_functions(lfirst(lc)))
			need = bms_add_member(need, foreach_current_index(lc) + 1);
	}
	return need || force ? infer_mat_partial(rw, proc, need) : proc;
}

/* Can this column not stay where it is? */
static bool
must_lift(Node *expr, bool pending, bool together)
{
	if (infer_contains_open_call(expr))
		return true;
	return pending && (infer_may_fail(expr) || (together && !IsA(expr, Var)));
}

/*
 * The basic move.  node is finished but for its targetlist, which still holds calls; pending is
 * what was taken from its quals or handed up by its children, in the same terms.
 */
InferProc *
infer_lift(InferRewrite *rw, Plan *node, List *pending)
{
	InferProc *proc = palloc0(sizeof(InferProc));
	List *tlist = NIL;
	List *lifted = list_copy(pending);
	bool together = infer_contains_multiexpr((Node *) node->targetlist);
	ListCell *lc;

	proc->plan = node;
	proc->labels = node->targetlist;
	foreach (lc, node->targetlist)
	{
		TargetEntry *tle = lfirst(lc);
		Node *vexpr = (Node *) tle->expr;

		if (must_lift(vexpr, pending != NIL, together))
			lifted = lappend(lifted, vexpr);
		else
		{
			tle = flatCopyTargetEntry(tle);
			tle->resno = list_length(tlist) + 1;
			tlist = lappend(tlist, tle);
			vexpr = (Node *) infer_var_for(OUTER_VAR, tle->resno, vexpr);
		}
		proc->vexprs = lappend(proc->vexprs, vexpr);
	}
	if (lifted == NIL)
		return infer_unchanged(node);

	foreach (lc, proc->vexprs)
	{
		if (!infer_is_real(lfirst(lc)))
			lfirst(lc) = lift_mutator(lfirst(lc), &tlist);
	}
	foreach (lc, pending)
		proc->pending = lappend(proc->pending, lift_mutator(lfirst(lc), &tlist));
	subtract_cost(node, lifted);
	node->targetlist = tlist;
	/* columns that share a sub-plan's parameters are computed for one row at a time */
	if (together && pending != NIL)
		return infer_unchanged(infer_mat(rw, proc));
	return infer_hold_volatile(rw, proc);
}
