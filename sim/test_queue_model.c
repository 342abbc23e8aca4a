/*
 * sim/test_queue_model.c - statements P46 to P49 of failures.md for one server's model, and P72.
 */
#include <math.h>
#include <string.h>

#include "core/queue_model.h"
#include "tap.h"

#define MS  INT64_C(1000)
#define SEC INT64_C(1000000)

static InferQueueModel m;
static int64_t now;

static void
setup(void)
{
	memset(&m, 0x5a, sizeof(m));
	infer_queue_init(&m);
	now = 1000 * SEC;
}

static uint32_t
draw(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

/* One request from begin to end. */
static void
request(InferQueueEnd end, InferTask task, int64_t units, int64_t elapsed_us)
{
	InferReservation r = infer_queue_reserve(&m, now);
	const InferQueueReport report = {
		.end = end, .task = task, .units = units, .elapsed_us = elapsed_us, .penalty = NAN};

	CHECK(infer_queue_release(&m, &r, &report, now));
}

static void
refused(double jitter, int64_t retry_after_us)
{
	InferReservation r = infer_queue_reserve(&m, now);
	const InferQueueReport report = {.end = INFER_QUEUE_OVERLOADED,
									 .retry_after_us = retry_after_us,
									 .penalty = NAN,
									 .draw = jitter};

	infer_queue_release(&m, &r, &report, now);
}

static int64_t
all_ended(void)
{
	int64_t n = 0;

	for (int end = 0; end < INFER_QUEUE_END_COUNT; end++)
		n += m.ended[end];
	return n;
}

/* Whatever order they end in, by whatever end, nothing is left, and every one is counted once. */
static void
test_fail_P46(void)
{
	InferReservation held[64];
	int n = 0;
	uint32_t seed = 7;

	setup();
	for (int i = 0; i < 100000; i++)
	{
		uint32_t what = draw(&seed) % 8;
		double sum = 0;

		now += draw(&seed) % 1000;
		if (what < 4 && n < 64)
			held[n++] = infer_queue_reserve(&m, now);
		else if (what < 7 && n > 0)
		{
			int which = (int) (draw(&seed) % (uint32_t) n);
			const InferQueueReport report = {
				.end = (InferQueueEnd) (draw(&seed) % INFER_QUEUE_END_COUNT),
				.task = INFER_TASK_CHAT,
				.elapsed_us = 1 + draw(&seed) % 100,
				.penalty = (double) (draw(&seed) % 50) / 3};

			CHECK(infer_queue_release(&m, &held[which], &report, now));
			CHECK(!infer_queue_release(&m, &held[which], &report, now));
			held[which] = held[--n];
		}
		else if (n > 3)
		{
			/* a process is gone, with the last three */
			infer_queue_drop(&m, 3, held[n - 1].weight + held[n - 2].weight + held[n - 3].weight);
			n -= 3;
		}
		for (int k = 0; k < n; k++)
			sum += held[k].weight;
		CHECK(m.in_flight == n && fabs(m.outstanding - sum) < 1e-6);
		CHECK(n > 0 || m.outstanding == 0);
		CHECK(m.reserved == all_ended() + n);
	}
	while (n > 0)
		infer_queue_drop(&m, 1, held[--n].weight);
	infer_queue_drop(&m, 0, 0);
	CHECK(m.in_flight == 0 && m.outstanding == 0 && m.reserved == all_ended());
}

/* Each takes back what it weighed when it left; nonsense is no penalty. */
static void
test_fail_P47(void)
{
	const double nonsense[] = {NAN, INFINITY, -INFINITY, 0, -1};
	const InferQueueReport report = {.end = INFER_QUEUE_CLEAN, .penalty = NAN};
	InferReservation first;
	InferReservation second;
	InferReservation third;

	setup();
	first = infer_queue_reserve(&m, now);
	infer_queue_penalty(&m, 10);
	second = infer_queue_reserve(&m, now);
	CHECK(m.outstanding == 11);
	infer_queue_penalty(&m, 3);
	infer_queue_release(&m, &second, &report, now);
	CHECK(m.outstanding == 1);
	third = infer_queue_reserve(&m, now);
	CHECK(m.outstanding == 4);
	infer_queue_release(&m, &first, &report, now);
	CHECK(m.outstanding == 3);
	infer_queue_release(&m, &third, &report, now);
	CHECK(m.outstanding == 0);

	for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++)
	{
		infer_queue_penalty(&m, nonsense[i]);
		CHECK(m.penalty == 3);
	}
	infer_queue_penalty(&m, 0.01);
	CHECK(m.penalty == 1);
	infer_queue_penalty(&m, 1e9);
	CHECK(m.penalty == 1000);
}

