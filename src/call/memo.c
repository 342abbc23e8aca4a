/*
 * call/memo.c - the statement memo: equal calls of one statement have one answer.
 *
 * That is what makes the functions' STABLE honest.  The memo belongs to the top-level protocol
 * statement, recognised by its start timestamp: planning, execution and everything nested share it,
 * the next statement starts a new one, and the end of the transaction frees it.  Failures are
 * remembered like values, so a failed input is not asked again in the statement either.
 *
 * Memory: answers that no row needs any more are kept, least recently used first to go, up to
 * pg_inference.memo_memory.  Pinned answers are the business of the scan that pins them
 * (buffer_memory).  Classes without users are kept too, a few of them, because parameters that
 * differ by row (a seed) make a class a row; for the same reason the first answer of a class is
 * charged with what the class takes, which is far more than the answer.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "utils/timestamp.h"

#include "call/causes.h"
#include "call/class.h"
#include "call/client.h"
#include "call/memo.h"
#include "call/tolerance.h"
#include "call/usage.h"
#include "core/budget.h"
#include "core/types.h"
#include "pg/compat.h"
#include "pg/guc.h"
#include "pg/random.h"

#define IDLE_CLASSES_MAX 64

typedef struct AnswerSlot
{
	InferAnswer *answer;
	uint32 hash;
	char status;
} AnswerSlot;

#define SH_PREFIX            answers
#define SH_ELEMENT_TYPE      AnswerSlot
#define SH_KEY_TYPE          InferAnswer *
#define SH_KEY               answer
#define SH_HASH_KEY(tb, key) ((key)->hash)
#define SH_EQUAL(tb, a, b)                                                                         \
	((a)->hash == (b)->hash && (a)->class == (b)->class && (a)->input_len == (b)->input_len &&     \
	 memcmp((a)->input, (b)->input, (a)->input_len) == 0)
#define SH_STORE_HASH
#define SH_GET_HASH(tb, slot) ((slot)->hash)
#define SH_SCOPE              static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

typedef struct ClassSlot
{
	InferClass *class;
	uint32 hash;
	char status;
} ClassSlot;

static bool same_class(const InferClass *a, const InferClass *b);

#define SH_PREFIX            classes
#define SH_ELEMENT_TYPE      ClassSlot
#define SH_KEY_TYPE          InferClass *
#define SH_KEY               class
#define SH_HASH_KEY(tb, key) ((key)->hash)
#define SH_EQUAL(tb, a, b)   same_class(a, b)
#define SH_STORE_HASH
#define SH_GET_HASH(tb, slot) ((slot)->hash)
#define SH_SCOPE              static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

struct InferMemo
{
	dlist_node node;
	MemoryContext context;
	TimestampTz statement; /* its generation */
	answers_hash *answers;
	classes_hash *classes;
	dlist_head lru; /* unpinned, done answers; the oldest at the head */
	dlist_head idle_classes;
	int nidle;
	int64 pins;
	size_t idle_bytes; /* of the answers in lru */
	InferAmount spent;
	InferTolerance tolerance;
	uint64 id; /* 0 = not drawn yet */
};

static dlist_head memos = DLIST_STATIC_INIT(memos);
static InferMemo *current;
static int64 evictions;

static bool
same_class(const InferClass *a, const InferClass *b)
{
	if (a->hash != b->hash || a->userid != b->userid || a->task != b->task)
		return false;
	for (int i = 0; i < 3; i++)
		if (VARSIZE(a->raw[i]) != VARSIZE(b->raw[i]) ||
			memcmp(a->raw[i], b->raw[i], VARSIZE(a->raw[i])) != 0)
			return false;
	return true;
}

static void
memo_delete(InferMemo *memo)
{
	classes_iterator iter;
	ClassSlot *slot;

	classes_start_iterate(memo->classes, &iter);
	while ((slot = classes_iterate(memo->classes, &iter)) != NULL)
		infer_usage_flush_hits(slot->class);
	dlist_delete(&memo->node);
	if (current == memo)
		current = NULL;
	MemoryContextDelete(memo->context);
}

