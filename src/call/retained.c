/*
 * call/retained.c - the bodies of requests that may have to be sent again, and how many bytes of
 * them a session keeps (pg_inference.retained_memory).
 *
 * A call that is not single promises further copies, so its body stays until its end.  What would
 * go over the limit is refused before anything of it is sent; what was accepted is never dropped.
 * The bytes are given back with the batch, on every path.
 */
#include "postgres.h"

#include "call/batch.h"
#include "call/call.h"
#include "call/class.h"
#include "call/finish.h"
#include "call/retry.h"
#include "core/types.h"
#include "pg/guc.h"

static int64 retained; /* bytes, of this session */

int64
infer_call_retained_bytes(void)
{
	return retained;
}

/* Charges a new body. False: there is no room, and the batch has been failed. */
bool
infer_retain(InferBatch *batch)
{
	char detail[128];

	if (batch->class->options.rule.delivery == INFER_DELIVERY_SINGLE)
		return true;
	if (retained + (int64) batch->body.len > (int64) infer_guc_retained_memory * 1024)
	{
		snprintf(detail, sizeof(detail),
				 "pg_inference.retained_memory is %d kB, and " INT64_FORMAT
				 " bytes of requests are kept",
				 infer_guc_retained_memory, retained);
		infer_finish_fail(batch, INFER_REASON_OVERLOADED, INFER_NOT_ADMITTED, 0, detail);
		return false;
	}
	batch->retained = batch->body.len;
	retained += (int64) batch->retained;
	return true;
}

/* The body is not needed any more. */
void
infer_retain_end(InferBatch *batch)
{
	retained -= (int64) batch->retained;
	batch->retained = 0;
}
