/*
 * core/stages.h - the walk of one call over the places that may serve it.
 *
 * core/route orders the places, core/retry says whether a failure permits another attempt at all;
 * this says where that one goes, and when the call is at its end.  gateway.md section 5,
 * failures.md 5.4; P55 to P58, P60.
 *
 *   round      the first attempt may go to any usable place.  After a failure, stage 1: another
 *              server of the same node, at most stage1_retries of them; then stage 2: servers of
 *              other nodes, at most stage2_retries.  Nothing is tried twice in a round.
 *   tier       when a round is over, the next tier (a fallback model) gets one, if there is one;
 *   pause      else all begin again, after a pause: 10 ms doubling to 5 s, less up to a half by
 *              chance; with just one place that of core/retry.  When each place that was tried
 *              gave a Retry-After, not before the first of them is over.
 *   end        of a round in which places are left that stage limits keep out: the call has failed.
 *
 * What ends a call at once: an answer that was executed; a failure that would be the same elsewhere
 * (core/retry).  NOT_FOUND, QUOTA_EXCEEDED and SERVER_FAILED speak of
 * one server: the place is out for the rest of the call, others are asked.  max_attempts, and what
 * may have been executed and may not be repeated, block: nothing new starts, but a copy that is
 * under way may still win.
 *
 * A server that honours idempotency keys may be sent again what it may have run, but no other one
 * knows the key: where nothing but the key permits the next attempt, it goes to the same place, or
 * nowhere; all others are out for the rest of the call.  And it says the same, for other words have
 * another key (by_key).
 *
 * All failed: where nothing is usable because it is down, the call waits for a change, up to
 * all_failed_wait less up to a half by chance; then it sends one probe to the best of them, as if
 * they could be reached (else nobody would ever find that they are back); if that fails and nothing
 * has come back after one more wait, all have failed.  Dead ones are not waited for.
 *
 * A decline (the server answered, but had not done what was asked: it is loading, has another
 * revision) counts as not executed.  The call's own proof is the worst of its attempts; what is
 * still under way may have been executed.
 *
 * FOR THE CALLER.  Flat; one for each call, which keeps its set of places for as long as it lasts:
 * place i is the same one every time.  In this order:
 *   infer_stages_next()     says what to do: SEND to the first of step.order that has room, HOLD
 *                           until something that is under way has ended, WAIT until then or a
 *                           change, or END.
 *   infer_stages_started()  an attempt, or a copy, left for a place;
 *   infer_stages_ended()    it failed.  (After a success nothing more is asked.)
 * Priority: infer_stages_priority().  Pure, like core/route.
 */
#ifndef INFER_CORE_STAGES_H
#define INFER_CORE_STAGES_H

#include "core/admission.h"
#include "core/retry.h"
#include "core/route.h"

#define INFER_STAGES_WORDS (INFER_ROUTE_MAX_PLACES / 64)

typedef struct InferStagesRule
{
	InferRetryRule retry; /* max_attempts counts attempts, not copies; no key_honoured */
	int stage1_retries;
	int stage2_retries;
	int64_t all_failed_wait_us;
} InferStagesRule;

/* A set of places. */
typedef struct InferPlaceSet
{
	uint64_t words[INFER_STAGES_WORDS];
} InferPlaceSet;

/* Memory must be zero before the first use. */
typedef struct InferStages
{
	int32_t attempts; /* that were started, copies not counted */
	int32_t copies;
	int32_t running;  /* under way, copies counted */
	int32_t rounds;   /* that are over */
	int32_t in_round; /* attempts of this one */
	int32_t home;     /* place of its first one */
	int32_t stage1;   /* retries of this round */
	int32_t stage2;
	int32_t tier;         /* the lowest that is not used up */
	InferPlaceSet tried;  /* in this round */
	InferPlaceSet out;    /* for the rest of the call */
	InferExecution floor; /* the worst of the attempts that have ended */
	bool ended;           /* for good */
	bool blocked;         /* nothing new, but what is under way may win */
	bool by_key;          /* the next one is permitted by its key alone */
	bool probed;
	int64_t wait_until_us;  /* all have failed; 0 = it does not wait for that */
	int64_t pause_until_us; /* between rounds; 0 = no pause */
	int64_t reopens_us; /* when the first of this round's places may be asked again; 0 = none yet */
} InferStages;

typedef enum InferStagesAction
{
	INFER_STAGES_SEND,
	INFER_STAGES_HOLD, /* something is under way, nothing new may start beside it */
	INFER_STAGES_WAIT, /* until until_us; when *on_change*, also look again when a place changes */
	INFER_STAGES_END
} InferStagesAction;

typedef enum InferStagesEnd
{
	INFER_STAGES_LAST, /* the call fails as its last attempt did */
	INFER_STAGES_CAUSE /* ... for the decision's cause: nothing matches, all are down, ... */
} InferStagesEnd;

typedef struct InferStagesStep
{
	InferStagesAction action;
	InferStagesEnd end;
	int64_t until_us; /* WAIT; else 0 */
	bool on_change;
	bool probe; /* SEND: though they are thought to be down */
	int n_order;
	int order[INFER_ROUTE_MAX_PLACES]; /* SEND: the best first */
} InferStagesStep;

/* How an attempt ended. */
typedef struct InferStagesOutcome
{
	InferFinding finding;
	bool declined;          /* answered, but nothing was done */
	bool key_honoured;      /* it had an idempotency key, and that place honours such */
	int64_t retry_after_us; /* <= 0: not said */
} InferStagesOutcome;

/* Decides anew over the snapshot; the request's min_tier and probe, and the state of places that
 * are out for this call, are set here.  draw in [0,1). */
extern void infer_stages_next(InferStages *s, const InferStagesRule *rule,
							  InferRouteRequest *request, InferRoutePlace *places, int n,
							  int64_t now_us, double draw, InferRouteDecision *decision,
							  InferStagesStep *step);
extern void infer_stages_started(InferStages *s, const InferRoutePlace *places, int place,
								 bool copy);
extern void infer_stages_ended(InferStages *s, const InferStagesRule *rule, int place,
							   const InferStagesOutcome *outcome, int64_t now_us);

/* May a copy of what is under way be sent?  One, of the first attempt: then where to, the best
 * first; else 0. */
extern int infer_stages_copies(const InferStages *s, const InferRouteDecision *decision,
							   int *order);

/* What is proved of the call as a whole. */
extern InferExecution infer_stages_execution(const InferStages *s);
/* One class higher for each retry. */
extern InferPriority infer_stages_priority(const InferStages *s, InferPriority priority);

#endif
