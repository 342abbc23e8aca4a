/*
 * call/incarnation.c - which run of its server answers a call, and whether that one may.
 *
 * What answers say goes to the route table, whoever asked.  Three kinds of calls accept answers of
 * one incarnation alone: those by a reference, which names it; those with mixed_incarnations =
 * error, for which it is the first that has answered the statement, of each place; and those with
 * retry, for which it is the first of whatever place.  Nothing in HTTP
 * has a server check it before it runs a request.  So it is looked up in the route table before a
 * request leaves: if another one is known to be up, nothing is sent.  What the table had not heard
 * yet, the answer tells: then it is thrown away, and was executed.  Neither is repeated, here or
 * elsewhere; but with retry, where it goes to places that are still of the one that is expected.
 *
 * A reference never takes an answer of which it is not known whose it is.  Where a metric says it,
 * the answer itself does not: then what the table says when the answer comes must do.
 */
#include "postgres.h"

#include "call/attempts.h"
#include "call/batch.h"
#include "call/class.h"
#include "call/finish.h"
#include "call/incarnation.h"
#include "call/memo.h"
#include "call/permit.h"
#include "call/place.h"
#include "call/retry.h"
#include "core/incarnation.h"
#include "core/ref.h"
#include "core/types.h"
#include "http/transport.h"
#include "pg/guc.h"
#include "provider/incarnation.h"
#include "provider/provider.h"
#include "shmem/route.h"

void
infer_incarnation_prepare(InferPlace *place)
{
	const InferRef *ref = place->class->target->ref;

	place->says = infer_incarnation_place(place->placement->server->incarnation, &place->says_as);
	if (ref != NULL)
		memcpy(place->expected, ref->incarnation, sizeof(place->expected));
}

const char *
infer_incarnation_header(const InferPlace *place)
{
	return place->says == INFER_INCARNATION_HEADER ? place->says_as : NULL;
}

void
infer_incarnation_said(const InferPlace *place, const InferHttpResult *result, char *said)
{
	said[0] = '\0';
	if (place->says == INFER_INCARNATION_HEADER)
		memcpy(said, result->incarnation, INFER_INCARNATION_MAX);
	else if (place->says == INFER_INCARNATION_FIELD)
		infer_provider_read_field(result->body->data, result->body->len, place->says_as, said);
	else if (place->says == INFER_INCARNATION_METRIC)
		(void) infer_route_incarnation(place->slot, said);
}

/* Does the class ask elsewhere where another incarnation than expected is up? */
static bool
retries(const InferClass *class)
{
	return class->options.mixed == INFER_MIXED_RETRY && class->nplaces > 1;
}

/* Whom to expect there, "" = anybody; and where to note it. */
static char *
expected(InferPlace *place)
{
	return retries(place->class) ? place->class->expected : place->expected;
}

/* Why calls must not go there, in words; NULL: they may. */
static const char *
problem_of(InferPlace *place, char *words, size_t size)
{
	const InferRef *ref = place->class->target->ref;
	const char *wanted = expected(place);
	char up[INFER_INCARNATION_MAX];

	if (ref == NULL && wanted[0] == '\0')
		return NULL;
	if (ref != NULL && (place->slot.slot != ref->slot || place->slot.generation != ref->generation))
		return "the server's url has changed, or PostgreSQL was restarted";
	if (!infer_route_incarnation(place->slot, up) && ref != NULL)
		return "the server's url has changed";
	if (wanted[0] == '\0' || strcmp(wanted, up) == 0)
		return NULL;
	if (place->says == INFER_INCARNATION_NOWHERE && ref == NULL)
		return NULL; /* its answers count as any other */
	if (place->says == INFER_INCARNATION_NOWHERE)
		return "the server's option incarnation is gone, so nobody knows which one is up";
	if (up[0] == '\0' && place->says == INFER_INCARNATION_METRIC)
		return "nobody knows yet which one is up";
	if (up[0] == '\0')
		return NULL;
	snprintf(words, size, "\"%s\" is up, not \"%s\"", up, wanted);
	return words;
}

