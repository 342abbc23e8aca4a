/*
 * sim/test_peer.c - statements P39 to P44 of failures.md, for an address, its dials and the models
 * that it has not.
 */
#include <math.h>
#include <string.h>

#include "core/peer.h"
#include "tap.h"

#define MS  INT64_C(1000)
#define SEC INT64_C(1000000)

static int64_t now;

static void
hear(InferDial *d, const InferDialMark *mark, InferReason reason, double draw)
{
	infer_dial_hear(d, mark, reason,
					reason == INFER_REASON_NONE ? INFER_VERDICT_SUCCESS : INFER_VERDICT_ERROR, now,
					draw);
}

/* A dial that fails at once; what the next one has to wait. */
static int64_t
fails(InferDial *d, double draw)
{
	InferDialMark mark;
	int64_t opens;

	now = infer_dial_opens_us(d, now);
	CHECK(infer_dial_room(d, now) > 0);
	mark = infer_dial_take(d, now);
	hear(d, &mark, INFER_REASON_CONNECT_FAILED, draw);
	opens = infer_dial_opens_us(d, now);
	CHECK(infer_dial_room(d, opens - 1) == 0 && infer_dial_room(d, opens) == 1);
	return opens - now;
}

static void
connects(InferDial *d)
{
	InferDialMark mark;

	now = infer_dial_opens_us(d, now);
	mark = infer_dial_take(d, now);
	hear(d, &mark, INFER_REASON_NONE, 0);
	CHECK(infer_dial_room(d, now) == INT32_MAX);
}

static void
test_fail_P39(void)
{
	const int64_t sequence[] = {50000,  60000,  72000,  86400,  103680, 124416, 149299, 179158,
								214989, 257986, 309583, 371499, 445798, 500000, 500000};
	const int n = sizeof(sequence) / sizeof(sequence[0]);

	/* the middle of the jitter, and its ends */
	for (int k = 0; k <= 2; k++)
	{
		InferDial d = {0};

		now = 1000 * SEC;
		CHECK(infer_dial_room(&d, now) == INT32_MAX && infer_dial_opens_us(&d, now) == now);
		for (int i = 0; i < n; i++)
		{
			int64_t wait = fails(&d, k / 2.0);
			int64_t least = sequence[i] * (9 + k) / 10;

			CHECK(wait >= least - 10 && wait <= least + 10);
		}
	}
	/* up for less than five seconds: it goes on where it was; for longer: from the start */
	for (int k = 0; k < 2; k++)
	{
		InferDial d = {0};

		now = 1000 * SEC;
		for (int i = 0; i < 5; i++)
			fails(&d, 0.5);
		connects(&d);
		now += 5 * SEC + k;
		CHECK(fails(&d, 0.5) == (k == 0 ? 124416 : 50000));
		/* the silence of one that has failed is not a success */
		now += 3600 * SEC;
		CHECK(fails(&d, 0.5) > 50000);
	}
	/* what the dial itself took is a part of the delay */
	{
		InferDial d = {0};
		InferDialMark mark = infer_dial_take(&d, now);

		now += 20 * MS;
		hear(&d, &mark, INFER_REASON_CONNECT_FAILED, 0.5);
		CHECK(infer_dial_opens_us(&d, now) == now + 30 * MS);
		now += 30 * MS;
		mark = infer_dial_take(&d, now);
		now += 5 * SEC;
		hear(&d, &mark, INFER_REASON_CONNECT_FAILED, 1);
		CHECK(infer_dial_room(&d, now) == 1);
	}
	/* one hangs, and when it ends another one has just left */
	{
		InferDial d = {0};
		InferDialMark hung;

		(void) fails(&d, 0.5);
		now = infer_dial_opens_us(&d, now);
		hung = infer_dial_take(&d, now);
		now = infer_dial_opens_us(&d, now);
		(void) infer_dial_take(&d, now);
		now += 10 * MS;
		hear(&d, &hung, INFER_REASON_CONNECT_FAILED, 0.5);
		CHECK(infer_dial_opens_us(&d, now) == now + 50 * MS);
	}
}

