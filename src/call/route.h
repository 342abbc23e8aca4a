/*
 * call/route.h - where the requests of a batch go, by core/route and core/stages.
 */
#ifndef INFER_CALL_ROUTE_H
#define INFER_CALL_ROUTE_H

#include "postgres.h"

#include "call/types.h"
#include "core/proof.h"
#include "core/route.h"
#include "core/stages.h"
#include "core/types.h"
#include "registry/registry.h"
#include "shmem/route.h"

/* A place as routing sees it: what the catalogs say ... */
extern void infer_route_describe(const InferPlacement *placement, bool permitted,
								 InferRoutePlace *route);
/* ... and what the route table knows. items: of a batch; 0 = not known. */
extern void infer_route_look(const InferRouteSnapshot *snapshot, bool dead, InferTask task,
							 int items, int limit, int64 now_us, InferRoutePlace *route);
/* What the session's earlier requests say for the strategy of the next one to that target. */
extern void infer_route_session(const InferTarget *target, InferRouteRequest *request);
/* What calls of the class ask of a place, and which places there are; raises if none can ever do.
 */
extern void infer_route_prepare(InferClass *class);
/* What a ready batch is to do now: good until the next call. */
extern const InferStagesStep *infer_route_next(InferBatch *batch);
/* No place will do. Ends the batch, which has no permit. */
extern void infer_route_fail(InferBatch *batch, InferStagesEnd end);
/* The places of the last step have no permits, and are not waited for. */
extern void infer_route_give_up(InferBatch *batch);
/* The batch leaves for its place. */
extern void infer_route_started(InferBatch *batch);
/* ... and a copy of it for another one. */
extern void infer_route_copied(InferBatch *batch, const InferPlace *place);
/* Where a copy of the running batch may go, the best first; their number. */
extern int infer_route_copies(InferBatch *batch, int *order);
/* Would such a failure end the call, whatever else is under way for it? */
extern bool infer_route_would_end(const InferBatch *batch, const InferFinding *finding);
/* ... and has come back with a failure. */
extern void infer_route_ended(InferBatch *batch, const InferFinding *finding, bool declined,
							  int64 retry_after_ms);
/* ... which was none of the call, but of its words. */
extern void infer_route_undo(InferBatch *batch);
/* ... with a result. */
extern void infer_route_succeeded(const InferBatch *batch);

#endif
