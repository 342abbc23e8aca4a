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
#include "shmem/drain.h"
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

/*
 * The server; NULL if it is gone, perhaps only since its OID was found: reading a catalog may bring
 * the news of a DROP.  ours: is it one of our wrapper's?  Only a superuser can own a foreign data
 * wrapper, so nobody else can make one of our name.
 */
static ForeignServer *
infer_server_look(Oid serverid, bool *ours)
{
	ForeignServer *server =
		OidIsValid(serverid) ? GetForeignServerExtended(serverid, FSV_MISSING_OK) : NULL;
	ForeignDataWrapper *wrapper =
		server != NULL ? GetForeignDataWrapperExtended(server->fdwid, FDW_MISSING_OK) : NULL;

	*ours = wrapper != NULL && strcmp(wrapper->fdwname, INFER_WRAPPER_NAME) == 0;
	return wrapper != NULL ? server : NULL;
}

static void
infer_refuse_missing(const char *name, const char *model)
{
	ereport(
		ERROR,
		(errcode(infer_errcode_config()), errmsg("server \"%s\" does not exist", name),
		 model ? errdetail("Model \"%s\" is served by it.", model) : 0,
		 model
			 ? errhint(
				   "Create the server, or run the model on another one with infer.add_placement().")
			 : errhint("Create it with CREATE SERVER %s FOREIGN DATA WRAPPER "
					   "pg_inference OPTIONS (url '...').",
					   quote_identifier(name))));
}

Oid
infer_server_find(const char *name, const char *model)
{
	Oid serverid = get_foreign_server_oid(name, true);
	bool ours;

	if (infer_server_look(serverid, &ours) == NULL)
		infer_refuse_missing(name, model);
	if (!ours)
		ereport(ERROR, (errcode(infer_errcode_config()),
						errmsg("server \"%s\" is not an inference server", name),
						errdetail("It belongs to another foreign data wrapper."),
						errhint("Name a server that was created with FOREIGN DATA WRAPPER "
								"pg_inference.")));
	return serverid;
}

/* Perhaps without an url; NULL if there is none of ours (any more). */
static InferServer *
infer_server_of(Oid serverid)
{
	HeapTuple tuple = SearchSysCache1(FOREIGNSERVEROID, ObjectIdGetDatum(serverid));
	InferServer *server;
	ForeignServer *foreign;
	bool ours;

	if (!HeapTupleIsValid(tuple))
		return NULL;
	server = palloc0(sizeof(InferServer));
	server->oid = serverid;
	/* that of the catalog's row: each ALTER writes a new one */
	server->version = HeapTupleHeaderGetRawXmin(tuple->t_data);
	ReleaseSysCache(tuple);

	foreign = infer_server_look(serverid, &ours);
	if (foreign == NULL || !ours)
		return NULL;
	server->name = foreign->servername;
	infer_options_read_server(foreign->options, server);
	return server;
}

const char *
infer_server_problem(const char *name)
{
	bool ours;

	if (infer_server_look(get_foreign_server_oid(name, true), &ours) == NULL)
		return "no such server";
	if (!ours)
		return "not an inference server";
	return infer_server_read_usable(name) == NULL ? "the server has no url" : NULL;
}

InferServer *
infer_server_read_usable(const char *name)
{
	InferServer *server = infer_server_of(get_foreign_server_oid(name, true));

	return server != NULL && server->url != NULL ? server : NULL;
}

InferServer *
infer_server_read(const char *name, const char *model)
{
	InferServer *server = infer_server_of(infer_server_find(name, model));

	if (server == NULL)
		infer_refuse_missing(name, model);
	else if (server->url == NULL)
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
		bool ours;

		infer_server_look(serverid, &ours);
		if (ours)
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
	AclResult result;

	if (!SearchSysCacheExists1(FOREIGNSERVEROID, ObjectIdGetDatum(serverid)))
		infer_refuse_missing(name, NULL);
	result = object_aclcheck(ForeignServerRelationId, serverid, userid, ACL_USAGE);
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

/* From the last entry on, for each that goes is filled with the last one. */
void
infer_servers_undrain_gone(void)
{
	for (int i = infer_guc_max_servers - 1; i >= 0; i--)
	{
		Oid database;
		Oid server;

		if (infer_drain_who(i, &database, &server) &&
			(database == MyDatabaseId
				 ? !SearchSysCacheExists1(FOREIGNSERVEROID, ObjectIdGetDatum(server))
				 : !SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(database))))
			infer_drain_end(database, server);
	}
}

bool
infer_server_is_owner(Oid serverid, Oid userid)
{
	return object_ownercheck(ForeignServerRelationId, serverid, userid);
}
