/*
 * registry/registry.h - servers, models and secrets, by cached look-up.
 *
 * Servers are SQL/MED objects of the foreign data wrapper pg_inference, models are rows of
 * infer.model_catalog, read as the extension's owner would, without search_path.  Look-ups need a
 * transaction and raise configuration errors (class RC) with a hint.  What they return is in the
 * caller's current memory context and is a snapshot; whoever keeps one goes on with what it had.
 */
#ifndef INFER_REGISTRY_REGISTRY_H
#define INFER_REGISTRY_REGISTRY_H

#include "postgres.h"
#include "core/ref.h"
#include "core/route.h"
#include "core/types.h"
#include "utils/jsonb.h"

typedef struct InferServer
{
	Oid oid;
	uint32 version; /* another one after each ALTER SERVER */
	char *name;
	char *url;    /* as given, without trailing slash: "http://10.0.0.5:8000/v1" */
	char *scheme; /* "http" or "https" */
	char *host;
	int port;
	char *api;              /* provider name, default openai */
	char *node;             /* NULL unless set */
	char *admission_key;    /* default: scheme://host:port */
	int max_concurrency;    /* 0 = not set */
	int rpm;                /* requests a minute; 0 = no limit */
	int tpm;                /* tokens a minute; 0 = no limit */
	int max_batch_size;     /* 0 = provider's */
	int max_batch_bytes;    /* 0 = provider's */
	int max_batch_tokens;   /* 0 = no limit */
	int request_timeout_ms; /* 0 = setting */
	InferTrust trust;       /* who answers at its address; default unknown */
	bool keys_honoured;     /* it runs requests with the same idempotency key once */
	int keep_alive_s;       /* idle seconds after which a connection is not reused; default 4 */
	char *ca_file;          /* absolute path, or NULL: whom the system trusts */
	bool allow_cleartext;   /* a key may travel over http to a host that is not loopback */
	char *service_class;    /* the role that it plays; NULL unless set */
	char *health_path;      /* from the root, "/health"; NULL: that of its api */
	char *incarnation;      /* which it is: "header:NAME", "field:NAME", "metric:NAME" or NULL */
	bool signals;           /* tell it what a smart gateway wants to know of requests */
} InferServer;

/* A model runs on a server: the catalog's word for it, which call/ makes a place of. */
typedef struct InferPlacement
{
	InferServer *server;
	char *remote_model; /* what the server calls it */
	double input_price; /* per million tokens; below 0 = not known, 0 = free of charge */
	double output_price;
	bool permitted; /* the caller has USAGE on the server */
	int version;    /* of the model's API there: 100 * M + NN; INFER_VERSION_NONE = not said */
	double weight;  /* its share, relative to the others'; 1 unless set */
	char **feeds;   /* what it has; nfeeds of them */
	int nfeeds;
	int64 ts_from;       /* it has the times from here (microseconds since 2000) ... */
	int64 ts_to;         /* ... to before here; PG_INT64_MIN and _MAX = without an end */
	bool is_primary;     /* what changes something goes here first */
	char *service_class; /* the role that it plays; NULL = not said */
	int tier;            /* 0 = the model's own; n = of its n-th fallback */
} InferPlacement;

#define INFER_VERSION_NONE (-1)

/* What a model's name stands for: a server, or several that serve the same. */
typedef struct InferTarget
{
	char *model;            /* as the caller wrote it */
	const InferRef *ref;    /* it is a reference, and nothing else will do; else NULL */
	int64 set_version;      /* of its placements; each change of them makes it larger */
	int nplaces;            /* at least 1 */
	InferPlacement *places; /* by tier */
	int min_version;        /* of the places of tier 0; INFER_VERSION_NONE = any */
	InferNames ts_args;     /* which of its parameters are times; up to two */
	InferNames class_fns;   /* signatures of functions that may change a request's header */
	Jsonb *routing;         /* its part of the header; NULL unless set */
	int affinity_bytes; /* requests that begin with the same ones want the same server; 0 = off */
	InferStrategy strategy;
} InferTarget;

/* Resolves a model name, or server/remote_model (a model of exactly that name wins), or a
 * reference, which is not looked at beyond its server. Checks that the model's task fits, and USAGE
 * of userid on the servers: without it on any of them, raises 42501 and sends nothing.
 */
extern InferTarget *infer_resolve(const char *model, InferTask task, Oid userid);

/* What planning wants to know of a model, as of now; good until the next look-up. */
typedef struct InferFactsPlace
{
	Oid server;
	char *remote_model;
	double weight;
} InferFactsPlace;

typedef struct InferModelFacts
{
	int nplaces; /* at least 1; without its fallbacks' */
	InferFactsPlace *places;
	double input_price; /* per million tokens; 0 = not known */
	double output_price;
} InferModelFacts;

/* As infer_resolve(), but takes no privilege, does not look at the servers' options, and returns
 * false where that one would raise. */
extern bool infer_resolve_facts(const char *model, InferModelFacts *facts);
extern void infer_registry_init(void); /* from _PG_init */

/*
 * The key for one attempt: that of userid's mapping, else PUBLIC's, else none.  Reads the file or
 * variable now.  Returns REASON_NONE with *header = "Authorization: Bearer ..." (palloc'd; wipe it
 * after use) or NULL for key-less servers; CREDENTIAL_MISSING or CREDENTIAL_WITHHELD otherwise with
 * *detail (palloc'd, names the file or variable, never the key).  Does not raise for these.
 */
extern InferReason infer_registry_secret(const InferServer *server, Oid userid, char **header,
										 char **detail);
/* What a connection is made with, and the request on it: texts or NULL. */
typedef struct InferSecrets
{
	char *header;      /* as above */
	char *authorities; /* PEM: who may vouch for the server; NULL: whom the system trusts */
	char *identity;    /* PEM: the client's certificate and its private key */
} InferSecrets;

/*
 * As infer_registry_secret(), with the files that the server's ca_file and the mapping's
 * client_cert_file and client_key_file name; CERTIFICATE_UNUSABLE if one of them cannot be used.
 * The caller wipes what it gets, all of it palloc'd.
 */
extern InferReason infer_registry_secrets(const InferServer *server, Oid userid,
										  InferSecrets *secrets, char **detail);
extern void infer_secrets_wipe(InferSecrets *secrets);

/*
 * check_address for the transport, asked before each connection and for each reused one: refuses
 * link-local and metadata addresses, and those that are no host's (this host, multicast, reserved),
 * also where IPv6 wraps them, unless the server's url is the very address and allowed_hosts has it
 * without a star.  All others are the business of whoever may create servers.  arg = an InferEgress
 * made from the server. Raises nothing.
 */
typedef struct InferEgress
{
	bool allow_denied; /* the server is one of those addresses, and listed */
} InferEgress;
extern void infer_egress_init(InferEgress *egress, const InferServer *server);
extern bool infer_egress_address(void *arg, const char *ip, int port);
/* Is this host allowed at all (allowed_hosts)? */
extern bool infer_egress_host(const InferServer *server);

#endif
