/*
 * call/attempts.c - what a batch's attempts came to, for the error that its calls may end with.
 *
 * A call that several servers were asked for fails as its last attempt did, and tells of the others
 * in the error's DETAIL.  The last failure is kept while another attempt may follow, for that one
 * may never be made: the servers that were left go away, or the time is over.
 */
#include "postgres.h"

#include "lib/stringinfo.h"

#include "call/attempts.h"
#include "call/batch.h"
#include "call/class.h"
#include "call/client.h"
#include "call/place.h"
#include "core/types.h"

static void
keep_detail(InferBatch *batch, const char *detail)
{
	char *kept = detail != NULL && detail[0] != '\0'
					 ? MemoryContextStrdup(batch->client->context, detail)
					 : NULL;

	if (batch->last_detail != NULL)
		pfree(batch->last_detail);
	batch->last_detail = kept;
}

void
infer_attempts_note(InferBatch *batch, InferReason reason, InferExecution execution,
					int http_status, const char *detail)
{
	keep_detail(batch, detail);
	batch->last_reason = reason;
	batch->last_status = http_status;
	batch->told[(batch->number - 1) % INFER_ATTEMPTS_TOLD] =
		(InferAttempt){.place = batch->place, .reason = reason, .execution = execution};
}

void
infer_attempts_copy(InferBatch *part, const InferBatch *of)
{
	keep_detail(part, of->last_detail);
	part->last_reason = of->last_reason;
	part->last_status = of->last_status;
	memcpy(part->told, of->told, sizeof(part->told));
}

char *
infer_attempts_tell(const InferBatch *batch)
{
	int first = Max(0, batch->attempts - INFER_ATTEMPTS_TOLD);
	const char *between = "";
	StringInfoData text;

	if (batch->class->nplaces == 1 || batch->attempts == 0)
		return NULL;
	initStringInfo(&text);
	appendStringInfoString(&text, first > 0 ? "tried, the last of them: " : "tried: ");
	for (int i = first; i < batch->attempts; i++)
	{
		const InferAttempt *attempt = &batch->told[i % INFER_ATTEMPTS_TOLD];

		if (attempt->place == NULL)
			continue; /* an error broke it off */
		appendStringInfo(&text, "%s%s (%s, %s)", between, attempt->place->placement->server->name,
						 infer_reason_name(attempt->reason),
						 infer_execution_name(attempt->execution));
		between = ", ";
	}
	return text.data;
}

void
infer_attempts_free(InferBatch *batch)
{
	if (batch->last_detail != NULL)
		pfree(batch->last_detail);
	batch->last_detail = NULL;
}
