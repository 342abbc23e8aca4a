/*
 * call/direct.c - the body of the SQL functions, for calls that no InferScan took: FROM-less
 * SELECTs, PL/pgSQL expressions, CHECK constraints and all else that never passes the rewrite.
 *
 * One client per call, so that errors and cancels give everything back; the memo, the permits and
 * the connections are those of every other call.
 */
#include "postgres.h"

#include "utils/array.h"
#include "utils/datum.h"

#include "call/call.h"
#include "call/causes.h"
#include "call/client.h"
#include "call/memo.h"
#include "registry/functions.h"

Datum
infer_call_direct(FunctionCallInfo fcinfo, const InferFunction *function)
{
	InferClient *client;
	Datum args[4];
	bool nulls[4];
	InferEntry *entry;
	Datum result;
	bool isnull;

	if (infer_planning_estimates(fcinfo))
		PG_RETURN_NULL();
	client = infer_client_open();
	for (int i = 0; i < function->nargs; i++)
	{
		args[i] = fcinfo->args[i].value;
		nulls[i] = fcinfo->args[i].isnull;
	}
	entry = infer_call_begin(client, function, args, nulls);
	if (entry == NULL)
	{
		infer_client_close(client);
		PG_RETURN_NULL();
	}
	infer_client_finish(client, entry, true);
	result = infer_call_result(entry, function,
							   function->outcome ? get_fn_expr_rettype(fcinfo->flinfo) : InvalidOid,
							   &isnull);
	/* the value lives in the memo; the caller gets its own */
	if (!isnull && !function->outcome)
		result = datumCopy(result, false, -1);
	infer_client_close(client);
	if (isnull)
		PG_RETURN_NULL();
	return result;
}

void
infer_call_init(void)
{
	infer_memo_init();
	infer_causes_init();
}
