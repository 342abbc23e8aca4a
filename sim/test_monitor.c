/*
 * sim/test_monitor.c - does a server fail, and when is it tried again (core/monitor), also as part
 * of a key's admission: who gets the probe, who is woken, and who gives up.
 *
 * fail_P41, fail_P49: the reference's statements on the failure of an address, and on exclusion.
 */
#include "core/admission.h"
#include "tap.h"

#include <string.h>

#define NODES 20
#define MS    INT64_C(1000)
#define SEC   INT64_C(1000000)

static InferMonitor m;
static int64_t now;

static void
setup(int threshold)
{
	InferMonitorConfig config = {.threshold = threshold, .cooldown_us = SEC};

	memset(&m, 0, sizeof(m));
	now = 1000 * SEC;
	infer_monitor_configure(&m, &config);
}

static InferMonitorMark
sent(void)
{
	return infer_monitor_take(&m, now);
}

static void
hear(InferMonitorMark mark, InferReason reason, double draw)
{
	InferVerdict verdict =
		reason == INFER_REASON_NONE ? INFER_VERDICT_SUCCESS : INFER_VERDICT_ERROR;

	infer_monitor_hear(&m, &mark, reason, verdict, now, draw);
}

static void
fails(int n)
{
	while (n-- > 0)
		hear(sent(), INFER_REASON_SERVER_ERROR, 0);
}

/* Steps 1, 2, 4, 8, 8; a burst raises it once; jitter never lengthens; an answer resets. */
static void
test_fail_P49(void)
{
	const int64_t at[] = {0, 1500, 4000, 9000, 20000};
	const int64_t step[] = {1, 2, 4, 8, 8};
	int64_t start;

	setup(1);
	start = now;
	for (int i = 0; i < 5; i++)
	{
		now = start + at[i] * MS;
		fails(1);
		CHECK(m.step_us == step[i] * SEC);
		CHECK(infer_monitor_opens_us(&m, now) == now + step[i] * SEC);
	}

	/* ten inside one period: one step, and the end moves with the last of them */
	setup(1);
	for (int i = 0; i < 10; i++)
	{
		fails(1);
		now += 99 * MS;
	}
	CHECK(m.step_us == SEC);
	CHECK(infer_monitor_opens_us(&m, now) == now - 99 * MS + SEC);

	for (int i = 0; i <= 10; i++)
	{
		setup(1);
		hear(sent(), INFER_REASON_SERVER_ERROR, i / 10.0);
		CHECK(infer_monitor_opens_us(&m, now) == now + SEC - i * 25 * MS);
	}

	hear(sent(), INFER_REASON_NONE, 0);
	CHECK(!infer_monitor_cools(&m));
	CHECK(infer_monitor_room(&m, now) == INT32_MAX);
	fails(1);
	CHECK(m.step_us == SEC);
}

/* It counts as failing for as long as failures go on; one answer ends that, be it a refusal; of
 * what nobody has asked nothing bad is known. */
static void
test_fail_P41(void)
{
	const InferReason alive[] = {INFER_REASON_NONE, INFER_REASON_OVERLOADED,
								 INFER_REASON_NOT_FOUND};

	setup(0);
	CHECK(infer_monitor_failing_us(&m, now) == 0);
	for (int i = 0; i < 3; i++)
	{
		fails(1);
		CHECK(infer_monitor_failing_us(&m, now) == 0);
		for (int second = 1; second <= 5; second++)
		{
			now += SEC;
			fails(1);
			CHECK(infer_monitor_failing_us(&m, now) == second * SEC);
		}
		CHECK(m.failures == 6);
		hear(sent(), alive[i], 0);
		CHECK(infer_monitor_failing_us(&m, now) == 0 && m.failures == 0);
	}
}

static void
test_monitor_threshold(void)
{
	setup(3);
	fails(2);
	CHECK(!infer_monitor_cools(&m) && infer_monitor_room(&m, now) == INT32_MAX);
	hear(sent(), INFER_REASON_NONE, 0);
	fails(2);
	CHECK(!infer_monitor_cools(&m));
	fails(1);
	CHECK(infer_monitor_cools(&m) && infer_monitor_room(&m, now) == 0);
	CHECK(infer_monitor_opens_us(&m, now) == now + SEC);

	/* failures of another day are no run */
	setup(3);
	fails(2);
	now += 61 * SEC;
	fails(2);
	CHECK(!infer_monitor_cools(&m) && m.failures == 2 && m.since_us == now);
	CHECK(infer_monitor_failing_us(&m, now + 59 * SEC) == 59 * SEC);
	CHECK(infer_monitor_failing_us(&m, now + 61 * SEC) == 0);

	setup(0);
	fails(100);
	CHECK(!infer_monitor_cools(&m) && infer_monitor_room(&m, now) == INT32_MAX &&
		  m.failures == 100);
}