/* A clean one moves the latency up or down, by a fourth; others only up, until the next clean one;
 * one that was given up not at all. */
static void
test_fail_P48(void)
{
	const InferQueueEnd unclean[] = {INFER_QUEUE_BEHIND, INFER_QUEUE_OVERLOADED,
									 INFER_QUEUE_FAILED};

	setup();
	CHECK(infer_queue_latency_us(&m, INFER_TASK_CHAT, 0) == MS);
	CHECK(infer_queue_latency_us(&m, INFER_TASK_CHAT, 100) == MS);
	request(INFER_QUEUE_CLEAN, INFER_TASK_CHAT, 0, 100 * MS);
	CHECK(infer_queue_latency_us(&m, INFER_TASK_CHAT, 0) == 100 * MS);
	for (int i = 0; i < 3; i++)
	{
		request(unclean[i], INFER_TASK_CHAT, 0, 40 * MS);
		CHECK(infer_queue_latency_us(&m, INFER_TASK_CHAT, 0) == 100 * MS);
		request(unclean[i], INFER_TASK_CHAT, 0, 400 * MS);
		request(unclean[i], INFER_TASK_CHAT, 0, 200 * MS);
		CHECK(infer_queue_latency_us(&m, INFER_TASK_CHAT, 0) == 400 * MS);
		request(INFER_QUEUE_DROPPED, INFER_TASK_CHAT, 0, 10 * MS);
		request(INFER_QUEUE_DROPPED, INFER_TASK_CHAT, 0, 10 * SEC);
		CHECK(infer_queue_latency_us(&m, INFER_TASK_CHAT, 0) == 400 * MS);
		request(INFER_QUEUE_CLEAN, INFER_TASK_CHAT, 0, 100 * MS);
		CHECK(infer_queue_latency_us(&m, INFER_TASK_CHAT, 0) == 100 * MS);
	}
	request(INFER_QUEUE_CLEAN, INFER_TASK_CHAT, 0, 20 * MS);
	CHECK(infer_queue_latency_us(&m, INFER_TASK_CHAT, 0) == 80 * MS);
	request(INFER_QUEUE_CLEAN, INFER_TASK_CHAT, 0, 160 * MS);
	CHECK(infer_queue_latency_us(&m, INFER_TASK_CHAT, 0) == 100 * MS);
	/* no sample without a time */
	now += SEC;
	request(INFER_QUEUE_CLEAN, INFER_TASK_CHAT, 0, 0);
	CHECK(infer_queue_latency_us(&m, INFER_TASK_CHAT, 0) == 100 * MS);
	CHECK(infer_queue_heard_us(&m, INFER_TASK_CHAT) == now - SEC);
	CHECK(infer_queue_heard_us(&m, INFER_TASK_EMBED) == 0);
	/* tasks are apart */
	CHECK(infer_queue_latency_us(&m, INFER_TASK_EMBED, 0) == MS);
}

/* What was known ten seconds ago is of another time: a clean one sets the figure anew, one of
 * another kind still never lowers it, nor is it any reason to believe the old figure longer. */
