/*
 * core/cost.c - what a model's answers teach about the cost of calling it.
 *
 * The scale.  A planner's unit is worth some 3 microseconds (a row scanned, filtered and counted
 * takes a tenth of one), so that a call of 100 ms is worth 30,000 of them.  Said like this it would
 * drown all else: whatever order of joins saves a handful of calls on paper would be taken, at any
 * price in rows, and estimates of selectivity are not that good.  What a planner needs to know is
 * which of two calls is dearer, and that every call is dearer than any function of the database.
 * So the cost is the fourth root of the time: each doubling of what a call takes per row makes it
 * 19% dearer.  Twenty doublings, from 8 microseconds to 8 seconds, span an eighth of the default
 * to four times it, that is COST 1,250 to 40,000; what is beyond counts as the last of them.
 *
 * Steps.  Costs move by whole doublings only, and a mean that wanders moves nothing: what planning
 * sees changes when the mean has gone half a doubling away from it.
 *
 * Time is that of a request by the rows it carried, not what a statement waits: how many are under
 * way together depends on the server, and on who else asks.  Money is turned into time.
 *
 * Only libc: frexp() and ldexp() are all the logarithm that steps need.
 */
#include <math.h>

#include "core/cost.h"

/* What a call is taken to be of which nothing is known: seconds per row. */
#define DEFAULT_SECONDS (1.0 / 32)
#define LEAST_DOUBLINGS (-12)
#define MOST_DOUBLINGS  8

/* Tokens per row until an answer says how many; they matter only for models with prices. */
#define DEFAULT_INPUT_TOKENS  250.0
#define DEFAULT_OUTPUT_TOKENS 100.0

/* A request's weight in the means falls to this; the first ones count alike. */
#define LEAST_WEIGHT (1.0 / 32)

/* The nearest whole logarithm to the base of 2. */
static int
nearest_log2(double x)
{
	int exponent;
	double mantissa = frexp(x, &exponent); /* 0.5 <= mantissa < 1 */

	return mantissa < 0.70710678118654752 ? exponent - 1 : exponent;
}

static void
follow(double *mean, double value, double weight)
{
	*mean += (value - *mean) * weight;
}

/* A mean that begins with the first value that is there. */
static void
follow_tokens(double *mean, int64_t tokens, int rows, double weight)
{
	if (tokens < 0)
		return;
	if (*mean < 0)
		*mean = (double) tokens / rows;
	else
		follow(mean, (double) tokens / rows, weight);
}

/* Is a half a doubling or more away from b, or known where b is not? */
static bool
has_moved(double a, double b)
{
	return a != b && ((b < 0 && a >= 0) || a * a >= b * b * 2 || a * a <= b * b / 2);
}

void
infer_cost_observe(InferObserved *observed, const InferRequestFigures *request)
{
	double weight = 1.0 / (double) (observed->requests + 1);
	InferPace *pace = &observed->pace;
	InferPace *seen = &observed->seen;

	if (request->rows < 1 || request->seconds < 0)
		return;
	if (observed->requests == 0)
		pace->input_tokens = pace->output_tokens = -1;
	if (weight < LEAST_WEIGHT)
		weight = LEAST_WEIGHT;
	follow(&observed->seconds_per_request, request->seconds, weight);
	follow(&observed->rows_per_request, request->rows, weight);
	pace->seconds = observed->seconds_per_request / observed->rows_per_request;
	follow_tokens(&pace->input_tokens, request->input_tokens, request->rows, weight);
	follow_tokens(&pace->output_tokens, request->output_tokens, request->rows, weight);
	if (observed->requests == 0 || has_moved(pace->seconds, seen->seconds) ||
		has_moved(pace->input_tokens, seen->input_tokens) ||
		has_moved(pace->output_tokens, seen->output_tokens))
		*seen = *pace;
	observed->requests++;
	observed->rows += request->rows;
}

void
infer_cost_mean_add(InferPaceMean *mean, const InferPace *pace, double weight)
{
	const double tokens[2] = {pace->input_tokens, pace->output_tokens};

	mean->weight += weight;
	mean->seconds += weight * pace->seconds;
	for (int i = 0; i < 2; i++)
	{
		if (tokens[i] < 0)
			continue;
		mean->tokens_weight[i] += weight;
		mean->tokens[i] += weight * tokens[i];
	}
}

bool
infer_cost_mean(const InferPaceMean *mean, InferPace *pace)
{
	double tokens[2];

	if (!(mean->weight > 0))
		return false;
	for (int i = 0; i < 2; i++)
		tokens[i] = mean->tokens_weight[i] > 0 ? mean->tokens[i] / mean->tokens_weight[i] : -1;
	*pace = (InferPace){mean->seconds / mean->weight, tokens[0], tokens[1]};
	return true;
}

/* In units of currency. */
static double
price_of_row(InferTask task, const InferPace *pace, const InferPrices *prices)
{
	double input = DEFAULT_INPUT_TOKENS;
	double output = task == INFER_TASK_EMBED ? 0 : DEFAULT_OUTPUT_TOKENS;

	if (pace != NULL && pace->input_tokens >= 0)
		input = pace->input_tokens;
	if (pace != NULL && pace->output_tokens >= 0)
		output = pace->output_tokens;
	return (input * prices->input + output * prices->output) / 1e6;
}

double
infer_cost_of_call(InferTask task, const InferPace *pace, const InferPrices *prices,
				   double price_seconds, double default_cost)
{
	static const double quarters[] = {1, 1.1892071150027211, 1.4142135623730950,
									  1.6817928305074291};
	double seconds = pace != NULL ? pace->seconds : DEFAULT_SECONDS;
	int doublings = LEAST_DOUBLINGS;
	double cost;

	seconds += price_of_row(task, pace, prices) * price_seconds;
	if (seconds > 0)
		doublings = nearest_log2(seconds / DEFAULT_SECONDS);
	if (doublings < LEAST_DOUBLINGS)
		doublings = LEAST_DOUBLINGS;
	if (!(seconds < ldexp(DEFAULT_SECONDS, MOST_DOUBLINGS)))
		doublings = MOST_DOUBLINGS;
	cost = ldexp(default_cost * quarters[doublings & 3], (doublings - (doublings & 3)) / 4);
	return (double) (int64_t) (cost + 0.5);
}
