/*
 * registry/models.h - the rows of infer.model_catalog.
 *
 * Written only through the functions here, which check what the caller may do and then write as the
 * table's owner.  A trigger on the table tells all backends of each change, however it was made.
 */
#ifndef INFER_REGISTRY_MODELS_H
#define INFER_REGISTRY_MODELS_H

#include "postgres.h"
#include "core/route.h"
#include "core/types.h"
#include "nodes/pg_list.h"
#include "registry/catalog.h"
#include "utils/jsonb.h"

#define INFER_MODEL_NAME_MAX   255  /* bytes */
#define INFER_REMOTE_MODEL_MAX 1024 /* bytes */
#define INFER_PRICE_UNKNOWN    (-1.0)

typedef struct InferModel
{
	char *name;
	char *task;         /* a name of InferTask */
	char *owner;        /* role name; a role that has it now is the owner */
	double input_price; /* per million tokens; INFER_PRICE_UNKNOWN unless set */
	double output_price;
	int64 set_version; /* of its placements */
	int min_version;   /* 100 * M + NN; INFER_VERSION_NONE unless set */
	InferNames ts_args;
	InferNames class_fns;
	InferNames fallbacks; /* names of models, of which some may be gone */
	Jsonb *routing;       /* NULL unless set */
	int affinity_bytes;   /* 0: it has no affinity */
	InferStrategy strategy;
	List *placements; /* of InferPlacementRow, by server and remote model */
} InferModel;

/* What may be said of a model, in the order of the arguments of create_model and alter_model. */
enum
{
	INFER_MODEL_INPUT_PRICE,
	INFER_MODEL_OUTPUT_PRICE,
	INFER_MODEL_MIN_VERSION,
	INFER_MODEL_TS_ARGS,
	INFER_MODEL_CLASS_FNS,
	INFER_MODEL_FALLBACKS,
	INFER_MODEL_ROUTING,
	INFER_MODEL_AFFINITY,
	INFER_MODEL_AFFINITY_BYTES,
	INFER_MODEL_STRATEGY,
	INFER_MODEL_FIELDS
};

/* Their columns and types; nothing is given. */
extern const InferField infer_model_fields[INFER_MODEL_FIELDS];

/* The task of that name; raises if there is none. */
extern InferTask infer_task_parse(const char *task);
/* The OID of infer.model_catalog; without the extension in this database, raises or (missing_ok)
 * returns InvalidOid. */
extern Oid infer_model_catalog(bool missing_ok);
/* The model and its placements, as of one moment. NULL if there is none. palloc'd. */
extern InferModel *infer_model_read(const char *name);

/* server NULL: without a placement. remote_model NULL: the same as the name. */
extern void infer_model_create(const char *name, const char *task, const char *server,
							   const char *remote_model, InferField *fields);
/* server, remote_model: of the model's only placement; NULL: stays as it is. */
extern void infer_model_alter(const char *name, const char *server, const char *remote_model,
							  InferField *fields);
/* With its placements. */
extern void infer_model_drop(const char *name);

/* Raises unless what is given of a model is fit for it; puts it as it is to be stored. */
extern void infer_model_check_fields(const char *name, InferTask task, InferField *fields);

/* Can it be one of a model's class_fns? */
extern bool infer_is_class_fn(Oid function);

/* Locks the model's row until the end of the transaction and checks that the caller owns it. */
extern void infer_model_lock(const char *name);
/* After a change of prices or placements: prices are for the owner of each server to say. */
extern void infer_model_check_prices(const char *name);

#endif
