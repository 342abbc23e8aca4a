/*
 * sim/test_dispatch.c - duration weights of nodes, and who waits for them (core/dispatch).
 *
 * gw_6_1 .. gw_6_5: the numbered statements of the dispatch queue.  The last test makes random
 * moves and compares each with a model that knows nothing of how the line is kept.
 */
#include "core/dispatch.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>

#define MS     INT64_C(1000)
#define SEC    INT64_C(1000000)
#define STAKES 24
#define NODES  3
#define NOBODY INFER_NOBODY

static InferDispatch *d;
static int64_t now;
static int max;
static int32_t woken[32];
static int nwoken;

static void
setup(int maximum)
{
	free(d);
	d = calloc(1, infer_dispatch_size(NODES, STAKES));
	infer_dispatch_init(d, NODES, STAKES);
	now = 1000 * SEC;
	max = maximum;
}

static InferDispatchAsk
ask(int weight, int want, InferPriority priority)
{
	return (InferDispatchAsk){.label = "a",
							  .want = want,
							  .weight = weight,
							  .max = max,
							  .priority = priority,
							  .lasts_us = 60 * SEC,
							  .wait = true,
							  .duration = weight > 1 ? INFER_DURATION_EPIC : INFER_DURATION_LONG};
}

/* A unit that gets its permit, if it gets its weight: true = it leaves. */
static bool
leaves(int process, int weight, InferPriority priority)
{
	InferDispatchAsk a = ask(weight, 1, priority);
	int node;
	int granted = infer_dispatch_take(d, process, &a, now, &node);

	if (granted > 0)
		infer_dispatch_done(d, process, node, granted, granted, now);
	return granted > 0;
}

static void
wake(void *arg, int node)
{
	(void) arg;
	nwoken = infer_dispatch_wake(d, node, now, woken, 32);
}

static void
ends(int process, int weight)
{
	infer_dispatch_give(d, process, 0, weight);
	wake(NULL, 0);
}

static int
in_flight(void)
{
	bool more;
	const InferDispatchNode *node = infer_dispatch_node(d, 0, &more);

	return node == NULL ? 0 : node->weight;
}

/* MEDIUM, LONG, LONG, LONG, MEDIUM with a maximum of 2: MEDIUM, LONG, LONG leave, the third LONG
 * waits, the last MEDIUM leaves at once; the third LONG leaves when one of the two ends. */
static void
test_gw_6_3(void)
{
	static const InferDuration arriving[] = {INFER_DURATION_MEDIUM, INFER_DURATION_LONG,
											 INFER_DURATION_LONG, INFER_DURATION_LONG,
											 INFER_DURATION_MEDIUM};
	static const bool left[] = {true, true, true, false, true};
	static const int assigned[] = {0, 1, 1, 0}; /* of those that left, in order */
	static const int weights[] = {
		[INFER_DURATION_MEDIUM] = 0, [INFER_DURATION_LONG] = 1, [INFER_DURATION_EPIC] = 2};
	int n = 0;

	for (int ends_first = 1; ends_first <= 2; ends_first++)
	{
		setup(2);
		n = 0;
		for (int i = 0; i < 5; i++)
		{
			int weight = weights[arriving[i]];
			int before = in_flight();
			/* what has no weight does not come here */
			bool went = weight == 0 || leaves(i, weight, INFER_PRIORITY_NORMAL);

			CHECK(went == left[i]);
			if (went)
				CHECK(in_flight() - before == assigned[n++]);
		}
		CHECK(n == 4 && in_flight() == 2);
		wake(NULL, 0);
		CHECK(nwoken == 0);
		ends(ends_first, 1);
		CHECK(nwoken == 1 && woken[0] == 3);
		CHECK(leaves(3, 1, INFER_PRIORITY_NORMAL));
		CHECK(in_flight() == 2);
	}
}

