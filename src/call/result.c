/*
 * call/result.c - from an answer to the Datum, or to the error, that SQL sees.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "call/call.h"
#include "call/class.h"
#include "call/client.h"
#include "call/convert.h"
#include "call/finish.h"
#include "call/memo.h"
#include "call/tolerance.h"
#include "core/types.h"
#include "pg/guc.h"
#include "pg/datum.h"
#include "pg/report.h"
#include "registry/functions.h"

/* Columns of infer.embed_outcome and its sisters. */
enum
{
	OUTCOME_VALUE,
	OUTCOME_ERROR,
	OUTCOME_REASON,
	OUTCOME_EXECUTION,
	OUTCOME_HTTP_STATUS,
	OUTCOME_ATTEMPTS,
	OUTCOME_SERVER,
	OUTCOME_USAGE,
	OUTCOME_ELAPSED,
	OUTCOME_COLUMNS
};

static void
describe_failure(const InferAnswer *answer, InferFailure *failure)
{
	*failure = (InferFailure){
		.reason = answer->reason,
		.execution = answer->execution,
		.http_status = answer->http_status,
		.attempts = answer->attempts,
		.server = infer_answer_server(answer),
		.model = answer->class->target->model,
		.detail = answer->detail,
		.tried = answer->tried,
		.retry_denied = answer->retry_denied,
		.hint = answer->hint,
	};
}

static Datum
outcome_datum(const InferAnswer *answer, const InferFunction *function, Oid result_type)
{
	TupleDesc desc = lookup_rowtype_tupdesc(result_type, -1);
	Datum values[OUTCOME_COLUMNS] = {0};
	bool nulls[OUTCOME_COLUMNS];
	HeapTuple tuple;

	memset(nulls, false, sizeof(nulls));
	if (answer->reason == INFER_REASON_NONE)
	{
		values[OUTCOME_VALUE] = PointerGetDatum(answer->value);
		nulls[OUTCOME_ERROR] = true;
		nulls[OUTCOME_REASON] = !answer->truncated;
		if (answer->truncated)
			values[OUTCOME_REASON] = CStringGetTextDatum(infer_reason_name(INFER_REASON_TRUNCATED));
	}
	else
	{
		InferFailure failure;
		char *message;
		char *words;

		describe_failure(answer, &failure);
		message = infer_report_message(&failure);
		words = infer_report_words(&failure);
		if (words[0] != '\0')
			message = psprintf("%s: %s", message, words);
		if (failure.tried != NULL)
			message = psprintf("%s (%s)", message, failure.tried);
		if (failure.retry_denied)
			message = psprintf("%s (%s)", message, infer_report_retry_denied);
		nulls[OUTCOME_VALUE] = true;
		values[OUTCOME_ERROR] = CStringGetTextDatum(message);
		values[OUTCOME_REASON] = CStringGetTextDatum(infer_reason_name(answer->reason));
	}
	values[OUTCOME_EXECUTION] = CStringGetTextDatum(infer_execution_name(answer->execution));
	values[OUTCOME_HTTP_STATUS] = Int32GetDatum(answer->http_status);
	nulls[OUTCOME_HTTP_STATUS] = answer->http_status == 0;
	values[OUTCOME_ATTEMPTS] = Int32GetDatum(answer->attempts);
	nulls[OUTCOME_SERVER] = infer_answer_server(answer) == NULL;
	if (!nulls[OUTCOME_SERVER])
		values[OUTCOME_SERVER] = CStringGetTextDatum(infer_answer_server(answer));
	nulls[OUTCOME_USAGE] =
		answer->usage == NULL || !infer_convert_jsonb(answer->usage, &values[OUTCOME_USAGE]);
	values[OUTCOME_ELAPSED] = infer_interval_datum(answer->elapsed_us);
	if (desc->natts != OUTCOME_COLUMNS)
		elog(ERROR, "type %u is not an outcome of pg_inference", result_type);
	tuple = heap_form_tuple(desc, values, nulls);
	ReleaseTupleDesc(desc);
	return HeapTupleGetDatum(tuple);
}

/* Does the answer raise, by the policy of its call? */
static bool
raises_itself(const InferAnswer *answer, const InferFunction *function)
{
	if (answer->state != INFER_ANSWER_DONE || answer->reason == INFER_REASON_NONE ||
		answer->reason == INFER_REASON_ERROR_RATIO)
		return false;
	/* answers that cannot be matched to rows fail the query, whatever the policy */
	return answer->reason == INFER_REASON_MISALIGNED ||
		   (!function->outcome && answer->class->options.on_error != INFER_ON_ERROR_NULL);
}

bool
infer_call_raises(const InferEntry *entry, const InferFunction *function)
{
	return infer_tolerance_stopped(entry->answer) || raises_itself(entry->answer, function);
}

Datum
infer_call_result(InferEntry *entry, const InferFunction *function, Oid result_type, bool *isnull)
{
	const InferAnswer *answer = entry->answer;
	InferFailure failure;

	if (raises_itself(answer, function))
	{
		describe_failure(answer, &failure);
		infer_report_failure(&failure);
	}
	if (infer_tolerance_stopped(answer))
		infer_tolerance_raise(answer);
	Assert(answer->state == INFER_ANSWER_DONE);
	*isnull = false;
	if (function->outcome)
		return outcome_datum(answer, function, result_type);
	if (answer->reason == INFER_REASON_NONE)
		return PointerGetDatum(answer->value);
	*isnull = true;
	return (Datum) 0;
}
