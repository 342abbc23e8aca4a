/*
 * scan/state.h - execution state of an InferScan; private to exec.c, program.c, ring.c, rows.c,
 * demand.c and explain.c.
 *
 * scan      one execution of the plan node: a program, a ring of rows, a client of src/call.
 * step      one instruction of the program (scan/plan.h), compiled.
 * cell      one computed column of one row: nothing yet, a pinned call, or a value of its own.
 * row       one tuple of the child with its cells and the steps it has behind it.
 * demand    what the consumer above is known to want.
 *
 * All of it lives in the per-query context.  A scan belongs to one process; there is no lock.
 */
#ifndef INFER_SCAN_STATE_H
#define INFER_SCAN_STATE_H

#include "postgres.h"
#include "access/htup.h"
#include "commands/explain.h"
#include "executor/executor.h"
#include "nodes/execnodes.h"

#include "call/call.h"
#include "core/ramp.h"
#include "scan/plan.h"

/* One compiled step. Columns are numbered as cells: from 0, the child's columns not counted. */
typedef struct InferStep
{
	InferStepKind kind;
	int cell; /* that it computes; -1 for FILTER */
	int nguards;
	ExprState **guards;
	ExprState *expr; /* COMPUTE and FILTER */
	/* CALL */
	const InferFunction *function;
	int nargs;
	ExprState **args;
	bool constant;  /* asked once, shared by all rows */
	bool forgotten; /* ... and forgotten on rescan */
	bool sized;     /* the window knows this step's batch size and concurrency */
	/* what it reads */
	int nuses;
	int *uses; /* cells in its expression, arguments and guards */
	int nwaits;
	int *waits; /* cells that a sub-plan in it will ask the statement memo for */
	int nneeds;
	int *needs; /* earlier steps that compute those cells: they must be behind it */
} InferStep;

/* A computed column, the same for all rows. */
typedef struct InferColumn
{
	int16 typlen;
	bool typbyval;
	bool emitted;                  /* the output reads it */
	const InferFunction *function; /* of calls */
	Oid result_type;
	InferEntry *shared; /* constant call: the one entry, pinned by the scan */
	bool shared_begun;  /* shared is valid; NULL then means that the result is NULL */
} InferColumn;

/*
 * State of a cell:
 *
 *     EMPTY ──CALL──▶ PENDING ──answer──▶ DONE
 *       └───COMPUTE──▶ VALUE
 *
 * EMPTY reads as NULL: a skipped step, or a call with a NULL argument.
 */
typedef enum InferCellState
{
	INFER_CELL_EMPTY,
	INFER_CELL_PENDING,
	INFER_CELL_DONE,
	INFER_CELL_VALUE
} InferCellState;

typedef struct InferCell
{
	InferCellState state;
	bool isnull;       /* VALUE */
	bool pinned;       /* PENDING, DONE: by this row (else by the scan) */
	Datum value;       /* VALUE; copied into the window's context */
	InferEntry *entry; /* PENDING, DONE */
} InferCell;

/*
 * State of a row:
 *
 *     RUNNING ──all steps behind it──▶ WAITING ──all answers there──▶ (emitted, freed)
 *        └──a filter is not true──▶ DROPPED (freed when it is the oldest)
 */
typedef enum InferRowState
{
	INFER_ROW_RUNNING,
	INFER_ROW_WAITING,
	INFER_ROW_DROPPED
} InferRowState;

typedef struct InferRow
{
	InferRowState state;
	bool passed;        /* no filter is ahead of it any more */
	bool held;          /* ... but it may not be wanted, for the rows before it are enough */
	int first;          /* no step before this one is still to run */
	int npending;       /* cells that are PENDING */
	MinimalTuple tuple; /* NULL while the child's own slot still holds it */
	Size bytes;         /* it and what its calls held when they began */
	Size call_bytes;    /* the latter alone */
	InferCell *cells;
	bool *done; /* steps behind it */
} InferRow;

/* What the plan says of the consumer; filled once, before execution. */
typedef enum InferDemandKind
{
	INFER_DEMAND_UNKNOWN, /* may stop at any row */
	INFER_DEMAND_ALL,     /* takes every row */
	INFER_DEMAND_RUN      /* as many as ExecutorRun() is asked for */
} InferDemandKind;

typedef struct InferLimit InferLimit;
typedef struct InferHashJoin InferHashJoin;

typedef struct InferDemand
{
	InferDemandKind kind;
	const InferLimit *limit; /* the nearest one above, if any */
	bool exact;              /* ... counts this scan's rows, one for one */
	bool main_tree;          /* part of the main plan tree, not of a subplan */
	bool one_row;            /* mostly the first row is all it takes (EXISTS, scalar sub-select) */
	bool cte;                /* by a reader of a CTE, which may have several */
	const InferHashJoin *hash_join; /* the nearest one above that may have an empty hash table */
} InferDemand;

struct InferLimit
{
	LimitState *state;
	InferDemand above; /* what is wanted of it */
};

struct InferHashJoin
{
	const HashJoinState *state; /* this is below its outer side */
	const InferHashJoin *above;
};

