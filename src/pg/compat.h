/*
 * pg/compat.h - what differs between the PostgreSQL versions we build on (15 to 18).
 *
 * Differences that touch one file only stay in that file; those that two files would repeat are
 * here, in the newest spelling.
 */
#ifndef INFER_PG_COMPAT_H
#define INFER_PG_COMPAT_H

#include "postgres.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/wait_event.h"

#if PG_VERSION_NUM < 150000
#error "pg_inference needs PostgreSQL 15 or later"
#endif

/* 16 (commit d952373a987b) moved VARSIZE and its kin out of postgres.h. */
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#if PG_VERSION_NUM >= 180000
#include "storage/waiteventset.h"
#endif

/* 17 (commit 024c52111757) numbers processes in a variable of their own. */
#if PG_VERSION_NUM >= 170000
#include "storage/procnumber.h"
#define infer_my_proc_number() ((int) MyProcNumber)
#else
#define infer_my_proc_number() ((int) MyProc->pgprocno)
#endif

/* 16 (commit c727f511bd7b) has one such function for all classes of objects. */
#if PG_VERSION_NUM >= 160000
#include "catalog/pg_proc.h"
#define infer_function_aclcheck(funcid, roleid)                                                    \
	object_aclcheck(ProcedureRelationId, (funcid), (roleid), ACL_EXECUTE)
#else
#define infer_function_aclcheck(funcid, roleid) pg_proc_aclcheck((funcid), (roleid), ACL_EXECUTE)
#endif

/* 17 (commit 50c67c2019ab) ties wait event sets to a resource owner; ours live as long as the
 * process. */
#if PG_VERSION_NUM >= 170000
#define infer_create_wait_set(nevents) CreateWaitEventSet(NULL, (nevents))
#else
#define infer_create_wait_set(nevents) CreateWaitEventSet(TopMemoryContext, (nevents))
#endif

/* 17 (commit c9af05465307) lets extensions name their wait events. */
#if PG_VERSION_NUM >= 170000
#define infer_new_wait_event(name) WaitEventExtensionNew(name)
#else
#define infer_new_wait_event(name) ((void) (name), PG_WAIT_EXTENSION)
#endif

#endif
