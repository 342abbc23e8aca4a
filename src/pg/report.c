/*
 * pg/report.c - from a failure to SQLSTATE, message, detail and hint.
 *
 * The class of the SQLSTATE says what is proved, the rest says why:
 *
 *   RN...  the request was not executed      RX...  it was executed, without a usable answer
 *   RM...  it may have been executed         RC...  configuration: nothing was sent
 *
 * so that PL/pgSQL can catch one failure (RNOVL), or a whole class (RN000).
 *
 * DETAIL quotes the other side, in at most 256 bytes of printable text.  An answer that refuses our
 * key may repeat it, so what looks like a key is left out there.
 */
#include "postgres.h"

#include <ctype.h>

#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"

#include "pg/report.h"

#define MAX_WORDS 256
#define MIN_KEY   12 /* shorter runs of letters and digits are not taken for keys */

typedef struct ReasonText
{
	const char *what; /* completes "call of model ... failed: " */
	const char *hint; /* NULL if there is nothing to advise */
} ReasonText;

static const ReasonText reason_texts[INFER_REASON_COUNT] = {
	[INFER_REASON_NONE] = {"no failure", NULL},
	[INFER_REASON_LOOKUP_FAILED] = {"the host name could not be resolved",
									"Check the host in the server's url, and name resolution on "
									"the database host."},
	[INFER_REASON_CONNECT_FAILED] = {"could not connect",
									 "Check that the inference server runs and is reachable at "
									 "the server's url, or raise pg_inference.connect_timeout."},
	[INFER_REASON_TLS_FAILED] = {"no secure connection could be established",
								 "Check that the server speaks https at this port, its "
								 "certificate, and the certificate authorities that the "
								 "database host trusts or the server's ca_file names."},
	[INFER_REASON_EGRESS_DENIED] = {"the address is not allowed",
									"A superuser can allow it with pg_inference.allowed_hosts."},
	[INFER_REASON_CREDENTIAL_MISSING] = {"the API key could not be read",
										 "Check the user mapping's api_key_file or api_key_env; "
										 "the database server process must be able to read it."},
	[INFER_REASON_CERTIFICATE_UNUSABLE] =
		{"a certificate file could not be used",
		 "Check the server's ca_file, and client_cert_file and client_key_file of the user "
		 "mapping; "
		 "the database server process must be able to read them."},
	[INFER_REASON_CREDENTIAL_WITHHELD] = {"the API key was not sent over an unencrypted "
										  "connection",
										  "Use an https url, or set the server's option "
										  "allow_cleartext to 'true' on a trusted network."},
	[INFER_REASON_CANCELLED] = {"the request was given up", NULL},
	[INFER_REASON_TIMEOUT] = {"no answer in time",
							  "Raise pg_inference.request_timeout, the server's request_timeout "
							  "or the option timeout."},
	[INFER_REASON_DISCONNECTED] =
		{"the connection was lost before an answer",
		 "Check the inference server's log. What may have run is repeated "
		 "only with pg_inference.delivery = reliable or pg_inference.retry = ambiguous."},
	[INFER_REASON_OVERLOADED] = {"the server is overloaded",
								 "Lower the server's max_concurrency, or allow more attempts with "
								 "pg_inference.max_attempts."},
	[INFER_REASON_QUOTA_EXCEEDED] = {"the account's quota or credit is used up",
									 "Check plan, limits and balance of the account that the API "
									 "key belongs to."},
	[INFER_REASON_CONFLICT] = {"the server reports a conflict",
							   "Another request with the same idempotency key may still run; "
							   "try again later."},
	[INFER_REASON_UNAUTHENTICATED] = {"the server does not accept the API key",
									  "Check the user mapping of the current role; without one "
									  "no key is sent."},
	[INFER_REASON_PERMISSION_DENIED] = {"the server denies access",
										"Check what the API key of the user mapping may use."},
	[INFER_REASON_NOT_FOUND] =
		{"the server does not know this model or path",
		 "Check the model's remote_model, the server's url (it mostly ends in "
		 "/v1), and the path of an infer.call()."},
	[INFER_REASON_BAD_REQUEST] = {"the server rejected the request",
								  "Check the call's parameters and that the model can do this "
								  "task."},
	[INFER_REASON_REQUEST_TOO_LARGE] = {"the request is too large",
										"Shorten the input, or lower the server's max_batch_size, "
										"max_batch_bytes or max_batch_tokens."},
	[INFER_REASON_SERVER_ERROR] = {"the server failed", "Check the inference server's log."},
	[INFER_REASON_SERVER_FAILED] = {"the server has been failing, and is left alone",
									"Check the inference server. It is tried again by itself; see "
									"infer.stat_admission, and pg_inference.failure_threshold."},
	[INFER_REASON_NO_DEST] = {"no server of the model suits the request",
							  "Change the call's routing keys, or add a placement with "
							  "infer.add_placement()."},
	[INFER_REASON_DRAINING] = {"the server is being taken out of service",
							   "Call again where the model runs on other servers as well "
							   "(infer.placements); else after infer.undrain()."},
	[INFER_REASON_ALL_FAILED] = {"all servers of the model are down",
								 "Check the inference servers. They are tried again by themselves; "
								 "call again later."},
	[INFER_REASON_STALE_ALTERNATIVES] = {"no server of the model has it any more",
										 "Correct the model's placements (infer.alter_placement, "
										 "infer.drop_placement), or load the model on a server."},
	[INFER_REASON_STALE_INCARNATION] = {"the incarnation that is wanted does not answer",
										"Take a new reference with infer.ref(); an old one is "
										"never renewed."},
	[INFER_REASON_REDIRECTED] = {"the server redirects to another address",
								 "Redirects are not followed; set the server's url to the final "
								 "address."},
	[INFER_REASON_MALFORMED_REPLY] = {"the answer could not be read",
									  "Check that the server's api option matches what it "
									  "speaks."},
	[INFER_REASON_INCOMPLETE_REPLY] = {"the answer was cut short",
									   "Check the inference server's log and proxies in between."},
	[INFER_REASON_REPLY_TOO_LARGE] = {"the answer is too large",
									  "Raise pg_inference.max_response_size, or make batches "
									  "smaller."},
	[INFER_REASON_MISSING_RESULT] = {"the answer has no result for this input",
									 "Check the inference server's log."},
	[INFER_REASON_TRUNCATED] = {"the answer ends at a limit of tokens",
								"Raise the limit among the parameters (max_tokens), or take the "
								"text as far as it goes with the option \"truncated\": "
								"\"accept\"."},
	[INFER_REASON_FILTERED] = {"a content filter held the answer back",
							   "Change the input, or the filter's settings at the provider."},
	[INFER_REASON_REFUSED] = {"the model refuses to answer", "Change the input."},
	[INFER_REASON_TOOL_CALL] = {"the model calls a tool instead of answering",
								"Leave out the tools among the parameters, or take the raw answer "
								"with infer.call()."},
	[INFER_REASON_MISALIGNED] = {"the answer's results cannot be matched to the inputs",
								 "The server's embeddings must carry a correct index; with "
								 "pg_inference.streaming_mode = per_row none is needed."},
	[INFER_REASON_BUDGET] = {"a budget does not allow it", NULL},
	[INFER_REASON_ERROR_RATIO] = {"too many calls of the statement failed before it",
								  "Raise pg_inference.max_error_ratio, or set it to 1."},
	[INFER_REASON_INTERNAL] = {"the request could not be handled", NULL},
};

