/*
 * sim/test_admission.c - the line of one key, and the minute (core/admission, core/ratelimit).
 *
 * What the reference says of waiters (rpc_B3, B15, B16, C2, D12, D13, D15) is here; the exceptions
 * are listed in test_limiter.c.
 */
#include "core/admission.h"
#include "tap.h"

#include <string.h>

#define NODES 80
#define MS    INT64_C(1000)
#define SEC   INT64_C(1000000)

static InferAdmission a;
static InferAdmissionNode nodes[NODES];
static InferPermit permit;
static int64_t stamp;
static int64_t now;
static int32_t who[NODES];

static void
setup_with(int ceiling, double floor, int64_t rpm, int64_t tpm)
{
	InferAdmissionConfig config = {
		.limiter = {.ceiling = ceiling, .floor = floor, .decrease_factor = 0.5, .adaptive = true},
		.rpm = rpm,
		.tpm = tpm};
	bool tell;

	memset(&a, 0, sizeof(a));
	memset(nodes, 0, sizeof(nodes));
	now = 1000 * SEC;
	CHECK(infer_admission_configure(&a, NODES, &config, &(InferConfigurer){0}, now, &tell));
}

static void
setup(int ceiling)
{
	setup_with(ceiling, 1, 0, 0);
}

static int
ask_as(int me, int want, InferPriority priority, int64_t tokens)
{
	InferAsk ask = {
		.want = want, .priority = priority, .tokens = tokens, .lasts_us = 60 * SEC, .wait = true};

	return infer_admission_take(&a, nodes, me, &ask, now, &permit, &stamp);
}

/* fail_P57: whose servers have all failed asks one of them all the same, before those who wait for
 * it, and gives up nowhere; but only one dial leaves at a time. */
static void
test_fail_P57_probe(void)
{
	InferAdmissionConfig config = {.limiter = {.ceiling = 8, .floor = 1, .decrease_factor = 0.5},
								   .monitor = {.threshold = 3, .cooldown_us = SEC}};
	InferOutcome failed = {.verdict = INFER_VERDICT_ERROR,
						   .reason = INFER_REASON_CONNECT_FAILED,
						   .units = 1,
						   .retry_after_us = -1,
						   .left = -1};
	InferAsk probe = {
		.want = 1, .priority = INFER_PRIORITY_NORMAL, .lasts_us = 60 * SEC, .probe = true};
	InferAsk usual = {.want = 1,
					  .priority = INFER_PRIORITY_HIGH,
					  .lasts_us = 60 * SEC,
					  .patience_us = INT64_MAX,
					  .wait = true};
	InferAsk hasty = {.want = 1, .priority = INFER_PRIORITY_HIGH, .lasts_us = 60 * SEC};
	bool tell;

	setup(8);
	/* of the monitor, the last counts */
	(void) infer_admission_configure(&a, NODES, &config, &(InferConfigurer){0}, now, &tell);
	for (int i = 0; i < 3; i++)
	{
		CHECK(infer_admission_take(&a, nodes, 1, &usual, now, &permit, &stamp) == 1);
		now += 100 * MS;
		infer_admission_give(&a, nodes, 1, &permit, 1, &failed, now);
		now += 600 * MS;
	}
	CHECK(infer_admission_take(&a, nodes, 2, &usual, now, &permit, &stamp) == 0);
	CHECK(infer_admission_take(&a, nodes, 3, &hasty, now, &permit, &stamp) ==
		  INFER_ADMISSION_GIVES_UP);
	CHECK(infer_admission_take(&a, nodes, 3, &probe, now, &permit, &stamp) == 1);
	CHECK(infer_admission_take(&a, nodes, 4, &probe, now, &permit, &stamp) == 0);
	infer_admission_give(&a, nodes, 3, &permit, 1, &failed, now);
	now += 600 * MS;
	CHECK(infer_admission_take(&a, nodes, 2, &usual, now, &permit, &stamp) == 0);
	CHECK(infer_admission_take(&a, nodes, 4, &probe, now, &permit, &stamp) == 1);
}

static int
ask(int me, int want)
{
	return ask_as(me, want, INFER_PRIORITY_NORMAL, 0);
}

static void
tell(int me, int n, InferVerdict verdict)
{
	InferPermit current = {.epoch = a.limiter.epoch, .level = 1};
	InferOutcome outcome = {.verdict = verdict, .units = n, .retry_after_us = -1, .left = -1};

	infer_admission_give(&a, nodes, me, &current, n, &outcome, now);
}

static void
give(int me, int n)
{
	tell(me, n, INFER_VERDICT_IGNORE);
}

