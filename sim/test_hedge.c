/*
 * sim/test_hedge.c - statements P52 to P54 of failures.md: when a copy is due, and what pays for
 * it.
 */
#include "core/hedge.h"
#include "tap.h"

#define MS  INT64_C(1000)
#define SEC INT64_C(1000000)

static InferHedge h;

/* Requests that are answered without a copy. */
static void
answers(int n)
{
	while (n-- > 0)
		infer_hedge_landed(&h, INFER_ATTEMPT_FIRST, false, false, true);
}

static void
test_fail_P52(void)
{
	infer_hedge_init(&h);
	CHECK(infer_hedge_delay_us(&h, INFER_ATTEMPT_FIRST, true, 100 * MS, 100 * MS, 50 * MS) ==
		  150 * MS);
	h.multiplier = INFER_HEDGE_ONE * 3 / 2;
	CHECK(infer_hedge_delay_us(&h, INFER_ATTEMPT_FIRST, true, 100 * MS, 100 * MS, 50 * MS) ==
		  200 * MS);
	/* at once: the first one is expected to take more than twice that */
	CHECK(infer_hedge_delay_us(&h, INFER_ATTEMPT_FIRST, true, 400 * MS, 100 * MS, 50 * MS) ==
		  200 * MS);
	CHECK(infer_hedge_delay_us(&h, INFER_ATTEMPT_FIRST, true, 400 * MS + 1, 100 * MS, 50 * MS) ==
		  0);
	/* never for a retry, nor for a copy */
	CHECK(infer_hedge_delay_us(&h, INFER_ATTEMPT_RETRY, true, 9 * SEC, 100 * MS, 50 * MS) ==
		  INFER_HEDGE_NEVER);
	CHECK(infer_hedge_delay_us(&h, INFER_ATTEMPT_COPY, true, 9 * SEC, 100 * MS, 50 * MS) ==
		  INFER_HEDGE_NEVER);

	/* forbidden, however large the budget */
	answers(3000);
	CHECK(h.budget == 100 * INFER_HEDGE_COPY);
	CHECK(infer_hedge_delay_us(&h, INFER_ATTEMPT_FIRST, false, 9 * SEC, 100 * MS, 50 * MS) ==
		  INFER_HEDGE_NEVER);
	CHECK(!infer_hedge_take(&h, false));
	CHECK(h.sent == 0 && h.denied == 0 && h.budget == 100 * INFER_HEDGE_COPY);
	/* permitted, and no budget */
	infer_hedge_init(&h);
	answers(19);
	CHECK(!infer_hedge_take(&h, true));
	CHECK(h.sent == 0 && h.denied == 1 && h.budget == 19);
}

static void
test_fail_P53(void)
{
	int64_t calls = 0;

	infer_hedge_init(&h);
	CHECK(!infer_hedge_take(&h, true));
	answers(20);
	CHECK(infer_hedge_take(&h, true) && h.budget == 0);
	CHECK(!infer_hedge_take(&h, true));

	/* all slow: each call wants a copy, and few get one */
	infer_hedge_init(&h);
	for (calls = 1; calls <= 100000; calls++)
	{
		bool copied = infer_hedge_take(&h, true);

		infer_hedge_landed(&h, INFER_ATTEMPT_FIRST, copied, false, true);
		CHECK(h.sent * 20 <= calls);
	}
	CHECK(h.sent == 100000 / 21 && h.denied == 100000 - h.sent);

	/* a long quiet time saves a hundred, and no more */
	infer_hedge_init(&h);
	answers(1000000);
	for (int i = 0; i < 100; i++)
		CHECK(infer_hedge_take(&h, true));
	CHECK(!infer_hedge_take(&h, true));

	/* the multiplier: forty down for one up, never below one, never away */
	CHECK(h.multiplier == INFER_HEDGE_ONE + 100 * 40);
	answers(40);
	CHECK(h.multiplier == INFER_HEDGE_ONE + 99 * 40);
	answers(100000);
	CHECK(h.multiplier == INFER_HEDGE_ONE);
	for (int i = 0; i < 200000; i++)
	{
		h.budget = INFER_HEDGE_COPY;
		CHECK(infer_hedge_take(&h, true));
	}
	CHECK(h.multiplier == 1000 * INFER_HEDGE_ONE);
	CHECK(infer_hedge_delay_us(&h, INFER_ATTEMPT_FIRST, true, 0, INT64_MAX, INT64_MAX) > 0);
}

/* What earns: an answer, or an error, of a first attempt or a retry without a copy. */
static void
test_fail_P54(void)
{
	infer_hedge_init(&h);
	infer_hedge_landed(&h, INFER_ATTEMPT_FIRST, true, false, true);  /* a copy was under way */
	infer_hedge_landed(&h, INFER_ATTEMPT_COPY, false, false, true);  /* won */
	infer_hedge_landed(&h, INFER_ATTEMPT_FIRST, true, true, false);  /* its late loser */
	infer_hedge_landed(&h, INFER_ATTEMPT_FIRST, false, true, false); /* late in any case */
	infer_hedge_landed(&h, INFER_ATTEMPT_COPY, false, true, false);
	CHECK(h.budget == 0 && h.multiplier == INFER_HEDGE_ONE);
	CHECK(h.wins == 1 && h.late == 3);
	infer_hedge_landed(&h, INFER_ATTEMPT_FIRST, false, false, false);
	infer_hedge_landed(&h, INFER_ATTEMPT_RETRY, false, false, true);
	CHECK(h.budget == 2 && h.wins == 1);

	/* paid for, but it did not leave */
	answers(100);
	CHECK(infer_hedge_take(&h, true));
	infer_hedge_untake(&h);
	CHECK(h.budget == 102 && h.multiplier == INFER_HEDGE_ONE && h.sent == 0);
	/* what it has become in the meantime stays within its bounds */
	answers(3000);
	CHECK(h.budget == INFER_HEDGE_MOST && h.multiplier == INFER_HEDGE_ONE);
	CHECK(infer_hedge_take(&h, true) && infer_hedge_take(&h, true));
	answers(INFER_HEDGE_COPY + 100);
	infer_hedge_untake(&h);
	CHECK(h.budget == INFER_HEDGE_MOST && h.multiplier == INFER_HEDGE_ONE && h.sent == 1);
	infer_hedge_untake(&h);
	CHECK(h.budget == INFER_HEDGE_MOST && h.multiplier == INFER_HEDGE_ONE && h.sent == 0);
}

int
main(void)
{
	TEST(fail_P52);
	TEST(fail_P53);
	TEST(fail_P54);
	return tap_done();
}
