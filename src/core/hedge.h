/*
 * core/hedge.h - may a second copy of a slow request be sent, and when?  failures.md 5.3; P52 to
 * P54.
 *
 * Two independent things must agree: the call permits copies (that is the caller's to know), and
 * the model's budget has one.  A copy costs one; a request that was answered, with a result or an
 * error, without a copy earns a twentieth.  So there is about one copy for twenty requests at most,
 * and after a quiet time no more than a hundred at once.
 *
 * When: multiplier * latency(second) + base, where second is the server that would get the copy;
 * at once if the first one is expected to take more than twice that.  Only for the first attempt
 * of a call: retries are slow because something failed, not because somebody is slow.
 *
 * The multiplier starts at 1; each copy raises it by .01 and each answer without a copy lowers it
 * by .00025, never below 1: it settles where one request in forty is slow enough.
 *
 * Counted in integers, twentieths and four-thousandths: in binary fractions twenty times .05 is 1
 * by luck only, and the luck changes with the order of operations.
 *
 * FOR THE CALLER.  Flat, lives in shared memory, one for each model (set of placements); under the
 * lock of whoever holds it.  A late loser, a copy, and an attempt during whose flight a copy left
 * earn nothing: infer_hedge_landed() knows.
 */
#ifndef INFER_CORE_HEDGE_H
#define INFER_CORE_HEDGE_H

#include <stdbool.h>
#include <stdint.h>

#define INFER_HEDGE_COPY    20   /* a copy, in twentieths */
#define INFER_HEDGE_MOST    2000 /* the largest budget: 100 copies */
#define INFER_HEDGE_ONE     4000 /* a multiplier of 1 */
#define INFER_HEDGE_BASE_MS 50
#define INFER_HEDGE_NEVER   INT64_MAX

typedef enum InferAttemptKind
{
	INFER_ATTEMPT_FIRST,
	INFER_ATTEMPT_RETRY,
	INFER_ATTEMPT_COPY
} InferAttemptKind;

typedef struct InferHedge
{
	int32_t budget;     /* twentieths of a copy */
	int32_t multiplier; /* four-thousandths */
	int64_t sent;
	int64_t denied; /* wanted and permitted, but there was no budget */
	int64_t wins;   /* copies that answered first */
	int64_t late;   /* of two, the ones that came after the other's answer */
} InferHedge;

/* With no copy to spend. */
extern void infer_hedge_init(InferHedge *h);
/* How long after the start of an attempt its copy is due: 0 = at once; NEVER = not at all. */
extern int64_t infer_hedge_delay_us(const InferHedge *h, InferAttemptKind kind, bool permitted,
									int64_t first_us, int64_t second_us, int64_t base_us);
/* The copy is due, and its target is known: may it leave? True: it is paid for. */
extern bool infer_hedge_take(InferHedge *h, bool permitted);
/* It was paid for, but has not left after all. */
extern void infer_hedge_untake(InferHedge *h);
/* An attempt has ended, with an answer or an error.  copied: a copy left while it was under way;
 * late: its call had its result already.  won: it is what the call returns. */
extern void infer_hedge_landed(InferHedge *h, InferAttemptKind kind, bool copied, bool late,
							   bool won);

#endif
