/*
 * call/sizes.c - learning from refusals how much a server takes in one request.
 *
 * A refused batch is sent again in halves.  What it was refused for shows when all of its parts
 * have come to an end, so each refused batch leaves a node behind, and its halves, and theirs, know
 * it:
 *
 *	            128                      128 and 64 are closed as too large: all parts were taken
 *	         /       \
 *	       64          64                500 with one bad input: each size that held it has a part
 *	      /  \        /  \               that failed; nothing is learnt
 *	    32    32    32    32
 *
 * Until a tree is closed, the sizes in it are suspects: nothing as large is sent in this statement
 * (but what is on its way), unless as much has been taken meanwhile.  So no size is refused twice,
 * and one bad input costs the others no more than a few smaller requests.  What is proved goes to
 * shared memory, for all sessions, until it is old or the server object is altered.
 *
 * Batches that are ready when a limit falls are cut before they are sent.  Their parts belong to
 * the same node, if there is one.
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "call/batch.h"
#include "call/class.h"
#include "call/client.h"
#include "call/memo.h"
#include "call/place.h"
#include "call/sizes.h"
#include "core/batch.h"
#include "core/sizes.h"
#include "core/types.h"
#include "shmem/observed.h"

#define FEW_PARAMETERS 1024 /* bytes that matter in no limit */

struct InferRefusal
{
	dlist_node node;      /* in its place's */
	InferRefusal *parent; /* the node of the batch that was refused before, or NULL */
	InferPlace *place;    /* that refused; alive as long as there are parts, by their answers */
	InferSize size;
	InferSizeKind kind;
	int parts;    /* batches and nodes below that have not ended */
	bool suspect; /* nothing as large was taken before: counted by the place */
	bool failed;  /* some part did not end with an answer */
	bool refuted; /* as much was taken since */
};

static InferSize
size_of(const InferBatch *batch)
{
	return (InferSize){batch->nanswers, (int64) batch->bytes};
}

static void
observed_key(const InferPlace *place, InferObservedKey *key)
{
	infer_observed_key(key, place->placement->server->oid, place->class->task,
					   place->placement->remote_model);
}

static void
refresh(InferPlace *place)
{
	InferObservedKey key;
	InferSizes known;

	place->limits = infer_sizes_limits(&place->suspects, place->told_limits);
	observed_key(place, &key);
	if (infer_observed_sizes(&key, place->placement->server->version, &known))
		place->limits = infer_sizes_limits(&known, place->limits);
}

/* A batch is made before it is known where it goes, so it must suit all places. */
static void
tighten(InferClass *class)
{
	bool first = true;

	for (int i = 0; i < class->nplaces; i++)
	{
		const InferPlace *place = &class->places[i];

		if (place->barred != INFER_REASON_NONE)
			continue;
		class->limits = first ? place->limits : infer_batch_tightest(class->limits, place->limits);
		first = false;
	}
}

void
infer_sizes_refresh(InferClass *class)
{
	for (int i = 0; i < class->nplaces; i++)
		if (class->places[i].barred == INFER_REASON_NONE)
			refresh(&class->places[i]);
	tighten(class);
}

/* Something was learnt of one place. */
static void
refresh_place(InferPlace *place)
{
	refresh(place);
	tighten(place->class);
}

/*
 * What was proved is known to all sessions, if it says something of theirs: parameters count in a
 * server's limit of bytes, and those of this statement may be as long as its inputs, or longer.
 */
static void
tell(const InferRefusal *node)
{
	const InferPlace *place = node->place;
	int64 parameters = strlen(place->class->parameters_json);
	InferObservedKey key;

	if (node->kind != INFER_SIZE_ITEMS && parameters > FEW_PARAMETERS &&
		parameters > node->size.bytes / 8)
		return;
	observed_key(place, &key);
	infer_observed_refused(&key, place->placement->server->version, node->size, node->kind);
}

/* The last part of a node has ended. */
static void
close_node(InferRefusal *node)
{
	InferPlace *place = node->place;

	while (node != NULL && --node->parts == 0)
	{
		InferRefusal *parent = node->parent;

		dlist_delete(&node->node);
		if (node->failed && parent != NULL)
			parent->failed = true;
		if (!node->failed && !node->refuted)
			tell(node);
		if (node->suspect && --place->nsuspects == 0)
			infer_sizes_forget(&place->suspects);
		pfree(node);
		node = parent;
	}
}

/*
 * The parts of what is refused now and then come last, when all others have been taken; so several
 * such trees may end one after the other, and would look like a server that takes less than it did.
 */
static void
refute(InferPlace *place, InferSize taken)
{
	dlist_iter iter;

	dlist_foreach(iter, &place->refusals)
	{
		InferRefusal *node = dlist_container(InferRefusal, node, iter.cur);

		if (infer_sizes_as_large(taken, node->size))
			node->refuted = true;
	}
}

void
infer_sizes_taken_by(InferBatch *batch, int64 prompt_tokens)
{
	InferPlace *place = batch->place;
	InferObservedKey key;

	if (place->told_limits.max_items == 1)
		return;
	refute(place, size_of(batch));
	observed_key(place, &key);
	infer_observed_taken(&key, place->placement->server->version, size_of(batch), prompt_tokens);
	infer_sizes_taken(&place->suspects, size_of(batch), prompt_tokens);
	if (batch->refusal != NULL)
	{
		close_node(batch->refusal);
		batch->refusal = NULL;
	}
	refresh_place(place);
}

void
infer_sizes_refused_by(InferBatch *batch, InferSizeKind kind)
{
	InferPlace *place = batch->place;
	InferRefusal *node = MemoryContextAlloc(batch->client->context, sizeof(InferRefusal));

	*node = (InferRefusal){
		.parent = batch->refusal,
		.place = place,
		.size = size_of(batch),
		.kind = kind,
		.parts = 1,
	};
	dlist_push_tail(&place->refusals, &node->node);
	/* in its parent's count, the node takes the place of the batch */
	batch->refusal = node;
	node->suspect = infer_sizes_refused(&place->suspects, node->size, kind, false, 0);
	if (node->suspect)
		place->nsuspects++;
	refresh_place(place);
}

void
infer_sizes_part(InferBatch *part, const InferBatch *of)
{
	part->refusal = of->refusal;
	if (part->refusal != NULL)
		part->refusal->parts++;
}

void
infer_sizes_leave(InferBatch *batch)
{
	if (batch->refusal == NULL)
		return;
	batch->refusal->failed = true;
	close_node(batch->refusal);
	batch->refusal = NULL;
}

/* How many of the batch's answers fit into one request, at least one. */
static int
count_fitting(const InferBatch *batch)
{
	size_t bytes = batch->answers[0]->input_len;
	int n = 1;

	while (n < batch->nanswers &&
		   infer_batch_accepts(batch->place->limits, n, bytes, batch->answers[n]->input_len))
		bytes += batch->answers[n++]->input_len;
	return n;
}

void
infer_sizes_cut(InferBatch *batch)
{
	int n;

	if (batch->stages.by_key || /* other words are another call */
		infer_batch_fits(batch->place->limits, batch->nanswers, batch->bytes))
		return;
	n = count_fitting(batch);
	infer_batch_part(batch, n);
	infer_batch_forget_body(batch);
}
