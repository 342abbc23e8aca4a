/*
 * scan/program.c - from the plan node to a compiled program.
 *
 * Reads what the rewrite left (scan/plan.h), compiles every expression with the scan as parent, and
 * notes for each step which computed columns it reads and which earlier steps compute those: a step
 * may run as soon as they are behind it, whatever else is still on its way.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/objectaccess.h"
#include "miscadmin.h"
#include "nodes/bitmapset.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"

#include "pg/compat.h"
#include "registry/functions.h"
#include "scan/plan.h"
#include "scan/state.h"

/* Scan tuple columns (from 1) that an expression reads; a whole-row reference reads all. */
static Bitmapset *
columns_read(const InferScanState *scan, Node *node)
{
	Bitmapset *attnos = NULL;
	Bitmapset *columns = NULL;
	int x = -1;

	pull_varattnos(node, INDEX_VAR, &attnos);
	while ((x = bms_next_member(attnos, x)) >= 0)
	{
		int attno = x + FirstLowInvalidHeapAttributeNumber;

		if (attno > 0)
			columns = bms_add_member(columns, attno);
		else
			columns = bms_add_range(columns, 1, scan->nchild + scan->ncells);
	}
	bms_free(attnos);
	return columns;
}

/* Notes what step number n reads. */
static void
find_dependencies(InferScanState *scan, int n, Node *exprs)
{
	InferStep *step = &scan->steps[n];
	Bitmapset *columns = columns_read(scan, exprs);
	int x = -1;

	step->uses = palloc(sizeof(int) * (scan->ncells + 1));
	step->needs = palloc(sizeof(int) * (n + 1));
	while ((x = bms_next_member(columns, x)) >= 0)
	{
		if (x <= scan->nchild)
			scan->read_child = Max(scan->read_child, x);
		else
			step->uses[step->nuses++] = x - scan->nchild - 1;
	}
	for (int i = 0; i < n; i++)
	{
		int cell = scan->steps[i].cell;

		if (cell >= 0 && (bms_is_member(cell + scan->nchild + 1, columns) ||
						  (step->kind == INFER_STEP_COMPUTE && cell == step->cell)))
			step->needs[step->nneeds++] = i;
	}
	bms_free(columns);
}

/* Does a step, or the output, read this cell? */
static bool
is_read(const InferScanState *scan, int cell)
{
	if (scan->columns[cell].emitted)
		return true;
	for (int n = 0; n < scan->nsteps; n++)
		for (int i = 0; i < scan->steps[n].nuses; i++)
			if (scan->steps[n].uses[i] == cell)
				return true;
	return false;
}

/*
 * A call that nobody reads was made ahead for a sub-plan, which will find its answer, or its error,
 * in the statement memo (hoist.c).  The step with the sub-plan waits for it, but must not raise.
 */
static void
find_waits(InferScanState *scan, int n)
{
	InferStep *step = &scan->steps[n];

	step->waits = palloc(sizeof(int) * (n + 1));
	for (int i = 0; i < n; i++)
	{
		if (scan->steps[i].kind != INFER_STEP_CALL || is_read(scan, scan->steps[i].cell))
			continue;
		step->waits[step->nwaits++] = scan->steps[i].cell;
		step->needs[step->nneeds++] = i;
	}
}

static ExprState **
compile_list(InferScanState *scan, List *exprs, int *count)
{
	ExprState **states = palloc(sizeof(ExprState *) * (list_length(exprs) + 1));
	ListCell *lc;

	*count = 0;
	foreach (lc, exprs)
		states[(*count)++] = ExecInitExpr(lfirst(lc), &scan->css.ss.ps);
	return states;
}

static void
compile_call(InferScanState *scan, InferStep *step, FuncExpr *call, int constant)
{
	InferColumn *column = &scan->columns[step->cell];

	step->function = infer_function_lookup(call->funcid);
	if (step->function == NULL)
		elog(ERROR, "function with OID %u is not a remote call", call->funcid);
	if (list_length(call->args) != step->function->nargs)
		elog(ERROR, "function with OID %u has %d arguments, not %d", call->funcid,
			 list_length(call->args), step->function->nargs);
	step->args = compile_list(scan, call->args, &step->nargs);
	step->constant = constant != 0;
	step->forgotten = constant == 2;
	column->function = step->function;
	column->result_type = call->funcresulttype;
	scan->ncalls++;
}

