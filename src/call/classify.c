/*
 * call/classify.c - what a model adds to the header of a request (call/classify.h).
 *
 * Classification functions are SQL functions that see a call's header before anything is decided,
 * and may change it.  They see the routing keys that were said, merged into one object, as the
 * stronger place says them; what is not there has its built-in value.  They run when a class of
 * calls is made, so once in a statement for each header and parameters; their answer lives as long
 * as the class.  A function may call a model itself, so nothing of the class is there yet while
 * they run (call/class.c).
 */
#include "postgres.h"

#include "catalog/objectaccess.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_proc.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/timestamp.h"

#include "call/classify.h"
#include "pg/compat.h"
#include "pg/guc.h"
#include "pg/header.h"
#include "pg/report.h"
#include "registry/models.h"

/* --- Objects --- */

static Jsonb *
read_json(const char *text)
{
	return DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(text)));
}

static bool
find(Jsonb *object, const char *key, JsonbValue *value)
{
	JsonbValue *found = getKeyJsonValueFromContainer(&object->root, key, (int) strlen(key), value);

	return found != NULL;
}

static Jsonb *
concat(Jsonb *weak, Jsonb *strong)
{
	return DatumGetJsonbP(
		DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(weak), JsonbPGetDatum(strong)));
}

static Jsonb *
without(Jsonb *object, const char *key)
{
	return DatumGetJsonbP(
		DirectFunctionCall2(jsonb_delete, JsonbPGetDatum(object), CStringGetTextDatum(key)));
}

/* {"key": value} */
static Jsonb *
pair(const char *key, Jsonb *value)
{
	return read_json(
		psprintf("{\"%s\": %s}", key, JsonbToCString(NULL, &value->root, (int) VARSIZE(value))));
}

/* Lays a place over what weaker ones said, as pg/header does it. */
static Jsonb *
lay(Jsonb *header, Jsonb *place)
{
	JsonbValue weak;
	JsonbValue strong;
	JsonbValue unused;
	Jsonb *merged = header;

	if (find(place, "duration", &unused) && !find(place, "timeout", &unused))
		merged = without(merged, "timeout");
	merged = concat(merged, place);
	if (find(header, "route_prefs", &weak) && find(place, "route_prefs", &strong) &&
		weak.type == jbvBinary && strong.type == jbvBinary)
		merged = concat(merged, pair("route_prefs",
									 concat(JsonbValueToJsonb(&weak), JsonbValueToJsonb(&strong))));
	return merged;
}

/* Those keys of a call's options that are about routing. */
static Jsonb *
routing_of(Jsonb *options)
{
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue value;
	Jsonb *routing = options;

	if (!JB_ROOT_IS_OBJECT(options))
		return read_json("{}");
	it = JsonbIteratorInit(&options->root);
	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
		if (token == WJB_KEY)
		{
			char *key = pnstrdup(value.val.string.val, value.val.string.len);

			if (!infer_header_is_key(key))
				routing = without(routing, key);
		}
	return routing;
}

/* --- Functions --- */

static void
append_text(StringInfo json, const char *key, const char *text)
{
	if (text == NULL)
		return;
	appendStringInfo(json, ", \"%s\": ", key);
	escape_json(json, text);
}

/* What a function is told of the model: where it runs, and how it is set up. */
static Jsonb *
config_of(const InferTarget *target)
{
	StringInfoData json;

	initStringInfo(&json);
	appendStringInfo(&json,
					 "{\"set_version\": " INT64_FORMAT ", \"strategy\": \"%s\", "
					 "\"placements\": [",
					 target->set_version, target->strategy == INFER_STRATEGY_RR ? "rr" : "smart");
	for (int i = 0; i < target->nplaces; i++)
	{
		const InferPlacement *placement = &target->places[i];
		const InferServer *server = placement->server;

		appendStringInfo(&json, "%s{\"tier\": %d", i > 0 ? ", " : "", placement->tier);
		append_text(&json, "server", server->name);
		append_text(&json, "node", server->node != NULL ? server->node : server->name);
		append_text(&json, "remote_model", placement->remote_model);
		append_text(&json, "service_class", placement->service_class);
		if (placement->version >= 0)
			appendStringInfo(&json, ", \"version\": \"%d.%02d\"", placement->version / 100,
							 placement->version % 100);
		appendStringInfoChar(&json, '}');
	}
	appendStringInfoString(&json, "]}");
	return read_json(json.data);
}

typedef struct Running
{
	const char *model;
	const char *function;
} Running;

static void
tell_context(void *arg)
{
	const Running *running = arg;

	errcontext("classification function %s of model \"%s\"", running->function, running->model);
}

/* The function of that signature, which the current user may run. */
static Oid
look_up(const char *signature)
{
	Oid function =
		DatumGetObjectId(DirectFunctionCall1(regprocedurein, CStringGetDatum(signature)));
	AclResult result;

	if (!infer_is_class_fn(function))
		ereport(ERROR, (errcode(infer_errcode_config()),
						errmsg("function %s cannot classify requests", signature),
						errhint("It must take (model text, header jsonb, args jsonb, config jsonb) "
								"and return jsonb. Create it so again, or name another one with "
								"infer.alter_model().")));
	result = infer_function_aclcheck(function, GetUserId());
	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_FUNCTION, get_func_name(function));
	InvokeFunctionExecuteHook(function);
	return function;
}

