/*
 * sim/world.h - the simulated world: a clock, servers, PostgreSQL instances and their sessions.
 *
 * Discrete events, in order of time and then of making.  All chance comes from one seed, all time
 * from the world's clock, so that a seed is a run.  The sessions do what call/pump.c does, with the
 * code of src/core: their window, the permits of their instance, retries, and so on.  After every
 * event check.c looks whether what must always hold does; what does not is counted and described.
 *
 * Not modelled: CPU of the server, lost packets.  A request takes `net_us` each way.
 */
#ifndef INFER_SIM_WORLD_H
#define INFER_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/admission.h"
#include "core/window.h"

#include "clock.h"

#define MAX_SESSIONS  128 /* of one instance */
#define MAX_INSTANCES 8
#define MAX_SCRIPT    128

/* A server: slots, a queue, and what it does beyond. */
typedef struct Server
{
	int slots;
	int queue; /* -1 = without a limit */
	double base_us;
	double sigma; /* of the lognormal latency */
	int64_t net_us;
	int64_t retry_after_us;
	bool storm;            /* refuses everything */
	bool broken;           /* fails everything, at once */
	bool dead;             /* cannot be connected to */
	int64_t cold_until_us; /* answers take four times as long */
	/* requests a minute, beyond which it refuses; 0 = no limit */
	int rpm;
	/* now */
	int busy;
	int queued;
	int head; /* of the queue, request numbers */
	int tail;
	int64_t since_us;
	/* arrivals that were let in, the last minute's, for rpm */
	int64_t *admitted;
	int nadmitted;
	int admitted_size;
	/* statistics */
	double busy_us; /* slots times time */
	double slots_us;
	int served;
	int refused;
	int failed; /* while it was broken */
	int dials;  /* while it was dead */
	int peak;   /* in service and waiting */
	int most_a_minute;
	/* after so many served: other slots and queue (0 = never) */
	int change_after;
	int change_slots;
	int change_queue;
} Server;

typedef struct Instance
{
	InferAdmission admission;
	InferAdmissionNode nodes[MAX_SESSIONS];
	/* what check.c has seen: failures in a row of requests sent since an answer, and probes */
	int failures;
	int64_t alive_us;
	int64_t failed_us;
	int64_t probe_us; /* or when the last failure before the first one came */
	/* since a connection could not be made: when the last one left, and when an answer came */
	bool closed;
	int64_t dial_us;
	int64_t opened_us;
} Instance;

typedef struct Session
{
	bool alive;
	int instance;
	int node;
	uint32_t life; /* of the requests that are its own */
	int64_t rows;  /* to send, not counting what sleeps */
	int64_t rows_done;
	int64_t rows_failed; /* given up */
	int64_t rows_all;
	InferPriority priority;
	int64_t tokens;
	InferWindow window;
	int in_flight;
	int finished;    /* list of requests whose answer is here */
	int sleeping;    /* list of requests to be repeated */
	bool paused;     /* does not look */
	int64_t look_us; /* of the look that is due, INT64_MAX = none */
	int64_t busy_until_us;
	int64_t waits_since_us; /* in line, -1 = not */
	int64_t longest_wait_us;
	int64_t begun_us;
	int64_t ended_us;
	int64_t retries;
} Session;

typedef struct Request
{
	int next;      /* of whatever list */
	uint32_t life; /* differs from that of any other request; 0 = not in use */
	int session;
	uint32_t session_life;
	InferPermit permit;
	int64_t stamp;
	uint32_t window_epoch;
	int64_t sent_us;
	int64_t not_before_us;
	int attempts;
	InferVerdict verdict;
	InferReason reason;
	int64_t retry_after_us;
	bool at_server;
} Request;

typedef enum EventKind
{
	EVENT_LOOK,
	EVENT_ARRIVE,
	EVENT_SERVED,
	EVENT_REPLY,
	EVENT_SCRIPT,
	EVENT_SAMPLE
} EventKind;

