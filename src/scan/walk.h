/*
 * scan/walk.h - questions about expressions (walk.c, fields.c) and finished plans (walk_plan.c).
 *
 * "Call" means a FuncExpr on one of our functions that may be taken out of its expression.  NULL is
 * an expression without anything in it.  Nothing is changed, but by infer_map_exprs().
 */
#ifndef INFER_SCAN_WALK_H
#define INFER_SCAN_WALK_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"

/* Is it a call itself? */
extern bool infer_is_call(const Node *node);
/* Is there a call in this expression tree or query? */
extern bool infer_contains_call(Node *node);
/* The same, but not in the arguments of aggregates and window functions. */
extern bool infer_contains_open_call(Node *node);
/* Does this query, as the planner gets it, hold anything that a call could come from? */
extern bool infer_query_may_call(Query *query);
/* Does this evaluate all its operands, whatever they are? */
extern bool infer_evaluates_all(Node *node);
/* Could it be noticed that this was evaluated for a row that a pending condition would have
 * dropped, by an error or in another way? */
extern bool infer_may_fail(Node *node);
/* SubPlans, also those of SET (a, b) = (SELECT ...), whose results other columns read as
 * parameters; multiexpr: these alone. */
extern bool infer_contains_subplan(Node *node);
extern bool infer_contains_multiexpr(Node *node);
/* One of these PARAM_EXEC ids, or any; and the ids that there are. */
extern bool infer_contains_params(Node *node, const Bitmapset *ids);
extern bool infer_contains_exec_param(Node *node);
extern Bitmapset *infer_exec_params(Node *node);
/* A placeholder for the argument of an enclosing CASE, not of one inside. */
extern bool infer_contains_case_test(Node *node);
/* Columns of that input, or of any. */
extern bool infer_contains_var(Node *node, int varno);
extern bool infer_contains_any_var(Node *node);
/* Is this a column that is there already (InferProc.vexprs)? */
extern bool infer_is_real(const Node *vexpr);
/* How often the column stands in it. */
extern int infer_count_references(Node *node, int varno, AttrNumber attno);

/* All plans directly below this one, not those of its SubPlans; a new list. */
extern List *infer_plan_children(Plan *plan);
/* Is there a call in this tree that a rule of ours could take out? */
extern bool infer_plan_has_call(Plan *plan);
/* May running this tree make calls: in an InferScan, an expression, or a plan that it reads? */
extern bool infer_plan_may_ask(Plan *plan);
/* Does it lock rows, or read a common table expression that may? */
extern bool infer_plan_has_lock(Plan *plan);
/* The largest plan_node_id of the tree, or what was seen before. */
extern int infer_plan_max_id(Plan *plan, int seen);
/* Does a Gather evaluate an InitPlan with a call before it starts? */
extern bool infer_gather_calls(PlannedStmt *stmt);

typedef Node *(*InferMapExpr)(Node *expr, void *context);
/* Puts map's answer in place of each expression of this node, not of those below it nor of its
 * InitPlans.  False if the node's type is not known: then of its targetlist and conditions alone.
 */
extern bool infer_map_exprs(const PlannedStmt *stmt, Plan *plan, InferMapExpr map, void *context);
/* How an Append or MergeAppend chooses among its children at run time; NULL if it does not. */
extern PartitionPruneInfo *infer_prune_info(const PlannedStmt *stmt, const Plan *plan);

#endif
