/*
 * sim/test_stages.c - the walk of a call over its places: gateway.md section 5, failures.md 5.4.
 *
 * A call is driven against a small world: each place has a script of how it ends what it gets.
 * gw_5_*: section 5 of the gateway's page; fail_P*: the numbered statements on delivery.
 */
#include "core/stages.h"
#include "tap.h"

#include <string.h>

#define COUNT(array) ((int) (sizeof(array) / sizeof((array)[0])))
#define MS           INT64_C(1000)
#define NA           INFER_NOT_ADMITTED
#define ME           INFER_MAYBE_EXECUTED
#define EX           INFER_EXECUTED

static InferRouteDecision d;
static InferStagesStep step;
static InferRoutePlace places[8];
static InferStagesOutcome outcomes[8]; /* reason NONE: it succeeds */
static int nplaces;
static InferRouteRequest request;
static InferStagesRule rule;
static InferStages s;
static int64_t now_us;
static double draw;
static char walk[256]; /* the servers that were asked: "a1 a2 b1"; then how it ended */

static void
add_place(const char *server, const char *node, int tier)
{
	places[nplaces] = (InferRoutePlace){.server = server,
										.node = node,
										.weight = 1,
										.penalty = 1,
										.tier = tier,
										.permitted = true,
										.health_weight = 10,
										.version = INFER_ROUTE_NO_VERSION};
	outcomes[nplaces++] = (InferStagesOutcome){0};
}

static void
fails(int place, InferReason reason, InferExecution execution)
{
	outcomes[place] = (InferStagesOutcome){.finding = {.reason = reason, .execution = execution}};
}

static void
begin(void)
{
	infer_route_request_init(&request);
	rule = (InferStagesRule){.retry = {INFER_DELIVERY_SINGLE, INFER_RETRY_NOT_ADMITTED, false, 4},
							 .stage1_retries = 2,
							 .stage2_retries = 2,
							 .all_failed_wait_us = 1000 * MS};
	memset(&s, 0, sizeof(s));
	nplaces = 0;
	now_us = 1000000000;
	draw = 0;
	walk[0] = '\0';
}

/* Two nodes of two servers, in this order whatever the draw. */
static void
two_by_two(void)
{
	static char *order[] = {"a1", "a2", "b1", "b2"};

	begin();
	add_place("a1", "a", 0);
	add_place("a2", "a", 0);
	add_place("b1", "b", 0);
	add_place("b2", "b", 0);
	request.prefs[INFER_ROUTE_PREFER] = (InferNames){4, order};
}

static void
next(void)
{
	infer_stages_next(&s, &rule, &request, places, nplaces, now_us, draw, &d, &step);
}

static void
note(const char *word)
{
	strcat(walk, walk[0] == '\0' ? "" : " ");
	strcat(walk, word);
}

/* Asks the first place; whether it succeeded. */
static bool
send_first(void)
{
	int place = step.order[0];

	infer_stages_started(&s, places, place, false);
	note(places[place].server);
	if (outcomes[place].finding.reason == INFER_REASON_NONE && !outcomes[place].declined)
		return true;
	infer_stages_ended(&s, &rule, place, &outcomes[place], now_us);
	return false;
}

/* Until an answer or the end; pauses are noted as "~" and waited out. */
static const char *
run(void)
{
	for (int i = 0; i < 100; i++)
	{
		next();
		switch (step.action)
		{
			case INFER_STAGES_SEND:
				if (send_first())
					return strcat(walk, " ok");
				break;
			case INFER_STAGES_WAIT:
				note("~");
				now_us = step.until_us;
				break;
			case INFER_STAGES_HOLD:
				return strcat(walk, " hold");
			case INFER_STAGES_END:
				note(step.end == INFER_STAGES_LAST ? "last" : "cause");
				return walk;
		}
	}
	return strcat(walk, " ...");
}

static bool
same(const char *a, const char *b)
{
	if (strcmp(a, b) != 0)
		printf("# \"%s\" is not \"%s\"\n", a, b);
	return strcmp(a, b) == 0;
}

