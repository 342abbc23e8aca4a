/*
 * sim/tap.h - a line per test case, for the programs in this folder.
 *
 * A test is a function of no arguments, run by tap_run().  CHECK() notes a failure with its place
 * and goes on, so that one run shows all of them.  main() returns tap_done().
 */
#ifndef INFER_SIM_TAP_H
#define INFER_SIM_TAP_H

#include <stdio.h>

static int tap_failures; /* of the running test */
static int tap_count;
static int tap_failed;

#define CHECK(condition)                                                                           \
	do                                                                                             \
	{                                                                                              \
		if (!(condition))                                                                          \
		{                                                                                          \
			tap_failures++;                                                                        \
			printf("# %s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                     \
		}                                                                                          \
	} while (0)

/* For tables: what names the row. */
#define CHECK_ROW(condition, row)                                                                  \
	do                                                                                             \
	{                                                                                              \
		if (!(condition))                                                                          \
		{                                                                                          \
			tap_failures++;                                                                        \
			printf("# %s:%d: [%s] not true: %s\n", __FILE__, __LINE__, (row), #condition);         \
		}                                                                                          \
	} while (0)

static void
tap_run(const char *name, void (*test)(void))
{
	tap_failures = 0;
	test();
	tap_count++;
	tap_failed += tap_failures > 0;
	printf("%sok %d - %s\n", tap_failures > 0 ? "not " : "", tap_count, name);
	fflush(stdout);
}

/* TEST(name) runs the function test_name under its name. */
#define TEST(name) tap_run(#name, test_##name)

static int
tap_done(void)
{
	printf("1..%d\n", tap_count);
	return tap_failed > 0;
}

#endif