static const ReasonText *
reason_text(InferReason reason)
{
	if ((unsigned) reason >= INFER_REASON_COUNT || reason_texts[reason].what == NULL)
		reason = INFER_REASON_INTERNAL;
	return &reason_texts[reason];
}

/* Is this for the administrator to set right before anything can be sent? */
static bool
is_configuration(InferReason reason)
{
	return reason == INFER_REASON_EGRESS_DENIED || reason == INFER_REASON_CREDENTIAL_MISSING ||
		   reason == INFER_REASON_CERTIFICATE_UNUSABLE ||
		   reason == INFER_REASON_STALE_ALTERNATIVES || reason == INFER_REASON_CREDENTIAL_WITHHELD;
}

/* An earlier attempt may have run before the configuration broke: then the proof goes first. */
int
infer_report_sqlstate(InferReason reason, InferExecution execution)
{
	const char *code = infer_reason_code(reason);
	char class = 'M';

	if (execution == INFER_EXECUTED)
		class = 'X';
	else if (execution == INFER_NOT_ADMITTED)
		class = is_configuration(reason) ? 'C' : 'N';
	return MAKE_SQLSTATE('R', class, code[0], code[1], code[2]);
}

int
infer_errcode_config(void)
{
	return MAKE_SQLSTATE('R', 'C', 'C', 'F', 'G');
}

