/*
 * sim/fleet.h - the simulated fleet: several servers on several nodes, and the processes of one
 * PostgreSQL that choose among them.
 *
 * Discrete events as in sim/world.h; a seed is a run.  The callers do what call/ and shmem/route
 * do, with the code of src/core: route and stages say where a call goes, the queue model, the peer
 * and the admission key of each server hear how it went, hedging sends copies.  Servers crash, come
 * back as another incarnation, load, slow down, flap, swallow connections, and lie about their
 * health.
 *
 * The judge is a ledger of its own (sim/fleet_check.c): what the servers executed, against what the
 * callers claim.  Attempts are never reused, so that what comes late finds its own.
 */
#ifndef INFER_SIM_FLEET_H
#define INFER_SIM_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#include "core/admission.h"
#include "core/hedge.h"
#include "core/peer.h"
#include "core/queue_model.h"
#include "core/stages.h"

#include "clock.h"

#define FLEET_SERVERS 6
#define FLEET_CLIENTS 192
#define FLEET_NODES   4
#define FLEET_LAGGING 8

/* A server process, as it is. */
typedef struct Machine
{
	int node;
	int slots;
	int queue; /* -1 = without a limit */
	double base_us;
	double sigma; /* of the lognormal latency */
	int64_t net_us;
	bool up;      /* somebody listens */
	bool silent;  /* what is sent vanishes, and so do answers */
	bool broken;  /* fails all it is asked; its health says that it is well */
	bool amnesic; /* does not have the model */
	bool gloomy;  /* its health says that it is not ready; it is */
	bool honours; /* runs what comes with the same key once */
	double slow;  /* answers take so many times as long */
	int64_t loading_until_us;
	int64_t booted_us; /* 0 = not in this run */
	int incarnation;
	/* now: its queue, by attempt */
	int busy;
	int queued;
	int head;
	int tail;
	int served;
} Machine;

/* What the processes share of a server. */
typedef struct Slot
{
	InferQueueModel queue;
	InferPeer peer;
	InferDeadModels dead;
	InferAdmission admission;
	InferAdmissionNode nodes[FLEET_CLIENTS];
	InferLoading loading;
	int incarnation; /* 0 = not known */
	/* counted apart from all that */
	int live;
	int64_t started;
	int64_t ended;
	int renewals;
} Slot;

typedef enum AttemptState
{
	ATTEMPT_FLYING, /* to the server */
	ATTEMPT_QUEUED,
	ATTEMPT_SERVING,
	ATTEMPT_OVER /* for the server */
} AttemptState;

typedef struct Attempt
{
	int client;
	int call; /* of the ledger */
	int machine;
	int place; /* of the call */
	InferAttemptKind kind;
	int64_t set_version;
	AttemptState state;
	int next;     /* of the server's queue */
	int lag_next; /* of those that lag */
	InferPermit permit;
	InferReservation reservation;
	int64_t sent_us;
	bool held;    /* the caller has its permit and reservation */
	bool copied;  /* a copy left while it was under way */
	bool lagging; /* its call has a result */
	bool heard;   /* its answer or its loss; or nobody listens any more */
	bool executed;
	bool claimed; /* what the caller says was proved */
	InferExecution claim;
	/* what comes back */
	InferWire wire;
	int incarnation; /* that answered, or executed */
	bool loading;
	int64_t retry_after_us;
} Attempt;

/* What the judge knows of a call. */
typedef struct Entry
{
	InferRetryPolicy policy;
	int max_attempts;
	bool hedges;
	bool by_reference;
	bool keyed; /* its requests have a key */
	int64_t begun_us;
	int64_t ended_us; /* -1 = not yet */
	int primaries;
	int copies;
	int executions;
	uint32_t known_to; /* machines that have its key, and what came of it */
	bool ambiguous;    /* an attempt ended so that it may have been executed */
	uint32_t kept_by;  /* ... and these machines, where one did, would know it by its key */
	bool forgotten;    /* ... but one did elsewhere */
	bool failed;       /* an attempt has failed */
	bool success;
	bool cancelled;       /* or its process was killed */
	bool wrong;           /* its reference was answered by another incarnation */
	InferExecution claim; /* of a failure */
} Entry;

