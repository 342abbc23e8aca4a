/*
 * core/stages.c - the walk of one call over the places that may serve it: core/stages.h.
 */
#include "core/stages.h"

#include <string.h>

#define ROUND_PAUSE_US     INT64_C(10000)
#define ROUND_PAUSE_MAX_US INT64_C(5000000)
#define JITTER             0.5 /* only shortens */

/* --- Sets of places --- */

static bool
has(const InferPlaceSet *set, int place)
{
	return (set->words[place / 64] >> (place % 64) & 1) != 0;
}

static void
put(InferPlaceSet *set, int place)
{
	set->words[place / 64] |= UINT64_C(1) << (place % 64);
}

static bool
same_node(const InferRoutePlace *a, const InferRoutePlace *b)
{
	return strcmp(a->node == NULL ? "" : a->node, b->node == NULL ? "" : b->node) == 0;
}

/* --- Attempts --- */

void
infer_stages_started(InferStages *s, const InferRoutePlace *places, int place, bool copy)
{
	s->running++;
	put(&s->tried, place);
	if (copy)
	{
		s->copies++;
		return;
	}
	s->attempts++;
	if (s->in_round++ == 0)
		s->home = place;
	else if (same_node(&places[place], &places[s->home]))
		s->stage1++;
	else
		s->stage2++;
	if (s->wait_until_us > 0)
		s->probed = true;
	s->wait_until_us = 0;
}

/* Does the failure speak of this server only, and would it say the same again? */
static bool
puts_out(const InferFinding *finding)
{
	if (finding->execution != INFER_NOT_ADMITTED)
		return false;
	switch (finding->reason)
	{
		case INFER_REASON_NOT_FOUND:
		case INFER_REASON_QUOTA_EXCEEDED:
		case INFER_REASON_SERVER_FAILED:
			return true;
		default:
			return false;
	}
}

/* Is another attempt of no use, or forbidden, whatever the caller permits? */
static bool
is_fatal(bool key_honoured, const InferFinding *finding)
{
	InferRetryRule anything = {INFER_DELIVERY_SINGLE, INFER_RETRY_AMBIGUOUS, key_honoured, 2};

	return !infer_retry_allowed(&anything, 1, finding);
}

/* Only that place knows the key.  If another one was kept for its key before, this was a copy. */
static void
keep_only(InferStages *s, int place)
{
	s->by_key = true;
	if (has(&s->out, place))
		return;
	memset(&s->out, 0xff, sizeof(s->out));
	s->out.words[place / 64] &= ~(UINT64_C(1) << (place % 64));
	s->reopens_us = 0; /* what others have asked for is over */
}

static void
note_retry_after(InferStages *s, int64_t retry_after_us, int64_t now_us)
{
	int64_t reopens_us = now_us + (retry_after_us > 0 ? retry_after_us : 0);

	if (s->reopens_us == 0 || reopens_us < s->reopens_us)
		s->reopens_us = reopens_us;
}

void
infer_stages_ended(InferStages *s, const InferStagesRule *rule, int place,
				   const InferStagesOutcome *outcome, int64_t now_us)
{
	const InferFinding *finding = &outcome->finding;
	InferExecution execution = outcome->declined ? INFER_NOT_ADMITTED : finding->execution;
	bool elsewhere = outcome->declined || puts_out(finding);
	InferRetryRule here = rule->retry;

	here.key_honoured = outcome->key_honoured;
	s->running--;
	if (execution > s->floor)
		s->floor = execution;
	if (puts_out(finding))
		put(&s->out, place);
	if (!elsewhere && is_fatal(here.key_honoured, finding))
		s->ended = true;
	else if (s->attempts >= rule->retry.max_attempts || rule->retry.policy == INFER_RETRY_NEVER)
		s->blocked = true;
	else if (!elsewhere && !infer_retry_allowed(&here, s->attempts, finding))
		s->blocked = true;
	else if (!elsewhere && !infer_retry_allowed(&rule->retry, s->attempts, finding))
		keep_only(s, place);
	note_retry_after(s, outcome->retry_after_us, now_us);
}

