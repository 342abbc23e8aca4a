/*
 * pg/header.c - reading the routing keys of a request.
 *
 * Everything here works without a transaction too, for settings are checked in the postmaster; but
 * a range is read by functions that look into catalogs, so that there only its being a text is
 * seen.
 */
#include "postgres.h"

#include <limits.h>
#include <math.h>

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/rangetypes.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "pg/guc.h"
#include "pg/header.h"
#include "pg/report.h"

typedef struct Word
{
	const char *word;
	const char *number; /* that means the same; NULL = none does */
	int value;
} Word;

static const Word priority_words[] = {
	{"VLOW", "10", INFER_PRIORITY_VLOW},     {"LOW", "20", INFER_PRIORITY_LOW},
	{"NORMAL", "30", INFER_PRIORITY_NORMAL}, {"HIGH", "40", INFER_PRIORITY_HIGH},
	{"VHIGH", "50", INFER_PRIORITY_VHIGH},   {NULL}};
static const Word duration_words[] = {
	{"SHORT", "1", INFER_DURATION_SHORT}, {"MEDIUM", "2", INFER_DURATION_MEDIUM},
	{"MED", NULL, INFER_DURATION_MEDIUM}, {"LONG", "3", INFER_DURATION_LONG},
	{"EPIC", "4", INFER_DURATION_EPIC},   {NULL}};
static const Word test_words[] = {{"PROD", NULL, INFER_TEST_PROD},
								  {"TEST", NULL, INFER_TEST_TEST},
								  {"ANY", NULL, INFER_TEST_ANY},
								  {"RANDOM", NULL, INFER_TEST_RANDOM},
								  {NULL}};
static const char *const pref_keys[INFER_ROUTE_PREFS] = {
	[INFER_ROUTE_INCLUDE] = "include",
	[INFER_ROUTE_EXCLUDE] = "exclude",
	[INFER_ROUTE_PREFER] = "prefer",
	[INFER_ROUTE_AVOID] = "avoid",
};

/* What is being read, for errors. */
typedef struct Key
{
	const char *noun;
	const char *name;
} Key;

static void
bad_value(const Key *key, const char *wanted)
{
	ereport(ERROR, (errcode(infer_errcode_config()),
					errmsg("invalid value for %s \"%s\"", key->noun, key->name),
					errhint("Give %s.", wanted)));
}

static char *
read_text(const Key *key, const JsonbValue *value, const char *wanted)
{
	if (value->type == jbvString)
		return pnstrdup(value->val.string.val, value->val.string.len);
	if (value->type == jbvNumeric)
		return DatumGetCString(
			DirectFunctionCall1(numeric_out, NumericGetDatum(value->val.numeric)));
	bad_value(key, wanted);
	return NULL;
}

static int
read_word(const Key *key, const JsonbValue *value, const Word *words, const char *wanted)
{
	char *text = read_text(key, value, wanted);

	for (; words->word != NULL; words++)
		if (pg_strcasecmp(words->word, text) == 0 ||
			(words->number != NULL && strcmp(words->number, text) == 0))
			return words->value;
	bad_value(key, wanted);
	return 0;
}

static bool
read_bool(const Key *key, const JsonbValue *value)
{
	if (value->type != jbvBool)
		bad_value(key, "true or false");
	return value->val.boolean;
}

/* An interval in PostgreSQL's words ("1 minute", "00:00:30") in milliseconds; -1 = it is none, or
 * is too long, or is counted in months. */
static double
interval_ms(const char *text)
{
	char *fields[MAXDATEFIELDS];
	int types[MAXDATEFIELDS];
	char buffer[256];
	struct pg_itm_in span;
	int kind;
	int n;

	if (ParseDateTime(text, buffer, sizeof(buffer), fields, types, MAXDATEFIELDS, &n) != 0 ||
		DecodeInterval(fields, types, n, INTERVAL_FULL_RANGE, &kind, &span) != 0 ||
		kind != DTK_DELTA || span.tm_year != 0 || span.tm_mon != 0)
		return -1;
	return (span.tm_mday * (double) USECS_PER_DAY + span.tm_usec) / 1000;
}

/* 0 = none, which is as long as a timeout can be. */
static int
read_timeout(const Key *key, const JsonbValue *value)
{
	static const char wanted[] =
		"a time such as \"30s\", milliseconds as a number, or 0 for no timeout";
	char *text = read_text(key, value, wanted);
	int ms;

	if (!parse_int(text, &ms, GUC_UNIT_MS, NULL))
	{
		double exact = value->type == jbvString ? interval_ms(text) : -1;

		ms = exact >= 0 && exact <= INT_MAX ? (int) ceil(exact) : -1;
	}
	if (ms < 0)
		bad_value(key, wanted);
	return ms == 0 ? INT_MAX : ms;
}