/* A unit heavier than the maximum runs when nothing else weighs. */
static void
test_gw_6_3_heavier(void)
{
	setup(1);
	CHECK(leaves(1, 2, INFER_PRIORITY_NORMAL));
	CHECK(in_flight() == 2);
	CHECK(!leaves(2, 2, INFER_PRIORITY_NORMAL));
	CHECK(!leaves(3, 1, INFER_PRIORITY_NORMAL));
	ends(1, 2);
	CHECK(nwoken == 1 && woken[0] == 2);
	CHECK(!leaves(3, 1, INFER_PRIORITY_NORMAL)); /* it is not its turn */
	CHECK(leaves(2, 2, INFER_PRIORITY_NORMAL));
	CHECK(!leaves(3, 1, INFER_PRIORITY_NORMAL));
	ends(2, 2);
	CHECK(leaves(3, 1, INFER_PRIORITY_NORMAL));
	CHECK(!leaves(4, 2, INFER_PRIORITY_NORMAL)); /* something weighs */
	/* a maximum of nothing lets one at a time run */
	setup(0);
	CHECK(leaves(1, 1, INFER_PRIORITY_NORMAL));
	CHECK(!leaves(2, 1, INFER_PRIORITY_NORMAL));
	ends(1, 1);
	CHECK(leaves(2, 1, INFER_PRIORITY_NORMAL));
}

/* Strictly by priority, equal ones as they came. */
static void
test_gw_6_1(void)
{
	static const int turn[] = {5, 3, 6, 2, 4};

	setup(1);
	CHECK(leaves(1, 1, INFER_PRIORITY_LOW));
	CHECK(!leaves(2, 1, INFER_PRIORITY_NORMAL));
	CHECK(!leaves(3, 1, INFER_PRIORITY_HIGH));
	CHECK(!leaves(4, 1, INFER_PRIORITY_NORMAL));
	CHECK(!leaves(5, 1, INFER_PRIORITY_VHIGH));
	CHECK(!leaves(6, 1, INFER_PRIORITY_HIGH));
	ends(1, 1);
	for (int i = 0; i < 5; i++)
	{
		CHECK(nwoken == 1 && woken[0] == turn[i]);
		for (int other = 2; other <= 6; other++)
			if (other != turn[i])
			{
				bool gone = false;

				for (int k = 0; k < i; k++)
					gone |= turn[k] == other;
				if (!gone)
					CHECK(!leaves(other, 1,
								  other == 5                 ? INFER_PRIORITY_VHIGH
								  : other == 3 || other == 6 ? INFER_PRIORITY_HIGH
															 : INFER_PRIORITY_NORMAL));
			}
		CHECK(leaves(turn[i], 1,
					 turn[i] == 5                   ? INFER_PRIORITY_VHIGH
					 : turn[i] == 3 || turn[i] == 6 ? INFER_PRIORITY_HIGH
													: INFER_PRIORITY_NORMAL));
		ends(turn[i], 1);
	}
	CHECK(nwoken == 0 && in_flight() == 0);
}

/* A unit that lacks its permit is passed over, and keeps its place. */
static void
test_gw_6_1_passed_over(void)
{
	InferDispatchAsk a;
	int node;

	setup(1);
	a = ask(1, 1, INFER_PRIORITY_NORMAL);
	CHECK(infer_dispatch_take(d, 1, &a, now, &node) == 1);
	infer_dispatch_done(d, 1, node, 1, 0, now); /* no permit */
	CHECK(in_flight() == 0);
	wake(NULL, 0);
	CHECK(nwoken == 0); /* it waits elsewhere: nobody wakes it here */
	CHECK(leaves(2, 1, INFER_PRIORITY_NORMAL));
	CHECK(!leaves(3, 1, INFER_PRIORITY_NORMAL));
	/* its permit has come, and weight is what it lacks now: it stands before the third */
	CHECK(infer_dispatch_take(d, 1, &a, now, &node) == 0);
	ends(2, 1);
	CHECK(nwoken == 1 && woken[0] == 1);
	CHECK(!leaves(3, 1, INFER_PRIORITY_NORMAL));
	CHECK(leaves(1, 1, INFER_PRIORITY_NORMAL));
}

