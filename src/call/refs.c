/*
 * call/refs.c - taking a service reference (call/refs.h).
 *
 * A reference says what is known, and nothing is asked to find out more: what a reference is good
 * for is that the server which it names is the one that has been seen.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/jsonb.h"
#include "utils/fmgrprotos.h"

#include "call/explain.h"
#include "call/refs.h"
#include "pg/report.h"
#include "registry/models.h"
#include "registry/placements.h"
#include "registry/refs.h"
#include "registry/servers.h"
#include "shmem/route.h"

static Jsonb *
nothing(void)
{
	return DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum("{}")));
}

/* Where a call would go. */
static const InferPlacement *
choose(const char *model)
{
	InferExplanation *it = infer_explain_route(model, nothing(), nothing());

	if (it->decision.cause != INFER_CAUSE_NONE)
		ereport(ERROR, (errcode(infer_report_sqlstate(INFER_REASON_NO_DEST, INFER_NOT_ADMITTED)),
						errmsg("a call of model \"%s\" has nowhere to go now", model),
						errhint("infer.explain_route() tells why; or name a server.")));
	return &it->target->places[it->decision.order[0]];
}

/* Does the catalog place it there, whatever the server is? */
static bool
is_placed(const char *name, const char *server)
{
	InferModel *model = infer_model_read(name);
	ListCell *cell;

	if (model == NULL)
		return false;
	foreach (cell, model->placements)
	{
		if (strcmp(((InferPlacementRow *) lfirst(cell))->server, server) == 0)
			return true;
	}
	return false;
}

/* The model's own placement on that server. */
static const InferPlacement *
find(const char *model, const char *server)
{
	InferExplanation *it = infer_explain_route(model, nothing(), nothing());
	const InferPlacement *found = NULL;

	for (int i = 0; i < it->n; i++)
	{
		const InferPlacement *place = &it->target->places[i];

		if (place->tier != 0 || strcmp(place->server->name, server) != 0)
			continue;
		if (found != NULL)
			ereport(ERROR,
					(errcode(infer_errcode_config()),
					 errmsg("model \"%s\" is on server \"%s\" more than once", model, server),
					 errhint("Name the one that is meant as %s/remote_model.", server)));
		found = place;
	}
	if (found == NULL && infer_server_problem(server) != NULL && is_placed(model, server))
		infer_server_read(server, model); /* says what is wrong with it */
	if (found == NULL)
		ereport(ERROR, (errcode(infer_errcode_config()),
						errmsg("model \"%s\" is not on server \"%s\"", model, server),
						errhint("infer.placements lists the servers of a model.")));
	infer_server_require_usage(found->server->oid, server, GetUserId());
	return found;
}

static void
fill(const InferServer *server, InferRef *ref)
{
	InferRouteRef slot = infer_route_find(MyDatabaseId, server->oid);
	InferRouteEntry *entry = palloc(sizeof(InferRouteEntry));

	/* as it is now, and not before an ALTER SERVER that no call has told of yet */
	if (slot.slot < 0 || !infer_route_entry(slot.slot, entry) ||
		entry->ref.generation != slot.generation || entry->identity.version != server->version)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("nothing is known of server \"%s\" yet", server->name),
						errdetail("No call has used it since PostgreSQL was started, or since the "
								  "server was made or altered."),
						errhint("Call one of its models, then take the reference.")));
	if (server->incarnation != NULL && entry->incarnation[0] == '\0')
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("it is not known yet which incarnation of server \"%s\" is up", server->name),
			 errdetail("Neither a probe nor an answer has said so (%s).", server->incarnation),
			 errhint("Call one of its models, or wait for the gateway's next probe.")));
	if (server->incarnation != NULL)
		memcpy(ref->incarnation, entry->incarnation, sizeof(ref->incarnation));
	ref->slot = slot.slot;
	ref->generation = slot.generation;
}

char *
infer_ref_take(const char *model, const char *server)
{
	InferRef *ref = palloc0(sizeof(InferRef));
	const InferPlacement *place;
	char *text = palloc(INFER_REF_TEXT_MAX);

	if (infer_ref_is(model))
		ereport(ERROR,
				(errcode(infer_errcode_config()), errmsg("this is a service reference already"),
				 errhint("Give the name of a model.")));
	place = server != NULL ? find(model, server) : choose(model);
	infer_ref_put(ref->server, sizeof(ref->server), place->server->name);
	infer_ref_put(ref->model, sizeof(ref->model), place->remote_model);
	fill(place->server, ref);
	infer_ref_write(ref, text);
	return text;
}
