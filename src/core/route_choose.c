/*
 * core/route_choose.c - phase 3: the order of the usable places.
 *
 * Outstanding work alone (failures.md 5.2) would give a server that is twenty times slower a third
 * of the calls of a session that asks one at a time, for nothing is outstanding anywhere when it
 * asks.  So what is compared is what a request would wait for; with equal latencies and penalties
 * the order is the reference's.
 */
#include "core/queue_model.h"
#include "core/route_private.h"

#include <math.h>

#define SLOWER         2.0                      /* times the fastest; below that it is noise */
#define LOOK_US        (6 * INFER_QUEUE_OLD_US) /* an answer that takes longer tells nothing */
#define AFFINITY_BOUND 1.25                     /* times the mean ... */
#define AFFINITY_SLACK 2 /* ... and so many more: one or two are chance, not load */
#define OF_PLACE       (UINT64_C(2) << 32)

/* Smaller is earlier: what, then score, then chance. */
typedef struct PlaceKey
{
	uint64_t what;
	double score;
	double chance;
} PlaceKey;

/* Its own name says more than its node's; of the two lists, AVOID is the more careful. */
static int
preference(const InferRouteRequest *request, const InferRoutePlace *place)
{
	InferNames prefer = request->prefs[INFER_ROUTE_PREFER];
	InferNames avoid = request->prefs[INFER_ROUTE_AVOID];
	const char *names[] = {place->server, place->node};

	if (prefer.n == 0 && avoid.n == 0)
		return 0;
	for (int which = 0; which < 2; which++)
	{
		int position = infer_names_position(prefer, names[which]);

		if (infer_names_have(avoid, names[which]))
			return prefer.n + 1;
		if (position >= 0)
			return position;
	}
	return prefer.n;
}

static bool
has_latency(const InferRoutePlace *place)
{
	return place->latency_us > 0 && place->heard_us > 0;
}

/* One request at a time finds out what an old figure has become: all of them would else go there
 * until the first is back. */
static bool
is_fresh(const InferRouting *routing, const InferRoutePlace *place)
{
	int64_t age_us = routing->now_us - place->heard_us;

	return has_latency(place) &&
		   (age_us <= INFER_QUEUE_OLD_US || (place->in_flight > 0 && age_us <= LOOK_US));
}

static double
weight_of(const InferRoutePlace *place)
{
	return place->weight > 0 ? place->weight : 1;
}

void
infer_route_score(InferRouting *routing)
{
	double fastest = 0;

	for (int i = 0; i < routing->n; i++)
	{
		const InferRoutePlace *place = &routing->places[i];

		routing->pref[i] = preference(routing->request, place);
		routing->bad[i] =
			place->excluded || place->state == INFER_PLACE_BEHIND || !(place->weight > 0);
		routing->fresh[i] = is_fresh(routing, place);
		if (infer_route_usable(routing, i) && has_latency(place) &&
			(fastest == 0 || place->latency_us < fastest))
			fastest = place->latency_us;
	}
	for (int i = 0; i < routing->n; i++)
	{
		const InferRoutePlace *place = &routing->places[i];
		double slowness = 1;

		if (!infer_route_usable(routing, i))
			continue;
		if (routing->fresh[i] && place->latency_us >= SLOWER * fastest)
			slowness = place->latency_us / fastest;
		routing->decision->places[i].score =
			(place->outstanding / weight_of(place) + place->penalty) * slowness;
	}
}

/* A number below 1 whose distribution favours the heavy: the least of several is each one's with
 * the probability of its share of the weights. */
static double
weighted(double uniform, double weight)
{
	return -log1p(-uniform) / weight;
}

/* Rendezvous hashing: the same affinity gives the same order whatever else comes or goes. */
static double
rendezvous(uint64_t affinity, const InferRoutePlace *place)
{
	uint64_t bits = infer_route_mix(affinity ^ infer_route_hash(place->server));

	return weighted((double) (bits >> 11) * 0x1p-53, weight_of(place));
}

/* What a place may hold and still be the one of an affinity. */
static double
affinity_bound(const InferRouting *routing)
{
	double sum = 0;
	int n = 0;

	for (int i = 0; i < routing->n; i++)
		if (infer_route_usable(routing, i))
		{
			sum += routing->places[i].outstanding / weight_of(&routing->places[i]);
			n++;
		}
	return n > 0 ? AFFINITY_BOUND * sum / n + AFFINITY_SLACK : 0;
}

static PlaceKey
key_of(const InferRouting *routing, int i, double bound)
{
	const InferRouteRequest *request = routing->request;
	const InferRoutePlace *place = &routing->places[i];
	const InferRouteVerdict *verdict = &routing->decision->places[i];
	bool busy = request->duration >= INFER_DURATION_LONG && place->duration_weight > 0;
	uint64_t what = (uint64_t) routing->pref[i];
	PlaceKey key = {.score = verdict->score};

	what = what << 1 | (request->is_mut && !place->primary);
	what = what << 1 | !routing->near[i];
	what = what << 1 | routing->bad[i];
	what = what << 1 | busy;
	if (request->affinity != 0)
	{
		what = what << 1 | (place->outstanding / weight_of(place) > bound);
		key.score = rendezvous(request->affinity, place);
	}
	else
		what = what << 16 | (uint64_t) routing->decision->nodes[verdict->node].rank;
	key.what = what;
	key.chance = weighted(infer_route_draw(routing, OF_PLACE + (uint64_t) i), weight_of(place));
	return key;
}

static bool
is_before(const void *keys, int a, int b)
{
	const PlaceKey *of = keys;

	if (of[a].what != of[b].what)
		return of[a].what < of[b].what;
	if (of[a].score != of[b].score)
		return of[a].score < of[b].score;
	return of[a].chance < of[b].chance;
}

void
infer_route_order(InferRouting *routing)
{
	InferRouteDecision *d = routing->decision;
	PlaceKey keys[INFER_ROUTE_MAX_PLACES];
	double bound = routing->request->affinity != 0 ? affinity_bound(routing) : 0;

	for (int i = 0; i < routing->n; i++)
		if (infer_route_usable(routing, i))
		{
			keys[i] = key_of(routing, i, bound);
			d->order[d->n_order++] = i;
		}
	infer_route_sort(d->order, d->n_order, is_before, keys);
	for (int rank = 0; rank < d->n_order; rank++)
		d->places[d->order[rank]].rank = rank;
}
