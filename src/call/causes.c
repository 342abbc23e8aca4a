/*
 * call/causes.c - why calls failed: what infer.statement_errors() shows.
 *
 * One store per session, of the last top-level statement that made calls; the next one that makes
 * any empties it.  It outlives transactions, for it is looked at after an ERROR or a cancel has
 * ended that statement.  DISCARD ALL empties it as well, so that who gets a connection from a pool
 * does not read what its predecessor's servers said.
 *
 * Memory: the first INFER_CAUSES_FULL failures are kept one by one, those beyond are counted by
 * cause, and causes beyond INFER_CAUSES_GROUPS together.  With names and words of MAX_TEXT bytes
 * at most that stays below 1 MB whatever a server or a caller makes up.  Noting a failure allocates
 * without raising: where there is no memory it is counted and no more, since the call has its own
 * failure to report.
 *
 * What is kept of an input is its MD5: enough to find the row, and no prompt.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/md5.h"
#include "lib/ilist.h"
#include "mb/pg_wchar.h"
#include "nodes/parsenodes.h"
#include "tcop/utility.h"
#include "utils/timestamp.h"
#include "utils/memutils.h"

#include "call/causes.h"
#include "call/class.h"
#include "call/finish.h"
#include "call/memo.h"

#define MAX_TEXT    256 /* bytes of a model's name or of words, as many as are shown */
#define MD5_HEX_LEN 32

/* Behind it: model, server, words, MD5, each with its NUL. */
typedef struct Cause
{
	dlist_node node;
	InferCause shown;
} Cause;

static struct
{
	TimestampTz statement; /* its generation, as the memo's */
	MemoryContext context;
	int64 failed;
	int nfull;
	int ngroups;
	dlist_head full;
	dlist_head groups;
	Cause *last_group; /* the one counted last, or NULL */
	InferCause rest;   /* what has no place, once calls > 0 */
} store = {.full = DLIST_STATIC_INIT(store.full), .groups = DLIST_STATIC_INIT(store.groups)};

static ProcessUtility_hook_type previous_utility_hook;

static void
forget(void)
{
	dlist_init(&store.full);
	dlist_init(&store.groups);
	store.last_group = NULL;
	store.failed = 0;
	store.nfull = store.ngroups = 0;
	store.rest = (InferCause){.any = true};
	if (store.context != NULL)
		MemoryContextReset(store.context);
}

void
infer_causes_statement(void)
{
	TimestampTz statement = GetCurrentStatementStartTimestamp();

	if (store.statement == statement)
		return;
	store.statement = statement;
	forget();
}

/* Bytes of a text that are kept, the NUL not counted. */
static int
kept_len(const char *text)
{
	int len = text == NULL ? 0 : (int) strnlen(text, MAX_TEXT + 1);

	return len <= MAX_TEXT ? len : pg_mbcliplen(text, len, MAX_TEXT);
}

static const char *
put_text(char **place, const char *text, int len)
{
	char *start = *place;

	memcpy(start, text == NULL ? "" : text, len);
	start[len] = '\0';
	*place = start + len + 1;
	return start;
}

/* A copy of what is known of a failure, md5 aside. NULL: no memory. */
static Cause *
keep(const InferCause *cause)
{
	const char *texts[] = {cause->model, cause->server, cause->detail};
	int lens[lengthof(texts)];
	Size size = sizeof(Cause) + MD5_HEX_LEN + 1;
	Cause *kept;
	char *place;

	if (store.context == NULL)
		store.context =
			GenerationContextCreate(TopMemoryContext, "pg_inference causes", ALLOCSET_SMALL_SIZES);
	for (int i = 0; i < lengthof(texts); i++)
		size += (lens[i] = kept_len(texts[i])) + 1;
	kept = MemoryContextAllocExtended(store.context, size, MCXT_ALLOC_NO_OOM);
	if (kept == NULL)
		return NULL;
	kept->shown = *cause;
	place = (char *) kept + sizeof(Cause);
	kept->shown.model = put_text(&place, texts[0], lens[0]);
	kept->shown.server = put_text(&place, texts[1], lens[1]);
	kept->shown.detail = put_text(&place, texts[2], lens[2]);
	kept->shown.md5 = place; /* MD5_HEX_LEN and the NUL */
	return kept;
}

