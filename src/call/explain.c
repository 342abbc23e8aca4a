/*
 * call/explain.c - where a request would go (call/explain.h).
 *
 * Nothing is published, reserved or counted: a server that no call has used yet is one of which
 * nothing is known.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"

#include "call/classify.h"
#include "call/explain.h"
#include "call/place.h"
#include "call/route.h"
#include "core/peer.h"
#include "core/route.h"
#include "core/types.h"
#include "pg/clock.h"
#include "pg/header.h"
#include "pg/random.h"
#include "registry/models.h"
#include "registry/registry.h"
#include "shmem/admission.h"
#include "shmem/route.h"

/* What the route table and its admission key know of it. */
static void
look(const InferTarget *target, int i, InferTask task, int64 now_us, InferRoutePlace *place)
{
	const InferPlacement *placement = &target->places[i];
	InferRouteRef ref = infer_route_find(MyDatabaseId, placement->server->oid);
	InferRouteEntry *entry;
	const InferRouteSnapshot *snapshot;
	InferAdmissionStat key;

	if (ref.slot < 0)
		return;
	entry = palloc(sizeof(InferRouteEntry));
	if (!infer_route_entry(ref.slot, entry) || entry->ref.generation != ref.generation)
		return;
	snapshot = &entry->snapshot;
	infer_route_look(
		snapshot,
		infer_dead_is(&snapshot->dead, infer_route_model(placement->remote_model, GetUserId()),
					  target->set_version, now_us),
		task, 0, infer_admission_stat(entry->identity.admission_key, &key) ? (int) key.limit : 0,
		now_us, place);
	/* the only one is asked whatever is thought of it (call/route.c) */
	if (target->nplaces == 1 && place->state != INFER_PLACE_DRAINING)
		place->state = INFER_PLACE_UP;
	pfree(entry);
}

/* What calls of the model ask; a server/remote_model may be asked anything. */
static InferTask
task_of(const char *model)
{
	InferModel *row = infer_model_read(model);

	return row != NULL ? infer_task_parse(row->task) : INFER_TASK_CALL;
}

static void
begin_header(const InferTarget *target, InferHeader *header)
{
	infer_header_init(header);
	header->route.min_version = target->min_version;
	header->route.strategy = target->strategy;
}

static void
read_header(const InferTarget *target, Jsonb *said, Jsonb *parameters, InferHeader *header)
{
	Jsonb *classified;

	begin_header(target, header);
	if (target->routing != NULL)
		infer_header_apply(header, target->routing);
	infer_header_apply_setting(header);
	infer_header_apply(header, said);
	classified = infer_classify(target, said, parameters);
	if (classified != NULL)
	{
		begin_header(target, header);
		infer_header_apply(header, classified);
	}
	infer_classify_times(target, parameters, &header->route.ts_range);
}

InferExplanation *
infer_explain_route(const char *model, Jsonb *said, Jsonb *parameters)
{
	InferExplanation *it = palloc(sizeof(InferExplanation));
	InferTask task = task_of(model);
	int64 now_us = infer_now_us();
	InferHeader header;

	it->target = infer_resolve(model, task, GetUserId());
	it->n = Min(it->target->nplaces, INFER_ROUTE_MAX_PLACES);
	it->places = palloc0(sizeof(InferRoutePlace) * Max(it->n, 1));
	read_header(it->target, said, parameters, &header);
	for (int i = 0; i < it->n; i++)
	{
		const InferPlacement *placement = &it->target->places[i];

		infer_route_describe(placement,
							 placement->permitted && infer_egress_host(placement->server),
							 &it->places[i]);
		it->places[i].no_room = !infer_place_has_room(placement->server);
		look(it->target, i, task, now_us, &it->places[i]);
	}
	infer_route_session(it->target, &header.route);
	infer_route_decide(&header.route, it->places, it->n, now_us,
					   infer_random_draw(hash_bytes_extended((const unsigned char *) model,
															 (int) strlen(model), 0)),
					   &it->decision);
	return it;
}
