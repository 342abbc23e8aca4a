/*
 * api/queue.c - what infer.stat_queue shows: who waits for a permit, or for its node.
 *
 * A process that needs both is shown in the line that it waits in.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "api/rows.h"
#include "pg/clock.h"
#include "pg/datum.h"
#include "shmem/admission.h"
#include "shmem/nodes.h"

PG_FUNCTION_INFO_V1(infer_stat_queue);

/* Columns of infer_stat_queue(), in order. */
enum
{
	COL_PID,
	COL_DATABASE,
	COL_ROLE,
	COL_KEY,
	COL_NODE,
	COL_POSITION,
	COL_PRIORITY,
	COL_DURATION,
	COL_WANTED,
	COL_SINCE,
	COL_DEADLINE,
	COL_COUNT
};

static const char *const priorities[] = {
	[INFER_PRIORITY_VLOW] = "VLOW",     [INFER_PRIORITY_LOW] = "LOW",
	[INFER_PRIORITY_NORMAL] = "NORMAL", [INFER_PRIORITY_HIGH] = "HIGH",
	[INFER_PRIORITY_VHIGH] = "VHIGH",
};
static const char *const durations[] = {
	[INFER_DURATION_SHORT] = "SHORT",
	[INFER_DURATION_MEDIUM] = "MEDIUM",
	[INFER_DURATION_LONG] = "LONG",
	[INFER_DURATION_EPIC] = "EPIC",
};

/* Waiters of one line, read under its lock; the array grows to the longest. */
typedef struct Line
{
	InferWaiter *waiters;
	int size;
	int n; /* -1 = there is no such line, nor one after it */
	char name[Max(INFER_ADMISSION_KEY_MAX, INFER_DISPATCH_LABEL)];
} Line;

static bool
read_line(Line *line, int i, int (*read)(int i, InferWaiter *waiters, int size, char *name))
{
	while ((line->n = read(i, line->waiters, line->size, line->name)) > line->size)
	{
		line->size = line->n + 16; /* others may join meanwhile */
		line->waiters = repalloc(line->waiters, sizeof(InferWaiter) * line->size);
	}
	return line->n >= 0;
}

static void
put_line(ReturnSetInfo *rsinfo, const Line *line, int name_column)
{
	TimestampTz now = GetCurrentTimestamp();
	int64 now_us = infer_now_us();

	for (int i = 0; i < line->n; i++)
	{
		const InferWaiter *waiter = &line->waiters[i];
		Datum values[COL_COUNT];
		bool nulls[COL_COUNT] = {false};

		if (!infer_rows_may_see(waiter->role))
			continue;
		values[COL_PID] = Int32GetDatum(waiter->pid);
		values[COL_DATABASE] = ObjectIdGetDatum(waiter->database);
		values[COL_ROLE] = ObjectIdGetDatum(waiter->role);
		nulls[COL_KEY] = nulls[COL_NODE] = true;
		nulls[name_column] = false;
		values[name_column] = infer_text_datum(line->name);
		values[COL_POSITION] = Int32GetDatum(i + 1);
		values[COL_PRIORITY] = CStringGetTextDatum(priorities[waiter->priority]);
		nulls[COL_DURATION] = waiter->duration == 0; /* not told */
		if (!nulls[COL_DURATION])
			values[COL_DURATION] = CStringGetTextDatum(durations[waiter->duration]);
		values[COL_WANTED] = Int32GetDatum(waiter->wanted);
		values[COL_SINCE] = TimestampTzGetDatum(now - (now_us - waiter->since_us));
		nulls[COL_DEADLINE] = waiter->deadline_us == 0;
		values[COL_DEADLINE] = TimestampTzGetDatum(now + (waiter->deadline_us - now_us));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
}

Datum
infer_stat_queue(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Line line = {.waiters = palloc(sizeof(InferWaiter) * 64), .size = 64};

	infer_rows_begin(fcinfo, "infer_stat_queue", COL_COUNT);
	for (int i = 0; read_line(&line, i, infer_admission_waiters); i++)
		put_line(rsinfo, &line, COL_KEY);
	for (int i = 0; read_line(&line, i, infer_nodes_waiters); i++)
		put_line(rsinfo, &line, COL_NODE);
	return (Datum) 0;
}
