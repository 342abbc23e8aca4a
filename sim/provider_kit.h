/*
 * sim/provider_kit.h - an answer that is read, for the tests of the wire formats.
 */
#ifndef INFER_SIM_PROVIDER_KIT_H
#define INFER_SIM_PROVIDER_KIT_H

#include "provider/provider.h"

#include <stdlib.h>
#include <string.h>

static const InferProvider *openai; /* main() finds it */

typedef struct Parsed
{
	char *copy; /* of exactly the body's size, for the address sanitizer */
	bool ok;
	InferReply reply;
	InferFault fault;
} Parsed;

static inline Parsed
parse(InferTask task, const char *body, size_t len, int ninputs)
{
	Parsed parsed = {.copy = malloc(len > 0 ? len : 1)};

	memcpy(parsed.copy, body, len);
	parsed.ok = infer_provider_parse(openai, task, parsed.copy, len, ninputs, false, &parsed.reply,
									 &parsed.fault);
	return parsed;
}

static inline void
done(Parsed *parsed)
{
	if (parsed->ok)
		infer_reply_free(&parsed->reply);
	free(parsed->copy);
}

#endif
