/*
 * core/limiter.c - the shared limit of one admission key.  What it does and why: core/limiter.h.
 */
#include "core/limiter.h"

#include <limits.h>
#include <math.h>

#define REFERENCE_START 200
#define LEAST_FLOOR     0.001
/* Slow start doubles up to here, and grows by a half beyond. */
#define DOUBLE_TO 64
/* Latency says nothing below this: it is mostly our own turn-around (rule 7). */
#define LATENCY_FLOOR 16
/* Growth ends at so many times what is of use. */
#define USEFUL_FACTOR 1.25
/* Taking back a probe.  It was one if so much of its level had been proved to hold. */
#define PROBE_CUT   0.9375
#define PROVEN_PART 0.9
/* Probes beyond the level that failed last come so many times more slowly. */
#define PROBE_PATIENCE 8
/* The end is so much nearer where nothing speaks for a refusal yet. */
#define UNREFUSED 1.5
/* A refusal keeps a caller that is ending from growing the limit for so many pauses. */
#define ENDING_MEMORY 10
#define USED_PART     0.8
#define DRAIN_PART    0.75
/* What a refused request waits where no server has said so yet. */
#define FIRST_RETRY_AFTER_US 1000000

static bool
has_rule(const InferLimiter *l, uint32_t rule)
{
	return (l->config.rules & rule) != 0;
}

/* --- Configuration --- */

static double
clamp(double value, double least, double most)
{
	return value < least ? least : value > most ? most : value;
}

static InferLimiterConfig
clamp_config(const InferLimiterConfig *config)
{
	InferLimiterConfig c = *config;

	c.ceiling = c.ceiling < 1 ? 1 : c.ceiling;
	if (c.start < 1)
		c.start = REFERENCE_START;
	c.start = c.start > c.ceiling ? c.ceiling : c.start;
	c.floor = clamp(c.floor, LEAST_FLOOR, c.ceiling);
	c.decrease_factor = clamp(c.decrease_factor, 0.01, 0.99);
	return c;
}

static bool
same_config(const InferLimiterConfig *a, const InferLimiterConfig *b)
{
	return a->ceiling == b->ceiling && a->start == b->start && a->floor == b->floor &&
		   a->decrease_factor == b->decrease_factor && a->adaptive == b->adaptive &&
		   a->dry_run == b->dry_run && a->rules == b->rules;
}

static void
begin_round(InferLimiter *l)
{
	l->round_count = 0;
	l->round_size = (int) l->window;
	l->round_most = l->window * (l->window < DOUBLE_TO ? 2 : 1.5);
	l->used_before = l->used;
	l->used = l->in_flight;
}

bool
infer_limiter_configure(InferLimiter *l, const InferLimiterConfig *config, bool *tell)
{
	InferLimiterConfig c = clamp_config(config);

	*tell = false;
	if (l->sealed)
	{
		*tell = !l->told && !same_config(&c, &l->config);
		l->told |= *tell;
		return false;
	}
	*l = (InferLimiter){.config = c, .sealed = true};
	l->window = c.adaptive ? c.start : c.ceiling;
	l->window = clamp(l->window, c.floor, c.ceiling);
	l->slow_start = has_rule(l, INFER_RULE_SLOW_START);
	begin_round(l);
	l->open = l->window;
	l->low_water = l->window;
	l->last_start_us = INT64_MIN;
	l->hold_until_us = INT64_MIN;
	l->retry_after_us = FIRST_RETRY_AFTER_US;
	infer_service_init(&l->service, !has_rule(l, INFER_RULE_MEANS));
	return true;
}

void
infer_limiter_reconfigure(InferLimiter *l, const InferLimiterConfig *config)
{
	InferLimiterConfig c = clamp_config(config);
	bool unproved = l->slow_start || l->window >= l->config.ceiling;

	if (same_config(&c, &l->config))
		return;
	l->config = c;
	l->told = false;
	if (unproved && l->window < c.start)
		l->window = c.start;
	l->window = c.adaptive ? clamp(l->window, c.floor, c.ceiling) : c.ceiling;
	if (l->open > l->window || unproved)
		l->open = l->window;
	if (l->window < l->low_water)
		l->low_water = l->window;
	begin_round(l);
}

