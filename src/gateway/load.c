/*
 * gateway/load.c - how busy servers and nodes are.
 *
 * Once a tick each server's requests in flight are compared with what its admission key allows; the
 * route table keeps the samples, and works out the factors of nodes from them.
 */
#include "gateway/internal.h"

#include "shmem/admission.h"

static double
utilisation(const InferRouteEntry *entry)
{
	InferWindowConfig window; /* of no scan */
	int limit;

	if (entry->identity.admission_key < 0)
		return 0;
	limit = infer_admission_limit(entry->identity.admission_key, 1, &window);
	return limit > 0 ? (double) entry->snapshot.queue.in_flight / limit : 0;
}

void
infer_load_turn(void)
{
	InferRouteEntry entry;

	for (int i = 0; i < infer_route_slots(); i++)
	{
		if (infer_route_entry(i, &entry))
			infer_route_sample(entry.ref, utilisation(&entry));
	}
	infer_route_refresh_nodes();
}