InferExecution
infer_stages_execution(const InferStages *s)
{
	return s->running > 0 && s->floor < INFER_MAYBE_EXECUTED ? INFER_MAYBE_EXECUTED : s->floor;
}

InferPriority
infer_stages_priority(const InferStages *s, InferPriority priority)
{
	int raised = (int) priority + (s->attempts > 0 ? s->attempts : 0);

	return raised < INFER_PRIORITY_VHIGH ? (InferPriority) raised : INFER_PRIORITY_VHIGH;
}

/* --- Rounds --- */

static void
begin_round(InferStages *s, int tier)
{
	memset(&s->tried, 0, sizeof(s->tried));
	s->in_round = s->stage1 = s->stage2 = 0;
	s->reopens_us = 0;
	s->tier = tier;
}

static int64_t
round_pause_us(const InferStages *s, double draw)
{
	int64_t pause_us = ROUND_PAUSE_US;

	if (s->in_round == 1)
		return infer_retry_delay_ms(s->attempts, -1, draw) * 1000;
	for (int i = 0; i < s->rounds && pause_us < ROUND_PAUSE_MAX_US; i++)
		pause_us *= 2;
	if (pause_us > ROUND_PAUSE_MAX_US)
		pause_us = ROUND_PAUSE_MAX_US;
	return (int64_t) ((double) pause_us * (1 - JITTER * draw));
}

static void
end_round(InferStages *s, int64_t now_us, double draw)
{
	s->pause_until_us = now_us + round_pause_us(s, draw);
	if (s->reopens_us > s->pause_until_us)
		s->pause_until_us = s->reopens_us;
	s->rounds++;
	begin_round(s, 0);
}

/* The next tier that has something to offer; -1 = none. */
static int
next_tier(const InferRoutePlace *places, int n, const InferRouteDecision *decision)
{
	int tier = -1;

	for (int i = 0; i < n && i < INFER_ROUTE_MAX_PLACES; i++)
		if (decision->places[i].reason == INFER_BY_TIER && places[i].tier > decision->tier &&
			(tier < 0 || places[i].tier < tier))
			tier = places[i].tier;
	return tier;
}

/* Where the next attempt of this round may go. */
static void
list_places(const InferStages *s, const InferStagesRule *rule, const InferRoutePlace *places,
			const InferRouteDecision *decision, InferStagesStep *step)
{
	for (int stage = s->in_round == 0 ? 0 : 1; stage <= (s->in_round == 0 ? 0 : 2); stage++)
	{
		if ((stage == 1 && s->stage1 >= rule->stage1_retries) ||
			(stage == 2 && s->stage2 >= rule->stage2_retries))
			continue;
		for (int rank = 0; rank < decision->n_order; rank++)
		{
			int place = decision->order[rank];

			if (!has(&s->tried, place) &&
				(stage == 0 || same_node(&places[place], &places[s->home]) == (stage == 1)))
				step->order[step->n_order++] = place;
		}
	}
}

static bool
all_tried(const InferStages *s, const InferRouteDecision *decision)
{
	for (int rank = 0; rank < decision->n_order; rank++)
		if (!has(&s->tried, decision->order[rank]))
			return false;
	return true;
}

/* --- Steps --- */

static void
end(const InferStages *s, InferStagesStep *step)
{
	step->action = INFER_STAGES_END;
	step->end = s->attempts > 0 ? INFER_STAGES_LAST : INFER_STAGES_CAUSE;
}

static void
wait_until(InferStagesStep *step, int64_t until_us, bool on_change)
{
	step->action = INFER_STAGES_WAIT;
	step->until_us = until_us;
	step->on_change = on_change;
}

static bool
may_come_back(const InferRouteDecision *decision)
{
	return decision->cause == INFER_CAUSE_ALL_FAILED ||
		   (decision->cause == INFER_CAUSE_NO_DEST && decision->reason == INFER_BY_INCLUDE &&
			decision->target_reason == INFER_BY_FAILED);
}

