/*
 * registry/targets.c - what a model's name stands for, read from the catalogs.
 *
 * A model's own placements are its places of tier 0.  Its fallbacks' are those of tier 1, 2, ...:
 * first all that the model names, in its order, then those that these name, and so on, each model
 * once.  What a server that is gone, or has lost its url, leaves behind does not count, nor does a
 * fallback that is gone; only if nothing is left that is an error.
 */
#include "postgres.h"

#include "foreign/foreign.h"
#include "pg/report.h"
#include "registry/models.h"
#include "registry/placements.h"
#include "registry/refs.h"
#include "registry/registry.h"
#include "registry/servers.h"
#include "registry/targets.h"
#include "utils/builtins.h"

static char *
infer_copy_string(const char *string)
{
	return string ? pstrdup(string) : NULL;
}

/* Deep copies, into the current memory context. */
static InferServer *
infer_copy_server(const InferServer *from)
{
	InferServer *server = palloc(sizeof(InferServer));

	*server = *from;
	server->name = infer_copy_string(server->name);
	server->url = infer_copy_string(server->url);
	server->scheme = infer_copy_string(server->scheme);
	server->host = infer_copy_string(server->host);
	server->api = infer_copy_string(server->api);
	server->node = infer_copy_string(server->node);
	server->admission_key = infer_copy_string(server->admission_key);
	server->ca_file = infer_copy_string(server->ca_file);
	server->service_class = infer_copy_string(server->service_class);
	server->health_path = infer_copy_string(server->health_path);
	server->incarnation = infer_copy_string(server->incarnation);
	return server;
}

static void
infer_copy_placement(const InferPlacement *from, InferPlacement *to)
{
	*to = *from;
	to->server = infer_copy_server(from->server);
	to->remote_model = infer_copy_string(from->remote_model);
	to->service_class = infer_copy_string(from->service_class);
	to->feeds = palloc(sizeof(char *) * from->nfeeds);
	for (int i = 0; i < from->nfeeds; i++)
		to->feeds[i] = infer_copy_string(from->feeds[i]);
}

static InferNames
infer_copy_names(InferNames from)
{
	InferNames names = {from.n, palloc(sizeof(char *) * Max(from.n, 1))};

	for (int i = 0; i < from.n; i++)
		names.names[i] = pstrdup(from.names[i]);
	return names;
}

static const InferRef *
infer_copy_ref(const InferRef *from)
{
	return from != NULL ? memcpy(palloc(sizeof(InferRef)), from, sizeof(InferRef)) : NULL;
}

InferTarget *
infer_target_copy(const InferTarget *from)
{
	InferTarget *target = palloc(sizeof(InferTarget));

	*target = *from;
	target->model = infer_copy_string(from->model);
	target->ref = infer_copy_ref(from->ref);
	target->ts_args = infer_copy_names(from->ts_args);
	target->class_fns = infer_copy_names(from->class_fns);
	if (from->routing != NULL)
		target->routing = (Jsonb *) pg_detoast_datum_copy((struct varlena *) from->routing);
	target->places = palloc(sizeof(InferPlacement) * from->nplaces);
	for (int i = 0; i < from->nplaces; i++)
		infer_copy_placement(&from->places[i], &target->places[i]);
	return target;
}

bool
infer_task_fits(const char *has, InferTask wanted)
{
	if (wanted == INFER_TASK_CALL || strcmp(has, infer_task_name(wanted)) == 0)
		return true;
	if (wanted == INFER_TASK_COMPLETE)
		return strcmp(has, infer_task_name(INFER_TASK_CHAT)) == 0;
	if (wanted == INFER_TASK_CHAT)
		return strcmp(has, infer_task_name(INFER_TASK_COMPLETE)) == 0;
	return false;
}

static InferTarget *
infer_make_target(const char *model)
{
	InferTarget *target = palloc0(sizeof(InferTarget));

	target->model = pstrdup(model);
	target->min_version = INFER_VERSION_NONE;
	return target;
}

