/*
 * shmem/route.c - the route table's memory: who is in which slot.
 *
 *   header | buckets | slots[capacity]
 *
 * A slot is found through a chain that begins in the bucket of its key.  Everything is indexes,
 * nothing is a pointer.  Slots are taken from those that are free, else from whoever was used
 * longest ago and has nothing in flight.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"

#include "pg/clock.h"
#include "pg/guc.h"
#include "shmem/drain.h"
#include "shmem/gateway.h"
#include "shmem/route_private.h"

#define NOBODY INFER_ROUTE_NOBODY

/* A slot's time of use is written so often at most by those who only look it up. */
#define USED_GRAIN_US 1000000

/*
 * Who comes with an older version of a server soon after a newer one was published has read its
 * catalogs before.  Later he is believed: numbers of versions wrap around.
 */
#define OLDER_US 60000000

typedef struct RouteTable
{
	int capacity;
	int nbuckets;                         /* a power of two, at least twice the capacity */
	int32 buckets[FLEXIBLE_ARRAY_MEMBER]; /* the first of a chain, or NOBODY; table lock */
} RouteTable;

/* Where they are in this process. */
static RouteTable *table = NULL;
static InferRouteSlot *slots = NULL;
static LWLockPadded *locks = NULL;

#define table_lock()      (&locks[0].lock)
#define partition_lock(i) (&locks[1 + (i) % INFER_ROUTE_PARTITIONS].lock)

/* --- Memory --- */

static int
count_buckets(int capacity)
{
	return (int) pg_nextpower2_32(2 * capacity);
}

static Size
table_size(int capacity)
{
	return MAXALIGN(
		add_size(offsetof(RouteTable, buckets), mul_size(count_buckets(capacity), sizeof(int32))));
}

size_t
infer_route_shmem_size(void)
{
	int capacity = infer_guc_max_servers;

	return add_size(table_size(capacity), MAXALIGN(mul_size(capacity, sizeof(InferRouteSlot))));
}

/* References outlive restarts, and must not fit by chance to what is in the slot afterwards. */
static uint32
first_generation(void)
{
	uint32 number;

	if (!pg_strong_random(&number, sizeof(number)))
		ereport(FATAL, (errmsg("could not get random numbers")));
	return number & PG_INT32_MAX;
}

void
infer_route_shmem_attach(void *memory, LWLockPadded *tranche, bool found)
{
	int capacity = infer_guc_max_servers;

	locks = tranche;
	table = memory;
	slots = (InferRouteSlot *) ((char *) memory + table_size(capacity));
	if (found)
		return;

	memset(memory, 0, infer_route_shmem_size());
	table->capacity = capacity;
	table->nbuckets = count_buckets(capacity);
	for (int i = 0; i < table->nbuckets; i++)
		table->buckets[i] = NOBODY;
	for (int i = 0; i < capacity; i++)
		slots[i].generation = first_generation();
}

int
infer_route_slots(void)
{
	return table->capacity;
}

InferRouteSlot *
infer_route_lock_any(int i, LWLockMode mode)
{
	LWLockAcquire(partition_lock(i), mode);
	return &slots[i];
}

void
infer_route_unlock(int i)
{
	LWLockRelease(partition_lock(i));
}

static bool
is_free(const InferRouteSlot *slot)
{
	return !OidIsValid(slot->identity.server);
}

InferRouteSlot *
infer_route_lock(InferRouteRef ref, LWLockMode mode)
{
	InferRouteSlot *slot;

	if (ref.slot < 0 || ref.slot >= table->capacity)
		return NULL;
	slot = infer_route_lock_any(ref.slot, mode);
	if (slot->generation == ref.generation && !is_free(slot))
		return slot;
	infer_route_unlock(ref.slot);
	return NULL;
}

/* --- Who is where --- */

static int32 *
bucket_of(Oid database, Oid server)
{
	uint32 hash = hash_combine(murmurhash32(database), murmurhash32(server));

	return &table->buckets[hash & (table->nbuckets - 1)];
}

/* The server's slot, or NOBODY. Table lock held. */
static int
find_slot(Oid database, Oid server)
{
	int i = *bucket_of(database, server);

	while (i != NOBODY &&
		   (slots[i].identity.database != database || slots[i].identity.server != server))
		i = slots[i].next;
	return i;
}

/* Nobody is in it any more. Table lock and partition lock held exclusively. */
static void
free_slot(int i)
{
	InferRouteSlot *slot = &slots[i];
	int32 *link = bucket_of(slot->identity.database, slot->identity.server);

	while (*link != i)
		link = &slots[*link].next;
	*link = slot->next;
	slot->identity.server = InvalidOid;
}

/* All that is known of an endpoint begins anew. Locks as above. */
static void
clear_slot(InferRouteSlot *slot)
{
	uint32 generation = slot->generation;
	int32 next = slot->next;

	memset(slot, 0, sizeof(*slot));
	slot->generation = generation + 1;
	slot->next = next;
	infer_queue_init(&slot->now.queue);
	slot->since_us = infer_now_us();
}

/* A slot that is free or can be, else NOBODY.  Looks without partition locks; the table lock is
 * held exclusively, so that nobody else takes one. */
static int
choose_slot(void)
{
	int oldest = NOBODY;

	for (int i = 0; i < table->capacity; i++)
	{
		if (is_free(&slots[i]))
			return i;
		if (slots[i].now.queue.in_flight == 0 &&
			(oldest == NOBODY || slots[i].used_us < slots[oldest].used_us))
			oldest = i;
	}
	return oldest;
}

