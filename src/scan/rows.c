/*
 * scan/rows.c - running the rows of an InferScan, each at its own place of the program (the ring
 * they live in is ring.c's).
 *
 * Running a row.  The steps are tried in order.  One whose inputs are not there yet is passed over,
 * so that independent calls of a row are under way together; but nothing behind a filter is tried
 * before the filter is decided, for a row that a filter excludes makes no call.  Nor is anything
 * behind the last filter where so many rows are before this one that it may not be wanted; they may
 * all pass.  A row that is blocked is tried again when one of its calls has come back, or when
 * enough of the rows before it are dropped.
 *
 * Where a row's tuple is.  The first run happens while the child's slot still holds the tuple;
 * only rows that are not dropped at once are copied.  Later runs and the output read the copy.
 *
 * Errors.  A failed call raises where its value is read.  Rows read ahead never read such a value:
 * a step that needs it waits until its row is the oldest, that is, the one the consumer asks for.
 *
 * Cost.  Nothing here looks at the whole ring per answer unless rows are blocked in mid-program;
 * rows that only wait for answers are looked at when they are the oldest.
 */
#include "postgres.h"

#include "executor/tuptable.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "scan/state.h"

/* Weight of the newest row in the mean of what answers hold. */
#define ANSWER_BYTES_WEIGHT 0.1

/* Puts the first natts columns of the child's tuple into the scan slot. */
static void
load_child(InferScanState *scan, TupleTableSlot *from, int natts)
{
	TupleTableSlot *slot = scan->css.ss.ss_ScanTupleSlot;

	ExecClearTuple(slot);
	if (natts > 0)
	{
		slot_getsomeattrs(from, natts);
		memcpy(slot->tts_values, from->tts_values, sizeof(Datum) * natts);
		memcpy(slot->tts_isnull, from->tts_isnull, sizeof(bool) * natts);
	}
	ExecStoreVirtualTuple(slot);
	scan->css.ss.ps.ps_ExprContext->ecxt_scantuple = slot;
}

static TupleTableSlot *
stored_tuple(InferScanState *scan, InferRow *row)
{
	return ExecStoreMinimalTuple(row->tuple, scan->child_slot, false);
}

/* Puts one computed column into the scan slot. Raises if it is a failed call. */
static void
load_cell(InferScanState *scan, InferRow *row, int i)
{
	TupleTableSlot *slot = scan->css.ss.ss_ScanTupleSlot;
	const InferColumn *column = &scan->columns[i];
	const InferCell *cell = &row->cells[i];
	Datum *value = &slot->tts_values[scan->nchild + i];
	bool *isnull = &slot->tts_isnull[scan->nchild + i];

	switch (cell->state)
	{
		case INFER_CELL_DONE:
			*value = infer_call_result(cell->entry, column->function, column->result_type, isnull);
			break;
		case INFER_CELL_VALUE:
			*value = cell->value;
			*isnull = cell->isnull;
			break;
		default:
			*value = (Datum) 0;
			*isnull = true;
			break;
	}
}

/* Are all inputs of a step there? For the oldest row a failed call counts as there: it raises. */
static bool
is_ready(const InferScanState *scan, const InferRow *row, const InferStep *step, bool oldest)
{
	for (int i = 0; i < step->nneeds; i++)
		if (!row->done[step->needs[i]])
			return false;
	for (int i = 0; i < step->nwaits; i++)
		if (row->cells[step->waits[i]].state == INFER_CELL_PENDING)
			return false;
	for (int i = 0; i < step->nuses; i++)
	{
		const InferCell *cell = &row->cells[step->uses[i]];

		if (cell->state == INFER_CELL_PENDING)
			return false;
		if (cell->state == INFER_CELL_DONE && !oldest &&
			infer_call_raises(cell->entry, scan->columns[step->uses[i]].function))
			return false;
	}
	return true;
}

/* Evaluates the arguments and begins the call. NULL: an argument is NULL. */
static InferEntry *
begin_call(InferScanState *scan, InferStep *step)
{
	ExprContext *econtext = scan->css.ss.ps.ps_ExprContext;
	Datum args[FUNC_MAX_ARGS];
	bool nulls[FUNC_MAX_ARGS];
	InferEntry *entry;

	for (int i = 0; i < step->nargs; i++)
		args[i] = ExecEvalExpr(step->args[i], econtext, &nulls[i]);
	entry = infer_call_begin(scan->client, step->function, args, nulls);
	scan->since_push++;
	if (entry != NULL && !step->sized)
	{
		infer_demand_size(scan, entry);
		step->sized = true;
	}
	return entry;
}

