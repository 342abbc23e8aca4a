/*
 * shmem/observed.c - what the answers of each model took, shared by all backends.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "utils/timestamp.h"

#include "shmem/observed.h"

/* A place is free while stat.last is 0. */
typedef struct ObservedSet
{
	InferObservedStat places[INFER_OBSERVED_WAYS];
} ObservedSet;

/* Where they are in this process. */
static ObservedSet *sets = NULL;
static LWLockPadded *locks = NULL;

size_t
infer_observed_shmem_size(void)
{
	return MAXALIGN(mul_size(INFER_OBSERVED_SETS, sizeof(ObservedSet)));
}

void
infer_observed_shmem_attach(void *memory, LWLockPadded *tranche, bool found)
{
	sets = memory;
	locks = tranche;
	if (!found)
		memset(memory, 0, infer_observed_shmem_size());
}

void
infer_observed_key(InferObservedKey *key, Oid server, InferTask task, const char *remote_model)
{
	size_t len = strlen(remote_model);

	memset(key, 0, sizeof(*key));
	key->database = MyDatabaseId;
	key->server = server;
	key->task = task;
	if (len < INFER_OBSERVED_NAME_MAX)
		memcpy(key->remote_model, remote_model, len);
	else
		snprintf(key->remote_model, sizeof(key->remote_model), "hash:" UINT64_FORMAT,
				 hash_bytes_extended((const unsigned char *) remote_model, len, 0));
}

static int
set_of(const InferObservedKey *key)
{
	return hash_bytes((const unsigned char *) key, sizeof(*key)) % INFER_OBSERVED_SETS;
}

/* The model's place in its set, whose lock is held; NULL if it has none. */
static InferObservedStat *
find_place(ObservedSet *set, const InferObservedKey *key)
{
	for (int i = 0; i < INFER_OBSERVED_WAYS; i++)
	{
		if (set->places[i].last != 0 && memcmp(&set->places[i].key, key, sizeof(*key)) == 0)
			return &set->places[i];
	}
	return NULL;
}

/* A free place, or that of the model which was heard of longest ago; then it is free. */
static InferObservedStat *
make_place(ObservedSet *set)
{
	InferObservedStat *oldest = &set->places[0];

	for (int i = 1; i < INFER_OBSERVED_WAYS; i++)
	{
		if (set->places[i].last < oldest->last)
			oldest = &set->places[i];
	}
	memset(oldest, 0, sizeof(*oldest));
	return oldest;
}

void
infer_observed_note(const InferObservedKey *key, const char *server_name,
					const InferRequestFigures *request)
{
	int number = set_of(key);
	TimestampTz now = GetCurrentTimestamp();
	InferObservedStat *place;

	LWLockAcquire(&locks[number].lock, LW_EXCLUSIVE);
	place = find_place(&sets[number], key);
	if (place == NULL)
	{
		place = make_place(&sets[number]);
		place->key = *key;
	}
	strlcpy(place->server_name, server_name, sizeof(place->server_name));
	place->last = now;
	infer_cost_observe(&place->observed, request);
	LWLockRelease(&locks[number].lock);
}

/* The model's sizes, which begin anew with each version of its server; the set's lock is held. */
static InferSizes *
find_sizes(ObservedSet *set, const InferObservedKey *key, uint32 server_version)
{
	InferObservedStat *place = find_place(set, key);

	if (place != NULL && place->sizes_server != server_version)
	{
		memset(&place->sizes, 0, sizeof(place->sizes));
		place->sizes_server = server_version;
	}
	return place == NULL ? NULL : &place->sizes;
}

void
infer_observed_taken(const InferObservedKey *key, uint32 server_version, InferSize size,
					 int64 tokens)
{
	int number = set_of(key);
	TimestampTz now = GetCurrentTimestamp();
	InferSizes *sizes;

	LWLockAcquire(&locks[number].lock, LW_EXCLUSIVE);
	sizes = find_sizes(&sets[number], key, server_version);
	if (sizes != NULL)
	{
		infer_sizes_age(sizes, now);
		infer_sizes_taken(sizes, size, tokens);
	}
	LWLockRelease(&locks[number].lock);
}

void
infer_observed_refused(const InferObservedKey *key, uint32 server_version, InferSize size,
					   InferSizeKind kind)
{
	int number = set_of(key);
	TimestampTz now = GetCurrentTimestamp();
	InferSizes *sizes;

	LWLockAcquire(&locks[number].lock, LW_EXCLUSIVE);
	sizes = find_sizes(&sets[number], key, server_version);
	if (sizes != NULL)
		infer_sizes_refused(sizes, size, kind, true, now);
	LWLockRelease(&locks[number].lock);
}

bool
infer_observed_sizes(const InferObservedKey *key, uint32 server_version, InferSizes *sizes)
{
	int number = set_of(key);
	TimestampTz now = GetCurrentTimestamp();
	InferObservedStat *place;
	bool known;

	LWLockAcquire(&locks[number].lock, LW_SHARED);
	place = find_place(&sets[number], key);
	known = place != NULL && place->sizes_server == server_version;
	if (known)
		*sizes = place->sizes;
	LWLockRelease(&locks[number].lock);
	if (known)
		infer_sizes_age(sizes, now);
	return known;
}

bool
infer_observed_pace(const InferObservedKey *key, InferPace *pace)
{
	int number = set_of(key);
	const InferObservedStat *place;

	LWLockAcquire(&locks[number].lock, LW_SHARED);
	place = find_place(&sets[number], key);
	if (place != NULL && place->observed.requests == 0)
		place = NULL;
	if (place != NULL)
		*pace = place->observed.seen;
	LWLockRelease(&locks[number].lock);
	return place != NULL;
}

bool
infer_observed_stat(int i, InferObservedStat *stat)
{
	int number = i / INFER_OBSERVED_WAYS;

	LWLockAcquire(&locks[number].lock, LW_SHARED);
	*stat = sets[number].places[i % INFER_OBSERVED_WAYS];
	LWLockRelease(&locks[number].lock);
	return stat->last != 0;
}

void
infer_observed_reset(void)
{
	for (int i = 0; i < INFER_OBSERVED_SETS; i++)
	{
		LWLockAcquire(&locks[i].lock, LW_EXCLUSIVE);
		memset(&sets[i], 0, sizeof(ObservedSet));
		LWLockRelease(&locks[i].lock);
	}
}
