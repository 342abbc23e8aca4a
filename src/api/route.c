/*
 * api/route.c - infer.explain_route(): where a request would go, and why not elsewhere.
 *
 * Rows in the order of the decision: what has no server, what phase 1 eliminated, each with its
 * reason, and the cause if nothing is left; the nodes as phase 2 ranks them; the places in the
 * order of phase 3, which is that in which a request tries them.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/tuplestore.h"

#include "api/rows.h"
#include "call/explain.h"
#include "pg/datum.h"
#include "registry/models.h"
#include "registry/placements.h"
#include "registry/servers.h"

PG_FUNCTION_INFO_V1(infer_explain);

/* Columns, in order. */
enum
{
	COL_PHASE,
	COL_SERVER,
	COL_NODE,
	COL_VERDICT,
	COL_REASON,
	COL_SCORE,
	COL_REMOTE_MODEL,
	COL_SERVICE_CLASS,
	COL_VERSION,
	COL_TIER,
	COL_COUNT
};

typedef struct Row
{
	Datum values[COL_COUNT];
	bool nulls[COL_COUNT];
} Row;

static void
begin_row(Row *row, int phase, const char *verdict)
{
	for (int i = 0; i < COL_COUNT; i++)
		row->nulls[i] = true;
	row->values[COL_PHASE] = Int32GetDatum(phase);
	row->nulls[COL_PHASE] = false;
	row->values[COL_VERDICT] = CStringGetTextDatum(verdict);
	row->nulls[COL_VERDICT] = false;
}

static void
put_text(Row *row, int column, const char *text)
{
	infer_rows_put_text(row->values, row->nulls, column, text);
}

static void
put_score(Row *row, double score)
{
	row->values[COL_SCORE] = Float8GetDatum(score);
	row->nulls[COL_SCORE] = false;
}

static void
put_server(Row *row, const char *server)
{
	row->values[COL_SERVER] = infer_name_datum(server);
	row->nulls[COL_SERVER] = false;
}

static void
put_place(Row *row, const InferExplanation *it, int i)
{
	const InferRoutePlace *place = &it->places[i];

	put_server(row, place->server);
	put_text(row, COL_NODE, place->node);
	put_text(row, COL_REMOTE_MODEL, it->target->places[i].remote_model);
	put_text(row, COL_SERVICE_CLASS, place->service_class);
	if (place->version >= 0)
		put_text(row, COL_VERSION, psprintf("%d.%02d", place->version / 100, place->version % 100));
	row->values[COL_TIER] = Int32GetDatum(place->tier);
	row->nulls[COL_TIER] = false;
}

static void
put_row(ReturnSetInfo *rsinfo, Row *row)
{
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row->values, row->nulls);
}

/* Placements that a decision never sees, for calls do not get so far as to them. */
static void
put_unusable(ReturnSetInfo *rsinfo, const char *name)
{
	InferModel *model = infer_model_read(name);
	ListCell *cell;

	if (model == NULL)
		return;
	foreach (cell, model->placements)
	{
		const InferPlacementRow *placement = lfirst(cell);
		const char *problem = infer_server_problem(placement->server);
		Row row;

		if (problem == NULL)
			continue;
		begin_row(&row, 1, "eliminated");
		put_server(&row, placement->server);
		put_text(&row, COL_REASON, problem);
		put_text(&row, COL_REMOTE_MODEL, placement->remote_model);
		row.values[COL_TIER] = Int32GetDatum(0);
		row.nulls[COL_TIER] = false;
		put_row(rsinfo, &row);
	}
}

static void
put_eliminated(ReturnSetInfo *rsinfo, const InferExplanation *it)
{
	for (int i = 0; i < it->n; i++)
	{
		InferRouteReason reason = it->decision.places[i].reason;
		Row row;

		if (reason == INFER_BY_NOTHING)
			continue;
		begin_row(&row, 1, "eliminated");
		put_place(&row, it, i);
		put_text(&row, COL_REASON,
				 reason == INFER_BY_NO_ROOM
					 ? "no_room: raise pg_inference.max_admission_keys, or share an admission_key"
					 : infer_route_reason_name(reason));
		put_row(rsinfo, &row);
	}
}

