/*
 * api/call.c - the SQL functions that call models.  Each is a symbol of its own, because a call is
 * recognised in plans by its symbol; all share one body.
 */
#include "postgres.h"

#include "fmgr.h"

#include "call/call.h"

#define INFER_CALL_FUNCTION(symbol)                                                                \
	PG_FUNCTION_INFO_V1(symbol);                                                                   \
	Datum symbol(PG_FUNCTION_ARGS)                                                                 \
	{                                                                                              \
		return infer_call_direct(fcinfo, infer_function_by_symbol(#symbol));                       \
	}

INFER_CALL_FUNCTION(infer_embed)
INFER_CALL_FUNCTION(infer_complete)
INFER_CALL_FUNCTION(infer_chat)
INFER_CALL_FUNCTION(infer_call_raw)
INFER_CALL_FUNCTION(infer_try_embed)
INFER_CALL_FUNCTION(infer_try_complete)
INFER_CALL_FUNCTION(infer_try_chat)
INFER_CALL_FUNCTION(infer_try_call)
