/*
 * provider/incarnation.h - where answers say which run of their server gave them.
 *
 * Pure; nothing raises, nothing is kept.
 */
#ifndef INFER_PROVIDER_INCARNATION_H
#define INFER_PROVIDER_INCARNATION_H

#include <stddef.h>

#include "core/incarnation.h"

/* The string or number that the JSON object of an answer (or the first of its events) has under
 * that name, as infer_incarnation_put() puts it; "" if it has none. */
extern void infer_provider_read_field(const char *body, size_t len, const char *name, char *to);
/* The first sample of that metric in a text of Prometheus's. */
extern void infer_provider_read_metric(const char *body, size_t len, const char *name, char *to);

#endif