/* Fifty that would dial every millisecond, against a host that refuses, or swallows, dial as often
 * as one would. */
static void
test_fail_P40(void)
{
	for (int takes_ms = 0; takes_ms <= 3000; takes_ms += 1500)
	{
		InferDial d = {0};
		InferDialMark flying[64];
		int64_t ends[64];
		int nflying = 0;
		int dials = 0;
		int64_t last = 0;

		now = 1000 * SEC;
		/* the one that finds out */
		flying[nflying] = infer_dial_take(&d, now);
		hear(&d, &flying[0], INFER_REASON_CONNECT_FAILED, 0.5);
		for (int ms = 0; ms < 10000; ms++)
		{
			now += MS;
			for (int i = 0; i < nflying; i++)
			{
				if (ends[i] > now)
					continue;
				hear(&d, &flying[i], INFER_REASON_CONNECT_FAILED, 0.5);
				nflying--;
				flying[i] = flying[nflying];
				ends[i] = ends[nflying];
				i--;
			}
			for (int process = 0; process < 50; process++)
			{
				if (infer_dial_room(&d, now) == 0)
					continue;
				CHECK(nflying < 64);
				if (nflying == 64)
					return;
				flying[nflying] = infer_dial_take(&d, now);
				CHECK(flying[nflying].dial);
				ends[nflying++] = now + takes_ms * MS;
				CHECK(last == 0 || now - last >= 60 * MS - 7 * MS);
				last = now;
				dials++;
			}
		}
		/* 13 until the longest delay is reached (2.37 s), then two a second */
		CHECK(dials >= 14 && dials <= 29);

		/* one gets through: all may */
		now += SEC;
		connects(&d);
		/* what had left before says nothing of now */
		for (int i = 0; i < nflying; i++)
			hear(&d, &flying[i], INFER_REASON_CONNECT_FAILED, 0.5);
		CHECK(infer_dial_room(&d, now) == INT32_MAX);
	}
}

/* What was in flight when the first failure came is one failure. */
static void
test_dial_burst(void)
{
	InferDial d = {0};
	InferDialMark old[16];
	InferDialMark dial;

	now = 1000 * SEC;
	for (int i = 0; i < 16; i++)
		old[i] = infer_dial_take(&d, now);
	for (int i = 0; i < 15; i++)
		hear(&d, &old[i], INFER_REASON_CONNECT_FAILED, 0.5);
	CHECK(d.delay_us == 50 * MS && infer_dial_opens_us(&d, now) == now + 50 * MS);
	/* it counts from the last that left, be it another one than the first that fails */
	d = (InferDial){0};
	old[0] = infer_dial_take(&d, now - 9 * MS);
	(void) infer_dial_take(&d, now - 1 * MS);
	hear(&d, &old[0], INFER_REASON_CONNECT_FAILED, 0.5);
	CHECK(infer_dial_opens_us(&d, now) == now + 49 * MS);
	old[15] = old[0];
	old[3] = old[0];
	/* connections that end when the server goes are no sign that it is back; an answer is */
	hear(&d, &old[15], INFER_REASON_DISCONNECTED, 0);
	CHECK(infer_dial_room(&d, now) == 0);
	hear(&d, &old[15], INFER_REASON_NONE, 0);
	CHECK(infer_dial_room(&d, now) == INT32_MAX);
	/* the same failures are no news after it */
	hear(&d, &old[3], INFER_REASON_CONNECT_FAILED, 0.5);
	CHECK(infer_dial_room(&d, now) == INT32_MAX);

	/* one at a time: the second waits for as long as the first may take at most */
	fails(&d, 0.5);
	now = infer_dial_opens_us(&d, now);
	dial = infer_dial_take(&d, now);
	CHECK(dial.dial && infer_dial_room(&d, now + 499 * MS) == 0);
	CHECK(infer_dial_room(&d, now + 500 * MS) == 1);
	/* one that never left does not hold the next one up */
	infer_dial_unsent(&d, &dial, now);
	CHECK(infer_dial_room(&d, now) == 1);
	infer_dial_unsent(&d, &old[0], now + 9);
	CHECK(infer_dial_opens_us(&d, now) == now);
	dial = infer_dial_take(&d, now);
	hear(&d, &dial, INFER_REASON_DISCONNECTED, 0);
	CHECK(infer_dial_room(&d, now) == INT32_MAX && !infer_dial_take(&d, now).dial);
}

