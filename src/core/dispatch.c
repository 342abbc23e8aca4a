/*
 * core/dispatch.c - duration weights of nodes and their lines.  What it does and why:
 * core/dispatch.h.
 *
 * Both who asks (due_at) and who is woken (infer_dispatch_wake) go through the line in order, and
 * leave to each of those before what it wants; so nobody is woken for what another one may take.
 */
#include "core/dispatch.h"

#include <string.h>

#define ABSENT_US  100000
#define EXPIRED_US 1000000 /* after its time; also between two looks */

static InferDispatchNode *
nodes_of(InferDispatch *d)
{
	return (InferDispatchNode *) (d + 1);
}

static InferDispatchStake *
stakes_of(InferDispatch *d)
{
	return (InferDispatchStake *) (nodes_of(d) + d->nnodes);
}

size_t
infer_dispatch_size(int nnodes, int nstakes)
{
	return sizeof(InferDispatch) + sizeof(InferDispatchNode) * (size_t) nnodes +
		   sizeof(InferDispatchStake) * (size_t) nstakes;
}

void
infer_dispatch_init(InferDispatch *d, int nnodes, int nstakes)
{
	d->nnodes = nnodes;
	d->nstakes = nstakes;
	d->free_stake = INFER_NOBODY;
	for (int i = 0; i < nnodes; i++)
		nodes_of(d)[i].first = nodes_of(d)[i].last = INFER_NOBODY;
	for (int i = nstakes - 1; i >= 0; i--)
	{
		stakes_of(d)[i].node = INFER_NOBODY;
		stakes_of(d)[i].next = d->free_stake;
		d->free_stake = i;
	}
}

/* --- Nodes and stakes --- */

/* The node of that label, or the first free one; INFER_NOBODY = there is neither. */
static int
find_node(InferDispatch *d, const char *label)
{
	InferDispatchNode *nodes = nodes_of(d);
	int free_one = INFER_NOBODY;

	for (int i = 0; i < d->used_nodes; i++)
	{
		if (nodes[i].first == INFER_NOBODY)
			free_one = free_one == INFER_NOBODY ? i : free_one;
		else if (strcmp(nodes[i].label, label) == 0)
			return i;
	}
	if (free_one == INFER_NOBODY && d->used_nodes < d->nnodes)
		free_one = d->used_nodes;
	return free_one;
}

static int
find_stake(InferDispatch *d, int node, int process)
{
	InferDispatchStake *stakes = stakes_of(d);
	int i = nodes_of(d)[node].first;

	while (i != INFER_NOBODY && stakes[i].process != process)
		i = stakes[i].next;
	return i;
}

static void
unlink_stake(InferDispatch *d, int me)
{
	InferDispatchStake *stakes = stakes_of(d);
	InferDispatchStake *stake = &stakes[me];
	InferDispatchNode *node = &nodes_of(d)[stake->node];

	if (stake->prev != INFER_NOBODY)
		stakes[stake->prev].next = stake->next;
	else
		node->first = stake->next;
	if (stake->next != INFER_NOBODY)
		stakes[stake->next].prev = stake->prev;
	else
		node->last = stake->prev;
}

/* Behind those in line that come first; who is not in line stands at the very end. */
static void
link_stake(InferDispatch *d, int me)
{
	InferDispatchStake *stakes = stakes_of(d);
	InferDispatchStake *stake = &stakes[me];
	InferDispatchNode *node = &nodes_of(d)[stake->node];
	int after = node->last;

	while (stake->want > 0 && after != INFER_NOBODY &&
		   (stakes[after].want == 0 || stakes[after].priority < stake->priority))
		after = stakes[after].prev;
	stake->prev = after;
	stake->next = after == INFER_NOBODY ? node->first : stakes[after].next;
	if (stake->next != INFER_NOBODY)
		stakes[stake->next].prev = me;
	else
		node->last = me;
	if (after != INFER_NOBODY)
		stakes[after].next = me;
	else
		node->first = me;
}

/* A stake of nothing, in no line. */
static int
new_stake(InferDispatch *d, int node, int process)
{
	int me = d->free_stake;
	InferDispatchStake *stake;

	if (me == INFER_NOBODY)
		return INFER_NOBODY;
	stake = &stakes_of(d)[me];
	d->free_stake = stake->next;
	*stake = (InferDispatchStake){.node = node, .process = process};
	link_stake(d, me);
	return me;
}

/* Frees a stake in which nothing is left. */
static void
drop_if_empty(InferDispatch *d, int me)
{
	InferDispatchStake *stake = &stakes_of(d)[me];

	if (stake->held > 0 || stake->expired > 0 || stake->want > 0)
		return;
	unlink_stake(d, me);
	stake->node = INFER_NOBODY;
	stake->next = d->free_stake;
	d->free_stake = me;
}

/* --- Who goes first --- */

