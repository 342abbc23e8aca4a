/*
 * api/cost.c - what a call costs the planner: the support function of all functions that call
 * models, and infer.call_cost().
 *
 * The model must be a constant where the planner asks (in a custom plan parameters are); its
 * prices come from the catalog, what its answers took from shared memory, and core/cost.c makes one
 * figure of both.  Whatever is not known has the default.  The planner asks for each expression of
 * each path it looks at, also under EXPLAIN and for roles that may not call the model: nothing here
 * sends a request, checks a privilege or raises because something is not there.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "nodes/pg_list.h"
#include "nodes/primnodes.h"
#include "nodes/supportnodes.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"

#include "core/cost.h"
#include "pg/guc.h"
#include "registry/functions.h"
#include "registry/models.h"
#include "registry/registry.h"
#include "shmem/observed.h"

PG_FUNCTION_INFO_V1(infer_call_cost);
PG_FUNCTION_INFO_V1(infer_call_support);

/* What a row takes, on average over the servers that have answered. */
static bool
observed_pace(const InferModelFacts *facts, InferTask task, InferPace *pace)
{
	InferPaceMean mean = {0};

	for (int i = 0; i < facts->nplaces; i++)
	{
		const InferFactsPlace *place = &facts->places[i];
		InferObservedKey key;
		InferPace one;

		infer_observed_key(&key, place->server, task, place->remote_model);
		if (infer_observed_pace(&key, &one))
			infer_cost_mean_add(&mean, &one, place->weight);
	}
	return infer_cost_mean(&mean, pace);
}

/* In the unit of CREATE FUNCTION's COST. model NULL: which one it is shows at execution. */
static double
cost_of_call(InferTask task, const char *model)
{
	InferPrices prices = {0, 0};
	InferModelFacts facts;
	InferPace pace;
	bool observed = false;

	if (model != NULL && infer_preloaded && infer_resolve_facts(model, &facts))
	{
		prices = (InferPrices){facts.input_price, facts.output_price};
		observed = infer_guc_observed_costs && observed_pace(&facts, task, &pace);
	}
	return infer_cost_of_call(task, observed ? &pace : NULL, &prices, infer_guc_price_seconds,
							  infer_guc_call_cost);
}

/* The model of a call as the planner has it; NULL if it is not a constant. */
static char *
constant_model(Node *call)
{
	Node *model;

	if (call == NULL || !IsA(call, FuncExpr) || ((FuncExpr *) call)->args == NIL)
		return NULL;
	model = linitial(((FuncExpr *) call)->args);
	if (!IsA(model, Const) || ((Const *) model)->constisnull ||
		((Const *) model)->consttype != TEXTOID)
		return NULL;
	return TextDatumGetCString(((Const *) model)->constvalue);
}

Datum
infer_call_support(PG_FUNCTION_ARGS)
{
	SupportRequestCost *request = (SupportRequestCost *) PG_GETARG_POINTER(0);
	const InferFunction *function;
	char *model;

	if (!IsA(request, SupportRequestCost))
		PG_RETURN_POINTER(NULL);
	function = infer_function_lookup(request->funcid);
	if (function == NULL)
		PG_RETURN_POINTER(NULL);
	model = constant_model(request->node);
	request->startup = 0;
	request->per_tuple = cost_of_call(function->task, model) * cpu_operator_cost;
	if (model != NULL)
		pfree(model);
	PG_RETURN_POINTER(request);
}

/* call_cost(model, task) */
Datum
infer_call_cost(PG_FUNCTION_ARGS)
{
	char *model = text_to_cstring(PG_GETARG_TEXT_PP(0));
	InferTask task = infer_task_parse(text_to_cstring(PG_GETARG_TEXT_PP(1)));

	PG_RETURN_FLOAT8(cost_of_call(task, model));
}
