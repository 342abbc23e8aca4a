/*
 * scan/hooks.c - where the planner meets us.
 *
 * The planner hook should be the outermost one (list pg_inference last in
 * shared_preload_libraries), so that the pre-pass runs before, and the rewrite after, everybody
 * else.
 */
#include "postgres.h"

#include "nodes/extensible.h"
#include "optimizer/planner.h"

#include "call/call.h"
#include "pg/guc.h"
#include "scan/plan.h"
#include "scan/walk.h"

static planner_hook_type previous_planner_hook = NULL;

static PlannedStmt *
plan_query(Query *parse, const char *query_string, int cursor_options, ParamListInfo params)
{
	PlannedStmt *volatile stmt = NULL;
	InferPlanning before = infer_planning_begin();

	PG_TRY();
	{
		if (previous_planner_hook)
			stmt = previous_planner_hook(parse, query_string, cursor_options, params);
		else
			stmt = standard_planner(parse, query_string, cursor_options, params);
	}
	PG_FINALLY();
	{
		infer_planning_end(before);
	}
	PG_END_TRY();
	return stmt;
}

static PlannedStmt *
infer_planner(Query *parse, const char *query_string, int cursor_options, ParamListInfo params)
{
	bool active =
		infer_preloaded && parse->commandType != CMD_UTILITY && infer_query_may_call(parse);
	bool skippable = false;
	Query *again = NULL;
	PlannedStmt *stmt;

	/* whatever pg_inference.enable says: planning makes no calls */
	if (active)
		parse = infer_prepass(parse, &skippable);
	if (skippable && (cursor_options & CURSOR_OPT_PARALLEL_OK))
		again = copyObject(parse);
	stmt = plan_query(parse, query_string, cursor_options, params);
	/*
	 * A Gather evaluates InitPlans before it starts its workers, also those that a guard keeps from
	 * ever being read.  Without us such a call, being PARALLEL RESTRICTED, allowed no workers.
	 */
	if (again != NULL && infer_gather_calls(stmt))
		stmt = plan_query(again, query_string, cursor_options & ~CURSOR_OPT_PARALLEL_OK, params);
	if (active && infer_guc_enable)
		infer_rewrite(stmt, cursor_options);
	return stmt;
}

void
infer_scan_init(void)
{
	RegisterCustomScanMethods(&infer_scan_methods);
	previous_planner_hook = planner_hook;
	planner_hook = infer_planner;
	infer_demand_init();
}