/* What says that a connection could not be made, that one was, and what neither. */
static void
test_dial_kinds(void)
{
	const struct
	{
		InferReason reason;
		bool closes;
		bool opens;
	} rows[] = {
		{INFER_REASON_LOOKUP_FAILED, true, false},
		{INFER_REASON_CONNECT_FAILED, true, false},
		{INFER_REASON_TLS_FAILED, true, false},
		{INFER_REASON_EGRESS_DENIED, false, false},
		{INFER_REASON_CREDENTIAL_MISSING, false, false},
		{INFER_REASON_CANCELLED, false, false},
		{INFER_REASON_TIMEOUT, false, false},
		{INFER_REASON_INTERNAL, false, false},
		{INFER_REASON_DISCONNECTED, false, true},
		{INFER_REASON_INCOMPLETE_REPLY, false, true},
		{INFER_REASON_MALFORMED_REPLY, false, true},
		{INFER_REASON_SERVER_ERROR, false, true},
		{INFER_REASON_OVERLOADED, false, true},
		{INFER_REASON_UNAUTHENTICATED, false, true},
		{INFER_REASON_NOT_FOUND, false, true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		InferDial d = {0};
		InferDialMark mark;

		now = 1000 * SEC;
		mark = infer_dial_take(&d, now);
		hear(&d, &mark, rows[i].reason, 0);
		CHECK_ROW(d.closed == rows[i].closes, infer_reason_name(rows[i].reason));
		d = (InferDial){0};
		fails(&d, 0);
		now = infer_dial_opens_us(&d, now);
		mark = infer_dial_take(&d, now);
		hear(&d, &mark, rows[i].reason, 0);
		CHECK_ROW(d.closed == !rows[i].opens, infer_reason_name(rows[i].reason));
	}
}

static void
test_fail_P41(void)
{
	InferPeer p = {0};

	now = 1000 * SEC;
	CHECK(!infer_peer_failed(&p, now) && infer_peer_failing_us(&p, now) == 0);
	for (int ms = 0; ms < 4000; ms += 100)
	{
		infer_peer_hear_failure(&p, now, now);
		CHECK(!infer_peer_failed(&p, now));
		now += 100 * MS;
	}
	/* one failure and silence is not four seconds of failures */
	CHECK(!infer_peer_failed(&p, now + 10 * SEC));
	infer_peer_hear_failure(&p, now, now);
	CHECK(infer_peer_failed(&p, now) && infer_peer_failing_us(&p, now) == 4 * SEC);
	CHECK(infer_peer_failed(&p, now + 60 * SEC));
	CHECK(!infer_peer_failed(&p, now + 61 * SEC) && infer_peer_failing_us(&p, now + 61 * SEC) == 0);
	infer_peer_hear_answer(&p, now);
	CHECK(!infer_peer_failed(&p, now) && infer_peer_failing_us(&p, now) == 0);
	/* of requests that left before the answer */
	infer_peer_hear_failure(&p, now - 1, now + 5 * SEC);
	infer_peer_hear_failure(&p, now, now + 10 * SEC);
	CHECK(p.since_us == 0);
	/* the run starts anew */
	now += 10 * SEC;
	infer_peer_hear_failure(&p, now, now);
	now += 4 * SEC - 1;
	infer_peer_hear_failure(&p, now, now);
	CHECK(!infer_peer_failed(&p, now));
	/* failures a minute apart are no run */
	now += 61 * SEC;
	infer_peer_hear_failure(&p, now, now);
	CHECK(!infer_peer_failed(&p, now) && p.since_us == now);
}

static void
test_fail_P42(void)
{
	const InferReason never[] = {INFER_REASON_UNAUTHENTICATED, INFER_REASON_PERMISSION_DENIED,
								 INFER_REASON_OVERLOADED,      INFER_REASON_SERVER_ERROR,
								 INFER_REASON_BAD_REQUEST,     INFER_REASON_CONNECT_FAILED,
								 INFER_REASON_TIMEOUT,         INFER_REASON_QUOTA_EXCEEDED};
	InferDeadModels t = {0};

	now = 1000 * SEC;
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
	{
		CHECK_ROW(!infer_dead_hear(&t, 7, 1, never[i], true, now), infer_reason_name(never[i]));
		CHECK(!infer_dead_is(&t, 7, 1, now));
	}
	/* a path that is not there is not a model that is not there */
	CHECK(!infer_dead_hear(&t, 7, 1, INFER_REASON_NOT_FOUND, false, now));
	CHECK(!infer_dead_is(&t, 7, 1, now) && !infer_dead_is(&t, 0, 0, now));

	CHECK(infer_dead_hear(&t, 7, 1, INFER_REASON_NOT_FOUND, true, now));
	CHECK(infer_dead_is(&t, 7, 1, now));
	CHECK(!infer_dead_is(&t, 8, 1, now)); /* only that model */
	CHECK(!infer_dead_is(&t, 7, 2, now)); /* and that version */
	CHECK(infer_dead_is(&t, 7, 1, now + 60 * SEC - 1));
	CHECK(!infer_dead_is(&t, 7, 1, now + 60 * SEC));
	CHECK(infer_dead_hear(&t, 7, 2, INFER_REASON_NOT_FOUND, true, now));
	CHECK(infer_dead_is(&t, 7, 2, now) && t.next == 1); /* in the same place */
	infer_dead_clear(&t, 8);
	CHECK(infer_dead_is(&t, 7, 2, now));
	infer_dead_clear(&t, 7);
	CHECK(!infer_dead_is(&t, 7, 2, now));

	/* full: the oldest goes */
	infer_dead_clear_all(&t);
	t.next = 3;
	for (uint64_t model = 100; model <= 100 + INFER_DEAD_MODELS; model++)
		CHECK(infer_dead_hear(&t, model, 1, INFER_REASON_NOT_FOUND, true, now));
	CHECK(!infer_dead_is(&t, 100, 1, now));
	for (uint64_t model = 101; model <= 100 + INFER_DEAD_MODELS; model++)
		CHECK(infer_dead_is(&t, model, 1, now));
}

/* Who has noted the number before he looked sees every change that came after. */
static void
test_fail_P43(void)
{
	InferPeer p = {0};

	now = 1000 * SEC;
	for (int i = 0; i < 100000; i++)
	{
		uint64_t seen = p.version;

		if (i % 2 == 0)
		{
			infer_peer_hear_failure(&p, now + 1, now + 1);
			CHECK(p.version == seen);
			now += 4 * SEC + 1;
			infer_peer_hear_failure(&p, now, now);
			CHECK(infer_peer_failed(&p, now) && p.version == seen + 1);
			infer_peer_hear_failure(&p, now, now);
			CHECK(p.version == seen + 1);
		}
		else
		{
			infer_peer_hear_answer(&p, now);
			CHECK(!infer_peer_failed(&p, now) && p.version == seen + 1);
			infer_peer_hear_answer(&p, now);
			CHECK(p.version == seen + 1);
		}
	}
	infer_peer_hear_disconnect(&p);
	CHECK(p.disconnects == 1 && p.version == 100000);
}

static void
test_fail_P44(void)
{
	InferPeer p = {0};

	CHECK(infer_peer_patience_us(10 * SEC, 0, 50 * SEC) == 10 * SEC);
	CHECK(infer_peer_patience_us(10 * SEC, 0.5, 0) == 20 * SEC);
	CHECK(infer_peer_patience_us(10 * SEC, 0.5, 30 * SEC) == 50 * SEC);
	CHECK(infer_peer_patience_us(10 * SEC, -3, 30 * SEC) == 10 * SEC);
	CHECK(infer_peer_patience_us(10 * SEC, (double) NAN, 30 * SEC) == 10 * SEC);
	CHECK((infer_peer_patience_us(SEC, 7, 0) + MS) / SEC == 100);
	CHECK(infer_peer_patience_us(INT64_MAX / 2, 0.9, 0) == INT64_MAX);

	now = 1000 * SEC;
	CHECK(infer_peer_patience_ends_us(&p, now, SEC, 0.5, now) == INT64_MAX);
	/* it had waited for three seconds: 2 * (1 + 1.5) from the first failure on */
	infer_peer_hear_failure(&p, now + 3 * SEC, now + 3 * SEC);
	CHECK(infer_peer_patience_ends_us(&p, now, SEC, 0.5, now + 3 * SEC) == now + 8 * SEC);
	/* one who came later had not waited */
	CHECK(infer_peer_patience_ends_us(&p, now + 4 * SEC, SEC, 0.5, now + 4 * SEC) == now + 6 * SEC);
	/* recovery in between: from the next failure on, and more patient */
	infer_peer_hear_answer(&p, now + 5 * SEC);
	CHECK(infer_peer_patience_ends_us(&p, now, SEC, 0.5, now + 5 * SEC) == INT64_MAX);
	infer_peer_hear_failure(&p, now + 6 * SEC, now + 6 * SEC);
	CHECK(infer_peer_patience_ends_us(&p, now, SEC, 0.5, now + 6 * SEC) == now + 14 * SEC);
}

/* One that never left makes room for another one, but not where a failure was heard since. */
static void
test_dial_unsent(void)
{
	InferDial d = {0};
	InferDialMark mark;
	InferDialMark other;

	now = 1000 * SEC;
	other = infer_dial_take(&d, now);
	hear(&d, &other, INFER_REASON_CONNECT_FAILED, 0.5);
	now = infer_dial_opens_us(&d, now);
	mark = infer_dial_take(&d, now);
	CHECK(mark.dial && infer_dial_room(&d, now) == 0);
	infer_dial_unsent(&d, &mark, now);
	CHECK(infer_dial_room(&d, now) == 1);
	mark = infer_dial_take(&d, now);
	now += 500 * MS; /* it hangs, another one may leave */
	other = infer_dial_take(&d, now);
	hear(&d, &other, INFER_REASON_CONNECT_FAILED, 0.5);
	CHECK(infer_dial_room(&d, now) == 0);
	infer_dial_unsent(&d, &mark, now);
	CHECK(infer_dial_room(&d, now) == 0);
}

/* Who says that it is loading is believed for ten seconds, each time. */
static void
test_loading(void)
{
	InferLoading l = {0};

	now = 1000 * SEC;
	CHECK(infer_loading_since_us(&l, now) == 0);
	CHECK(!infer_loading_hear(&l, false, now));
	CHECK(!infer_loading_hear(&l, true, now));
	CHECK(infer_loading_since_us(&l, now + 10 * SEC) == now);
	CHECK(infer_loading_since_us(&l, now + 10 * SEC + 1) == 0);
	/* said again in time: it is the same */
	CHECK(!infer_loading_hear(&l, true, now + 8 * SEC));
	CHECK(infer_loading_since_us(&l, now + 18 * SEC) == now);
	/* ... too late: another one */
	now += 30 * SEC;
	CHECK(!infer_loading_hear(&l, true, now));
	CHECK(infer_loading_since_us(&l, now) == now);
	/* ready, also when nobody has believed it any more */
	CHECK(infer_loading_hear(&l, false, now + 60 * SEC));
	CHECK(infer_loading_since_us(&l, now + 60 * SEC) == 0);
	CHECK(!infer_loading_hear(&l, false, now + 60 * SEC));
}

int
main(void)
{
	TEST(fail_P39);
	TEST(fail_P40);
	TEST(dial_burst);
	TEST(dial_kinds);
	TEST(fail_P41);
	TEST(fail_P42);
	TEST(fail_P43);
	TEST(fail_P44);
	TEST(loading);
	TEST(dial_unsent);
	return tap_done();
}