static void
test_fail_P48_old_figures(void)
{
	setup();
	request(INFER_QUEUE_CLEAN, INFER_TASK_CHAT, 0, 2 * SEC);
	now += 10 * SEC;
	request(INFER_QUEUE_CLEAN, INFER_TASK_CHAT, 0, 100 * MS);
	CHECK(infer_queue_latency_us(&m, INFER_TASK_CHAT, 0) == 1525 * MS);
	now += 10 * SEC + 1;
	request(INFER_QUEUE_CLEAN, INFER_TASK_CHAT, 10, 100 * MS);
	CHECK(infer_queue_latency_us(&m, INFER_TASK_CHAT, 0) == 100 * MS);
	CHECK(infer_queue_latency_us(&m, INFER_TASK_CHAT, 10) == 100 * MS);
	now += 6 * SEC;
	request(INFER_QUEUE_FAILED, INFER_TASK_CHAT, 0, 10 * MS);
	CHECK(infer_queue_latency_us(&m, INFER_TASK_CHAT, 0) == 100 * MS);
	CHECK(infer_queue_doubted(&m, INFER_TASK_CHAT));
	CHECK(!infer_queue_doubted(&m, INFER_TASK_EMBED));
	now += 6 * SEC;
	request(INFER_QUEUE_CLEAN, INFER_TASK_CHAT, 10, 50 * MS);
	CHECK(infer_queue_latency_us(&m, INFER_TASK_CHAT, 0) == 50 * MS);
	CHECK(infer_queue_latency_us(&m, INFER_TASK_CHAT, 10) == 50 * MS);
	CHECK(!infer_queue_doubted(&m, INFER_TASK_CHAT));
}

/* A long answer is not a slow server: what counts is the time of a row, or of a token. */
static void
test_queue_units(void)
{
	setup();
	request(INFER_QUEUE_CLEAN, INFER_TASK_EMBED, 100, 200 * MS);
	CHECK(infer_queue_latency_us(&m, INFER_TASK_EMBED, 1) == 2 * MS);
	CHECK(infer_queue_latency_us(&m, INFER_TASK_EMBED, 50) == 100 * MS);
	for (int i = 0; i < 20; i++)
		request(INFER_QUEUE_CLEAN, INFER_TASK_EMBED, 10, 20 * MS);
	CHECK(infer_queue_latency_us(&m, INFER_TASK_EMBED, 50) == 100 * MS);
	/* not known: a usual request */
	CHECK(infer_queue_latency_us(&m, INFER_TASK_EMBED, 0) < 21 * MS);

	/* a failure of which nobody knows the tokens counts where they are not known */
	request(INFER_QUEUE_CLEAN, INFER_TASK_CHAT, 10, 100 * MS);
	request(INFER_QUEUE_FAILED, INFER_TASK_CHAT, 0, 5 * SEC);
	CHECK(infer_queue_latency_us(&m, INFER_TASK_CHAT, 10) == 100 * MS);
	CHECK(infer_queue_latency_us(&m, INFER_TASK_CHAT, 0) == 5 * SEC);
	/* a failed batch of a known size counts by the row as well */
	request(INFER_QUEUE_CLEAN, INFER_TASK_EMBED, 10, 20 * MS);
	request(INFER_QUEUE_FAILED, INFER_TASK_EMBED, 10, 80 * MS);
	CHECK(infer_queue_latency_us(&m, INFER_TASK_EMBED, 50) == 400 * MS);
	/* nothing known of units yet */
	request(INFER_QUEUE_CLEAN, INFER_TASK_CALL, 0, 30 * MS);
	CHECK(infer_queue_latency_us(&m, INFER_TASK_CALL, 7) == 30 * MS);
}

