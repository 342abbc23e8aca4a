/*
 * scan/explain.c - what EXPLAIN says of an InferScan.
 *
 * One line per step in execution order; with ANALYZE, what its client counted.  TEXT packs the
 * figures into a few lines and leaves out groups that are all zero; the other formats give each
 * figure a property of its own, always.  Figures are totals over all loops.
 */
#include "postgres.h"

#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "lib/stringinfo.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "utils/ruleutils.h"

#include "scan/state.h"

static const char *const step_labels[] = {
	[INFER_STEP_CALL] = "Call",
	[INFER_STEP_COMPUTE] = "Compute",
	[INFER_STEP_FILTER] = "Filter",
};

/* Requests given up before their answer came, by what is proved about them. */
static const char *const abandoned_labels[] = {
	[INFER_NOT_ADMITTED] = "Abandoned Not Admitted",
	[INFER_MAYBE_EXECUTED] = "Abandoned Maybe Executed",
	[INFER_EXECUTED] = "Abandoned Executed",
};

/* "f(x) when guard", in SQL. */
static char *
deparse_step(List *exprs, List *context, bool useprefix)
{
	StringInfoData text;
	List *guards = list_copy_tail(exprs, 1);

	initStringInfo(&text);
	appendStringInfoString(&text, deparse_expression(linitial(exprs), context, useprefix, false));
	if (guards != NIL)
		appendStringInfo(
			&text, " when %s",
			deparse_expression((Node *) make_ands_explicit(guards), context, useprefix, false));
	return text.data;
}

static void
explain_steps(InferScanState *scan, List *ancestors, ExplainState *es)
{
	CustomScan *plan = castNode(CustomScan, scan->css.ss.ps.plan);
	List *context = set_deparse_context_plan(es->deparse_cxt, &plan->scan.plan, ancestors);
	bool useprefix = list_length(es->rtable) > 1 || es->verbose;
	List *lines = NIL;
	int n = 0;
	ListCell *lc;

	foreach (lc, plan->custom_exprs)
	{
		const char *label = step_labels[scan->steps[n++].kind];
		char *text = deparse_step(lfirst(lc), context, useprefix);

		if (es->format == EXPLAIN_FORMAT_TEXT)
			ExplainPropertyText(label, text, es);
		else
			lines = lappend(lines, psprintf("%s: %s", label, text));
	}
	if (lines != NIL)
		ExplainPropertyList("Steps", lines, es);
}

/* A line of figures for TEXT; those that are zero are left out unless they are the first. */
typedef struct Line
{
	StringInfoData text;
	bool any;
} Line;

static void
line_begin(Line *line)
{
	initStringInfo(&line->text);
	line->any = false;
}

static void
line_add(Line *line, const char *label, int64 value, const char *unit)
{
	if (value == 0 && line->text.len > 0)
		return;
	appendStringInfo(&line->text, "%s%s: " INT64_FORMAT "%s", line->text.len > 0 ? "  " : "", label,
					 value, unit);
	line->any |= value != 0;
}

/* The reason that comes next by how often it was, from the one before on; NONE at the end. */
static InferReason
next_reason(const int64 *by, InferReason before)
{
	InferReason next = INFER_REASON_NONE;

	for (int r = INFER_REASON_NONE + 1; r < INFER_REASON_COUNT; r++)
	{
		bool behind = before == INFER_REASON_NONE || by[r] < by[before] ||
					  (by[r] == by[before] && r > (int) before);

		if (by[r] > 0 && behind && (next == INFER_REASON_NONE || by[r] > by[next]))
			next = (InferReason) r;
	}
	return next;
}

/* "Errors: 3 (overloaded 2, timeout 1)" */
static void
line_add_reasons(Line *line, const char *label, int64 value, const int64 *by)
{
	InferReason reason = INFER_REASON_NONE;
	const char *before = " (";

	line_add(line, label, value, "");
	while ((reason = next_reason(by, reason)) != INFER_REASON_NONE)
	{
		appendStringInfo(&line->text, "%s%s " INT64_FORMAT, before, infer_reason_name(reason),
						 by[reason]);
		before = ", ";
	}
	if (value > 0)
		appendStringInfoChar(&line->text, ')');
}

static void
line_add_ms(Line *line, const char *label, int64 us)
{
	appendStringInfo(&line->text, "%s%s: %.3f ms", line->text.len > 0 ? "  " : "", label,
					 us / 1000.0);
	line->any |= us != 0;
}

static void
line_end(Line *line, ExplainState *es)
{
	if (line->any)
	{
		appendStringInfoSpaces(es->str, es->indent * 2);
		appendStringInfo(es->str, "%s\n", line->text.data);
	}
	pfree(line->text.data);
}

static int64
mean_latency_us(const InferClientStats *stats)
{
	return stats->latency_count > 0 ? stats->latency_sum_us / stats->latency_count : 0;
}