static void
all_fail(InferReason reason, InferExecution execution)
{
	for (int i = 0; i < nplaces; i++)
		fails(i, reason, execution);
}

static void
test_gw_5_stage_1_then_stage_2(void)
{
	two_by_two();
	all_fail(INFER_REASON_CONNECT_FAILED, NA);
	fails(3, INFER_REASON_NONE, NA);
	CHECK(same(run(), "a1 a2 b1 b2 ok"));

	/* nobody is left: the last failure, after so many attempts */
	two_by_two();
	all_fail(INFER_REASON_OVERLOADED, NA);
	CHECK(same(run(), "a1 a2 b1 b2 last"));
	two_by_two();
	rule.retry.max_attempts = 3;
	all_fail(INFER_REASON_OVERLOADED, NA);
	CHECK(same(run(), "a1 a2 b1 last"));
}

static void
test_gw_5_stage_limits(void)
{
	two_by_two();
	rule.stage1_retries = 0;
	rule.stage2_retries = 1;
	all_fail(INFER_REASON_CONNECT_FAILED, NA);
	CHECK(same(run(), "a1 b1 last"));
	two_by_two();
	rule.stage2_retries = 0;
	all_fail(INFER_REASON_CONNECT_FAILED, NA);
	CHECK(same(run(), "a1 a2 last"));
}

static void
test_gw_5_rounds(void)
{
	static const int64_t pauses[] = {10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5000, 5000};

	/* all tried: again after a pause that grows; the stages begin anew */
	two_by_two();
	rule.retry.max_attempts = 9;
	all_fail(INFER_REASON_CONNECT_FAILED, NA);
	CHECK(same(run(), "a1 a2 b1 b2 ~ a1 a2 b1 b2 ~ a1 last"));

	two_by_two();
	nplaces = 2;
	rule.retry.max_attempts = 100;
	all_fail(INFER_REASON_CONNECT_FAILED, NA);
	for (int round = 0; round < COUNT(pauses); round++)
	{
		int64_t full = pauses[round] * MS;

		for (int i = 0; i < 2; i++)
		{
			next();
			CHECK(step.action == INFER_STAGES_SEND && step.order[0] == i);
			send_first();
		}
		draw = round % 2 == 0 ? 0 : 0.5;
		next();
		draw = 0;
		CHECK(step.action == INFER_STAGES_WAIT && !step.on_change);
		CHECK(step.until_us - now_us == (round % 2 == 0 ? full : full * 3 / 4));
		next();
		CHECK(step.action == INFER_STAGES_WAIT); /* it stays as it was drawn */
		now_us = step.until_us;
	}
}

/* One place: the pauses are those of core/retry. */
static void
test_gw_5_one_place(void)
{
	static const int64_t pauses[] = {25, 50, 100};

	two_by_two();
	nplaces = 1;
	all_fail(INFER_REASON_CONNECT_FAILED, NA);
	for (int i = 0; i < COUNT(pauses); i++)
	{
		next();
		send_first();
		next();
		CHECK(step.action == INFER_STAGES_WAIT && step.until_us - now_us == pauses[i] * MS);
		now_us = step.until_us;
	}
	CHECK(same(run(), "a1 a1 a1 a1 last"));
}

/* Nobody waits for what one server asks for while another one may be asked. */
/* A step is made anew each time: of one call's pause nothing is left in the next one's step. */
static void
test_gw_5_steps_are_of_one_call(void)
{
	two_by_two();
	step = (InferStagesStep){.until_us = now_us + 1, .on_change = true, .probe = true};
	next();
	CHECK(step.action == INFER_STAGES_SEND);
	CHECK(step.until_us == 0 && !step.on_change && !step.probe);
}