/* The running statement's memo, made at its first call. */
InferMemo *
infer_memo_current(void)
{
	TimestampTz statement = GetCurrentStatementStartTimestamp();
	MemoryContext context;

	if (current != NULL && current->statement == statement)
		return current;
	if (current != NULL)
	{
		InferMemo *old = current;

		current = NULL;
		if (old->pins == 0)
			memo_delete(old);
	}
	/* small blocks, so that a vector is a block of its own, of its size, and not of the next power
	 * of two; freed, it goes back to the system */
	context = AllocSetContextCreate(TopMemoryContext, "pg_inference memo", ALLOCSET_SMALL_SIZES);
	current = MemoryContextAllocZero(context, sizeof(InferMemo));
	current->context = context;
	current->statement = statement;
	current->answers = answers_create(context, 64, NULL);
	current->classes = classes_create(context, 8, NULL);
	dlist_init(&current->lru);
	dlist_init(&current->idle_classes);
	dlist_push_tail(&memos, &current->node);
	infer_causes_statement();
	return current;
}

MemoryContext
infer_memo_context(InferMemo *memo)
{
	return memo->context;
}

uint64
infer_memo_id(InferMemo *memo)
{
	if (memo->id == 0)
		memo->id = infer_random_id();
	return memo->id;
}

int64
infer_memo_evictions(void)
{
	return evictions;
}

InferClass *
infer_memo_class_find(InferMemo *memo, Oid userid, InferTask task, struct varlena *const raw[3],
					  uint32 *hash)
{
	InferClass probe = {.userid = userid, .task = task, .raw = {raw[0], raw[1], raw[2]}};
	ClassSlot *slot;
	uint32 h = hash_combine(murmurhash32(userid), (uint32) task);

	for (int i = 0; i < 3; i++)
		h = hash_combine(h, hash_bytes((const unsigned char *) raw[i], VARSIZE(raw[i])));
	probe.hash = *hash = h;
	slot = classes_lookup(memo->classes, &probe);
	return slot == NULL ? NULL : slot->class;
}

void
infer_memo_class_add(InferMemo *memo, InferClass *class)
{
	bool found;

	(void) classes_insert(memo->classes, class, &found);
	Assert(!found);
	MemoryContextSetParent(class->context, memo->context);
	class->memo = memo;
	dlist_push_tail(&memo->idle_classes, &class->idle);
	memo->nidle++;
}

/* Takes an unreferenced class out of the memo and frees it. */
static void
class_discard(InferClass *class)
{
	InferMemo *memo = class->memo;

	Assert(class->refs == 0);
	infer_usage_flush_hits(class);
	classes_delete(memo->classes, class);
	dlist_delete(&class->idle);
	memo->nidle--;
	MemoryContextDelete(class->context);
}

static void
class_ref(InferClass *class)
{
	if (class->refs++ == 0)
	{
		dlist_delete(&class->idle);
		class->memo->nidle--;
	}
}

static void
class_unref(InferClass *class)
{
	InferMemo *memo = class->memo;

	Assert(class->refs > 0);
	if (--class->refs > 0)
		return;
	class->charged = false;
	dlist_push_tail(&memo->idle_classes, &class->idle);
	memo->nidle++;
	if (memo->nidle > IDLE_CLASSES_MAX)
		class_discard(dlist_container(InferClass, idle, dlist_head_node(&memo->idle_classes)));
}

/* One pin less; an orphan goes with its last one. */
static void
memo_unpin(InferMemo *memo)
{
	Assert(memo->pins > 0);
	if (--memo->pins == 0 && memo != current)
		memo_delete(memo);
}

/* A client's hold on the class it used last. */
void
infer_memo_class_hold(InferClass *class)
{
	class_ref(class);
	class->memo->pins++;
}

void
infer_memo_class_release(InferClass *class)
{
	InferMemo *memo = class->memo;

	class_unref(class);
	memo_unpin(memo);
}

/* Forgets an unpinned answer. */
static void
answer_free(InferAnswer *answer)
{
	InferMemo *memo = answer->memo;

	answers_delete(memo->answers, answer);
	class_unref(answer->class);
	pfree(answer->input);
	if (answer->value != NULL)
		pfree(answer->value);
	if (answer->detail != NULL)
		pfree(answer->detail);
	if (answer->usage != NULL)
		pfree(answer->usage);
	pfree(answer);
}

