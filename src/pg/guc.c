/*
 * pg/guc.c - the settings pg_inference.*, sorted by name.
 *
 * Check hooks look at the value only: they run without a transaction.  Nothing here is a secret,
 * for settings are shown to everybody and written to logs.
 */
#include "postgres.h"

#include <limits.h>

#include "miscadmin.h"
#include "utils/guc.h"

#include "core/admission.h"
#include "pg/guc.h"
#include "pg/guc_gateway.h"
#include "pg/guc_route.h"

bool infer_guc_allow_inline_keys = false;
char *infer_guc_allowed_hosts = NULL;
int infer_guc_buffer_memory = 32 * 1024;
int infer_guc_call_cost = 10000;
int infer_guc_congestion_max_window = 0;
int infer_guc_congestion_min_window = 1;
double infer_guc_congestion_step_coef = 1;
int infer_guc_connect_timeout = 5000;
int infer_guc_daily_call_budget = 0;
double infer_guc_daily_cost_budget = 0;
int infer_guc_daily_token_budget = 0;
int infer_guc_delivery = INFER_DELIVERY_SINGLE;
int infer_guc_dispatch_batch_size = -1;
bool infer_guc_enable = true;
int infer_guc_failure_cooldown = 1000;
int infer_guc_failure_patience = 5000;
int infer_guc_failure_threshold = 3;
int infer_guc_hoist_calls = INFER_HOIST_EXACT;
int infer_guc_invalid_text = INFER_INVALID_TEXT_ERROR;
bool infer_guc_limiter_adaptive = true;
bool infer_guc_limiter_dry_run = false;
double infer_guc_limiter_decrease_factor = 0.5;
int infer_guc_limiter_max_limit = 0;
double infer_guc_limiter_min_limit = 1;
int infer_guc_limiter_start = 16;
int infer_guc_max_admission_keys = 256;
int infer_guc_max_attempts = 4;
double infer_guc_max_error_ratio = 1;
int infer_guc_max_response_size = 64 * 1024;
int infer_guc_max_servers = 1024;
int infer_guc_max_usage_entries = 2048;
int infer_guc_memo_memory = 16 * 1024;
bool infer_guc_observed_costs = true;
int infer_guc_on_error = INFER_ON_ERROR_FAIL;
bool infer_guc_place_calls = false;
bool infer_guc_plan_time_calls = true;
double infer_guc_price_seconds = 1000;
int infer_guc_priority = INFER_PRIORITY_NORMAL;
int infer_guc_random_seed = 0;
int infer_guc_request_timeout = 60000;
int infer_guc_retained_memory = 64 * 1024;
int infer_guc_retry = INFER_RETRY_NOT_ADMITTED;
int infer_guc_retry_budget = 20;
int infer_guc_statement_call_budget = 0;
double infer_guc_statement_cost_budget = 0;
int infer_guc_statement_token_budget = 0;
int infer_guc_streaming_mode = INFER_MODE_AUTOMATIC;
int infer_guc_truncated = INFER_TRUNCATED_ERROR;
int infer_guc_usage_day_offset = 0;
int infer_guc_usage_save_interval = 10000;

bool infer_preloaded = false;

/* The answer of a server must fit into one value: below PostgreSQL's limit of 1 GB. */
#define MAX_RESPONSE_KB ((1024 * 1024) - 1)

static const struct config_enum_entry streaming_modes[] = {
	{"automatic", INFER_MODE_AUTOMATIC, false},
	{"per_row", INFER_MODE_PER_ROW, false},
	{"batch", INFER_MODE_BATCH, false},
	{NULL, 0, false},
};