/* A process, with a call at a time. */
typedef struct Client
{
	bool alive;
	int call;            /* its entry, -1 = none */
	int64_t set_version; /* of its places */
	InferStagesRule rule;
	InferStages stages;
	InferRouteRequest request;
	int nplaces;
	int places[FLEET_SERVERS]; /* machines */
	int wanted_incarnation;    /* of a reference; 0 = any */
	int running[2];            /* attempts, -1 = none */
	int64_t look_us;           /* of the look that is due, INT64_MAX = none */
	bool on_change;            /* waits for a place to change */
	int64_t calls_left;        /* to be made, -1 = until the world stops */
	int64_t think_us;
	const char *last_node;
	int ref_machine; /* of a reference that it keeps */
	int ref_incarnation;
} Client;

typedef enum FleetEvent
{
	FLEET_LOOK,
	FLEET_ARRIVE,
	FLEET_SERVED,
	FLEET_REPLY,
	FLEET_TIMEOUT,
	FLEET_HEDGE,
	FLEET_EVICT,
	FLEET_CANCEL,
	FLEET_PROBE,
	FLEET_PROBED,
	FLEET_SCRIPT
} FleetEvent;

typedef enum FleetScriptKind
{
	FLEET_CRASH,  /* machine a; b = ms that it loads when it is back */
	FLEET_BOOT,   /* machine a */
	FLEET_SILENT, /* machine a, b = 1 begins, 0 ends */
	FLEET_BROKEN,
	FLEET_GLOOMY,
	FLEET_AMNESIC,
	FLEET_SLOW, /* machine a, b = percent of the usual time */
	FLEET_KILL, /* client a, back after b us */
	FLEET_REVIVE,
	FLEET_HEAL /* all machines are well, and somebody has looked through the placements */
} FleetScriptKind;

typedef struct FleetScript
{
	FleetScriptKind kind;
	int a;
	int64_t b;
} FleetScript;

/* What must happen in some world, else the campaign shows nothing: see fleet_sometimes_names. */
typedef enum Sometimes
{
	SOMETIMES_SUCCESS,
	SOMETIMES_STAGE_1,
	SOMETIMES_STAGE_2,
	SOMETIMES_ROUND,
	SOMETIMES_EXCLUDED,
	SOMETIMES_EXCLUDED_USED,
	SOMETIMES_SPILL,
	SOMETIMES_FAILED_ADDRESS,
	SOMETIMES_PROBE,
	SOMETIMES_PROBE_SUCCESS,
	SOMETIMES_ALL_FAILED,
	SOMETIMES_DEAD,
	SOMETIMES_STALE_SET,
	SOMETIMES_AMBIGUOUS_RETRY,
	SOMETIMES_EXECUTED_TWICE,
	SOMETIMES_KEY_REPEATED,
	SOMETIMES_KEY_KNOWN,
	SOMETIMES_BLOCKED,
	SOMETIMES_BLOCKED_COPY_WINS,
	SOMETIMES_COPY,
	SOMETIMES_COPY_AT_ONCE,
	SOMETIMES_COPY_WINS,
	SOMETIMES_COPY_DENIED,
	SOMETIMES_LATE,
	SOMETIMES_EVICTED,
	SOMETIMES_RENEWAL,
	SOMETIMES_STALE_BEFORE,
	SOMETIMES_STALE_AFTER,
	SOMETIMES_BEHIND,
	SOMETIMES_COOLDOWN,
	SOMETIMES_DIAL_WAITS,
	SOMETIMES_CANCELLED,
	SOMETIMES_KILLED,
	SOMETIMES_LIE,
	SOMETIMES_GLOOM,
	SOMETIMES_SLOW,
	SOMETIMES_FLAP,
	SOMETIMES_COUNT
} Sometimes;

extern const char *const fleet_sometimes_names[SOMETIMES_COUNT];

/* Bugs that are made on purpose; a mutation of the callers' part. */
typedef enum FleetMutation
{
	FLEET_SOUND,
	FLEET_RETRIES_ANYTHING, /* whatever the call permits */
	FLEET_DROPS_KEPT,       /* what is given up is not released */
	FLEET_NO_BUDGET,        /* for copies */
	FLEET_COPIES_ANYTHING,  /* though the call forbids it */
	FLEET_NO_PROBE,         /* after all have failed */
	FLEET_ANY_INCARNATION,  /* for a reference */
	FLEET_LEARNS_NOTHING,   /* another incarnation inherits what the last one was known by */
	FLEET_LAGS_FOR_EVER,
	FLEET_LATE_EARNS,  /* late losers pay for copies */
	FLEET_KEYS_TRAVEL, /* what one server knows by its key, it is thought, all do */
	FLEET_MUTATIONS
} FleetMutation;

extern const char *const fleet_mutation_names[FLEET_MUTATIONS];

