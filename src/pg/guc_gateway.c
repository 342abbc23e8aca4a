/*
 * pg/guc_gateway.c - the settings pg_inference.* that are about the gateway process, sorted by
 * name.  It is in no database and has no user, so none of them can be set there.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/guc.h"

#include "pg/guc.h"
#include "pg/guc_gateway.h"

#define DAY_MS (24 * 60 * 60 * 1000)

int infer_guc_dns_ttl = 60000;
bool infer_guc_gateway = true;
int infer_guc_probe_connect_timeout = 1000;
int infer_guc_probe_interval = 5000;
int infer_guc_timer_interval = 1000;

void
infer_guc_define_gateway(void)
{
	DefineCustomIntVariable(
		"pg_inference.dns_ttl", "How long the address of a server's name is used for.",
		"It is looked up anew at once when nobody answers there. 0 has every session look names "
		"up by itself.",
		&infer_guc_dns_ttl, 60000, 0, DAY_MS, PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	/* settings of the postmaster can be made only while it starts */
	if (process_shared_preload_libraries_in_progress)
		DefineCustomBoolVariable("pg_inference.gateway",
								 "Starts the gateway process, which watches servers.",
								 "Calls work without it, but find out themselves who is down.",
								 &infer_guc_gateway, true, PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("pg_inference.probe_connect_timeout",
							"How long the gateway waits for a server to accept a connection.", NULL,
							&infer_guc_probe_connect_timeout, 1000, 1, DAY_MS, PGC_SIGHUP,
							GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"pg_inference.probe_interval", "Time between two probes of a server's health.",
		"While nobody can connect to it, it is probed more often; 0 does not probe.",
		&infer_guc_probe_interval, 5000, 0, DAY_MS, PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("pg_inference.timer_interval",
							"Time between two looks of the gateway at how busy servers are.",
							"Nothing that a call waits for depends on it.",
							&infer_guc_timer_interval, 1000, 10, DAY_MS, PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);
}