/* Settings of later statements count at once. */
static void
test_monitor_configure(void)
{
	const InferMonitorConfig off = {.threshold = 0, .cooldown_us = SEC};
	const InferMonitorConfig slow = {.threshold = 2, .cooldown_us = 10 * SEC};

	setup(1);
	fails(1);
	CHECK(infer_monitor_cools(&m));
	infer_monitor_configure(&m, &off);
	CHECK(!infer_monitor_cools(&m) && m.failures == 1);
	infer_monitor_configure(&m, &slow);
	fails(1);
	CHECK(infer_monitor_opens_us(&m, now) == now + 10 * SEC);
}

/* What says that it is broken, what that it is alive, and what neither. */
static void
test_monitor_kinds(void)
{
	const struct
	{
		InferReason reason;
		InferHealth health;
	} rows[] = {
		{INFER_REASON_CONNECT_FAILED, INFER_HEALTH_FAILING},
		{INFER_REASON_LOOKUP_FAILED, INFER_HEALTH_FAILING},
		{INFER_REASON_TLS_FAILED, INFER_HEALTH_FAILING},
		{INFER_REASON_DISCONNECTED, INFER_HEALTH_FAILING},
		{INFER_REASON_SERVER_ERROR, INFER_HEALTH_FAILING},
		{INFER_REASON_INCOMPLETE_REPLY, INFER_HEALTH_FAILING},
		{INFER_REASON_OVERLOADED, INFER_HEALTH_ALIVE},
		{INFER_REASON_BAD_REQUEST, INFER_HEALTH_ALIVE},
		{INFER_REASON_UNAUTHENTICATED, INFER_HEALTH_ALIVE},
		{INFER_REASON_PERMISSION_DENIED, INFER_HEALTH_ALIVE},
		{INFER_REASON_NOT_FOUND, INFER_HEALTH_ALIVE},
		{INFER_REASON_REQUEST_TOO_LARGE, INFER_HEALTH_ALIVE},
		{INFER_REASON_REDIRECTED, INFER_HEALTH_ALIVE},
		{INFER_REASON_MISSING_RESULT, INFER_HEALTH_ALIVE},
		{INFER_REASON_QUOTA_EXCEEDED, INFER_HEALTH_ALIVE},
		{INFER_REASON_CONFLICT, INFER_HEALTH_ALIVE},
		{INFER_REASON_TRUNCATED, INFER_HEALTH_ALIVE},
		{INFER_REASON_FILTERED, INFER_HEALTH_ALIVE},
		{INFER_REASON_REFUSED, INFER_HEALTH_ALIVE},
		{INFER_REASON_TOOL_CALL, INFER_HEALTH_ALIVE},
		{INFER_REASON_TIMEOUT, INFER_HEALTH_UNKNOWN},
		{INFER_REASON_CANCELLED, INFER_HEALTH_UNKNOWN},
		{INFER_REASON_MALFORMED_REPLY, INFER_HEALTH_UNKNOWN},
		{INFER_REASON_CREDENTIAL_MISSING, INFER_HEALTH_UNKNOWN},
		{INFER_REASON_EGRESS_DENIED, INFER_HEALTH_UNKNOWN},
		{INFER_REASON_SERVER_FAILED, INFER_HEALTH_UNKNOWN},
		{INFER_REASON_BUDGET, INFER_HEALTH_UNKNOWN},
		{INFER_REASON_INTERNAL, INFER_HEALTH_UNKNOWN},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		InferReason reason = rows[i].reason;
		InferHealth health = rows[i].health;

		CHECK_ROW(infer_monitor_health(reason, INFER_VERDICT_ERROR) == health,
				  infer_reason_name(reason));
		setup(2);
		fails(1);
		hear(sent(), reason, 0);
		CHECK_ROW(infer_monitor_cools(&m) == (health == INFER_HEALTH_FAILING),
				  infer_reason_name(reason));
		CHECK_ROW((m.failures == 0) == (health == INFER_HEALTH_ALIVE), infer_reason_name(reason));
	}
	CHECK(infer_monitor_health(INFER_REASON_NONE, INFER_VERDICT_SUCCESS) == INFER_HEALTH_ALIVE);
	CHECK(infer_monitor_health(INFER_REASON_NONE, INFER_VERDICT_IGNORE) == INFER_HEALTH_UNKNOWN);
}

