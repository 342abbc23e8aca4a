/*
 * call/classify.h - what a model adds to the header of a request: times and classification.
 */
#ifndef INFER_CALL_CLASSIFY_H
#define INFER_CALL_CLASSIFY_H

#include "postgres.h"

#include "utils/jsonb.h"

#include "core/route.h"
#include "registry/registry.h"

/*
 * The header of a call as the model's classification functions leave it: all routing keys in one
 * object.  NULL: the model has no such functions, and the header is what model, setting and options
 * say.  They run now, in this order: as the current user, in this transaction; what one raises goes
 * through.  options are those of the call, of which the routing keys count; parameters NULL: the
 * call has none.  palloc'd.
 */
extern Jsonb *infer_classify(const InferTarget *target, Jsonb *options, Jsonb *parameters);

/* The range of time that the model's ts_args have in the parameters, unless the header has set one.
 * Raises if one of them is no time. */
extern void infer_classify_times(const InferTarget *target, Jsonb *parameters,
								 InferTimeRange *range);

#endif
