/*
 * registry/functions.h - which pg_proc entries are our remote calls.
 *
 * Identified by language C, library and symbol, never by name, so that renames, wrappers in other
 * schemas and shadowing change nothing.  Cached per OID, with syscache
 * invalidation.  Needs a transaction; raises only as the system cache does.
 */
#ifndef INFER_REGISTRY_FUNCTIONS_H
#define INFER_REGISTRY_FUNCTIONS_H

#include "postgres.h"
#include "core/types.h"

typedef enum InferValueKind
{
	INFER_VALUE_FLOATS, /* real[] */
	INFER_VALUE_TEXT,
	INFER_VALUE_JSONB
} InferValueKind;

typedef struct InferFunction
{
	const char *symbol; /* C symbol: infer_embed, infer_try_embed, infer_complete, ... */
	const char *verb;   /* "embed", for messages */
	InferTask task;
	InferValueKind value;
	bool outcome;       /* a try_ twin: returns the composite, never raises for remote failures */
	int nargs;          /* 4, or 3 for call (no parameters) */
	int parameters_arg; /* -1 if none; model is argument 0, the input argument 1 */
	int options_arg;
	bool input_is_jsonb; /* chat, call */
} InferFunction;

/* NULL if the function is not one of ours (the common case: one hash probe). */
extern const InferFunction *infer_function_lookup(Oid funcid);
/* Is it one, or an SQL function, which the planner may replace by a body that holds one? */
extern bool infer_function_may_call(Oid funcid);
/* The table entry by C symbol, for the functions' own bodies; never NULL for our symbols. */
extern const InferFunction *infer_function_by_symbol(const char *symbol);

#endif
