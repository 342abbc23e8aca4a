/*
 * sim/test_retry.c - who is asked again, when, and how often: tables of input and output.
 *
 * fail_P*: the numbered statements on delivery and retries.
 */
#include "core/retry.h"
#include "core/retry_budget.h"
#include "tap.h"

#include <string.h>

#define NA INFER_NOT_ADMITTED
#define ME INFER_MAYBE_EXECUTED
#define EX INFER_EXECUTED

#define WIRE(...)                                                                                  \
	(InferWire)                                                                                    \
	{                                                                                              \
		__VA_ARGS__                                                                                \
	}
/* all of the request left */
#define SENT .left = true, .request_complete = true

static bool
may(int delivery, InferRetryPolicy policy, int attempts, int most, InferReason reason,
	InferExecution execution)
{
	InferRetryRule rule = {(InferDelivery) delivery, policy, false, most};
	InferFinding finding = {.reason = reason, .execution = execution};

	return infer_retry_allowed(&rule, attempts, &finding);
}

static void
test_fail_P29_never_repeated(void)
{
	static const InferReason never[] = {
		INFER_REASON_NONE,
		INFER_REASON_EGRESS_DENIED,
		INFER_REASON_CREDENTIAL_MISSING,
		INFER_REASON_CERTIFICATE_UNUSABLE,
		INFER_REASON_CREDENTIAL_WITHHELD,
		INFER_REASON_CANCELLED,
		INFER_REASON_QUOTA_EXCEEDED,
		INFER_REASON_CONFLICT,
		INFER_REASON_UNAUTHENTICATED,
		INFER_REASON_PERMISSION_DENIED,
		INFER_REASON_NOT_FOUND,
		INFER_REASON_BAD_REQUEST,
		INFER_REASON_REQUEST_TOO_LARGE,
		INFER_REASON_REDIRECTED,
		INFER_REASON_MALFORMED_REPLY,
		INFER_REASON_REPLY_TOO_LARGE,
		INFER_REASON_MISSING_RESULT,
		INFER_REASON_MISALIGNED,
		INFER_REASON_BUDGET,
		INFER_REASON_INTERNAL,
	};

	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
	{
		const char *name = infer_reason_name(never[i]);

		for (int delivery = 0; delivery < INFER_DELIVERY_COUNT; delivery++)
		{
			CHECK_ROW(!may(delivery, INFER_RETRY_AMBIGUOUS, 1, 4, never[i], NA), name);
			CHECK_ROW(!may(delivery, INFER_RETRY_AMBIGUOUS, 1, 4, never[i], ME), name);
		}
	}
	for (int i = 0; i < INFER_REASON_COUNT; i++)
		for (int delivery = 0; delivery < INFER_DELIVERY_COUNT; delivery++)
			CHECK(!may(delivery, INFER_RETRY_AMBIGUOUS, 1, 4, (InferReason) i, EX));
}

static void
test_retry_policies(void)
{
	static const InferReason passing[] = {INFER_REASON_LOOKUP_FAILED, INFER_REASON_CONNECT_FAILED,
										  INFER_REASON_TIMEOUT,       INFER_REASON_DISCONNECTED,
										  INFER_REASON_OVERLOADED,    INFER_REASON_SERVER_ERROR};

	for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++)
	{
		InferReason r = passing[i];
		const char *name = infer_reason_name(r);

		CHECK_ROW(!may(INFER_DELIVERY_SINGLE, INFER_RETRY_NEVER, 1, 4, r, NA), name);
		CHECK_ROW(may(INFER_DELIVERY_SINGLE, INFER_RETRY_NOT_ADMITTED, 1, 4, r, NA), name);
		CHECK_ROW(!may(INFER_DELIVERY_SINGLE, INFER_RETRY_NOT_ADMITTED, 1, 4, r, ME), name);
		CHECK_ROW(may(INFER_DELIVERY_SINGLE, INFER_RETRY_AMBIGUOUS, 1, 4, r, ME), name);
		CHECK_ROW(may(INFER_DELIVERY_SINGLE, INFER_RETRY_AMBIGUOUS, 3, 4, r, NA), name);
		CHECK_ROW(!may(INFER_DELIVERY_SINGLE, INFER_RETRY_AMBIGUOUS, 4, 4, r, NA), name);
		CHECK_ROW(!may(INFER_DELIVERY_SINGLE, INFER_RETRY_AMBIGUOUS, 1, 1, r, NA), name);
	}
}

