/*
 * core/admission.c - permits and waiting line of one key.  What it does and why: core/admission.h.
 *
 * settle() is the heart: it deals the free permits out to the line, one by one, and both who asks
 * (take) and who is to be woken (wake) read their share from it.  So nobody is woken whose share
 * another one may take, and nobody takes the share of another one.
 */
#include "core/admission.h"

#include "core/admission_line.h"

#define EXPIRED_US 1000000 /* after its time; also between two looks */
/* An alarm may be so late before somebody is woken to set it anew. */
#define ALARM_SLACK_US 500

static bool
is_same_server(const InferConfigurer *a, const InferConfigurer *b)
{
	return a->server != 0 && a->server == b->server && a->database == b->database;
}

/* May it configure the key again? */
static bool
may_change(const InferAdmission *a, const InferConfigurer *by)
{
	if (by->insists)
		return true;
	return is_same_server(by, &a->by) && by->version != 0 && by->version != a->by.version &&
		   by->version != a->replaced;
}

static void
reconfigure(InferAdmission *a, const InferAdmissionConfig *config, const InferConfigurer *by)
{
	infer_limiter_reconfigure(&a->limiter, &config->limiter);
	infer_ratelimit_set(&a->rate, config->rpm, config->tpm);
	if (!is_same_server(by, &a->by) || by->version == 0)
		a->replaced =
			0; /* what is not settled may come to nothing, and the old one be right again */
	else if (by->version != a->by.version)
		a->replaced = a->by.version;
	a->by = *by;
}

bool
infer_admission_configure(InferAdmission *a, int nnodes, const InferAdmissionConfig *config,
						  const InferConfigurer *by, int64_t now_us, bool *tell)
{
	bool first;

	infer_monitor_configure(&a->monitor, &config->monitor);
	*tell = false;
	if (a->limiter.sealed && may_change(a, by))
	{
		reconfigure(a, config, by);
		return true;
	}
	if (is_same_server(by, &a->by) && by->version != 0 && by->version == a->replaced)
		return false;
	first = infer_limiter_configure(&a->limiter, &config->limiter, tell);
	if (!first)
	{
		bool same = a->rate.rpm == (config->rpm > 0 ? config->rpm : 0) &&
					a->rate.tpm == (config->tpm > 0 ? config->tpm : 0);

		*tell |= !same && !a->limiter.told;
		a->limiter.told |= *tell;
		return false;
	}
	a->by = *by;
	infer_ratelimit_init(&a->rate, config->rpm, config->tpm, now_us);
	a->nnodes = nnodes;
	for (int p = 0; p < INFER_PRIORITY_COUNT; p++)
		a->head[p] = a->tail[p] = INFER_NOBODY;
	a->alarm = INFER_NOBODY;
	a->token_first = INFER_NOBODY;
	return true;
}

/* --- Shares --- */

/* Has the first of those that want many tokens still to wait for them? */
static bool
tokens_are_short(InferAdmission *a, const InferAdmissionNode *nodes, int64_t now_us)
{
	int first = a->token_first;

	return first != INFER_NOBODY && !infer_line_is_absent(&nodes[first], now_us) &&
		   !infer_ratelimit_tokens_fit(&a->rate, nodes[first].tokens, now_us);
}

/* Deals `room` permits out to the line; returns what is left for who comes last of that priority.
 */
static int
settle(InferAdmission *a, InferAdmissionNode *nodes, int room, int priority, int64_t now_us)
{
	int rank = tokens_are_short(a, nodes, now_us) ? nodes[a->token_first].priority : -1;

	return infer_line_settle(a, nodes, room, rank, priority, now_us);
}

/* --- Expired permits --- */

/* Takes back what processes hold that do not look; for a process that waits in vain. */
static void
take_expired(InferAdmission *a, InferAdmissionNode *nodes, int me, int64_t now_us)
{
	if (now_us - a->expired_look_us < EXPIRED_US)
		return;
	a->expired_look_us = now_us;
	for (int i = 0; i < a->nnodes; i++)
	{
		InferAdmissionNode *node = &nodes[i];

		if (node->held == 0 || i == me || now_us - node->good_until_us < EXPIRED_US)
			continue;
		infer_limiter_release(&a->limiter, node->held);
		node->expired += node->held;
		node->held = 0;
	}
}

