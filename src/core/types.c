/*
 * core/types.c - the words for tasks, reasons and executions.
 *
 * One row per reason, so that a name and its SQLSTATE characters cannot drift apart.  The codes are
 * part of what users catch in PL/pgSQL: they may be added to, never changed.
 */
#include "core/types.h"

typedef struct ReasonWords
{
	const char *name;
	const char *code; /* three characters of 0-9A-Z */
} ReasonWords;

static const ReasonWords reason_words[INFER_REASON_COUNT] = {
	[INFER_REASON_NONE] = {"none", "000"},
	[INFER_REASON_LOOKUP_FAILED] = {"lookup_failed", "DNS"},
	[INFER_REASON_CONNECT_FAILED] = {"connect_failed", "CON"},
	[INFER_REASON_TLS_FAILED] = {"tls_failed", "TLS"},
	[INFER_REASON_EGRESS_DENIED] = {"egress_denied", "EGR"},
	[INFER_REASON_CREDENTIAL_MISSING] = {"credential_missing", "KEY"},
	[INFER_REASON_CERTIFICATE_UNUSABLE] = {"certificate_unusable", "CRT"},
	[INFER_REASON_CREDENTIAL_WITHHELD] = {"credential_withheld", "CLR"},
	[INFER_REASON_CANCELLED] = {"cancelled", "CAN"},
	[INFER_REASON_TIMEOUT] = {"timeout", "TMO"},
	[INFER_REASON_DISCONNECTED] = {"disconnected", "DIS"},
	[INFER_REASON_OVERLOADED] = {"overloaded", "OVL"},
	[INFER_REASON_QUOTA_EXCEEDED] = {"quota_exceeded", "QUO"},
	[INFER_REASON_CONFLICT] = {"conflict", "CFL"},
	[INFER_REASON_UNAUTHENTICATED] = {"unauthenticated", "AUT"},
	[INFER_REASON_PERMISSION_DENIED] = {"permission_denied", "PRM"},
	[INFER_REASON_NOT_FOUND] = {"not_found", "NFD"},
	[INFER_REASON_BAD_REQUEST] = {"bad_request", "BAD"},
	[INFER_REASON_REQUEST_TOO_LARGE] = {"request_too_large", "RQL"},
	[INFER_REASON_SERVER_ERROR] = {"server_error", "SRV"},
	[INFER_REASON_SERVER_FAILED] = {"server_failed", "SVF"},
	[INFER_REASON_NO_DEST] = {"no_dest", "NOD"},
	[INFER_REASON_DRAINING] = {"draining", "DRN"},
	[INFER_REASON_ALL_FAILED] = {"all_failed", "ALF"},
	[INFER_REASON_STALE_ALTERNATIVES] = {"stale_alternatives", "STL"},
	[INFER_REASON_STALE_INCARNATION] = {"stale_incarnation", "SIN"},
	[INFER_REASON_REDIRECTED] = {"redirected", "RED"},
	[INFER_REASON_MALFORMED_REPLY] = {"malformed_reply", "MAL"},
	[INFER_REASON_INCOMPLETE_REPLY] = {"incomplete_reply", "INC"},
	[INFER_REASON_REPLY_TOO_LARGE] = {"reply_too_large", "RPL"},
	[INFER_REASON_MISSING_RESULT] = {"missing_result", "MIS"},
	[INFER_REASON_TRUNCATED] = {"truncated", "TRC"},
	[INFER_REASON_FILTERED] = {"filtered", "FLT"},
	[INFER_REASON_REFUSED] = {"refused", "REF"},
	[INFER_REASON_TOOL_CALL] = {"tool_call", "TOL"},
	[INFER_REASON_MISALIGNED] = {"misaligned", "ALN"},
	[INFER_REASON_BUDGET] = {"budget", "BUD"},
	[INFER_REASON_ERROR_RATIO] = {"error_ratio", "RAT"},
	[INFER_REASON_INTERNAL] = {"internal", "INT"},
};

const char *
infer_execution_name(InferExecution execution)
{
	switch (execution)
	{
		case INFER_NOT_ADMITTED:
			return "not_admitted";
		case INFER_MAYBE_EXECUTED:
			return "maybe_executed";
		case INFER_EXECUTED:
			return "executed";
	}
	return "unknown";
}

const char *
infer_reason_name(InferReason reason)
{
	if ((unsigned) reason >= INFER_REASON_COUNT)
		return "unknown";
	return reason_words[reason].name;
}

const char *
infer_reason_code(InferReason reason)
{
	if ((unsigned) reason >= INFER_REASON_COUNT)
		return "INT";
	return reason_words[reason].code;
}

const char *
infer_task_name(InferTask task)
{
	switch (task)
	{
		case INFER_TASK_EMBED:
			return "embed";
		case INFER_TASK_COMPLETE:
			return "complete";
		case INFER_TASK_CHAT:
			return "chat";
		case INFER_TASK_CALL:
			return "call";
		case INFER_TASK_COUNT:
			break;
	}
	return "unknown";
}