static bool
waits_here(const InferDispatchStake *stake, int64_t now_us)
{
	bool absent = stake->woken_us != 0 && now_us - stake->woken_us > ABSENT_US;

	return stake->want > 0 && stake->wait == INFER_DISPATCH_HERE && !absent;
}

/* So many units of that weight can go where so much is in flight. */
static int
fitting(const InferDispatch *d, int in_flight, int weight, int want)
{
	int n = in_flight < d->max ? (d->max - in_flight) / weight : 0;

	if (n == 0 && in_flight == 0)
		n = 1;
	return n < want ? n : want;
}

/*
 * Goes through the line in order.  Each of those who wait for weight gets what fits; the first that
 * does not get all keeps back those behind it.
 */
int
infer_dispatch_wake(InferDispatch *d, int node, int64_t now_us, int32_t *who, int size)
{
	InferDispatchStake *stakes = stakes_of(d);
	int in_flight = nodes_of(d)[node].weight;
	int n = 0;

	for (int i = nodes_of(d)[node].first; i != INFER_NOBODY && stakes[i].want > 0;
		 i = stakes[i].next)
	{
		InferDispatchStake *stake = &stakes[i];
		int due;

		if (!waits_here(stake, now_us))
			continue;
		due = fitting(d, in_flight, stake->weight, stake->want);
		if (due > 0 && stake->woken_us == 0 && n < size)
		{
			stake->woken_us = now_us;
			who[n++] = stake->process;
		}
		if (due < stake->want)
			break;
		in_flight += due * stake->weight;
	}
	return n;
}

/* What is due to units that stand at `place`, or, if that is nobody's, come last of their priority:
 * those before them first, all of them. */
static int
due_at(const InferDispatch *d, int node, int place, const InferDispatchAsk *ask, int64_t now_us)
{
	const InferDispatchStake *stakes = stakes_of((InferDispatch *) d);
	const InferDispatchNode *n = &nodes_of((InferDispatch *) d)[node];
	int in_flight = n->weight;

	for (int i = n->first; i != place && i != INFER_NOBODY && stakes[i].want > 0;
		 i = stakes[i].next)
	{
		const InferDispatchStake *stake = &stakes[i];

		if (stake->priority < (int) ask->priority)
			break;
		if (!waits_here(stake, now_us))
			continue;
		if (fitting(d, in_flight, stake->weight, stake->want) < stake->want)
			return 0;
		in_flight += stake->want * stake->weight;
	}
	return fitting(d, in_flight, ask->weight, ask->want);
}

/* --- Weight --- */

/* Takes back what processes hold that do not look; for a process that waits in vain. */
static void
take_expired(InferDispatch *d, int node, int64_t now_us)
{
	InferDispatchNode *n = &nodes_of(d)[node];
	InferDispatchStake *stakes = stakes_of(d);

	if (now_us - n->expired_look_us < EXPIRED_US)
		return;
	n->expired_look_us = now_us;
	for (int i = n->first; i != INFER_NOBODY; i = stakes[i].next)
	{
		InferDispatchStake *stake = &stakes[i];

		if (stake->held == 0 || now_us - stake->good_until_us < EXPIRED_US)
			continue;
		n->weight -= stake->held;
		stake->expired += stake->held;
		stake->held = 0;
	}
}

/* Not in line any more. */
static void
leave(InferDispatch *d, int me)
{
	unlink_stake(d, me);
	stakes_of(d)[me].want = 0;
	link_stake(d, me);
	drop_if_empty(d, me);
}

/* In line with what it asks for; with its place, unless it is new or its priority is another one.
 */
static void
join(InferDispatch *d, int me, const InferDispatchAsk *ask, int64_t now_us)
{
	InferDispatchStake *stake = &stakes_of(d)[me];
	bool is_new = stake->want == 0;
	bool moves = is_new || stake->priority != (int) ask->priority;

	if (moves)
		unlink_stake(d, me);
	stake->want = ask->want;
	stake->weight = ask->weight;
	stake->priority = ask->priority;
	stake->wait = INFER_DISPATCH_HERE;
	stake->woken_us = 0;
	stake->duration = ask->duration;
	stake->deadline_us = ask->deadline_us;
	if (is_new)
		stake->since_us = now_us;
	if (moves)
		link_stake(d, me);
}

/* Are these the units that the process stands there for? */
static bool
stands_there(const InferDispatchStake *stake, const InferDispatchAsk *ask)
{
	return stake->priority == (int) ask->priority && stake->weight == ask->weight;
}