/* All or nothing: who lacks its permit holds no weight, and nobody can take what is on trial. */
static void
test_gw_6_2(void)
{
	InferDispatchAsk a;
	int node;

	setup(4);
	a = ask(1, 3, INFER_PRIORITY_NORMAL);
	CHECK(infer_dispatch_take(d, 1, &a, now, &node) == 3);
	CHECK(!leaves(2, 2, INFER_PRIORITY_VHIGH));
	infer_dispatch_done(d, 1, node, 3, 1, now);
	CHECK(in_flight() == 1);
	wake(NULL, node);
	CHECK(nwoken == 1 && woken[0] == 2);
	CHECK(leaves(2, 2, INFER_PRIORITY_VHIGH));
	CHECK(in_flight() == 3);
	/* it has had a part, so it comes after one of the same priority that waits */
	CHECK(leaves(3, 1, INFER_PRIORITY_NORMAL));
	CHECK(!leaves(4, 1, INFER_PRIORITY_NORMAL));
	CHECK(infer_dispatch_take(d, 1, &a, now, &node) == 0);
	ends(3, 1);
	CHECK(nwoken == 1 && woken[0] == 1); /* joined before the fourth */
	CHECK(infer_dispatch_take(d, 1, &a, now, &node) == 1);
	infer_dispatch_done(d, 1, node, 1, 1, now);
	ends(1, 1);
	CHECK(nwoken == 1 && woken[0] == 4);
}

/* Who only looks around is in line afterwards if it was before, with the same place. */
static void
test_looking_around(void)
{
	InferDispatchAsk a;
	bool more;
	int node;

	setup(1);
	a = ask(1, 1, INFER_PRIORITY_NORMAL);
	a.wait = false;
	CHECK(infer_dispatch_take(d, 1, &a, now, &node) == 1);
	infer_dispatch_done(d, 1, node, 1, 0, now);
	CHECK(infer_dispatch_node(d, 0, &more) == NULL);
	CHECK(infer_dispatch_take(d, 1, &a, now, &node) == 1);
	infer_dispatch_done(d, 1, node, 1, 1, now);
	CHECK(infer_dispatch_take(d, 2, &a, now, &node) == 0);
	CHECK(!leaves(3, 1, INFER_PRIORITY_NORMAL));
	CHECK(!leaves(4, 1, INFER_PRIORITY_NORMAL));
	CHECK(infer_dispatch_take(d, 3, &a, now, &node) == 0);
	ends(1, 1);
	CHECK(nwoken == 1 && woken[0] == 3);
	CHECK(infer_dispatch_take(d, 3, &a, now, &node) == 1);
	infer_dispatch_done(d, 3, node, 1, 0, now);
	wake(NULL, 0);
	CHECK(nwoken == 1 && woken[0] == 4);
	CHECK(infer_dispatch_take(d, 3, &a, now, &node) == 1);
	infer_dispatch_done(d, 3, node, 1, 1, now);
	ends(3, 1);
	CHECK(in_flight() == 0 && nwoken == 0); /* the fourth has been called */
	CHECK(leaves(4, 1, INFER_PRIORITY_NORMAL));
}

/* Units of one process that differ: the place is that of those it waits for, and the others come
 * last of their priority, also behind those. */
