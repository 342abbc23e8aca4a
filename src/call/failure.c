/*
 * call/failure.c - a failed attempt: its words, and whether it is said again in other words, in
 * halves, or just again.
 *
 * A batch that the server refused as too large, or that holds a row it does not like, is split in
 * halves.  Refusals are proof that nothing ran, so that no row is paid for twice, and a poison row
 * fails alone.  Splitting does not count as an attempt: it is the same attempt at fewer rows.
 */
#include "postgres.h"

#include "call/attempts.h"
#include "call/batch.h"
#include "call/class.h"
#include "call/convert.h"
#include "call/finish.h"
#include "call/incarnation.h"
#include "call/place.h"
#include "call/retry.h"
#include "call/route.h"
#include "call/sizes.h"
#include "call/usage.h"
#include "core/buf.h"
#include "core/proof.h"
#include "core/retry.h"
#include "core/sizes.h"
#include "core/types.h"
#include "http/transport.h"
#include "provider/provider.h"
#include "registry/registry.h"

#define DETAIL_SIZE 512

/* Is it worth asking for the halves of this refused batch? */
static bool
may_split(const InferBatch *batch, const InferFinding *finding, const InferHttpResult *result)
{
	if (batch->nanswers < 2)
		return false;
	if (finding->execution == INFER_NOT_ADMITTED &&
		(finding->reason == INFER_REASON_REQUEST_TOO_LARGE ||
		 finding->reason == INFER_REASON_BAD_REQUEST))
		return true;
	return infer_provider_is_size_error(result->wire.status, result->body->data, result->body->len);
}

/* Is it as if the request had not been sent?  The one that it was a copy of may have run; and what
 * only its key permits to be said again is another call in other words. */
static bool
may_say_again(const InferBatch *batch)
{
	const InferFinding earlier = {
		.reason = INFER_REASON_DISCONNECTED, .execution = batch->floor, .lost = true};

	if (batch->stages.by_key)
		return false;
	return batch->stages.copies == 0 || batch->floor == INFER_NOT_ADMITTED ||
		   infer_retry_allowed(&batch->class->options.rule, 0, &earlier);
}

/* Sends the same answers in new words. What was refused did not run and is no attempt. */
static void
rephrase(InferBatch *batch)
{
	batch->attempts--;
	infer_route_undo(batch);
	infer_batch_forget_body(batch);
	batch->charge.repeated = false;
	infer_batch_ready(batch);
}

static void
split(InferBatch *batch, InferSizeKind kind)
{
	infer_sizes_refused_by(batch, kind);
	rephrase(batch);
	infer_batch_part(batch, batch->nanswers / 2);
}

/* Masks the key wherever it stands in a text. */
static void
redact(char *text, size_t len, const char *key)
{
	size_t key_len = strlen(key);
	char *end = text + len;
	char *found;

	while (key_len > 0 && (found = memmem(text, end - text, key, key_len)) != NULL)
	{
		memset(found, '*', key_len);
		text = found + key_len;
	}
}

/*
 * The words of a failed attempt, without the key: some servers repeat the one they did not like.
 * It is read again for that, since nothing keeps it.  The body is masked before its words are
 * taken, for these are cut and would end in half a key; the words again, for they are decoded.
 */
static void
take_words(const InferBatch *batch, const InferHttpResult *result, char *words, size_t size)
{
	InferBuf *body = result->body;
	char *header = NULL;
	char *unused = NULL;
	const char *key = "";

	if (infer_registry_secret(batch->place->placement->server, batch->class->userid, &header,
							  &unused) == INFER_REASON_NONE &&
		header != NULL)
		key = strrchr(header, ' ') + 1;
	words[0] = '\0';
	if (result->wire.status >= 300 && body->len > 0)
	{
		redact(body->data, body->len, key);
		infer_provider_error_text(body->data, body->len, words, size);
	}
	if (words[0] == '\0' && result->error != NULL)
		strlcpy(words, result->error, size);
	redact(words, strlen(words), key);
	if (header != NULL)
	{
		explicit_bzero(header, strlen(header));
		pfree(header);
	}
}

/* What is to be said of a failed attempt: the remote's own words for an error status, else the
 * library's. */
static void
describe(const InferBatch *batch, const InferHttpResult *result, char *detail, size_t size)
{
	char *converted;

	take_words(batch, result, detail, size);
	if (result->wire.status >= 300)
		infer_echo_mask(batch, detail);
	converted = infer_convert_lossy(detail);
	strlcpy(detail, converted, size);
	pfree(converted);
	if (infer_retry_pause_is_too_long(batch->class, result->retry_after_ms * 1000))
	{
		size_t len = strlen(detail);

		snprintf(detail + len, size - len,
				 "%sit asks for a pause of " INT64_FORMAT " s, longer than the timeout",
				 len > 0 ? "; " : "", result->retry_after_ms / 1000);
	}
}

