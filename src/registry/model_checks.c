/*
 * registry/model_checks.c - is what somebody says of a model fit for it?
 *
 * Functions that classify requests run with the rights of whoever calls the model, and anybody may
 * call any model: so naming one takes a superuser, as making an event trigger does.  They are kept
 * as signatures with their schema, for pg_upgrade knows no numbers and search_path changes.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "pg/header.h"
#include "registry/models.h"
#include "registry/placements.h"
#include "registry/targets.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#define INFER_TS_ARGS_MAX   2
#define INFER_CLASS_FNS_MAX 8
#define INFER_FALLBACKS_MAX 8
#define INFER_PARAMETER_MAX 63    /* bytes */
#define INFER_SIGNATURE_MAX 1024  /* bytes */
#define INFER_AFFINITY_MAX  65536 /* bytes */

static void
infer_check_price(const InferField *field)
{
	double price;

	if (!field->given)
		return;
	price = DatumGetFloat8(field->value);
	if (isnan(price) || isinf(price) || price < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the %s must be a finite number that is not negative", field->column),
				 errhint("It is what a million tokens cost; 0 stands for free of charge.")));
}

static void
infer_check_word_of(const InferField *field, const char *first, const char *second)
{
	char *word;

	if (!field->given)
		return;
	word = TextDatumGetCString(field->value);
	if (strcmp(word, first) != 0 && strcmp(word, second) != 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("invalid %s: \"%s\"", field->column, word),
						errhint("It is %s or %s.", first, second)));
}

static void
infer_check_ts_args(const InferField *field)
{
	int unused;

	if (field->given)
		infer_check_texts("list ts_args", field->value, INFER_TS_ARGS_MAX, INFER_PARAMETER_MAX,
						  &unused);
}

bool
infer_is_class_fn(Oid function)
{
	static const Oid wanted[] = {TEXTOID, JSONBOID, JSONBOID, JSONBOID};
	HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Form_pg_proc form;
	bool fits;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_proc) GETSTRUCT(tuple);
	fits = form->prokind == PROKIND_FUNCTION && !form->proretset && form->prorettype == JSONBOID &&
		   form->pronargs == lengthof(wanted) &&
		   memcmp(form->proargtypes.values, wanted, sizeof(wanted)) == 0;
	ReleaseSysCache(tuple);
	return fits;
}

static void
infer_check_class_fns(InferField *field)
{
	char **signatures;
	Datum *stored;
	int count;

	if (!field->given)
		return;
	signatures = infer_check_texts("list class_fns", field->value, INFER_CLASS_FNS_MAX,
								   INFER_SIGNATURE_MAX, &count);
	if (count > 0 && !superuser())
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						errmsg("permission denied to set class_fns"),
						errdetail("Whoever calls the model runs these functions."),
						errhint("A superuser may set them.")));
	stored = palloc(sizeof(Datum) * Max(count, 1));
	for (int i = 0; i < count; i++)
	{
		Oid function;

		if (strchr(signatures[i], '(') == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("\"%s\" does not name the arguments of a function", signatures[i]),
					 errhint("Write it with them: %s(text,jsonb,jsonb,jsonb).", signatures[i])));
		function =
			DatumGetObjectId(DirectFunctionCall1(regprocedurein, CStringGetDatum(signatures[i])));
		if (!infer_is_class_fn(function))
			ereport(ERROR, (errcode(ERRCODE_INVALID_FUNCTION_DEFINITION),
							errmsg("function %s cannot classify requests", signatures[i]),
							errhint("It must take (model text, header jsonb, args jsonb, config "
									"jsonb) and return jsonb.")));
		stored[i] = CStringGetTextDatum(format_procedure_qualified(function));
	}
	field->value =
		PointerGetDatum(construct_array(stored, count, TEXTOID, -1, false, TYPALIGN_INT));
}

static void
infer_check_routing(const InferField *field)
{
	InferHeader header;

	if (!field->given)
		return;
	infer_header_init(&header);
	infer_header_apply(&header, DatumGetJsonbP(field->value));
}

/* Would a model that has this one as a fallback come back to itself? */
static bool
infer_leads_back(const InferModel *fallback, const char *name, List **seen)
{
	check_stack_depth();
	for (int i = 0; i < fallback->fallbacks.n; i++)
	{
		const char *next = fallback->fallbacks.names[i];
		InferModel *model;
		ListCell *cell;

		if (strcmp(next, name) == 0)
			return true;
		foreach (cell, *seen)
		{
			if (strcmp(lfirst(cell), next) == 0)
				break;
		}
		if (cell != NULL)
			continue;
		*seen = lappend(*seen, pstrdup(next));
		model = infer_model_read(next);
		if (model != NULL && infer_leads_back(model, name, seen))
			return true;
	}
	return false;
}

static void
infer_check_fallback(const char *name, InferTask task, const char *fallback)
{
	InferModel *model = strcmp(fallback, name) == 0 ? NULL : infer_model_read(fallback);
	List *seen = NIL;

	if (strcmp(fallback, name) == 0 || (model != NULL && infer_leads_back(model, name, &seen)))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("model \"%s\" would be its own fallback", name),
						errdetail("By \"%s\" it would come back to itself.", fallback),
						errhint("infer.models has the fallbacks of each model.")));
	if (model == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("model \"%s\" does not exist", fallback),
				 errdetail("It would be a fallback of \"%s\".", name),
				 errhint("Create it first; infer.models lists the models.")));
	if (!infer_task_fits(model->task, task))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("model \"%s\" cannot be a fallback of \"%s\"", fallback, name),
				 errdetail("It is for %s, not for %s.", model->task, infer_task_name(task))));
}

static void
infer_check_fallbacks(const char *name, InferTask task, const InferField *field)
{
	char **names;
	int count;

	if (!field->given)
		return;
	names = infer_check_texts("list of fallbacks", field->value, INFER_FALLBACKS_MAX,
							  INFER_MODEL_NAME_MAX, &count);
	for (int i = 0; i < count; i++)
		infer_check_fallback(name, task, names[i]);
}

void
infer_model_check_fields(const char *name, InferTask task, InferField *fields)
{
	const InferField *min_version = &fields[INFER_MODEL_MIN_VERSION];
	const InferField *bytes = &fields[INFER_MODEL_AFFINITY_BYTES];

	infer_check_price(&fields[INFER_MODEL_INPUT_PRICE]);
	infer_check_price(&fields[INFER_MODEL_OUTPUT_PRICE]);
	if (min_version->given)
		infer_version_parse("min_version", TextDatumGetCString(min_version->value));
	infer_check_ts_args(&fields[INFER_MODEL_TS_ARGS]);
	infer_check_class_fns(&fields[INFER_MODEL_CLASS_FNS]);
	infer_check_fallbacks(name, task, &fields[INFER_MODEL_FALLBACKS]);
	infer_check_routing(&fields[INFER_MODEL_ROUTING]);
	infer_check_word_of(&fields[INFER_MODEL_AFFINITY], "off", "prefix");
	infer_check_word_of(&fields[INFER_MODEL_STRATEGY], "smart", "rr");
	if (bytes->given &&
		(DatumGetInt32(bytes->value) < 1 || DatumGetInt32(bytes->value) > INFER_AFFINITY_MAX))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("the affinity_bytes must be from 1 to %d", INFER_AFFINITY_MAX)));
}