/* What was sent before an answer came says nothing of what came after it. */
static void
test_monitor_epochs(void)
{
	InferMonitorMark old[4];
	InferMonitorMark good;

	setup(3);
	for (int i = 0; i < 4; i++)
		old[i] = sent();
	good = sent();
	fails(3);
	CHECK(infer_monitor_cools(&m));
	hear(good, INFER_REASON_NONE, 0);
	CHECK(!infer_monitor_cools(&m));
	for (int i = 0; i < 4; i++)
		hear(old[i], INFER_REASON_DISCONNECTED, 0);
	CHECK(!infer_monitor_cools(&m) && m.failures == 0);
	fails(3);
	CHECK(infer_monitor_cools(&m));
}

static void
test_monitor_probe(void)
{
	InferMonitorMark probe;

	setup(1);
	fails(1);
	CHECK(infer_monitor_room(&m, now + SEC - 1) == 0);
	now += SEC;
	CHECK(infer_monitor_room(&m, now) == 1);
	probe = sent();
	CHECK(probe.probe && infer_monitor_room(&m, now) == 0);
	/* it hangs, or its process is gone: the next one leaves a period later */
	CHECK(infer_monitor_opens_us(&m, now) == now + SEC);
	now += SEC;
	CHECK(infer_monitor_room(&m, now) == 1);
	probe = sent();
	/* never sent: another one may go at once, but not a second one */
	infer_monitor_unsent(&m, &probe, now);
	CHECK(infer_monitor_room(&m, now) == 1);
	probe = sent();
	/* a timeout is a failure of a probe */
	now += 500 * MS;
	hear(probe, INFER_REASON_TIMEOUT, 0);
	CHECK(m.step_us == 2 * SEC && infer_monitor_opens_us(&m, now) == now + 2 * SEC);
	/* of an earlier cooldown: no longer the probe */
	now += 2 * SEC;
	probe = sent();
	hear(sent(), INFER_REASON_NONE, 0);
	fails(1);
	infer_monitor_unsent(&m, &probe, now);
	CHECK(infer_monitor_room(&m, now) == 0);
}

static void
test_monitor_gives_up(void)
{
	setup(1);
	CHECK(!infer_monitor_gives_up(&m, 0, now));
	fails(1);
	CHECK(!infer_monitor_gives_up(&m, 3 * SEC, now));
	CHECK(infer_monitor_gives_up_us(&m, 3 * SEC, now) == now + 3 * SEC);
	CHECK(infer_monitor_gives_up_us(&m, INT64_MAX, now) == INT64_MAX);
	now += 2 * SEC;
	fails(1); /* the next period is until 4 */
	now += SEC - 1;
	CHECK(!infer_monitor_gives_up(&m, 3 * SEC, now));
	now += 1;
	CHECK(infer_monitor_gives_up(&m, 3 * SEC, now));
	CHECK(infer_monitor_gives_up_us(&m, 3 * SEC, now) == INT64_MAX);
	/* who would wait for longer does */
	CHECK(!infer_monitor_gives_up(&m, 4 * SEC, now));
	/* a probe is due, however long nobody has looked: nobody knows how the server is now */
	now += 3600 * SEC;
	CHECK(!infer_monitor_gives_up(&m, 3 * SEC, now));
	/* on its way: neither */
	{
		InferMonitorMark probe = sent();

		CHECK(!infer_monitor_gives_up(&m, 3 * SEC, now));
		now += 10 * MS;
		hear(probe, INFER_REASON_CONNECT_FAILED, 0);
		CHECK(infer_monitor_gives_up(&m, 3 * SEC, now));
		CHECK(infer_monitor_failing_us(&m, now) > 3600 * SEC);
	}
	hear(sent(), INFER_REASON_NONE, 0);
	CHECK(!infer_monitor_gives_up(&m, 3 * SEC, now));
}

/* --- The key --- */

static InferAdmission a;
static InferAdmissionNode nodes[NODES];
static InferPermit permit;
static int32_t who[NODES];

static void
setup_key(void)
{
	InferAdmissionConfig config = {
		.limiter = {.ceiling = 8, .floor = 1, .decrease_factor = 0.5, .adaptive = true},
		.monitor = {.threshold = 3, .cooldown_us = SEC}};
	bool tell;

	memset(&a, 0, sizeof(a));
	memset(nodes, 0, sizeof(nodes));
	now = 1000 * SEC;
	CHECK(infer_admission_configure(&a, NODES, &config, &(InferConfigurer){0}, now, &tell));
}

