/*
 * core/ratelimit.h - requests and tokens per minute of one admission key, over all sessions.
 *
 * A true sliding minute: what was sent is counted in slots of half a second, and a slot counts
 * until 61 seconds after its begin, so that what arrives at the server is never more than rpm in
 * any minute, even if one request took half a second longer to get there than another.  Tokens are
 * charged before the request leaves, by the caller's guess, and corrected where they were charged
 * when the answer says how many they were.  A request that is larger than tpm by itself may leave
 * when the minute is empty.
 *
 * What the server says (Retry-After, x-ratelimit-*) moves one deadline; the later one wins.
 *
 * FOR THE CALLER.  Part of InferAdmission, under the key's lock.  infer_admission_take() asks and
 * charges.  On an answer, under the same lock:
 *   infer_ratelimit_correct()   with the stamp of the request and the answer's usage
 *   infer_ratelimit_headers()   whatever the verdict, if the answer has such headers
 *   infer_ratelimit_hold()      on a 429 with Retry-After, if the key has an rpm or a tpm or the
 *                               answer has x-ratelimit headers; without these a 429 means load, and
 *                               Retry-After holds back its own request only (adaptive.md, rule 6)
 */
#ifndef INFER_CORE_RATELIMIT_H
#define INFER_CORE_RATELIMIT_H

#include <stdbool.h>
#include <stdint.h>

#define INFER_RATE_SLOTS 128 /* a power of two, more than a minute's */

typedef struct InferRateLimit
{
	int64_t rpm; /* 0 = no limit */
	int64_t tpm;
	int64_t slot; /* the newest, by number */
	int32_t requests[INFER_RATE_SLOTS];
	int64_t tokens[INFER_RATE_SLOTS];
	int64_t all_requests; /* of the minute */
	int64_t all_tokens;
	int64_t hold_until_us;
	/* as the server said last; -1 = it did not */
	int64_t requests_left;
	int64_t tokens_left;
} InferRateLimit;

/* One of the server's windows: how much is left, and in how many us it is renewed; -1 = unsaid. */
typedef struct InferRateHeader
{
	int64_t left;
	int64_t reset_us;
} InferRateHeader;

/* Memory must be zero. */
extern void infer_ratelimit_init(InferRateLimit *r, int64_t rpm, int64_t tpm, int64_t now_us);
/* From now on; what the minute has seen counts. */
extern void infer_ratelimit_set(InferRateLimit *r, int64_t rpm, int64_t tpm);
/* How many requests may leave now (INT32_MAX: no limit). */
extern int infer_ratelimit_room(InferRateLimit *r, int64_t now_us);
/* May so many tokens leave now? */
extern bool infer_ratelimit_tokens_fit(InferRateLimit *r, int64_t tokens, int64_t now_us);
/* Charges; returns the stamp for the correction. */
extern int64_t infer_ratelimit_charge(InferRateLimit *r, int requests, int64_t tokens,
									  int64_t now_us);
extern void infer_ratelimit_correct(InferRateLimit *r, int64_t stamp, int64_t charged, int64_t used,
									int64_t now_us);
extern void infer_ratelimit_hold(InferRateLimit *r, int64_t until_us);
extern void infer_ratelimit_headers(InferRateLimit *r, InferRateHeader requests,
									InferRateHeader tokens, int64_t now_us);
/* When one request with so many tokens may leave. */
extern int64_t infer_ratelimit_opens_us(InferRateLimit *r, int64_t tokens, int64_t now_us);

#endif