/* A window at the ceiling goes with it. */
void
infer_limiter_set_ceiling(InferLimiter *l, int ceiling)
{
	InferLimiterConfig c = l->config;
	bool governs = l->window >= c.ceiling;

	c.ceiling = ceiling;
	l->config = clamp_config(&c);
	if (governs || l->window > l->config.ceiling)
		l->window = l->open = l->config.ceiling;
	if (l->window < l->low_water)
		l->low_water = l->window;
}

void
infer_limiter_set_adaptive(InferLimiter *l, bool adaptive)
{
	l->config.adaptive = adaptive;
}

/* --- The limit --- */

static int
integral(const InferLimiter *l, double window)
{
	return (int) clamp(floor(window), 1, l->config.ceiling);
}

int
infer_limiter_limit(const InferLimiter *l)
{
	return l->config.adaptive ? integral(l, l->window) : l->config.ceiling;
}

/*
 * A limit that has never been in anybody's way may be far from what the server takes, as after
 * short statements.  A window that crept there would keep it where it is.
 */
void
infer_limiter_begin_window(const InferLimiter *l, int64_t least, InferWindowConfig *window)
{
	int limit = infer_limiter_limit(l);

	window->start = limit > least ? limit : least;
	window->slow_start = l->config.adaptive && (l->slow_start || l->service.samples == 0);
}

/* Spreading: growth opens as fast as to double within one latency. */
static void
open_up(InferLimiter *l, int64_t now_us)
{
	if (!has_rule(l, INFER_RULE_SPREAD) || l->service.samples == 0)
		l->open = l->window;
	else if (l->open < l->window && now_us > l->open_us)
		l->open *= exp2((double) (now_us - l->open_us) / l->service.horizon);
	if (l->open > l->window)
		l->open = l->window;
	l->open_us = now_us;
}

/* The limit, less what is left free for a new measurement of best. */
static double
drained(const InferLimiter *l)
{
	double most;

	if (l->service.draining == 0)
		return l->window;
	most = fmax(DRAIN_PART * infer_service_useful(&l->service), LATENCY_FLOOR);
	return fmin(most, l->window);
}

/* What may be in flight now. */
static int
capacity(InferLimiter *l, int64_t now_us)
{
	open_up(l, now_us);
	return integral(l, l->open >= 1 ? fmin(drained(l), l->open) : drained(l));
}

/* Below one: when the next single request may start. */
static int64_t
paced_until(const InferLimiter *l)
{
	double spacing;

	if (l->window >= 1 || l->last_start_us == INT64_MIN)
		return INT64_MIN;
	spacing = l->service.horizon / l->window;
	return l->last_start_us + (int64_t) spacing;
}

int
infer_limiter_room(InferLimiter *l, int64_t now_us)
{
	int room;

	if (l->config.dry_run)
		return INT_MAX;
	if (!l->config.adaptive)
		return l->config.ceiling > l->in_flight ? l->config.ceiling - l->in_flight : 0;
	room = capacity(l, now_us) - l->in_flight;
	if (room <= 0)
		return 0;
	return now_us < l->hold_until_us || now_us < paced_until(l) ? 0 : room;
}

int64_t
infer_limiter_opens_us(InferLimiter *l, int64_t now_us)
{
	int64_t opens = now_us;
	double next = l->in_flight + 1;

	if (l->config.dry_run)
		return now_us;
	if (!l->config.adaptive)
		return l->in_flight < l->config.ceiling ? now_us : INT64_MAX;
	if (next > integral(l, drained(l)))
		return INT64_MAX;
	if (next > capacity(l, now_us))
		opens = now_us + (int64_t) ceil(log2(next / l->open) * l->service.horizon) + 1;
	if (opens < l->hold_until_us)
		opens = l->hold_until_us;
	if (opens < paced_until(l))
		opens = paced_until(l);
	return opens;
}

