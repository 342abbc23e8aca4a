/*
 * core/route.h - which of a model's places serves a request: three phases over a snapshot.
 *
 * A place is "this model runs on this server", with what is known of the server at this moment.
 *
 * 1. ELIMINATE.  A place falls to the first of these that applies, in this order, so that what the
 *    request asks for comes before what happens to be down:
 *
 *      what the request says   nodes, service_classes, version (min_version), feeds, time range,
 *                              EXCLUDE
 *      privilege               the caller has no USAGE on the server
 *      state                   dead (this server does not have this model), draining, failed
 *      tier                    only the lowest tier with a usable place takes part
 *      completeness            all needed service classes; with is_solo on one node
 *      INCLUDE                 what is not included, when something is
 *      test_ctl                the versions that it leaves out, of those that are available; of an
 *                              INCLUDE target, of those that it has
 *
 * 2. RANK NODES.  PREFER; the caller's own node (locality, unless enough of it is bad); healthy
 *    before unhealthy; health factor; load factor, in steps of a tenth; AVOID last.  Among equals a
 *    node whose best server is much slower or busier comes last; then strategy decides: smart takes
 *    the node of the last success, rr the next in turn.  One smart request in a hundred goes to an
 *    equal node of which nothing was heard of late, if there is one: how would anybody know that it
 *    has become the better one?
 *
 * 3. CHOOSE SERVERS.  Places are ordered by: preference; primary, for what may mutate; distance;
 *    whether they are bad (excluded for overload, or loading); LONG or EPIC work held, for such
 *    work; rank of the node; queue model; at random.  With an affinity, rendezvous hashing takes
 *    the place of the last three, passing over places that hold more than 1.25 times the mean and
 * two.
 *
 *    The queue model's score is what a request would wait for:
 *        (outstanding / weight + penalty) x slowness
 *    where slowness is the latency as a multiple of the fastest one's, taken as 1 below 2 and when
 *    it is older than ten seconds: what was slow then is tried again, by one request at a time.
 *    What was fast, however long ago, is a reason to leave what is slow now.  Equal scores: at
 *    random, by weight.
 *
 * The order holds every usable place once: who takes the first that has room keeps all of them
 * busy.  The plan is what the request needs: one place per service class, or every INCLUDE target.
 *
 * Pure: no allocation, no clock, nothing random but the draw.  The same input gives the same
 * decision.  Strings are borrowed, from the input too, and may be NULL where "" may stand.
 */
#ifndef INFER_CORE_ROUTE_H
#define INFER_CORE_ROUTE_H

#include "core/types.h"

/* The most places that one decision looks at; more are not seen. */
#define INFER_ROUTE_MAX_PLACES 256
/* The most members of any list of a request that count; more are refused when it is read. */
#define INFER_ROUTE_MAX_NAMES 64

#define INFER_ROUTE_NO_VERSION (-1)

/* A list of names, which are not changed. */
typedef struct InferNames
{
	int n;
	char **names;
} InferNames;

/* [from, to), microseconds of any one epoch; INT64_MIN and INT64_MAX are infinite.  Not set:
 * nothing is said of time. */
typedef struct InferTimeRange
{
	bool set;
	int64_t from;
	int64_t to;
} InferTimeRange;

/* Which version, where several are available. */
typedef enum InferTestControl
{
	INFER_TEST_PROD,  /* the lowest */
	INFER_TEST_TEST,  /* the highest */
	INFER_TEST_ANY,   /* whichever is best otherwise */
	INFER_TEST_RANDOM /* the highest for test_percent of the requests, else the lowest */
} InferTestControl;

/* Preferences: lists of servers or nodes. */
typedef enum InferRoutePref
{
	INFER_ROUTE_INCLUDE, /* every one is in the plan */
	INFER_ROUTE_EXCLUDE, /* none is */
	INFER_ROUTE_PREFER,  /* before others */
	INFER_ROUTE_AVOID,   /* after others */
	INFER_ROUTE_PREFS
} InferRoutePref;

typedef enum InferStrategy
{
	INFER_STRATEGY_SMART,
	INFER_STRATEGY_RR
} InferStrategy;

/* What a request asks of its place.  Begin with infer_route_request_init(). */
typedef struct InferRouteRequest
{
	InferNames nodes;           /* its node is one of them; none = any */
	InferNames feeds;           /* it has all of them */
	InferNames service_classes; /* a place for each of them; none = one place of any class */
	InferNames prefs[INFER_ROUTE_PREFS];
	int version;     /* M.NN as M * 100 + NN: just this, in tier 0; or INFER_ROUTE_NO_VERSION */
	int min_version; /* of the model's own places, tier 0; or INFER_ROUTE_NO_VERSION */
	InferTestControl test_ctl;
	double test_percent; /* 0..100 */
	bool is_mut;         /* may change something: prefers a primary */
	bool is_solo;        /* all on one node */
	InferDuration duration;
	InferTimeRange ts_range;
	InferStrategy strategy;
	const char *last_node; /* smart: served the caller's last success */
	uint64_t turn;         /* rr: counts up with each request */
	const char *locality;  /* the caller's own node; empty is near nothing */
	uint64_t affinity;     /* requests with the same one prefer the same server; 0 = none */
	int min_tier;          /* lower ones are used up */
	bool probe;            /* all have failed: choose as if they could be reached */
} InferRouteRequest;