/* How many are woken; who[] says whom. */
static int
wake(void)
{
	return infer_admission_wake(&a, nodes, now, who, NODES);
}

static void
test_rpc_B3(void)
{
	setup(1);
	CHECK(ask(0, 1) == 1);
	CHECK(ask(1, 1) == 0);
	CHECK(wake() == 0);
	give(0, 1);
	CHECK(wake() == 1 && who[0] == 1);
	CHECK(ask(1, 1) == 1);
}

/* Admitted or enrolled, in one step. */
static void
test_rpc_B15(void)
{
	setup(2);
	for (int i = 0; i < 20; i++)
	{
		int granted = ask(i, 1);

		CHECK((granted == 1) == (nodes[i].want == 0));
		CHECK(granted == 1 || a.waiting[INFER_PRIORITY_NORMAL] == i - 1);
	}
}

static void
test_rpc_B16_wakes(void)
{
	setup(1);
	ask(0, 1);
	ask(1, 1);
	ask(2, 1);
	CHECK(wake() == 0);
	infer_limiter_set_ceiling(&a.limiter, 3);
	CHECK(wake() == 2);
}

/* Exactly those to whom a free permit is due. */
static void
test_rpc_C2(void)
{
	setup(1);
	ask(0, 1);
	ask(1, 1);
	ask(2, 1);
	give(0, 1);
	CHECK(wake() == 1 && who[0] == 1);
	CHECK(wake() == 0);
	CHECK(ask(1, 1) == 1);
	give(1, 1);
	CHECK(wake() == 1 && who[0] == 2);
	setup(8);
	ask(0, 8);
	for (int i = 1; i < 6; i++)
		ask(i, 1);
	give(0, 3);
	CHECK(wake() == 3 && who[0] == 1 && who[1] == 2 && who[2] == 3);
	give(0, 5);
	CHECK(wake() == 2 && who[0] == 4 && who[1] == 5);
}

/* Paced: of two who come together, one goes, the other sets its alarm anew. */
static void
test_rpc_D12(void)
{
	setup_with(1, 0.01, 0, 0);
	tell(0, 0, INFER_VERDICT_OVERLOADED);
	CHECK(a.limiter.window == 0.5);
	CHECK(ask(0, 1) == 1);
	give(0, 1);
	CHECK(ask(1, 1) == 0);
	CHECK(wake() == 1 && who[0] == 1); /* to set the alarm */
	CHECK(ask(1, 1) == 0);
	CHECK(infer_admission_alarm_us(&a, nodes, 1, now) == now + 2 * SEC);
	CHECK(ask(2, 1) == 0);
	CHECK(infer_admission_alarm_us(&a, nodes, 2, now) == INT64_MAX);
	now += 2 * SEC;
	CHECK(ask(2, 1) == 0); /* comes along by chance: it is not its turn */
	CHECK(wake() == 1 && who[0] == 1);
	CHECK(ask(1, 1) == 1);
	CHECK(wake() == 0); /* single flight */
	give(1, 1);
	CHECK(wake() == 1 && who[0] == 2);
	CHECK(ask(2, 1) == 0);
	CHECK(infer_admission_alarm_us(&a, nodes, 2, now) == now + 2 * SEC);
}

/* A change of the limit moves the alarm. */
static void
test_rpc_D13_alarm(void)
{
	setup_with(1, 0.01, 0, 0);
	tell(0, 0, INFER_VERDICT_OVERLOADED);
	tell(0, 0, INFER_VERDICT_OVERLOADED);
	ask(0, 1);
	give(0, 1);
	ask(1, 1);
	CHECK(infer_admission_alarm_us(&a, nodes, 1, now) == now + 4 * SEC);
	tell(0, 1, INFER_VERDICT_SUCCESS);
	CHECK(wake() == 1 && who[0] == 1);
	ask(1, 1);
	CHECK(infer_admission_alarm_us(&a, nodes, 1, now) == now + 2 * SEC);
	tell(0, 1, INFER_VERDICT_SUCCESS);
	CHECK(wake() == 1 && who[0] == 1);
	CHECK(ask(1, 1) == 1);
}