static void
test_gw_5_retry_after(void)
{
	two_by_two();
	nplaces = 2;
	all_fail(INFER_REASON_OVERLOADED, NA);
	outcomes[0].retry_after_us = 3000 * MS;
	outcomes[1].retry_after_us = 2000 * MS;
	next();
	send_first();
	next();
	CHECK(step.action == INFER_STAGES_SEND && step.order[0] == 1);
	send_first();
	next();
	CHECK(step.action == INFER_STAGES_WAIT && step.until_us - now_us == 2000 * MS);

	two_by_two();
	nplaces = 2;
	all_fail(INFER_REASON_OVERLOADED, NA);
	outcomes[0].retry_after_us = 3000 * MS;
	next();
	send_first();
	next();
	send_first();
	next();
	CHECK(step.action == INFER_STAGES_WAIT && step.until_us - now_us == 10 * MS);
}

/* The next model when the set is used up, and the first one again after it. */
static void
test_gw_5_tiers(void)
{
	two_by_two();
	places[2].tier = 1;
	places[3].tier = 2;
	rule.retry.max_attempts = 6;
	all_fail(INFER_REASON_OVERLOADED, NA);
	CHECK(same(run(), "a1 a2 b1 b2 ~ a1 a2 last"));
	/* what may have run is not asked of another model either */
	two_by_two();
	places[1].tier = places[2].tier = places[3].tier = 1;
	fails(0, INFER_REASON_TIMEOUT, ME);
	CHECK(same(run(), "a1 last"));
	/* stage limits hold within a tier */
	two_by_two();
	places[3].tier = 1;
	rule.stage1_retries = rule.stage2_retries = 0;
	all_fail(INFER_REASON_OVERLOADED, NA);
	fails(3, INFER_REASON_NONE, NA);
	CHECK(same(run(), "a1 b2 ok"));
	/* the next one is down */
	two_by_two();
	nplaces = 2;
	places[1].tier = 1;
	places[1].state = INFER_PLACE_FAILED;
	rule.retry.max_attempts = 2;
	all_fail(INFER_REASON_OVERLOADED, NA);
	CHECK(same(run(), "a1 ~ a1 last"));
	/* the next one fails, and is down then: the first one again, nobody waits for the next */
	two_by_two();
	nplaces = 2;
	places[1].tier = 1;
	rule.retry.max_attempts = 3;
	all_fail(INFER_REASON_CONNECT_FAILED, NA);
	for (int i = 0; i < 2; i++)
	{
		next();
		send_first();
	}
	places[1].state = INFER_PLACE_FAILED;
	CHECK(same(run(), "a1 a2 ~ a1 last"));
	/* the first one is out, so the second tier begins */
	two_by_two();
	places[1].tier = places[2].tier = 1;
	places[3].tier = 2;
	rule.stage1_retries = rule.stage2_retries = 0;
	all_fail(INFER_REASON_OVERLOADED, NA);
	fails(0, INFER_REASON_NOT_FOUND, NA);
	CHECK(same(run(), "a1 a2 b2 ~ a2 last"));
}

static void
test_gw_5_last_failure(void)
{
	/* refused for its contents: the same everywhere */
	two_by_two();
	all_fail(INFER_REASON_BAD_REQUEST, NA);
	CHECK(same(run(), "a1 last"));
	/* what one server does not have, or is paid for, another one may */
	two_by_two();
	fails(0, INFER_REASON_NOT_FOUND, NA);
	fails(1, INFER_REASON_QUOTA_EXCEEDED, NA);
	fails(2, INFER_REASON_SERVER_FAILED, NA);
	CHECK(same(run(), "a1 a2 b1 b2 ok"));
	/* ... and it is asked no second time in the call */
	two_by_two();
	nplaces = 2;
	rule.retry.max_attempts = 5;
	fails(0, INFER_REASON_NOT_FOUND, NA);
	fails(1, INFER_REASON_OVERLOADED, NA);
	CHECK(same(run(), "a1 a2 ~ a2 ~ a2 ~ a2 last"));
	two_by_two();
	all_fail(INFER_REASON_NOT_FOUND, NA);
	CHECK(same(run(), "a1 a2 b1 b2 last"));
	CHECK(infer_stages_execution(&s) == NA);
	two_by_two();
	fails(0, INFER_REASON_NOT_FOUND, NA);
	rule.retry.policy = INFER_RETRY_NEVER;
	CHECK(same(run(), "a1 last"));
	/* executed without a usable answer */
	two_by_two();
	rule.retry.policy = INFER_RETRY_AMBIGUOUS;
	fails(0, INFER_REASON_INCOMPLETE_REPLY, EX);
	CHECK(same(run(), "a1 last") && infer_stages_execution(&s) == EX);
}

