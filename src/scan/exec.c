/*
 * scan/exec.c - InferScan's executor methods.
 *
 * Each call of ExecCustomScan returns one row, in input order, and in doing so keeps the others
 * moving:
 *
 *     free the row returned last
 *     while true:
 *         room in the window?        read rows; each runs as far as it goes, its calls begin
 *         oldest row complete?       return it
 *         nothing left?              end
 *         else                       send what is open, sleep until something comes back
 *
 * The window rolls: it is topped up as rows leave it, never drained first.  A row that can be
 * returned is never kept waiting for the network.  While rows are read and returned the client is
 * pushed every few rows (and every millisecond of reading), so that full batches leave and answers
 * come in.
 *
 * Promises: no row is seen twice or out of order; no call for a row that a filter, a guard or an
 * exact LIMIT excludes; nothing at all happens before the first row is asked for, so EXPLAIN and
 * scans that are never executed touch no network; a failed call raises when its row is due.
 *
 * Not kept: the child's slot.  Not supported: going backwards, mark and restore.  After an ERROR
 * nothing here is called; the client gives everything back through its resource owner.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "utils/memutils.h"

#include "pg/guc.h"
#include "scan/state.h"

/* Rows read in one go before the oldest row is looked at again. */
#define READ_ROWS 64
/* With a complete row at hand, reading starts only for so many rows. */
#define TOP_UP_ROWS 8
/* Rows begun or returned between two pushes, and the longest time of reading without one. */
#define PUSH_ROWS        16
#define PUSH_INTERVAL_US 1000

static Node *create_state(CustomScan *plan);
static void begin_scan(CustomScanState *node, EState *estate, int eflags);
static TupleTableSlot *exec_scan(CustomScanState *node);
static void end_scan(CustomScanState *node);
static void rescan(CustomScanState *node);
static void shutdown_scan(CustomScanState *node);

const CustomScanMethods infer_scan_methods = {
	.CustomName = "InferScan",
	.CreateCustomScanState = create_state,
};

static const CustomExecMethods exec_methods = {
	.CustomName = "InferScan",
	.BeginCustomScan = begin_scan,
	.ExecCustomScan = exec_scan,
	.EndCustomScan = end_scan,
	.ReScanCustomScan = rescan,
	.ShutdownCustomScan = shutdown_scan,
	.ExplainCustomScan = infer_scan_explain,
};

static Node *
create_state(CustomScan *plan)
{
	InferScanState *scan = palloc0(sizeof(InferScanState));

	NodeSetTag(scan, T_CustomScanState);
	scan->css.methods = &exec_methods;
	return (Node *) scan;
}

bool
infer_scan_is(PlanState *state)
{
	return IsA(state, CustomScanState) && ((CustomScanState *) state)->methods == &exec_methods;
}

/*
 * The scan slot and the projection are made already, from custom_scan_tlist and the targetlist;
 * both know nothing but scan tuple columns.
 */
static void
begin_scan(CustomScanState *node, EState *estate, int eflags)
{
	InferScanState *scan = (InferScanState *) node;

	Assert((eflags & (EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK)) == 0);
	Assert(node->ss.ps.qual == NULL);
	outerPlanState(node) = ExecInitNode(outerPlan(node->ss.ps.plan), estate, eflags);
	infer_program_compile(scan);
	infer_program_check_privileges(scan);
	infer_ring_init(scan);
	scan->budget = (Size) infer_guc_buffer_memory * 1024;
	infer_demand_begun();
}

static void
start_scan(InferScanState *scan)
{
	if (scan->client == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(scan->css.ss.ps.state->es_query_cxt);

		scan->client = infer_client_open();
		MemoryContextSwitchTo(old);
	}
	infer_demand_start(scan);
	scan->started = true;
}

/* Will no further call be begun? */
static bool
input_ended(const InferScanState *scan)
{
	return scan->child_ended && scan->nrunning == 0;
}

/* Takes answers and sends what may leave. */
static void
push(InferScanState *scan, bool starved)
{
	scan->since_push = 0;
	infer_client_expect(scan->client, scan->takes_all ? scan->expected : 0);
	infer_client_push(scan->client, starved, input_ended(scan));
	infer_client_show(scan->client, scan->emitted);
	infer_demand_grow(scan);
	infer_rows_advance(scan);
}

