/*
 * registry/catalog.h - the tables of the extension, as rows of named fields.
 *
 * Whatever is written here is written as the owner of the tables; who may have it written is for
 * the caller to check before.  Names of tables and columns are those of the caller's source, never
 * of SQL.  Everything raises.
 */
#ifndef INFER_REGISTRY_CATALOG_H
#define INFER_REGISTRY_CATALOG_H

#include "postgres.h"

#include "storage/lockdefs.h"
#include "utils/relcache.h"

/* A column of a row that is written, or a parameter of a query. */
typedef struct InferField
{
	const char *column; /* NULL for a parameter */
	Oid type;
	bool given; /* it has a value; else it stays as it is, or is null */
	bool reset; /* it gets its default again */
	Datum value;
} InferField;

/* A given text. */
extern InferField infer_field_text(const char *column, const char *value);

/* The OID of infer.NAME; without the extension in this database, raises or (missing_ok) returns
 * InvalidOid. */
extern Oid infer_catalog_relation(const char *name, bool missing_ok);
/* Opens infer.NAME; raises without the extension. */
extern Relation infer_catalog_open(const char *name, LOCKMODE mode);

/* Runs one statement over $1 .. $nargs. Returns the number of rows; with result (which is not
 * touched without a row), also the first column of the first row as text. */
extern uint64 infer_catalog_query(const char *sql, const InferField *args, int nargs,
								  char **result);
/* Returns false if there is such a row already. */
extern bool infer_catalog_insert(const char *table, const InferField *fields, int nfields);
/* Sets what is given or reset in the row that has the given fields of key; nothing if nothing is.
 * Returns the number of rows. */
extern uint64 infer_catalog_update(const char *table, const InferField *fields, int nfields,
								   const InferField *key, int nkey);

/* Marks the fields of these names (text[]) as reset; raises for others, and for those given. */
extern void infer_fields_reset(InferField *fields, int nfields, Datum names);
/* Is any of them given or reset? */
extern bool infer_fields_any(const InferField *fields, int nfields);
/* Their names, for a hint: "a, b, c". */
extern char *infer_fields_names(const InferField *fields, int nfields);

/* Raise with 22023. A text that is empty, longer than max bytes, or has control characters: */
extern void infer_check_text(const char *what, const char *value, size_t max);
/* A word as it may be shown in databases of any encoding: 1 to 63 printable ASCII characters. */
extern void infer_check_word(const char *what, const char *value);
/* A text[] that is not flat, has nulls, the same text twice, more than max_count texts, or a text
 * as above. Returns them, palloc'd. */
extern char **infer_check_texts(const char *what, Datum value, int max_count, size_t max,
								int *count);
/* The texts of a text[] without nulls, palloc'd. */
extern char **infer_texts(Datum value, int *count);

#endif