static void
compile_step(InferScanState *scan, int n, InferStepKind kind, int column, int constant, List *exprs)
{
	InferStep *step = &scan->steps[n];
	Expr *expr = linitial(exprs);

	step->kind = kind;
	step->cell = column > 0 ? column - scan->nchild - 1 : -1;
	if (kind == INFER_STEP_FILTER ? step->cell >= 0 : step->cell < 0 || step->cell >= scan->ncells)
		elog(ERROR, "step %d of an InferScan computes column %d", n, column);
	if (kind == INFER_STEP_CALL)
		compile_call(scan, step, castNode(FuncExpr, expr), constant);
	else
		step->expr = ExecInitExpr(expr, &scan->css.ss.ps);
	if (kind == INFER_STEP_COMPUTE)
		get_typlenbyval(exprType((Node *) expr), &scan->columns[step->cell].typlen,
						&scan->columns[step->cell].typbyval);
	if (kind == INFER_STEP_FILTER)
	{
		scan->nfilters++;
		scan->last_filter = n;
	}
	step->guards = compile_list(scan, list_copy_tail(exprs, 1), &step->nguards);
	find_dependencies(scan, n, (Node *) exprs);
}

/* What the output reads: all columns if there is no projection. */
static void
find_output(InferScanState *scan)
{
	Bitmapset *columns;

	if (scan->css.ss.ps.ps_ProjInfo == NULL)
		columns = bms_add_range(NULL, 1, scan->nchild + scan->ncells);
	else
		columns = columns_read(scan, (Node *) scan->css.ss.ps.plan->targetlist);
	for (int i = 1; i <= scan->nchild; i++)
		if (bms_is_member(i, columns))
			scan->emit_child = i;
	for (int i = 0; i < scan->ncells; i++)
		scan->columns[i].emitted = bms_is_member(scan->nchild + 1 + i, columns);
	bms_free(columns);
}

void
infer_program_compile(InferScanState *scan)
{
	CustomScan *plan = castNode(CustomScan, scan->css.ss.ps.plan);
	List *private = plan->custom_private;
	List *kinds;
	List *columns;
	List *constants;
	int n = 0;
	ListCell *lc;

	if (list_length(private) != INFER_PRIVATE_COUNT)
		elog(ERROR, "an InferScan has %d private members, not %d", list_length(private),
			 INFER_PRIVATE_COUNT);
	kinds = list_nth(private, INFER_PRIVATE_KINDS);
	columns = list_nth(private, INFER_PRIVATE_COLUMNS);
	constants = list_nth(private, INFER_PRIVATE_CONSTANT);
	scan->nchild = linitial_int((List *) list_nth(private, INFER_PRIVATE_NCHILD));
	scan->demand.one_row =
		(linitial_int((List *) list_nth(private, INFER_PRIVATE_HINTS)) & INFER_HINT_ONE_ROW) != 0;
	scan->ncells = list_length(plan->custom_scan_tlist) - scan->nchild;
	scan->nsteps = list_length(plan->custom_exprs);
	if (scan->ncells < 0 || list_length(kinds) != scan->nsteps ||
		list_length(columns) != scan->nsteps || list_length(constants) != scan->nsteps)
		elog(ERROR, "the program of an InferScan does not fit its columns");
	scan->steps = palloc0(sizeof(InferStep) * (scan->nsteps + 1));
	scan->columns = palloc0(sizeof(InferColumn) * (scan->ncells + 1));
	scan->last_filter = -1;
	foreach (lc, plan->custom_exprs)
	{
		compile_step(scan, n, list_nth_int(kinds, n), list_nth_int(columns, n),
					 list_nth_int(constants, n), lfirst(lc));
		n++;
	}
	find_output(scan);
	n = 0;
	foreach (lc, plan->custom_exprs)
	{
		if (contain_subplans(lfirst(lc)))
			find_waits(scan, n);
		n++;
	}
}

void
infer_program_check_privileges(InferScanState *scan)
{
	CustomScan *plan = castNode(CustomScan, scan->css.ss.ps.plan);
	int n = 0;
	ListCell *lc;

	foreach (lc, plan->custom_exprs)
	{
		Oid funcid;
		AclResult result;

		if (scan->steps[n++].kind != INFER_STEP_CALL)
			continue;
		funcid = castNode(FuncExpr, linitial((List *) lfirst(lc)))->funcid;
		result = infer_function_aclcheck(funcid, GetUserId());
		if (result != ACLCHECK_OK)
			aclcheck_error(result, OBJECT_FUNCTION, get_func_name(funcid));
		InvokeFunctionExecuteHook(funcid);
	}
}
