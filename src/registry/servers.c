/*
 * registry/servers.c - foreign servers of ours, read from the catalogs.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_foreign_server.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "pg/guc.h"
#include "pg/report.h"
#include "registry/options.h"
#include "registry/servers.h"
#include "shmem/route.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/* 16 (commit c727f511bd7b) has one function for the privileges of all kinds of objects. */
#if PG_VERSION_NUM < 160000
#define object_aclcheck(classid, objectid, roleid, mode)                                           \
	pg_foreign_server_aclcheck((objectid), (roleid), (mode))
#define object_ownercheck(classid, objectid, roleid)                                               \
	pg_foreign_server_ownercheck((objectid), (roleid))
#endif

/* Only a superuser can own a foreign data wrapper, so nobody else can make one of our name. */
static bool
infer_is_our_server(const ForeignServer *server)
{
	return strcmp(GetForeignDataWrapper(server->fdwid)->fdwname, INFER_WRAPPER_NAME) == 0;
}

Oid
infer_server_find(const char *name, const char *model)
{
	Oid serverid = get_foreign_server_oid(name, true);

	if (!OidIsValid(serverid))
		ereport(ERROR,
				(errcode(infer_errcode_config()), errmsg("server \"%s\" does not exist", name),
				 model ? errdetail("Model \"%s\" is served by it.", model) : 0,
				 model ? errhint("Create the server, or move the model with infer.alter_model().")
					   : errhint("Create it with CREATE SERVER %s FOREIGN DATA WRAPPER "
								 "pg_inference OPTIONS (url '...').",
								 quote_identifier(name))));
	if (!infer_is_our_server(GetForeignServer(serverid)))
		ereport(ERROR, (errcode(infer_errcode_config()),
						errmsg("server \"%s\" is not an inference server", name),
						errdetail("It belongs to another foreign data wrapper."),
						errhint("Name a server that was created with FOREIGN DATA WRAPPER "
								"pg_inference.")));
	return serverid;
}

/* The version of the catalog's row: each ALTER writes a new one. */
static uint32
infer_server_version(Oid serverid)
{
	HeapTuple tuple = SearchSysCache1(FOREIGNSERVEROID, ObjectIdGetDatum(serverid));
	uint32 version;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for server %u", serverid);
	version = HeapTupleHeaderGetRawXmin(tuple->t_data);
	ReleaseSysCache(tuple);
	return version;
}

/* Perhaps without an url. */
static InferServer *
infer_server_of(ForeignServer *foreign)
{
	InferServer *server = palloc0(sizeof(InferServer));

	server->oid = foreign->serverid;
	server->version = infer_server_version(foreign->serverid);
	server->name = foreign->servername;
	infer_options_read_server(foreign->options, server);
	return server;
}

InferServer *
infer_server_read_usable(const char *name)
{
	ForeignServer *foreign = GetForeignServerByName(name, true);
	InferServer *server;

	if (foreign == NULL || !infer_is_our_server(foreign))
		return NULL;
	server = infer_server_of(foreign);
	return server->url != NULL ? server : NULL;
}

InferServer *
infer_server_read(Oid serverid)
{
	InferServer *server = infer_server_of(GetForeignServer(serverid));

	if (server->url == NULL)
		ereport(ERROR,
				(errcode(infer_errcode_config()), errmsg("server \"%s\" has no url", server->name),
				 errhint("Set it with ALTER SERVER %s OPTIONS (ADD url "
						 "'http://host:port/v1').",
						 quote_identifier(server->name))));
	return server;
}

List *
infer_server_list(void)
{
	Relation catalog = table_open(ForeignServerRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(catalog, ForeignServerNameIndexId, true, NULL, 0, NULL);
	List *servers = NIL;
	HeapTuple tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Oid serverid = ((Form_pg_foreign_server) GETSTRUCT(tuple))->oid;

		if (infer_is_our_server(GetForeignServer(serverid)))
			servers = lappend_oid(servers, serverid);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return servers;
}

bool
infer_server_has_usage(Oid serverid, Oid userid)
{
	return object_aclcheck(ForeignServerRelationId, serverid, userid, ACL_USAGE) == ACLCHECK_OK;
}

void
infer_server_require_usage(Oid serverid, const char *name, Oid userid)
{
	AclResult result = object_aclcheck(ForeignServerRelationId, serverid, userid, ACL_USAGE);

	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_FOREIGN_SERVER, name);
}

bool
infer_server_may_use(Oid serverid, Oid userid)
{
	return SearchSysCacheExists1(FOREIGNSERVEROID, ObjectIdGetDatum(serverid)) &&
		   infer_server_has_usage(serverid, userid);
}

/* A slot whose server is gone would be probed until nobody has used it for long enough. */
void
infer_servers_forget_gone(void)
{
	if (!infer_preloaded)
		return;
	for (int i = 0; i < infer_route_slots(); i++)
	{
		Oid database;
		Oid server;
		InferRouteRef ref = infer_route_who(i, &database, &server);

		if (ref.slot >= 0 && database == MyDatabaseId &&
			!SearchSysCacheExists1(FOREIGNSERVEROID, ObjectIdGetDatum(server)))
			infer_route_forget(ref);
	}
}

bool
infer_server_is_owner(Oid serverid, Oid userid)
{
	return object_ownercheck(ForeignServerRelationId, serverid, userid);
}