/* Some servers say with a 500 that the input is too long: they are well.  And what a caller has to
 * blame on itself keeps nobody else from a server. */
static InferReason
reason_for_health(const InferFinding *finding, const InferHttpResult *result)
{
	if (infer_provider_is_size_error(result->wire.status, result->body->data, result->body->len))
		return INFER_REASON_REQUEST_TOO_LARGE;
	if (result->perhaps_ours)
		return INFER_REASON_CANCELLED;
	return finding->reason;
}

/* Whoever gives a call less time than a second, and less than the server's owner does, hears
 * nothing of the server's load by its end. */
static InferVerdict
verdict_for_load(const InferBatch *batch, const InferFinding *finding,
				 const InferHttpResult *result)
{
	int usual_ms = batch->place->placement->server->request_timeout_ms; /* 0: not told */

	if (finding->reason == INFER_REASON_TIMEOUT && result->perhaps_ours &&
		(usual_ms == 0 || batch->timeout_ms < usual_ms))
		return INFER_VERDICT_IGNORE;
	return finding->verdict;
}

/* Did the server refuse the request only because it does not know base64? */
static bool
refuses_base64(const InferBatch *batch, const InferFinding *finding, const InferHttpResult *result)
{
	return batch->asked_base64 && finding->reason == INFER_REASON_BAD_REQUEST &&
		   finding->execution == INFER_NOT_ADMITTED && result->body->len > 0 &&
		   strstr(result->body->data, "encoding_format") != NULL;
}

/* A provider's filter may refuse a request before the model sees it. */
static InferReason
reason_of(const InferFinding *finding, const InferHttpResult *result)
{
	if (finding->reason == INFER_REASON_BAD_REQUEST &&
		infer_provider_is_filter_error(result->body->data, result->body->len))
		return INFER_REASON_FILTERED;
	return finding->reason;
}

/* The attempt has landed, and these are its words, in a buffer of 512 bytes. */
static void
land(InferBatch *batch, const InferFinding *finding, const InferHttpResult *result, char *detail)
{
	InferReply said;
	int64 tokens;

	describe(batch, result, detail, DETAIL_SIZE);
	infer_provider_find_usage(result->body->data, result->body->len, &said);
	tokens = infer_finish_usage(batch, &said);
	if (tokens < 0 && finding->execution == INFER_NOT_ADMITTED)
		tokens = 0;
	infer_finish_landed(batch, reason_for_health(finding, result),
						verdict_for_load(batch, finding, result), result, tokens);
}

static bool
is_declined(const InferHttpResult *result)
{
	return infer_provider_is_loading(result->wire.status, result->body->data, result->body->len);
}

/* A failed attempt: rephrase, split, repeat or give up. */
void
infer_finish_failure(InferBatch *batch, const InferFinding *finding, const InferHttpResult *result)
{
	int status = result->wire.status;
	int64 retry_after_ms = result->retry_after_ms;
	bool again = may_say_again(batch);
	bool splitting = again && may_split(batch, finding, result);
	bool declined = is_declined(result);
	bool rephrasing = refuses_base64(batch, finding, result);
	InferReason reason = reason_of(finding, result);
	char detail[DETAIL_SIZE];
	InferSizeKind kind = infer_provider_size_kind(result->body->data, result->body->len);

	land(batch, finding, result, detail);
	if (rephrasing)
	{
		infer_place_no_base64(batch->place);
		if (again)
		{
			rephrase(batch);
			return;
		}
	}
	if (splitting)
	{
		split(batch, kind);
		return;
	}
	infer_attempts_note(batch, reason, finding->execution, status, detail);
	if (infer_retry_later(batch, finding, declined, retry_after_ms, &reason))
		return;
	infer_finish_fail(batch, reason, finding->execution, status, detail);
}

void
infer_finish_lost(InferBatch *batch, const InferFinding *finding, const InferHttpResult *result)
{
	int status = result->wire.status;
	int64 retry_after_ms = result->retry_after_ms;
	bool declined = is_declined(result) || infer_incarnation_repeats(batch, finding);
	InferReason reason = reason_of(finding, result);
	char detail[DETAIL_SIZE];

	infer_usage_found(batch, finding, result->wire.left);
	land(batch, finding, result, detail);
	infer_attempts_note(batch, reason, finding->execution, status, detail);
	infer_route_ended(batch, finding, declined, retry_after_ms);
	batch->floor = infer_proof_floor(finding->execution, batch->floor);
}