static void
test_gw_5_priority(void)
{
	two_by_two();
	CHECK(infer_stages_priority(&s, INFER_PRIORITY_LOW) == INFER_PRIORITY_LOW);
	all_fail(INFER_REASON_CONNECT_FAILED, NA);
	for (int i = 1; i <= 4; i++)
	{
		static const InferPriority raised[] = {INFER_PRIORITY_LOW, INFER_PRIORITY_NORMAL,
											   INFER_PRIORITY_HIGH, INFER_PRIORITY_VHIGH,
											   INFER_PRIORITY_VHIGH};

		next();
		send_first();
		CHECK(infer_stages_priority(&s, INFER_PRIORITY_LOW) == raised[i]);
	}
}

/* The answer was of another revision, say: it counts as a retry, and nothing has been done. */
static void
test_gw_5_declined(void)
{
	two_by_two();
	fails(0, INFER_REASON_NONE, EX);
	outcomes[0].declined = true;
	CHECK(same(run(), "a1 a2 ok"));
	two_by_two();
	all_fail(INFER_REASON_NONE, EX);
	for (int i = 0; i < nplaces; i++)
		outcomes[i].declined = true;
	CHECK(same(run(), "a1 a2 b1 b2 last"));
	CHECK(infer_stages_execution(&s) == NA); /* fail_P60 */
	two_by_two();
	fails(0, INFER_REASON_NONE, EX);
	outcomes[0].declined = true;
	rule.retry.policy = INFER_RETRY_NEVER;
	CHECK(same(run(), "a1 last"));
}

static void
test_fail_P56_ambiguity_blocks(void)
{
	two_by_two();
	fails(0, INFER_REASON_DISCONNECTED, ME);
	CHECK(same(run(), "a1 last"));
	CHECK(infer_stages_execution(&s) == ME);

	/* permitted */
	two_by_two();
	rule.retry.policy = INFER_RETRY_AMBIGUOUS;
	fails(0, INFER_REASON_DISCONNECTED, ME);
	CHECK(same(run(), "a1 a2 ok"));
}

/* A copy that runs already may still win, and then its answer is the call's. */
static void
test_fail_P56_copy_under_way(void)
{
	int order[INFER_ROUTE_MAX_PLACES];

	two_by_two();
	fails(0, INFER_REASON_DISCONNECTED, ME);
	fails(1, INFER_REASON_OVERLOADED, NA);
	next();
	infer_stages_started(&s, places, 0, false);
	CHECK(infer_stages_copies(&s, &d, order) == 3 && order[0] == 1);
	infer_stages_started(&s, places, 1, true);
	CHECK(infer_stages_copies(&s, &d, order) == 0); /* one is enough */
	CHECK(s.attempts == 1 && infer_stages_execution(&s) == ME);
	infer_stages_ended(&s, &rule, 0, &outcomes[0], now_us);
	CHECK(infer_stages_copies(&s, &d, order) == 0);
	next();
	CHECK(step.action == INFER_STAGES_HOLD);
	infer_stages_ended(&s, &rule, 1, &outcomes[1], now_us);
	CHECK(same(run(), "last") && infer_stages_execution(&s) == ME);

	/* no copy of what is blocked, and none of a retry */
	two_by_two();
	fails(0, INFER_REASON_CONNECT_FAILED, NA);
	next();
	send_first();
	next();
	infer_stages_started(&s, places, 1, false);
	CHECK(infer_stages_copies(&s, &d, order) == 0);

	/* the attempt is over without having run: the copy is waited for, then others are asked */
	two_by_two();
	fails(0, INFER_REASON_CONNECT_FAILED, NA);
	next();
	infer_stages_started(&s, places, 0, false);
	infer_stages_started(&s, places, 1, true);
	infer_stages_ended(&s, &rule, 0, &outcomes[0], now_us);
	next();
	CHECK(step.action == INFER_STAGES_HOLD);
	fails(1, INFER_REASON_OVERLOADED, NA);
	infer_stages_ended(&s, &rule, 1, &outcomes[1], now_us);
	CHECK(same(run(), "b1 ok"));

	/* max_attempts holds nothing back that is under way; what is fatal ends it */
	two_by_two();
	rule.retry.max_attempts = 1;
	fails(0, INFER_REASON_CONNECT_FAILED, NA);
	next();
	infer_stages_started(&s, places, 0, false);
	infer_stages_started(&s, places, 1, true);
	infer_stages_ended(&s, &rule, 0, &outcomes[0], now_us);
	next();
	CHECK(step.action == INFER_STAGES_HOLD);
	two_by_two();
	fails(0, INFER_REASON_BAD_REQUEST, NA);
	next();
	infer_stages_started(&s, places, 0, false);
	infer_stages_started(&s, places, 1, true);
	infer_stages_ended(&s, &rule, 0, &outcomes[0], now_us);
	next();
	CHECK(step.action == INFER_STAGES_END && infer_stages_execution(&s) == ME);
}

