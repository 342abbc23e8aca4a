/*
 * pg/guc_route.c - the settings pg_inference.* that say where calls go and when they leave, sorted
 * by name.
 */
#include "postgres.h"

#include <limits.h>

#include "utils/guc.h"

#include "pg/guc.h"
#include "pg/guc_route.h"
#include "pg/header.h"
#include "pg/health_weights.h"

int infer_guc_all_failed_wait = 1000;
int infer_guc_epic_timeout = 600000;
int infer_guc_epic_weight = 2;
bool infer_guc_hedge = false;
int infer_guc_hedge_delay = 50;
char *infer_guc_locality = NULL;
int infer_guc_long_timeout = 20000;
int infer_guc_long_weight = 1;
int infer_guc_max_duration_weight = 2;
int infer_guc_medium_timeout = 5000;
int infer_guc_mixed_incarnations = INFER_MIXED_ALLOW;
char *infer_guc_routing = NULL;
int infer_guc_short_timeout = 2000;
char *infer_guc_traceparent = NULL;
int infer_guc_stage1_retries = 2;
int infer_guc_stage2_retries = 2;
double infer_guc_test_percent = 50;

static const struct config_enum_entry mixed_choices[] = {
	{"allow", INFER_MIXED_ALLOW, false},
	{"error", INFER_MIXED_ERROR, false},
	{"retry", INFER_MIXED_RETRY, false},
	{NULL, 0, false},
};

/* An unknown key would silently route nothing, a wrong value fail every call. */
static bool
check_routing(char **newval, void **extra, GucSource source)
{
	char *detail;
	char *hint;

	if (infer_header_check(*newval, &detail, &hint))
		return true;
	detail[0] = pg_toupper(detail[0]);
	GUC_check_errdetail("%s.", detail);
	if (hint != NULL)
		GUC_check_errhint("%s", hint);
	return false;
}

/* W3C Trace Context, version 00: "00-" 32 digits "-" 16 digits "-" 2 digits, neither of the first
 * two all zeros. */
static bool
check_traceparent(char **newval, void **extra, GucSource source)
{
	static const char form[] = "hh-hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh-hhhhhhhhhhhhhhhh-hh";
	const char *value = *newval;

	if (value[0] == '\0')
		return true;
	for (int i = 0; i < lengthof(form); i++)
		if (form[i] == 'h' ? value[i] == '\0' || strchr("0123456789abcdef", value[i]) == NULL
						   : value[i] != form[i])
		{
			GUC_check_errdetail("A traceparent is as in "
								"\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\".");
			return false;
		}
	if (strncmp(value, "00-", 3) == 0 && strspn(value + 3, "0") < 32 &&
		strspn(value + 36, "0") < 16)
		return true;
	GUC_check_errdetail("Its version is 00, and its identifiers are not all zeros.");
	return false;
}

/* Timeouts of calls that say how long they take, and not when to give up. */
static void
define_duration_timeout(const char *name, const char *summary, int *variable, int ms)
{
	DefineCustomIntVariable(name, summary,
							"Where a call gives a duration and no timeout; other calls have "
							"request_timeout.",
							variable, ms, 1, INT_MAX, PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
}

/* The same in all sessions, for they share the nodes. */
static void
define_weights(void)
{
	DefineCustomIntVariable("pg_inference.epic_weight",
							"What a call of duration EPIC weighs on its node.",
							"0 lets any number of them run.", &infer_guc_epic_weight, 2, 0, 1000,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("pg_inference.long_weight",
							"What a call of duration LONG weighs on its node.",
							"0 lets any number of them run.", &infer_guc_long_weight, 1, 0, 1000,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("pg_inference.max_duration_weight",
							"Most weight of LONG and EPIC calls in flight on a node.",
							"Over all sessions. A call that is heavier runs when nothing else "
							"weighs there.",
							&infer_guc_max_duration_weight, 2, 0, 1000000, PGC_SIGHUP, 0, NULL,
							NULL, NULL);
}

static void
define_hedge_settings(void)
{
	DefineCustomBoolVariable("pg_inference.hedge",
							 "Sends a slow request to a second server as well.",
							 "The first answer counts, and both are paid for; at most one request "
							 "in twenty.",
							 &infer_guc_hedge, false, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("pg_inference.hedge_delay",
							"What is waited for a slow request, beyond what the second server is "
							"expected to take.",
							NULL, &infer_guc_hedge_delay, 50, 0, INT_MAX, PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);
}

void
infer_guc_define_route(void)
{
	define_weights();
	DefineCustomIntVariable("pg_inference.all_failed_wait",
							"How long a call waits for a server of its model to come back.",
							"Where all are down; then one of them is tried all the same. Models of "
							"one server have failure_patience.",
							&infer_guc_all_failed_wait, 1000, 0, INT_MAX, PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);
	define_duration_timeout("pg_inference.epic_timeout", "Timeout of calls of duration EPIC.",
							&infer_guc_epic_timeout, 600000);
	infer_health_weights_define();
	define_hedge_settings();
	DefineCustomStringVariable("pg_inference.locality", "Node that calls of this session are near.",
							   "Its servers are asked first, unless two of them, or the only one, "
							   "are bad. Empty: none is near.",
							   &infer_guc_locality, "", PGC_USERSET, 0, NULL, NULL, NULL);
	define_duration_timeout("pg_inference.long_timeout", "Timeout of calls of duration LONG.",
							&infer_guc_long_timeout, 20000);
	define_duration_timeout("pg_inference.medium_timeout", "Timeout of calls of duration MEDIUM.",
							&infer_guc_medium_timeout, 5000);
	DefineCustomEnumVariable(
		"pg_inference.mixed_incarnations",
		"What becomes of answers when a server has become another incarnation.",
		"Within a statement, by the server's option incarnation: allow takes "
		"them, error makes them failed calls, retry has them made anew by a server that is still "
		"the one that the statement began with.",
		&infer_guc_mixed_incarnations, INFER_MIXED_ALLOW, mixed_choices, PGC_USERSET, 0, NULL, NULL,
		NULL);
	DefineCustomStringVariable("pg_inference.routing", "Where calls go, and how urgent they are.",
							   "A JSON object of routing keys. The options of a call say more, the "
							   "routing of its model less.",
							   &infer_guc_routing, "{}", PGC_USERSET, 0, check_routing, NULL, NULL);
	define_duration_timeout("pg_inference.short_timeout", "Timeout of calls of duration SHORT.",
							&infer_guc_short_timeout, 2000);
	DefineCustomIntVariable("pg_inference.stage1_retries",
							"Other servers of the same node that a call may be sent to.",
							"After a failure that permits it, and within max_attempts.",
							&infer_guc_stage1_retries, 2, 0, 100, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("pg_inference.stage2_retries",
							"Servers of other nodes that a call may be sent to.",
							"After those of stage 1, and within max_attempts.",
							&infer_guc_stage2_retries, 2, 0, 100, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomRealVariable("pg_inference.test_percent",
							 "Share of calls with test_ctl RANDOM that go to a higher version.",
							 NULL, &infer_guc_test_percent, 50, 0, 100, PGC_USERSET, 0, NULL, NULL,
							 NULL);
	DefineCustomStringVariable("pg_inference.traceparent",
							   "Trace that requests belong to, in the form of W3C Trace Context.",
							   "Sent to servers that have the option signals.",
							   &infer_guc_traceparent, "", PGC_USERSET, 0, check_traceparent, NULL,
							   NULL);
}