/* Nothing is left: why, and what is not to be had. */
static void
put_cause(ReturnSetInfo *rsinfo, const InferRouteDecision *decision)
{
	static const char *const causes[] = {
		[INFER_CAUSE_NO_DEST] = "no_dest",          [INFER_CAUSE_NO_PRIVILEGE] = "no_privilege",
		[INFER_CAUSE_STALE] = "stale_alternatives", [INFER_CAUSE_DRAINING] = "draining",
		[INFER_CAUSE_ALL_FAILED] = "all_failed",
	};
	StringInfoData reason;
	Row row;

	if (decision->cause == INFER_CAUSE_NONE)
		return;
	begin_row(&row, 1, causes[decision->cause]);
	initStringInfo(&reason);
	appendStringInfoString(&reason, decision->reason == INFER_BY_NOTHING
										? "no placement"
										: infer_route_reason_name(decision->reason));
	if (decision->target != NULL)
		appendStringInfo(&reason, " \"%s\"", decision->target);
	if (decision->reason == INFER_BY_INCLUDE)
		appendStringInfo(&reason, ": %s",
						 decision->target_reason == INFER_BY_NOTHING
							 ? "no placement of that name"
							 : infer_route_reason_name(decision->target_reason));
	put_text(&row, COL_REASON, reason.data);
	put_row(rsinfo, &row);
}

static void
put_nodes(ReturnSetInfo *rsinfo, const InferRouteDecision *decision)
{
	for (int rank = 0; rank < decision->n_nodes; rank++)
		for (int i = 0; i < decision->n_nodes; i++)
		{
			const InferRouteNode *node = &decision->nodes[i];
			Row row;

			if (node->rank != rank)
				continue;
			begin_row(&row, 2, psprintf("ranked %d", rank + 1));
			put_text(&row, COL_NODE, node->name);
			put_text(&row, COL_REASON,
					 psprintf("%s, health factor %g, load factor %.2f",
							  node->healthy ? "healthy" : "unhealthy", node->health_factor,
							  node->load));
			put_score(&row, node->score);
			put_row(rsinfo, &row);
		}
}

/* What the queue model knows of a place. */
static char *
describe(const InferRoutePlace *place)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, "outstanding %g", place->outstanding);
	if (place->penalty != 1)
		appendStringInfo(&text, ", penalty %g", place->penalty);
	if (place->weight != 1)
		appendStringInfo(&text, ", weight %g", place->weight);
	if (place->latency_us > 0 && place->heard_us > 0)
		appendStringInfo(&text, ", latency %.1f ms", place->latency_us / 1000);
	if (place->excluded)
		appendStringInfoString(&text, ", excluded after overload");
	if (place->state == INFER_PLACE_BEHIND)
		appendStringInfoString(&text, ", loading");
	if (place->primary)
		appendStringInfoString(&text, ", primary");
	return text.data;
}

static void
put_order(ReturnSetInfo *rsinfo, const InferExplanation *it)
{
	const InferRouteDecision *decision = &it->decision;

	for (int rank = 0; rank < decision->n_order; rank++)
	{
		int i = decision->order[rank];
		Row row;

		begin_row(&row, 3, decision->places[i].planned ? "chosen" : "next");
		put_place(&row, it, i);
		put_text(&row, COL_REASON, describe(&it->places[i]));
		put_score(&row, decision->places[i].score);
		put_row(rsinfo, &row);
	}
}

Datum
infer_explain(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	char *model = text_to_cstring(PG_GETARG_TEXT_PP(0));
	InferExplanation *it;

	infer_rows_begin(fcinfo, "infer_explain", COL_COUNT);
	it = infer_explain_route(model, PG_GETARG_JSONB_P(1), PG_GETARG_JSONB_P(2));
	put_unusable(rsinfo, model);
	put_eliminated(rsinfo, it);
	put_cause(rsinfo, &it->decision);
	put_nodes(rsinfo, &it->decision);
	put_order(rsinfo, it);
	return (Datum) 0;
}
