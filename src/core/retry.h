/*
 * core/retry.h - may this attempt be followed by another, and when?
 *
 * Three things have to permit it:
 *
 *   the reason    a request that was refused for its contents is refused again.  Never repeated:
 *                 BAD_REQUEST, UNAUTHENTICATED, PERMISSION_DENIED, NOT_FOUND, REDIRECTED,
 *                 EGRESS_DENIED, CREDENTIAL_*, QUOTA_EXCEEDED, REQUEST_TOO_LARGE,
 *                 MALFORMED/MISSING/MISALIGNED, BUDGET, INTERNAL; CONFLICT without a key that the
 *                 server honours
 *   the proof     what was executed is never repeated; what was not, under every policy but NEVER
 *   the caller    decides about what may have been executed, by policy and delivery:
 *
 *                                    single                    reliable, unless_failed
 *                 connection lost    AMBIGUOUS                 any policy but NEVER
 *                 timeout            AMBIGUOUS                 none: no copy follows a timer
 *                 answered (5xx)     AMBIGUOUS                 AMBIGUOUS
 *
 *                 With an idempotency key that the server honours, NOT_ADMITTED permits what
 *                 AMBIGUOUS does.
 *
 * Pure; the random draw is passed in.  The pause: 50 ms, doubling to 1 s, times (0.5 + draw/2).  A
 * Retry-After from the server overrides a shorter pause.
 */
#ifndef INFER_CORE_RETRY_H
#define INFER_CORE_RETRY_H

#include "core/proof.h"

/* What a call's options say. */
typedef struct InferRetryRule
{
	InferDelivery delivery;
	InferRetryPolicy policy;
	bool key_honoured; /* it carries an idempotency key, and the server that is asked again, which
						* had it before, honours such */
	int max_attempts;
} InferRetryRule;

/* attempts = how many were made, the one that the finding speaks of included. */
extern bool infer_retry_allowed(const InferRetryRule *rule, int attempts,
								const InferFinding *finding);
/* Milliseconds to wait before attempt number attempts + 1; draw in [0,1); retry_after_ms < 0: none
 * given. */
extern int64_t infer_retry_delay_ms(int attempts, int64_t retry_after_ms, double draw);

#endif