/* Cancelled, or dead: whoever is behind it goes. */
static void
test_rpc_D15(void)
{
	setup(1);
	ask(0, 1);
	ask(1, 1);
	ask(2, 1);
	give(0, 1);
	CHECK(wake() == 1 && who[0] == 1);
	infer_admission_leave(&a, nodes, 1);
	CHECK(wake() == 1 && who[0] == 2);
	CHECK(ask(2, 1) == 1);
	/* dead with a permit and others behind it */
	ask(3, 1);
	infer_admission_reclaim(&a, nodes, 2);
	CHECK(a.limiter.in_flight == 0);
	CHECK(wake() == 1 && who[0] == 3);
	/* paced: the one with the alarm goes away */
	setup_with(1, 0.01, 0, 0);
	tell(0, 0, INFER_VERDICT_OVERLOADED);
	ask(0, 1);
	give(0, 1);
	ask(1, 1);
	infer_admission_alarm_us(&a, nodes, 1, now);
	ask(2, 1);
	infer_admission_leave(&a, nodes, 1);
	CHECK(wake() == 1 && who[0] == 2);
}

/* Fewer than were asked for, the rest later: as the fan-out of F26 gets them, row by row. */
static void
test_rpc_F26_line_part(void)
{
	setup(8);
	CHECK(ask(0, 100) == 8);
	CHECK(nodes[0].want == 92);
	give(0, 2);
	CHECK(wake() == 1 && who[0] == 0);
	CHECK(ask(0, 92) == 2);
	/* wants less by now */
	CHECK(ask(0, 5) == 0);
	CHECK(nodes[0].want == 5);
	infer_admission_leave(&a, nodes, 0);
	infer_admission_leave(&a, nodes, 0);
	CHECK(a.waiting[INFER_PRIORITY_NORMAL] == 0);
}

/* Who does not want to wait is not in the line, and passes nobody. */
static void
test_line_try(void)
{
	InferAsk try_ask = {.want = 1, .priority = INFER_PRIORITY_NORMAL};

	setup(2);
	ask(0, 2);
	CHECK(infer_admission_take(&a, nodes, 1, &try_ask, now, &permit, &stamp) == 0);
	CHECK(nodes[1].want == 0);
	ask(2, 1);
	give(0, 1);
	CHECK(infer_admission_take(&a, nodes, 1, &try_ask, now, &permit, &stamp) == 0);
	give(0, 1);
	CHECK(infer_admission_take(&a, nodes, 1, &try_ask, now, &permit, &stamp) == 1);
	CHECK(ask(2, 1) == 1);
}

/* Who is in line and looks: for such requests at its place, of which what it gets is a part; for
 * others behind all of their priority, itself included, and its place is as it was. */
static void
test_line_look(void)
{
	InferAsk same = {.want = 1, .priority = INFER_PRIORITY_NORMAL};
	InferAsk low = {.want = 1, .priority = INFER_PRIORITY_LOW};
	InferAsk high = {.want = 1, .priority = INFER_PRIORITY_HIGH};
	InferAsk longer = {
		.want = 1, .priority = INFER_PRIORITY_NORMAL, .duration = INFER_DURATION_LONG};

	setup(4);
	CHECK(ask(0, 4) == 4);
	CHECK(ask(1, 2) == 0);
	CHECK(ask(2, 1) == 0);
	give(0, 1);
	CHECK(infer_admission_take(&a, nodes, 1, &low, now, &permit, &stamp) == 0);
	CHECK(infer_admission_take(&a, nodes, 1, &longer, now, &permit, &stamp) == 0);
	CHECK(nodes[1].want == 2 && nodes[1].priority == INFER_PRIORITY_NORMAL);
	CHECK(wake() == 1 && who[0] == 1); /* still the first */
	CHECK(infer_admission_take(&a, nodes, 1, &same, now, &permit, &stamp) == 1);
	CHECK(nodes[1].want == 1 && a.waiting[INFER_PRIORITY_NORMAL] == 2);
	give(0, 1);
	CHECK(wake() == 1 && who[0] == 2); /* it has got a part */
	CHECK(infer_admission_take(&a, nodes, 1, &high, now, &permit, &stamp) == 1);
	CHECK(nodes[1].want == 1 && nodes[1].held == 2);
	give(0, 2);
	CHECK(wake() == 1 && who[0] == 1);
	CHECK(infer_admission_take(&a, nodes, 1, &low, now, &permit, &stamp) == 0);
	CHECK(ask(2, 1) == 1);
	CHECK(infer_admission_take(&a, nodes, 1, &same, now, &permit, &stamp) == 1);
	CHECK(nodes[1].want == 0 && a.waiting[INFER_PRIORITY_NORMAL] == 0);
	/* one that is passed over is so afterwards */
	CHECK(infer_admission_pass(&a, nodes, 1, &longer, now));
	CHECK(infer_admission_take(&a, nodes, 1, &same, now, &permit, &stamp) == 0);
	give(2, 1);
	CHECK(infer_admission_take(&a, nodes, 1, &same, now, &permit, &stamp) == 1);
	CHECK(nodes[1].passed && nodes[1].want == 1);
	give(1, 1);
	CHECK(wake() == 0);
	CHECK(infer_admission_take(&a, nodes, 1, &longer, now, &permit, &stamp) == 1);
	CHECK(!nodes[1].passed && nodes[1].want == 0);
}