/* --- Permits --- */

bool
infer_admission_is_shut(const InferAdmission *a, int64_t now_us)
{
	return !a->limiter.config.dry_run && (infer_monitor_opens_us(&a->monitor, now_us) > now_us ||
										  infer_dial_opens_us(&a->dial, now_us) > now_us);
}

/* Free permits, whoever they are due to. */
static int
free_permits(InferAdmission *a, bool probe, int64_t now_us)
{
	int room = infer_ratelimit_room(&a->rate, now_us);
	int by_limit = infer_limiter_room(&a->limiter, now_us);
	int by_health = probe ? 1 : infer_monitor_room(&a->monitor, now_us);
	int by_dial = infer_dial_room(&a->dial, now_us);

	if (by_limit < room)
		room = by_limit;
	if (by_health < room)
		room = by_health;
	return by_dial < room ? by_dial : room;
}

/* Tokens: a request that is too large for now is not passed by smaller ones of its rank. */
static int
within_tokens(InferAdmission *a, const InferAdmissionNode *nodes, int me, bool aside,
			  const InferAsk *ask, int granted, int64_t now_us)
{
	int first = a->token_first;

	if (a->rate.tpm == 0)
		return granted;
	if (first != INFER_NOBODY && (first != me || aside) &&
		nodes[first].priority >= (int) ask->priority &&
		!infer_line_is_absent(&nodes[first], now_us))
		return 0;
	while (granted > 0 && !infer_ratelimit_tokens_fit(&a->rate, ask->tokens * granted, now_us))
		granted--;
	return granted;
}

/* Does the process stand in line for such requests? */
static bool
stands_there(const InferAdmissionNode *node, const InferAsk *ask)
{
	return node->priority == (int) ask->priority && node->duration == (int) ask->duration;
}

/* How many of the free permits are due to `me`, who wants them: at its place, or aside of it. */
static int
due(InferAdmission *a, InferAdmissionNode *nodes, int me, bool aside, const InferAsk *ask,
	int64_t now_us)
{
	int room = free_permits(a, ask->probe, now_us);
	InferAdmissionNode *node = &nodes[me];
	int granted;

	if (room <= 0)
		return 0;
	if (aside && !ask->probe)
		room = settle(a, nodes, room, ask->priority, now_us);
	if (ask->probe || aside || infer_line_is_empty(a)) /* who waits, waits for what a probe finds */
		return room < ask->want ? room : ask->want;

	/* as if in the line; a newcomer only for as long as it takes to deal */
	if (node->want > 0)
	{
		infer_line_join(a, nodes, me, ask, ask->want, false, now_us);
		(void) settle(a, nodes, room, ask->priority, now_us);
		return node->share;
	}
	infer_line_join(a, nodes, me, ask, ask->want, false, now_us);
	(void) settle(a, nodes, room, ask->priority, now_us);
	granted = node->share;
	infer_admission_leave(a, nodes, me);
	return granted;
}

/* Its place in the line after it has asked, and got so many of those that were due to it. */
static void
stay(InferAdmission *a, InferAdmissionNode *nodes, int me, const InferAsk *ask, int before,
	 int could, int granted, int64_t now_us)
{
	const InferAdmissionNode *node = &nodes[me];
	int left = (ask->wait ? ask->want : before) - granted;

	if (left > 0)
		infer_line_join(a, nodes, me, ask, left, granted > 0, now_us);
	else
		infer_admission_leave(a, nodes, me);
	if (granted < could && node->want > 0 &&
		(a->token_first == INFER_NOBODY || nodes[a->token_first].priority < node->priority))
		a->token_first = me;
	else if (granted > 0 && a->token_first == me)
		a->token_first = INFER_NOBODY;
}