static const struct config_enum_entry hoist_choices[] = {
	{"off", INFER_HOIST_OFF, false}, {"exact", INFER_HOIST_EXACT, false},
	{"on", INFER_HOIST_ON, false},   {"false", INFER_HOIST_OFF, true},
	{"no", INFER_HOIST_OFF, true},   {"0", INFER_HOIST_OFF, true},
	{"true", INFER_HOIST_ON, true},  {"yes", INFER_HOIST_ON, true},
	{"1", INFER_HOIST_ON, true},     {NULL, 0, false},
};

static const struct config_enum_entry deliveries[] = {
	{"single", INFER_DELIVERY_SINGLE, false},
	{"reliable", INFER_DELIVERY_RELIABLE, false},
	{"unless_failed", INFER_DELIVERY_UNLESS_FAILED, false},
	{NULL, 0, false},
};

static const struct config_enum_entry retry_policies[] = {
	{"never", INFER_RETRY_NEVER, false},
	{"not_admitted", INFER_RETRY_NOT_ADMITTED, false},
	{"ambiguous", INFER_RETRY_AMBIGUOUS, false},
	{NULL, 0, false},
};

static const struct config_enum_entry priorities[] = {
	{"VLOW", INFER_PRIORITY_VLOW, false},     {"LOW", INFER_PRIORITY_LOW, false},
	{"NORMAL", INFER_PRIORITY_NORMAL, false}, {"HIGH", INFER_PRIORITY_HIGH, false},
	{"VHIGH", INFER_PRIORITY_VHIGH, false},   {NULL, 0, false},
};

static const struct config_enum_entry on_error_choices[] = {
	{"fail", INFER_ON_ERROR_FAIL, false},
	{"null", INFER_ON_ERROR_NULL, false},
	{NULL, 0, false},
};

static const struct config_enum_entry invalid_text_choices[] = {
	{"error", INFER_INVALID_TEXT_ERROR, false},
	{"replace", INFER_INVALID_TEXT_REPLACE, false},
	{NULL, 0, false},
};

static const struct config_enum_entry truncated_choices[] = {
	{"error", INFER_TRUNCATED_ERROR, false},
	{"accept", INFER_TRUNCATED_ACCEPT, false},
	{NULL, 0, false},
};

static const struct config_enum_entry plan_time_choices[] = {
	{"allow", true, false},
	{"error", false, false},
	{NULL, 0, false},
};

/* What the enum's own variable holds; assign_plan_time_calls() copies it. */
static int plan_time_calls = true;

static void
assign_plan_time_calls(int newval, void *extra)
{
	infer_guc_plan_time_calls = (newval != 0);
}

/* Catches the usual mistake, an URL where a host is meant, before it silently matches nothing. */
static bool
check_allowed_hosts(char **newval, void **extra, GucSource source)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
								  ".-_*?:[], \t";
	size_t good = strspn(*newval, allowed);

	if ((*newval)[good] == '\0')
		return true;
	GUC_check_errdetail("A list of host names or addresses cannot contain \"%s\".", *newval + good);
	GUC_check_errhint("Separate patterns by commas, for example 'localhost, *.example.com', "
					  "without scheme or path.");
	return false;
}

