/*
 * api/refs.c - service references: infer.ref(), and their form as bytes.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"

#include "call/refs.h"
#include "pg/compat.h"
#include "pg/guc.h"
#include "registry/refs.h"

PG_FUNCTION_INFO_V1(infer_ref);
PG_FUNCTION_INFO_V1(infer_ref_to_bytes);
PG_FUNCTION_INFO_V1(infer_ref_from_bytes);

/* ref(model, server) */
Datum
infer_ref(PG_FUNCTION_ARGS)
{
	char *server;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	infer_require_preload();
	server = PG_ARGISNULL(1) ? NULL : NameStr(*PG_GETARG_NAME(1));
	PG_RETURN_TEXT_P(
		cstring_to_text(infer_ref_take(text_to_cstring(PG_GETARG_TEXT_PP(0)), server)));
}

/* ref_to_bytes(ref) */
Datum
infer_ref_to_bytes(PG_FUNCTION_ARGS)
{
	InferRef *ref = infer_ref_parse(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	bytea *bytes = palloc(VARHDRSZ + INFER_REF_BYTES_MAX);

	SET_VARSIZE(bytes, VARHDRSZ + infer_ref_pack(ref, (unsigned char *) VARDATA(bytes)));
	PG_RETURN_BYTEA_P(bytes);
}

/* ref_from_bytes(bytes) */
Datum
infer_ref_from_bytes(PG_FUNCTION_ARGS)
{
	bytea *bytes = PG_GETARG_BYTEA_PP(0);
	InferRef *ref = palloc(sizeof(InferRef));
	char *text = palloc(INFER_REF_TEXT_MAX);
	const char *problem;

	if (!infer_ref_unpack((unsigned char *) VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes), ref,
						  &problem))
		infer_ref_refuse(problem);
	infer_ref_write(ref, text);
	PG_RETURN_TEXT_P(cstring_to_text(text));
}