static void
run_call(InferScanState *scan, InferRow *row, InferStep *step)
{
	InferColumn *column = &scan->columns[step->cell];
	InferCell *cell = &row->cells[step->cell];
	InferEntry *entry;

	if (cell->state != INFER_CELL_EMPTY)
		return; /* an equal call of this row is asked already */
	if (step->constant)
	{
		if (!column->shared_begun)
		{
			column->shared = begin_call(scan, step);
			column->shared_begun = true;
		}
		entry = column->shared;
	}
	else
	{
		entry = begin_call(scan, step);
		cell->pinned = entry != NULL;
		if (entry != NULL)
			row->call_bytes += infer_call_bytes(entry);
	}
	if (entry == NULL)
	{
		cell->state = INFER_CELL_VALUE;
		cell->isnull = true;
		return;
	}
	cell->entry = entry;
	cell->state = infer_call_done(entry) ? INFER_CELL_DONE : INFER_CELL_PENDING;
	if (cell->state == INFER_CELL_PENDING)
		row->npending++;
}

static void
run_compute(InferScanState *scan, InferRow *row, InferStep *step)
{
	InferColumn *column = &scan->columns[step->cell];
	InferCell *cell = &row->cells[step->cell];
	bool isnull;
	Datum value;

	if (cell->state != INFER_CELL_EMPTY)
		return;
	value = ExecEvalExpr(step->expr, scan->css.ss.ps.ps_ExprContext, &isnull);
	if (!isnull && !column->typbyval)
	{
		MemoryContext old = MemoryContextSwitchTo(scan->row_context);

		value = datumCopy(value, column->typbyval, column->typlen);
		MemoryContextSwitchTo(old);
	}
	cell->value = value;
	cell->isnull = isnull;
	cell->state = INFER_CELL_VALUE;
}

/* Runs a step that is ready, in the per-tuple context. False: the row is to be dropped. */
static bool
run_step(InferScanState *scan, InferRow *row, InferStep *step)
{
	ExprContext *econtext = scan->css.ss.ps.ps_ExprContext;
	bool isnull;
	Datum value;

	for (int i = 0; i < step->nuses; i++)
		load_cell(scan, row, step->uses[i]);
	for (int i = 0; i < step->nguards; i++)
	{
		value = ExecEvalExpr(step->guards[i], econtext, &isnull);
		if (isnull || !DatumGetBool(value))
			return true;
	}
	switch (step->kind)
	{
		case INFER_STEP_CALL:
			run_call(scan, row, step);
			break;
		case INFER_STEP_COMPUTE:
			run_compute(scan, row, step);
			break;
		case INFER_STEP_FILTER:
			value = ExecEvalExpr(step->expr, econtext, &isnull);
			return !isnull && DatumGetBool(value);
	}
	return true;
}

/*
 * Runs a row as far as it goes.  source holds the child's tuple; NULL: the row's copy is read.
 * before: how many live rows are older.
 */
static void
run_row(InferScanState *scan, InferRow *row, TupleTableSlot *source, int64 before)
{
	bool held = scan->nfilters > 0 && before >= infer_demand_due(scan);
	ExprContext *econtext = scan->css.ss.ps.ps_ExprContext;
	MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	bool loaded = false;
	int blocked = -1;

	for (int i = row->first; i < scan->nsteps; i++)
	{
		InferStep *step = &scan->steps[i];
		bool keep;

		if (row->done[i])
			continue;
		if (!is_ready(scan, row, step, before == 0) || (held && row->passed))
		{
			if (blocked < 0)
				blocked = i;
			if (step->kind == INFER_STEP_FILTER)
				break;
			continue;
		}
		if (!loaded)
			load_child(scan, source != NULL ? source : stored_tuple(scan, row), scan->read_child);
		loaded = true;
		keep = run_step(scan, row, step);
		ResetExprContext(econtext);
		row->done[i] = true;
		if (!keep)
		{
			scan->removed++;
			infer_ring_release(scan, row);
			break;
		}
		if (i == scan->last_filter)
		{
			row->passed = true;
			scan->npassed++;
		}
	}
	MemoryContextSwitchTo(old);
	if (row->state == INFER_ROW_DROPPED)
		return;
	row->held = held && row->passed;
	row->first = blocked >= 0 ? blocked : scan->nsteps;
	if (blocked < 0)
	{
		row->state = INFER_ROW_WAITING;
		scan->nrunning--;
	}
}

