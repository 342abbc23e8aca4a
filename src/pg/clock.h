/*
 * pg/clock.h - the monotonic clock, in microseconds; the same one in all processes of the machine.
 */
#ifndef INFER_PG_CLOCK_H
#define INFER_PG_CLOCK_H

#include "portability/instr_time.h"

/* Now. */
static inline int64
infer_now_us(void)
{
	instr_time now;

	INSTR_TIME_SET_CURRENT(now);
	return (int64) INSTR_TIME_GET_MICROSEC(now);
}

#endif
