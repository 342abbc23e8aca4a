/*
 * pg/datum.h - Datums that PostgreSQL has no short way to make. All are palloc'd.
 */
#ifndef INFER_PG_DATUM_H
#define INFER_PG_DATUM_H

#include "postgres.h"

/* An interval of so many microseconds, none of them called days. */
extern Datum infer_interval_datum(int64 us);
/* A name; a longer text is cut. */
extern Datum infer_name_datum(const char *text);

#endif
