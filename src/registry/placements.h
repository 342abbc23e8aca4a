/*
 * registry/placements.h - the rows of infer.placement_catalog: which servers a model runs on.
 *
 * The placements of a model are a set, and the set has a version (infer.model_catalog.set_version)
 * that only grows: triggers on both tables count it up with each change, however it was made.  Only
 * infer_placements_replace() says the version itself.
 */
#ifndef INFER_REGISTRY_PLACEMENTS_H
#define INFER_REGISTRY_PLACEMENTS_H

#include "postgres.h"
#include "nodes/pg_list.h"
#include "registry/catalog.h"
#include "registry/registry.h"
#include "utils/jsonb.h"
#include "utils/snapshot.h"

#define INFER_PLACEMENTS_MAX  64 /* of one model */
#define INFER_SET_VERSION_MAX INT64CONST(1000000000000000000)

typedef struct InferPlacementRow
{
	char *server; /* its name; there may be none of that name */
	char *remote_model;
	int version; /* 100 * M + NN; INFER_VERSION_NONE unless set */
	double weight;
	char **feeds;
	int nfeeds;
	int64 ts_from; /* microseconds since 2000; PG_INT64_MIN: without a beginning */
	int64 ts_to;   /* before this one; PG_INT64_MAX: without an end */
	bool is_primary;
	char *service_class; /* NULL unless set */
} InferPlacementRow;

/* A placement of which nothing is said; its server and remote model are NULL. */
extern const InferPlacementRow infer_placement_default;

/* What may be said of a placement, in the order of the arguments of add_placement. */
enum
{
	INFER_PLACEMENT_VERSION,
	INFER_PLACEMENT_WEIGHT,
	INFER_PLACEMENT_FEEDS,
	INFER_PLACEMENT_TS_RANGE,
	INFER_PLACEMENT_IS_PRIMARY,
	INFER_PLACEMENT_SERVICE_CLASS,
	INFER_PLACEMENT_FIELDS
};

/* Their columns and types; nothing is given. */
extern const InferField infer_placement_fields[INFER_PLACEMENT_FIELDS];

/* The placements of a model as the snapshot has them, by server and remote model. */
extern List *infer_placements_read(const char *model, Snapshot snapshot);
/* 'M.NN' as 100 * M + NN; raises for anything else. */
extern int infer_version_parse(const char *what, const char *version);

/* What a server calls a model if nobody says it: what its other servers do, if they agree (else
 * this raises); without others, its name. */
extern const char *infer_usual_remote_model(const char *model);

/* remote_model NULL: the usual one. */
extern void infer_placement_add(const char *model, const char *server, const char *remote_model,
								const InferField *fields);
/* remote_model NULL: the model's only placement on that server. */
extern void infer_placement_alter(const char *model, const char *server, const char *remote_model,
								  const InferField *fields);
extern void infer_placement_drop(const char *model, const char *server, const char *remote_model);
/* As infer_placement_add(), of a locked model of the caller's, by create_model. */
extern void infer_placement_insert(const char *model, const char *server, const char *remote_model,
								   const InferField *fields);
/* Moves the model's only placement. */
extern void infer_placement_move(const char *model, const char *server, const char *remote_model);
/* The whole set becomes that of a JSON array, with this version, unless the present one is as new.
 */
extern void infer_placements_replace(const char *model, Jsonb *placements, int64 version);

#endif
