/*
 * call/options.c - the options argument of a call: how to call, over the settings.
 *
 * Everything wrong with it is a configuration error that names what is known.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/jsonb.h"

#include "call/classify.h"
#include "call/options.h"
#include "core/types.h"
#include "pg/guc.h"
#include "pg/header.h"
#include "pg/report.h"
#include "registry/registry.h"

#define KNOWN_OPTIONS                                                                              \
	"admission_key, delivery, dispatch_batch_size, duration, feeds, hedge, idempotency_key, "      \
	"invalid_text, is_mut, is_solo, max_attempts, max_concurrency, mixed_incarnations, nodes, "    \
	"on_error, path, "                                                                             \
	"priority, retry, route_prefs, rpm, service_classes, streaming_mode, test_ctl, timeout, tpm, " \
	"truncated, ts_range, version"

typedef struct Word
{
	const char *word;
	int value;
} Word;

static const Word on_error_words[] = {
	{"fail", INFER_ON_ERROR_FAIL}, {"null", INFER_ON_ERROR_NULL}, {NULL, 0}};
static const Word mode_words[] = {{"automatic", INFER_MODE_AUTOMATIC},
								  {"per_row", INFER_MODE_PER_ROW},
								  {"batch", INFER_MODE_BATCH},
								  {NULL, 0}};
static const Word retry_words[] = {{"never", INFER_RETRY_NEVER},
								   {"not_admitted", INFER_RETRY_NOT_ADMITTED},
								   {"ambiguous", INFER_RETRY_AMBIGUOUS},
								   {NULL, 0}};

static const Word invalid_text_words[] = {
	{"error", INFER_INVALID_TEXT_ERROR}, {"replace", INFER_INVALID_TEXT_REPLACE}, {NULL, 0}};
static const Word truncated_words[] = {
	{"error", INFER_TRUNCATED_ERROR}, {"accept", INFER_TRUNCATED_ACCEPT}, {NULL, 0}};

static const Word mixed_words[] = {{"allow", INFER_MIXED_ALLOW},
								   {"error", INFER_MIXED_ERROR},
								   {"retry", INFER_MIXED_RETRY},
								   {NULL, 0}};

static const Word delivery_words[] = {{"single", INFER_DELIVERY_SINGLE},
									  {"reliable", INFER_DELIVERY_RELIABLE},
									  {"unless_failed", INFER_DELIVERY_UNLESS_FAILED},
									  {NULL, 0}};

static void
bad_value(const char *name, const char *wanted)
{
	ereport(ERROR, (errcode(infer_errcode_config()),
					errmsg("invalid value for option \"%s\"", name), errhint("Give %s.", wanted)));
}

/* A string or number of the options as text; palloc'd. */
static char *
value_text(const char *name, const JsonbValue *value)
{
	if (value->type == jbvString)
		return pnstrdup(value->val.string.val, value->val.string.len);
	if (value->type == jbvNumeric)
		return DatumGetCString(
			DirectFunctionCall1(numeric_out, NumericGetDatum(value->val.numeric)));
	bad_value(name, "a string or a number");
	return NULL;
}

static int
value_word(const char *name, const char *text, const Word *words, const char *wanted)
{
	for (; words->word != NULL; words++)
		if (pg_strcasecmp(words->word, text) == 0)
			return words->value;
	bad_value(name, wanted);
	return 0;
}

static int
value_int(const char *name, const char *text, int flags, int min, const char *wanted)
{
	int result;

	if (!parse_int(text, &result, flags, NULL) || result < min)
		bad_value(name, wanted);
	return result;
}

/* A path is appended to the server's url: it can name no other host, and go nowhere up. */
static char *
value_path(const char *text)
{
	if (text[0] != '/' || text[1] == '/' || strstr(text, "..") != NULL || strchr(text, '#') != NULL)
		bad_value("path", "a path that begins with one slash and has no \"..\" and no fragment, "
						  "such as \"/rerank\"");
	for (const char *p = text; *p; p++)
		if ((unsigned char) *p <= ' ' || (unsigned char) *p >= 127 || *p == '\\' ||
			pg_strncasecmp(p, "%2e", 3) == 0) /* an encoded dot, to some as good as one */
			bad_value("path", "a path of printable ASCII characters, dots as they are");
	return pstrdup(text);
}

/* true, or a text that fixes the key. */
static void
set_idempotency_key(const JsonbValue *value, InferCallOptions *o)
{
	o->idempotency_key = NULL;
	o->idempotent = value->type == jbvBool && value->val.boolean;
	if (value->type == jbvBool)
		return;
	if (value->type != jbvString || value->val.string.len == 0)
		bad_value("idempotency_key",
				  "true, false, or a text that is the same when the call is made "
				  "again");
	o->idempotent = true;
	o->idempotency_key = pnstrdup(value->val.string.val, value->val.string.len);
}

static void
set_hedge(const JsonbValue *value, InferCallOptions *o)
{
	if (value->type != jbvBool)
		bad_value("hedge", "true or false");
	o->hedge = value->val.boolean;
}

