/*
 * sim/stages_kit.h - a call that walks over its places, for the tests of core/stages: each place
 * has a script of how it ends what it gets.
 */
#ifndef INFER_SIM_STAGES_KIT_H
#define INFER_SIM_STAGES_KIT_H

#include "core/stages.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) ((int) (sizeof(array) / sizeof((array)[0])))
#define MS           INT64_C(1000)
#define NA           INFER_NOT_ADMITTED
#define ME           INFER_MAYBE_EXECUTED
#define EX           INFER_EXECUTED

static InferRouteDecision d;
static InferStagesStep step;
static InferRoutePlace places[8];
static InferStagesOutcome outcomes[8]; /* reason NONE: it succeeds */
static int nplaces;
static InferRouteRequest request;
static InferStagesRule rule;
static InferStages s;
static int64_t now_us;
static double draw;
static char walk[256]; /* the servers that were asked: "a1 a2 b1"; then how it ended */

static inline void
add_place(const char *server, const char *node, int tier)
{
	places[nplaces] = (InferRoutePlace){.server = server,
										.node = node,
										.weight = 1,
										.penalty = 1,
										.tier = tier,
										.permitted = true,
										.health_weight = 10,
										.version = INFER_ROUTE_NO_VERSION};
	outcomes[nplaces++] = (InferStagesOutcome){0};
}

static inline void
fails(int place, InferReason reason, InferExecution execution)
{
	outcomes[place] = (InferStagesOutcome){.finding = {.reason = reason, .execution = execution}};
}

static inline void
begin(void)
{
	infer_route_request_init(&request);
	rule = (InferStagesRule){.retry = {INFER_DELIVERY_SINGLE, INFER_RETRY_NOT_ADMITTED, false, 4},
							 .stage1_retries = 2,
							 .stage2_retries = 2,
							 .all_failed_wait_us = 1000 * MS};
	memset(&s, 0, sizeof(s));
	nplaces = 0;
	now_us = 1000000000;
	draw = 0;
	walk[0] = '\0';
}

/* Two nodes of two servers, in this order whatever the draw. */
static inline void
two_by_two(void)
{
	static char *order[] = {"a1", "a2", "b1", "b2"};

	begin();
	add_place("a1", "a", 0);
	add_place("a2", "a", 0);
	add_place("b1", "b", 0);
	add_place("b2", "b", 0);
	request.prefs[INFER_ROUTE_PREFER] = (InferNames){4, order};
}

static inline void
next(void)
{
	infer_stages_next(&s, &rule, &request, places, nplaces, now_us, draw, &d, &step);
}

static inline void
note(const char *word)
{
	strcat(walk, walk[0] == '\0' ? "" : " ");
	strcat(walk, word);
}

/* Asks the first place; whether it succeeded. */
static inline bool
send_first(void)
{
	int place = step.order[0];

	infer_stages_started(&s, places, place, false);
	note(places[place].server);
	if (outcomes[place].finding.reason == INFER_REASON_NONE && !outcomes[place].declined)
		return true;
	infer_stages_ended(&s, &rule, place, &outcomes[place], now_us);
	return false;
}

/* Until an answer or the end; pauses are noted as "~" and waited out. */
static inline const char *
run(void)
{
	for (int i = 0; i < 100; i++)
	{
		next();
		switch (step.action)
		{
			case INFER_STAGES_SEND:
				if (send_first())
					return strcat(walk, " ok");
				break;
			case INFER_STAGES_WAIT:
				note("~");
				now_us = step.until_us;
				break;
			case INFER_STAGES_HOLD:
				return strcat(walk, " hold");
			case INFER_STAGES_END:
				note(step.end == INFER_STAGES_LAST ? "last" : "cause");
				return walk;
		}
	}
	return strcat(walk, " ...");
}

static inline bool
same(const char *a, const char *b)
{
	if (strcmp(a, b) != 0)
		printf("# \"%s\" is not \"%s\"\n", a, b);
	return strcmp(a, b) == 0;
}

static inline void
all_fail(InferReason reason, InferExecution execution)
{
	for (int i = 0; i < nplaces; i++)
		fails(i, reason, execution);
}

static inline void
all_down(InferPlaceState state)
{
	for (int i = 0; i < nplaces; i++)
		places[i].state = state;
}

#endif
