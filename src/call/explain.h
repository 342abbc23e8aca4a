/*
 * call/explain.h - where a request would go, decided as for a call, with nothing sent.
 */
#ifndef INFER_CALL_EXPLAIN_H
#define INFER_CALL_EXPLAIN_H

#include "postgres.h"

#include "utils/jsonb.h"

#include "core/route.h"
#include "registry/registry.h"

typedef struct InferExplanation
{
	InferTarget *target;
	int n;                   /* places that the decision looked at; at most MAX_PLACES */
	InferRoutePlace *places; /* in the order of the target's */
	InferRouteDecision decision;
} InferExplanation;

/*
 * The decision for a request of the current user to the model with these routing keys and
 * parameters, as of now.  Runs the model's classification functions.  Raises errors of
 * configuration: an unknown model or key, no USAGE on any of its servers.  palloc'd.
 */
extern InferExplanation *infer_explain_route(const char *model, Jsonb *header, Jsonb *parameters);

#endif