/* Ten batches do not starve one row. */
static void
test_line_fair(void)
{
	setup(10);
	ask(0, 10);
	ask(0, 10);
	ask(1, 1);
	give(0, 1);
	CHECK(wake() == 1 && who[0] == 1);
	CHECK(ask(0, 10) == 0);
	CHECK(ask(1, 1) == 1);
	/* shares even out: the one that holds less gets what comes free */
	ask(2, 10);
	for (int i = 0; i < 4; i++)
	{
		give(0, 1);
		CHECK(ask(0, 10) == 0);
		CHECK(ask(2, 10) == 1);
	}
	CHECK(nodes[0].held == 5 && nodes[2].held == 4);
}

static void
test_line_priority(void)
{
	setup(2);
	ask_as(0, 2, INFER_PRIORITY_LOW, 0);
	for (int i = 1; i < 50; i++)
		ask_as(i, 1, INFER_PRIORITY_LOW, 0);
	ask_as(60, 3, INFER_PRIORITY_HIGH, 0);
	ask_as(61, 1, INFER_PRIORITY_VHIGH, 0);
	give(0, 2);
	CHECK(wake() == 2 && who[0] == 61 && who[1] == 60);
	CHECK(ask_as(1, 1, INFER_PRIORITY_LOW, 0) == 0);
	CHECK(ask_as(70, 1, INFER_PRIORITY_NORMAL, 0) == 0); /* a newcomer */
	CHECK(ask_as(60, 3, INFER_PRIORITY_HIGH, 0) == 1);
	CHECK(ask_as(61, 1, INFER_PRIORITY_VHIGH, 0) == 1);
	give(61, 1);
	CHECK(wake() == 1 && who[0] == 60);
	/* one and the same process may rise */
	CHECK(ask_as(1, 1, INFER_PRIORITY_VHIGH, 0) == 1);
}

/* Who was woken and does not come keeps nobody from going. */
static void
test_line_absent(void)
{
	setup(1);
	ask(0, 1);
	ask(1, 1);
	ask(2, 1);
	give(0, 1);
	CHECK(wake() == 1 && who[0] == 1);
	now += 50 * MS;
	CHECK(ask(2, 1) == 0);
	now += 51 * MS;
	CHECK(wake() == 1 && who[0] == 2);
	CHECK(ask(2, 1) == 1);
	/* it is back in its place as soon as it tries */
	CHECK(ask(1, 1) == 0);
	give(2, 1);
	CHECK(wake() == 1 && who[0] == 1);
}

/* What a process holds that never looks is taken for lost, and not counted again. */
static void
test_line_expired(void)
{
	setup(2);
	ask(0, 2);
	ask(1, 1);
	now += 60 * SEC;
	CHECK(ask(1, 1) == 0);
	now += SEC;
	CHECK(ask(1, 1) == 1);
	CHECK(a.limiter.in_flight == 1 && nodes[0].expired == 2);
	give(0, 1);
	infer_admission_reclaim(&a, nodes, 0);
	CHECK(a.limiter.in_flight == 1 && nodes[0].expired == 0);
	CHECK(a.limiter.granted - a.limiter.released == 1);
	/* of two requests, the time of the one that ends last */
	setup(2);
	ask(0, 1);
	now += 30 * SEC;
	ask(0, 1);
	ask(1, 1);
	now += 31 * SEC;
	CHECK(ask(1, 1) == 0);
	now += 30 * SEC;
	CHECK(ask(1, 1) == 1);
}

/* The place is not given away before what the answer tells has been applied. */
static void
test_feedback_before_release(void)
{
	setup(2);
	ask(0, 2);
	ask(1, 1);
	ask(2, 1);
	tell(0, 1, INFER_VERDICT_OVERLOADED);
	CHECK(a.limiter.window == 1 && a.limiter.in_flight == 1);
	CHECK(wake() == 0);
	tell(0, 1, INFER_VERDICT_OVERLOADED);
	CHECK(wake() == 1);
}

/* A whole configuration at a time, of which the first one stays (B18, B19). */
static void
test_rpc_B18_configure_once(void)
{
	InferAdmissionConfig other = {.limiter = a.limiter.config, .rpm = 5};
	bool said;

	setup_with(8, 1, 60, 0);
	other.limiter = a.limiter.config;
	CHECK(!infer_admission_configure(&a, NODES, &other, &(InferConfigurer){0}, now, &said) && said);
	CHECK(!infer_admission_configure(&a, NODES, &other, &(InferConfigurer){0}, now, &said) &&
		  !said);
	CHECK(a.rate.rpm == 60);
}

