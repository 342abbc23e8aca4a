/*
 * call/usage.c - what each attempt took goes to infer.stat_usage.
 *
 * An attempt counts when a byte of it may have left.  Its tokens are those that its answer reports;
 * where nobody tells, though it may have been executed, they are what was guessed before, and the
 * row says how many attempts were counted so.  A refusal took nothing, unless it says so.
 *
 * Who pays is the session user: SET ROLE and SECURITY DEFINER change whose key and rights a call
 * has, but not who sits there.
 *
 * Nothing here raises: the end of a batch may be that of its transaction.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "call/internal.h"
#include "shmem/usage.h"

#define BYTES_PER_TOKEN 4 /* of input text, as a guess */

int64
infer_usage_guess_input(size_t bytes)
{
	return (int64) bytes / BYTES_PER_TOKEN + 1;
}

bool
infer_usage_priced(const InferClass *class)
{
	return class->target->input_price >= 0 &&
		   (class->task == INFER_TASK_EMBED || class->target->output_price >= 0);
}

double
infer_usage_cost(const InferClass *class, int64 input, int64 output)
{
	const InferTarget *target = class->target;

	if (!infer_usage_priced(class))
		return 0;
	return (input * target->input_price + output * Max(target->output_price, 0)) / 1e6;
}

/* Memo hits are counted by class, and told with whatever else is told. */
static int64
take_hits(InferClass *class)
{
	int64 hits = class->memo_hits;

	class->memo_hits = 0;
	return hits;
}

static void
note(const InferClass *class, const InferCharge *charge, const InferUsage *usage,
	 const InferAmount *account)
{
	const InferTarget *target = class->target;
	InferUsageKey key;

	infer_usage_key(&key, charge->day, charge->role, target->server->oid, class->task,
					target->remote_model);
	infer_usage_note(&key, target->server->name, usage, account);
}

/* Begins an attempt: whose it is, of which day, and what it may take. */
void
infer_usage_begin(InferBatch *batch)
{
	InferCharge *charge = &batch->charge;

	charge->open = true;
	charge->day = infer_usage_today();
	charge->role = GetSessionUserId();
	charge->guess_input = infer_usage_guess_input(batch->bytes);
	charge->guess_output = batch->nanswers * batch->class->output_guess;
	charge->left = charge->failed = false;
	charge->execution = INFER_NOT_ADMITTED;
	charge->input = charge->output = -1;
}

/* The attempt ended so. A reply adds its tokens. */
void
infer_usage_found(InferBatch *batch, const InferFinding *finding, bool left)
{
	batch->charge.left = left;
	batch->charge.failed = finding->reason != INFER_REASON_NONE;
	batch->charge.execution = finding->execution;
}

/* The attempt is over. */
void
infer_usage_landed(InferBatch *batch)
{
	InferCharge *charge = &batch->charge;
	InferClass *class = batch->class;
	bool executed = charge->execution != INFER_NOT_ADMITTED;
	bool told = charge->input >= 0 || charge->output >= 0;
	InferUsage usage = {0};
	InferAmount account;

	if (!charge->open)
		return;
	charge->open = false;
	usage.memo_hits = take_hits(class);
	if (charge->left)
	{
		usage.attempts = 1;
		usage.requests = charge->repeated ? 0 : 1;
		usage.failed = charge->failed ? 1 : 0;
		charge->repeated = true;
	}
	if (executed || told)
	{
		usage.input_tokens = told ? Max(charge->input, 0) : charge->guess_input;
		usage.output_tokens = told ? Max(charge->output, 0) : charge->guess_output;
		usage.estimated = told ? 0 : 1;
		usage.cost = infer_usage_cost(class, usage.input_tokens, usage.output_tokens);
		usage.unpriced = infer_usage_priced(class) ? 0 : 1;
	}
	if (executed && !charge->executed)
	{
		usage.calls = batch->nanswers;
		charge->executed = true;
	}
	account = (InferAmount){.calls = usage.calls,
							.tokens = usage.input_tokens + usage.output_tokens,
							.cost = usage.cost};
	if (charge->left || usage.memo_hits > 0)
		note(class, charge, &usage, &account);
}

/* The batch is nobody's any more; what is still on its way may have been executed. */
void
infer_usage_end(InferBatch *batch)
{
	InferCharge *charge = &batch->charge;

	if (!charge->open)
		return;
	charge->left = batch->transfer != NULL && infer_transfer_left(batch->transfer);
	charge->failed = true;
	charge->execution = charge->left ? INFER_MAYBE_EXECUTED : INFER_NOT_ADMITTED;
	infer_usage_landed(batch);
}

/* Memo hits of a class that is about to be forgotten, or whose client has gone. */
void
infer_usage_flush_hits(InferClass *class)
{
	InferCharge charge = {.role = GetSessionUserId()};
	InferUsage usage = {.memo_hits = take_hits(class)};
	InferAmount nothing = {0};

	if (usage.memo_hits == 0)
		return;
	charge.day = infer_usage_today();
	note(class, &charge, &usage, &nothing);
}