/* One step in a period, 1 2 4 8 8 seconds; jitter shortens; a clean one starts anew. */
static void
test_fail_P49(void)
{
	const int64_t at[] = {0, 1500 * MS, 4 * SEC, 9 * SEC, 20 * SEC};
	const int64_t step[] = {SEC, 2 * SEC, 4 * SEC, 8 * SEC, 8 * SEC};

	setup();
	CHECK(!infer_queue_excluded(&m, now));
	for (int i = 0; i < 5; i++)
	{
		now = 1000 * SEC + at[i];
		CHECK(!infer_queue_excluded(&m, now));
		refused(0, 0);
		CHECK(infer_queue_excluded(&m, now + step[i] - 1));
		CHECK(!infer_queue_excluded(&m, now + step[i]));
	}

	/* ten in one period: one step, and the end moves */
	setup();
	for (int i = 0; i < 10; i++)
	{
		now += 99 * MS;
		refused(0, 0);
	}
	CHECK(m.step_us == SEC);
	CHECK(m.excluded_until_us == now + SEC);

	for (int i = 0; i < 10; i++)
	{
		setup();
		refused(i / 10.0, 0);
		CHECK(m.excluded_until_us == now + SEC - i * 25 * MS);
	}
	/* the jitter of a later one does not shorten what an earlier one said */
	setup();
	refused(0, 0);
	refused(0.9, 0);
	CHECK(m.excluded_until_us == now + SEC);

	/* clean: the next one is the first again, but it is still left alone */
	now += 1500 * MS;
	refused(0, 0);
	CHECK(m.step_us == 2 * SEC);
	request(INFER_QUEUE_CLEAN, INFER_TASK_CHAT, 0, MS);
	CHECK(infer_queue_excluded(&m, now));
	refused(0, 0);
	CHECK(m.step_us == SEC);

	/* a longer Retry-After counts; a shorter one does not; nor does a day */
	setup();
	refused(0, 30 * SEC);
	CHECK(m.excluded_until_us == now + 30 * SEC);
	setup();
	refused(0, 10 * MS);
	CHECK(m.excluded_until_us == now + SEC);
	setup();
	refused(0, 86400 * SEC);
	CHECK(m.excluded_until_us == now + 3600 * SEC);

	/* a failure does not exclude, being behind does */
	setup();
	request(INFER_QUEUE_FAILED, INFER_TASK_CHAT, 0, MS);
	request(INFER_QUEUE_DROPPED, INFER_TASK_CHAT, 0, MS);
	CHECK(!infer_queue_excluded(&m, now));
	request(INFER_QUEUE_BEHIND, INFER_TASK_CHAT, 0, MS);
	CHECK(infer_queue_excluded(&m, now));
	setup();
	infer_queue_exclude(&m, 0, now, 0);
	CHECK(m.excluded_until_us == now + SEC && m.reserved == 0);
}

/* Another incarnation: nothing of the old one is inherited, not even by what is still in flight;
 * but that takes its weight back. */
static void
test_fail_P72(void)
{
	InferReservation old;
	InferReservation other;
	const InferQueueReport slow = {
		.end = INFER_QUEUE_OVERLOADED, .task = INFER_TASK_CHAT, .elapsed_us = SEC, .penalty = 9};

	setup();
	infer_queue_penalty(&m, 5);
	request(INFER_QUEUE_OVERLOADED, INFER_TASK_CHAT, 0, 3 * SEC);
	old = infer_queue_reserve(&m, now);
	infer_queue_renew(&m);
	CHECK(m.penalty == 1 && !infer_queue_excluded(&m, now) && m.step_us == 0);
	CHECK(infer_queue_latency_us(&m, INFER_TASK_CHAT, 0) == MS);
	other = infer_queue_reserve(&m, now);
	CHECK(m.in_flight == 2 && m.outstanding == 6);
	CHECK(infer_queue_release(&m, &old, &slow, now));
	CHECK(m.in_flight == 1 && m.outstanding == 1);
	CHECK(m.penalty == 1 && !infer_queue_excluded(&m, now));
	CHECK(infer_queue_latency_us(&m, INFER_TASK_CHAT, 0) == MS);
	infer_queue_release(&m, &other, &slow, now);
	CHECK(m.penalty == 9 && infer_queue_excluded(&m, now));
}

