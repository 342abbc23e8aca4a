/*
 * pg/datum.c - see datum.h.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
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

static const char *
readable(const char *text)
{
	char *copy;

	if (pg_verifymbstr(text, strlen(text), true))
		return text;
	copy = pstrdup(text);
	for (char *c = copy; *c != '\0'; c++)
	{
		if (IS_HIGHBIT_SET(*c))
			*c = '?';
	}
	return copy;
}

Datum
infer_name_datum(const char *text)
{
	Name name = palloc0(NAMEDATALEN);

	namestrcpy(name, readable(text));
	return NameGetDatum(name);
}

Datum
infer_text_datum(const char *text)
{
	return CStringGetTextDatum(readable(text));
}