typedef struct Fleet
{
	int64_t now;
	Random random;
	Events events;
	int64_t events_done;
	uint64_t digest;
	Machine machines[FLEET_SERVERS];
	Slot slots[FLEET_SERVERS];
	int nmachines;
	Client clients[FLEET_CLIENTS];
	int nclients;
	Attempt *attempts;
	int nattempts;
	int attempts_size;
	Entry *ledger;
	int ncalls;
	int ledger_size;
	FleetScript *script;
	int nscript;
	int script_size;
	InferHedge hedge;
	int lagging_first; /* attempts, the oldest first */
	int lagging_last;
	int lagging;
	int64_t set_version;
	int64_t earned; /* landings that earn, as the judge counts them */
	/* how it is */
	InferAdmissionConfig config;
	InferStagesRule rule;
	int64_t timeout_us;
	int64_t connect_timeout_us;
	int64_t hedge_base_us;
	int lagging_most;
	int64_t lagging_us;
	bool gateway;   /* probes */
	double cancels; /* part of the calls */
	double by_reference;
	double hedges;
	double permits_ambiguous;
	double never_retries;
	double keyed;
	const char *locality;
	int64_t healed_us;  /* everything is well from then on */
	int64_t settled_us; /* ... and known to be */
	int64_t stop_us;    /* no call begins after that */
	FleetMutation mutation;
	bool stops_at_violation;
	/* findings */
	int violations;
	char first_violation[200];
	int64_t seen[SOMETIMES_COUNT];
	/* what calls took, us, in order of their end, from stats_from_us on */
	int64_t stats_from_us;
	int64_t *took;
	int ntook;
	int took_size;
	/* scratch */
	InferRouteDecision decision;
	InferStagesStep step;
} Fleet;

extern const char *const fleet_nodes[FLEET_NODES];

/* fleet.c */
extern Fleet *fleet_new(uint64_t seed);
extern void fleet_free(Fleet *f);
extern int fleet_machine(Fleet *f, int node);
extern int fleet_client(Fleet *f, int64_t calls, int64_t think_us);
extern void fleet_begin(Fleet *f); /* after all is set */
extern void fleet_run(Fleet *f, int64_t until);
extern void fleet_at(Fleet *f, int64_t at, FleetEvent kind, int which);
extern void fleet_script(Fleet *f, int64_t at, FleetScriptKind kind, int a, int64_t b);
extern void fleet_digest(Fleet *f, uint64_t what);

/* fleet_machine.c: the servers */
extern void machine_arrive(Fleet *f, int attempt);
extern void machine_served(Fleet *f, int attempt);
extern void machine_crash(Fleet *f, int machine);
extern void machine_boot(Fleet *f, int machine, int64_t loads_us);

/* fleet_slot.c: what shmem/route does */
extern int slot_take(Fleet *f, int machine, int client, bool waits, InferPermit *permit);
extern void slot_leave(Fleet *f, int machine, int client);
extern int64_t slot_alarm(Fleet *f, int client);
extern void slot_send(Fleet *f, int attempt, const InferPermit *permit);
/* An attempt has ended, or is given up. */
extern InferFinding slot_landed(Fleet *f, int attempt);
extern void slot_given_up(Fleet *f, int attempt);
extern void slot_process_gone(Fleet *f, int client);
extern void slot_describe(Fleet *f, const Client *c, InferRoutePlace *places);
extern void slot_probe(Fleet *f, int machine);
extern void slot_probed(Fleet *f, int machine);

/* fleet_call.c: what call/ does */
extern void client_look(Fleet *f, int client);
extern void client_schedule(Fleet *f, int client, int64_t at);
extern void client_reply(Fleet *f, int attempt);
extern void client_timeout(Fleet *f, int attempt);
extern void client_hedge(Fleet *f, int attempt);
extern void client_cancel(Fleet *f, int call);
extern void client_kill(Fleet *f, int client, int64_t back_us);
extern void client_evict(Fleet *f, int attempt);
extern void clients_hear_change(Fleet *f);

/* fleet_check.c: the judge */
extern void fleet_violation(Fleet *f, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
extern void check_fleet(Fleet *f); /* after each event */
extern void check_start(Fleet *f, const Client *c, const InferRoutePlace *places, int place,
						InferAttemptKind kind, const bool *refused, bool probe);
extern void check_landing(Fleet *f, const Attempt *a, const InferFinding *finding);
extern void check_fleet_end(Fleet *f);

/* fleet_worlds.c */
extern Fleet *fleet_random(uint64_t seed, FleetMutation mutation);
extern double fleet_percentile(Fleet *f, double part); /* of what calls took, us */

#endif