int
infer_errcode_no_placement(void)
{
	return MAKE_SQLSTATE('R', 'C', 'N', 'P', 'L');
}

const char *
infer_report_reason(InferReason reason)
{
	return reason_text(reason)->what;
}

/* Refused by us, for want of room to keep it?  A server that is overloaded says so by a status. */
static bool
refused_here(const InferFailure *failure)
{
	return failure->reason == INFER_REASON_OVERLOADED && failure->http_status == 0;
}

/* What went wrong, in our words. */
static const char *
report_what(const InferFailure *failure)
{
	/* what never left was not the server's to reject */
	if (failure->reason == INFER_REASON_BAD_REQUEST && failure->attempts == 0)
		return "the arguments make no valid request";
	if (refused_here(failure))
		return "this session keeps too many requests that may have to be sent again";
	return reason_text(failure->reason)->what;
}

char *
infer_report_message(const InferFailure *failure)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfoString(&buf, "call");
	if (failure->model != NULL)
		appendStringInfo(&buf, " of model \"%s\"", failure->model);
	if (failure->server != NULL)
		appendStringInfo(&buf, " on server \"%s\"", failure->server);
	appendStringInfo(&buf, " failed: %s", report_what(failure));
	return buf.data;
}

static bool
is_key_char(char c)
{
	return isalnum((unsigned char) c) || strchr("-_.*+/=", c) != NULL;
}

/* Replaces runs that look like keys: long, of the usual alphabet, with a digit or mask in them. */
static void
append_without_keys(StringInfo buf, const char *words, int len)
{
	for (int i = 0; i < len;)
	{
		int run = 0;
		bool mixed = false;

		while (i + run < len && words[i + run] != '\0' && is_key_char(words[i + run]))
		{
			mixed |= isdigit((unsigned char) words[i + run]) || words[i + run] == '*';
			run++;
		}
		if (run >= MIN_KEY && mixed)
			appendStringInfoString(buf, "(withheld)");
		else
		{
			run = Max(run, 1);
			appendBinaryStringInfo(buf, words + i, run);
		}
		i += run;
	}
}

/*
 * What the other side or the library said, fit to be shown: valid in the database's encoding, one
 * line, no longer than MAX_WORDS.  Never raises: what cannot be shown becomes a question mark.
 */
