/*
 * call/signals.c - what a smart gateway in front of inference servers wants to know of a request.
 *
 * A gateway that queues for many clients cannot see who asks, how urgent it is and how long it is
 * of use.  To servers with the option `signals` each request says so in headers:
 *
 *   x-gateway-inference-objective     the priority class (vlow ... vhigh), for the gateway's
 *                                     objective of that name
 *   x-gateway-inference-fairness-id   database/role, so that it can share out its capacity
 *   x-envoy-upstream-rq-timeout-ms    so long we wait for the answer
 *   traceparent                       the setting of that name, if it is set
 *
 * (The first two are those of the Kubernetes Gateway API inference extension, the third is Envoy's,
 * the last one W3C Trace Context's.)  Off by default: names of roles go to another machine with it.
 */
#include "postgres.h"

#include <ctype.h>

#include "commands/dbcommands.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"

#include "call/batch.h"
#include "call/class.h"
#include "call/place.h"
#include "call/signals.h"
#include "core/admission.h"
#include "pg/guc.h"

/* Names may hold anything; a header holds what a URL may. */
static void
append_name(StringInfo line, const char *name)
{
	for (const unsigned char *p = (const unsigned char *) name; *p != '\0'; p++)
		if ((*p < 128 && isalnum(*p)) || strchr("-_.", *p) != NULL)
			appendStringInfoChar(line, *p);
		else
			appendStringInfo(line, "%%%02X", *p);
}

/* Looks into catalogs, so it is made once a class, and not in the midst of sending. */
char *
infer_signals_fairness(const InferClass *class)
{
	StringInfoData line;
	char *database = get_database_name(MyDatabaseId);
	char *role = GetUserNameFromId(class->userid, true);

	initStringInfo(&line);
	appendStringInfoString(&line, "x-gateway-inference-fairness-id: ");
	append_name(&line, database != NULL ? database : "");
	appendStringInfoChar(&line, '/');
	append_name(&line, role != NULL ? role : "");
	return line.data;
}

static const char *
objective(InferPriority priority)
{
	static const char *const names[INFER_PRIORITY_COUNT] = {
		[INFER_PRIORITY_VLOW] = "vlow",     [INFER_PRIORITY_LOW] = "low",
		[INFER_PRIORITY_NORMAL] = "normal", [INFER_PRIORITY_HIGH] = "high",
		[INFER_PRIORITY_VHIGH] = "vhigh",
	};

	return names[priority];
}

void
infer_signals_make(InferSignals *signals, const InferBatch *batch, int timeout_ms)
{
	signals->n = 0;
	if (batch->place->fairness == NULL)
		return;
	snprintf(signals->objective, sizeof(signals->objective), "x-gateway-inference-objective: %s",
			 objective(batch->priority));
	signals->lines[signals->n++] = signals->objective;
	signals->lines[signals->n++] = batch->place->fairness;
	snprintf(signals->timeout, sizeof(signals->timeout), "x-envoy-upstream-rq-timeout-ms: %d",
			 timeout_ms);
	signals->lines[signals->n++] = signals->timeout;
	if (infer_guc_traceparent[0] == '\0')
		return;
	snprintf(signals->traceparent, sizeof(signals->traceparent), "traceparent: %s",
			 infer_guc_traceparent);
	signals->lines[signals->n++] = signals->traceparent;
}