static void
test_looking_aside(void)
{
	InferDispatchAsk look = ask(1, 1, INFER_PRIORITY_NORMAL);
	int node;

	look.wait = false;
	setup(3);
	look.max = 3;
	CHECK(leaves(1, 2, INFER_PRIORITY_NORMAL));
	CHECK(!leaves(2, 2, INFER_PRIORITY_NORMAL));
	/* a small one does not pass the large one of its own process, nor take its place */
	CHECK(infer_dispatch_take(d, 2, &look, now, &node) == 0);
	CHECK(!leaves(3, 1, INFER_PRIORITY_NORMAL));
	/* one of higher priority does */
	look.priority = INFER_PRIORITY_HIGH;
	CHECK(infer_dispatch_take(d, 2, &look, now, &node) == 1);
	infer_dispatch_done(d, 2, node, 1, 0, now);
	CHECK(in_flight() == 2);
	CHECK(infer_dispatch_take(d, 2, &look, now, &node) == 1);
	infer_dispatch_done(d, 2, node, 1, 1, now);
	CHECK(in_flight() == 3);
	ends(2, 1);
	CHECK(in_flight() == 2 && nwoken == 0);
	CHECK(!leaves(4, 2, INFER_PRIORITY_HIGH));
	look.priority = INFER_PRIORITY_VLOW;
	CHECK(infer_dispatch_take(d, 2, &look, now, &node) == 0);
	ends(1, 2);
	CHECK(nwoken == 1 && woken[0] == 4);
	CHECK(leaves(4, 2, INFER_PRIORITY_HIGH));
	ends(4, 2);
	/* it stands where it came, before the third, and for two */
	CHECK(nwoken == 2 && woken[0] == 2 && woken[1] == 3);
	CHECK(leaves(2, 2, INFER_PRIORITY_NORMAL) && in_flight() == 2);
}

/* Small units do not starve a large one that came before. */
static void
test_large_is_not_starved(void)
{
	setup(2);
	CHECK(leaves(1, 1, INFER_PRIORITY_NORMAL));
	CHECK(!leaves(2, 2, INFER_PRIORITY_NORMAL));
	CHECK(!leaves(3, 1, INFER_PRIORITY_NORMAL)); /* there would be room */
	CHECK(leaves(4, 1, INFER_PRIORITY_HIGH));
	ends(1, 1);
	CHECK(nwoken == 0);
	ends(4, 1);
	CHECK(nwoken == 1 && woken[0] == 2);
	CHECK(leaves(2, 2, INFER_PRIORITY_NORMAL));
}

/* Whoever leaves, however, strands nobody behind it. */
static void
test_gw_6_5(void)
{
	setup(2);
	CHECK(leaves(1, 1, INFER_PRIORITY_NORMAL));
	CHECK(!leaves(2, 2, INFER_PRIORITY_HIGH));
	CHECK(!leaves(3, 1, INFER_PRIORITY_NORMAL));
	infer_dispatch_leave(d, 2, 0);
	wake(NULL, 0);
	CHECK(nwoken == 1 && woken[0] == 3);
	/* woken, it goes away without having tried: the wake-up passes on */
	CHECK(!leaves(4, 2, INFER_PRIORITY_NORMAL));
	CHECK(!leaves(5, 1, INFER_PRIORITY_LOW));
	infer_dispatch_leave(d, 4, 0);
	infer_dispatch_leave(d, 4, 0);
	infer_dispatch_reclaim(d, 3, wake, NULL);
	CHECK(nwoken == 1 && woken[0] == 5);
	/* one dies that holds weight */
	CHECK(leaves(5, 1, INFER_PRIORITY_LOW));
	CHECK(!leaves(6, 2, INFER_PRIORITY_LOW));
	infer_dispatch_reclaim(d, 5, wake, NULL);
	CHECK(nwoken == 0);
	infer_dispatch_reclaim(d, 1, wake, NULL);
	CHECK(nwoken == 1 && woken[0] == 6);
	/* and while it tried */
	{
		InferDispatchAsk a = ask(2, 1, INFER_PRIORITY_LOW);
		int node;

		CHECK(infer_dispatch_take(d, 6, &a, now, &node) == 1);
		CHECK(!leaves(7, 1, INFER_PRIORITY_LOW));
		infer_dispatch_reclaim(d, 6, wake, NULL);
		CHECK(nwoken == 1 && woken[0] == 7);
		infer_dispatch_done(d, 6, node, 1, 1, now);
		infer_dispatch_give(d, 6, node, 2);
	}
	CHECK(leaves(7, 1, INFER_PRIORITY_LOW) && in_flight() == 1);
}

