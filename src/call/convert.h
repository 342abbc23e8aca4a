/*
 * call/convert.h - between UTF-8, which servers speak, and the encoding of the database.
 */
#ifndef INFER_CALL_CONVERT_H
#define INFER_CALL_CONVERT_H

#include "postgres.h"

#include "call/types.h"
#include "core/types.h"
#include "pg/guc.h"

/* The value of an answer in that context: text, or jsonb where the task is a raw call.  NULL: it
 * cannot be stored; *problem says why, until the next conversion. */
extern struct varlena *infer_convert_value(InferTask task, const char *utf8, size_t len,
										   InferInvalidText invalid, MemoryContext context,
										   const char **problem);
/* A text of the database's in UTF-8, in the current context or where it is.  False: it cannot be
 * said in UTF-8, and is what it was. */
extern bool infer_convert_input(InferInvalidText invalid, const char **text, size_t *len);
/* Words beside an answer, in the current context; what cannot be said becomes question marks. */
extern char *infer_convert_lossy(const char *utf8);
/* What is no input, and valid in the database's encoding: raises if it cannot be said in UTF-8. */
extern char *infer_convert_to_utf8(const char *s);
/* JSON beside an answer as jsonb, in the current context; false: jsonb does not take it. */
extern bool infer_convert_jsonb(const char *utf8, Datum *result);

#endif
