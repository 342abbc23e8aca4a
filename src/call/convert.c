/*
 * call/convert.c - what servers say, which is UTF-8, in the database's encoding.
 *
 * An answer that cannot be stored (a character that the encoding lacks, JSON that jsonb refuses) is
 * the failure of its row, found when it arrives and kept like any other, so that try_ functions and
 * on_error see it.  With invalid_text = replace, characters that the encoding lacks become question
 * marks.  Error texts and usage figures only accompany a row: with them that is always so.
 *
 * Inputs go the other way.  PostgreSQL's own conversion would raise for the first bad byte, while
 * rows are read ahead, and end the statement; here it is the failure of one row, before anything is
 * sent, or U+FFFD stands in its place.
 *
 * jsonb_in() raises for what it does not like.  It holds nothing but memory, of a context of ours,
 * so that catching its complaints about data needs no subtransaction.
 */
#include "postgres.h"

#include <limits.h>

#include "catalog/namespace.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"

#include "call/convert.h"
#include "core/types.h"
#include "pg/compat.h"
#include "pg/guc.h"
#include "provider/json_scan.h"

static bool
is_utf8(void)
{
	return GetDatabaseEncoding() == PG_UTF8 || GetDatabaseEncoding() == PG_SQL_ASCII;
}

char *
infer_convert_to_utf8(const char *s)
{
	char *utf8 = pg_server_to_any(s, strlen(s), PG_UTF8);

	return utf8 == s ? pstrdup(s) : utf8;
}

/* Converts as much as it can of valid UTF-8 into dest; returns how many bytes of it that was. */
static int
convert_some(const char *utf8, int len, char *dest, int dest_size)
{
	Oid proc = FindDefaultConversionProc(PG_UTF8, GetDatabaseEncoding());

	dest[0] = '\0';
	if (!OidIsValid(proc))
		return 0;
	return pg_do_encoding_conversion_buf(proc, PG_UTF8, GetDatabaseEncoding(),
										 (unsigned char *) unconstify(char *, utf8), len,
										 (unsigned char *) dest, dest_size, true);
}

static int
converted_size(size_t len)
{
	return (int) Min(len, (INT_MAX - 1) / MAX_CONVERSION_GROWTH) * MAX_CONVERSION_GROWTH + 1;
}

/* As much of a text as the encoding has, question marks for the rest; in the current context. */
static char *
convert_lossy(const char *utf8, int len)
{
	int size = converted_size(len);
	char *result = MemoryContextAllocHuge(CurrentMemoryContext, size);
	char *to = result;

	*to = '\0';
	while (len > 0)
	{
		int done = convert_some(utf8, len, to, size - (int) (to - result));

		to += strlen(to);
		if (done < len)
		{
			done += pg_utf_mblen((const unsigned char *) utf8 + done);
			*to++ = '?';
		}
		utf8 += done;
		len -= done;
	}
	*to = '\0';
	return result;
}

/* In the current context. NULL: the database's encoding does not have all characters. */
static text *
convert_text(const char *utf8, size_t len, InferInvalidText invalid)
{
	int size = converted_size(len);
	char *converted;

	if (is_utf8())
		return cstring_to_text_with_len(utf8, (int) len);
	if (invalid == INFER_INVALID_TEXT_REPLACE)
		return cstring_to_text(convert_lossy(utf8, (int) len));
	converted = MemoryContextAllocHuge(CurrentMemoryContext, size);
	return convert_some(utf8, (int) len, converted, size) < (int) len ? NULL
																	  : cstring_to_text(converted);
}

/* NULL: jsonb does not take it; *problem says why, in the current context. */
static Jsonb *
parse_jsonb(const char *json, const char **problem)
{
	MemoryContext caller = CurrentMemoryContext;
	Datum volatile jsonb = (Datum) 0;

	PG_TRY();
	{
		jsonb = DirectFunctionCall1(jsonb_in, CStringGetDatum(json));
	}
	PG_CATCH();
	{
		int category = ERRCODE_TO_CATEGORY(geterrcode());

		if (category != ERRCODE_DATA_EXCEPTION && category != ERRCODE_FEATURE_NOT_SUPPORTED &&
			category != ERRCODE_PROGRAM_LIMIT_EXCEEDED)
			PG_RE_THROW();
		MemoryContextSwitchTo(caller);
		*problem = CopyErrorData()->message;
		FlushErrorState();
	}
	PG_END_TRY();
	return jsonb == (Datum) 0 ? NULL : DatumGetJsonbP(jsonb);
}

/* Everything that converting JSON leaves behind is here, until the next time. */
static MemoryContext
fresh_scratch(void)
{
	static MemoryContext scratch = NULL;

	if (scratch == NULL)
		scratch = AllocSetContextCreate(TopMemoryContext, "pg_inference conversion",
										ALLOCSET_DEFAULT_SIZES);
	MemoryContextReset(scratch);
	return scratch;
}

