/*
 * call/cooldown.c - calls of a server that has been failing for longer than they would wait.
 *
 * A call rides out a short outage: it waits in the key's line while the server is left alone, and
 * goes on when a probe has found it well (core/monitor).  When the server has been failing for
 * longer than the call's patience (infer_retry_patience_us) it fails at once.  Nothing of this
 * attempt was sent; that earlier ones may have been executed is kept by the batch's floor.
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "call/batch.h"
#include "call/class.h"
#include "call/finish.h"
#include "call/permit.h"
#include "call/place.h"
#include "core/types.h"
#include "shmem/admission.h"

/* Ends a ready batch, which has no permit: its place, and all others that it might go to, are
 * failing. */
void
infer_cooldown_fail(InferBatch *batch)
{
	bool alone = batch->class->nplaces == 1;
	InferFailing failing = infer_admission_failing(batch->place->key);
	TimestampTz since = GetCurrentTimestamp() - failing.for_us;
	char detail[192] = "";

	since -= since % USECS_PER_SEC; /* so that all that fail by it mostly say the same */
	if (failing.for_us > 0)         /* an answer may have come to another process by now */
		snprintf(detail, sizeof(detail),
				 "%s has failed since %s, with %s the last time, and is tried again in %.1f s",
				 alone ? "it" : batch->place->placement->server->name, timestamptz_to_str(since),
				 infer_reason_name(failing.reason), failing.next_us / 1e6);
	infer_permit_want(batch, false);
	if (!alone)
		batch->place = NULL;
	infer_finish_fail(batch, alone ? INFER_REASON_SERVER_FAILED : INFER_REASON_ALL_FAILED,
					  INFER_NOT_ADMITTED, 0, detail);
}