static int
ask(int me, int want, int64_t patience)
{
	InferAsk request = {.want = want,
						.priority = INFER_PRIORITY_NORMAL,
						.lasts_us = 60 * SEC,
						.patience_us = patience,
						.wait = true};
	int64_t stamp;

	return infer_admission_take(&a, nodes, me, &request, now, &permit, &stamp);
}

static void
tell(int me, InferReason reason)
{
	InferOutcome outcome = {.verdict = reason == INFER_REASON_NONE ? INFER_VERDICT_SUCCESS
																   : INFER_VERDICT_ERROR,
							.reason = reason,
							.units = 1,
							.retry_after_us = -1,
							.left = -1};

	infer_admission_give(&a, nodes, me, &permit, 1, &outcome, now);
}

static int
wake(void)
{
	return infer_admission_wake(&a, nodes, now, who, NODES);
}

/* The same for requests that others may serve as well. */
static int
ask_or_elsewhere(int me)
{
	InferAsk request = {.want = 1,
						.priority = INFER_PRIORITY_NORMAL,
						.lasts_us = 60 * SEC,
						.patience_us = 60 * SEC,
						.wait = true,
						.elsewhere = true};
	int64_t stamp;

	return infer_admission_take(&a, nodes, me, &request, now, &permit, &stamp);
}

/* Three requests of process 0 fail. */
static void
breaks(void)
{
	CHECK(ask(0, 3, 60 * SEC) == 3);
	for (int i = 0; i < 3; i++)
		tell(0, INFER_REASON_SERVER_ERROR);
	CHECK(infer_monitor_cools(&a.monitor));
}

/* One alarm for the end of the period, one probe, and all are woken when it is well. */
static void
test_cooling_line(void)
{
	setup_key();
	breaks();
	for (int i = 1; i <= 5; i++)
		CHECK(ask(i, 4, 60 * SEC) == 0);
	CHECK(wake() == 1 && who[0] == 1);
	CHECK(ask(1, 4, 60 * SEC) == 0);
	CHECK(infer_admission_alarm_us(&a, nodes, 1, now) == now + SEC);
	/* the others look when they would give up */
	CHECK(infer_admission_alarm_us(&a, nodes, 2, now) == now + 60 * SEC);
	CHECK(wake() == 0);

	now += SEC;
	CHECK(wake() == 1 && who[0] == 1);
	CHECK(ask(1, 4, 60 * SEC) == 1 && permit.mark.probe);
	/* it wants more, and has the alarm for the next period, too */
	CHECK(wake() == 0);
	CHECK(infer_admission_alarm_us(&a, nodes, 1, now) == now + SEC);
	CHECK(ask(2, 4, 60 * SEC) == 0);

	tell(1, INFER_REASON_NONE);
	CHECK(wake() == 5);
	CHECK(ask(2, 4, 60 * SEC) > 1 && !permit.mark.probe);
}

/* The process with the probe is gone: its permit comes back, and the next period has a probe. */
static void
test_cooling_reclaim(void)
{
	setup_key();
	breaks();
	now += SEC;
	CHECK(ask(1, 1, 60 * SEC) == 1);
	CHECK(ask(2, 1, 60 * SEC) == 0);
	infer_admission_reclaim(&a, nodes, 1);
	CHECK(a.limiter.in_flight == 0);
	CHECK(wake() == 1 && who[0] == 2);
	CHECK(ask(2, 1, 60 * SEC) == 0);
	CHECK(infer_admission_alarm_us(&a, nodes, 2, now) == now + SEC);
	now += SEC;
	CHECK(ask(2, 1, 60 * SEC) == 1 && permit.mark.probe);
}

/* A permit for the probe that comes back unused is the next one's at once. */
static void
test_cooling_unsent(void)
{
	InferOutcome unsent = {.verdict = INFER_VERDICT_IGNORE, .unsent = true, .retry_after_us = -1};

	setup_key();
	breaks();
	now += SEC;
	CHECK(ask(1, 1, 60 * SEC) == 1);
	CHECK(ask(2, 1, 60 * SEC) == 0);
	infer_admission_give(&a, nodes, 1, &permit, 1, &unsent, now);
	CHECK(wake() == 1 && who[0] == 2);
	CHECK(ask(2, 1, 60 * SEC) == 1 && permit.mark.probe);
}