int
infer_admission_take(InferAdmission *a, InferAdmissionNode *nodes, int me, const InferAsk *ask,
					 int64_t now_us, InferPermit *permit, int64_t *stamp)
{
	InferAdmissionNode *node = &nodes[me];
	int before = node->want;
	bool aside = !ask->wait && before > 0 && !stands_there(node, ask);
	int could;
	int granted;

	if (ask->want <= 0)
		return 0;
	if (!aside)
	{
		node->woken_us = 0;
		node->passed = false;
	}
	if (before > 0 && infer_limiter_room(&a->limiter, now_us) == 0)
		take_expired(a, nodes, me, now_us);
	could = due(a, nodes, me, aside, ask, now_us);
	granted = within_tokens(a, nodes, me, aside, ask, could, now_us);
	if (granted == 0 && !ask->probe &&
		infer_monitor_gives_up(&a->monitor, ask->patience_us, now_us))
	{
		if (!aside)
			infer_admission_leave(a, nodes, me);
		return INFER_ADMISSION_GIVES_UP;
	}
	if (granted > 0)
	{
		bool shut = infer_admission_is_shut(a, now_us);

		if (node->held == 0 || node->good_until_us < now_us + ask->lasts_us)
			node->good_until_us = now_us + ask->lasts_us;
		node->held += granted;
		*permit = infer_limiter_take(&a->limiter, granted, now_us);
		permit->mark = infer_monitor_take(&a->monitor, now_us);
		permit->dial = infer_dial_take(&a->dial, now_us);
		a->stirs |= !shut && infer_admission_is_shut(a, now_us);
		*stamp = infer_ratelimit_charge(&a->rate, granted, ask->tokens * granted, now_us);
	}
	else
		a->limiter.paced += a->limiter.in_flight < infer_limiter_limit(&a->limiter);
	if (!aside)
		stay(a, nodes, me, ask, before, could, granted, now_us);
	return granted;
}

bool
infer_admission_pass(InferAdmission *a, InferAdmissionNode *nodes, int me, const InferAsk *ask,
					 int64_t now_us)
{
	if (infer_monitor_gives_up(&a->monitor, ask->patience_us, now_us))
	{
		infer_admission_leave(a, nodes, me);
		return false;
	}
	infer_line_join(a, nodes, me, ask, ask->want, false, now_us);
	nodes[me].woken_us = 0;
	nodes[me].passed = true;
	if (a->alarm == me)
		a->alarm = INFER_NOBODY;
	if (a->token_first == me)
		a->token_first = INFER_NOBODY;
	return true;
}

/* Takes n permits, or as many as it has, from a process. */
static void
put_back(InferAdmission *a, InferAdmissionNode *node, int n)
{
	int gone = n < node->expired ? n : node->expired;
	int held = n - gone < node->held ? n - gone : node->held;

	node->expired -= gone;
	node->held -= held;
	infer_limiter_release(&a->limiter, held);
}

void
infer_admission_give(InferAdmission *a, InferAdmissionNode *nodes, int me,
					 const InferPermit *permit, int n, const InferOutcome *outcome, int64_t now_us)
{
	bool shut = infer_admission_is_shut(a, now_us);

	infer_limiter_feedback(&a->limiter, permit, outcome, now_us);
	if (outcome->unsent)
	{
		infer_monitor_unsent(&a->monitor, &permit->mark, now_us);
		infer_dial_unsent(&a->dial, &permit->dial, now_us);
	}
	else
	{
		infer_monitor_hear(&a->monitor, &permit->mark, outcome->reason, outcome->verdict, now_us,
						   outcome->draw);
		infer_dial_hear(&a->dial, &permit->dial, outcome->reason, outcome->verdict, now_us,
						outcome->draw);
	}
	a->stirs |= !shut && infer_admission_is_shut(a, now_us);
	put_back(a, &nodes[me], n);
}

void
infer_admission_reclaim(InferAdmission *a, InferAdmissionNode *nodes, int me)
{
	infer_admission_leave(a, nodes, me);
	put_back(a, &nodes[me], nodes[me].held + nodes[me].expired);
}

/* --- Waking --- */

