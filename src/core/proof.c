/*
 * core/proof.c - from what was seen on the wire to reason × execution × verdict.
 *
 * The order of the evidence decides, strongest first:
 *
 *	1. the latch: no byte can have left, so nothing was executed, whatever else happened;
 *	2. a final status is as good as a whole answer, even when the transfer broke after it: its
 *	   sender decided.  What it proves depends on who may have written it (below);
 *	3. HTTP/2 said that the stream was not processed;
 *	4. the request did not leave in full: half a JSON document is not runnable;
 *	5. everything else may have been executed.  Unknown is never guessed upwards.
 *
 * Of a 2xx, a body byte proves the execution.  Without one, some servers have only sent their head
 * early, and an empty answer is a promise broken: both may have been executed.
 *
 * A proxy writes 503, 408 and 529 also for requests that reached the server behind it, so these
 * prove that nothing ran only if the server object says that nobody but the server, or the service
 * as a whole, answers at its address (trust).  Gateway statuses (502, 504, 52x) never do.
 */
#include "core/proof.h"

/* The reason when no status explains the end. */
static InferReason
reason_of_end(InferWireEnd end)
{
	switch (end)
	{
		case INFER_WIRE_OK:
			/* a whole answer needs a status: whatever this was, it was no HTTP */
		case INFER_WIRE_PROTOCOL:
			return INFER_REASON_MALFORMED_REPLY;
		case INFER_WIRE_LOOKUP:
			return INFER_REASON_LOOKUP_FAILED;
		case INFER_WIRE_CONNECT:
			return INFER_REASON_CONNECT_FAILED;
		case INFER_WIRE_TLS:
			return INFER_REASON_TLS_FAILED;
		case INFER_WIRE_CERTIFICATE:
			return INFER_REASON_CERTIFICATE_UNUSABLE;
		case INFER_WIRE_DENIED:
			return INFER_REASON_EGRESS_DENIED;
		case INFER_WIRE_TIMEOUT:
			return INFER_REASON_TIMEOUT;
		case INFER_WIRE_DISCONNECT:
		case INFER_WIRE_PARTIAL: /* without a head there was no answer to cut */
			return INFER_REASON_DISCONNECTED;
		case INFER_WIRE_TOO_LARGE:
			return INFER_REASON_REPLY_TOO_LARGE;
		case INFER_WIRE_CANCELLED:
			return INFER_REASON_CANCELLED;
		case INFER_WIRE_INTERNAL:
			break;
	}
	return INFER_REASON_INTERNAL;
}

static InferReason
reason_of_status(int status)
{
	if (status >= 300 && status < 400)
		return INFER_REASON_REDIRECTED;
	switch (status)
	{
		case 401:
			return INFER_REASON_UNAUTHENTICATED;
		case 402:
			return INFER_REASON_QUOTA_EXCEEDED;
		case 403:
			return INFER_REASON_PERMISSION_DENIED;
		case 404:
			return INFER_REASON_NOT_FOUND;
		case 408:
			return INFER_REASON_TIMEOUT;
		case 409:
			return INFER_REASON_CONFLICT;
		case 413:
			return INFER_REASON_REQUEST_TOO_LARGE;
		case 429:
		case 503:
		case 529: /* several providers' "overloaded" */
			return INFER_REASON_OVERLOADED;
		case 501:
		case 505: /* the server cannot do such requests at all: asking again is no use */
			return INFER_REASON_BAD_REQUEST;
		default:
			return status < 500 ? INFER_REASON_BAD_REQUEST : INFER_REASON_SERVER_ERROR;
	}
}

