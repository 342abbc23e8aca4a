/*
 * module.c - how the library comes to life: magic block, and the module inits in their order.
 *
 * Loaded by shared_preload_libraries (the way to use it): settings, shared memory, hooks,
 * and the gateway process.
 * Loaded any other way (a function call or LOAD in a server that does not preload it; pg_restore
 * and the validator need no more): settings and catalog caches only; calls refuse with a hint.
 * Nothing here touches the network, and pg_upgrade's servers, which may load it, get no process.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"

#include "call/call.h"
#include "gateway/gateway.h"
#include "pg/guc.h"
#include "pg/owner.h"
#include "registry/registry.h"
#include "scan/plan.h"
#include "shmem/segment.h"

#ifdef PG_MODULE_MAGIC_EXT
PG_MODULE_MAGIC_EXT(.name = "pg_inference", .version = INFER_VERSION);
#else
PG_MODULE_MAGIC;
#endif

extern void _PG_init(void);

PG_FUNCTION_INFO_V1(infer_version);

void
_PG_init(void)
{
	infer_preloaded = process_shared_preload_libraries_in_progress;

	infer_guc_init();
	infer_registry_init();
	if (infer_preloaded)
	{
		infer_shmem_install();
		infer_owner_init();
		infer_call_init();
		infer_scan_init();
		infer_gateway_init();
	}
	MarkGUCPrefixReserved("pg_inference");
}

/* The version of the loaded library, which may differ from that of the SQL objects. */
Datum
infer_version(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(INFER_VERSION));
}
