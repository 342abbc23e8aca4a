/*
 * core/retry.h - may this attempt be followed by another, and when?
 *
 * Pure; the random draw is passed in.  The pause: 50 ms, doubling to 1 s, times
 * (0.5 + draw/2).  A Retry-After from the server overrides a shorter pause.
 */
#ifndef INFER_CORE_RETRY_H
#define INFER_CORE_RETRY_H

#include "core/types.h"

/* attempts = how many were made. BAD_REQUEST, UNAUTHENTICATED, PERMISSION_DENIED, NOT_FOUND,
 * REDIRECTED, EGRESS_DENIED, CREDENTIAL_*, REQUEST_TOO_LARGE, MALFORMED/MISSING/MISALIGNED,
 * QUOTA_EXCEEDED, CONFLICT, EXECUTED of any reason, BUDGET and INTERNAL are never repeated. */
extern bool infer_retry_allowed(InferRetryPolicy policy, int attempts, int max_attempts,
								InferReason reason, InferExecution execution);
/* Milliseconds to wait before attempt number attempts + 1; draw in [0,1); retry_after_ms < 0: none
 * given. */
extern int64_t infer_retry_delay_ms(int attempts, int64_t retry_after_ms, double draw);

#endif
