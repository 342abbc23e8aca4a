/*
 * pg/datum.h - Datums that PostgreSQL has no short way to make. All are palloc'd.
 *
 * Texts may come from databases of other encodings: what is no text in this one's shows as "?".
 */
#ifndef INFER_PG_DATUM_H
#define INFER_PG_DATUM_H

#include "postgres.h"

/* An interval of so many microseconds, none of them called days. */
extern Datum infer_interval_datum(int64 us);
/* A name; a longer text is cut. */
extern Datum infer_name_datum(const char *text);
extern Datum infer_text_datum(const char *text);

#endif
