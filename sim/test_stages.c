/*
 * sim/test_stages.c - the walk of a call over its places: gateway.md section 5, failures.md 5.4.
 *
 * gw_5_*: section 5 of the gateway's page; fail_P*: the numbered statements on delivery.  Random
 * walks are in test_stages_random.c.
 */
#include "stages_kit.h"
#include "tap.h"

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
	/* so many of the same node, and so many of others */
	two_by_two();
	places[2].node = places[3].node = places[0].node;
	rule.stage1_retries = 2;
	all_fail(INFER_REASON_CONNECT_FAILED, NA);
	CHECK(same(run(), "a1 a2 b1 last"));
	two_by_two();
	for (int i = 1; i < nplaces; i++)
		places[i].node = places[i].server;
	rule.stage2_retries = 2;
	all_fail(INFER_REASON_CONNECT_FAILED, NA);
	CHECK(same(run(), "a1 a2 b1 last"));
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
	all_fail(INFER_REASON_CONNECT_FAILED, NA);
	rule.retry.max_attempts = 1000;
	for (int round = 0; round < 100; round++)
	{
		int64_t full = pauses[round < COUNT(pauses) ? round : COUNT(pauses) - 1] * MS;

		walk[0] = '\0';

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

/* Nobody waits for what one server asks for while another one may be asked. */
static void
test_gw_5_retry_after(void)
{
	two_by_two();
	nplaces = 2;
	rule.retry.max_attempts = 9;
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
	/* what they wanted in the last round is over */
	now_us = step.until_us;
	outcomes[0].retry_after_us = outcomes[1].retry_after_us = 4000 * MS;
	next();
	send_first();
	next();
	send_first();
	next();
	CHECK(step.action == INFER_STAGES_WAIT && step.until_us - now_us == 4000 * MS);

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

/* What only its key permits goes to the server that knows the key. */
static void
test_fail_P55_keys(void)
{
	two_by_two();
	fails(0, INFER_REASON_DISCONNECTED, ME);
	outcomes[0].key_honoured = true;
	CHECK(same(run(), "a1 ~ a1 ~ a1 ~ a1 last"));
	CHECK(infer_stages_execution(&s) == ME);

	/* ... also when another one was asked before; and not when it is refused there */
	two_by_two();
	fails(0, INFER_REASON_CONNECT_FAILED, NA);
	fails(1, INFER_REASON_SERVER_ERROR, ME);
	outcomes[1].key_honoured = true;
	outcomes[1].retry_after_us = 2000 * MS; /* the other one may be asked at once, and is not */
	next();
	send_first();
	next();
	send_first();
	fails(1, INFER_REASON_OVERLOADED, NA);
	outcomes[1].retry_after_us = 3000 * MS;
	CHECK(s.by_key);
	next();
	CHECK(step.action == INFER_STAGES_WAIT && step.until_us - now_us == 2000 * MS);
	now_us = step.until_us;
	next();
	send_first();
	next();
	CHECK(step.action == INFER_STAGES_WAIT && step.until_us - now_us == 3000 * MS);
	now_us = step.until_us;
	fails(1, INFER_REASON_NONE, NA);
	CHECK(same(run(), "a1 a2 a2 a2 ok"));

	/* one that does not honour it knows nothing; nor is a key needed where all is permitted */
	two_by_two();
	fails(0, INFER_REASON_CONNECT_FAILED, NA);
	outcomes[0].key_honoured = true;
	fails(1, INFER_REASON_DISCONNECTED, ME);
	CHECK(same(run(), "a1 a2 last"));
	two_by_two();
	rule.retry.policy = INFER_RETRY_AMBIGUOUS;
	fails(0, INFER_REASON_DISCONNECTED, ME);
	outcomes[0].key_honoured = true;
	CHECK(same(run(), "a1 a2 ok") && !s.by_key);
	two_by_two();
	rule.retry.policy = INFER_RETRY_NEVER;
	fails(0, INFER_REASON_DISCONNECTED, ME);
	outcomes[0].key_honoured = true;
	CHECK(same(run(), "a1 last"));

	/* it still runs: known to who honours the key, and fatal elsewhere */
	two_by_two();
	fails(0, INFER_REASON_CONFLICT, ME);
	outcomes[0].key_honoured = true;
	rule.retry.max_attempts = 2;
	CHECK(same(run(), "a1 ~ a1 last"));
	two_by_two();
	fails(0, INFER_REASON_CONFLICT, ME);
	CHECK(same(run(), "a1 last") && s.ended);

	/* it is down now: waited for, and probed; the others are not asked */
	two_by_two();
	fails(0, INFER_REASON_DISCONNECTED, ME);
	outcomes[0].key_honoured = true;
	next();
	send_first();
	places[0].state = INFER_PLACE_FAILED;
	next();
	CHECK(step.action == INFER_STAGES_WAIT && step.on_change);
	now_us = step.until_us;
	next();
	CHECK(step.action == INFER_STAGES_SEND && step.probe && step.n_order == 1 &&
		  step.order[0] == 0);
}

/* The first place fails while its copy is at the second one. */
static void
lose_before_the_copy(void)
{
	next();
	infer_stages_started(&s, places, 0, false);
	infer_stages_started(&s, places, 1, true);
	infer_stages_ended(&s, &rule, 0, &outcomes[0], now_us);
	next();
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

	/* both may have run, and both would know: the first one to be lost is asked again */
	two_by_two();
	fails(0, INFER_REASON_DISCONNECTED, ME);
	fails(1, INFER_REASON_DISCONNECTED, ME);
	outcomes[0].key_honoured = outcomes[1].key_honoured = true;
	lose_before_the_copy();
	CHECK(step.action == INFER_STAGES_HOLD);
	infer_stages_ended(&s, &rule, 1, &outcomes[1], now_us);
	fails(0, INFER_REASON_NONE, NA);
	CHECK(same(run(), "~ a1 ok"));
	/* ... but not when one of them would not */
	for (int knows = 0; knows < 2; knows++)
	{
		two_by_two();
		fails(0, INFER_REASON_DISCONNECTED, ME);
		fails(1, INFER_REASON_DISCONNECTED, ME);
		outcomes[knows].key_honoured = true;
		lose_before_the_copy();
		CHECK(step.action == INFER_STAGES_HOLD);
		infer_stages_ended(&s, &rule, 1, &outcomes[1], now_us);
		CHECK(same(run(), "last") && infer_stages_execution(&s) == ME);
	}

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
	lose_before_the_copy();
	CHECK(step.action == INFER_STAGES_HOLD);
	fails(1, INFER_REASON_OVERLOADED, NA);
	infer_stages_ended(&s, &rule, 1, &outcomes[1], now_us);
	CHECK(same(run(), "b1 ok"));

	/* max_attempts holds nothing back that is under way; what is fatal ends it */
	two_by_two();
	rule.retry.max_attempts = 1;
	fails(0, INFER_REASON_CONNECT_FAILED, NA);
	lose_before_the_copy();
	CHECK(step.action == INFER_STAGES_HOLD);
	two_by_two();
	fails(0, INFER_REASON_BAD_REQUEST, NA);
	lose_before_the_copy();
	CHECK(step.action == INFER_STAGES_END && infer_stages_execution(&s) == ME);
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
	TEST(fail_P55_keys);
	TEST(fail_P56_ambiguity_blocks);
	TEST(fail_P56_copy_under_way);
	TEST(fail_P57_probe_after_all_failed);
	TEST(fail_P58_all_dead);
	TEST(fail_P60_proof_of_the_call);
	return tap_done();
}
