/*
 * scan/unify.h - several expressions of one form as one over columns (unify.c).
 *
 * Begin, unify whatever belongs together, then read the columns that this took: what each source
 * must hand up for them.
 */
#ifndef INFER_SCAN_UNIFY_H
#define INFER_SCAN_UNIFY_H

#include "postgres.h"

#include "nodes/primnodes.h"

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

/* count sources, whose columns the result reads as Var(varno, n). */
extern InferUnify *infer_unify_begin(int varno, int count, bool eager);
/* One expression for one of each source; NULL if there is none. */
extern Node *infer_unify(InferUnify *unify, Node **nodes);
/* A column of its own for one expression of each source, NULL where a source has none. */
extern Var *infer_unify_column(InferUnify *unify, Node **nodes, Oid type, int32 typmod,
							   Oid collation);
/* What a source computes for a column; NULL of its type if that is never read. */
extern Node *infer_unify_expr(const InferUnifyColumn *column, int source);

#endif
