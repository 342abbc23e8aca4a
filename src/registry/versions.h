/*
 * registry/versions.h - the version of a model's set of placements.
 */
#ifndef INFER_REGISTRY_VERSIONS_H
#define INFER_REGISTRY_VERSIONS_H

#include "postgres.h"
#include "commands/trigger.h"

/* Triggers: BEFORE INSERT OR UPDATE and AFTER DELETE for each row of infer.model_catalog or of
 * infer.placement_catalog; and BEFORE TRUNCATE of the former, AFTER TRUNCATE of the latter.  Return
 * the row to be written, NULL where none is. */
extern HeapTuple infer_versions_of_models(TriggerData *trigger);
extern HeapTuple infer_versions_of_placements(TriggerData *trigger);

/* From now on this is the version of whatever is written; 0: back to counting, which whoever says a
 * version takes care of in a PG_TRY. */
extern void infer_versions_say(int64 version);

#endif