InferPermit
infer_limiter_take(InferLimiter *l, int n, int64_t now_us)
{
	int limit = infer_limiter_limit(l);

	l->in_flight += n;
	l->granted += n;
	if (l->in_flight > l->peak)
		l->peak = l->in_flight;
	if (l->in_flight > l->used)
		l->used = l->in_flight;
	if (l->in_flight > limit)
		l->over_limit += l->in_flight - limit < n ? l->in_flight - limit : n;
	l->last_start_us = now_us;
	return (InferPermit){.epoch = l->epoch,
						 .answered = l->service.answered,
						 .level = l->in_flight,
						 .sent_us = now_us};
}

/* --- Overload --- */

/* How much is left after a refusal at `level`; see LEVEL at the top of limiter.h. */
static double
cut(const InferLimiter *l, int level)
{
	double factor = l->config.decrease_factor;
	double base = l->window;

	if (!has_rule(l, INFER_RULE_LEVEL))
		return base * factor;
	if (level < base)
		base = clamp(level, base * factor, base); /* one refusal is not the end */
	if (l->slow_start && has_rule(l, INFER_RULE_SPREAD))
		factor = PROBE_CUT;
	else if (l->proven >= PROVEN_PART * (base - 1))
		factor = PROBE_CUT > factor ? PROBE_CUT : factor;
	return base * factor;
}

static void
on_overload(InferLimiter *l, const InferPermit *permit, int64_t retry_after_us, int64_t now_us)
{
	bool at_floor = l->window <= 1 || l->window <= l->config.floor;

	l->overloads++;
	if (retry_after_us > 0)
		l->retry_after_us = retry_after_us;
	if (!l->config.adaptive)
		return;
	if (retry_after_us > 0 && (at_floor || !has_rule(l, INFER_RULE_OWN_PAUSE)) &&
		l->hold_until_us < now_us + retry_after_us && l->config.rules != 0)
		l->hold_until_us = now_us + retry_after_us;
	if (permit->epoch != l->epoch)
		return; /* the cut that answered it has been made */
	l->window = clamp(cut(l, permit->level), l->config.floor, l->window);
	l->failed = permit->level;
	l->cut_us = now_us;
	l->epoch++;
	l->decreases++;
	l->proven = 0;
	l->slow_start = false;
	if (l->open > l->window)
		l->open = l->window;
	if (l->window < l->low_water)
		l->low_water = l->window;
}

/* --- Success --- */

static bool
is_used(const InferLimiter *l)
{
	int used = l->used > l->used_before ? l->used : l->used_before;
	double open = l->open < l->window ? l->open : l->window;

	return !has_rule(l, INFER_RULE_USED) || used >= USED_PART * open - 1;
}

/*
 * Would the caller be done before a refused request may come back?  One with nothing left to send
 * is not asked: it loses nothing.  Nor does a refusal of long ago count, or a key that serves short
 * statements only would never recover from it.
 */
static bool
is_ending(const InferLimiter *l, int64_t left, int64_t now_us)
{
	double rest_us;

	if (!has_rule(l, INFER_RULE_ENDING) || left <= 0)
		return false;
	if (l->failed != 0 && now_us - l->cut_us > ENDING_MEMORY * l->retry_after_us)
		return false;
	if (l->failed == 0 && l->window < DOUBLE_TO)
		return false; /* so far it is rarely refused */
	rest_us = (double) left * l->service.horizon / (l->window > 1 ? l->window : 1);
	if (l->failed == 0)
		rest_us *= UNREFUSED;
	return rest_us < (double) l->retry_after_us;
}