static void
define_congestion_settings(void)
{
	DefineCustomIntVariable(
		"pg_inference.congestion_max_window", "Most requests that one scan may have in flight.",
		"0 means 1024. The limit of the admission key holds besides.",
		&infer_guc_congestion_max_window, 0, 0, 1000000, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("pg_inference.congestion_min_window",
							"Requests that one scan may have in flight however long they take.",
							NULL, &infer_guc_congestion_min_window, 1, 1, 1000000, PGC_USERSET, 0,
							NULL, NULL, NULL);
	DefineCustomRealVariable(
		"pg_inference.congestion_step_coef", "How fast the window of a scan grows.",
		"A round trip adds so many times the window's square root; 0 lets it "
		"only shrink once latency has risen.",
		&infer_guc_congestion_step_coef, 1, 0, 1000, PGC_USERSET, 0, NULL, NULL, NULL);
}

/* A key takes them over with each statement. */
static void
define_failure_settings(void)
{
	DefineCustomIntVariable(
		"pg_inference.failure_cooldown", "How long a server that fails is left alone at first.",
		"Then twice as long, up to eight times; one request is sent after each such time.",
		&infer_guc_failure_cooldown, 1000, 1, 3600000, PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"pg_inference.failure_patience",
		"How long a server may have been failing before calls no longer wait for it.",
		"Never longer than a call's timeout. Calls with another delivery than single wait longer.",
		&infer_guc_failure_patience, 5000, 0, INT_MAX, PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"pg_inference.failure_threshold",
		"Failures in a row after which a server is left alone for a while.",
		"Counted per admission key over all sessions; refusals and timeouts are none. 0 never "
		"leaves it alone.",
		&infer_guc_failure_threshold, 3, 0, 1000000, PGC_SUSET, 0, NULL, NULL, NULL);
}

/* The first use of an admission key fixes them for it. */
static void
define_limiter_settings(void)
{
	DefineCustomBoolVariable("pg_inference.limiter_adaptive",
							 "Adapts the limit of an admission key to what its server takes.",
							 "Off keeps it at max_concurrency, or limiter_max_limit.",
							 &infer_guc_limiter_adaptive, true, PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable(
		"pg_inference.limiter_dry_run",
		"Works out and shows the limit of an admission key, and holds nobody to it.",
		"Cooldowns, and rates per minute, are kept nevertheless.", &infer_guc_limiter_dry_run,
		false, PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomRealVariable("pg_inference.limiter_decrease_factor",
							 "What is left of an admission key's limit after overload.",
							 "Less is taken where the refusal answered a probe just above what had "
							 "proved to hold.",
							 &infer_guc_limiter_decrease_factor, 0.5, 0.01, 0.99, PGC_SUSET, 0,
							 NULL, NULL, NULL);
	DefineCustomIntVariable("pg_inference.limiter_max_limit",
							"Most requests in flight per admission key, over all sessions.",
							"Also where a server's max_concurrency is larger; 0 means the latter, "
							"or 1024.",
							&infer_guc_limiter_max_limit, 0, 0, 1000000, PGC_SUSET, 0, NULL, NULL,
							NULL);
	DefineCustomRealVariable("pg_inference.limiter_min_limit",
							 "Least limit of an admission key, however overloaded its server is.",
							 "Below 1, single requests are spaced in time.",
							 &infer_guc_limiter_min_limit, 1, 0.001, 1000000, PGC_SUSET, 0, NULL,
							 NULL, NULL);
	DefineCustomIntVariable(
		"pg_inference.limiter_start", "Limit of an admission key of which nothing is known.",
		"Doubles with each round trip until latency rises or overload shows. "
		"A server's max_concurrency is taken as known.",
		&infer_guc_limiter_start, 16, 1, 1000000, PGC_SUSET, 0, NULL, NULL, NULL);
}

/* A session cannot give itself more: they are for ALTER ROLE ... SET. */
static void
define_daily_budgets(void)
{
	DefineCustomIntVariable("pg_inference.daily_call_budget",
							"Most calls that the session's user may make in a day; 0 sets no "
							"limit.",
							"Over all its sessions and databases, from midnight UTC.",
							&infer_guc_daily_call_budget, 0, 0, INT_MAX, PGC_SUSET, 0, NULL, NULL,
							NULL);
	DefineCustomRealVariable("pg_inference.daily_cost_budget",
							 "Most that the session's user may spend in a day; 0 sets no limit.",
							 "In the currency of the models' prices.", &infer_guc_daily_cost_budget,
							 0, 0, 1e15, PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("pg_inference.daily_token_budget",
							"Most tokens that the session's user may use in a day; 0 sets no "
							"limit.",
							NULL, &infer_guc_daily_token_budget, 0, 0, INT_MAX, PGC_SUSET, 0, NULL,
							NULL, NULL);
}

/* Those of the postmaster can be made only while it starts. */
static void
define_maxima(void)
{
	if (process_shared_preload_libraries_in_progress)
		DefineCustomIntVariable("pg_inference.max_admission_keys",
								"Number of admission keys that shared memory has room for.",
								"Each server address needs one; calls under further keys fail.",
								&infer_guc_max_admission_keys, 256, 1, 65536, PGC_POSTMASTER, 0,
								NULL, NULL, NULL);
	DefineCustomIntVariable("pg_inference.max_attempts",
							"Most attempts of one call, the first included.", NULL,
							&infer_guc_max_attempts, 4, 1, 100, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomRealVariable(
		"pg_inference.max_error_ratio",
		"Share of a statement's calls that may fail before it is stopped.",
		"For failures that raise no error. Of fewer than 100 calls as many may fail as of 100; 1 "
		"sets no limit.",
		&infer_guc_max_error_ratio, 1, 0, 1, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("pg_inference.max_response_size",
							"Largest answer that is accepted from a server.", NULL,
							&infer_guc_max_response_size, 64 * 1024, 1, MAX_RESPONSE_KB,
							PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
	if (process_shared_preload_libraries_in_progress)
		DefineCustomIntVariable(
			"pg_inference.max_servers", "Number of servers that shared memory has room for.",
			"In all databases together, as far as they are in use. When it "
			"is full, what is known of the one used longest ago is "
			"forgotten.",
			&infer_guc_max_servers, 1024, 1, 65536, PGC_POSTMASTER, 0, NULL, NULL, NULL);
	if (process_shared_preload_libraries_in_progress)
		DefineCustomIntVariable("pg_inference.max_usage_entries",
								"Number of rows of infer.stat_usage that shared memory has room "
								"for, and of roles whose spending of a day is known.",
								"When it is full, the oldest days become one row per role.",
								&infer_guc_max_usage_entries, 2048, 4, 1000000, PGC_POSTMASTER, 0,
								NULL, NULL, NULL);
}

static void
define_settings_a_to_e(void)
{
	DefineCustomBoolVariable("pg_inference.allow_inline_keys",
							 "Allows API keys as option text of user mappings.",
							 "Such keys show up in dumps; prefer api_key_file or api_key_env.",
							 &infer_guc_allow_inline_keys, false, PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("pg_inference.allowed_hosts",
							   "Hosts that may be called: comma-separated names or patterns.",
							   "Empty allows loopback and the hosts that servers name, but no "
							   "link-local or metadata address.",
							   &infer_guc_allowed_hosts, "", PGC_SUSET, 0, check_allowed_hosts,
							   NULL, NULL);
	DefineCustomIntVariable("pg_inference.buffer_memory",
							"Memory for rows read ahead and their answers, per scan.", NULL,
							&infer_guc_buffer_memory, 32 * 1024, 64, MAX_KILOBYTES, PGC_USERSET,
							GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"pg_inference.call_cost", "Planner's cost of a call to a model of which nothing is known.",
		"In the unit of CREATE FUNCTION's COST; what is known of a model makes "
		"it up to four times dearer or eight times cheaper.",
		&infer_guc_call_cost, 10000, 1000, 1000000, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	define_congestion_settings();
	DefineCustomIntVariable("pg_inference.connect_timeout",
							"Time for name resolution, connection and TLS handshake.", NULL,
							&infer_guc_connect_timeout, 5000, 1, INT_MAX, PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomEnumVariable(
		"pg_inference.delivery", "Whether a request is sent again when its connection is lost.",
		"single sends no second copy of what may have run, reliable does "
		"after the connection of the first has ended, unless_failed as "
		"well, but gives up when the server keeps failing.",
		&infer_guc_delivery, INFER_DELIVERY_SINGLE, deliveries, PGC_USERSET, 0, NULL, NULL, NULL);
	define_daily_budgets();
	DefineCustomIntVariable("pg_inference.dispatch_batch_size", "Most inputs per request.",
							"-1 takes the server's limit, 0 sends only full batches and the rest "
							"at the end of input.",
							&infer_guc_dispatch_batch_size, -1, -1, 100000, PGC_USERSET, 0, NULL,
							NULL, NULL);
	DefineCustomBoolVariable("pg_inference.enable",
							 "Plans InferScan nodes, which batch and overlap calls.",
							 "Off evaluates calls one after the other, with the same results.",
							 &infer_guc_enable, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
}

static void
define_settings_f_to_m(void)
{
	define_failure_settings();
	DefineCustomEnumVariable("pg_inference.hoist_calls",
							 "Moves calls out of inner sides of joins and out of sub-queries.",
							 "exact moves those that are made for each outer row anyway, on also "
							 "asks ahead for those that are made only if the inner side has a row, "
							 "where their arguments cannot raise an error.",
							 &infer_guc_hoist_calls, INFER_HOIST_EXACT, hoist_choices, PGC_USERSET,
							 GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomEnumVariable("pg_inference.invalid_text",
							 "What becomes of text that is not valid, or not in the encoding.",
							 "error makes it a failed call, replace puts U+FFFD or a question "
							 "mark in place of what is not valid.",
							 &infer_guc_invalid_text, INFER_INVALID_TEXT_ERROR,
							 invalid_text_choices, PGC_USERSET, 0, NULL, NULL, NULL);
	define_limiter_settings();
	define_maxima();
	DefineCustomIntVariable("pg_inference.memo_memory",
							"Memory for the answers that a statement remembers.", NULL,
							&infer_guc_memo_memory, 16 * 1024, 64, MAX_KILOBYTES, PGC_USERSET,
							GUC_UNIT_KB, NULL, NULL, NULL);
}

static void
define_statement_budgets(void)
{
	DefineCustomIntVariable("pg_inference.statement_call_budget",
							"Most calls that one statement may send; 0 sets no limit.",
							"Repeated attempts of a call are not counted.",
							&infer_guc_statement_call_budget, 0, 0, INT_MAX, PGC_USERSET, 0, NULL,
							NULL, NULL);
	DefineCustomRealVariable(
		"pg_inference.statement_cost_budget", "Most that one statement may spend; 0 sets no limit.",
		"In the currency of the models' prices.", &infer_guc_statement_cost_budget, 0, 0, 1e15,
		PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("pg_inference.statement_token_budget",
							"Most tokens that one statement may use; 0 sets no limit.",
							"Requests on their way count as estimated, answers as they report.",
							&infer_guc_statement_token_budget, 0, 0, INT_MAX, PGC_USERSET, 0, NULL,
							NULL, NULL);
}

static void
define_usage_settings(void)
{
	DefineCustomIntVariable("pg_inference.usage_day_offset",
							"Days added to today's date for usage and budgets, for tests.", NULL,
							&infer_guc_usage_day_offset, 0, -36500, 36500, PGC_SUSET,
							GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomIntVariable("pg_inference.usage_save_interval",
							"Time between two times that usage is written to its file.",
							"A crash forgets what was spent since; 0 writes after each request.",
							&infer_guc_usage_save_interval, 10000, 0, 24 * 60 * 60 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
}

static void
define_settings_n_to_q(void)
{
	DefineCustomBoolVariable(
		"pg_inference.observed_costs", "Has the planner cost calls by what earlier answers took.",
		"Off, costs depend on prices and an assumed size only, and plans on nothing that happens.",
		&infer_guc_observed_costs, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomEnumVariable("pg_inference.on_error", "What a failed call does to its statement.",
							 "fail raises the error, null makes the result NULL.",
							 &infer_guc_on_error, INFER_ON_ERROR_FAIL, on_error_choices,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("pg_inference.place_calls",
							 "Lets the planner choose by cost between which joins a condition "
							 "with calls is evaluated.",
							 "Off evaluates it where its table is scanned, or above joins that "
							 "return fewer rows.",
							 &infer_guc_place_calls, false, PGC_USERSET, GUC_EXPLAIN, NULL, NULL,
							 NULL);
	DefineCustomEnumVariable("pg_inference.plan_time_calls",
							 "Whether the planner may evaluate functions that call a model.",
							 "It does so for stable functions with constant arguments; error "
							 "raises an error instead.",
							 &plan_time_calls, true, plan_time_choices, PGC_USERSET, 0, NULL,
							 assign_plan_time_calls, NULL);
	DefineCustomRealVariable(
		"pg_inference.price_seconds",
		"Seconds of waiting that one unit of currency is worth to the planner.",
		"At 1000, a row that costs 0.001 counts like one that takes a second; 0 ignores prices.",
		&infer_guc_price_seconds, 1000, 0, 1e9, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomEnumVariable(
		"pg_inference.priority", "Who goes first where calls wait for a server.",
		"Nobody takes what a call of higher priority waits for.", &infer_guc_priority,
		INFER_PRIORITY_NORMAL, priorities, PGC_USERSET, 0, NULL, NULL, NULL);
}

static void
define_settings_r_to_z(void)
{
	DefineCustomIntVariable(
		"pg_inference.random_seed", "Fixes what this session draws at random, for tests.",
		"Two runs that do the same then draw the same; 0 draws anew.", &infer_guc_random_seed, 0, 0,
		INT_MAX, PGC_USERSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomIntVariable("pg_inference.request_timeout",
							"Time for one attempt, from connecting to the last byte.", NULL,
							&infer_guc_request_timeout, 60000, 1, INT_MAX, PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomIntVariable("pg_inference.retained_memory",
							"Memory for requests of this session that may have to be sent again.",
							"Calls with delivery other than single fail when it is used up.",
							&infer_guc_retained_memory, 64 * 1024, 1, MAX_KILOBYTES, PGC_USERSET,
							GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomEnumVariable("pg_inference.retry", "Which failed attempts may be repeated.",
							 "not_admitted repeats only what provably did not run, ambiguous also "
							 "what may have run.",
							 &infer_guc_retry, INFER_RETRY_NOT_ADMITTED, retry_policies,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"pg_inference.retry_budget",
		"Most retries of an admission key, in per cent of its attempts, over all sessions.",
		"Refusals for overload that provably did not run are not counted; 100 sets no limit.",
		&infer_guc_retry_budget, 20, 1, 100, PGC_SUSET, 0, NULL, NULL, NULL);
	define_statement_budgets();
	DefineCustomEnumVariable("pg_inference.streaming_mode",
							 "How rows are put together into requests.",
							 "automatic fills batches but sends early when nothing else can "
							 "advance, per_row sends one input per request, batch sends only full "
							 "batches and the rest at the end of input.",
							 &infer_guc_streaming_mode, INFER_MODE_AUTOMATIC, streaming_modes,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable(
		"pg_inference.truncated", "What becomes of a text that ends at a limit of tokens.",
		"error makes it a failed call, accept takes the text as it is.", &infer_guc_truncated,
		INFER_TRUNCATED_ERROR, truncated_choices, PGC_USERSET, 0, NULL, NULL, NULL);
	define_usage_settings();
}

void
infer_guc_init(void)
{
	define_settings_a_to_e();
	define_settings_f_to_m();
	define_settings_n_to_q();
	define_settings_r_to_z();
	infer_guc_define_gateway();
	infer_guc_define_route();
}

void
infer_require_preload(void)
{
	if (infer_preloaded)
		return;
	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("pg_inference must be loaded with shared_preload_libraries"),
					errhint("Add this line to postgresql.conf and restart the server: "
							"shared_preload_libraries = 'pg_inference'")));
}
