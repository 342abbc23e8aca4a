/*
 * registry/servers.h - foreign servers of ours, read from the catalogs.
 */
#ifndef INFER_REGISTRY_SERVERS_H
#define INFER_REGISTRY_SERVERS_H

#include "nodes/pg_list.h"
#include "registry/registry.h"

/* The OID of the server of that name, raising if there is none or it is another wrapper's. model:
 * who asked for it, for the message; NULL if the user named the server himself. */
extern Oid infer_server_find(const char *name, const char *model);
/* Reads it into palloc'd memory; raises like infer_server_find(), and if it has no url. */
extern InferServer *infer_server_read(const char *name, const char *model);
extern bool infer_server_has_usage(Oid serverid, Oid userid);
/* ... and is it there at all? */
extern bool infer_server_may_use(Oid serverid, Oid userid);
/* Takes those out of the route table that this database has no more. */
extern void infer_servers_forget_gone(void);
/* What was drained and is gone, be it the server or its database, is not drained any more. */
extern void infer_servers_undrain_gone(void);
/* The server of that name, palloc'd; NULL if there is none, it is another wrapper's, or has no url.
 */
extern InferServer *infer_server_read_usable(const char *name);
/* Why there is none such, in the words of infer.placements.problem; NULL: there is one. */
extern const char *infer_server_problem(const char *name);
/* Raises 42501 unless userid has USAGE, and like infer_server_find() if the server is gone. */
extern void infer_server_require_usage(Oid serverid, const char *name, Oid userid);
/* OIDs of all servers of ours, by name. */
extern List *infer_server_list(void);
extern bool infer_server_is_owner(Oid serverid, Oid userid);

#endif