static const InferAdmissionConfig *
with(int ceiling, int rpm)
{
	static InferAdmissionConfig config;

	config = (InferAdmissionConfig){.limiter = a.limiter.config, .rpm = rpm};
	config.limiter.ceiling = config.limiter.start = ceiling;
	return &config;
}

/* Who has configured a key may do so again, once it has changed. */
static void
test_admission_reconfigure(void)
{
	InferConfigurer mine = {.database = 1, .server = 2, .version = 10};
	InferConfigurer other = {.database = 1, .server = 3, .version = 11};
	InferConfigurer elsewhere = {.database = 2, .server = 2, .version = 11};
	bool said;

	memset(&a, 0, sizeof(a));
	memset(nodes, 0, sizeof(nodes));
	a.limiter.config = (InferLimiterConfig){.floor = 1, .decrease_factor = 0.5, .adaptive = true};
	CHECK(infer_admission_configure(&a, NODES, with(8, 60), &mine, now, &said) && !said);
	CHECK(ask(1, 8) == 8 && ask(2, 1) == 0);

	/* nobody else, and not without a change */
	CHECK(!infer_admission_configure(&a, NODES, with(16, 60), &other, now, &said) && said);
	CHECK(!infer_admission_configure(&a, NODES, with(16, 60), &elsewhere, now, &said));
	CHECK(!infer_admission_configure(&a, NODES, with(16, 60), &mine, now, &said));
	CHECK(!infer_admission_configure(&a, NODES, with(16, 60), &(InferConfigurer){0}, now, &said));
	CHECK(infer_limiter_limit(&a.limiter) == 8);

	/* more: who waits may go; the minute goes on */
	mine.version = 12;
	CHECK(infer_admission_configure(&a, NODES, with(10, 9), &mine, now, &said) && !said);
	CHECK(a.limiter.in_flight == 8 && wake() == 1 && who[0] == 2);
	CHECK(ask(2, 1) == 1 && ask(3, 1) == 0);
	CHECK(a.rate.all_requests == 9);

	/* a process that has not heard of it yet changes nothing, and is not told of a conflict */
	mine.version = 10;
	a.limiter.told = false;
	CHECK(!infer_admission_configure(&a, NODES, with(8, 60), &mine, now, &said) && !said);
	CHECK(infer_limiter_limit(&a.limiter) == 10);

	/* less: nothing in flight is touched */
	mine.version = 13;
	CHECK(infer_admission_configure(&a, NODES, with(4, 0), &mine, now, &said));
	CHECK(a.limiter.in_flight == 9 && infer_limiter_room(&a.limiter, now) == 0);

	/* what is not settled changes nothing by itself; if it insists, what it replaced may return */
	mine.version = 0;
	CHECK(!infer_admission_configure(&a, NODES, with(5, 0), &mine, now, &said));
	mine.insists = true;
	CHECK(infer_admission_configure(&a, NODES, with(5, 0), &mine, now, &said));
	mine = (InferConfigurer){.database = 1, .server = 2, .version = 13};
	CHECK(infer_admission_configure(&a, NODES, with(4, 0), &mine, now, &said));
	CHECK(infer_limiter_limit(&a.limiter) == 4);

	/* for other reasons than a change, with the same version, which others have still */
	mine.insists = true;
	CHECK(infer_admission_configure(&a, NODES, with(3, 0), &mine, now, &said));
	mine.insists = false;
	CHECK(!infer_admission_configure(&a, NODES, with(4, 0), &mine, now, &said) && said);
	CHECK(infer_limiter_limit(&a.limiter) == 3);

	/* and from then on it is the other's */
	other.insists = true;
	CHECK(infer_admission_configure(&a, NODES, with(6, 0), &other, now, &said));
	mine.version = 14;
	CHECK(!infer_admission_configure(&a, NODES, with(4, 0), &mine, now, &said));
	CHECK(infer_limiter_limit(&a.limiter) == 6);
	/* a call's own configuration may be changed by nobody */
	memset(&a, 0, sizeof(a));
	CHECK(infer_admission_configure(&a, NODES, with(8, 0), &(InferConfigurer){.database = 1}, now,
									&said));
	CHECK(!infer_admission_configure(&a, NODES, with(9, 0),
									 &(InferConfigurer){.database = 1, .version = 5}, now, &said));
}