/* Who does not come is passed over until it does; who holds weight for too long loses it. */
static void
test_absent_and_expired(void)
{
	setup(1);
	CHECK(leaves(1, 1, INFER_PRIORITY_NORMAL));
	CHECK(!leaves(2, 1, INFER_PRIORITY_HIGH));
	CHECK(!leaves(3, 1, INFER_PRIORITY_NORMAL));
	ends(1, 1);
	CHECK(nwoken == 1 && woken[0] == 2);
	now += 100 * MS;
	CHECK(!leaves(3, 1, INFER_PRIORITY_NORMAL));
	now += 1;
	CHECK(leaves(3, 1, INFER_PRIORITY_NORMAL));
	CHECK(!leaves(2, 1, INFER_PRIORITY_HIGH));
	/* the third's request lasts for a minute at most */
	now += 60 * SEC;
	CHECK(!leaves(2, 1, INFER_PRIORITY_HIGH));
	now += SEC;
	CHECK(leaves(2, 1, INFER_PRIORITY_HIGH));
	CHECK(in_flight() == 1);
	ends(3, 1); /* counts no more */
	CHECK(in_flight() == 1 && nwoken == 0);
	/* nor when it has taken anew in between */
	now += 61 * SEC;
	CHECK(leaves(3, 1, INFER_PRIORITY_LOW) && in_flight() == 1);
	ends(3, 1);
	CHECK(leaves(2, 1, INFER_PRIORITY_HIGH));
	ends(2, 1);
	CHECK(in_flight() == 1);
	CHECK(!leaves(4, 1, INFER_PRIORITY_HIGH));
	ends(2, 1);
	CHECK(nwoken == 1 && woken[0] == 4 && in_flight() == 0);
	ends(2, 1); /* what it does not hold */
	CHECK(in_flight() == 0);
	infer_dispatch_leave(d, 4, 0);
	/* stopped while it tried */
	{
		InferDispatchAsk a = ask(1, 1, INFER_PRIORITY_NORMAL);
		int node;

		CHECK(infer_dispatch_take(d, 1, &a, now, &node) == 1);
		now += 61 * SEC;
		CHECK(leaves(2, 1, INFER_PRIORITY_NORMAL) && in_flight() == 1);
		infer_dispatch_done(d, 1, node, 1, 1, now);
		CHECK(in_flight() == 1);
		infer_dispatch_give(d, 1, node, 1);
		CHECK(in_flight() == 1);
	}
	/* of two requests, the time of the one that lasts longer */
	setup(2);
	CHECK(leaves(1, 1, INFER_PRIORITY_NORMAL));
	now += 30 * SEC;
	CHECK(leaves(1, 1, INFER_PRIORITY_NORMAL));
	now += 31 * SEC;
	CHECK(!leaves(2, 1, INFER_PRIORITY_NORMAL));
	now += 30 * SEC;
	CHECK(leaves(2, 1, INFER_PRIORITY_NORMAL) && in_flight() == 1);
}