/* All have failed: a bounded wait, one probe, another wait. */
static void
bear_with_failure(InferStages *s, const InferStagesRule *rule, InferRouteRequest *request,
				  InferRoutePlace *places, int n, int64_t now_us, double draw,
				  InferRouteDecision *decision, InferStagesStep *step)
{
	if (s->wait_until_us == 0)
		s->wait_until_us =
			now_us + (int64_t) ((double) rule->all_failed_wait_us * (1 - JITTER * draw));
	if (now_us < s->wait_until_us)
	{
		wait_until(step, s->wait_until_us, true);
		return;
	}
	if (!s->probed)
	{
		request->probe = true;
		infer_route_decide(request, places, n, now_us, draw, decision);
		if (decision->cause == INFER_CAUSE_NONE)
		{
			step->action = INFER_STAGES_SEND;
			step->probe = true;
			begin_round(s, s->tier);
			step->n_order = decision->n_order;
			memcpy(step->order, decision->order, sizeof(int) * (size_t) decision->n_order);
			return;
		}
	}
	step->action = INFER_STAGES_END;
	step->end = INFER_STAGES_CAUSE;
}

/* Sends, if this round, or the next tier, has a place left. */
static bool
find_place(InferStages *s, const InferStagesRule *rule, InferRouteRequest *request,
		   const InferRoutePlace *places, int n, int64_t now_us, double draw,
		   InferRouteDecision *decision, InferStagesStep *step)
{
	for (;;)
	{
		int tier;

		list_places(s, rule, places, decision, step);
		if (step->n_order > 0)
			return true;
		tier = next_tier(places, n, decision);
		if (tier < 0)
			return false;
		begin_round(s, tier);
		request->min_tier = tier;
		infer_route_decide(request, places, n, now_us, draw, decision);
	}
}

void
infer_stages_next(InferStages *s, const InferStagesRule *rule, InferRouteRequest *request,
				  InferRoutePlace *places, int n, int64_t now_us, double draw,
				  InferRouteDecision *decision, InferStagesStep *step)
{
	step->n_order = 0;
	step->until_us = 0;
	step->on_change = step->probe = false;
	if (!s->ended && s->running > 0)
	{
		step->action = INFER_STAGES_HOLD;
		return;
	}
	if (s->ended || s->blocked)
	{
		end(s, step);
		return;
	}
	if (now_us < s->pause_until_us)
	{
		wait_until(step, s->pause_until_us, false);
		return;
	}
	for (int i = 0; i < n && i < INFER_ROUTE_MAX_PLACES; i++)
		if (has(&s->out, i))
			places[i].state = INFER_PLACE_DEAD;
	request->min_tier = s->tier;
	request->probe = false;
	infer_route_decide(request, places, n, now_us, draw, decision);
	if (decision->cause != INFER_CAUSE_NONE && s->tier > 0)
	{
		end_round(s, now_us, draw);
		wait_until(step, s->pause_until_us, false);
		return;
	}
	if (decision->cause != INFER_CAUSE_NONE)
	{
		if (may_come_back(decision))
			bear_with_failure(s, rule, request, places, n, now_us, draw, decision, step);
		else
			end(s, step);
		return;
	}
	s->wait_until_us = 0;
	/* what fell out, or came back, has moved the call to another tier */
	if (s->in_round > 0 && places[s->home].tier != decision->tier)
		begin_round(s, s->tier);
	if (find_place(s, rule, request, places, n, now_us, draw, decision, step))
	{
		step->action = INFER_STAGES_SEND;
		return;
	}
	if (!all_tried(s, decision))
	{
		end(s, step);
		return;
	}
	end_round(s, now_us, draw);
	wait_until(step, s->pause_until_us, false);
}

int
infer_stages_copies(const InferStages *s, const InferRouteDecision *decision, int *order)
{
	int n = 0;

	if (s->attempts != 1 || s->running != 1 || s->copies > 0)
		return 0;
	for (int rank = 0; rank < decision->n_order; rank++)
		if (!has(&s->tried, decision->order[rank]))
			order[n++] = decision->order[rank];
	return n;
}
