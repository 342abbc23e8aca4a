/*
 * call/signals.h - header lines that tell a server, or what stands before it, of a request.
 */
#ifndef INFER_CALL_SIGNALS_H
#define INFER_CALL_SIGNALS_H

#include "postgres.h"

#include "call/types.h"

#define INFER_SIGNALS_MAX 4

/* Header lines of a request. */
typedef struct InferSignals
{
	int n;
	const char *lines[INFER_SIGNALS_MAX];
	char objective[48];
	char timeout[64];
	char traceparent[80];
} InferSignals;

/* For places whose server wants signals, in the current context. */
extern char *infer_signals_fairness(const InferClass *class);
/* None for other places; of a request that is waited for so long. */
extern void infer_signals_make(InferSignals *signals, const InferBatch *batch, int timeout_ms);

#endif