char *
infer_report_words(const InferFailure *failure)
{
	const char *words = failure->detail != NULL ? failure->detail : "";
	bool refused = failure->reason == INFER_REASON_UNAUTHENTICATED ||
				   failure->reason == INFER_REASON_PERMISSION_DENIED;
	int len = strlen(words);
	bool valid = GetDatabaseEncoding() != PG_SQL_ASCII &&
				 pg_verify_mbstr(GetDatabaseEncoding(), words, len, true);
	StringInfoData buf;
	char *clean;

	initStringInfo(&buf);
	if (len > MAX_WORDS)
		len = valid ? pg_mbcliplen(words, len, MAX_WORDS) : MAX_WORDS;
	clean = pnstrdup(words, len);
	for (int i = 0; i < len; i++)
	{
		unsigned char c = clean[i];

		if (c < 0x20 || c == 0x7f || (c >= 0x80 && !valid))
			clean[i] = '?';
	}
	if (refused)
		append_without_keys(&buf, clean, len);
	else
		appendBinaryStringInfo(&buf, clean, len);
	pfree(clean);
	return buf.data;
}

char *
infer_report_cause(const InferFailure *failure)
{
	char *words = infer_report_words(failure);

	return words[0] != '\0' ? words : pstrdup(report_what(failure));
}

static const char *
proof_text(const InferFailure *failure)
{
	switch (failure->execution)
	{
		case INFER_NOT_ADMITTED:
			return failure->attempts > 0 ? "The request was not executed." : "Nothing was sent.";
		case INFER_MAYBE_EXECUTED:
			return "The request may have been executed.";
		case INFER_EXECUTED:
			return "The request was executed, without a usable answer.";
	}
	return "It is unknown whether the request was executed.";
}

const char infer_report_retry_denied[] =
	"not tried again: the retry budget of its admission key is used up";

/* HTTP status 429 after 4 attempts: "slow down". The request was not executed. */
static char *
report_detail(const InferFailure *failure)
{
	char *words = infer_report_words(failure);
	StringInfoData buf;

	initStringInfo(&buf);
	if (failure->http_status > 0)
		appendStringInfo(&buf, "HTTP status %d", failure->http_status);
	if (failure->attempts > 0)
		appendStringInfo(&buf, "%s after %d attempt%s", buf.len > 0 ? "" : "Failed",
						 failure->attempts, failure->attempts == 1 ? "" : "s");
	if (words[0] != '\0')
	{
		/* quoted where they are the server's, who may say anything; else the library's */
		const char *quote = failure->http_status >= 300 ? "\"" : "";

		appendStringInfo(&buf, "%s%s%s%s", buf.len > 0 ? ": " : "", quote, words, quote);
	}
	if (buf.len > 0)
		appendStringInfoString(&buf, buf.data[buf.len - 1] == '.' ? " " : ". ");
	appendStringInfoString(&buf, proof_text(failure));
	if (failure->tried != NULL)
		appendStringInfo(&buf, " Servers %s.", failure->tried);
	if (failure->retry_denied)
		appendStringInfo(&buf, " It was %s.", infer_report_retry_denied);
	return buf.data;
}

/* What to do about it; where the call knows better than its reason, that. */
static const char *
report_hint(const InferFailure *failure)
{
	if (failure->hint != NULL)
		return failure->hint;
	if (refused_here(failure))
		return "Raise pg_inference.retained_memory, make batches smaller, or use the delivery "
			   "\"single\".";
	if (failure->retry_denied)
		return "Retries may only be a share of the requests of a server; see "
			   "pg_inference.retry_budget, and check the inference server.";
	/* more attempts are of no use where none may follow */
	if (failure->reason == INFER_REASON_OVERLOADED && failure->execution != INFER_NOT_ADMITTED)
		return "Lower the server's max_concurrency. What may have run is repeated only with "
			   "pg_inference.retry = ambiguous; the server's option trust says whether its 503 "
			   "proves that nothing ran.";
	return reason_text(failure->reason)->hint;
}

void
infer_report_failure(const InferFailure *failure)
{
	const char *hint = report_hint(failure);

	ereport(ERROR, (errcode(infer_report_sqlstate(failure->reason, failure->execution)),
					errmsg("%s", infer_report_message(failure)),
					errdetail("%s", report_detail(failure)), hint ? errhint("%s", hint) : 0));
}
