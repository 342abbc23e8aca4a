/*
 * core/incarnation.h - which run of a server gave an answer, as the answer says it.
 *
 * A server that is started anew is another one: what was learnt of the last run says nothing of it,
 * and it may serve another revision of a model under the same name.  It tells by a text of its own
 * choice (a boot id, a fingerprint, the time of its start), which is kept as it is where that is
 * safe to show and short enough.  What is not is kept as its beginning and a hash of the whole, so
 * that two that differ only in the rest still differ.
 *
 * Pure.
 */
#ifndef INFER_CORE_INCARNATION_H
#define INFER_CORE_INCARNATION_H

#include <stddef.h>

#define INFER_INCARNATION_MAX 65 /* bytes, with its NUL */

/* Where answers say it. */
typedef enum InferIncarnationPlace
{
	INFER_INCARNATION_NOWHERE,
	INFER_INCARNATION_HEADER,
	INFER_INCARNATION_FIELD, /* of a JSON object */
	INFER_INCARNATION_METRIC /* of Prometheus's kind, at /metrics: only probes hear it */
} InferIncarnationPlace;

/* Of "header:NAME", "field:NAME" or "metric:NAME"; *name points into it.  NOWHERE for anything
 * else, NULL included: then *name is NULL. */
extern InferIncarnationPlace infer_incarnation_place(const char *option, const char **name);
/* What was said, as printable ASCII, into a buffer of INFER_INCARNATION_MAX; without the white
 * space around it. "" if that is nothing. */
extern void infer_incarnation_put(char *to, const char *said, size_t len);

#endif
