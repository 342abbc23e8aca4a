/*
 * registry/models.h - the rows of infer.model_catalog.
 *
 * Written only through the functions here, which check what the caller may do and then write as the
 * table's owner.  A trigger on the table tells all backends of each change, however it was made.
 */
#ifndef INFER_REGISTRY_MODELS_H
#define INFER_REGISTRY_MODELS_H

#include "postgres.h"
#include "core/types.h"

#define INFER_MODEL_NAME_MAX 255 /* bytes */
#define INFER_PRICE_UNKNOWN  (-1.0)

typedef struct InferModel
{
	char *name;
	char *task; /* a name of InferTask */
	char *server;
	char *remote_model;
	char *owner;        /* role name; a role that has it now is the owner */
	double input_price; /* per million tokens; INFER_PRICE_UNKNOWN unless set */
	double output_price;
} InferModel;

/* The task of that name; raises if there is none. */
extern InferTask infer_task_parse(const char *task);
/* The OID of infer.model_catalog; without the extension in this database, raises or (missing_ok)
 * returns InvalidOid. */
extern Oid infer_model_catalog(bool missing_ok);
/* NULL if there is none. palloc'd. */
extern InferModel *infer_model_read(const char *name);

/* remote_model NULL: the same as the name. Prices NULL: not known. */
extern void infer_model_create(const char *name, const char *task, const char *server,
							   const char *remote_model, const double *input_price,
							   const double *output_price);
/* NULL: stays as it is. */
extern void infer_model_alter(const char *name, const char *server, const char *remote_model,
							  const double *input_price, const double *output_price);
extern void infer_model_drop(const char *name);

#endif
