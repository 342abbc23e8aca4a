/*
 * sim/bench_route.c - what a routing decision costs, by the number of places.
 *
 *   sim/run.sh bench     runs it (optimised, no sanitizer)
 *
 * Fails if 16 places cost more than 5 microseconds of CPU.  "pool" are servers that are nodes of
 * their own, "nodes" are four to a node, "full" has preferences, feeds, versions and an affinity as
 * well.
 */
#define _POSIX_C_SOURCE 200809L

#include "route_kit.h"

#include <time.h>

static double
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

static void
prepare(int n, bool nodes, bool full)
{
	static char servers[INFER_ROUTE_MAX_PLACES][32];
	static char *feeds[] = {"news", "trades"};
	static char *prefer[] = {"server-number-3", "server-number-5"};
	static char *exclude[] = {"server-number-1"};

	infer_route_request_init(&request);
	for (nplaces = 0; nplaces < n; nplaces++)
	{
		snprintf(servers[nplaces], sizeof(servers[0]), "server-number-%d", nplaces);
		places[nplaces] = PLACE(servers[nplaces], servers[nodes ? nplaces / 4 * 4 : nplaces]);
		places[nplaces].latency_us = 1000 + 37 * nplaces % 11;
		places[nplaces].heard_us = NOW;
		places[nplaces].outstanding = nplaces * 7 % 5;
		places[nplaces].in_flight = nplaces * 7 % 5;
		places[nplaces].limit = 16;
		if (full)
		{
			places[nplaces].feeds = (InferNames){2, feeds};
			places[nplaces].version = 100 + nplaces % 3;
		}
	}
	if (full)
	{
		request.feeds = (InferNames){2, feeds};
		request.prefs[INFER_ROUTE_PREFER] = (InferNames){2, prefer};
		request.prefs[INFER_ROUTE_EXCLUDE] = (InferNames){1, exclude};
		request.test_ctl = INFER_TEST_RANDOM;
		request.min_version = 100;
		request.affinity = 42;
	}
}

int
main(void)
{
	static const int sizes[] = {1, 2, 4, 16, 64, 256};

	bool failed = false;

	printf("places      pool     nodes      full   (ns a decision, best of 5)\n");
	for (int s = 0; s < COUNT(sizes); s++)
	{
		printf("%6d", sizes[s]);
		for (int kind = 0; kind < 3; kind++)
		{
			int rounds = 400000 / sizes[s] / (sizes[s] > 16 ? sizes[s] / 8 : 1);
			double best = 1e18;

			prepare(sizes[s], kind > 0, kind == 2);
			for (int repeat = 0; repeat < 5; repeat++)
			{
				double start = now_ns();

				for (int i = 0; i < rounds; i++)
					decide((double) (i % 1000) / 1000);
				if ((now_ns() - start) / rounds < best)
					best = (now_ns() - start) / rounds;
			}
			printf("  %8.0f", best);
			failed |= sizes[s] == 16 && best > 5000;
		}
		printf("\n");
	}
	return failed;
}