/* When one of the line could go by time alone. */
static int64_t
opens_us(InferAdmission *a, const InferAdmissionNode *nodes, int64_t now_us)
{
	int64_t tokens = a->token_first != INFER_NOBODY ? nodes[a->token_first].tokens : 0;
	int64_t opens = infer_ratelimit_opens_us(&a->rate, tokens, now_us);
	int64_t by_limit = infer_limiter_opens_us(&a->limiter, now_us);
	int64_t by_health = infer_monitor_opens_us(&a->monitor, now_us);
	int64_t by_dial = infer_dial_opens_us(&a->dial, now_us);

	if (by_limit > opens)
		opens = by_limit;
	if (by_health > opens)
		opens = by_health;
	return by_dial > opens ? by_dial : opens;
}

/* Invariant 3: names the process that must set an alarm (anew), if there is one. */
static int
who_sets_alarm(InferAdmission *a, const InferAdmissionNode *nodes, int64_t now_us)
{
	int64_t opens = opens_us(a, nodes, now_us);
	int holder = a->alarm;

	if (opens == INT64_MAX)
		return INFER_NOBODY;
	if (holder != INFER_NOBODY && !infer_line_is_absent(&nodes[holder], now_us) &&
		now_us - a->alarm_us < INFER_LINE_ABSENT_US)
		return opens + ALARM_SLACK_US < a->alarm_us ? holder : INFER_NOBODY;
	for (int p = INFER_PRIORITY_COUNT - 1; p >= 0; p--)
		for (int i = a->head[p]; i != INFER_NOBODY; i = nodes[i].next)
			if (!infer_line_is_absent(&nodes[i], now_us))
				return i;
	return INFER_NOBODY;
}

static bool
gives_up(const InferAdmission *a, const InferAdmissionNode *node, int64_t now_us)
{
	return infer_monitor_gives_up(&a->monitor, node->patience_us, now_us);
}

int
infer_admission_wake(InferAdmission *a, InferAdmissionNode *nodes, int64_t now_us, int32_t *who,
					 int size)
{
	int n = 0;
	int room;
	int setter;

	if (size <= 0)
		return 0;
	a->stirs &= !infer_line_is_empty(a);
	if (infer_line_is_empty(a))
		return 0;
	room = free_permits(a, false, now_us);
	(void) settle(a, nodes, room, INFER_PRIORITY_VLOW, now_us);
	for (int p = INFER_PRIORITY_COUNT - 1; p >= 0; p--)
	{
		for (int i = a->head[p]; i != INFER_NOBODY && n < size; i = nodes[i].next)
		{
			if (nodes[i].woken_us != 0 ||
				(nodes[i].share == 0 && !(a->stirs && nodes[i].elsewhere) &&
				 !gives_up(a, &nodes[i], now_us)))
				continue;
			nodes[i].woken_us = now_us;
			who[n++] = i;
		}
	}
	a->stirs &= n == size;
	if (n > 0 || (room > 0 && a->token_first == INFER_NOBODY))
		return n;
	setter = who_sets_alarm(a, nodes, now_us);
	if (setter != INFER_NOBODY && nodes[setter].woken_us == 0)
	{
		nodes[setter].woken_us = now_us;
		who[n++] = setter;
	}
	return n;
}

/* When time alone opens: one of those in line looks then. */
static int64_t
opening_alarm_us(InferAdmission *a, InferAdmissionNode *nodes, int me, int64_t now_us)
{
	int64_t opens;

	if (a->alarm != INFER_NOBODY && a->alarm != me &&
		!infer_line_is_absent(&nodes[a->alarm], now_us) &&
		now_us - a->alarm_us < INFER_LINE_ABSENT_US)
		return INT64_MAX;
	opens = opens_us(a, nodes, now_us);
	if (opens <= now_us)
		opens = INT64_MAX; /* what is free is due to others, who have been woken */
	a->alarm = opens == INT64_MAX ? INFER_NOBODY : me;
	a->alarm_us = opens;
	return opens;
}

int64_t
infer_admission_alarm_us(InferAdmission *a, InferAdmissionNode *nodes, int me, int64_t now_us)
{
	int64_t opens;
	int64_t given_up;

	if (nodes[me].want == 0)
		return INT64_MAX;
	opens = nodes[me].passed ? INT64_MAX : opening_alarm_us(a, nodes, me, now_us);
	given_up = infer_monitor_gives_up_us(&a->monitor, nodes[me].patience_us, now_us);
	return opens < given_up ? opens : given_up;
}
