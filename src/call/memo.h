/*
 * call/memo.h - the statement memo: equal calls of one statement have one answer.
 *
 * An answer is forgotten when nobody pins it and it is not done; one that is done stays as long as
 * there is memory for it.  Pins keep the memo, too.
 */
#ifndef INFER_CALL_MEMO_H
#define INFER_CALL_MEMO_H

#include "postgres.h"

#include "lib/ilist.h"

#include "call/tolerance.h"
#include "call/types.h"
#include "core/budget.h"
#include "core/types.h"

/* No text in UTF-8 begins with this byte. */
#define INFER_UNSENDABLE '\xff'

typedef enum InferAnswerState
{
	INFER_ANSWER_IDLE,    /* nobody is asking (any more) */
	INFER_ANSWER_BATCHED, /* in a batch of some client, sent or not */
	INFER_ANSWER_DONE
} InferAnswerState;

struct InferAnswer
{
	/* key */
	InferClass *class;
	char *input; /* UTF-8; or INFER_UNSENDABLE, and what cannot be said in UTF-8 */
	size_t input_len;
	uint32 hash;
	/* where it is */
	InferMemo *memo;
	InferAnswerState state;
	InferBatch *batch; /* while BATCHED */
	int pins;
	bool counted;   /* its call is in what the statement has spent */
	dlist_node lru; /* in memo->lru while pins == 0 and DONE */
	size_t bytes;   /* all of it, for the budgets */
	/* the result */
	InferReason reason; /* NONE = value is set */
	InferExecution execution;
	struct varlena *value; /* real[], text or jsonb */
	bool truncated;        /* the value ends at a limit of tokens, and was accepted */
	char *detail;          /* of a failure; NULL if there is none */
	const char *hint;      /* static; NULL: the reason's own */
	char *tried; /* of a failure: its attempts, where there are several servers; or NULL */
	char *usage; /* JSON in UTF-8, NULL if none */
	int http_status;
	const InferPlace *place; /* that answered, or was asked last */
	int attempts;
	bool retry_denied; /* its last attempt would have been repeated otherwise */
	int64 elapsed_us;
};

/* The running statement's memo, made at its first call. */
extern InferMemo *infer_memo_current(void);
/* Where its classes and answers are: of whatever must live as long as they do. */
extern MemoryContext infer_memo_context(InferMemo *memo);
/* A random number of the memo's statement, never 0. */
extern uint64 infer_memo_id(InferMemo *memo);
/* What its statement has spent: calls once an answer, the guesses of requests on their way. */
extern InferAmount *infer_memo_spent(InferMemo *memo);
extern InferTolerance *infer_memo_tolerance(InferMemo *memo);
/* Answers that this process has thrown out for want of memory. */
extern int64 infer_memo_evictions(void);

/* The class with this key, or NULL; raw: model, parameters, options, none of them NULL. *hash is
 * that of the key. */
extern InferClass *infer_memo_class_find(InferMemo *memo, Oid userid, InferTask task,
										 struct varlena *const raw[3], uint32 *hash);
/* A class that it does not have. Its context is the memo's from now on. */
extern void infer_memo_class_add(InferMemo *memo, InferClass *class);
/* A client's hold on the class that it used last. */
extern void infer_memo_class_hold(InferClass *class);
extern void infer_memo_class_release(InferClass *class);

/* The answer of an equal call of the statement, or a new one that nobody asks.  Not pinned. input
 * is copied. */
extern InferAnswer *infer_memo_answer(InferClass *class, const char *input, size_t len,
									  bool *found);
/* Neither raises. */
extern void infer_memo_pin(InferAnswer *answer);
extern void infer_memo_unpin(InferAnswer *answer);
/* The answer, which its batch pins, has its result, of so many bytes. */
extern void infer_memo_done(InferAnswer *answer, size_t bytes);

extern void infer_memo_init(void); /* from infer_call_init() */

#endif