static InferNames
read_names(const Key *key, const JsonbValue *value)
{
	static const char wanted[] = "an array of at most 64 names, such as [\"a\", \"b\"]";
	InferNames names = {0};
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue item;

	if (value->type != jbvBinary || !JsonContainerIsArray(value->val.binary.data))
		bad_value(key, wanted);
	names.names = palloc(sizeof(char *) * (JsonContainerSize(value->val.binary.data) + 1));
	it = JsonbIteratorInit(value->val.binary.data);
	while ((token = JsonbIteratorNext(&it, &item, true)) != WJB_DONE)
	{
		if (token != WJB_ELEM)
			continue;
		if (item.type != jbvString || item.val.string.len == 0 || names.n == INFER_ROUTE_MAX_NAMES)
			bad_value(key, wanted);
		names.names[names.n++] = pnstrdup(item.val.string.val, item.val.string.len);
	}
	return names;
}

static void
read_prefs(const Key *key, const JsonbValue *value, InferHeader *header)
{
	static const char wanted[] =
		"an object of the lists \"include\", \"exclude\", \"prefer\" and \"avoid\", such as "
		"{\"exclude\": [\"a\"]}";
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue item;
	int pref = 0;

	if (value->type != jbvBinary || !JsonContainerIsObject(value->val.binary.data))
		bad_value(key, wanted);
	it = JsonbIteratorInit(value->val.binary.data);
	while ((token = JsonbIteratorNext(&it, &item, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
		{
			for (pref = 0; pref < INFER_ROUTE_PREFS; pref++)
				if (strlen(pref_keys[pref]) == item.val.string.len &&
					strncmp(pref_keys[pref], item.val.string.val, item.val.string.len) == 0)
					break;
			if (pref == INFER_ROUTE_PREFS)
				bad_value(key, wanted);
		}
		else if (token == WJB_VALUE)
			header->route.prefs[pref] = read_names(key, &item);
	}
}

static int
read_version(const Key *key, const JsonbValue *value)
{
	static const char wanted[] = "a version M.NN, such as \"1.04\"";
	char *text = read_text(key, value, wanted);
	size_t digits = strspn(text, "0123456789");

	if (digits < 1 || digits > 6 || text[digits] != '.' ||
		strspn(text + digits + 1, "0123456789") != 2 || strlen(text) != digits + 3)
		bad_value(key, wanted);
	return atoi(text) * 100 + atoi(text + digits + 1);
}

static void
read_ts_range(const Key *key, const JsonbValue *value, InferHeader *header)
{
	static const char wanted[] =
		"a range of times that is not empty, such as \"[2026-01-01, 2026-02-01)\"";
	TypeCacheEntry *type;
	RangeBound lower;
	RangeBound upper;
	bool empty;
	char *text;
	Datum range;

	if (value->type != jbvString)
		bad_value(key, wanted);
	if (!IsTransactionState())
		return;
	text = pnstrdup(value->val.string.val, value->val.string.len);
	range = OidInputFunctionCall(F_RANGE_IN, text, TSTZRANGEOID, -1);
	type = lookup_type_cache(TSTZRANGEOID, TYPECACHE_RANGE_INFO);
	range_deserialize(type, DatumGetRangeTypeP(range), &lower, &upper, &empty);
	if (empty)
		bad_value(key, wanted);
	header->route.ts_range.set = true;
	header->route.ts_range.from = lower.infinite ? DT_NOBEGIN : DatumGetTimestampTz(lower.val);
	header->route.ts_range.to = upper.infinite ? DT_NOEND : DatumGetTimestampTz(upper.val);
	/* whole microseconds: what is exclusive below begins, and what is inclusive above ends, one on
	 */
	if (!lower.infinite && !lower.inclusive)
		header->route.ts_range.from++;
	if (!upper.infinite && upper.inclusive)
		header->route.ts_range.to++;
}

/* Order among requests is kept for those that wait in the database for their turn. */
static void
refuse_sequence(const Key *key, const JsonbValue *value)
{
	if (strcmp(key->name, "is_sequenced") == 0 && !read_bool(key, value))
		return;
	ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					errmsg("%s \"%s\" is for asynchronous requests", key->noun, key->name),
					errdetail("A call that is part of a statement is sent when the statement "
							  "needs it, whatever others have sent before."),
					errhint("Leave it out, and make the calls in the order that is wanted.")));
}

