/*
 * scan/rewrite.h - what the files of the plan rewrite share (rewrite.c has the essay).
 *
 * Private to src/scan: walk*.c, unify.c, prepass*.c, moves.c, rewrite*.c, hoist*.c, fields.c,
 * extract.c, build.c.  Backend-local, no locks; all nodes are made in the planner's memory context.
 */
#ifndef INFER_SCAN_REWRITE_H
#define INFER_SCAN_REWRITE_H

#include "postgres.h"
#include "nodes/plannodes.h"
#include "scan/plan.h"

/* One statement being rewritten. */
typedef struct InferRewrite
{
	PlannedStmt *stmt;
	int next_id;      /* next free plan_node_id */
	bool has_locks;   /* FOR UPDATE/SHARE somewhere: nothing of ours above LockRows */
	Cost call_cost;   /* of all steps that InferScans have taken */
	Bitmapset *ahead; /* parameters that nobody reads: calls that sub-plans may make */
	bool one_row;     /* the node in hand feeds something that stops at the first row */
} InferRewrite;

/*
 * What a processed node hands to its parent.  vexprs has one entry per column of the planner's
 * layout (labels), over the columns of plan as it is now, as Var(OUTER_VAR, n): a plain Var is a
 * real column, anything else a virtual one.  pending are conditions that must still be applied, in
 * order, in the same terms.
 */
typedef struct InferProc
{
	Plan *plan;
	List *labels; /* TargetEntries as the planner made them */
	List *vexprs;
	List *pending;
} InferProc;

/* An InferScan (or a plain projection) under construction over child. */
typedef struct InferBuild
{
	InferRewrite *rw;
	Plan *child;
	int nchild;
	List *columns; /* scan tuple columns behind the child's: expressions in INDEX_VAR terms */
	List *exprs;   /* per step: List(expr, guard...) */
	List *kinds;   /* per step: InferStepKind */
	List *targets; /* per step: column or 0 */
	List *constants;
	List *targetlist; /* outputs, in INDEX_VAR terms */
} InferBuild;

/* Where hoisted calls come from. */
typedef struct InferHoistParams
{
	Bitmapset *own;     /* parameters that are set for each execution */
	Bitmapset *outside; /* parameters that can be read where those are set */
} InferHoistParams;

/* A call that was taken out of a plan, and the parameter that stands for it there. */
typedef struct InferHoisted
{
	Param *param;
	Node *call;
} InferHoisted;

/* What is unified (unify.c) reads columns: per source one expression, NULL where it reads none. */
typedef struct InferUnifyColumn
{
	Node **exprs;
	Oid type;
	int32 typmod;
	Oid collation;
} InferUnifyColumn;

typedef struct InferUnify
{
	int varno;
	int count;     /* of sources */
	bool eager;    /* sources evaluate their expressions for each row, whoever reads them */
	List *columns; /* of InferUnifyColumn */
} InferUnify;

/* --- walk.c: questions about expressions --- */
extern bool infer_is_call(const Node *node);
/* Like infer_contains_call, but does not look into aggregates and window functions. */
extern bool infer_contains_open_call(Node *node);
extern bool infer_evaluates_all(Node *node);
extern bool infer_may_fail(Node *node);
extern bool infer_contains_subplan(Node *node);
extern bool infer_contains_multiexpr(Node *node);
extern bool infer_contains_params(Node *node, const Bitmapset *ids);
extern bool infer_contains_exec_param(Node *node);
extern Bitmapset *infer_exec_params(Node *node);
extern bool infer_contains_case_test(Node *node);
extern bool infer_contains_var(Node *node, int varno);
extern bool infer_contains_any_var(Node *node);
extern bool infer_is_real(const Node *vexpr);
extern int infer_count_references(Node *node, int varno, AttrNumber attno);

/* --- walk_plan.c: questions about plans --- */
extern List *infer_plan_children(Plan *plan);
extern bool infer_plan_has_call(Plan *plan);
extern bool infer_plan_may_ask(Plan *plan);
extern bool infer_plan_has_lock(Plan *plan);
extern int infer_plan_max_id(Plan *plan, int seen);

/* --- fields.c: a node's expressions --- */
typedef Node *(*InferMapExpr)(Node *expr, void *context);
extern bool infer_map_exprs(const PlannedStmt *stmt, Plan *plan, InferMapExpr map, void *context);
extern PartitionPruneInfo *infer_prune_info(const PlannedStmt *stmt, const Plan *plan);

/* --- hoist.c, hoist_find.c: parameter-only calls --- */
extern List *infer_hoist_join(InferRewrite *rw, NestLoop *node);
extern List *infer_ahead_join(InferRewrite *rw, NestLoop *node, Plan *inner, List *pending);
extern void infer_hoist_subplans(InferRewrite *rw);
extern void infer_hoist_end(InferRewrite *rw);
extern void infer_drop_ahead(const InferRewrite *rw, SubPlan *subplan);
extern List *infer_certain_calls(InferRewrite *rw, Plan *plan, bool complete,
								 const InferHoistParams *params);
extern List *infer_possible_calls(InferRewrite *rw, Plan *plan, List *pending,
								  const InferHoistParams *params);
