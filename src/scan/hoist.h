/*
 * scan/hoist.h - calls over parameters only: out of inner sides and sub-plans (hoist.c has the
 * reasons), and which these are (hoist_find.c).
 */
#ifndef INFER_SCAN_HOIST_H
#define INFER_SCAN_HOIST_H

#include "postgres.h"

#include "nodes/plannodes.h"

#include "scan/rewrite.h"

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

/* Takes the calls out of a nested loop's inner side that are made for each outer row.  The answer
 * are InferHoisted whose calls are written over the outer side's layout; the join still has to hand
 * their values down. */
extern List *infer_hoist_join(InferRewrite *rw, NestLoop *node);
/* Calls that the inner side may make, over the outer side's layout, for the outer side to make
 * ahead. inner and pending are the inner side and the conditions that it applies, as they will be.
 */
extern List *infer_ahead_join(InferRewrite *rw, NestLoop *node, Plan *inner, List *pending);
/* Takes the calls out of correlated sub-plans that are made at each execution: they become
 * arguments. */
extern void infer_hoist_subplans(InferRewrite *rw);
/* At the end of the rewrite: where no InferScan took such arguments, the sub-plan makes its calls
 * itself. */
extern void infer_hoist_end(InferRewrite *rw);
/* Takes those arguments away again that were to be made ahead: nobody reads them. */
extern void infer_drop_ahead(const InferRewrite *rw, SubPlan *subplan);
/* Calls over these parameters that each execution of the plan makes; complete: it is read to its
 * end. */
extern List *infer_certain_calls(InferRewrite *rw, Plan *plan, bool complete,
								 const InferHoistParams *params);
/* ... and those that it, or a condition that is still to be applied to it, makes for a row. */
extern List *infer_possible_calls(InferRewrite *rw, Plan *plan, List *pending,
								  const InferHoistParams *params);
/* What a SubPlan runs. */
extern Plan *infer_subplan_plan(const InferRewrite *rw, const SubPlan *subplan);
/* A node that parameters do not get through, or that is not understood. */
extern bool infer_is_closed(const Plan *plan);

#endif
