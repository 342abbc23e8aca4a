/*
 * scan/build.h - making one InferScan: begin, add steps and outputs, end.
 *
 * Expressions come over the child (OUTER_VAR) and are held over the scan tuple (INDEX_VAR); build.c
 * tells of the three spaces of column numbers.
 */
#ifndef INFER_SCAN_BUILD_H
#define INFER_SCAN_BUILD_H

#include "postgres.h"

#include "nodes/primnodes.h"

#include "scan/rewrite.h"

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

/* Nothing but the child's columns yet. */
extern InferBuild *infer_build_begin(InferRewrite *rw, Plan *child);
/* Conditions over the child, in order: each becomes a filter, and guards what comes after it. */
extern void infer_build_filters(InferBuild *build, List *quals);
/* The column of a call whose arguments are in INDEX_VAR terms, made if it does not stand yet. */
extern Var *infer_build_call(InferBuild *build, FuncExpr *call, List *guards);
/* A column for a value that must be computed once and used twice. */
extern Var *infer_build_compute(InferBuild *build, Node *expr, List *guards);
/* The next output column, in INDEX_VAR terms, labelled as the planner labelled it. */
extern void infer_build_output(InferBuild *build, Node *expr, TargetEntry *label);
/* Rewrites an INDEX_VAR expression over the outputs, adding those that are missing. */
extern Node *infer_build_expose(InferBuild *build, Node *expr);
/* The scan tuple column for a column of the child; a constant of it travels as itself. */
extern Node *infer_build_child_var(InferBuild *build, const Var *var);
/* The finished node above the child; the child itself if there is nothing to do. */
extern Plan *infer_build_end(InferBuild *build);

/* extract.c: from an expression to steps */
/* expr is over the child; the answer is in INDEX_VAR terms, its calls replaced by columns.  guards,
 * in INDEX_VAR terms, must all be true where it is evaluated. */
extern Node *infer_extract(InferBuild *build, Node *expr, List *guards);
/* The same for a condition that also guards others: *guard is the condition to test. */
extern Node *infer_extract_condition(InferBuild *build, Node *expr, List *guards, Node **guard);
/* Replaces calls that are computed for every row already; adds no step. */
extern Node *infer_reuse(InferBuild *build, Node *expr);

#endif