/* --- the minute --- */

/* Never more than 60 in any minute, and not much less: fault_F60. */
static void
test_fault_F60_sliding_minute(void)
{
	static int64_t sent[2000];
	int n = 0;
	int first = 0;
	int most = 0;
	uint32_t random = 7;

	setup_with(1000, 1, 60, 0);
	for (int64_t end = now + 600 * SEC; now < end;)
	{
		random = random * 1664525 + 1013904223;
		now += (random >> 16) % 2000 * MS / 4;
		if (ask(0, 1) != 1)
			continue;
		give(0, 1);
		sent[n++] = now;
		while (sent[first] <= now - 60 * SEC)
			first++;
		most = n - first > most ? n - first : most;
	}
	CHECK(most == 60);
	CHECK(n >= 9 * 60);
}

static void
test_rate_wakes(void)
{
	int64_t at;

	setup_with(100, 1, 2, 0);
	CHECK(ask(0, 5) == 2);
	CHECK(ask(1, 1) == 0);
	CHECK(wake() == 1); /* to set the alarm */
	CHECK(who[0] == 0);
	CHECK(ask(0, 3) == 0);
	at = infer_admission_alarm_us(&a, nodes, 0, now);
	CHECK(at > now + 60 * SEC && at <= now + 61 * SEC);
	CHECK(wake() == 0);
	now = at - 1;
	CHECK(ask(0, 3) == 0);
	now = at;
	CHECK(wake() == 2);
	/* who holds least goes first */
	CHECK(ask(0, 3) == 1);
	CHECK(ask(1, 1) == 1);
}

static void
test_rate_tokens(void)
{
	int64_t first;

	setup_with(100, 1, 0, 1000);
	CHECK(ask_as(0, 1, INFER_PRIORITY_NORMAL, 600) == 1);
	first = stamp;
	CHECK(ask_as(1, 1, INFER_PRIORITY_NORMAL, 600) == 0);
	/* a smaller one does not pass it, one of higher priority does */
	CHECK(ask_as(2, 1, INFER_PRIORITY_NORMAL, 10) == 0);
	CHECK(ask_as(3, 1, INFER_PRIORITY_HIGH, 10) == 1);
	/* the answer had fewer */
	infer_ratelimit_correct(&a.rate, first, 600, 100, now);
	CHECK(a.rate.all_tokens == 110);
	CHECK(wake() > 0);
	CHECK(ask_as(1, 1, INFER_PRIORITY_NORMAL, 600) == 1);
	CHECK(ask_as(2, 1, INFER_PRIORITY_NORMAL, 10) == 1);
	/* or more: the next one waits */
	infer_ratelimit_correct(&a.rate, stamp, 10, 900, now);
	CHECK(ask_as(4, 1, INFER_PRIORITY_NORMAL, 1) == 0);
	now += 62 * SEC;
	/* one that is too large by itself may go alone */
	CHECK(ask_as(4, 1, INFER_PRIORITY_NORMAL, 5000) == 1);
	/* corrections come too late to matter */
	infer_ratelimit_correct(&a.rate, first, 600, 0, now);
	infer_ratelimit_correct(&a.rate, first, 600, 900, now);
	CHECK(a.rate.all_tokens == 5000);
}

/* Tokens are charged in the half-second in which they were sent, and count for 61 s. */
static void
test_rate_corrections(void)
{
	int64_t first;
	int64_t second;

	setup_with(100, 1, 0, 1000);
	CHECK(ask_as(0, 1, INFER_PRIORITY_NORMAL, 300) == 1);
	first = stamp;
	CHECK(ask_as(0, 1, INFER_PRIORITY_NORMAL, 700) == 1); /* all that is left */
	CHECK(ask_as(0, 1, INFER_PRIORITY_NORMAL, 1) == 0);
	infer_admission_leave(&a, nodes, 0);
	/* several at a time, each with its tokens */
	setup_with(100, 1, 0, 1000);
	CHECK(ask_as(0, 3, INFER_PRIORITY_NORMAL, 100) == 3 && a.rate.all_tokens == 300);
	CHECK(ask_as(0, 3, INFER_PRIORITY_NORMAL, 300) == 2 && a.rate.all_tokens == 900);
	/* who is first of those for whom there are too few keeps back what is not before it */
	CHECK(ask_as(1, 1, INFER_PRIORITY_NORMAL, 100) == 0);
	CHECK(ask_as(1, 1, INFER_PRIORITY_HIGH, 100) == 1);
	setup_with(100, 1, 0, 1000);
	CHECK(ask_as(0, 1, INFER_PRIORITY_NORMAL, 300) == 1);
	first = stamp;
	CHECK(ask_as(0, 1, INFER_PRIORITY_NORMAL, 700) == 1);
	/* less than nothing was never used */
	infer_ratelimit_correct(&a.rate, first, 2000, 0, now);
	CHECK(a.rate.all_tokens == 0);
	now += 10 * SEC;
	CHECK(ask_as(1, 1, INFER_PRIORITY_NORMAL, 400) == 1);
	second = stamp;
	/* the last moment in which it counts, and the first in which it does not */
	now += 61 * SEC - 1;
	infer_ratelimit_correct(&a.rate, second, 400, 500, now);
	CHECK(a.rate.all_tokens == 500);
	now += 1;
	infer_ratelimit_correct(&a.rate, second, 500, 900, now);
	CHECK(a.rate.all_tokens == 0);
	CHECK(ask_as(2, 1, INFER_PRIORITY_NORMAL, 1000) == 1);
}