static struct varlena *
copy_bytes(MemoryContext context, const char *bytes, size_t len)
{
	struct varlena *copy = MemoryContextAllocHuge(context, len + VARHDRSZ);

	SET_VARSIZE(copy, len + VARHDRSZ);
	memcpy(VARDATA(copy), bytes, len);
	return copy;
}

/* The value of an answer: text, or jsonb where the task is a raw call.  NULL: it cannot be stored;
 * *problem says why, until the next conversion. */
struct varlena *
infer_convert_value(InferTask task, const char *utf8, size_t len, InferInvalidText invalid,
					MemoryContext context, const char **problem)
{
	MemoryContext old;
	struct varlena *value;

	if (task != INFER_TASK_CALL && is_utf8())
		return copy_bytes(context, utf8, len);
	old = MemoryContextSwitchTo(fresh_scratch());
	*problem = "the database's encoding does not have all of its characters";
	value = (struct varlena *) convert_text(utf8, len, invalid);
	if (value != NULL && task == INFER_TASK_CALL)
		value = (struct varlena *) parse_jsonb(text_to_cstring((text *) value), problem);
	MemoryContextSwitchTo(old);
	return value == NULL ? NULL : copy_bytes(context, VARDATA(value), VARSIZE(value) - VARHDRSZ);
}

/* Bytes of a text of the database's encoding, U+FFFD where they say nothing in UTF-8. */
static char *
replace_input(const char *text, int len)
{
	int encoding = GetDatabaseEncoding();
	Oid proc = FindDefaultConversionProc(encoding, PG_UTF8);
	int size = converted_size(len);
	char *result = MemoryContextAllocHuge(CurrentMemoryContext, size);
	char *to = result;

	*to = '\0';
	while (len > 0)
	{
		int done = 0;

		if (OidIsValid(proc))
			done = pg_do_encoding_conversion_buf(
				proc, encoding, PG_UTF8, (unsigned char *) unconstify(char *, text), len,
				(unsigned char *) to, size - (int) (to - result), true);
		to += strlen(to);
		if (done < len)
		{
			done += Min(pg_encoding_mblen(encoding, text + done), len - done);
			to += strlen(strcpy(to, INFER_REPLACEMENT));
		}
		text += done;
		len -= done;
	}
	return result;
}

/* What is no UTF-8 where it should be: as it is in SQL_ASCII, which knows of no encoding. */
static char *
repair_input(const char *text, size_t len)
{
	char *result = MemoryContextAllocHuge(CurrentMemoryContext, len * INFER_REPLACEMENT_GROWTH + 1);

	result[infer_utf8_repair(text, len, result)] = '\0';
	return result;
}

/* In the current context. NULL: it has no such words in UTF-8. */
static char *
convert_input(const char *text, int len)
{
	int encoding = GetDatabaseEncoding();
	Oid proc = FindDefaultConversionProc(encoding, PG_UTF8);
	int size = converted_size(len);
	char *result;

	if (!OidIsValid(proc))
		return NULL;
	result = MemoryContextAllocHuge(CurrentMemoryContext, size);
	if (pg_do_encoding_conversion_buf(proc, encoding, PG_UTF8,
									  (unsigned char *) unconstify(char *, text), len,
									  (unsigned char *) result, size, true) == len)
		return result;
	pfree(result);
	return NULL;
}

bool
infer_convert_input(InferInvalidText invalid, const char **text, size_t *len)
{
	char *utf8 = NULL;

	if (is_utf8())
	{
		if (infer_utf8_valid(*text, *len))
			return true;
		if (invalid == INFER_INVALID_TEXT_REPLACE)
			utf8 = repair_input(*text, *len);
	}
	else if (*len == 0)
		return true;
	else
	{
		utf8 = convert_input(*text, (int) *len);
		if (utf8 == NULL && invalid == INFER_INVALID_TEXT_REPLACE)
			utf8 = replace_input(*text, (int) *len);
	}
	if (utf8 == NULL)
		return false;
	*text = utf8;
	*len = strlen(utf8);
	return true;
}

/* Words beside an answer, in the current context. */
char *
infer_convert_lossy(const char *utf8)
{
	return is_utf8() ? pstrdup(utf8) : convert_lossy(utf8, (int) strlen(utf8));
}

/* JSON beside an answer as jsonb; false: jsonb does not take it. */
bool
infer_convert_jsonb(const char *utf8, Datum *result)
{
	const char *problem;
	Jsonb *jsonb = parse_jsonb(infer_convert_lossy(utf8), &problem);

	if (jsonb != NULL)
		*result = JsonbPGetDatum(jsonb);
	return jsonb != NULL;
}
