/*
 * pg/datum.c - see datum.h.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "pg/datum.h"

Datum
infer_interval_datum(int64 us)
{
	Interval *interval = palloc0(sizeof(Interval));

	interval->time = us;
	return IntervalPGetDatum(interval);
}

Datum
infer_name_datum(const char *text)
{
	Name name = palloc0(NAMEDATALEN);

	namestrcpy(name, text);
	return NameGetDatum(name);
}