/* What happens to the world from outside, in terms of its fields. */
typedef enum ScriptKind
{
	SCRIPT_SLOTS, /* a = slots, b = queue */
	SCRIPT_STORM, /* a = 1 begins, 0 ends */
	SCRIPT_BREAK, /* a = 1: the server is broken, 0: it is well */
	SCRIPT_DEAD,  /* a = 1: nobody listens, 0: somebody does */
	SCRIPT_FAIL,  /* all requests at the server end in an error, it comes back cold for a us */
	SCRIPT_JOIN,  /* a = session (prepared) */
	SCRIPT_LEAVE, /* a = session: stops asking, waits for what it has */
	SCRIPT_CRASH, /* a = session: gone; b = us until its permits are reclaimed */
	SCRIPT_PAUSE, /* a = session, b = us */
	SCRIPT_RESUME,
	SCRIPT_RECLAIM
} ScriptKind;

typedef struct Script
{
	ScriptKind kind;
	int64_t a;
	int64_t b;
} Script;

/* A point of the curves. */
typedef struct Sample
{
	int64_t at;
	double limit[MAX_INSTANCES];
	int in_flight[MAX_INSTANCES];
	int at_server;
	int slots;
	int refused;
} Sample;

typedef struct World
{
	int64_t now;
	Random random;
	uint32_t serial;
	Events events;
	Server server;
	Instance instances[MAX_INSTANCES];
	int ninstances;
	Session sessions[MAX_INSTANCES * MAX_SESSIONS];
	int nsessions;
	Request *requests;
	int nrequests;
	int requests_size;
	int free_request;
	Script script[MAX_SCRIPT];
	int nscript;
	/* how the sessions are made */
	InferAdmissionConfig config;
	bool driver_window; /* else only the shared limit */
	bool window_means;
	int64_t window_max;
	int64_t window_floor;
	int64_t turn_us; /* a session's work for one request */
	int64_t wake_us;
	int64_t backstop_us; /* a sleeper looks by itself; 0 = never, so that a lost wake-up shows */
	bool knows_left;     /* sessions say how many rows are left */
	int64_t patience_us; /* with a server that fails */
	/* mutations of the caller's part */
	bool releases_first; /* the place before what the answer tells */
	bool wakes_one;      /* of those that could go */
	bool skips_reclaim;
	bool ignores_epochs;
	bool probes_always; /* without a pause */
	bool dials_always;
	bool stops_at_violation;
	/* findings */
	int violations;
	char first_violation[200];
	int64_t events_done;
	/* curves */
	int64_t sample_us;
	Sample *samples;
	int nsamples;
	int samples_size;
} World;

/* world.c */
extern World *world_new(uint64_t seed);
extern void world_free(World *w);
extern void world_at(World *w, int64_t at, EventKind kind, int which, uint32_t life);
extern void world_script(World *w, int64_t at, ScriptKind kind, int64_t a, int64_t b);
/* Until nothing is left to happen, or until that time. */
extern void world_run(World *w, int64_t until);
extern int world_request(World *w);
extern void world_drop_request(World *w, int which);
/* Sends a request on its way. */
extern void server_send(World *w, int which);
extern double server_use(World *w); /* busy part of its slots, so far */
extern void server_account(World *w);

/* session.c */
/* Makes an instance with w->config; returns its number. */
extern int instance_new(World *w);
extern void instance_forget(World *w, int instance);
/* Makes a session; it starts at `at`, or with SCRIPT_JOIN if that is < 0. */
extern int session_new(World *w, int instance, int64_t rows, InferPriority priority, int64_t at);
extern void session_look(World *w, int which);
/* Schedules a look of those whom a change has made free to go; at once: has them look now. */
extern void session_wake_line(World *w, int instance, bool at_once);
extern void session_schedule(World *w, int which, int64_t at);
extern void session_reply(World *w, int which);
extern void session_script(World *w, const Script *script);

/* check.c */
extern void check_world(World *w);
/* strict: right after the line was woken */
extern void check_instance(World *w, int instance, bool strict);
extern void check_grant(World *w, int instance, int session, int granted);
extern void check_feedback(World *w, int instance, const InferLimiter *before,
						   const InferPermit *permit, InferVerdict verdict);
/* A permit was granted; in a row: how many, while the server counts as failing. */
extern void check_probe(World *w, int instance, int granted);
extern void check_dial(World *w, int instance, int granted);
extern void check_give_up(World *w, int instance);
/* A request has ended. */
extern void check_health(World *w, int instance, const Request *request);
extern void check_end(World *w); /* everything done, everything given back */
extern void violation(World *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
