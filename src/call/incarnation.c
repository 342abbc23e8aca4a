/*
 * call/incarnation.c - which run of its server answers a call, and whether that one may.
 *
 * What answers say goes to the route table, whoever asked.  Two kinds of calls accept answers of
 * one incarnation alone: those by a reference, which names it; and those with mixed_incarnations =
 * error, for which it is the first that has answered the statement, of each place.  Nothing in HTTP
 * has a server check it before it runs a request.  So it is looked up in the route table before a
 * request leaves: if another one is known to be up, nothing is sent.  What the table had not heard
 * yet, the answer tells: then it is thrown away, and was executed.  Neither is repeated, here or
 * elsewhere.
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
#include "call/place.h"
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

/* Why calls must not go there, in words; NULL: they may. */
static const char *
problem_of(const InferPlace *place, char *words, size_t size)
{
	const InferRef *ref = place->class->target->ref;
	char up[INFER_INCARNATION_MAX];

	if (ref == NULL && place->expected[0] == '\0')
		return NULL;
	if (ref != NULL && (place->slot.slot != ref->slot || place->slot.generation != ref->generation))
		return "the server's url has changed, or PostgreSQL was restarted";
	if (!infer_route_incarnation(place->slot, up) && ref != NULL)
		return "the server's url has changed";
	if (place->expected[0] == '\0' || strcmp(place->expected, up) == 0)
		return NULL;
	if (place->says == INFER_INCARNATION_NOWHERE)
		return "the server's option incarnation is gone, so nobody knows which one is up";
	if (up[0] == '\0' && place->says == INFER_INCARNATION_METRIC)
		return "nobody knows yet which one is up";
	if (up[0] == '\0')
		return NULL;
	snprintf(words, size, "\"%s\" is up, not \"%s\"", up, place->expected);
	return words;
}

bool
infer_incarnation_fits(const InferPlace *place)
{
	char words[256];

	return problem_of(place, words, sizeof(words)) == NULL;
}

/* What to do is another matter for a call that has no reference. */
static void
hint(InferBatch *batch)
{
	for (int i = 0; i < batch->nanswers && batch->class->target->ref == NULL; i++)
		batch->answers[i]->hint =
			"Make the statement again, or take answers of both with mixed_incarnations = allow.";
}

bool
infer_incarnation_allows(InferBatch *batch)
{
	char words[256];
	const char *problem = problem_of(batch->place, words, sizeof(words));

	if (problem == NULL)
		return true;
	hint(batch);
	infer_finish_fail(batch, INFER_REASON_STALE_INCARNATION, INFER_NOT_ADMITTED, 0, problem);
	return false;
}

bool
infer_incarnation_is_wrong(InferPlace *place, const InferHttpResult *result)
{
	const InferClass *class = place->class;
	char said[INFER_INCARNATION_MAX];

	if (place->expected[0] == '\0' && class->options.mixed == INFER_MIXED_ALLOW)
		return false;
	infer_incarnation_said(place, result, said);
	if (place->expected[0] == '\0')
		memcpy(place->expected, said, sizeof(place->expected));
	if (place->expected[0] == '\0' || (said[0] == '\0' && class->target->ref == NULL))
		return false;
	return strcmp(place->expected, said) != 0;
}

void
infer_incarnation_discard(InferBatch *batch, const InferHttpResult *result)
{
	const InferReason reason = INFER_REASON_STALE_INCARNATION;
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
				 batch->place->expected);
	infer_provider_find_usage(result->body->data, result->body->len, &reply);
	tokens = infer_finish_usage(batch, &reply);
	infer_finish_landed(batch, reason, INFER_VERDICT_SUCCESS, result, tokens);
	infer_attempts_note(batch, reason, INFER_EXECUTED, status, detail);
	hint(batch);
	infer_finish_fail(batch, reason, INFER_EXECUTED, status, detail);
}