static Jsonb *
run(Oid function, const char *signature, Datum model, Jsonb *header, Jsonb *args, Jsonb *config)
{
	LOCAL_FCINFO(fcinfo, 4);
	FmgrInfo flinfo;
	Datum result;
	Jsonb *changed;

	fmgr_info(function, &flinfo);
	InitFunctionCallInfoData(*fcinfo, &flinfo, 4, DEFAULT_COLLATION_OID, NULL, NULL);
	fcinfo->args[0] = (NullableDatum){model, false};
	fcinfo->args[1] = (NullableDatum){JsonbPGetDatum(header), false};
	fcinfo->args[2] = (NullableDatum){JsonbPGetDatum(args), false};
	fcinfo->args[3] = (NullableDatum){JsonbPGetDatum(config), false};
	result = FunctionCallInvoke(fcinfo);
	changed = fcinfo->isnull ? NULL : DatumGetJsonbPCopy(result);
	if (changed == NULL || !JB_ROOT_IS_OBJECT(changed))
		ereport(ERROR, (errcode(infer_errcode_config()),
						errmsg("classification function %s returned no header", signature),
						errdetail("It returned %s.", changed == NULL ? "NULL" : "no JSON object"),
						errhint("Return the header that it got, with the keys changed that are to "
								"be.")));
	return changed;
}

Jsonb *
infer_classify(const InferTarget *target, Jsonb *options, Jsonb *parameters)
{
	Running running = {.model = target->model};
	ErrorContextCallback context = {.callback = tell_context, .arg = &running};
	Jsonb *header = read_json("{}");
	Jsonb *config;

	if (target->class_fns.n == 0)
		return NULL;
	if (target->routing != NULL)
		header = lay(header, target->routing);
	header = lay(header, read_json(infer_guc_routing));
	header = lay(header, routing_of(options));
	config = config_of(target);
	if (parameters == NULL)
		parameters = read_json("{}");
	context.previous = error_context_stack;
	error_context_stack = &context;
	for (int i = 0; i < target->class_fns.n; i++)
	{
		InferHeader unused;

		running.function = target->class_fns.names[i];
		header = run(look_up(running.function), running.function,
					 CStringGetTextDatum(target->model), header, parameters, config);
		/* what is wrong in it is this function's */
		infer_header_init(&unused);
		infer_header_apply(&unused, header);
	}
	error_context_stack = context.previous;
	return header;
}

/* --- Times --- */

typedef struct Times
{
	bool found;
	TimestampTz first;
	TimestampTz last;
} Times;

static void
tell_parameter(void *arg)
{
	errcontext("parameter \"%s\", one of the model's ts_args", (const char *) arg);
}

static TimestampTz
read_time(const char *name, const JsonbValue *value)
{
	ErrorContextCallback context = {.previous = error_context_stack,
									.callback = tell_parameter,
									.arg = unconstify(char *, name)};
	char *text = pnstrdup(value->val.string.val, value->val.string.len);
	Datum time;

	error_context_stack = &context;
	time = DirectFunctionCall3(timestamptz_in, CStringGetDatum(text), ObjectIdGetDatum(InvalidOid),
							   Int32GetDatum(-1));
	error_context_stack = context.previous;
	return DatumGetTimestampTz(time);
}

static void
bad_time(const char *name)
{
	ereport(ERROR, (errcode(infer_errcode_config()), errmsg("parameter \"%s\" is no time", name),
					errdetail("The model says that it is one, in its ts_args."),
					errhint("Give a time such as \"2026-01-01 00:00+00\", a list of times, or null "
							"for one without a bound.")));
}

/* null is both ends of time. */
static void
add_time(const char *name, const JsonbValue *value, Times *times)
{
	TimestampTz first = DT_NOBEGIN;
	TimestampTz last = DT_NOEND;

	if (value->type == jbvString)
		first = last = read_time(name, value);
	else if (value->type != jbvNull)
		bad_time(name);
	times->first = times->found ? Min(times->first, first) : first;
	times->last = times->found ? Max(times->last, last) : last;
	times->found = true;
}

/* A time or a list of them; one that is not given is not found. */
static Times
times_of(Jsonb *parameters, const char *name)
{
	Times times = {false};
	JsonbValue value;
	JsonbIterator *it;
	JsonbIteratorToken token;

	if (!find(parameters, name, &value))
		return times;
	if (value.type != jbvBinary)
	{
		add_time(name, &value, &times);
		return times;
	}
	it = JsonbIteratorInit(value.val.binary.data);
	if (JsonbIteratorNext(&it, &value, true) != WJB_BEGIN_ARRAY)
		bad_time(name);
	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
		if (token == WJB_ELEM)
			add_time(name, &value, &times);
	return times;
}

void
infer_classify_times(const InferTarget *target, Jsonb *parameters, InferTimeRange *range)
{
	Times from;
	Times to;

	if (range->set || target->ts_args.n == 0 || parameters == NULL ||
		!JB_ROOT_IS_OBJECT(parameters))
		return;
	from = times_of(parameters, target->ts_args.names[0]);
	to = target->ts_args.n > 1 ? times_of(parameters, target->ts_args.names[1]) : from;
	if (!from.found && !to.found)
		return;
	range->set = true;
	range->from = from.found ? from.first : DT_NOBEGIN;
	range->to = to.found ? to.last : DT_NOEND;
	/* the last moment is meant, too */
	if (range->to != DT_NOEND && range->to != DT_NOBEGIN)
		range->to++;
}
