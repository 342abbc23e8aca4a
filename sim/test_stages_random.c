/*
 * sim/test_stages_random.c - random calls over random places: whatever happens, a call is executed
 * no more often than its policy allows, and what is said of it is true.
 *
 * fail_P55 is that statement on delivery.
 */
#include "stages_kit.h"
#include "tap.h"

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
	TEST(fail_P55_executions_are_bounded);
	return tap_done();
}