static void
set_option(InferTask task, const char *name, const JsonbValue *value, InferCallOptions *o)
{
	const char *text;

	if (strcmp(name, "idempotency_key") == 0)
	{
		set_idempotency_key(value, o);
		return;
	}
	if (strcmp(name, "hedge") == 0)
	{
		set_hedge(value, o);
		return;
	}
	text = value_text(name, value);
	if (strcmp(name, "on_error") == 0)
		o->on_error = value_word(name, text, on_error_words, "\"fail\" or \"null\"");
	else if (strcmp(name, "streaming_mode") == 0)
		o->mode = value_word(name, text, mode_words, "\"automatic\", \"per_row\" or \"batch\"");
	else if (strcmp(name, "retry") == 0)
		o->rule.policy =
			value_word(name, text, retry_words, "\"never\", \"not_admitted\" or \"ambiguous\"");
	else if (strcmp(name, "delivery") == 0)
		o->rule.delivery =
			value_word(name, text, delivery_words, "\"single\", \"reliable\" or \"unless_failed\"");
	else if (strcmp(name, "dispatch_batch_size") == 0)
		o->dispatch_batch_size = value_int(name, text, 0, -1,
										   "-1 (automatic), 0 (at the end of input) or a number of "
										   "inputs");
	else if (strcmp(name, "max_attempts") == 0)
		o->rule.max_attempts = value_int(name, text, 0, 1, "a number of at least 1");
	else if (strcmp(name, "max_concurrency") == 0)
		o->max_concurrency = value_int(name, text, 0, 1, "a number of at least 1");
	else if (strcmp(name, "rpm") == 0)
		o->rpm = value_int(name, text, 0, 0, "a number of requests a minute, 0 for no limit");
	else if (strcmp(name, "tpm") == 0)
		o->tpm = value_int(name, text, 0, 0, "a number of tokens a minute, 0 for no limit");
	else if (strcmp(name, "invalid_text") == 0)
		o->invalid_text = value_word(name, text, invalid_text_words, "\"error\" or \"replace\"");
	else if (strcmp(name, "truncated") == 0)
		o->truncated = value_word(name, text, truncated_words, "\"error\" or \"accept\"");
	else if (strcmp(name, "mixed_incarnations") == 0)
		o->mixed = value_word(name, text, mixed_words, "\"allow\", \"error\" or \"retry\"");
	else if (strcmp(name, "admission_key") == 0)
		o->admission_key = pstrdup(text);
	else if (strcmp(name, "path") == 0 && task == INFER_TASK_CALL)
		o->path = value_path(text);
	else
		ereport(ERROR, (errcode(infer_errcode_config()), errmsg("unknown option \"%s\"", name),
						errhint("The options of a call are %s%s.", KNOWN_OPTIONS,
								task == INFER_TASK_CALL ? "" : " (path only for infer.call)")));
}

/* The header as the model's functions left it takes the place of what the call itself says. */
static void
replace_header(InferHeader *header, const InferTarget *target, Jsonb *classified)
{
	infer_header_init(header);
	header->route.min_version = target->min_version;
	header->route.strategy = target->strategy;
	infer_header_apply(header, classified);
}

int
infer_options_timeout_ms(const InferCallOptions *options, const InferServer *server)
{
	return infer_header_timeout_ms(&options->header, server->request_timeout_ms > 0
														 ? server->request_timeout_ms
														 : infer_guc_request_timeout);
}

/* Strings are in the current context. options is a detoasted or toasted jsonb datum. */
void
infer_options_parse(InferTask task, Datum options, const InferTarget *target, Jsonb *classified,
					Jsonb *parameters, InferCallOptions *result)
{
	Jsonb *jb = DatumGetJsonbP(options);
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue value;
	char *name = NULL;
	InferHeader *header = &result->header;

	*result = (InferCallOptions){
		.on_error = infer_guc_on_error,
		.mode = infer_guc_streaming_mode,
		.dispatch_batch_size = infer_guc_dispatch_batch_size,
		.rule = {.delivery = infer_guc_delivery,
				 .policy = infer_guc_retry,
				 .max_attempts = infer_guc_max_attempts},
		.hedge = infer_guc_hedge,
		.rpm = -1,
		.tpm = -1,
		.invalid_text = infer_guc_invalid_text,
		.truncated = infer_guc_truncated,
		.mixed = infer_guc_mixed_incarnations,
		.path = pstrdup(""),
	};
	if (!JB_ROOT_IS_OBJECT(jb))
		ereport(ERROR, (errcode(infer_errcode_config()),
						errmsg("the options of a call must be a JSON object"),
						errhint("For example '{\"timeout\": \"30s\"}'.")));
	infer_header_init(header);
	header->route.min_version = target->min_version;
	header->route.strategy = target->strategy;
	if (target->routing != NULL)
		infer_header_apply(header, target->routing);
	infer_header_apply_setting(header);
	infer_header_begin(header);
	it = JsonbIteratorInit(&jb->root);
	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			name = pnstrdup(value.val.string.val, value.val.string.len);
		else if (token == WJB_VALUE && !infer_header_set(header, name, &value))
			set_option(task, name, &value, result);
	}
	if (classified != NULL)
		replace_header(header, target, classified);
	infer_classify_times(target, parameters, &header->route.ts_range);
	for (int i = 0; i < target->nplaces; i++)
		if (target->places[i].permitted)
			result->timeout_ms =
				Max(result->timeout_ms, infer_options_timeout_ms(result, target->places[i].server));
}
