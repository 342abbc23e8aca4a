/*
 * scan/plan.h - what the rewrite leaves in a CustomScan for the execution.
 *
 * A node's program is a list of steps over the scan tuple: first the child's columns (1..nchild),
 * then one column per distinct call or computed guard.  All expressions use Var(INDEX_VAR, n) for
 * scan tuple columns.  Steps run in order per row; a step whose guards are not all true is skipped
 * (its column stays NULL); a call step on a column that is computed already does nothing; a filter
 * that is not true drops the row.
 *
 * custom_exprs    a List with one List per step: (expr, guard, guard, ...).
 *                 CALL: expr is the FuncExpr whose args are what must be evaluated;
 *                 COMPUTE: expr is the value; FILTER: expr is the boolean.
 * custom_private  a List of INFER_PRIVATE_COUNT elements, see the enum.
 * custom_scan_tlist  the child's columns (OUTER_VAR), then the call expressions, for EXPLAIN and
 * the tuple descriptor. The child is lefttree.  All of it survives copyObject and nodeToString.
 */
#ifndef INFER_SCAN_PLAN_H
#define INFER_SCAN_PLAN_H

#include "postgres.h"
#include "nodes/extensible.h"
#include "nodes/plannodes.h"

typedef enum InferStepKind
{
	INFER_STEP_CALL,
	INFER_STEP_COMPUTE,
	INFER_STEP_FILTER
} InferStepKind;

typedef enum InferPrivate
{
	INFER_PRIVATE_KINDS,    /* IntList: InferStepKind per step */
	INFER_PRIVATE_COLUMNS,  /* IntList: 1-based scan tuple column per step, 0 for FILTER */
	INFER_PRIVATE_NCHILD,   /* IntList of one: number of child columns */
	INFER_PRIVATE_CONSTANT, /* IntList: 1 if a CALL's arguments have no Var (asked once a scan),
							 * 2 if they also hold a PARAM_EXEC (forget on rescan), else 0 */
	INFER_PRIVATE_HINTS,    /* IntList of one: bit 0 = window of one row (inner of SEMI/ANTI) */
	INFER_PRIVATE_COUNT
} InferPrivate;

#define INFER_HINT_ONE_ROW 1

extern const CustomScanMethods infer_scan_methods; /* exec.c; name "InferScan" */

/* hooks.c, from _PG_init: RegisterCustomScanMethods, planner_hook, and infer_demand_init(). */
extern void infer_scan_init(void);
/* demand.c, from infer_scan_init(): the ExecutorStart and ExecutorRun hooks (what the consumers of
 * each scan want). */
extern void infer_demand_init(void);

/* prepass.c: returns query itself or a changed copy (never writes to query).  skippable: a call
 * became an InitPlan that stood where CASE, COALESCE, AND or OR may skip it. */
extern Query *infer_prepass(Query *query, bool *skippable);
/* rewrite.c: changes stmt in place (a plan that the planner just made); cursor_options as the
 * planner got them. Cheap when there is no call in it. */
extern void infer_rewrite(PlannedStmt *stmt, int cursor_options);

#endif
