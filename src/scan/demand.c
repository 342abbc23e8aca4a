/*
 * scan/demand.c - how far an InferScan reads ahead.
 *
 * Reading ahead is what makes batches and keeps many calls in flight; it is also what makes calls
 * for rows that nobody fetches.  So a scan learns what its consumer wants from three places:
 *
 * - the plan above it, once, in ExecutorStart: Limits (whose counts are read when the scan starts,
 *   so parameters and rescans count), nodes that take every row, sub-selects of which the first row
 *   may be enough;
 * - ExecutorRun's row count, each time anew: FETCH 5, SELECT INTO, a fetch size of the protocol;
 * - what happens: filters' pass rate, and that the consumer came back for more.
 *
 * A hash join that may find its table empty gets a row at a time until it has one.
 *
 * Who takes every row gets the whole window at once.  Who wants n rows gets n; behind a filter,
 * n divided by the pass rate seen so far (a half to begin with), counting only rows whose filter is
 * still open; a row that passes but may be one too many makes no further call.  Who fetches a third
 * time goes on, be it row by row as PL/pgSQL's loops may do: it gets what it asks for, and once
 * that is less, half as many rows ahead as it has taken.  That is the most that can be called in
 * vain.  Of others nothing is known: the window starts small and doubles each time so many rows are
 * gone (core/ramp.h).  In all cases it ends at twice what may be in flight, except behind an
 * oldest row that keeps complete ones waiting, and at
 * pg_inference.buffer_memory.
 */
#include "postgres.h"

#include <math.h>

#include "executor/executor.h"
#include "miscadmin.h"

#include "pg/guc.h"
#include "scan/state.h"

#define LEAST_MAX_ROWS    1024
#define FIRST_ROWS        64
#define FIRST_ROWS_FILTER 4
/* Dropped rows behind a slow oldest one keep their places: the ring's span is so many windows. */
#define SPAN_WINDOWS 4
/* With fewer calls than rows, the window has at most so many times the rows. */
#define MAX_STRETCH 64
#define NO_RUN      PG_UINT64_MAX
/* The planner may expect more rows than there are numbers. */
#define MOST_EXPECTED 1e15
/* After so many fetches a consumer may have what it came for; then it goes on. */
#define RUNS_TO_STOP 2
/* The pass rate starts as if so many rows had been seen, half of them passing. */
#define RATE_PRIOR 8.0

/* The ExecutorRun() that is going on, innermost; they are numbered, 0 is none. */
static EState *run_estate;
static uint64 run_count;
static uint64 run_number;
static uint64 last_run;

static uint64 scans_begun;
static ExecutorStart_hook_type previous_start;
static ExecutorRun_hook_type previous_run;

void
infer_demand_begun(void)
{
	scans_begun++;
}

bool
infer_demand_runs_to_end(const InferScanState *scan)
{
	return run_estate == scan->css.ss.ps.state && run_count == 0;
}

/*
 * How many rows the limits above take, PG_INT64_MAX if they set no bound.  surely: as a promise,
 * for which they must count one for one; WITH TIES promises nothing, and looks at the row after the
 * last.
 */
static int64
rows_of_limits(const InferDemand *demand, bool surely)
{
	const LimitState *limit;
	bool with_ties;
	int64 rows;

	if (demand->limit == NULL || (surely && !demand->exact))
		return PG_INT64_MAX;
	limit = demand->limit->state;
	with_ties = limit->limitOption == LIMIT_OPTION_WITH_TIES;
	rows = rows_of_limits(&demand->limit->above, surely);
	if (!limit->noCount && !(with_ties && surely))
		rows = Min(rows, with_ties ? Min(limit->count, PG_INT64_MAX - 1) + 1 : limit->count);
	return rows > PG_INT64_MAX - limit->offset ? PG_INT64_MAX : rows + limit->offset;
}

/* Rows that the limits above skip before any other consumer gets one. */
static int64
rows_skipped(const InferDemand *demand)
{
	int64 skipped = 0;

	for (; demand->limit != NULL; demand = &demand->limit->above)
		skipped += Min(demand->limit->state->offset, PG_INT64_MAX - skipped);
	return skipped;
}

/* The kind of consumer behind all limits. */
static InferDemandKind
consumer_kind(const InferDemand *demand)
{
	while (demand->limit != NULL)
		demand = &demand->limit->above;
	return demand->kind;
}