static void
infer_add_place(InferTarget *target, const InferModel *model, const InferPlacementRow *row,
				InferServer *server, int tier)
{
	InferPlacement *place = &target->places[target->nplaces++];

	memset(place, 0, sizeof(*place));
	place->server = server;
	place->remote_model = row->remote_model;
	place->input_price = model->input_price;
	place->output_price = model->output_price;
	place->version = row->version;
	place->weight = row->weight;
	place->feeds = row->feeds;
	place->nfeeds = row->nfeeds;
	place->ts_from = row->ts_from;
	place->ts_to = row->ts_to;
	place->is_primary = row->is_primary;
	place->service_class = row->service_class ? row->service_class : server->service_class;
	place->tier = tier;
}

/* The places of a model that can be used, behind those that the target has; routing sees no more
 * than so many, and they are those of the last fallbacks. */
static void
infer_add_places(InferTarget *target, const InferModel *model, int tier)
{
	int max = target->nplaces + list_length(model->placements);
	ListCell *cell;

	if (max == 0)
		return;
	target->places = target->places ? repalloc(target->places, sizeof(InferPlacement) * max)
									: palloc(sizeof(InferPlacement) * max);
	foreach (cell, model->placements)
	{
		InferPlacementRow *row = lfirst(cell);
		InferServer *server = infer_server_read_usable(row->server);

		/* a request's versions are those of its model */
		if (server != NULL && target->nplaces < INFER_ROUTE_MAX_PLACES &&
			(tier == 0 || row->version >= model->min_version))
			infer_add_place(target, model, row, server, tier);
	}
}

static bool
infer_list_has_model(const List *models, const char *name)
{
	ListCell *cell;

	foreach (cell, models)
	{
		if (strcmp(((InferModel *) lfirst(cell))->name, name) == 0)
			return true;
	}
	return false;
}

/* The model and all its fallbacks, in the order in which they are used. */
static List *
infer_read_fallbacks(InferModel *model, InferTask task)
{
	List *models = list_make1(model);

	for (int i = 0; i < list_length(models); i++)
	{
		InferNames names = ((InferModel *) list_nth(models, i))->fallbacks;

		for (int j = 0; j < names.n; j++)
		{
			InferModel *fallback;

			if (infer_list_has_model(models, names.names[j]))
				continue;
			fallback = infer_model_read(names.names[j]);
			if (fallback != NULL && infer_task_fits(fallback->task, task))
				models = lappend(models, fallback);
		}
	}
	return models;
}

static void
infer_refuse_unplaced(const InferModel *model)
{
	InferPlacementRow *first;

	if (model->placements == NIL)
		ereport(ERROR,
				(errcode(infer_errcode_no_placement()),
				 errmsg("model \"%s\" has no placement", model->name),
				 errdetail("There is no server that it runs on."),
				 errhint("Add one with infer.add_placement('%s', server => '...').", model->name)));
	first = linitial(model->placements);
	/* raises, for it was not usable; unless it has become so in this moment */
	infer_server_read(first->server, model->name);
	ereport(ERROR, (errcode(infer_errcode_config()),
					errmsg("the servers of model \"%s\" are being changed", model->name),
					errhint("Run the statement again.")));
}

static InferTarget *
infer_read_named_target(InferModel *model, InferTask task)
{
	InferTarget *target = infer_make_target(model->name);
	List *models;
	int tier = 0;
	ListCell *cell;

	if (!infer_task_fits(model->task, task))
		ereport(ERROR,
				(errcode(infer_errcode_config()),
				 errmsg("model \"%s\" is for %s, not for %s", model->name, model->task,
						infer_task_name(task)),
				 errhint("Use infer.%s(), or name a model for %s; infer.models lists the models.",
						 model->task, infer_task_name(task))));
	target->set_version = model->set_version;
	target->min_version = model->min_version;
	target->ts_args = model->ts_args;
	target->class_fns = model->class_fns;
	target->routing = model->routing;
	target->affinity_bytes = model->affinity_bytes;
	target->strategy = model->strategy;
	models = infer_read_fallbacks(model, task);
	foreach (cell, models)
		infer_add_places(target, lfirst(cell), tier++);
	if (target->nplaces == 0)
		infer_refuse_unplaced(model);
	return target;
}