/* Makes room for one more server: a cleared slot whose partition lock is held, or NOBODY. */
static int
take_slot(void)
{
	for (int tries = 0; tries < 8; tries++)
	{
		int i = choose_slot();

		if (i == NOBODY)
			return NOBODY;
		LWLockAcquire(partition_lock(i), LW_EXCLUSIVE);
		if (is_free(&slots[i]) || slots[i].now.queue.in_flight == 0)
		{
			if (!is_free(&slots[i]))
				free_slot(i);
			clear_slot(&slots[i]);
			return i;
		}
		LWLockRelease(partition_lock(i)); /* somebody has just begun to use it */
	}
	return NOBODY;
}

static bool
is_same_endpoint(const InferRouteIdentity *a, const InferRouteIdentity *b)
{
	return a->port == b->port && strcmp(a->host, b->host) == 0 && strcmp(a->scheme, b->scheme) == 0;
}

/* The server is in the slot now. Locks held exclusively. */
static void
set_identity(InferRouteSlot *slot, const InferRouteIdentity *identity)
{
	slot->identity = *identity;
	if (identity->node[0] == '\0')
		memcpy(slot->identity.node, identity->name, sizeof(slot->identity.node));
	slot->published_us = slot->used_us = infer_now_us();
	slot->now.drain_until_us = infer_drain_until(identity->database, identity->server);
	infer_gateway_wake();
}

/* ... where another version of it was. */
static void
replace_identity(InferRouteSlot *slot, const InferRouteIdentity *identity)
{
	if (!is_same_endpoint(&slot->identity, identity))
		clear_slot(slot);
	else if (strcmp(slot->identity.incarnation, identity->incarnation) != 0)
	{
		slot->now.incarnation = 0;
		slot->incarnation[0] = '\0';
	}
	set_identity(slot, identity);
	slot->next_probe_us = 0;
}

/* Returns the slot, with the server in it; FULL or OUTDATED. */
static InferRouteRef
publish(const InferRouteIdentity *identity)
{
	InferRouteRef ref = {INFER_ROUTE_FULL, 0};
	int64 now = infer_now_us();
	int i;

	LWLockAcquire(table_lock(), LW_EXCLUSIVE);
	i = find_slot(identity->database, identity->server);
	if (i != NOBODY)
		LWLockAcquire(partition_lock(i), LW_EXCLUSIVE);
	else if ((i = take_slot()) != NOBODY)
	{
		int32 *bucket = bucket_of(identity->database, identity->server);

		set_identity(&slots[i], identity);
		slots[i].next = *bucket;
		*bucket = i;
	}
	if (i != NOBODY)
	{
		InferRouteSlot *slot = &slots[i];

		ref = (InferRouteRef){i, slot->generation};
		if (slot->identity.version != identity->version)
		{
			if (now - slot->published_us < OLDER_US &&
				TransactionIdPrecedes(identity->version, slot->identity.version))
				ref.slot = INFER_ROUTE_OUTDATED;
			else
			{
				replace_identity(slot, identity);
				ref.generation = slot->generation;
			}
		}
		LWLockRelease(partition_lock(i));
	}
	LWLockRelease(table_lock());
	return ref;
}

/* The slot if the server is in it in this version. */
static bool
look_up(const InferRouteIdentity *identity, InferRouteRef *ref)
{
	int64 now = infer_now_us();
	bool found;
	bool long_ago;
	int i;

	LWLockAcquire(table_lock(), LW_SHARED);
	i = find_slot(identity->database, identity->server);
	found = i != NOBODY && slots[i].identity.version == identity->version;
	*ref = (InferRouteRef){i, i != NOBODY ? slots[i].generation : 0};
	long_ago = found && slots[i].used_us < now - USED_GRAIN_US;
	LWLockRelease(table_lock());
	if (long_ago)
	{
		InferRouteSlot *slot = infer_route_lock(*ref, LW_EXCLUSIVE);

		if (slot == NULL)
			return false;
		slot->used_us = now;
		infer_route_unlock(i);
	}
	return found;
}

InferRouteRef
infer_route_find(Oid database, Oid server)
{
	InferRouteRef ref;

	LWLockAcquire(table_lock(), LW_SHARED);
	ref.slot = find_slot(database, server);
	ref.generation = ref.slot != NOBODY ? slots[ref.slot].generation : 0;
	LWLockRelease(table_lock());
	return ref;
}

static void
tell_full(const char *server)
{
	static bool told = false;

	if (told)
		return;
	told = true;
	ereport(WARNING,
			(errmsg("there is no room to watch server \"%s\"", server),
			 errdetail("All %d servers that shared memory has room for have requests in flight. "
					   "Calls go on, but nothing is known of how others fare there.",
					   table->capacity),
			 errhint("Raise pg_inference.max_servers and restart the server.")));
}

InferRouteRef
infer_route_slot(const InferRouteIdentity *identity)
{
	InferRouteRef ref;

	if (look_up(identity, &ref))
		return ref;
	if (TransactionIdIsCurrentTransactionId(identity->version))
		return (InferRouteRef){INFER_ROUTE_OUTDATED, 0};
	ref = publish(identity);
	if (ref.slot == INFER_ROUTE_FULL)
		tell_full(identity->name);
	return ref;
}

void
infer_route_forget(InferRouteRef ref)
{
	InferRouteSlot *slot;

	LWLockAcquire(table_lock(), LW_EXCLUSIVE);
	slot = infer_route_lock(ref, LW_EXCLUSIVE);
	if (slot != NULL)
	{
		free_slot(ref.slot);
		infer_route_unlock(ref.slot);
	}
	LWLockRelease(table_lock());
}