static void
explain_figures_text(const InferScanState *scan, const InferClientStats *stats, ExplainState *es)
{
	Line line;

	line_begin(&line);
	line_add(&line, "Calls", stats->calls, "");
	line_add(&line, "Distinct Inputs", stats->asked, "");
	line_add(&line, "Memo Hits", stats->memo_hits, "");
	line_add(&line, "Null Inputs", stats->null_inputs, "");
	line_add_reasons(&line, "Errors", stats->errors, stats->errors_by);
	line_add(&line, "Rows Removed by Filter", scan->removed, "");
	line.any = true;
	line_end(&line, es);

	line_begin(&line);
	line_add(&line, "Requests", stats->requests, "");
	line_add_reasons(&line, "Retries", stats->retries, stats->retries_by);
	line_add(&line, "Copies", stats->copies, "");
	line_add(&line, "Overloads", stats->overloads, "");
	line_add(&line, "Peak In Flight", stats->peak_in_flight, "");
	line_add(&line, "Rows Ahead", scan->max_window, "");
	line_add(&line, "Memo Evictions", stats->evictions, "");
	line_end(&line, es);

	line_begin(&line);
	for (int i = 0; i < lengthof(abandoned_labels); i++)
		if (stats->abandoned[i] > 0)
			line_add(&line, abandoned_labels[i], stats->abandoned[i], "");
	line_end(&line, es);

	line_begin(&line);
	line_add(&line, "Window", stats->window, "");
	line_add(&line, "Window Min", stats->window_min, "");
	line_add(&line, "Limit", stats->limit, "");
	line_end(&line, es);

	line_begin(&line);
	line_add(&line, "Bytes Sent", stats->bytes_sent, "");
	line_add(&line, "Bytes Received", stats->bytes_received, "");
	line_add(&line, "Prompt Tokens", stats->prompt_tokens, "");
	line_add(&line, "Completion Tokens", stats->completion_tokens, "");
	line_end(&line, es);

	if (!es->timing)
		return;
	line_begin(&line);
	line_add_ms(&line, "Network Wait", stats->network_wait_us);
	line_add_ms(&line, "Permit Wait", stats->permit_wait_us);
	line_end(&line, es);
	if (stats->latency_max_us == 0)
		return;
	appendStringInfoSpaces(es->str, es->indent * 2);
	appendStringInfo(es->str, "Latency: min %.3f  avg %.3f  max %.3f ms\n",
					 stats->latency_min_us / 1000.0, mean_latency_us(stats) / 1000.0,
					 stats->latency_max_us / 1000.0);
}

/* A property for each reason there was. */
static void
explain_reasons(const char *label, const int64 *by, ExplainState *es)
{
	InferReason reason = INFER_REASON_NONE;

	ExplainOpenGroup(label, label, true, es);
	while ((reason = next_reason(by, reason)) != INFER_REASON_NONE)
		ExplainPropertyInteger(infer_reason_name(reason), NULL, by[reason], es);
	ExplainCloseGroup(label, label, true, es);
}

static void
explain_figures(const InferScanState *scan, const InferClientStats *stats, ExplainState *es)
{
	ExplainPropertyInteger("Calls", NULL, stats->calls, es);
	ExplainPropertyInteger("Distinct Inputs", NULL, stats->asked, es);
	ExplainPropertyInteger("Memo Hits", NULL, stats->memo_hits, es);
	ExplainPropertyInteger("Memo Evictions", NULL, stats->evictions, es);
	ExplainPropertyInteger("Null Inputs", NULL, stats->null_inputs, es);
	ExplainPropertyInteger("Errors", NULL, stats->errors, es);
	explain_reasons("Errors by Reason", stats->errors_by, es);
	ExplainPropertyInteger("Rows Removed by Filter", NULL, scan->removed, es);
	ExplainPropertyInteger("Requests", NULL, stats->requests, es);
	ExplainPropertyInteger("Retries", NULL, stats->retries, es);
	explain_reasons("Retries by Reason", stats->retries_by, es);
	ExplainPropertyInteger("Copies", NULL, stats->copies, es);
	ExplainPropertyInteger("Overloads", NULL, stats->overloads, es);
	for (int i = 0; i < lengthof(abandoned_labels); i++)
		ExplainPropertyInteger(abandoned_labels[i], NULL, stats->abandoned[i], es);
	ExplainPropertyInteger("Peak In Flight", NULL, stats->peak_in_flight, es);
	ExplainPropertyInteger("Rows Ahead", NULL, scan->max_window, es);
	ExplainPropertyInteger("Window", NULL, stats->window, es);
	ExplainPropertyInteger("Window Min", NULL, stats->window_min, es);
	ExplainPropertyInteger("Limit", NULL, stats->limit, es);
	ExplainPropertyInteger("Bytes Sent", NULL, stats->bytes_sent, es);
	ExplainPropertyInteger("Bytes Received", NULL, stats->bytes_received, es);
	ExplainPropertyInteger("Prompt Tokens", NULL, stats->prompt_tokens, es);
	ExplainPropertyInteger("Completion Tokens", NULL, stats->completion_tokens, es);
	if (!es->timing)
		return;
	ExplainPropertyFloat("Network Wait", "ms", stats->network_wait_us / 1000.0, 3, es);
	ExplainPropertyFloat("Permit Wait", "ms", stats->permit_wait_us / 1000.0, 3, es);
	ExplainPropertyFloat("Latency Min", "ms", stats->latency_min_us / 1000.0, 3, es);
	ExplainPropertyFloat("Latency Avg", "ms", mean_latency_us(stats) / 1000.0, 3, es);
	ExplainPropertyFloat("Latency Max", "ms", stats->latency_max_us / 1000.0, 3, es);
}

void
infer_scan_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	InferScanState *scan = (InferScanState *) node;

	explain_steps(scan, ancestors, es);
	if (!es->analyze || scan->client == NULL)
		return;
	if (es->format == EXPLAIN_FORMAT_TEXT)
		explain_figures_text(scan, infer_client_stats(scan->client), es);
	else
		explain_figures(scan, infer_client_stats(scan->client), es);
}
