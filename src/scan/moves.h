/*
 * scan/moves.h - the moves that the rule of every plan node is made of (I1 to I8: rewrite.c).
 *
 * A Plan or list that is given is the caller's to give away: it is built into the answer.
 */
#ifndef INFER_SCAN_MOVES_H
#define INFER_SCAN_MOVES_H

#include "postgres.h"

#include "nodes/primnodes.h"

#include "scan/rewrite.h"

/* A node whose columns are all real, as the planner made it. */
extern InferProc *infer_unchanged(Plan *plan);
/* Exactly the planner's layout, every column real, nothing pending. */
extern Plan *infer_mat(InferRewrite *rw, InferProc *proc);
/* Applies what is pending and makes the needed columns (by position, from 1) real. Unchanged if
 * there is nothing to do. */
extern InferProc *infer_mat_partial(InferRewrite *rw, InferProc *proc, const Bitmapset *need);
/* All columns real; conditions stay pending if no column was virtual. */
extern InferProc *infer_mat_columns(InferRewrite *rw, InferProc *proc);
/* The basic move.  node is finished but for its targetlist, which still holds calls; pending is
 * what was taken from its quals or handed up by its children, in the same terms. */
extern InferProc *infer_lift(InferRewrite *rw, Plan *node, List *pending);
/* Applies on the spot what must not float (I4). */
extern InferProc *infer_hold_volatile(InferRewrite *rw, InferProc *proc);
/* Takes from a list of conditions its suffix that starts at the first call; with unsafe_too also at
 * the first one that may fail, because a condition that stood before it is pending. */
extern List *infer_take_quals(List **quals, bool unsafe_too);
/* Makes those virtual columns real that must not be copied into several places of their users: a
 * sub-plan would run once per copy. */
extern InferProc *infer_settle(InferRewrite *rw, InferProc *proc, List *users);

/* Copies of an expression: with columns of one input replaced by what these are now ... */
extern Node *infer_substitute(Node *node, int varno, List *vexprs);
/* ... parameters by what they are set to ... */
extern Node *infer_put_params(Node *node, List *ids, List *values);
/* ... those that carry a nested loop's outer columns by these columns (P8) ... */
extern Node *infer_unparametrize(Node *node, List *nest_params);
/* ... and columns of one input by the same ones of another: OUTER_VAR to INNER_VAR, say. */
extern Node *infer_renumber(Node *node, int from, int to);

/* CASE WHEN condition THEN value ELSE otherwise END */
extern Node *infer_make_case(Node *condition, Node *value, Node *otherwise);
/* The targetlist of a node that only passes its child's columns on, as setrefs.c makes it. */
extern List *infer_dummy_tlist(List *child_tlist);
/* A column with the type of that expression. */
extern Var *infer_var_for(int varno, AttrNumber attno, const Node *expr);
extern Plan *infer_make_material(InferRewrite *rw, Plan *child);
/* Costs, flags and parameters of a node that another one now stands in for. */
extern void infer_copy_plan_info(Plan *to, Plan *from);
/* Parameters that a node reads now: it must be scanned again when they change. */
extern void infer_add_params(Plan *plan, const Bitmapset *ids);
/* InitPlans hang on the topmost node of their query level. */
extern void infer_take_init_plans(Plan *to, Plan *from);

#endif