bool
infer_incarnation_fits(InferPlace *place)
{
	char words[256];

	return problem_of(place, words, sizeof(words)) == NULL;
}

bool
infer_incarnation_leaves_out(InferPlace *place)
{
	return retries(place->class) && !infer_incarnation_fits(place);
}

bool
infer_incarnation_came_between(InferBatch *batch)
{
	if (!infer_incarnation_leaves_out(batch->place))
		return false;
	infer_permit_release(batch, &infer_outcome_unsent, NULL);
	infer_route_release(&batch->reservation, NULL);
	return true;
}

/* What to do is another matter for a call that has no reference. */
void
infer_incarnation_hint(InferBatch *batch)
{
	for (int i = 0; i < batch->nanswers && batch->class->target->ref == NULL; i++)
		batch->answers[i]->hint =
			"Make the statement again, or take answers of both with mixed_incarnations = allow.";
}

bool
infer_incarnation_left_nothing(InferBatch *batch, char *detail, size_t size)
{
	InferClass *class = batch->class;
	bool any = false;

	for (int i = 0; i < class->nplaces; i++)
		any |= infer_incarnation_leaves_out(&class->places[i]);
	if (!any)
		return false;
	snprintf(detail, size, "no server that can be asked is \"%s\", which the statement began with",
			 class->expected);
	infer_incarnation_hint(batch);
	return true;
}

bool
infer_incarnation_allows(InferBatch *batch)
{
	char words[256];
	const char *problem = problem_of(batch->place, words, sizeof(words));

	if (problem == NULL)
		return true;
	infer_incarnation_hint(batch);
	infer_finish_fail(batch, INFER_REASON_STALE_INCARNATION, INFER_NOT_ADMITTED, 0, problem);
	return false;
}

bool
infer_incarnation_is_wrong(InferPlace *place, const InferHttpResult *result)
{
	const InferClass *class = place->class;
	char *wanted = expected(place);
	char said[INFER_INCARNATION_MAX];

	if (wanted[0] == '\0' && class->options.mixed == INFER_MIXED_ALLOW)
		return false;
	infer_incarnation_said(place, result, said);
	if (wanted[0] == '\0')
		memcpy(wanted, said, sizeof(said));
	if (wanted[0] == '\0' || (said[0] == '\0' && class->target->ref == NULL))
		return false;
	return strcmp(wanted, said) != 0;
}

bool
infer_incarnation_repeats(const InferBatch *batch, const InferFinding *finding)
{
	return finding->reason == INFER_REASON_STALE_INCARNATION && retries(batch->class);
}

void
infer_incarnation_discard(InferBatch *batch, const InferFinding *finding,
						  const InferHttpResult *result)
{
	InferReason reason = finding->reason;
	bool repeats = infer_incarnation_repeats(batch, finding);
	int status = result->wire.status;
	char said[INFER_INCARNATION_MAX];
	char detail[256];
	InferReply reply;
	int64 tokens;

	infer_incarnation_said(batch->place, result, said);
	if (said[0] == '\0')
		snprintf(detail, sizeof(detail), "the answer does not say whose it is");
	else
		snprintf(detail, sizeof(detail), "\"%s\" has answered, not \"%s\"", said,
				 expected(batch->place));
	infer_provider_find_usage(result->body->data, result->body->len, &reply);
	tokens = infer_finish_usage(batch, &reply);
	infer_finish_landed(batch, reason, finding->verdict, result, tokens);
	infer_attempts_note(batch, reason, finding->execution, status, detail);
	if (repeats && infer_retry_later(batch, finding, true, -1, &reason))
		return;
	infer_incarnation_hint(batch);
	infer_finish_fail(batch, reason, finding->execution, status, detail);
}