/* At the first row of a (re)scan. */
void
infer_demand_start(InferScanState *scan)
{
	scan->most = rows_of_limits(&scan->demand, true);
	scan->consumed = 0;
	scan->emitted = 0;
	scan->sized = false;
	for (int i = 0; i < scan->nsteps; i++)
		scan->steps[i].sized = false;
	scan->wave = 0;
	scan->allowance = 0;
	scan->decided_before = scan->decided;
	scan->expected = (int64) Min(outerPlanState(&scan->css.ss.ps)->plan->plan_rows, MOST_EXPECTED);
	scan->run = NO_RUN;
	scan->runs = 0;
	infer_demand_renew(scan);
	infer_ramp_init(&scan->window, scan->wanted > 0 ? scan->wanted : FIRST_ROWS, LEAST_MAX_ROWS);
}

/* What is wanted, as far as plan and ExecutorRun() say: fixed for as long as the latter runs. */
void
infer_demand_renew(InferScanState *scan)
{
	InferDemandKind kind;
	int64 limit;
	int64 more = 0;

	if (scan->run == run_number)
		return;
	scan->run = run_number;
	scan->runs++;
	kind = consumer_kind(&scan->demand);
	limit = rows_of_limits(&scan->demand, false);
	scan->takes_all = kind == INFER_DEMAND_ALL;
	if (kind == INFER_DEMAND_RUN && run_estate == scan->css.ss.ps.state)
	{
		scan->takes_all = run_count == 0;
		if (run_count > 0)
			more = (int64) Min(run_count, (uint64) PG_INT64_MAX);
		if (more > 0 && scan->runs > RUNS_TO_STOP)
			more = Max(more, scan->emitted / 2);
	}
	if (scan->demand.one_row)
		more = 1;
	if (more > 0 || limit < PG_INT64_MAX)
		scan->takes_all = false;
	if (more > 0)
	{
		int64 behind = Max(scan->emitted, rows_skipped(&scan->demand));

		limit = Min(limit, behind + Min(more, PG_INT64_MAX - behind));
	}
	scan->wanted = limit < PG_INT64_MAX ? limit : 0;
	if (scan->takes_all && scan->sized)
		infer_ramp_init(&scan->window, scan->window.max, scan->window.max);
}

/* Twice what may be in flight: what is sent, and as much to follow it. */
static int64
most_rows(const InferScanState *scan)
{
	return Max(infer_client_capacity(scan->client) * 2, LEAST_MAX_ROWS);
}

/* More may be in flight than when the window was sized: it must not be what holds that back. */
void
infer_demand_grow(InferScanState *scan)
{
	int64 most = most_rows(scan);

	if (!scan->sized || most <= scan->window.max)
		return;
	infer_ramp_init(&scan->window, scan->takes_all ? most : scan->window.rows, most);
}

/*
 * At the first call of each step: the window in terms of its batches and of what may be in flight.
 * The step with the largest batches decides.
 */
void
infer_demand_size(InferScanState *scan, const InferEntry *entry)
{
	int64 batch = infer_call_batch_items(entry);
	int64 most = most_rows(scan);
	int64 first;

	if (scan->sized && most <= scan->window.max)
		return;
	if (scan->takes_all)
		first = most;
	else if (scan->sized)
		first = scan->window.rows;
	else if (scan->wanted > 0)
		first = scan->wanted;
	else if (scan->nfilters > 0)
		first = Max(batch, FIRST_ROWS_FILTER);
	else
		first = Max(batch * 2, FIRST_ROWS);
	infer_ramp_init(&scan->window, first, most);
	scan->sized = true;
}

void
infer_demand_read(InferScanState *scan, const InferRow *row)
{
	if (!row->passed)
		scan->allowance--;
}

void
infer_demand_consumed(InferScanState *scan)
{
	if (++scan->consumed < scan->window.rows)
		return;
	scan->consumed = 0;
	infer_ramp_grow(&scan->window);
}

/* Has a hash join above still to find out whether there is anything to join the rows to? */
static bool
awaits_hash_table(const InferDemand *demand)
{
	for (const InferHashJoin *join = demand->hash_join; join != NULL; join = join->above)
		if (join->state->hj_HashTable == NULL)
			return true;
	return false;
}

/*
 * What is wanted for now.  Where one row may be enough, as for a hash join that has no table yet,
 * it is that row; should more be asked for, half as many as have gone are read ahead, lest they
 * come one by one.
 */
static int64
wanted_now(const InferScanState *scan)
{
	int64 next = scan->emitted + Max(scan->emitted / 2, 1);

	if (!scan->demand.one_row && !awaits_hash_table(&scan->demand))
		return scan->wanted;
	return scan->wanted > scan->emitted ? Min(scan->wanted, next) : next;
}

int64
infer_demand_due(const InferScanState *scan)
{
	int64 wanted = wanted_now(scan);

	return wanted > scan->emitted ? wanted - scan->emitted : PG_INT64_MAX;
}

/*
 * Rows to read until what is wanted should be among them.  Behind a filter they come in waves, the
 * next one when three quarters of the last are decided: the first few answers say little, and each
 * row read too much is a call too much.  Most sub-selects of which one row is enough have few: they
 * are read a row at a time to begin with.
 */
