/*
 * shmem/hedges.c - the budget of second copies of each model, shared by all backends.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/lwlock.h"

#include "pg/clock.h"
#include "shmem/hedges.h"

#define PLACES 256

/* Free while used_us is 0. */
typedef struct HedgePlace
{
	InferHedgeKey key;
	int64 used_us;
	InferHedge hedge;
} HedgePlace;

/* Where they are in this process. */
static HedgePlace *places = NULL;
static LWLock *lock = NULL;

size_t
infer_hedges_shmem_size(void)
{
	return MAXALIGN(mul_size(PLACES, sizeof(HedgePlace)));
}

void
infer_hedges_shmem_attach(void *memory, LWLockPadded *tranche, bool found)
{
	places = memory;
	lock = &tranche->lock;
	if (!found)
		memset(memory, 0, infer_hedges_shmem_size());
}

InferHedgeKey
infer_hedges_key(const char *model)
{
	return (InferHedgeKey){
		MyDatabaseId, hash_bytes_extended((const unsigned char *) model, (int) strlen(model), 0)};
}

static bool
is_of(const HedgePlace *place, const InferHedgeKey *key)
{
	return place->used_us != 0 && place->key.database == key->database &&
		   place->key.model == key->model;
}

/* The model's place, made if it has none; the lock is held. */
static InferHedge *
get(const InferHedgeKey *key)
{
	HedgePlace *oldest = &places[0];

	for (int i = 0; i < PLACES; i++)
	{
		if (is_of(&places[i], key))
		{
			places[i].used_us = infer_now_us();
			return &places[i].hedge;
		}
		if (places[i].used_us < oldest->used_us)
			oldest = &places[i];
	}
	oldest->key = *key;
	oldest->used_us = infer_now_us();
	infer_hedge_init(&oldest->hedge);
	return &oldest->hedge;
}

int64
infer_hedges_delay_us(const InferHedgeKey *key, InferAttemptKind kind, int64 first_us,
					  int64 second_us, int64 base_us)
{
	int64 delay;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	delay = infer_hedge_delay_us(get(key), kind, true, first_us, second_us, base_us);
	LWLockRelease(lock);
	return delay;
}

bool
infer_hedges_take(const InferHedgeKey *key)
{
	bool taken;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	taken = infer_hedge_take(get(key), true);
	LWLockRelease(lock);
	return taken;
}

void
infer_hedges_untake(const InferHedgeKey *key)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	infer_hedge_untake(get(key));
	LWLockRelease(lock);
}

void
infer_hedges_landed(const InferHedgeKey *key, InferAttemptKind kind, bool copied, bool late,
					bool won)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	infer_hedge_landed(get(key), kind, copied, late, won);
	LWLockRelease(lock);
}
