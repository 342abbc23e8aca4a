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

typedef struct InferModel
{
	char *name;
	char *task; /* a name of InferTask */
	char *server;
	char *remote_model;
	char *owner; /* role name; a role that has it now is the owner */
} InferModel;

/* The OID of infer.model_catalog; raises if the extension is not in this database. */
extern Oid infer_model_catalog(void);
/* NULL if there is none. palloc'd. */
extern InferModel *infer_model_read(const char *name);

/* remote_model NULL: the same as the name. */
extern void infer_model_create(const char *name, const char *task, const char *server,
							   const char *remote_model);
/* NULL: stays as it is. */
extern void infer_model_alter(const char *name, const char *server, const char *remote_model);
extern void infer_model_drop(const char *name);

#endif
