/*
 * scan/rewrite.h - one statement's plan being rewritten: the driver and the rules per node type
 * (rewrite.c has the essay).
 *
 * Private to src/scan, as walk.h, moves.h, hoist.h, unify.h and build.h are.  Backend-local, no
 * locks; all nodes are made in the planner's memory context.
 */
#ifndef INFER_SCAN_REWRITE_H
#define INFER_SCAN_REWRITE_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"

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

/* rewrite.c: processes a tree, by its node's rule ... */
extern InferProc *infer_proc(InferRewrite *rw, Plan *plan);
/* ... and gives it exactly the planner's layout again. */
extern Plan *infer_proc_mat(InferRewrite *rw, Plan *plan);

/* prepass_place.c: changes a query level, which is a copy of ours, if that is right and could be of
 * use. */
extern void infer_place_calls(Query *query);

/*
 * rewrite_*.c: rules per node type.  Each takes the node as the planner made it, has its children
 * processed, and hands on what is left to do.
 */
extern InferProc *infer_proc_scan(InferRewrite *rw, Plan *plan);
/* A projecting node (targetlist and quals over the child's layout) on top of a processed child:
 * what the child has not done yet becomes part of the expressions and rises. */
extern InferProc *infer_project(InferRewrite *rw, Plan *plan, InferProc *child, List *quals);
/* Result, Gather */
extern InferProc *infer_proc_result(InferRewrite *rw, Plan *plan);
extern InferProc *infer_proc_gather_merge(InferRewrite *rw, GatherMerge *node);
extern InferProc *infer_proc_project_set(InferRewrite *rw, Plan *plan);
/* Sort, IncrementalSort */
extern InferProc *infer_proc_sort(InferRewrite *rw, Sort *node);
extern InferProc *infer_proc_limit(InferRewrite *rw, Limit *node);
extern InferProc *infer_proc_unique(InferRewrite *rw, Unique *node);
extern InferProc *infer_proc_group(InferRewrite *rw, Plan *plan);
/* Agg, WindowAgg */
extern InferProc *infer_proc_agg(InferRewrite *rw, Plan *plan);
extern InferProc *infer_proc_modify_table(InferRewrite *rw, ModifyTable *node);
/* Nodes that need all columns and conditions of their children: their layout stays. */
extern InferProc *infer_proc_children(InferRewrite *rw, Plan *plan);
/* Takes the calls out of the list, into the scan's targetlist and conditions. */
extern void infer_lift_values(InferRewrite *rw, ValuesScan *scan);
extern InferProc *infer_proc_append(InferRewrite *rw, Append *node);
extern InferProc *infer_proc_merge_append(InferRewrite *rw, MergeAppend *node);
extern InferProc *infer_proc_join(InferRewrite *rw, Join *node);
/* The projection that the join amounts to, or NULL. */
extern InferProc *infer_fold_lateral(InferRewrite *rw, NestLoop *node);
/* The planner decided about Material for the inner child that it knew (P10). */
extern void infer_keep_mark_restore(InferRewrite *rw, MergeJoin *node);

#endif
