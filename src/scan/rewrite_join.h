/*
 * scan/rewrite_join.h - a join being rewritten, as the three files of its rule share it.
 *
 * Private to rewrite_join*.c.  Backend-local, no locks; lives as long as infer_proc_join() runs.
 */
#ifndef INFER_SCAN_REWRITE_JOIN_H
#define INFER_SCAN_REWRITE_JOIN_H

#include "postgres.h"

#include "nodes/plannodes.h"

#include "scan/build.h"
#include "scan/rewrite.h"

typedef struct InferJoinSide
{
	int varno;       /* OUTER_VAR or INNER_VAR in the join's expressions */
	List *wrappers;  /* outermost first */
	InferProc *proc; /* all columns real */
	bool one_row;
	bool wanted;       /* something must be computed here for the join */
	bool floats;       /* its conditions rise */
	List *earlier;     /* ON conditions of this side before the one in hand */
	InferBuild *build; /* set when wanted */
} InferJoinSide;

typedef struct InferJoin
{
	InferJoinSide outer;
	InferJoinSide inner;
	List *hoisted; /* of InferHoisted: calls of the inner side that the outer side makes */
	List *ahead;   /* ... that it makes ahead, for nobody to read */
	bool cross;    /* no condition but calls over one side each: they are not moved */
	bool dry;      /* only find out which side is wanted */
} InferJoin;

/* rewrite_join_calls.c: what the sides compute for the join */
/* An expression over this side's layout, in terms of the join as it will be. */
extern Node *infer_side_expr(InferJoinSide *side, Node *expr);
/* The same over both sides' layouts; calls stay. */
extern List *infer_map_columns(InferJoin *join, List *exprs);
/* The ON conditions with their one-sided calls replaced by columns of that side. */
extern List *infer_extract_one_sided(InferJoin *join, List *quals);
/* Finds out which sides must compute something, before conditions are told to float. */
extern void infer_find_wanted(InferJoin *join, Join *node);

/* rewrite_join_float.c */
/* Can this plan not fail for parameters of a row that a condition should have dropped? */
extern bool infer_is_harmless(Plan *plan);
/* Do this side's pending conditions rise over the join? */
extern bool infer_will_float(InferJoin *join, Join *node, InferJoinSide *side);

#endif