extern Plan *infer_subplan_plan(const InferRewrite *rw, const SubPlan *subplan);
extern bool infer_is_closed(const Plan *plan);

/* --- prepass_place.c --- */
extern void infer_place_calls(Query *query);

/* --- rewrite.c: the driver --- */
extern InferProc *infer_proc(InferRewrite *rw, Plan *plan);
extern Plan *infer_proc_mat(InferRewrite *rw, Plan *plan);

/* --- moves.c: the moves every node rule is made of --- */
extern InferProc *infer_unchanged(Plan *plan);
extern Plan *infer_mat(InferRewrite *rw, InferProc *proc);
extern InferProc *infer_mat_partial(InferRewrite *rw, InferProc *proc, const Bitmapset *need);
extern InferProc *infer_mat_columns(InferRewrite *rw, InferProc *proc);
extern InferProc *infer_lift(InferRewrite *rw, Plan *node, List *pending);
extern InferProc *infer_hold_volatile(InferRewrite *rw, InferProc *proc);
extern List *infer_take_quals(List **quals, bool unsafe_too);
extern InferProc *infer_settle(InferRewrite *rw, InferProc *proc, List *users);
extern Node *infer_substitute(Node *node, int varno, List *vexprs);
extern Node *infer_put_params(Node *node, List *ids, List *values);
extern Node *infer_unparametrize(Node *node, List *nest_params);
extern Node *infer_renumber(Node *node, int from, int to);
extern Node *infer_make_case(Node *condition, Node *value, Node *otherwise);
extern List *infer_dummy_tlist(List *child_tlist);
extern Var *infer_var_for(int varno, AttrNumber attno, const Node *expr);
extern Plan *infer_make_material(InferRewrite *rw, Plan *child);
extern void infer_copy_plan_info(Plan *to, Plan *from);
extern void infer_add_params(Plan *plan, const Bitmapset *ids);
extern void infer_take_init_plans(Plan *to, Plan *from);

/* --- rewrite_*.c: rules per node type --- */
extern InferProc *infer_proc_scan(InferRewrite *rw, Plan *plan);
extern InferProc *infer_project(InferRewrite *rw, Plan *plan, InferProc *child, List *quals);
extern InferProc *infer_proc_result(InferRewrite *rw, Plan *plan);
extern InferProc *infer_proc_gather_merge(InferRewrite *rw, GatherMerge *node);
extern InferProc *infer_proc_project_set(InferRewrite *rw, Plan *plan);
extern InferProc *infer_proc_sort(InferRewrite *rw, Sort *node);
extern InferProc *infer_proc_limit(InferRewrite *rw, Limit *node);
extern InferProc *infer_proc_unique(InferRewrite *rw, Unique *node);
extern InferProc *infer_proc_group(InferRewrite *rw, Plan *plan);
extern InferProc *infer_proc_agg(InferRewrite *rw, Plan *plan);
extern InferProc *infer_proc_modify_table(InferRewrite *rw, ModifyTable *node);
extern InferProc *infer_proc_children(InferRewrite *rw, Plan *plan);
extern void infer_lift_values(InferRewrite *rw, ValuesScan *scan);
extern InferProc *infer_proc_append(InferRewrite *rw, Append *node);
extern InferProc *infer_proc_merge_append(InferRewrite *rw, MergeAppend *node);
extern InferProc *infer_proc_join(InferRewrite *rw, Join *node);
extern InferProc *infer_fold_lateral(InferRewrite *rw, NestLoop *node);
extern void infer_keep_mark_restore(InferRewrite *rw, MergeJoin *node);

/* --- unify.c: several expressions to one over columns --- */
extern InferUnify *infer_unify_begin(int varno, int count, bool eager);
extern Node *infer_unify(InferUnify *unify, Node **nodes);
extern Var *infer_unify_column(InferUnify *unify, Node **nodes, Oid type, int32 typmod,
							   Oid collation);
extern Node *infer_unify_expr(const InferUnifyColumn *column, int source);

/* --- extract.c: from an expression to steps --- */
/* expr is over the child (OUTER_VAR); the answer is in INDEX_VAR terms, calls replaced by columns.
 */
extern Node *infer_extract(InferBuild *build, Node *expr, List *guards);
/* As infer_extract for a condition that also guards others: *guard is the condition to test. */
extern Node *infer_extract_condition(InferBuild *build, Node *expr, List *guards, Node **guard);
/* Replaces calls that are computed for every row already; adds no step. */
extern Node *infer_reuse(InferBuild *build, Node *expr);

/* --- build.c: the node --- */
extern InferBuild *infer_build_begin(InferRewrite *rw, Plan *child);
extern void infer_build_filters(InferBuild *build, List *quals);
extern Var *infer_build_call(InferBuild *build, FuncExpr *call, List *guards);
extern Var *infer_build_compute(InferBuild *build, Node *expr, List *guards);
extern void infer_build_output(InferBuild *build, Node *expr, TargetEntry *label);
extern Node *infer_build_expose(InferBuild *build, Node *expr);
extern Node *infer_build_child_var(InferBuild *build, const Var *var);
extern Plan *infer_build_end(InferBuild *build);

#endif