/* Nodes do not know each other; a full table, or pool, says so and takes nothing. */
static void
test_nodes(void)
{
	InferDispatchAsk a = ask(1, 1, INFER_PRIORITY_NORMAL);
	char labels[][2] = {"a", "b", "c", "d"};
	bool more;
	int node;

	setup(1);
	a.max = 1;
	for (int i = 0; i < NODES; i++)
	{
		a.label = labels[i];
		CHECK(infer_dispatch_take(d, 1, &a, now, &node) == 1 && node == i);
		infer_dispatch_done(d, 1, node, 1, 1, now);
		CHECK(infer_dispatch_take(d, 2, &a, now, &node) == 0 && node == i);
	}
	a.label = labels[3];
	CHECK(infer_dispatch_take(d, 1, &a, now, &node) == 0 && node == NOBODY);
	/* a node of which nothing is left makes room */
	infer_dispatch_give(d, 1, 1, 1);
	CHECK(infer_dispatch_take(d, 1, &a, now, &node) == 0 && node == NOBODY);
	infer_dispatch_leave(d, 2, 1);
	CHECK(infer_dispatch_node(d, 1, &more) == NULL && more);
	CHECK(infer_dispatch_node(d, 3, &more) == NULL && !more);
	CHECK(infer_dispatch_take(d, 1, &a, now, &node) == 1 && node == 1);
	CHECK(strcmp(infer_dispatch_node(d, 1, &more)->label, "d") == 0);
	infer_dispatch_done(d, 1, 1, 1, 0, now);
	infer_dispatch_leave(d, 1, 1);
	for (int process = 3; process < STAKES - 1; process++)
	{
		CHECK(infer_dispatch_take(d, process, &a, now, &node) == (process == 3) && node == 1);
		if (process == 3)
			infer_dispatch_done(d, 3, node, 1, 1, now);
	}
	CHECK(infer_dispatch_take(d, 99, &a, now, &node) == 0 && node == NOBODY);
	/* the stakes come back */
	for (int process = 0; process < STAKES; process++)
		infer_dispatch_reclaim(d, process, wake, NULL);
	for (int i = 0; i < NODES; i++)
		CHECK(infer_dispatch_node(d, i, &more) == NULL);
	for (int process = 0; process < STAKES; process++)
		CHECK(infer_dispatch_take(d, process, &a, now, &node) == (process == 0) && node != NOBODY);
}

/* --- Random moves against a model --- */

#define PROCESSES 8

typedef struct Waiter
{
	int want;
	int weight;
	int priority;
	int64_t place; /* the smaller the earlier */
	bool here;
	bool called; /* woken, and has not tried since */
	int64_t called_us;
	int held;
} Waiter;

static Waiter w[PROCESSES];
static int64_t places;

static uint64_t
draw(uint64_t *seed, uint64_t n)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (*seed >> 33) % n;
}

static int
total(void)
{
	int sum = 0;

	for (int i = 0; i < PROCESSES; i++)
		sum += w[i].held;
	return sum;
}

static bool
counts(const Waiter *x)
{
	return x->want > 0 && x->here && !(x->called && now - x->called_us > 100 * MS);
}

static bool
before(const Waiter *x, const Waiter *y)
{
	return x->priority > y->priority || (x->priority == y->priority && x->place < y->place);
}

/* Every waiter to whom weight is due has been called, and only such. */
static void
note_called(void)
{
	wake(NULL, 0);
	for (int i = 0; i < nwoken; i++)
	{
		Waiter *x = &w[woken[i]];

		CHECK(counts(x) && !x->called);
		x->called = true;
		x->called_us = now;
	}
	for (int i = 0; i < PROCESSES; i++)
	{
		int needed = total();
		bool first = true;

		if (!counts(&w[i]))
			continue;
		for (int k = 0; k < PROCESSES; k++)
			if (k != i && counts(&w[k]) && before(&w[k], &w[i]))
			{
				needed += w[k].want * w[k].weight;
				first = false;
			}
		if (needed + w[i].weight <= max || (first && needed == 0))
			CHECK(w[i].called);
	}
}

/* The process as it stands in line while it asks; what it stood there for is apart if it looks
 * for something else. */
static Waiter
asking(Waiter *x, const InferDispatchAsk *a)
{
	Waiter me = *x;

	if (x->want == 0 || x->priority != (int) a->priority || (!a->wait && x->weight != a->weight))
		me.place = ++places;
	me.want = a->want;
	me.weight = a->weight;
	me.priority = a->priority;
	return me;
}