/* Notes the answers that have come. False: none. */
static bool
take_answers(InferScanState *scan, InferRow *row)
{
	bool any = false;

	for (int i = 0; row->npending > 0 && i < scan->ncells; i++)
	{
		InferCell *cell = &row->cells[i];

		if (cell->state == INFER_CELL_PENDING && infer_call_done(cell->entry))
		{
			cell->state = INFER_CELL_DONE;
			row->npending--;
			any = true;
		}
	}
	return any;
}

/* Runs a stored row on; counts what its filters decide, for the pass rate. */
static void
rerun_row(InferScanState *scan, InferRow *row, int64 before)
{
	bool passed = row->passed;

	run_row(scan, row, NULL, before);
	if (passed)
		return;
	if (row->state == INFER_ROW_DROPPED)
	{
		scan->decided++;
		infer_demand_consumed(scan);
	}
	else if (row->passed)
	{
		scan->decided++;
		scan->let_pass++;
	}
}

bool
infer_rows_read(InferScanState *scan)
{
	TupleTableSlot *slot = ExecProcNode(outerPlanState(&scan->css.ss.ps));
	InferRow *row;
	MemoryContext old;

	if (TupIsNull(slot))
	{
		scan->child_ended = true;
		return false;
	}
	scan->read++;
	scan->expected--;
	row = infer_ring_push(scan);
	run_row(scan, row, slot, scan->nlive - 1);
	if (row->state == INFER_ROW_DROPPED)
	{
		scan->tail--;
		return true;
	}
	old = MemoryContextSwitchTo(scan->row_context);
	row->tuple = ExecCopySlotMinimalTuple(slot);
	MemoryContextSwitchTo(old);
	row->bytes = sizeof(InferRow) + sizeof(InferCell) * scan->ncells + scan->nsteps +
				 row->tuple->t_len + row->call_bytes;
	scan->row_bytes += row->bytes;
	infer_demand_read(scan, row);
	return true;
}

void
infer_rows_advance(InferScanState *scan)
{
	int64 before = 0;

	infer_ring_trim(scan);
	if (scan->nrunning == 0)
		return;
	for (int64 n = scan->head; n < scan->tail && scan->nrunning > 0; n++)
	{
		InferRow *row = infer_ring_at(scan, n);

		if (row->state == INFER_ROW_RUNNING &&
			(take_answers(scan, row) || (row->held && before < infer_demand_due(scan))))
			rerun_row(scan, row, before);
		if (row->state != INFER_ROW_DROPPED)
			before++;
		infer_ring_trim(scan);
	}
}

bool
infer_rows_head_ready(InferScanState *scan)
{
	for (;;)
	{
		InferRow *row;

		infer_ring_trim(scan);
		if (scan->head == scan->tail)
			return false;
		row = infer_ring_at(scan, scan->head);
		(void) take_answers(scan, row);
		if (row->state == INFER_ROW_RUNNING)
			rerun_row(scan, row, 0);
		if (row->state != INFER_ROW_DROPPED)
			return row->state == INFER_ROW_WAITING && row->npending == 0;
	}
}

/* Learns by how much the answers made a complete row grow. */
static void
note_answer_bytes(InferScanState *scan, InferRow *row)
{
	Size bytes = 0;
	double growth;

	for (int i = 0; i < scan->ncells; i++)
		if (row->cells[i].pinned)
			bytes += infer_call_bytes(row->cells[i].entry);
	growth = bytes > row->call_bytes ? (double) (bytes - row->call_bytes) : 0.0;
	scan->answer_bytes += ANSWER_BYTES_WEIGHT * (growth - scan->answer_bytes);
}

void
infer_rows_load_head(InferScanState *scan)
{
	InferRow *row = infer_ring_at(scan, scan->head);
	MemoryContext old =
		MemoryContextSwitchTo(scan->css.ss.ps.ps_ExprContext->ecxt_per_tuple_memory);

	load_child(scan, stored_tuple(scan, row), scan->emit_child);
	for (int i = 0; i < scan->ncells; i++)
		if (scan->columns[i].emitted)
			load_cell(scan, row, i);
	MemoryContextSwitchTo(old);
	note_answer_bytes(scan, row);
}
