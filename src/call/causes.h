/*
 * call/causes.h - why calls failed, of the last statement of this session that made any.
 */
#ifndef INFER_CALL_CAUSES_H
#define INFER_CALL_CAUSES_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "call/types.h"
#include "core/types.h"

/* Failed calls that are kept in full; those beyond are counted by cause. */
#define INFER_CAUSES_FULL 1000
/* Different causes of those; what comes after is counted together. */
#define INFER_CAUSES_GROUPS 250

/* One failed call, or a group of them. Strings belong to the store. */
typedef struct InferCause
{
	int64 ordinal; /* of the failed calls, from 1; 0 = a group */
	int64 calls;   /* how many; 1 if it is one */
	Oid userid;    /* who called */
	bool any;      /* a group of whatever had no place: nothing below is known but when */
	InferTask task;
	InferReason reason;
	InferExecution execution;
	int http_status;   /* 0 = none */
	int attempts;      /* of a group: of its first */
	const char *model; /* as the caller wrote it; a very long one is cut */
	const char *server;
	const char *detail; /* as in an answer; of a group: of its first */
	const char *md5;    /* of the input in UTF-8; NULL: of a group, or there is no MD5 here */
	TimestampTz at;     /* of a group: of its last */
} InferCause;

/* The running statement makes a call: causes of an earlier one are forgotten. */
extern void infer_causes_statement(void);
/* Notes a failed answer that is resolved. Never raises. */
extern void infer_causes_note(const InferAnswer *answer);
/* Shows them one by one, in the order in which they came, then groups.  show may raise. */
extern void infer_causes_each(void (*show)(const InferCause *cause, void *arg), void *arg);

extern void infer_causes_init(void); /* from infer_call_init() */

#endif
