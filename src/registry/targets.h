/*
 * registry/targets.h - what a model's name stands for, read from the catalogs.
 */
#ifndef INFER_REGISTRY_TARGETS_H
#define INFER_REGISTRY_TARGETS_H

#include "registry/registry.h"

/* Reads the catalogs; raises errors of configuration. Looks at nobody's privileges. palloc'd. */
extern InferTarget *infer_target_read(const char *model, InferTask task);
/* Deep copy into the current memory context. */
extern InferTarget *infer_target_copy(const InferTarget *from);

/* Can a model for this task do that one? complete and chat ask the same kind of model, and a raw
 * call may go to any. */
extern bool infer_task_fits(const char *has, InferTask wanted);

#endif