/* How far growth may go by what is of use. */
static double
useful_most(const InferLimiter *l)
{
	double useful = infer_service_useful(&l->service);
	double most = useful * USEFUL_FACTOR;

	if (!has_rule(l, INFER_RULE_USEFUL))
		return l->config.ceiling;
	if (l->slow_start)
	{
		most = useful * 1.5;
		if (most < DOUBLE_TO)
			most = useful * 3 < DOUBLE_TO ? useful * 3 : DOUBLE_TO;
	}
	if (has_rule(l, INFER_RULE_FLOOR16) && most < LATENCY_FLOOR)
		most = LATENCY_FLOOR;
	return most;
}

/* A group of answers is complete: do they wait at the server? */
static void
on_group(InferLimiter *l)
{
	if (!l->slow_start || !has_rule(l, INFER_RULE_USEFUL) || !infer_service_queues(&l->service))
		return;
	l->slow_start = false;
	l->window = clamp(l->window, l->config.floor, useful_most(l));
}

/* What n units of success add. */
static double
grown(InferLimiter *l, int units)
{
	double window = l->window;
	double credit = units;

	while (window < 1 && credit >= 1)
	{
		window = window * 2 > 1 ? 1 : window * 2;
		credit--;
	}
	if (credit <= 0)
		return window;
	if (l->slow_start)
	{
		/* twice, for the estimate of use may have held it back: the round's bound counts */
		window += 2 * credit;
		return window > l->round_most ? fmax(l->round_most, l->window) : window;
	}
	if (has_rule(l, INFER_RULE_LEVEL) && l->failed > 0)
	{
		/* what failed holds by now: the server has changed */
		if (l->proven > l->failed + l->failed / PROBE_PATIENCE)
			l->failed = 0;
		else if (window >= l->failed - 1)
			credit /= PROBE_PATIENCE;
	}
	return sqrt(window * window + 2 * credit);
}

static void
on_success(InferLimiter *l, const InferPermit *permit, const InferOutcome *outcome, int64_t now_us)
{
	double window;
	double most;

	l->successes++;
	if (outcome->rtt_us > 0 &&
		infer_service_answer(&l->service, outcome->rtt_us, permit->answered, l->window))
		on_group(l);
	if (++l->round_count >= l->round_size)
		begin_round(l);
	if (!l->config.adaptive || permit->epoch != l->epoch)
		return;
	if (permit->level > l->proven)
		l->proven = permit->level;
	if (!is_used(l) || is_ending(l, outcome->left, now_us))
		return;
	open_up(l, now_us);
	window = clamp(grown(l, outcome->units), l->config.floor, l->config.ceiling);
	most = useful_most(l);
	if (window > most && window > l->window)
	{
		infer_service_blocks(&l->service);
		window = fmax(most, l->window);
	}
	l->window = window;
}

/* --- The end of a request --- */

void
infer_limiter_feedback(InferLimiter *l, const InferPermit *permit, const InferOutcome *outcome,
					   int64_t now_us)
{
	if (outcome->verdict == INFER_VERDICT_SUCCESS)
		on_success(l, permit, outcome, now_us);
	else if (outcome->verdict == INFER_VERDICT_OVERLOADED)
		on_overload(l, permit, outcome->retry_after_us, now_us);
}

void
infer_limiter_release(InferLimiter *l, int n)
{
	l->released += n;
	l->in_flight -= n;
	if (l->in_flight < 0)
		l->in_flight = 0;
}

void
infer_limiter_complete(InferLimiter *l, const InferPermit *permit, int n,
					   const InferOutcome *outcome, int64_t now_us)
{
	infer_limiter_feedback(l, permit, outcome, now_us);
	infer_limiter_release(l, n);
}

/* --- Statistics --- */

void
infer_limiter_stat_reset(InferLimiter *l)
{
	l->peak = l->in_flight;
	l->low_water = l->config.adaptive ? l->window : l->config.ceiling;
	l->granted = 0;
	l->released = -l->in_flight; /* what is out will still be counted as it comes back */
	l->successes = 0;
	l->overloads = 0;
	l->decreases = 0;
	l->paced = 0;
	l->over_limit = 0;
}
