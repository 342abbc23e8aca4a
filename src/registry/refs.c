/*
 * registry/refs.c - service references in the encoding of the database (registry/refs.h).
 */
#include "postgres.h"

#include "mb/pg_wchar.h"

#include "pg/report.h"
#include "registry/refs.h"

void
infer_ref_refuse(const char *problem)
{
	ereport(ERROR, (errcode(infer_errcode_config()), errmsg("this is no service reference"),
					errdetail("As a reference, %s.", problem),
					errhint("Take one with infer.ref(), and keep it as it is.")));
}

InferRef *
infer_ref_parse(const char *text)
{
	InferRef *ref = palloc(sizeof(InferRef));
	const char *problem;

	if (!infer_ref_read(text, strlen(text), ref, &problem))
		infer_ref_refuse(problem);
	return ref;
}

static char *
from_utf8(const char *name)
{
	int len = (int) strlen(name);

	if (!pg_verify_mbstr(PG_UTF8, name, len, true))
		infer_ref_refuse("a name in it is not valid UTF-8");
	return pstrdup(pg_any_to_server(name, len, PG_UTF8));
}

char *
infer_ref_server(const InferRef *ref)
{
	return from_utf8(ref->server);
}

char *
infer_ref_model(const InferRef *ref)
{
	return from_utf8(ref->model);
}

void
infer_ref_put(char *to, size_t size, const char *name)
{
	const char *utf8 = pg_server_to_any(name, (int) strlen(name), PG_UTF8);

	if (strlcpy(to, utf8, size) >= size)
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						errmsg("a name is too long for a service reference"),
						errdetail("It may have %zu bytes in UTF-8.", size - 1)));
}
