/*
 * core/ratelimit.c - requests and tokens per minute.  What it does and why: core/ratelimit.h.
 *
 * Invariant: all_requests and all_tokens are the sums over the slots that count, and the other
 * places of the rings are zero.
 */
#include "core/ratelimit.h"

#define SLOT_US 500000
#define COUNTS  122 /* slots: 61 s */

static int
place(int64_t slot)
{
	return (int) (slot & (INFER_RATE_SLOTS - 1));
}

void
infer_ratelimit_set(InferRateLimit *r, int64_t rpm, int64_t tpm)
{
	r->rpm = rpm > 0 ? rpm : 0;
	r->tpm = tpm > 0 ? tpm : 0;
}

void
infer_ratelimit_init(InferRateLimit *r, int64_t rpm, int64_t tpm, int64_t now_us)
{
	infer_ratelimit_set(r, rpm, tpm);
	r->slot = now_us / SLOT_US;
	r->hold_until_us = INT64_MIN;
	r->requests_left = r->tokens_left = -1;
}

/* Forgets what does not count any more.  A clock that goes back changes nothing. */
static void
advance(InferRateLimit *r, int64_t now_us)
{
	int64_t slot = now_us / SLOT_US;

	if (slot - r->slot > INFER_RATE_SLOTS)
		r->slot = slot - INFER_RATE_SLOTS;
	while (r->slot < slot)
	{
		int old = place(++r->slot - COUNTS);

		r->all_requests -= r->requests[old];
		r->all_tokens -= r->tokens[old];
		r->requests[old] = 0;
		r->tokens[old] = 0;
	}
}

int
infer_ratelimit_room(InferRateLimit *r, int64_t now_us)
{
	int64_t room = INT32_MAX;

	advance(r, now_us);
	if (now_us < r->hold_until_us)
		return 0;
	if (r->rpm > 0)
		room = r->rpm - r->all_requests;
	return room < 0 ? 0 : room > INT32_MAX ? INT32_MAX : (int) room;
}

static bool
fits(const InferRateLimit *r, int64_t all_tokens, int64_t tokens)
{
	return r->tpm == 0 || all_tokens <= 0 || tokens <= r->tpm - all_tokens;
}

bool
infer_ratelimit_tokens_fit(InferRateLimit *r, int64_t tokens, int64_t now_us)
{
	advance(r, now_us);
	return fits(r, r->all_tokens, tokens);
}

int64_t
infer_ratelimit_charge(InferRateLimit *r, int requests, int64_t tokens, int64_t now_us)
{
	advance(r, now_us);
	r->requests[place(r->slot)] += requests;
	r->tokens[place(r->slot)] += tokens;
	r->all_requests += requests;
	r->all_tokens += tokens;
	if (r->requests_left > 0)
		r->requests_left -= requests < r->requests_left ? requests : r->requests_left;
	if (r->tokens_left > 0)
		r->tokens_left -= tokens < r->tokens_left ? tokens : r->tokens_left;
	return r->slot;
}

/* A slot that counts no more needs no correction. */
void
infer_ratelimit_correct(InferRateLimit *r, int64_t stamp, int64_t charged, int64_t used,
						int64_t now_us)
{
	int64_t *tokens = &r->tokens[place(stamp)];
	int64_t more = used - charged;

	advance(r, now_us);
	if (stamp <= r->slot - COUNTS || stamp > r->slot)
		return;
	if (*tokens + more < 0)
		more = -*tokens;
	*tokens += more;
	r->all_tokens += more;
}

void
infer_ratelimit_hold(InferRateLimit *r, int64_t until_us)
{
	if (until_us > r->hold_until_us)
		r->hold_until_us = until_us;
}

static void
take_header(InferRateLimit *r, InferRateHeader header, int64_t *left, int64_t now_us)
{
	if (header.left < 0)
		return;
	*left = header.left;
	if (header.left == 0 && header.reset_us > 0)
		infer_ratelimit_hold(r, now_us + header.reset_us);
}

void
infer_ratelimit_headers(InferRateLimit *r, InferRateHeader requests, InferRateHeader tokens,
						int64_t now_us)
{
	take_header(r, requests, &r->requests_left, now_us);
	take_header(r, tokens, &r->tokens_left, now_us);
}

int64_t
infer_ratelimit_opens_us(InferRateLimit *r, int64_t tokens, int64_t now_us)
{
	int64_t all_requests;
	int64_t all_tokens;
	int64_t opens = now_us;

	advance(r, now_us);
	all_requests = r->all_requests;
	all_tokens = r->all_tokens;
	for (int64_t slot = r->slot - COUNTS + 1; slot <= r->slot; slot++)
	{
		if ((r->rpm == 0 || all_requests < r->rpm) && fits(r, all_tokens, tokens))
			break;
		all_requests -= r->requests[place(slot)];
		all_tokens -= r->tokens[place(slot)];
		opens = (slot + COUNTS) * SLOT_US;
	}
	return opens > r->hold_until_us ? opens : r->hold_until_us;
}