/* The process has so much more in flight, until done() says what of it has its permits. */
static void
try_out(InferDispatch *d, int me, const InferDispatchAsk *ask, int granted, int64_t now_us)
{
	InferDispatchStake *stake = &stakes_of(d)[me];

	if (stake->held == 0 || stake->good_until_us < now_us + ask->lasts_us)
		stake->good_until_us = now_us + ask->lasts_us;
	stake->held += granted * ask->weight;
	nodes_of(d)[stake->node].weight += granted * ask->weight;
	stake->trial = ask->weight;
	if (!stake->aside)
		stake->wait = INFER_DISPATCH_TRYING;
}

int
infer_dispatch_take(InferDispatch *d, int process, const InferDispatchAsk *ask, int64_t now_us,
					int *node)
{
	InferDispatchStake *stake;
	bool is_new;
	int me;
	int place;
	int before;
	int granted;

	d->max = ask->max;
	*node = find_node(d, ask->label);
	if (*node == INFER_NOBODY)
		return 0;
	is_new = nodes_of(d)[*node].first == INFER_NOBODY;
	me = is_new ? INFER_NOBODY : find_stake(d, *node, process);
	if (me == INFER_NOBODY)
		me = new_stake(d, *node, process);
	if (me == INFER_NOBODY)
	{
		*node = INFER_NOBODY;
		return 0;
	}
	if (is_new)
	{
		InferDispatchNode *fresh = &nodes_of(d)[*node];

		memset(fresh->label, 0, sizeof(fresh->label));
		strncpy(fresh->label, ask->label, sizeof(fresh->label) - 1);
		fresh->weight = 0;
		d->used_nodes = *node >= d->used_nodes ? *node + 1 : d->used_nodes;
	}
	stake = &stakes_of(d)[me];
	before = stake->want;
	stake->aside = !ask->wait && before > 0 && !stands_there(stake, ask);
	if (!stake->aside)
		join(d, me, ask, now_us);
	stake->after = ask->wait ? ask->want : before;
	place = stake->aside ? INFER_NOBODY : me;
	granted = due_at(d, *node, place, ask, now_us);
	if (granted == 0)
	{
		take_expired(d, *node, now_us);
		granted = due_at(d, *node, place, ask, now_us);
	}
	if (granted > 0)
		try_out(d, me, ask, granted, now_us);
	else if (stake->after == 0)
		leave(d, me);
	else if (!stake->aside)
		stake->want = stake->after;
	return granted;
}

/* Takes weight, or as much as it has, from a stake. */
static void
put_back(InferDispatch *d, int me, int weight)
{
	InferDispatchStake *stake = &stakes_of(d)[me];
	int gone = weight < stake->expired ? weight : stake->expired;
	int held = weight - gone < stake->held ? weight - gone : stake->held;

	stake->expired -= gone;
	stake->held -= held;
	nodes_of(d)[stake->node].weight -= held;
}

void
infer_dispatch_done(InferDispatch *d, int process, int node, int granted, int used, int64_t now_us)
{
	int me = find_stake(d, node, process);
	InferDispatchStake *stake;
	int left;

	if (me == INFER_NOBODY)
		return;
	stake = &stakes_of(d)[me];
	put_back(d, me, (granted - used) * stake->trial);
	if (stake->aside)
		return;
	stake->wait = used < granted ? INFER_DISPATCH_ELSEWHERE : INFER_DISPATCH_HERE;
	left = stake->after > used ? stake->after - used : 0;
	if (left == 0)
		leave(d, me);
	else if (used > 0)
	{
		unlink_stake(d, me);
		stake->since_us = now_us;
		stake->want = left;
		link_stake(d, me);
	}
	else
		stake->want = left;
}

void
infer_dispatch_give(InferDispatch *d, int process, int node, int weight)
{
	int me = find_stake(d, node, process);

	if (me == INFER_NOBODY)
		return;
	put_back(d, me, weight);
	drop_if_empty(d, me);
}

void
infer_dispatch_leave(InferDispatch *d, int process, int node)
{
	int me = find_stake(d, node, process);

	if (me != INFER_NOBODY && stakes_of(d)[me].want > 0)
		leave(d, me);
}

void
infer_dispatch_reclaim(InferDispatch *d, int process, void (*wake)(void *arg, int node), void *arg)
{
	for (int node = 0; node < d->used_nodes; node++)
	{
		int me = find_stake(d, node, process);
		InferDispatchStake *stake;

		if (me == INFER_NOBODY)
			continue;
		stake = &stakes_of(d)[me];
		put_back(d, me, stake->held + stake->expired);
		leave(d, me);
		wake(arg, node);
	}
}

const InferDispatchNode *
infer_dispatch_node(const InferDispatch *d, int i, bool *more)
{
	const InferDispatchNode *nodes = (const InferDispatchNode *) (d + 1);

	*more = i < d->used_nodes;
	return *more && nodes[i].first != INFER_NOBODY ? &nodes[i] : NULL;
}

const InferDispatchStake *
infer_dispatch_stake(const InferDispatch *d, int i)
{
	return &stakes_of((InferDispatch *) d)[i];
}