static void
random_take(int p, uint64_t *seed)
{
	Waiter *x = &w[p];
	Waiter me;
	InferDispatchAsk a =
		ask(1 + (int) draw(seed, 3), 1 + (int) draw(seed, 3), (InferPriority) draw(seed, 3));
	bool apart;
	int ahead = total();
	bool first = true;
	int node;
	int granted;
	int used;

	a.wait = draw(seed, 3) > 0;
	apart = !a.wait && x->want > 0 && (x->priority != (int) a.priority || x->weight != a.weight);
	me = asking(x, &a);
	if (!apart)
	{
		x->here = true;
		x->called = false;
	}
	for (int i = 0; i < PROCESSES; i++)
		if ((i != p || apart) && counts(&w[i]) && before(&w[i], &me))
		{
			ahead += w[i].want * w[i].weight;
			first = false;
		}
	granted = infer_dispatch_take(d, p, &a, now, &node);
	CHECK(granted <= a.want);
	/* no inversion: all that come before could go as well; and nothing that fits is refused */
	if (granted > 0)
		CHECK(ahead + granted * a.weight <= max || (granted == 1 && first && ahead == 0));
	if (granted < a.want && !(granted == 1 && first && ahead == 0))
		CHECK(ahead + (granted + 1) * a.weight > max && !(granted == 0 && first && ahead == 0));
	if (!apart)
	{
		x->place = me.place;
		x->weight = me.weight;
		x->priority = me.priority;
		x->want = a.wait ? a.want : x->want;
		x->here = granted == 0; /* or on trial */
	}
	if (granted == 0)
		return;
	x->held += granted * a.weight;
	note_called();
	used = (int) draw(seed, granted + 1);
	infer_dispatch_done(d, p, node, granted, used, now);
	x->held -= (granted - used) * a.weight;
	if (apart)
		return;
	x->want = x->want > used ? x->want - used : 0;
	x->here = used == granted;
	if (used > 0)
		x->place = ++places;
}

static void
test_random_model(void)
{
	for (uint64_t run = 1; run <= 300; run++)
	{
		uint64_t seed = run;

		setup((int) draw(&seed, 4));
		memset(w, 0, sizeof(w));
		for (int step = 0; step < 300; step++)
		{
			int p = (int) draw(&seed, PROCESSES);
			Waiter *x = &w[p];

			now += (int64_t) draw(&seed, 60) * MS;
			switch (draw(&seed, 8))
			{
				case 0:
					infer_dispatch_leave(d, p, 0);
					x->want = 0;
					x->called = false;
					break;
				case 1:
					nwoken = 0;
					infer_dispatch_reclaim(d, p, wake, NULL);
					for (int i = 0; i < nwoken; i++) /* in its callback; noted below */
						w[woken[i]].called = true, w[woken[i]].called_us = now;
					nwoken = 0;
					memset(x, 0, sizeof(*x));
					break;
				case 2:
				case 3:
				case 4:
					if (x->held > 0)
					{
						int n = 1 + (int) draw(&seed, x->held);

						infer_dispatch_give(d, p, 0, n);
						x->held -= n;
					}
					break;
				default:
					random_take(p, &seed);
			}
			note_called();
			CHECK(in_flight() == total());
			if (tap_failures > 0)
			{
				printf("# run %d, step %d\n", (int) run, step);
				return;
			}
		}
	}
}

int
main(void)
{
	tap_run("gw_6_3: MEDIUM, LONG, LONG, LONG, MEDIUM with a maximum of 2", test_gw_6_3);
	tap_run("gw_6_3: heavier than the maximum", test_gw_6_3_heavier);
	tap_run("gw_6_1: by priority, then as they came", test_gw_6_1);
	tap_run("gw_6_1: who lacks something else is passed over", test_gw_6_1_passed_over);
	tap_run("gw_6_2: all or nothing", test_gw_6_2);
	tap_run("looking around", test_looking_around);
	tap_run("gw_6_1: looking around for something else", test_looking_aside);
	tap_run("a large unit is not starved", test_large_is_not_starved);
	tap_run("gw_6_5: nobody is stranded", test_gw_6_5);
	tap_run("the absent and the expired", test_absent_and_expired);
	tap_run("nodes, and no room for more", test_nodes);
	tap_run("gw_6_1: random moves against a model", test_random_model);
	free(d);
	return tap_done();
}