static void
evict(InferMemo *memo)
{
	size_t limit = (size_t) infer_guc_memo_memory * 1024;

	while (memo->idle_bytes > limit)
	{
		InferAnswer *oldest = dlist_container(InferAnswer, lru, dlist_pop_head_node(&memo->lru));

		memo->idle_bytes -= oldest->bytes;
		evictions++;
		answer_free(oldest);
	}
}

/* Finds the answer of an equal call of the statement, or makes one that is not asked yet. */
InferAnswer *
infer_memo_answer(InferClass *class, const char *input, size_t len, bool *found)
{
	InferMemo *memo = class->memo;
	InferAnswer probe = {.class = class, .input = (char *) input, .input_len = len};
	InferAnswer *answer;
	AnswerSlot *slot;
	bool exists;

	probe.hash = hash_combine(hash_bytes((const unsigned char *) input, (int) len), class->hash);
	slot = answers_lookup(memo->answers, &probe);
	*found = slot != NULL;
	if (slot != NULL)
		return slot->answer;

	answer = MemoryContextAllocZero(memo->context, sizeof(InferAnswer));
	answer->class = class;
	answer->memo = memo;
	answer->hash = probe.hash;
	answer->input = MemoryContextAllocHuge(memo->context, len + 1);
	memcpy(answer->input, input, len);
	answer->input[len] = '\0';
	answer->input_len = len;
	answer->bytes = sizeof(InferAnswer) + sizeof(AnswerSlot) + len;
	if (!class->charged)
	{
		answer->bytes += class->bytes;
		class->charged = true;
	}
	(void) answers_insert(memo->answers, answer, &exists);
	class_ref(class);
	return answer;
}

void
infer_memo_pin(InferAnswer *answer)
{
	if (answer->pins == 0 && answer->state == INFER_ANSWER_DONE)
	{
		dlist_delete(&answer->lru);
		answer->memo->idle_bytes -= answer->bytes;
	}
	answer->pins++;
	answer->memo->pins++;
}

/* An answer that nobody pins is kept if it is done, else forgotten (a batch pins its answers). */
void
infer_memo_unpin(InferAnswer *answer)
{
	InferMemo *memo = answer->memo;

	Assert(answer->pins > 0);
	answer->pins--;
	if (answer->pins == 0)
	{
		if (answer->state == INFER_ANSWER_DONE)
		{
			dlist_push_tail(&memo->lru, &answer->lru);
			memo->idle_bytes += answer->bytes;
			evict(memo);
		}
		else
			answer_free(answer);
	}
	memo_unpin(memo);
}

/* The answer, pinned by its batch, has its result, which takes so many more bytes. */
void
infer_memo_done(InferAnswer *answer, size_t bytes)
{
	Assert(answer->state != INFER_ANSWER_DONE && answer->pins > 0);
	answer->state = INFER_ANSWER_DONE;
	answer->batch = NULL;
	answer->bytes += bytes;
}

InferAmount *
infer_memo_spent(InferMemo *memo)
{
	return &memo->spent;
}

InferTolerance *
infer_memo_tolerance(InferMemo *memo)
{
	return &memo->tolerance;
}

/*
 * End of the transaction: nothing of it can be needed any more.  This runs before the resource
 * owners are released, so clients that an ERROR left open are closed here first.
 */
static void
at_xact_end(XactEvent event, void *arg)
{
	dlist_mutable_iter iter;

	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE &&
		event != XACT_EVENT_PARALLEL_COMMIT && event != XACT_EVENT_PARALLEL_ABORT)
		return;
	infer_client_close_all(event == XACT_EVENT_COMMIT || event == XACT_EVENT_PARALLEL_COMMIT);
	dlist_foreach_modify(iter, &memos) memo_delete(dlist_container(InferMemo, node, iter.cur));
}

void
infer_memo_init(void)
{
	RegisterXactCallback(at_xact_end, NULL);
}
