/*
 * pg/report.h - from a failure to SQLSTATE, message, detail and hint.
 */
#ifndef INFER_PG_REPORT_H
#define INFER_PG_REPORT_H

#include "core/types.h"

/* One failed call, in terms of this project; strings are borrowed, NULL where unknown. */
typedef struct InferFailure
{
	InferReason reason;
	InferExecution execution;
	int http_status; /* 0 = none */
	int attempts;
	const char *server;
	const char *model;  /* as the caller wrote it */
	const char *detail; /* the remote's words or the library's */
	const char *tried;  /* all attempts, where they were at several servers; NULL else */
	const char *hint;   /* instead of the reason's own; NULL: that */
	bool retry_denied;  /* it was not tried again only for want of a retry budget */
} InferFailure;

/* SQLSTATE as ERRCODE: 'R', 'N'|'M'|'X' (or 'C' for configuration), reason code. */
extern int infer_report_sqlstate(InferReason reason, InferExecution execution);
/* The reason in words, e.g. "the server is overloaded". */
extern const char *infer_report_reason(InferReason reason);
/* palloc'd one-line message, as in the error: what failed, with server and model. */
extern char *infer_report_message(const InferFailure *failure);
/* What to add where retry_denied is set. */
extern const char infer_report_retry_denied[];
/* palloc'd: the failure's detail, fit to be shown; "" if there is none. */
extern char *infer_report_words(const InferFailure *failure);
/* palloc'd: the same, or the reason in words if there is none. */
extern char *infer_report_cause(const InferFailure *failure);
/* Raises ERROR with MESSAGE, DETAIL (status, attempts, remote text, what it proves), HINT. */
extern void infer_report_failure(const InferFailure *failure) __attribute__((noreturn));
/* errcode() for configuration mistakes: class RC, the reason CFG. */
extern int infer_errcode_config(void);
/* ... of a model that runs on no server: NPL. */
extern int infer_errcode_no_placement(void);

#endif
