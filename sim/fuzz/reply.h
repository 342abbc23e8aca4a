/*
 * sim/fuzz/reply.h - what holds for every answer that is read, whatever was asked.
 */
#ifndef INFER_SIM_FUZZ_REPLY_H
#define INFER_SIM_FUZZ_REPLY_H

#include "fuzz.h"

#include "provider/json_scan.h"
#include "provider/provider.h"

extern bool fuzz_inside(const char *slice, size_t slice_len, const FuzzText *text);

/* Is it UTF-8 without characters that move the cursor or turn the direction of writing? */
extern bool fuzz_is_harmless(const char *text);

/* Reads the text and checks the outcome; true: the reply is the caller's to check further and to
 * free. */
extern bool fuzz_parse(InferTask task, const FuzzText *text, int ninputs, InferReply *reply,
					   InferFault *fault);

/* A JSON object that was accepted and then cut somewhere is accepted no more. */
extern void fuzz_try_truncated(InferTask task, const FuzzText *text, int ninputs, unsigned where);

#endif