/* What a server calls a model, with nobody's word on the rest. */
static InferTarget *
infer_make_addressed_target(const char *model, char *remote_model, InferServer *server)
{
	InferTarget *target = infer_make_target(model);
	InferPlacementRow row = infer_placement_default;
	InferModel unpriced = {.input_price = INFER_PRICE_UNKNOWN, .output_price = INFER_PRICE_UNKNOWN};

	row.remote_model = remote_model;
	target->places = palloc(sizeof(InferPlacement));
	infer_add_place(target, &unpriced, &row, server, 0);
	return target;
}

static InferTarget *
infer_read_referred_target(const char *model, InferTask task)
{
	InferRef *ref = infer_ref_parse(model);
	Oid server = get_foreign_server_oid(infer_ref_server(ref), true);
	InferTarget *target;

	if (!OidIsValid(server))
		ereport(
			ERROR,
			(errcode(infer_report_sqlstate(INFER_REASON_STALE_INCARNATION, INFER_NOT_ADMITTED)),
			 errmsg("the server of a service reference does not exist"),
			 errdetail("\"%s\" is not there (any more). Nothing was sent.", infer_ref_server(ref)),
			 errhint("Take a new reference with infer.ref(); an old one is never renewed.")));
	if (ref->model[0] == '\0' && task != INFER_TASK_CALL)
		ereport(ERROR,
				(errcode(infer_errcode_config()), errmsg("the service reference names no model"),
				 errhint("Use it with infer.call(), whose body names the model.")));
	target = infer_make_addressed_target(model, infer_ref_model(ref),
										 infer_server_read(infer_ref_server(ref), NULL));
	target->ref = ref;
	return target;
}

static InferTarget *
infer_read_addressed_target(const char *model, InferTask task)
{
	const char *slash = strchr(model, '/');
	char *server;

	/* a raw body can name the model itself */
	if (slash == model || (slash[1] == '\0' && task != INFER_TASK_CALL))
		ereport(ERROR, (errcode(infer_errcode_config()), errmsg("\"%s\" names no model", model),
						errhint("Write it as server/remote_model, or create a model with "
								"infer.create_model().")));
	server = pnstrdup(model, slash - model);
	if (!OidIsValid(get_foreign_server_oid(server, true)))
		ereport(
			ERROR,
			(errcode(infer_errcode_config()), errmsg("server \"%s\" does not exist", server),
			 errdetail("In \"%s\", what stands before the first slash is the server.", model),
			 errhint("Create it with CREATE SERVER %s FOREIGN DATA WRAPPER pg_inference OPTIONS "
					 "(url '...'), or put the name of a server and a slash before the model.",
					 quote_identifier(server))));
	return infer_make_addressed_target(model, pstrdup(slash + 1), infer_server_read(server, NULL));
}

InferTarget *
infer_target_read(const char *model, InferTask task)
{
	InferModel *row;

	if (infer_ref_is(model))
		return infer_read_referred_target(model, task);
	row = infer_model_read(model);
	if (row != NULL)
		return infer_read_named_target(row, task);
	if (strchr(model, '/') != NULL)
		return infer_read_addressed_target(model, task);
	if (OidIsValid(get_foreign_server_oid(model, true)))
		ereport(
			ERROR,
			(errcode(infer_errcode_config()), errmsg("\"%s\" is a server, not a model", model),
			 task == INFER_TASK_CALL
				 ? errhint("Write %s/, for the body names the model.", model)
				 : errhint("Write %s/remote_model, with what the server calls the model.", model)));
	ereport(ERROR,
			(errcode(infer_errcode_config()), errmsg("model \"%s\" does not exist", model),
			 errhint("Create it with infer.create_model('%s', task => '%s', server => '...'), or "
					 "write server/remote_model; infer.models lists the models.",
					 model, task == INFER_TASK_CALL ? "..." : infer_task_name(task))));
	return NULL; /* not reached */
}