static void
all_down(InferPlaceState state)
{
	for (int i = 0; i < nplaces; i++)
		places[i].state = state;
}

static void
test_fail_P57_probe_after_all_failed(void)
{
	/* silently healed: the next call succeeds within the wait and one attempt */
	two_by_two();
	all_down(INFER_PLACE_FAILED);
	next();
	CHECK(step.action == INFER_STAGES_WAIT && step.on_change);
	CHECK(step.until_us - now_us == 1000 * MS);
	CHECK(same(run(), "~ a1 ok") && step.probe);

	/* still down: one probe in a call, one more wait, and the end */
	two_by_two();
	all_down(INFER_PLACE_FAILED);
	all_fail(INFER_REASON_CONNECT_FAILED, NA);
	CHECK(same(run(), "~ a1 ~ cause"));
	CHECK(d.cause == INFER_CAUSE_ALL_FAILED && infer_stages_execution(&s) == NA);
	CHECK(s.attempts == 1);

	/* chance shortens the wait, down to a half; a change ends it */
	two_by_two();
	all_down(INFER_PLACE_FAILED);
	draw = 0.5;
	next();
	draw = 0;
	CHECK(step.until_us - now_us == 750 * MS);
	now_us += 100 * MS;
	next();
	CHECK(step.action == INFER_STAGES_WAIT && step.until_us - now_us == 650 * MS);
	places[2].state = INFER_PLACE_UP;
	next();
	CHECK(step.action == INFER_STAGES_SEND && !step.probe && step.n_order == 1);
	CHECK(step.order[0] == 2);
	/* that was no probe: the call has one yet, and it goes to what was tried as well */
	fails(2, INFER_REASON_CONNECT_FAILED, NA);
	send_first();
	places[2].state = INFER_PLACE_FAILED;
	walk[0] = '\0';
	all_fail(INFER_REASON_CONNECT_FAILED, NA);
	places[0].state = places[1].state = places[3].state = INFER_PLACE_DEAD;
	CHECK(same(run(), "~ b1 ~ cause"));

	/* it may have run: blocked as any other attempt */
	two_by_two();
	all_down(INFER_PLACE_FAILED);
	all_fail(INFER_REASON_TIMEOUT, ME);
	CHECK(same(run(), "~ a1 last") && infer_stages_execution(&s) == ME);

	/* what is included, and down, is waited for in the same way; no other one is asked */
	two_by_two();
	request.prefs[INFER_ROUTE_INCLUDE] = (InferNames){1, (char *[]){"b2"}};
	places[3].state = INFER_PLACE_FAILED;
	CHECK(same(run(), "~ b2 ok"));
	two_by_two();
	request.prefs[INFER_ROUTE_INCLUDE] = (InferNames){1, (char *[]){"b2"}};
	places[3].state = INFER_PLACE_FAILED;
	all_fail(INFER_REASON_CONNECT_FAILED, NA);
	CHECK(same(run(), "~ b2 ~ cause") && d.cause == INFER_CAUSE_NO_DEST);
}