static bool
same_cause(const InferCause *kept, const InferCause *cause)
{
	return kept->reason == cause->reason && kept->execution == cause->execution &&
		   kept->http_status == cause->http_status && kept->task == cause->task &&
		   kept->userid == cause->userid && strcmp(kept->server, cause->server) == 0 &&
		   strncmp(kept->model, cause->model, kept_len(cause->model)) == 0 &&
		   kept->model[kept_len(cause->model)] == '\0';
}

static Cause *
find_group(const InferCause *cause)
{
	dlist_iter iter;

	if (store.last_group != NULL && same_cause(&store.last_group->shown, cause))
		return store.last_group;
	dlist_foreach(iter, &store.groups)
	{
		Cause *group = dlist_container(Cause, node, iter.cur);

		if (same_cause(&group->shown, cause))
			return group;
	}
	return NULL;
}

/* One more of those that are only counted. */
static void
count(const InferCause *cause)
{
	Cause *group = find_group(cause);

	if (group == NULL && store.ngroups < INFER_CAUSES_GROUPS && (group = keep(cause)) != NULL)
	{
		group->shown.ordinal = group->shown.calls = 0;
		group->shown.md5 = NULL;
		dlist_push_tail(&store.groups, &group->node);
		store.ngroups++;
	}
	if (group == NULL)
	{
		store.rest.calls++;
		store.rest.at = cause->at;
		return;
	}
	group->shown.calls++;
	group->shown.at = cause->at;
	store.last_group = group;
}

/* Notes a failed answer that is resolved. Never raises. */
void
infer_causes_note(const InferAnswer *answer)
{
	const InferClass *class = answer->class;
	InferCause cause = {
		.calls = 1,
		.userid = class->userid,
		.task = class->task,
		.reason = answer->reason,
		.execution = answer->execution,
		.http_status = answer->http_status,
		.attempts = answer->attempts,
		.model = class->target->model,
		.server = infer_answer_server(answer) != NULL ? infer_answer_server(answer) : "",
		.detail = answer->detail,
		.at = GetCurrentTimestamp(),
	};
	const char *problem;
	Cause *kept = NULL;
	int unsendable; /* a byte of ours stands before the input */

	/* a cursor's rows may fail in another statement than the one that asked for them */
	infer_causes_statement();
	cause.ordinal = ++store.failed;
	if (store.nfull < INFER_CAUSES_FULL)
		kept = keep(&cause);
	if (kept == NULL)
	{
		count(&cause);
		return;
	}
	unsendable = answer->input_len > 0 && answer->input[0] == INFER_UNSENDABLE;
	if (!pg_md5_hash(answer->input + unsendable, answer->input_len - unsendable,
					 unconstify(char *, kept->shown.md5), &problem))
		kept->shown.md5 = NULL;
	dlist_push_tail(&store.full, &kept->node);
	store.nfull++;
}

void
infer_causes_each(void (*show)(const InferCause *cause, void *arg), void *arg)
{
	dlist_iter iter;

	dlist_foreach(iter, &store.full) show(&dlist_container(Cause, node, iter.cur)->shown, arg);
	dlist_foreach(iter, &store.groups) show(&dlist_container(Cause, node, iter.cur)->shown, arg);
	if (store.rest.calls > 0)
		show(&store.rest, arg);
}

/* DISCARD ALL is what a pool says before somebody else has the session. */
static void
utility(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
		ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *environment,
		DestReceiver *dest, QueryCompletion *completion)
{
	bool discards = IsA(pstmt->utilityStmt, DiscardStmt) &&
					castNode(DiscardStmt, pstmt->utilityStmt)->target == DISCARD_ALL;

	(previous_utility_hook != NULL ? previous_utility_hook : standard_ProcessUtility)(
		pstmt, query_string, read_only_tree, context, params, environment, dest, completion);
	if (discards)
		forget();
}

void
infer_causes_init(void)
{
	forget();
	previous_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = utility;
}
