/*
 * core/cost.h - what a model's answers teach about the cost of calling it.
 *
 * Means over the requests that were answered, and from them a figure in the unit of CREATE
 * FUNCTION's COST, so that a planner can tell cheap calls from dear ones.  Pure and flat: an
 * InferObserved lives in shared memory, under somebody else's lock.
 */
#ifndef INFER_CORE_COST_H
#define INFER_CORE_COST_H

#include "core/types.h"

/* What one row takes. Tokens: -1 = no answer has said so yet. */
typedef struct InferPace
{
	double seconds;
	double input_tokens;
	double output_tokens;
} InferPace;

/* Of one request that was answered. Tokens: -1 = not said. */
typedef struct InferRequestFigures
{
	double seconds;
	int rows;
	int64_t input_tokens;
	int64_t output_tokens;
} InferRequestFigures;

typedef struct InferObserved
{
	int64_t requests;
	int64_t rows;
	double seconds_per_request;
	double rows_per_request;
	InferPace pace; /* the mean of now */
	InferPace seen; /* what planning sees: follows pace in steps, so that plans stay */
} InferObserved;

/* Per million tokens; 0 = free, or not known. */
typedef struct InferPrices
{
	double input;
	double output;
} InferPrices;

/* observed begins as all zeroes. */
extern void infer_cost_observe(InferObserved *observed, const InferRequestFigures *request);

/* Of a model that runs on several servers: the mean, with weights above 0.  Tokens: of those that
 * said so.  Begin with zeroes. */
typedef struct InferPaceMean
{
	double weight;
	double seconds;
	double tokens_weight[2]; /* input, output */
	double tokens[2];
} InferPaceMean;

/* One more, with a weight > 0. Of tokens that are not known (< 0) nothing is added. */
extern void infer_cost_mean_add(InferPaceMean *mean, const InferPace *pace, double weight);
/* False: none was added. */
extern bool infer_cost_mean(const InferPaceMean *mean, InferPace *pace);

/*
 * COST of a call. pace NULL: nothing was observed.  price_seconds: how many seconds of waiting one
 * unit of currency is worth.  default_cost: of a call of which nothing is known.
 */
extern double infer_cost_of_call(InferTask task, const InferPace *pace, const InferPrices *prices,
								 double price_seconds, double default_cost);

#endif
