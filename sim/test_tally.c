/*
 * sim/test_tally.c - when a statement has seen too many failures.
 */
#include "core/tally.h"
#include "tap.h"

static InferTally
tally_of(int64_t finished, int64_t failed)
{
	InferTally tally = {0};

	for (int64_t i = 0; i < finished; i++)
		infer_tally_note(&tally, i < failed ? INFER_REASON_TIMEOUT : INFER_REASON_NONE,
						 i < failed ? INFER_MAYBE_EXECUTED : INFER_EXECUTED);
	return tally;
}

static void
test_ratio(void)
{
	static const struct
	{
		double ratio;
		int64_t finished;
		int64_t failed;
		bool exceeds;
	} rows[] = {
		{1, 100000, 100000, false}, /* off */
		{0, 5000, 0, false},
		{0, 1, 1, true}, /* none may fail */
		{0.1, 10, 1, false},
		{0.1, 10, 10, false}, /* ten may, however few there are */
		{0.1, 11, 11, true},
		{0.1, 99, 11, true}, /* of a hundred it would be too many for sure */
		{0.1, 100, 10, false},
		{0.1, 109, 11, true},
		{0.1, 110, 11, false}, /* from here on it is the share */
		{0.1, 1000, 100, false},
		{0.1, 1000, 101, true},
		{0.01, 50, 1, false},
		{0.01, 50, 2, true},
		{0.001, 999, 1, true}, /* below one of a hundred: none at first */
		{0.001, 1000, 1, false},
		{0.07, 100, 7, false}, /* 0.07 and 0.29 are no binary fractions */
		{0.29, 100, 29, false},
		{0.29, 100, 30, true},
		{0.57, 10000, 5700, false},
		{0.57, 10000, 5701, true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		InferTally tally = tally_of(rows[i].finished, rows[i].failed);
		char row[80];

		snprintf(row, sizeof(row), "%g: %d of %d", rows[i].ratio, (int) rows[i].failed,
				 (int) rows[i].finished);
		CHECK_ROW(infer_tally_exceeds(&tally, rows[i].ratio) == rows[i].exceeds, row);
	}
}

/* Judged at each failure, a statement never stops at less than its ratio of a hundred. */
static void
test_ratio_never_early(void)
{
	for (int percent = 0; percent <= 100; percent++)
	{
		InferTally tally = {0};

		while (tally.finished < 1000 && !infer_tally_exceeds(&tally, percent / 100.0))
			infer_tally_note(&tally, INFER_REASON_TIMEOUT, INFER_MAYBE_EXECUTED);
		CHECK(tally.failed == (percent == 100 ? 1000 : percent + 1));
	}
}

static void
test_most_frequent(void)
{
	InferTally tally = {0};

	CHECK(infer_tally_most(&tally) == INFER_REASON_NONE);
	infer_tally_note(&tally, INFER_REASON_NONE, INFER_EXECUTED);
	CHECK(infer_tally_most(&tally) == INFER_REASON_NONE);
	infer_tally_note(&tally, INFER_REASON_INTERNAL, INFER_NOT_ADMITTED);
	CHECK(infer_tally_most(&tally) == INFER_REASON_INTERNAL);
	infer_tally_note(&tally, INFER_REASON_TIMEOUT, INFER_MAYBE_EXECUTED);
	CHECK(infer_tally_most(&tally) == INFER_REASON_TIMEOUT);
	infer_tally_note(&tally, INFER_REASON_INTERNAL, INFER_NOT_ADMITTED);
	CHECK(infer_tally_most(&tally) == INFER_REASON_INTERNAL);
	CHECK(tally.finished == 4 && tally.failed == 3);
}

static void
test_proof_is_the_strongest(void)
{
	InferTally tally = {0};

	infer_tally_note(&tally, INFER_REASON_OVERLOADED, INFER_NOT_ADMITTED);
	CHECK(tally.execution == INFER_NOT_ADMITTED);
	infer_tally_note(&tally, INFER_REASON_TIMEOUT, INFER_MAYBE_EXECUTED);
	infer_tally_note(&tally, INFER_REASON_OVERLOADED, INFER_NOT_ADMITTED);
	CHECK(tally.execution == INFER_MAYBE_EXECUTED);
	infer_tally_note(&tally, INFER_REASON_NONE, INFER_EXECUTED);
	infer_tally_note(&tally, INFER_REASON_TIMEOUT, INFER_MAYBE_EXECUTED);
	CHECK(tally.execution == INFER_EXECUTED);
}

int
main(void)
{
	TEST(ratio);
	TEST(ratio_never_early);
	TEST(most_frequent);
	TEST(proof_is_the_strongest);
	return tap_done();
}
