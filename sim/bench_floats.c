/*
 * sim/bench_floats.c - what one embedding of 1536 floats costs, as JSON and as base64.
 *
 * Not part of the tests: figures depend on the machine.  `sim/run.sh bench` builds it with -O2.
 */
#define _POSIX_C_SOURCE 200809L

#include "provider/floats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DIMS   1536
#define ROUNDS 2000

static double
now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec * 1e6 + (double) t.tv_nsec / 1e3;
}

static void
bench_list(int decimals)
{
	static char text[DIMS * 32];
	size_t len = 0;
	InferFloats floats = {0};
	double start;

	srand(1);
	text[len++] = '[';
	for (int i = 0; i < DIMS; i++)
		len += (size_t) sprintf(text + len, "%s%.*f", i > 0 ? "," : "", decimals,
								((double) rand() / RAND_MAX - 0.5) * 0.1);
	text[len++] = ']';

	start = now_us();
	for (int i = 0; i < ROUNDS; i++)
	{
		InferJson j = infer_json_start(text, len);

		floats.len = 0;
		if (infer_floats_scan_list(&j, &floats) != INFER_FLOATS_OK)
			abort();
	}
	printf("json, %2d decimals: %6.1f us per %d floats (%zu bytes)\n", decimals,
		   (now_us() - start) / ROUNDS, DIMS, len);
	infer_floats_free(&floats);
}

static void
bench_base64(void)
{
	/* "AAAAPwAAAD8A..." : 0.5, over and over; 4 floats are no round number of characters, 3 are */
	static char text[DIMS / 3 * 16 + 1];
	InferFloats floats = {0};
	InferSlice slice = {text, sizeof(text) - 1, false};
	double start;

	for (int i = 0; i < DIMS / 3; i++)
		memcpy(text + i * 16, "AAAAPwAAAD8AAAA/", 16);
	start = now_us();
	for (int i = 0; i < ROUNDS; i++)
	{
		floats.len = 0;
		if (infer_floats_from_base64(&slice, &floats) != INFER_FLOATS_OK || floats.len != DIMS)
			abort();
	}
	printf("base64:            %6.1f us per %d floats (%zu bytes)\n", (now_us() - start) / ROUNDS,
		   DIMS, slice.len);
	infer_floats_free(&floats);
}

int
main(void)
{
	bench_list(6);
	bench_list(10);
	bench_list(17);
	bench_base64();
	return 0;
}
