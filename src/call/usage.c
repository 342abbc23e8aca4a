/*
 * call/usage.c - what each attempt took goes to infer.stat_usage, and corrects what was charged for
 * it before it left (budget.c).
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

#include "call/batch.h"
#include "call/class.h"
#include "call/memo.h"
#include "call/place.h"
#include "call/usage.h"
#include "core/budget.h"
#include "core/proof.h"
#include "core/types.h"
#include "registry/registry.h"
#include "shmem/usage.h"

#define BYTES_PER_TOKEN 4 /* of input text, as a guess */

static int64
guess_input(size_t bytes)
{
	return (int64) bytes / BYTES_PER_TOKEN + 1;
}

bool
infer_usage_priced(const InferPlace *place)
{
	return place->placement->input_price >= 0 &&
		   (place->class->task == INFER_TASK_EMBED || place->placement->output_price >= 0);
}

double
infer_usage_cost(const InferPlace *place, int64 input, int64 output)
{
	const InferPlacement *placement = place->placement;

	if (!infer_usage_priced(place))
		return 0;
	return (input * placement->input_price + output * Max(placement->output_price, 0)) / 1e6;
}

void
infer_usage_guess(const InferPlace *place, size_t bytes, int n, InferAmount *amount)
{
	int64 input = guess_input(bytes);
	int64 output = n * place->output_guess;

	amount->tokens = input + output;
	amount->cost = infer_usage_cost(place, input, output);
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
note(const InferPlace *place, const InferCharge *charge, const InferUsage *usage,
	 const InferAmount *account)
{
	const InferPlacement *placement = place->placement;
	InferUsageKey key;

	infer_usage_key(&key, charge->day, charge->role, placement->server->oid, place->class->task,
					placement->remote_model);
	infer_usage_note(&key, placement->server->name, usage, account);
}

/* Begins an attempt: whose it is, and of which day. */
void
infer_usage_open(InferBatch *batch)
{
	InferCharge *charge = &batch->charge;

	charge->open = true;
	charge->role = GetSessionUserId();
	charge->day = infer_usage_today();
	charge->guess = charge->reserved = (InferAmount){0};
	charge->left = charge->failed = false;
	charge->execution = INFER_NOT_ADMITTED;
	charge->input = charge->output = -1;
}

void
infer_usage_split(InferBatch *from, InferBatch *into, int n)
{
	into->charge.role = from->charge.role;
	into->charge.calls_day = from->charge.calls_day;
	into->charge.calls = Min(from->charge.calls, n);
	into->charge.executed = from->charge.executed;
	from->charge.calls -= into->charge.calls;
}

/* The attempt ended so. A reply adds its tokens. */
void
infer_usage_found(InferBatch *batch, const InferFinding *finding, bool left)
{
	batch->charge.left = left;
	batch->charge.failed = finding->reason != INFER_REASON_NONE;
	batch->charge.execution = finding->execution;
}

/* What an attempt took, as far as anybody knows. */
static void
count_spending(const InferBatch *batch, InferUsage *usage)
{
	const InferCharge *charge = &batch->charge;
	const InferPlace *place = batch->place;
	bool told = charge->input >= 0 || charge->output >= 0;

	if (charge->execution == INFER_NOT_ADMITTED && !told)
		return;
	usage->input_tokens = told ? Max(charge->input, 0) : guess_input(batch->bytes);
	usage->output_tokens = told ? Max(charge->output, 0) : batch->nanswers * place->output_guess;
	usage->estimated = told ? 0 : 1;
	usage->cost = infer_usage_cost(place, usage->input_tokens, usage->output_tokens);
	usage->unpriced = infer_usage_priced(place) ? 0 : 1;
}

/* What is to be added where something was charged before. */
static InferAmount
correction(const InferUsage *usage, const InferAmount *charged)
{
	return (InferAmount){.tokens = usage->input_tokens + usage->output_tokens - charged->tokens,
						 .cost = usage->cost - charged->cost};
}

/* The attempt is over. */
void
infer_usage_landed(InferBatch *batch)
{
	InferCharge *charge = &batch->charge;
	InferClass *class = batch->class;
	InferUsage usage = {0};
	InferAmount of_statement;
	InferAmount of_role;

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
	count_spending(batch, &usage);
	of_statement = correction(&usage, &charge->guess);
	of_role = correction(&usage, &charge->reserved);
	if (charge->execution != INFER_NOT_ADMITTED && !charge->executed)
	{
		charge->executed = true;
		usage.calls = batch->nanswers;
		of_role.calls = batch->nanswers - charge->calls;
	}
	infer_amount_add(infer_memo_spent(class->memo), &of_statement);
	if (charge->left || usage.memo_hits > 0)
		note(batch->place, charge, &usage, &of_role);
	else if (of_role.tokens != 0 || of_role.cost != 0)
		infer_usage_correct(charge->role, charge->day, &of_role);
}

/* The batch is nobody's any more.  Calls that were not executed can be made by somebody else. */
void
infer_usage_end(InferBatch *batch)
{
	InferCharge *charge = &batch->charge;

	infer_usage_landed(batch);
	if (charge->calls > 0 && !charge->executed)
		infer_usage_correct(charge->role, charge->calls_day,
							&(InferAmount){.calls = -charge->calls});
}

/* Memo hits of a class that is about to be forgotten, or whose client has gone: of its first place,
 * for no request says which one they were spared. */
void
infer_usage_flush_hits(InferClass *class)
{
	InferCharge charge = {.role = GetSessionUserId()};
	InferUsage usage = {.memo_hits = take_hits(class)};
	InferAmount nothing = {0};

	if (usage.memo_hits == 0)
		return;
	charge.day = infer_usage_today();
	note(&class->places[0], &charge, &usage, &nothing);
}
