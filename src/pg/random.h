/*
 * pg/random.h - the random numbers of this process.
 *
 * With pg_inference.random_seed a draw depends on the seed and on what it is for, not on what was
 * drawn before: so the order in which answers arrive changes nothing, and two runs draw the same.
 */
#ifndef INFER_PG_RANDOM_H
#define INFER_PG_RANDOM_H

#include "postgres.h"

/* A number in [0,1).  what: says what it is for, only looked at with a seed. */
extern double infer_random_draw(uint64 what);

/* 64 bits that nobody can guess; with a seed, how many were drawn before decides. */
extern uint64 infer_random_id(void);

#endif