/* A thousand tokens a minute, used up by two requests 20 s apart; returns when the first left. */
static int64_t
uses_the_minute_up(int64_t rpm)
{
	int64_t begin;

	setup_with(100, 1, rpm, 1000);
	begin = now;
	CHECK(ask_as(0, 1, INFER_PRIORITY_NORMAL, 900) == 1);
	now += 20 * SEC;
	CHECK(ask_as(0, 1, INFER_PRIORITY_NORMAL, 100) == 1);
	CHECK(ask_as(1, 1, INFER_PRIORITY_NORMAL, 100) == 0);
	CHECK(infer_admission_alarm_us(&a, nodes, 1, now) == begin + 61 * SEC);
	return begin;
}

/* What was sent at several times comes free at several times. */
static void
test_rate_opens_one_by_one(void)
{
	int64_t begin = uses_the_minute_up(2);

	now = begin + 61 * SEC;
	CHECK(ask_as(1, 1, INFER_PRIORITY_NORMAL, 100) == 1);
	CHECK(ask_as(1, 1, INFER_PRIORITY_NORMAL, 100) == 0);
	CHECK(infer_admission_alarm_us(&a, nodes, 1, now) == begin + 81 * SEC);
	/* tokens alone */
	(void) uses_the_minute_up(0);
}

/* As fault_F60, of tokens. */
static void
test_rate_sliding_minute_of_tokens(void)
{
	static struct
	{
		int64_t at;
		int64_t tokens;
	} sent[5000];
	int n = 0;
	int first = 0;
	int64_t in_minute = 0;
	int64_t most = 0;
	int64_t all = 0;
	uint32_t random = 7;

	setup_with(1000, 1, 0, 6000);
	for (int64_t end = now + 600 * SEC; now < end;)
	{
		int64_t tokens;

		random = random * 1664525 + 1013904223;
		now += (random >> 16) % 1000 * MS / 4;
		tokens = 1 + (random >> 8) % 300;
		if (ask_as(0, 1, INFER_PRIORITY_NORMAL, tokens) != 1)
		{
			infer_admission_leave(&a, nodes, 0);
			continue;
		}
		give(0, 1);
		sent[n].at = now;
		sent[n++].tokens = tokens;
		in_minute += tokens;
		all += tokens;
		while (sent[first].at <= now - 60 * SEC)
			in_minute -= sent[first++].tokens;
		most = in_minute > most ? in_minute : most;
	}
	CHECK(most <= 6000 && most >= 5700);
	CHECK(all >= 9 * 5700);
}

static void
test_rate_headers(void)
{
	const InferRateHeader unsaid = {-1, -1};
	const InferRateHeader none_left = {0, 30 * SEC};
	const InferRateHeader some_left = {5, 40 * SEC};

	setup_with(100, 1, 60, 0);
	infer_ratelimit_headers(&a.rate, some_left, unsaid, now);
	CHECK(a.rate.requests_left == 5 && a.rate.tokens_left == -1);
	CHECK(ask(0, 1) == 1);
	infer_ratelimit_headers(&a.rate, unsaid, unsaid, now); /* which says nothing new */
	CHECK(a.rate.requests_left == 4);
	infer_ratelimit_headers(&a.rate, none_left, unsaid, now);
	infer_ratelimit_hold(&a.rate, now + 20 * SEC); /* the later one wins */
	CHECK(ask(1, 1) == 0);
	CHECK(infer_admission_alarm_us(&a, nodes, 1, now) == now + 30 * SEC);
	now += 30 * SEC;
	CHECK(ask(1, 1) == 1);

	/* of tokens likewise; nothing is left of less than nothing */
	setup_with(100, 1, 0, 100000);
	infer_ratelimit_headers(&a.rate, unsaid, some_left, now);
	CHECK(a.rate.requests_left == -1 && a.rate.tokens_left == 5);
	CHECK(ask_as(0, 1, INFER_PRIORITY_NORMAL, 2) == 1 && a.rate.tokens_left == 3);
	CHECK(ask_as(0, 1, INFER_PRIORITY_NORMAL, 9) == 1 && a.rate.tokens_left == 0);
	infer_ratelimit_headers(&a.rate, some_left, none_left, now);
	CHECK(ask(1, 1) == 0);
	CHECK(infer_admission_alarm_us(&a, nodes, 1, now) == now + 30 * SEC);
	/* none, but nobody says until when */
	setup_with(100, 1, 60, 0);
	infer_ratelimit_headers(&a.rate, (InferRateHeader){0, 0}, unsaid, now);
	CHECK(ask(1, 8) == 8 && a.rate.requests_left == 0);
}