static int64
room_for_wanted(InferScanState *scan, int64 wanted)
{
	int64 missing = wanted - scan->emitted - scan->npassed;
	int64 undecided = scan->nlive - scan->npassed;
	int64 most;
	double rate;

	if (missing <= 0 || scan->nfilters == 0)
		return missing;
	if (scan->allowance <= 0 && undecided * 4 <= scan->wave)
	{
		rate = (scan->let_pass + RATE_PRIOR / 2) / (scan->decided + RATE_PRIOR);
		most = scan->window.max;
		/* the second row only if the first was not it, and on with half as many as were not */
		if (scan->demand.one_row || wanted != scan->wanted)
			most = Min(most, Max((scan->decided - scan->decided_before) / 2, 1));
		scan->wave = (int64) Min(rint(missing / rate), (double) most);
		scan->allowance = scan->wave - undecided;
	}
	return scan->allowance;
}

/*
 * The window is meant in calls.  Where few rows make one (guards, NULLs, equal inputs), a consumer
 * that takes all gets so many more rows, or the server would idle.
 */
static int64
stretch(const InferScanState *scan)
{
	int64 asked;

	if (!scan->takes_all || scan->read < FIRST_ROWS || scan->client == NULL)
		return 1;
	asked = infer_client_stats(scan->client)->asked;
	return Max(1, Min(scan->read / Max(asked, 1), MAX_STRETCH));
}

/*
 * Complete rows behind an oldest one that is not fill the window, and the server would idle: a
 * refused request waits for seconds, in which thousands of others are answered.  Then who takes all
 * gets what could be sent at once.  What that costs is memory, which the budget bounds.
 */
static int64
room_for_hungry(const InferScanState *scan)
{
	return scan->takes_all && scan->sized ? infer_client_hunger(scan->client) : 0;
}

int64
infer_demand_room(InferScanState *scan, bool blocked)
{
	int64 wanted = wanted_now(scan);
	int64 room;
	int64 factor;

	if (!infer_guc_enable)
		return 1 - scan->nlive;
	if (scan->nlive > 0 && scan->row_bytes + scan->nlive * scan->answer_bytes >= scan->budget)
		return 0;
	factor = stretch(scan);
	if (wanted > scan->emitted)
		room = Min(room_for_wanted(scan, wanted), scan->window.max - scan->nlive);
	else
	{
		room = scan->window.rows * factor - scan->nlive;
		if (room <= 0 && blocked)
		{
			room = room_for_hungry(scan);
			factor = MAX_STRETCH;
		}
	}
	room = Min(room, scan->most - scan->emitted - scan->npassed);
	return Min(room, scan->window.max * factor * SPAN_WINDOWS - (scan->tail - scan->head));
}

static void
start_executor(QueryDesc *query, int eflags)
{
	if (previous_start)
		previous_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
}

/* For EXPLAIN: partitions may be pruned by the value of a call, which is not asked for here. */
static void
start_explain(QueryDesc *query, int eflags)
{
	InferPlanning before = infer_planning_begin();

	PG_TRY();
	{
		start_executor(query, eflags);
	}
	PG_FINALLY();
	{
		infer_planning_end(before);
	}
	PG_END_TRY();
}

static void
demand_executor_start(QueryDesc *query, int eflags)
{
	uint64 before = scans_begun;

	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) != 0)
	{
		start_explain(query, eflags);
		return;
	}
	start_executor(query, eflags);
	if (scans_begun != before)
		infer_demand_visit(query->planstate);
}

/* 18 (commit 3eea7a0c97e9) dropped execute_once. */
#if PG_VERSION_NUM >= 180000
#define RUN_ARGS QueryDesc *query, ScanDirection direction, uint64 count
#define RUN_PASS query, direction, count
#else
#define RUN_ARGS QueryDesc *query, ScanDirection direction, uint64 count, bool execute_once
#define RUN_PASS query, direction, count, execute_once
#endif

static void
demand_executor_run(RUN_ARGS)
{
	EState *outer_estate = run_estate;
	uint64 outer_count = run_count;
	uint64 outer_number = run_number;

	run_estate = query->estate;
	run_count = count;
	run_number = ++last_run;
	PG_TRY();
	{
		if (previous_run)
			previous_run(RUN_PASS);
		else
			standard_ExecutorRun(RUN_PASS);
	}
	PG_FINALLY();
	{
		run_estate = outer_estate;
		run_count = outer_count;
		run_number = outer_number;
	}
	PG_END_TRY();
}

void
infer_demand_init(void)
{
	previous_start = ExecutorStart_hook;
	ExecutorStart_hook = demand_executor_start;
	previous_run = ExecutorRun_hook;
	ExecutorRun_hook = demand_executor_run;
}