/* Those who have waited for long enough are woken by the failure of a probe; new ones do not wait.
 */
static void
test_cooling_gives_up(void)
{
	setup_key();
	breaks();
	CHECK(ask(1, 1, 1500 * MS) == 0);
	CHECK(ask(2, 1, 60 * SEC) == 0);
	CHECK(ask(3, 1, 1500 * MS) == 0);
	CHECK(wake() == 1 && who[0] == 1); /* to set the alarm */
	CHECK(ask(1, 1, 1500 * MS) == 0);
	now += SEC;
	CHECK(ask(0, 1, 60 * SEC) == 0); /* not before those who wait */
	CHECK(wake() == 1 && who[0] == 1);
	now += 101 * MS; /* it does not come: the next one's turn */
	CHECK(wake() == 1 && who[0] == 2);
	CHECK(ask(2, 1, 60 * SEC) == 1);
	now += 500 * MS;
	CHECK(ask(1, 1, 1500 * MS) == 0); /* the probe is on its way */
	tell(2, INFER_REASON_SERVER_ERROR);
	CHECK(wake() == 2 && who[0] == 1 && who[1] == 3);
	CHECK(ask(1, 1, 1500 * MS) == INFER_ADMISSION_GIVES_UP);
	CHECK(ask(3, 1, 1500 * MS) == INFER_ADMISSION_GIVES_UP);
	CHECK(nodes[1].want == 0 && a.waiting[INFER_PRIORITY_NORMAL] == 1);
	CHECK(ask(5, 1, 1500 * MS) == INFER_ADMISSION_GIVES_UP);
	CHECK(ask(5, 1, 60 * SEC) == 0);
}

/* Who may go elsewhere is woken each time that nothing leaves any more: by failures, or by dials;
 * the others are not. */
static void
test_shut_wakes_those_who_may_go(void)
{
	setup_key();
	CHECK(ask(0, 100, 60 * SEC) > 0 && !infer_admission_is_shut(&a, now));
	CHECK(ask_or_elsewhere(1) == 0 && ask(2, 1, 60 * SEC) == 0 && ask_or_elsewhere(3) == 0);
	CHECK(wake() == 0);
	tell(0, INFER_REASON_CONNECT_FAILED);
	CHECK(infer_admission_is_shut(&a, now));
	CHECK(wake() == 2 && who[0] == 1 && who[1] == 3);
	CHECK(wake() == 1 && who[0] == 0); /* to set the alarm */
	infer_admission_leave(&a, nodes, 1);
	CHECK(ask_or_elsewhere(3) == 0); /* there was no room elsewhere */
	/* a dial leaves, and while it is under way nothing else does */
	now += 60 * MS;
	CHECK(!infer_admission_is_shut(&a, now));
	(void) wake();
	infer_admission_leave(&a, nodes, 0);
	infer_admission_leave(&a, nodes, 2);
	CHECK(ask(4, 1, 60 * SEC) == 0); /* it is the third's turn */
	CHECK(ask_or_elsewhere(3) == 1 && infer_admission_is_shut(&a, now));
	CHECK(ask_or_elsewhere(5) == 0);
	CHECK(wake() <= 1);
	/* failures */
	setup_key();
	CHECK(ask(0, 100, 60 * SEC) > 0);
	CHECK(ask_or_elsewhere(1) == 0 && ask(2, 1, 60 * SEC) == 0);
	infer_admission_leave(&a, nodes, 0);
	tell(0, INFER_REASON_SERVER_ERROR);
	tell(0, INFER_REASON_SERVER_ERROR);
	(void) wake();
	CHECK(!infer_admission_is_shut(&a, now));
	nodes[1].woken_us = nodes[2].woken_us = 0;
	tell(0, INFER_REASON_SERVER_ERROR);
	CHECK(infer_admission_is_shut(&a, now));
	CHECK(wake() == 1 && who[0] == 1);
}

int
main(void)
{
	TEST(fail_P49);
	TEST(fail_P41);
	TEST(monitor_threshold);
	TEST(monitor_configure);
	TEST(monitor_kinds);
	TEST(monitor_epochs);
	TEST(monitor_probe);
	TEST(monitor_gives_up);
	TEST(cooling_line);
	TEST(shut_wakes_those_who_may_go);
	TEST(cooling_reclaim);
	TEST(cooling_unsent);
	TEST(cooling_gives_up);
	return tap_done();
}
