/*
 * core/peer.h - what is known of an address, and when it may be dialled again.
 *
 * InferPeer: does the address answer?  failures.md 4.4 and 4.5; P41, P43, P44.
 *   available   the normal case, and what an address is of which nothing is known
 *   failed      connections have failed, and nothing but failed, over at least 4 seconds.  The span
 *               is between the first and the last failure: one failure and then silence proves
 *               nothing.  Any answer (a 429 or a 500 is one) ends it.  So does a minute without any
 *               failure: nobody has looked, nothing is known.
 * Failures of requests that were sent before the last answer tell nothing new.  `version` counts
 * the changes between the two, `disconnects` the connections that ended: who waits for a change
 * notes the number first, looks second and sleeps third, and loses none.
 *
 * InferDial: backoff of connections, for all sessions together.  failures.md 4.2; P39, P40.
 *   The first dial waits for nothing.  After a connection that failed (lookup, connect, TLS) the
 *   next dial leaves 50 ms after the last one, then 60, 72 ... 500 ms (x 1.2, +-10 %), one at a
 *   time, until something is heard: an answer to whatever request, or the end of a connection that
 *   was made since.  A dial of which nothing is heard does not hold the next one up for longer than
 *   the longest delay: it may be connected, and its answer may take a while.  The delay starts at
 *   50 ms again only after 5 seconds without a failed connection, counted from an answer.
 *   Requests that had left already when the first one failed are a burst: their failures count
 *   as one.  A request on a connection that is still open counts as a dial: nobody knows before.
 *
 * InferLoading: does it say that it is not ready?  It is believed for ten seconds: whoever says it
 * again is believed again, and where nobody has asked since, a request that asks is served
 * elsewhere if it still is so.
 *
 * InferDeadModels: models that a server has said it does not have (404, model not found), so that
 * nobody asks again until the placement changes (version), or a minute has passed: servers load
 * models later.  Refusals of other kinds never get here: 401, 403, 429, 503.  P42.
 *
 * FOR THE CALLER.  Flat, live in shared memory: all but InferDial under the slot's lock, InferDial
 * under its admission key's.  Nothing here allocates, raises or sleeps.  Time is passed in
 * (monotonic microseconds > 0), and the draw for the jitter.
 */
#ifndef INFER_CORE_PEER_H
#define INFER_CORE_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/types.h"

/* --- The address --- */

#define INFER_PEER_DETECTION_US INT64_C(4000000)

/* Memory must be zero before the first use. */
typedef struct InferPeer
{
	int64_t since_us; /* the first failure of the run; 0 = no run */
	int64_t heard_us; /* the last one */
	int64_t alive_us; /* the last answer; 0 = none yet */
	int64_t disconnects;
	uint64_t version;
	bool failed; /* as told by version; infer_peer_failed() knows of time, too */
} InferPeer;

/* A connection could not be made for a request that was sent then. */
extern void infer_peer_hear_failure(InferPeer *p, int64_t sent_us, int64_t now_us);
/* An answer of any kind. */
extern void infer_peer_hear_answer(InferPeer *p, int64_t now_us);
/* A connection ended before its answer. */
extern void infer_peer_hear_disconnect(InferPeer *p);

/* Is it known, and not for too long, that nobody can connect? */
extern bool infer_peer_failed(const InferPeer *p, int64_t now_us);
/* For how long nothing but failures has been heard; 0 = not, as far as is known. */
extern int64_t infer_peer_failing_us(const InferPeer *p, int64_t now_us);

/* How long to bear with an address that fails: (sustained + slope * elapsed) / (1 - slope), where
 * elapsed is how long the caller had been waiting when it began to fail.  slope is clamped to
 * 0 .. 0.99; the sum ends at INT64_MAX. */
extern int64_t infer_peer_patience_us(int64_t sustained_us, double slope, int64_t elapsed_us);
/* When one who began to wait then loses patience; INT64_MAX = it does not fail. */
extern int64_t infer_peer_patience_ends_us(const InferPeer *p, int64_t began_us,
										   int64_t sustained_us, double slope, int64_t now_us);

/* --- Loading --- */

#define INFER_LOADING_TTL_US INT64_C(10000000)

/* Memory must be zero before the first use. */
typedef struct InferLoading
{
	int64_t since_us; /* 0 = it is ready */
	int64_t heard_us; /* it said so last */
} InferLoading;

/* It says whether it is loading.  True: it is ready again. */
extern bool infer_loading_hear(InferLoading *l, bool loading, int64_t now_us);
/* Since when it has been loading; 0 = it is not, as far as is known. */
extern int64_t infer_loading_since_us(const InferLoading *l, int64_t now_us);

/* --- Dialling --- */

/* Memory must be zero before the first use. */
typedef struct InferDial
{
	uint32_t epoch;   /* counts failures, and answers that opened */
	bool closed;      /* a connection failed, and none has been made since */
	int64_t delay_us; /* between the last dial and the next; 0 = none has failed yet */
	int64_t next_us;  /* closed: when the next one may leave */
	int64_t last_us;  /* when the last request left */
	int64_t up_us;    /* since when connections are made; 0 = never yet */
} InferDial;

/* What a request in flight remembers; kept by its owner, flat. */
typedef struct InferDialMark
{
	uint32_t epoch;
	bool dial; /* it is the one that may leave */
} InferDialMark;

/* How many requests may leave now: INT32_MAX, or 1 or 0. */
extern int infer_dial_room(const InferDial *d, int64_t now_us);
extern int64_t infer_dial_opens_us(const InferDial *d, int64_t now_us);
/* Requests leave, as many as there was room for. */
extern InferDialMark infer_dial_take(InferDial *d, int64_t now_us);
/* A request has ended; draw in [0, 1). */
extern void infer_dial_hear(InferDial *d, const InferDialMark *mark, InferReason reason,
							InferVerdict verdict, int64_t now_us, double draw);
/* ... or never left: another one may. */
extern void infer_dial_unsent(InferDial *d, const InferDialMark *mark, int64_t now_us);

/* --- Models that are not there --- */

#define INFER_DEAD_MODELS 8
#define INFER_DEAD_TTL_US INT64_C(60000000)

typedef struct InferDeadModel
{
	uint64_t model;   /* a hash of its name at the server, by the caller */
	int64_t version;  /* of the set of placements */
	int64_t until_us; /* 0 = an empty place */
} InferDeadModel;

/* Memory must be zero before the first use. */
typedef struct InferDeadModels
{
	InferDeadModel entry[INFER_DEAD_MODELS];
	int32_t next; /* to be overwritten */
} InferDeadModels;

/* A request for that model was refused; says_model: the answer's own words name the model as what
 * was not found.  True: it is noted as dead. */
extern bool infer_dead_hear(InferDeadModels *t, uint64_t model, int64_t version, InferReason reason,
							bool says_model, int64_t now_us);
extern bool infer_dead_is(const InferDeadModels *t, uint64_t model, int64_t version,
						  int64_t now_us);
/* It has answered; or the server is another incarnation (all of them: infer_dead_clear_all()). */
extern void infer_dead_clear(InferDeadModels *t, uint64_t model);
extern void infer_dead_clear_all(InferDeadModels *t);

#endif