/* Who sends a second copy of what may have run: delivery × retry × how it ended. */
static void
test_fail_P21_P22_P23_deliveries(void)
{
	static const InferFinding lost = {INFER_REASON_DISCONNECTED, ME, INFER_VERDICT_ERROR, true};
	static const InferFinding late = {INFER_REASON_TIMEOUT, ME, INFER_VERDICT_OVERLOADED, false};
	static const InferFinding failed = {INFER_REASON_SERVER_ERROR, ME, INFER_VERDICT_ERROR, false};
	static const InferFinding busy = {INFER_REASON_CONFLICT, ME, INFER_VERDICT_ERROR, false};
	static const struct
	{
		InferRetryRule rule;
		bool lost;
		bool late;
		bool failed;
		bool busy;
	} rows[] = {
		{{INFER_DELIVERY_SINGLE, INFER_RETRY_NEVER, false, 4}, false, false, false, false},
		{{INFER_DELIVERY_SINGLE, INFER_RETRY_NOT_ADMITTED, false, 4}, false, false, false, false},
		{{INFER_DELIVERY_SINGLE, INFER_RETRY_AMBIGUOUS, false, 4}, true, true, true, false},
		{{INFER_DELIVERY_SINGLE, INFER_RETRY_NEVER, true, 4}, false, false, false, false},
		{{INFER_DELIVERY_SINGLE, INFER_RETRY_NOT_ADMITTED, true, 4}, true, true, true, true},
		{{INFER_DELIVERY_RELIABLE, INFER_RETRY_NEVER, false, 4}, false, false, false, false},
		{{INFER_DELIVERY_RELIABLE, INFER_RETRY_NOT_ADMITTED, false, 4}, true, false, false, false},
		{{INFER_DELIVERY_RELIABLE, INFER_RETRY_AMBIGUOUS, false, 4}, true, false, true, false},
		{{INFER_DELIVERY_RELIABLE, INFER_RETRY_NOT_ADMITTED, true, 4}, true, false, true, true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		char name[32];

		snprintf(name, sizeof(name), "row %zu", i);
		CHECK_ROW(infer_retry_allowed(&rows[i].rule, 3, &lost) == rows[i].lost, name);
		CHECK_ROW(infer_retry_allowed(&rows[i].rule, 3, &late) == rows[i].late, name);
		CHECK_ROW(infer_retry_allowed(&rows[i].rule, 3, &failed) == rows[i].failed, name);
		CHECK_ROW(infer_retry_allowed(&rows[i].rule, 3, &busy) == rows[i].busy, name);
		CHECK_ROW(!infer_retry_allowed(&rows[i].rule, 4, &lost), name);
		if (rows[i].rule.delivery == INFER_DELIVERY_RELIABLE)
		{
			InferRetryRule rule = rows[i].rule;

			rule.delivery = INFER_DELIVERY_UNLESS_FAILED;
			CHECK_ROW(infer_retry_allowed(&rule, 3, &lost) == rows[i].lost, name);
			CHECK_ROW(infer_retry_allowed(&rule, 3, &late) == rows[i].late, name);
			CHECK_ROW(infer_retry_allowed(&rule, 3, &failed) == rows[i].failed, name);
		}
	}
}

/* Lost is who never answered. */
static void
test_fail_P23_lost(void)
{
	static const struct
	{
		const char *name;
		InferWire wire;
		bool lost;
	} rows[] = {
		{"closed", WIRE(.end = INFER_WIRE_DISCONNECT, SENT), true},
		{"cut before a head", WIRE(.end = INFER_WIRE_PARTIAL, SENT), true},
		{"cut after the head", WIRE(.end = INFER_WIRE_PARTIAL, SENT, .status = 200), true},
		{"cut in the body", WIRE(.end = INFER_WIRE_PARTIAL, SENT, .status = 200, .has_body = true),
		 false},
		{"cut after a 500", WIRE(.end = INFER_WIRE_PARTIAL, SENT, .status = 500), false},
		{"empty", WIRE(SENT, .status = 200), false},
		{"timeout", WIRE(.end = INFER_WIRE_TIMEOUT, SENT), false},
		{"garbage", WIRE(.end = INFER_WIRE_PROTOCOL, SENT), false},
		{"connect", WIRE(.end = INFER_WIRE_CONNECT), false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_ROW(infer_proof_classify(&rows[i].wire).lost == rows[i].lost, rows[i].name);
}

static void
test_retry_delays(void)
{
	/* the longest pauses: 50 ms doubling to 1 s; the shortest are half of them */
	static const int64_t full[] = {50, 100, 200, 400, 800, 1000, 1000};

	for (int i = 0; i < 7; i++)
	{
		CHECK(infer_retry_delay_ms(i + 1, -1, 0.0) == full[i] / 2);
		CHECK(infer_retry_delay_ms(i + 1, -1, 0.999999) >= full[i] - 1);
		CHECK(infer_retry_delay_ms(i + 1, -1, 0.999999) <= full[i]);
	}
	CHECK(infer_retry_delay_ms(2000000000, -1, 0.0) == 500);
	CHECK(infer_retry_delay_ms(1, 2000, 0.5) == 2000);
	CHECK(infer_retry_delay_ms(6, 100, 0.0) == 500);
	CHECK(infer_retry_delay_ms(1, 0, 0.0) == 25);
}

/* How many of n failed attempts of as many calls may be repeated. */
static int
spend(InferRetryBudget *budget, int n, int percent)
{
	int retries = 0;

	for (int i = 0; i < n; i++)
	{
		infer_retry_budget_earn(budget, percent);
		retries += infer_retry_budget_spend(budget) ? 1 : 0;
	}
	return retries;
}

/* Retries are a fifth of all attempts: a quarter of the first ones, to the unit. */
static void
test_retry_budget_share(void)
{
	static const struct
	{
		int percent;
		int calls;
		int retries; /* beyond those that a key starts with */
	} rows[] = {{20, 4, 1}, {20, 7, 1}, {20, 4000, 1000}, {50, 1000, 1000},
				{50, 1, 1}, {1, 99, 0}, {10, 9000, 999},  {1, 9900, 99}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		InferRetryBudget budget = {0};
		char name[32];
		int retries = 0;

		snprintf(name, sizeof(name), "row %zu", i);
		for (int k = 0; k < INFER_RETRY_BUDGET_START; k++)
			CHECK_ROW(infer_retry_budget_spend(&budget), name);
		CHECK_ROW(!infer_retry_budget_spend(&budget), name);
		retries = spend(&budget, rows[i].calls, rows[i].percent);
		CHECK_ROW(retries == rows[i].retries, name);
	}
}

static void
test_retry_budget_most(void)
{
	InferRetryBudget budget = {0};
	int retries = 0;

	for (int i = 0; i < 100000; i++)
		infer_retry_budget_earn(&budget, 20);
	while (infer_retry_budget_spend(&budget))
		retries++;
	CHECK(retries == INFER_RETRY_BUDGET_MOST);
}

int
main(void)
{
	TEST(fail_P29_never_repeated);
	TEST(retry_policies);
	TEST(fail_P21_P22_P23_deliveries);
	TEST(fail_P23_lost);
	TEST(retry_delays);
	TEST(retry_budget_share);
	TEST(retry_budget_most);
	return tap_done();
}