/* Reads a handful of rows, if there is room for them. False: there was none. */
static bool
read_rows(InferScanState *scan, bool head_ready)
{
	int64 room = scan->child_ended ? 0 : infer_demand_room(scan, !head_ready);
	instr_time start;
	instr_time now;

	if (room <= 0 || (head_ready && room < TOP_UP_ROWS))
		return false;
	INSTR_TIME_SET_CURRENT(start);
	for (int i = 0; i < READ_ROWS && infer_demand_room(scan, !head_ready) > 0; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!infer_rows_read(scan))
			break;
		INSTR_TIME_SET_CURRENT(now);
		INSTR_TIME_SUBTRACT(now, start);
		if (scan->since_push >= PUSH_ROWS ||
			(scan->since_push > 0 && INSTR_TIME_GET_MICROSEC(now) >= PUSH_INTERVAL_US))
		{
			push(scan, false);
			INSTR_TIME_SET_CURRENT(start);
		}
	}
	if (scan->child_ended)
		push(scan, false); /* the last batches need not wait until the oldest row does */
	return true;
}

/* Nothing can be read and the oldest row is not complete: waits until something changes. */
static void
wait_for_answers(InferScanState *scan)
{
	push(scan, true);
	if (infer_rows_head_ready(scan) || (!scan->child_ended && infer_demand_room(scan, true) > 0))
		return;
	/* what is left sits in batches that wait for input, which cannot come before they leave */
	if (infer_client_idle(scan->client))
		infer_client_push(scan->client, true, true);
	else
		infer_client_wait(scan->client);
}

static void
forget_returned_row(InferScanState *scan)
{
	if (!scan->emitting)
		return;
	scan->emitting = false;
	infer_ring_drop_head(scan);
	infer_demand_consumed(scan);
}

/* The consumer takes no further row: gives back what was read ahead for it. */
static void
finish_scan(InferScanState *scan)
{
	scan->over = true;
	if (scan->client == NULL)
		return;
	/* first the rows: a pinned entry that is cancelled would be asked again */
	infer_ring_drop_ahead(scan);
	infer_ring_forget_shared(scan, INFER_FORGET_UNDONE);
	infer_client_cancel(scan->client);
}

static TupleTableSlot *
return_head(InferScanState *scan)
{
	PlanState *state = &scan->css.ss.ps;

	if (++scan->since_push >= PUSH_ROWS)
		push(scan, false);
	infer_rows_load_head(scan);
	scan->emitting = true;
	scan->emitted++;
	if (scan->emitted >= scan->most)
		finish_scan(scan);
	if (state->ps_ProjInfo != NULL)
		return ExecProject(state->ps_ProjInfo);
	return scan->css.ss.ss_ScanTupleSlot;
}

/*
 * Not ExecScan(): that would only call a recheck method in an EvalPlanQual tree, where there is no
 * scan relation.  There the child returns one row and then none, which is all this needs.
 */
static TupleTableSlot *
exec_scan(CustomScanState *node)
{
	InferScanState *scan = (InferScanState *) node;

	forget_returned_row(scan);
	ResetExprContext(node->ss.ps.ps_ExprContext);
	if (scan->over)
		return NULL;
	if (!scan->started)
		start_scan(scan);
	infer_demand_renew(scan);
	for (;;)
	{
		bool ready;
		bool has_read;

		CHECK_FOR_INTERRUPTS();
		ready = infer_rows_head_ready(scan);
		has_read = read_rows(scan, ready);
		if (ready)
			return return_head(scan);
		if (has_read)
			continue;
		if (scan->child_ended && scan->head == scan->tail)
			break;
		wait_for_answers(scan);
	}
	finish_scan(scan);
	return NULL;
}

/* Everything that was read ahead goes; what the statement memo holds stays. */
static void
reset_scan(InferScanState *scan)
{
	infer_ring_drop_all(scan);
	scan->emitting = false;
	if (scan->client != NULL)
		infer_client_cancel(scan->client);
}

static void
rescan(CustomScanState *node)
{
	InferScanState *scan = (InferScanState *) node;

	reset_scan(scan);
	infer_ring_forget_shared(scan, INFER_FORGET_CHANGED);
	scan->started = false;
	scan->child_ended = false;
	scan->over = false;
	scan->since_push = 0;
	if (outerPlanState(node)->chgParam == NULL)
		ExecReScan(outerPlanState(node));
}

/*
 * Called after each ExecutorRun(), so also between two FETCHes, and before data-modifying CTEs that
 * were not read are run to their end.  Only a scan of the main tree in a run without a row count is
 * surely over.
 */
static void
shutdown_scan(CustomScanState *node)
{
	InferScanState *scan = (InferScanState *) node;

	if (scan->started && scan->demand.main_tree && infer_demand_runs_to_end(scan))
		finish_scan(scan);
}

static void
end_scan(CustomScanState *node)
{
	InferScanState *scan = (InferScanState *) node;

	reset_scan(scan);
	infer_ring_forget_shared(scan, INFER_FORGET_ALL);
	if (scan->client != NULL)
		infer_client_close(scan->client);
	scan->client = NULL;
	ExecEndNode(outerPlanState(node));
}
