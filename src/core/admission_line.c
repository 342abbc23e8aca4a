/*
 * core/admission_line.c - the line of one key: places in it, and how free permits are dealt out.
 */
#include "core/admission_line.h"

#include <limits.h>

static void
append(InferAdmission *a, InferAdmissionNode *nodes, int me)
{
	InferAdmissionNode *node = &nodes[me];
	int p = node->priority;

	node->next = INFER_NOBODY;
	node->prev = a->tail[p];
	if (a->tail[p] != INFER_NOBODY)
		nodes[a->tail[p]].next = me;
	else
		a->head[p] = me;
	a->tail[p] = me;
	a->waiting[p]++;
}

static void
unlink_node(InferAdmission *a, InferAdmissionNode *nodes, int me)
{
	InferAdmissionNode *node = &nodes[me];
	int p = node->priority;

	if (node->prev != INFER_NOBODY)
		nodes[node->prev].next = node->next;
	else
		a->head[p] = node->next;
	if (node->next != INFER_NOBODY)
		nodes[node->next].prev = node->prev;
	else
		a->tail[p] = node->prev;
	a->waiting[p]--;
}

void
infer_admission_leave(InferAdmission *a, InferAdmissionNode *nodes, int me)
{
	if (nodes[me].want == 0)
		return;
	unlink_node(a, nodes, me);
	nodes[me].want = 0;
	nodes[me].woken_us = 0;
	nodes[me].passed = false;
	if (a->alarm == me)
		a->alarm = INFER_NOBODY;
	if (a->token_first == me)
		a->token_first = INFER_NOBODY;
}

void
infer_line_join(InferAdmission *a, InferAdmissionNode *nodes, int me, const InferAsk *ask, int want,
				bool again, int64_t now_us)
{
	InferAdmissionNode *node = &nodes[me];
	bool moves = node->want == 0 || again || node->priority != (int) ask->priority;

	if (moves && node->want > 0)
		unlink_node(a, nodes, me);
	if (node->want == 0 || again)
		node->since_us = now_us;
	node->want = want;
	node->priority = ask->priority;
	node->duration = ask->duration;
	node->deadline_us = ask->deadline_us;
	node->tokens = ask->tokens;
	node->patience_us = ask->patience_us;
	node->elsewhere = ask->elsewhere;
	if (moves)
		append(a, nodes, me);
}

bool
infer_line_is_absent(const InferAdmissionNode *node, int64_t now_us)
{
	return node->passed || (node->woken_us != 0 && now_us - node->woken_us > INFER_LINE_ABSENT_US);
}

/* Who of one priority gets the next permit: holds least, then waits longest. */
static int
next_of(const InferAdmission *a, const InferAdmissionNode *nodes, int p, int64_t now_us)
{
	int best = INFER_NOBODY;
	int least = INT_MAX;

	for (int i = a->head[p]; i != INFER_NOBODY; i = nodes[i].next)
	{
		const InferAdmissionNode *node = &nodes[i];

		if (node->share >= node->want || infer_line_is_absent(node, now_us))
			continue;
		if (node->held + node->share < least)
		{
			least = node->held + node->share;
			best = i;
		}
	}
	return best;
}

bool
infer_line_is_empty(const InferAdmission *a)
{
	for (int p = 0; p < INFER_PRIORITY_COUNT; p++)
		if (a->waiting[p] > 0)
			return false;
	return true;
}

int
infer_line_settle(InferAdmission *a, InferAdmissionNode *nodes, int room, int rank, int priority,
				  int64_t now_us)
{
	int left = 0;

	for (int p = INFER_PRIORITY_COUNT - 1; p >= 0; p--)
	{
		int i;

		if (p <= rank)
			room = 0;
		for (i = a->head[p]; i != INFER_NOBODY; i = nodes[i].next)
			nodes[i].share = 0;
		while (room > 0 && (i = next_of(a, nodes, p, now_us)) != INFER_NOBODY)
		{
			nodes[i].share++;
			room--;
		}
		if (p == priority)
			left = room;
	}
	return left;
}