/* Who waits for something else is passed over, and keeps its place. */
static void
test_gw_6_1(void)
{
	InferAsk try_ask = {.want = 1, .priority = INFER_PRIORITY_NORMAL, .wait = true};
	InferAsk high_ask = {.want = 1, .priority = INFER_PRIORITY_HIGH, .wait = true};

	setup(1);
	CHECK(ask(1, 1) == 1);
	CHECK(ask(2, 1) == 0);
	CHECK(ask(3, 1) == 0);
	CHECK(infer_admission_pass(&a, nodes, 2, &try_ask, now));  /* in line already */
	CHECK(infer_admission_pass(&a, nodes, 4, &high_ask, now)); /* not yet, and before all */
	CHECK(ask(5, 1) == 0);
	give(1, 1);
	CHECK(wake() == 1 && who[0] == 3);
	/* back: it is the first again */
	CHECK(ask(2, 1) == 1);
	setup(1);
	CHECK(ask(1, 1) == 1);
	CHECK(ask(2, 1) == 0);
	CHECK(ask(3, 1) == 0);
	CHECK(infer_admission_pass(&a, nodes, 2, &try_ask, now));
	give(1, 1);
	CHECK(ask(3, 1) == 1);
	CHECK(ask(5, 1) == 0);
	/* what it lacked has come: its place is where it was, before the fifth */
	CHECK(ask(2, 1) == 0);
	give(3, 1);
	CHECK(wake() == 1 && who[0] == 2);
	CHECK(ask(5, 1) == 0);
	CHECK(ask(2, 1) == 1);
	/* one that only is passed over keeps nobody from a permit, and is woken for none */
	CHECK(infer_admission_pass(&a, nodes, 4, &high_ask, now));
	give(2, 1);
	CHECK(wake() == 1 && who[0] == 5);
	infer_admission_leave(&a, nodes, 5);
	CHECK(wake() == 0);
	CHECK(infer_admission_alarm_us(&a, nodes, 4, now) == INT64_MAX);
	CHECK(ask(6, 1) == 1);
	CHECK(a.waiting[INFER_PRIORITY_HIGH] == 1);
	infer_admission_leave(&a, nodes, 4);
	CHECK(a.waiting[INFER_PRIORITY_HIGH] == 0 && !nodes[4].passed);
	/* nor does it wait for the minute to pass */
	setup_with(10, 1, 1, 0);
	CHECK(ask(1, 1) == 1);
	CHECK(infer_admission_pass(&a, nodes, 2, &try_ask, now));
	CHECK(infer_admission_alarm_us(&a, nodes, 2, now) == INT64_MAX && a.alarm == INFER_NOBODY);
}

int
main(void)
{
	TEST(fail_P57_probe);
	TEST(rpc_B3);
	TEST(rpc_B15);
	TEST(rpc_B16_wakes);
	TEST(rpc_C2);
	TEST(rpc_D12);
	TEST(rpc_D13_alarm);
	TEST(rpc_D15);
	TEST(rpc_F26_line_part);
	TEST(line_try);
	TEST(line_look);
	TEST(line_fair);
	TEST(line_priority);
	TEST(line_absent);
	TEST(gw_6_1);
	TEST(line_expired);
	TEST(feedback_before_release);
	TEST(rpc_B18_configure_once);
	TEST(admission_reconfigure);
	TEST(fault_F60_sliding_minute);
	TEST(rate_wakes);
	TEST(rate_tokens);
	TEST(rate_corrections);
	TEST(rate_opens_one_by_one);
	TEST(rate_sliding_minute_of_tokens);
	TEST(rate_headers);
	return tap_done();
}
