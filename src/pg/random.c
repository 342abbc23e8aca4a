/*
 * pg/random.c - the random numbers of this process.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "common/pg_prng.h"

#include "pg/guc.h"
#include "pg/random.h"

double
infer_random_draw(uint64 what)
{
	pg_prng_state state;

	if (infer_guc_random_seed == 0)
		return pg_prng_double(&pg_global_prng_state);
	pg_prng_seed(&state, hash_combine64((uint64) infer_guc_random_seed, what));
	return pg_prng_double(&state);
}

uint64
infer_random_id(void)
{
	static uint64 drawn;
	uint64 id;

	if (infer_guc_random_seed != 0)
		return hash_combine64((uint64) infer_guc_random_seed, ++drawn);
	if (!pg_strong_random(&id, sizeof(id)))
		elog(ERROR, "could not draw a random number");
	return id;
}