typedef enum InferPlaceState
{
	INFER_PLACE_UP,       /* or nothing is known of it */
	INFER_PLACE_BEHIND,   /* answers, but is loading or has another revision */
	INFER_PLACE_FAILED,   /* cannot be reached */
	INFER_PLACE_DRAINING, /* takes nothing new */
	INFER_PLACE_DEAD      /* never again, until the catalog changes: it does not have this model */
} InferPlaceState;

typedef struct InferRoutePlace
{
	/* what the catalogs say */
	const char *server;
	const char *node; /* a server without one is its own node */
	const char *service_class;
	int version;   /* as the request's; none counts as 0.00 */
	double weight; /* its share compared with the others; <= 0: when the others are bad */
	InferNames feeds;
	InferTimeRange ts_range; /* what its data cover; not set = everything */
	bool primary;
	int tier;       /* 0 = the model's own, then its fallbacks' */
	bool permitted; /* the caller has USAGE */
	bool no_room;   /* the table of admission keys is full, and has not its own */

	/* what the route table says */
	InferPlaceState state;
	bool excluded;        /* by the queue model: overloaded, behind */
	double outstanding;   /* weighted */
	double penalty;       /* >= 1 */
	double latency_us;    /* of comparable units; <= 0: unknown */
	int64_t heard_us;     /* when the latency was; <= 0: unknown */
	bool doubted;         /* ... and it was no success */
	int in_flight;        /* requests of all sessions */
	int limit;            /* how many may be; <= 0: unknown */
	int duration_weight;  /* of the LONG and EPIC work that the server holds */
	double health_weight; /* of its service class, in the node's health factor */
	double node_load;     /* its node's load factor as sampled, 0..1; <= 0: idle or unknown */
	double node_health;   /* its node's health factor; <= 0: to be computed from the places */
} InferRoutePlace;

/* What eliminated a place, in the order in which it is looked at. */
typedef enum InferRouteReason
{
	INFER_BY_NOTHING, /* it is usable */
	INFER_BY_NODES,
	INFER_BY_SERVICE_CLASSES,
	INFER_BY_VERSION,
	INFER_BY_MIN_VERSION,
	INFER_BY_FEEDS,
	INFER_BY_TS_RANGE,
	INFER_BY_EXCLUDE,
	INFER_BY_PRIVILEGE,
	INFER_BY_NO_ROOM,
	INFER_BY_DEAD,
	INFER_BY_DRAINING,
	INFER_BY_FAILED,
	INFER_BY_TIER,
	INFER_BY_INCOMPLETE, /* a needed service class is nowhere to be had */
	INFER_BY_SOLO,       /* ... not on its node */
	INFER_BY_INCLUDE,
	INFER_BY_TEST_CTL,
	INFER_BY_COUNT
} InferRouteReason;

typedef struct InferRouteVerdict
{
	InferRouteReason reason;
	bool planned;
	int rank;     /* its position in the order, from 0; -1 = eliminated */
	int node;     /* index into the decision's nodes */
	double score; /* of the queue model, the less the better; eliminated: 0 */
} InferRouteVerdict;

typedef struct InferRouteNode
{
	const char *name;
	bool usable;          /* has a usable place */
	bool healthy;         /* ... which is not bad */
	double health_factor; /* weights of its healthy servers' classes */
	double load;          /* 0 = idle */
	double score;         /* of its best place */
	int rank;             /* from 0, among the usable ones; else -1 */
} InferRouteNode;

/* Why there is no place, and what would help. */
typedef enum InferRouteCause
{
	INFER_CAUSE_NONE,         /* there is one */
	INFER_CAUSE_NO_DEST,      /* nothing matches: another request, or another placement */
	INFER_CAUSE_NO_PRIVILEGE, /* a grant */
	INFER_CAUSE_STALE,        /* all are dead: the catalog is to be put right */
	INFER_CAUSE_DRAINING,     /* all that are not dead are drained, by somebody */
	INFER_CAUSE_ALL_FAILED    /* waiting */
} InferRouteCause;

typedef struct InferRouteDecision
{
	InferRouteCause cause;
	/* of a cause: the step that left nothing; NOTHING = there were no places to begin with */
	InferRouteReason reason;
	const char *target; /* INCLUDE: what is not to be had; INCOMPLETE, SOLO: the class */
	InferRouteReason target_reason; /* INCLUDE: why not; NOTHING = no place has that name */

	int tier;    /* the one used */
	int n_order; /* usable places, the best first; 0 for a cause */
	int order[INFER_ROUTE_MAX_PLACES];
	int n_plan; /* what the request needs, the best first; > 1: several at once */
	int plan[INFER_ROUTE_MAX_PLACES];
	int n_nodes;
	InferRouteNode nodes[INFER_ROUTE_MAX_PLACES];
	InferRouteVerdict places[INFER_ROUTE_MAX_PLACES]; /* as many as there are places */
} InferRouteDecision;

/* Any place will do: no version, test_ctl PROD, MEDIUM, smart. */
extern void infer_route_request_init(InferRouteRequest *request);

/* draw in [0,1).  decision need not be initialised; its first n_... members of each array are set.
 */
extern void infer_route_decide(const InferRouteRequest *request, const InferRoutePlace *places,
							   int n, int64_t now_us, double draw, InferRouteDecision *decision);

/* "exclude", "min_version", ...; NOTHING is "usable".  Never NULL. */
extern const char *infer_route_reason_name(InferRouteReason reason);

/* Is the name one of them? */
extern bool infer_names_have(InferNames names, const char *name);

#endif
