/*
 * scan/ring.c - where the rows of an InferScan live: a ring in input order.
 *
 * Rows have numbers that only grow; a row's place is its number modulo the ring's size, a power of
 * two.  Cells and done marks of all rows are two flat arrays beside it.  Tuples and computed values
 * are palloc'd in the row context and freed with their row, so memory follows the window.  A row
 * that a filter dropped gives everything back at once and keeps only its place until it is the
 * oldest.
 *
 * Pins.  A cell that began a call holds a pin on its entry, from begin to the release of the row;
 * constant calls are pinned once, by the scan.
 */
#include "postgres.h"

#include "executor/tuptable.h"
#include "utils/memutils.h"

#include "scan/state.h"

#define FIRST_RING_SIZE 16
/* What an answer is taken to hold before the first one is seen. */
#define FIRST_FLOATS_BYTES (8 * 1024)
#define FIRST_TEXT_BYTES   (1 * 1024)

/* Doubles the ring; rows keep their numbers. */
static void
grow_ring(InferScanState *scan)
{
	int64 size = scan->size > 0 ? scan->size * 2 : FIRST_RING_SIZE;
	InferRow *rows = palloc_extended(sizeof(InferRow) * size, MCXT_ALLOC_HUGE);
	InferCell *cells =
		palloc_extended(sizeof(InferCell) * (size * scan->ncells + 1), MCXT_ALLOC_HUGE);
	bool *done = palloc_extended(sizeof(bool) * (size * scan->nsteps + 1), MCXT_ALLOC_HUGE);

	for (int64 i = 0; i < size; i++)
	{
		rows[i].cells = cells + i * scan->ncells;
		rows[i].done = done + i * scan->nsteps;
	}
	for (int64 n = scan->head; n < scan->tail; n++)
	{
		InferRow *from = infer_ring_at(scan, n);
		InferRow *to = &rows[n & (size - 1)];
		InferCell *to_cells = to->cells;
		bool *to_done = to->done;

		memcpy(to_cells, from->cells, sizeof(InferCell) * scan->ncells);
		memcpy(to_done, from->done, sizeof(bool) * scan->nsteps);
		*to = *from;
		to->cells = to_cells;
		to->done = to_done;
	}
	if (scan->size > 0)
	{
		pfree(scan->rows);
		pfree(scan->cells);
		pfree(scan->done);
	}
	scan->rows = rows;
	scan->cells = cells;
	scan->done = done;
	scan->size = size;
}

void
infer_ring_init(InferScanState *scan)
{
	EState *estate = scan->css.ss.ps.state;

	scan->row_context =
		AllocSetContextCreate(estate->es_query_cxt, "InferScan rows", ALLOCSET_DEFAULT_SIZES);
	scan->child_slot = ExecInitExtraTupleSlot(
		estate, ExecGetResultType(outerPlanState(&scan->css.ss.ps)), &TTSOpsMinimalTuple);
	for (int i = 0; i < scan->ncells; i++)
		if (scan->columns[i].function != NULL)
			scan->answer_bytes += scan->columns[i].function->value == INFER_VALUE_FLOATS
									  ? FIRST_FLOATS_BYTES
									  : FIRST_TEXT_BYTES;
}

/* A new row at the tail. */
InferRow *
infer_ring_push(InferScanState *scan)
{
	InferRow *row;

	if (scan->tail - scan->head == scan->size)
	{
		MemoryContext old = MemoryContextSwitchTo(scan->css.ss.ps.state->es_query_cxt);

		grow_ring(scan);
		MemoryContextSwitchTo(old);
	}
	row = infer_ring_at(scan, scan->tail++);
	row->state = INFER_ROW_RUNNING;
	row->passed = scan->last_filter < 0;
	row->held = false;
	row->first = 0;
	row->npending = 0;
	row->tuple = NULL;
	row->bytes = 0;
	row->call_bytes = 0;
	memset(row->cells, 0, sizeof(InferCell) * scan->ncells);
	memset(row->done, 0, sizeof(bool) * scan->nsteps);
	scan->nlive++;
	scan->nrunning++;
	if (row->passed)
		scan->npassed++;
	scan->max_window = Max(scan->max_window, scan->nlive);
	return row;
}

/* Gives back all that a row holds, but its place in the ring. */
void
infer_ring_release(InferScanState *scan, InferRow *row)
{
	for (int i = 0; i < scan->ncells; i++)
	{
		InferCell *cell = &row->cells[i];

		if (cell->pinned)
			infer_call_unpin(cell->entry);
		else if (cell->state == INFER_CELL_VALUE && !cell->isnull && !scan->columns[i].typbyval)
			pfree(DatumGetPointer(cell->value));
		cell->pinned = false;
		cell->state = INFER_CELL_EMPTY;
	}
	if (row->tuple != NULL)
		pfree(row->tuple);
	row->tuple = NULL;
	if (row->state == INFER_ROW_DROPPED)
		return;
	if (row->state == INFER_ROW_RUNNING)
		scan->nrunning--;
	if (row->passed)
		scan->npassed--;
	scan->nlive--;
	scan->row_bytes -= row->bytes;
	row->state = INFER_ROW_DROPPED;
}

/* Frees dropped rows at the head. */
void
infer_ring_trim(InferScanState *scan)
{
	while (scan->head < scan->tail && infer_ring_at(scan, scan->head)->state == INFER_ROW_DROPPED)
		scan->head++;
}

void
infer_ring_drop_head(InferScanState *scan)
{
	infer_ring_release(scan, infer_ring_at(scan, scan->head++));
}

void
infer_ring_drop_ahead(InferScanState *scan)
{
	while (scan->tail > scan->head + (scan->emitting ? 1 : 0))
		infer_ring_release(scan, infer_ring_at(scan, --scan->tail));
}

void
infer_ring_drop_all(InferScanState *scan)
{
	ExecClearTuple(scan->css.ss.ss_ScanTupleSlot);
	ExecClearTuple(scan->child_slot);
	while (scan->head < scan->tail)
		infer_ring_drop_head(scan);
	MemoryContextReset(scan->row_context);
	scan->row_bytes = 0;
}

void
infer_ring_forget_shared(InferScanState *scan, InferForget what)
{
	for (int i = 0; i < scan->nsteps; i++)
	{
		InferStep *step = &scan->steps[i];
		InferColumn *column;

		if (step->kind != INFER_STEP_CALL || !step->constant)
			continue;
		column = &scan->columns[step->cell];
		if (!column->shared_begun)
			continue;
		if (what == INFER_FORGET_ALL || (what == INFER_FORGET_CHANGED && step->forgotten) ||
			(column->shared != NULL && !infer_call_done(column->shared)))
		{
			if (column->shared != NULL)
				infer_call_unpin(column->shared);
			column->shared = NULL;
			column->shared_begun = false;
		}
	}
}
