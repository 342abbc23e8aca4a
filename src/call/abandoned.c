/*
 * call/abandoned.c - requests that nobody waits for any more: a cancel, a LIMIT, a rescan, an error
 * elsewhere, the end of the session.
 *
 * Their statements have no error that could carry a proof, so what is known of them is counted:
 * by admission key, and in the figures of the scan that had asked; usage is told as well, which
 * keeps charged what may have been executed.
 */
#include "postgres.h"

#include "call/batch.h"
#include "call/client.h"
#include "call/drain.h"
#include "call/memo.h"
#include "call/place.h"
#include "call/pump.h"
#include "call/retry.h"
#include "call/usage.h"
#include "core/proof.h"
#include "core/types.h"
#include "http/transport.h"
#include "shmem/admission.h"
#include "shmem/drain.h"

static bool
somebody_asked(const InferBatch *batch)
{
	for (int i = 0; i < batch->nanswers; i++)
		if (batch->answers[i]->state == INFER_ANSWER_BATCHED)
			return true;
	return false;
}

/*
 * A batch is about to be freed: counts it if it has unanswered calls, and stops its transfer.  One
 * that still took further calls was no request yet.  Raises nothing: this is also how an error
 * cleans up.
 */
void
infer_abandon(InferBatch *batch)
{
	InferExecution proof = INFER_NOT_ADMITTED;

	if (batch->in_open || !somebody_asked(batch))
		return;
	if (batch->is_copy && batch->transfer == NULL)
		return; /* it was never sent, or has failed and is counted */
	if (batch->transfer != NULL)
	{
		InferWire wire = infer_transfer_withdraw(infer_pump_transport(), batch->transfer);
		InferFinding finding;

		wire.trust = batch->place->placement->server->trust;
		finding = infer_proof_classify(&wire);
		infer_usage_found(batch, &finding, wire.left);
		infer_drain_note(batch->place, INFER_DRAIN_ABANDONED);
		proof = finding.execution;
	}
	proof = infer_proof_floor(proof, batch->floor);
	batch->client->stats.abandoned[proof]++;
	if (batch->place != NULL) /* else it had not been decided where it goes */
		infer_admission_abandoned(batch->place->key, proof);
}