typedef struct InferScanState
{
	CustomScanState css; /* must be first */

	/* the program, fixed at begin */
	int nchild;
	int ncells;
	int nsteps;
	int nfilters;
	int last_filter; /* number of the last FILTER step, -1 = none */
	int ncalls;      /* CALL steps */
	InferStep *steps;
	InferColumn *columns;
	int read_child; /* child columns that steps read: 1..read_child */
	int emit_child; /* ... and that the output reads */
	InferDemand demand;

	/* what is fixed at the first row, and forgotten on rescan */
	bool started;
	bool sized;   /* the window knows some step's batch size and concurrency */
	int64 wanted; /* rows that the consumer is thought to want; 0 = not known, or all */
	int64 most;   /* ... and is promised never to go beyond */
	bool takes_all;
	uint64 run; /* the ExecutorRun() that this is about */
	int64 runs; /* ... and how many there were */
	InferRamp window;
	int64 wave;           /* behind a filter: open rows the last time that reading began */
	int64 allowance;      /* ... and how many more may be read now */
	int64 decided_before; /* decided, when the scan started */
	int64 consumed;       /* rows gone since the window last grew */

	/* the ring: rows[head..tail), by number modulo size; live ones are not DROPPED */
	InferRow *rows;
	InferCell *cells;
	bool *done;
	int64 size; /* a power of two */
	int64 head;
	int64 tail;
	int64 nlive;
	int64 nrunning;
	int64 npassed;  /* live rows that have passed all filters */
	Size row_bytes; /* of the live rows */
	MemoryContext row_context;
	Size budget;
	double answer_bytes; /* moving mean: what the calls of a row grow by until it is emitted */

	/* reading and sending */
	InferClient *client;
	TupleTableSlot *child_slot; /* reads stored tuples */
	bool child_ended;
	bool over;      /* the consumer will not come back before a rescan */
	bool emitting;  /* rows[head] is what was returned last: freed at the next call */
	int since_push; /* rows begun or emitted since the client was pushed */
	int64 emitted;  /* since the (re)scan */
	int64 decided;  /* rows that filters let pass, or not; for the pass rate; kept over rescans */
	int64 let_pass;
	int64 read;     /* rows of the child; kept over rescans */
	int64 expected; /* rows of the child that are still to come, by the plan; < 0: it was wrong */

	/* figures for EXPLAIN, kept over rescans */
	int64 removed;
	int64 max_window;
} InferScanState;

/* exec.c */
extern bool infer_scan_is(PlanState *state);

/* program.c */
extern void infer_program_compile(InferScanState *scan);
/* EXECUTE on every function it calls, for the current user, as the executor itself checks it. */
extern void infer_program_check_privileges(InferScanState *scan);

/* ring.c */
static inline InferRow *
infer_ring_at(const InferScanState *scan, int64 number)
{
	return &scan->rows[number & (scan->size - 1)];
}

/* What the ring needs, in the query's context. */
extern void infer_ring_init(InferScanState *scan);
/* A new row at the tail. */
extern InferRow *infer_ring_push(InferScanState *scan);
/* Gives back all that a row holds, but its place in the ring. */
extern void infer_ring_release(InferScanState *scan, InferRow *row);
/* Frees the places of dropped rows at the head. */
extern void infer_ring_trim(InferScanState *scan);
/* The oldest row is done with; or all are. */
extern void infer_ring_drop_head(InferScanState *scan);
extern void infer_ring_drop_all(InferScanState *scan);
/* Frees all but the oldest row, if that is the one that was returned last. */
extern void infer_ring_drop_ahead(InferScanState *scan);

/* Which constant calls are forgotten: those still on their way always, for a cancelled one is asked
 * by nobody any more; those whose arguments change with a rescan; all. */
typedef enum InferForget
{
	INFER_FORGET_UNDONE,
	INFER_FORGET_CHANGED,
	INFER_FORGET_ALL
} InferForget;

/* Unpins their answers: they are asked anew. */
extern void infer_ring_forget_shared(InferScanState *scan, InferForget what);

/* rows.c */
/* Reads one row of the child and runs it as far as it goes; false at the end of input. */
extern bool infer_rows_read(InferScanState *scan);
/* Takes what has come back and runs rows on; frees dropped rows at the head. */
extern void infer_rows_advance(InferScanState *scan);
/* Is the oldest row complete? */
extern bool infer_rows_head_ready(InferScanState *scan);
/* Fills the scan slot with the oldest row's output; raises its failed calls. */
extern void infer_rows_load_head(InferScanState *scan);

/* demand.c */
extern void infer_demand_start(InferScanState *scan);
/* A row is asked for; it may be the first one of another FETCH. */
extern void infer_demand_renew(InferScanState *scan);
extern void infer_demand_size(InferScanState *scan, const InferEntry *entry);
/* Answers have come: there may be more in flight than before. */
extern void infer_demand_grow(InferScanState *scan);
/* How many more rows may be read now; blocked: the oldest row is not complete. */
extern int64 infer_demand_room(InferScanState *scan, bool blocked);
/* So many of the live rows, from the oldest one, are surely wanted if they pass the filters. */
extern int64 infer_demand_due(const InferScanState *scan);
/* A row was read and stays. */
extern void infer_demand_read(InferScanState *scan, const InferRow *row);
extern void infer_demand_consumed(InferScanState *scan);
/* Does the current ExecutorRun() of this scan's query run it to its end? */
extern bool infer_demand_runs_to_end(const InferScanState *scan);
extern void infer_demand_begun(void); /* a scan was initialised */
/* demand_plan.c: the executor has started; tells the scans below what is wanted of them. */
extern void infer_demand_visit(PlanState *root);

/* explain.c */
extern void infer_scan_explain(CustomScanState *node, List *ancestors, ExplainState *es);

#endif
