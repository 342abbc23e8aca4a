/*
 * api/rows.h - what the functions share that return rows of figures.
 */
#ifndef INFER_API_ROWS_H
#define INFER_API_ROWS_H

#include "postgres.h"
#include "fmgr.h"

/* The caller fills the tuplestore of its ReturnSetInfo. Raises if the library is not preloaded, or
 * the function, named as in C, was declared with other columns than the library has. */
extern void infer_rows_begin(FunctionCallInfo fcinfo, const char *symbol, int ncolumns);
/* Sets the column to the text; NULL and "" are SQL NULL. */
extern void infer_rows_put_text(Datum *values, bool *nulls, int column, const char *text);
/* As pg_stat_activity has it: one's own, and of whoever one may be; all for pg_read_all_stats. */
extern bool infer_rows_may_see(Oid role);

#endif