static bool
set_key(InferHeader *header, const Key *key, const JsonbValue *value)
{
	const char *name = key->name;

	if (strcmp(name, "priority") == 0)
		header->priority =
			read_word(key, value, priority_words,
					  "\"VLOW\", \"LOW\", \"NORMAL\", \"HIGH\" or \"VHIGH\", or 10 to 50");
	else if (strcmp(name, "duration") == 0)
	{
		header->route.duration = read_word(
			key, value, duration_words, "\"SHORT\", \"MEDIUM\", \"LONG\" or \"EPIC\", or 1 to 4");
		header->duration_place = header->place;
	}
	else if (strcmp(name, "timeout") == 0)
	{
		header->timeout_ms = read_timeout(key, value);
		header->timeout_place = header->place;
	}
	else if (strcmp(name, "nodes") == 0)
		header->route.nodes = read_names(key, value);
	else if (strcmp(name, "feeds") == 0)
		header->route.feeds = read_names(key, value);
	else if (strcmp(name, "service_classes") == 0)
		header->route.service_classes = read_names(key, value);
	else if (strcmp(name, "route_prefs") == 0)
		read_prefs(key, value, header);
	else if (strcmp(name, "version") == 0)
		header->route.version = read_version(key, value);
	else if (strcmp(name, "test_ctl") == 0)
		header->route.test_ctl =
			read_word(key, value, test_words, "\"PROD\", \"TEST\", \"ANY\" or \"RANDOM\"");
	else if (strcmp(name, "is_mut") == 0)
		header->route.is_mut = read_bool(key, value);
	else if (strcmp(name, "is_solo") == 0)
		header->route.is_solo = read_bool(key, value);
	else if (strcmp(name, "ts_range") == 0)
		read_ts_range(key, value, header);
	else if (strcmp(name, "is_sequenced") == 0 || strcmp(name, "sequence_key") == 0)
		refuse_sequence(key, value);
	else
		return false;
	return true;
}

void
infer_header_begin(InferHeader *header)
{
	header->place++;
}

bool
infer_header_is_key(const char *key)
{
	static const char keys[] = INFER_HEADER_KEYS;
	size_t length = strlen(key);

	for (const char *p = keys; *p != '\0'; p += strspn(p, ", "))
	{
		size_t n = strcspn(p, ",");

		if (n == length && strncmp(p, key, n) == 0)
			return true;
		p += n;
	}
	return false;
}

bool
infer_header_set(InferHeader *header, const char *key, const JsonbValue *value)
{
	return set_key(header, &(Key){"option", key}, value);
}

void
infer_header_apply(InferHeader *header, Jsonb *routing)
{
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue value;
	Key key = {"routing key", NULL};

	if (!JB_ROOT_IS_OBJECT(routing))
		ereport(ERROR, (errcode(infer_errcode_config()),
						errmsg("the routing of calls must be a JSON object"),
						errhint("For example '{\"priority\": \"LOW\"}'.")));
	infer_header_begin(header);
	it = JsonbIteratorInit(&routing->root);
	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			key.name = pnstrdup(value.val.string.val, value.val.string.len);
		else if (token == WJB_VALUE && !set_key(header, &key, &value))
			ereport(ERROR, (errcode(infer_errcode_config()),
							errmsg("unknown routing key \"%s\"", key.name),
							errhint("The routing keys are %s.", INFER_HEADER_KEYS)));
	}
}

static Jsonb *
read_json(const char *text)
{
	return DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(text)));
}

void
infer_header_apply_setting(InferHeader *header)
{
	if (strcmp(infer_guc_routing, "{}") != 0)
		infer_header_apply(header, read_json(infer_guc_routing));
}

void
infer_header_init(InferHeader *header)
{
	*header = (InferHeader){.priority = infer_guc_priority};
	infer_route_request_init(&header->route);
	header->route.locality = pstrdup(infer_guc_locality);
	header->route.test_percent = infer_guc_test_percent;
}

int
infer_header_timeout_ms(const InferHeader *header, int usual_ms)
{
	static const int *const by_duration[] = {
		[INFER_DURATION_SHORT] = &infer_guc_short_timeout,
		[INFER_DURATION_MEDIUM] = &infer_guc_medium_timeout,
		[INFER_DURATION_LONG] = &infer_guc_long_timeout,
		[INFER_DURATION_EPIC] = &infer_guc_epic_timeout,
	};

	if (header->timeout_place > 0 && header->timeout_place >= header->duration_place)
		return header->timeout_ms;
	return header->duration_place > 0 ? *by_duration[header->route.duration] : usual_ms;
}

bool
infer_header_check(const char *text, char **detail, char **hint)
{
	MemoryContext old = CurrentMemoryContext;
	volatile bool good = true;

	*detail = *hint = NULL;
	PG_TRY();
	{
		InferHeader header;

		infer_header_init(&header);
		infer_header_apply(&header, read_json(text));
	}
	PG_CATCH();
	{
		ErrorData *error;

		MemoryContextSwitchTo(old);
		error = CopyErrorData();
		if (ERRCODE_TO_CATEGORY(error->sqlerrcode) == ERRCODE_INSUFFICIENT_RESOURCES ||
			ERRCODE_TO_CATEGORY(error->sqlerrcode) == ERRCODE_OPERATOR_INTERVENTION)
			PG_RE_THROW();
		FlushErrorState();
		good = false;
		*detail = error->message;
		*hint = error->hint;
	}
	PG_END_TRY();
	return good;
}
