/*
 * core/probe.h - what a probe of a server's health proves, and when the next one is due.
 *
 * A probe is a GET without a key, on a connection of its own, now and then.  It may show more than
 * whether an address answers, or less:
 *
 *   READY        2xx: it is there, and ready
 *   BEHIND       503: it is there, and says that it is not ready (it loads its model)
 *   ANSWERS      any other status: it is there; how it is, its probe cannot tell (it wants a key,
 *                knows no such path, has too many callers), calls have to
 *   SILENT       nothing is proved: it does not answer in time, as one that is busy with a long
 *                inference does not, or ends the connection, or our own side is to blame
 *   UNREACHABLE  its name does not resolve, or nobody takes connections at its address
 *
 * Only the last one counts as a failure of the address.
 *
 * Pure.  Time is in microseconds.
 */
#ifndef INFER_CORE_PROBE_H
#define INFER_CORE_PROBE_H

#include "core/proof.h"

typedef enum InferProbeHealth
{
	INFER_PROBE_READY,
	INFER_PROBE_BEHIND,
	INFER_PROBE_ANSWERS,
	INFER_PROBE_SILENT,
	INFER_PROBE_UNREACHABLE
} InferProbeHealth;

/* What this end of a probe shows; see above. */
extern InferProbeHealth infer_probe_judge(const InferWire *wire);

/*
 * When the next probe leaves after one that was sent then and has just ended: an interval later,
 * +-10 % (draw in [0, 1)), so that probes of many servers do not march in step.  While nobody can
 * be reached, and that is when calls wait for news, as often as connections are tried at most (500
 * ms), but no more often than the interval says.
 */
extern int64_t infer_probe_next_us(InferProbeHealth health, int64_t sent_us, int64_t interval_us,
								   double draw);

#endif
