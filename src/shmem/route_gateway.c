/*
 * shmem/route_gateway.c - what the gateway writes into the route table: ends of probes, samples of
 * how busy servers are, and what follows from these for their nodes.
 *
 * A node is what servers of one database give the same name; a server that names none is its own.
 * Its factors are worked out here, once a tick, and kept with each of its servers, so that who
 * chooses finds them there.
 */
#include "postgres.h"

#include "pg/clock.h"
#include "pg/health_weights.h"
#include "pg/random.h"
#include "shmem/admission.h"
#include "shmem/route_private.h"

/* Of one server, for its node. */
typedef struct NodeMember
{
	InferRouteRef ref;
	Oid database;
	char node[NAMEDATALEN];
	double health; /* its weight, if it is healthy */
	InferUtilisation utilisation;
} NodeMember;

void
infer_route_probed(InferRouteRef ref, const InferRouteProbe *probe)
{
	int64 now = infer_now_us();
	double draw = infer_random_draw(ref.slot);
	InferRouteSlot *slot = infer_route_lock(ref, LW_EXCLUSIVE);

	if (slot == NULL)
		return;
	slot->probed_us = now;
	slot->next_probe_us = probe->next_us;
	slot->probe_reason = probe->reason;
	slot->probe_status = probe->http_status;
	if (probe->http_status > 0 || probe->address != NULL)
	{
		strlcpy(slot->address, probe->address ? probe->address : "", sizeof(slot->address));
		slot->address_us = now;
	}
	infer_route_note_peer(slot, probe->reason, probe->http_status > 0, probe->sent_us, now);
	if (probe->http_status > 0 && !probe->untold)
		infer_route_note_behind(slot, probe->behind, now);
	if (probe->behind)
		infer_queue_exclude(&slot->now.queue, 0, now, draw);
	infer_route_note_incarnation(slot, probe->incarnation, probe->sent_us, now);
	infer_route_unlock(ref.slot);
}

void
infer_route_said(InferRouteRef ref, const char *incarnation, int64 sent_us)
{
	int64 now = infer_now_us();
	InferRouteSlot *slot = infer_route_lock(ref, LW_EXCLUSIVE);

	if (slot == NULL)
		return;
	infer_route_note_incarnation(slot, incarnation, sent_us, now);
	infer_route_unlock(ref.slot);
}

void
infer_route_sample(InferRouteRef ref, double utilisation)
{
	InferRouteSlot *slot = infer_route_lock(ref, LW_EXCLUSIVE);

	if (slot == NULL)
		return;
	infer_utilisation_sample(&slot->utilisation, utilisation);
	infer_route_unlock(ref.slot);
}

/* Is anybody there, and who? */
static bool
read_member(int i, NodeMember *member, int64 now)
{
	const InferRouteSlot *slot = infer_route_lock_any(i, LW_SHARED);
	bool used = OidIsValid(slot->identity.server);
	bool healthy = used && infer_route_state(&slot->now, now) == INFER_PLACE_UP;
	int key = slot->identity.admission_key;
	char service_class[NAMEDATALEN];

	if (used)
	{
		member->ref = (InferRouteRef){i, slot->generation};
		member->database = slot->identity.database;
		memcpy(member->node, slot->identity.node, sizeof(member->node));
		memcpy(service_class, slot->identity.service_class, sizeof(service_class));
		member->utilisation = slot->utilisation;
	}
	infer_route_unlock(i);
	/* when it has been left alone for long enough, somebody is to go and see */
	healthy = healthy && (key < 0 || infer_admission_failing(key).next_us == 0);
	member->health = healthy ? infer_health_weight(service_class) : 0;
	return used;
}

static int
compare_nodes(const void *a, const void *b)
{
	const NodeMember *first = a;
	const NodeMember *second = b;

	if (first->database != second->database)
		return first->database < second->database ? -1 : 1;
	return strcmp(first->node, second->node);
}

/* Works out the factors of n servers' node, and tells these servers. */
static void
refresh_node(const NodeMember *members, int n, int64 now)
{
	InferLoad load = {{0}, 0};
	double health = 0;
	double factor;

	for (int i = 0; i < n; i++)
	{
		infer_load_add(&load, &members[i].utilisation);
		health += members[i].health;
	}
	factor = infer_load_factor(&load);
	for (int i = 0; i < n; i++)
	{
		InferRouteSlot *slot = infer_route_lock(members[i].ref, LW_EXCLUSIVE);

		if (slot == NULL)
			continue;
		slot->now.node_us = now;
		slot->now.node_load = (float) factor;
		slot->now.node_health = (float) health;
		infer_route_unlock(members[i].ref.slot);
	}
}

void
infer_route_refresh_nodes(void)
{
	int capacity = infer_route_slots();
	NodeMember *members = palloc(sizeof(NodeMember) * capacity);
	int64 now = infer_now_us();
	int n = 0;
	int end;

	for (int i = 0; i < capacity; i++)
		n += read_member(i, &members[n], now);
	qsort(members, n, sizeof(NodeMember), compare_nodes);
	for (int i = 0; i < n; i = end)
	{
		end = i + 1;
		while (end < n && compare_nodes(&members[i], &members[end]) == 0)
			end++;
		refresh_node(&members[i], end - i, now);
	}
	pfree(members);
}