/* What a final status other than 2xx proves. */
static InferExecution
execution_of_status(int status, InferTrust trust)
{
	bool own = trust == INFER_TRUST_DIRECT || trust == INFER_TRUST_PROVIDER;

	if (status >= 300 && status < 400)
		return INFER_NOT_ADMITTED;
	switch (status)
	{
		case 408: /* "your request did not arrive", unless a proxy means its upstream */
		case 503:
		case 529:
			return own ? INFER_NOT_ADMITTED : INFER_MAYBE_EXECUTED;
		case 409: /* in progress under the same idempotency key */
		case 424: /* text-embeddings-inference: the model failed while running */
		case 499: /* a proxy's note that the client went away */
			return INFER_MAYBE_EXECUTED;
		case 501:
		case 505:
			return INFER_NOT_ADMITTED;
		default:
			break;
	}
	/* registered 4xx are refusals before any work; unregistered ones are anybody's guess */
	if ((status >= 400 && status <= 431) || status == 451)
		return INFER_NOT_ADMITTED;
	return INFER_MAYBE_EXECUTED;
}

static InferVerdict
verdict_of(InferReason reason, bool left, int status)
{
	if (!left || reason == INFER_REASON_CANCELLED)
		return INFER_VERDICT_IGNORE;
	if (status == 408) /* our upload was slow: no word about load */
		return INFER_VERDICT_ERROR;
	switch (reason)
	{
		case INFER_REASON_NONE:
			return INFER_VERDICT_SUCCESS;
		case INFER_REASON_OVERLOADED:
		case INFER_REASON_TIMEOUT:
			return INFER_VERDICT_OVERLOADED;
		default:
			return INFER_VERDICT_ERROR;
	}
}

static InferFinding
finding(const InferWire *wire, InferReason reason, InferExecution execution)
{
	bool broke = wire->end == INFER_WIRE_DISCONNECT || wire->end == INFER_WIRE_PARTIAL;
	bool answered = wire->status >= 300 || wire->has_body;

	return (InferFinding){
		.reason = reason,
		.execution = execution,
		.verdict = verdict_of(reason, wire->left, wire->status),
		.lost = broke && !answered,
	};
}

/* A 2xx status came; how did its body end? */
static InferFinding
classify_success_status(const InferWire *wire)
{
	InferExecution execution = wire->has_body ? INFER_EXECUTED : INFER_MAYBE_EXECUTED;

	switch (wire->end)
	{
		case INFER_WIRE_OK:
			if (wire->has_body)
				return finding(wire, INFER_REASON_NONE, INFER_EXECUTED);
			return finding(wire, INFER_REASON_INCOMPLETE_REPLY, execution);
		case INFER_WIRE_DISCONNECT:
		case INFER_WIRE_PARTIAL:
			return finding(wire, INFER_REASON_INCOMPLETE_REPLY, execution);
		case INFER_WIRE_TOO_LARGE:
			return finding(wire, INFER_REASON_REPLY_TOO_LARGE, INFER_EXECUTED);
		default:
			return finding(wire, reason_of_end(wire->end), execution);
	}
}

InferFinding
infer_proof_classify(const InferWire *wire)
{
	InferReason reason = reason_of_end(wire->end);

	if (!wire->left)
		return finding(wire, reason, INFER_NOT_ADMITTED);

	if (wire->status >= 200 && wire->status < 300)
		return classify_success_status(wire);
	if (wire->status >= 300)
	{
		/* cancelled stays cancelled, but the status still tells what it cost */
		if (wire->end != INFER_WIRE_CANCELLED)
			reason = wire->quota ? INFER_REASON_QUOTA_EXCEEDED : reason_of_status(wire->status);
		return finding(wire, reason, execution_of_status(wire->status, wire->trust));
	}

	if (wire->refused_stream || !wire->request_complete)
		return finding(wire, reason, INFER_NOT_ADMITTED);
	return finding(wire, reason, INFER_MAYBE_EXECUTED);
}

InferExecution
infer_proof_floor(InferExecution execution, InferExecution earlier)
{
	if (execution == INFER_NOT_ADMITTED && earlier != INFER_NOT_ADMITTED)
		return INFER_MAYBE_EXECUTED;
	return execution;
}