static void
test_fail_P58_all_dead(void)
{
	two_by_two();
	all_down(INFER_PLACE_DEAD);
	CHECK(same(run(), "cause") && d.cause == INFER_CAUSE_STALE);
	/* one that is down may come back */
	two_by_two();
	all_down(INFER_PLACE_DEAD);
	places[1].state = INFER_PLACE_FAILED;
	CHECK(same(run(), "~ a2 ok"));
	/* and nothing is waited for where nothing matches */
	two_by_two();
	request.prefs[INFER_ROUTE_EXCLUDE] = (InferNames){2, (char *[]){"a", "b"}};
	CHECK(same(run(), "cause") && d.cause == INFER_CAUSE_NO_DEST);
	two_by_two();
	request.prefs[INFER_ROUTE_INCLUDE] = (InferNames){1, (char *[]){"c"}};
	CHECK(same(run(), "cause") && d.cause == INFER_CAUSE_NO_DEST);
}

static void
test_fail_P60_proof_of_the_call(void)
{
	two_by_two();
	rule.retry.policy = INFER_RETRY_AMBIGUOUS;
	CHECK(infer_stages_execution(&s) == NA);
	next();
	infer_stages_started(&s, places, 0, false);
	CHECK(infer_stages_execution(&s) == ME); /* under way */
	fails(0, INFER_REASON_OVERLOADED, NA);
	infer_stages_ended(&s, &rule, 0, &outcomes[0], now_us);
	CHECK(infer_stages_execution(&s) == NA);
	fails(1, INFER_REASON_TIMEOUT, ME);
	next();
	send_first();
	CHECK(infer_stages_execution(&s) == ME);
	fails(2, INFER_REASON_OVERLOADED, NA); /* the worst, not the last */
	next();
	send_first();
	CHECK(infer_stages_execution(&s) == ME);
	fails(3, INFER_REASON_MALFORMED_REPLY, EX);
	next();
	send_first();
	CHECK(infer_stages_execution(&s) == EX);
}

/* Random calls -------------------------------------------------------------------------------- */

static uint64_t random_state;

static int
below(int n)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (int) ((random_state >> 33) % (uint64_t) n);
}

static int ledger; /* how often the call was executed */
static int copies;

/* An attempt ends; what it proves is true. False: it succeeded. */
static bool
ends_somehow(int place)
{
	static const InferReason reasons[] = {INFER_REASON_CONNECT_FAILED, INFER_REASON_OVERLOADED,
										  INFER_REASON_TIMEOUT,        INFER_REASON_DISCONNECTED,
										  INFER_REASON_NOT_FOUND,      INFER_REASON_BAD_REQUEST};
	InferStagesOutcome outcome = {.retry_after_us = below(4) == 0 ? below(2000) * MS : 0};

	outcome.finding.reason = reasons[below(8) == 0 ? 5 : below(5)];
	outcome.finding.execution = (InferExecution) (below(10) == 0 ? 2 : below(2));
	outcome.finding.lost = outcome.finding.reason == INFER_REASON_DISCONNECTED;
	if (below(6) == 0)
	{
		ledger++;
		return false;
	}
	ledger += outcome.finding.execution == EX || (outcome.finding.execution == ME && below(2) == 0);
	infer_stages_ended(&s, &rule, place, &outcome, now_us);
	return true;
}

static void
check_order(const bool *asked)
{
	for (int i = 0; i < step.n_order; i++)
	{
		CHECK(step.probe || !asked[step.order[i]]);
		CHECK(places[step.order[i]].state != INFER_PLACE_DEAD);
	}
	CHECK(step.n_order > 0);
}

