/*
 * registry/refs.h - service references (core/ref.h) in the encoding of the database.
 */
#ifndef INFER_REGISTRY_REFS_H
#define INFER_REGISTRY_REFS_H

#include "postgres.h"

#include "core/ref.h"

/* Reads one, palloc'd; raises if it is none. */
extern InferRef *infer_ref_parse(const char *text);
/* Raises that something is no reference. */
extern void infer_ref_refuse(const char *problem) __attribute__((noreturn));
/* Its names, as the database has them; palloc'd. Raise if it cannot have them. */
extern char *infer_ref_server(const InferRef *ref);
extern char *infer_ref_model(const InferRef *ref);
/* The other way round: puts a name into a part of a reference; raises if it does not fit. */
extern void infer_ref_put(char *to, size_t size, const char *name);

#endif
