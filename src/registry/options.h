/*
 * registry/options.h - the options of servers and user mappings: names, limits, meaning.
 *
 * One table serves the validator and the look-up, so that what was accepted is what is understood.
 */
#ifndef INFER_REGISTRY_OPTIONS_H
#define INFER_REGISTRY_OPTIONS_H

#include "postgres.h"
#include "nodes/pg_list.h"
#include "registry/registry.h"

#define INFER_WRAPPER_NAME "pg_inference"

/* Where a key comes from (at most one of the first three is set), and a client certificate. */
typedef struct InferCredential
{
	char *file;
	char *env;
	char *key;              /* inline */
	char *client_cert_file; /* with its private key, unless that has a file of its own */
	char *client_key_file;
} InferCredential;

/* Raises unless the options fit the catalog (pg_foreign_server, pg_user_mapping, ...) and the
 * current role may set them. */
extern void infer_options_validate(List *options, Oid catalog);
/* Fills server from its options, and the defaults of those not given; raises as the validator. */
extern void infer_options_read_server(List *options, InferServer *server);
/* Points into the options. Never raises. */
extern InferCredential infer_options_read_credential(List *options);

#endif