/* Runs the call to its end; whether it succeeded. */
static bool
random_call(void)
{
	bool asked[COUNT(places)] = {false}; /* in this round and tier */
	int probes = 0;
	int tier = 0;

	for (int i = 0; i < 200; i++)
	{
		int place;
		int second = -1;

		draw = below(1000) / 1000.0;
		next();
		CHECK(step.action != INFER_STAGES_HOLD);
		if (step.action == INFER_STAGES_END)
			return false;
		if (step.action == INFER_STAGES_WAIT)
		{
			CHECK(step.until_us > now_us && step.until_us <= now_us + 5000 * MS);
			now_us = step.on_change ? now_us + below(1000) * MS : step.until_us;
			if (!step.on_change)
				memset(asked, 0, sizeof(asked));
			if (below(3) == 0 && places[0].state == INFER_PLACE_FAILED)
				places[0].state = INFER_PLACE_UP;
			continue;
		}
		if (places[step.order[0]].tier != tier)
			memset(asked, 0, sizeof(asked));
		check_order(asked);
		place = step.order[0];
		tier = places[place].tier;
		probes += step.probe;
		infer_stages_started(&s, places, place, false);
		asked[place] = true;
		if (below(3) == 0)
		{
			int order[INFER_ROUTE_MAX_PLACES];

			if (infer_stages_copies(&s, &d, order) > 0)
			{
				second = order[0];
				CHECK(!asked[second]);
				asked[second] = true;
				copies++;
				infer_stages_started(&s, places, second, true);
			}
		}
		CHECK(s.attempts <= rule.retry.max_attempts && probes <= 1);
		if (!ends_somehow(place))
			return true;
		if (second >= 0 && !ends_somehow(second))
			return true;
	}
	CHECK(false); /* it never ended */
	return false;
}

/* Executions are bounded, and what is said of them is true. */
static void
test_fail_P55_executions_are_bounded(void)
{
	int won = 0;
	int all_failed = 0;
	int copied = 0;

	random_state = 7;
	for (int call = 0; call < 20000 && tap_failures < 10; call++)
	{
		static const char *const names[] = {"s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"};
		static const char *const nodes[] = {"a", "b", "c"};
		bool success;
		bool ambiguous;

		begin();
		for (int n = 1 + below(COUNT(places)); nplaces < n;)
		{
			add_place(names[nplaces], nodes[below(3)], below(4) == 0);
			if (below(3) == 0)
				places[nplaces - 1].state = (InferPlaceState) below(5);
		}
		if (below(10) == 0)
			all_down(INFER_PLACE_FAILED);
		rule.retry.policy = (InferRetryPolicy) below(3);
		rule.retry.max_attempts = 1 + below(6);
		rule.stage1_retries = below(3);
		rule.stage2_retries = below(3);
		ambiguous = rule.retry.policy == INFER_RETRY_AMBIGUOUS;
		ledger = copies = 0;
		success = random_call();
		CHECK(ledger <= (ambiguous ? rule.retry.max_attempts : 1) + copies);
		if (!success)
		{
			CHECK(infer_stages_execution(&s) != NA || ledger == 0);
			CHECK(infer_stages_execution(&s) != EX || ledger > 0);
		}
		CHECK(rule.retry.policy != INFER_RETRY_NEVER || s.attempts <= 1);
		won += success;
		all_failed += !success && step.end == INFER_STAGES_CAUSE &&
					  d.cause == INFER_CAUSE_ALL_FAILED && s.attempts > 0;
		copied += copies > 0;
	}
	printf("# %d won, %d ended after their probe, %d had a copy\n", won, all_failed, copied);
	CHECK(won > 3000 && all_failed > 50 && copied > 2000);
}

int
main(void)
{
	TEST(gw_5_stage_1_then_stage_2);
	TEST(gw_5_stage_limits);
	TEST(gw_5_rounds);
	TEST(gw_5_one_place);
	TEST(gw_5_steps_are_of_one_call);
	TEST(gw_5_retry_after);
	TEST(gw_5_tiers);
	TEST(gw_5_last_failure);
	TEST(gw_5_priority);
	TEST(gw_5_declined);
	TEST(fail_P56_ambiguity_blocks);
	TEST(fail_P56_copy_under_way);
	TEST(fail_P57_probe_after_all_failed);
	TEST(fail_P58_all_dead);
	TEST(fail_P60_proof_of_the_call);
	TEST(fail_P55_executions_are_bounded);
	return tap_done();
}