static void
test_queue_ends(void)
{
	const struct
	{
		InferReason reason;
		InferQueueEnd end;
	} rows[] = {
		{INFER_REASON_LOOKUP_FAILED, INFER_QUEUE_FAILED},
		{INFER_REASON_CONNECT_FAILED, INFER_QUEUE_FAILED},
		{INFER_REASON_TLS_FAILED, INFER_QUEUE_FAILED},
		{INFER_REASON_EGRESS_DENIED, INFER_QUEUE_DROPPED},
		{INFER_REASON_CREDENTIAL_MISSING, INFER_QUEUE_DROPPED},
		{INFER_REASON_CERTIFICATE_UNUSABLE, INFER_QUEUE_DROPPED},
		{INFER_REASON_CREDENTIAL_WITHHELD, INFER_QUEUE_DROPPED},
		{INFER_REASON_CANCELLED, INFER_QUEUE_DROPPED},
		{INFER_REASON_TIMEOUT, INFER_QUEUE_FAILED},
		{INFER_REASON_DISCONNECTED, INFER_QUEUE_FAILED},
		{INFER_REASON_OVERLOADED, INFER_QUEUE_OVERLOADED},
		{INFER_REASON_QUOTA_EXCEEDED, INFER_QUEUE_FAILED},
		{INFER_REASON_UNAUTHENTICATED, INFER_QUEUE_FAILED},
		{INFER_REASON_NOT_FOUND, INFER_QUEUE_FAILED},
		{INFER_REASON_BAD_REQUEST, INFER_QUEUE_FAILED},
		{INFER_REASON_SERVER_ERROR, INFER_QUEUE_FAILED},
		{INFER_REASON_SERVER_FAILED, INFER_QUEUE_DROPPED},
		{INFER_REASON_MALFORMED_REPLY, INFER_QUEUE_FAILED},
		{INFER_REASON_MISSING_RESULT, INFER_QUEUE_FAILED},
		{INFER_REASON_MISALIGNED, INFER_QUEUE_FAILED},
		{INFER_REASON_INCOMPLETE_REPLY, INFER_QUEUE_FAILED},
		{INFER_REASON_REPLY_TOO_LARGE, INFER_QUEUE_FAILED},
		{INFER_REASON_REDIRECTED, INFER_QUEUE_FAILED},
		{INFER_REASON_REQUEST_TOO_LARGE, INFER_QUEUE_FAILED},
		{INFER_REASON_CONFLICT, INFER_QUEUE_FAILED},
		{INFER_REASON_PERMISSION_DENIED, INFER_QUEUE_FAILED},
		{INFER_REASON_ERROR_RATIO, INFER_QUEUE_DROPPED},
		{INFER_REASON_TRUNCATED, INFER_QUEUE_CLEAN},
		{INFER_REASON_FILTERED, INFER_QUEUE_CLEAN},
		{INFER_REASON_REFUSED, INFER_QUEUE_CLEAN},
		{INFER_REASON_TOOL_CALL, INFER_QUEUE_CLEAN},
		{INFER_REASON_BUDGET, INFER_QUEUE_DROPPED},
		{INFER_REASON_INTERNAL, INFER_QUEUE_DROPPED},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_ROW(infer_queue_end(rows[i].reason, INFER_VERDICT_ERROR, false) == rows[i].end,
				  infer_reason_name(rows[i].reason));
	CHECK(infer_queue_end(INFER_REASON_NONE, INFER_VERDICT_SUCCESS, false) == INFER_QUEUE_CLEAN);
	CHECK(infer_queue_end(INFER_REASON_NONE, INFER_VERDICT_IGNORE, false) == INFER_QUEUE_DROPPED);
	CHECK(infer_queue_end(INFER_REASON_OVERLOADED, INFER_VERDICT_OVERLOADED, true) ==
		  INFER_QUEUE_BEHIND);
	CHECK(infer_queue_end(INFER_REASON_TIMEOUT, INFER_VERDICT_IGNORE, false) ==
		  INFER_QUEUE_DROPPED);
	/* what never left says nothing of load, but of the server */
	CHECK(infer_queue_end(INFER_REASON_CONNECT_FAILED, INFER_VERDICT_IGNORE, false) ==
		  INFER_QUEUE_FAILED);
}

int
main(void)
{
	TEST(fail_P46);
	TEST(fail_P47);
	TEST(fail_P48);
	TEST(fail_P48_old_figures);
	TEST(queue_units);
	TEST(fail_P49);
	TEST(fail_P72);
	TEST(queue_ends);
	return tap_done();
}
