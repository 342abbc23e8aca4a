/*
 * pg/header.h - the header of a request: where it may go and how urgent it is, read from jsonb.
 *
 * The routing keys may stand in a model's routing, in the setting pg_inference.routing and in the
 * options of a call; a stronger place says anew what a weaker one said, key by key (in route_prefs
 * list by list).  So a header begins with the built-in values, and the places are laid over it, the
 * weakest first.  A place that gives a duration and no timeout means the duration's timeout, also
 * where a weaker one gives a timeout.
 *
 * Names and lists are palloc'd in the current context.  What is wrong is an error of configuration
 * that names the key and, in its hint, what would be right.
 */
#ifndef INFER_PG_HEADER_H
#define INFER_PG_HEADER_H

#include "postgres.h"
#include "utils/jsonb.h"

#include "core/admission.h"
#include "core/route.h"
#include "core/types.h"

/* For hints: all keys, sorted. */
#define INFER_HEADER_KEYS                                                                          \
	"duration, feeds, is_mut, is_solo, nodes, priority, route_prefs, service_classes, test_ctl, "  \
	"timeout, ts_range, version"

typedef struct InferHeader
{
	InferPriority priority;
	InferRouteRequest route; /* what a header can say of it; times as timestamptz */
	/* for infer_header_timeout_ms() */
	int timeout_ms;
	int place;          /* which is being laid over */
	int timeout_place;  /* where it was said; 0 = nowhere */
	int duration_place; /* ... likewise */
} InferHeader;

/* The built-in values; locality, priority and test_percent are the settings'. */
extern void infer_header_init(InferHeader *header);

/* Lays a whole place over it: an object of nothing but routing keys. */
extern void infer_header_apply(InferHeader *header, Jsonb *routing);
/* ... the setting pg_inference.routing. */
extern void infer_header_apply_setting(InferHeader *header);
/* ... of a place that has other keys as well (the options): begin(), then one key at a time. False:
 * it is no routing key. */
extern void infer_header_begin(InferHeader *header);
extern bool infer_header_set(InferHeader *header, const char *key, const JsonbValue *value);

/* Is that the name of a routing key? */
extern bool infer_header_is_key(const char *key);

/* The place that says most decides: its timeout, else what its duration may take; where none says
 * either, usual_ms. */
extern int infer_header_timeout_ms(const InferHeader *header, int usual_ms);

/* Would the text do for pg_inference.routing?  For the setting's check: needs no transaction, and
 * raises only what has nothing to do with the text.  Else *detail and *hint, palloc'd. */
extern bool infer_header_check(const char *text, char **detail, char **hint);

#endif
