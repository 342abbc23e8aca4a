/*
 * core/probe.c - what a probe of a server's health proves, and when the next one is due.
 */
#include "core/probe.h"

#define JITTER           0.1
#define REDIAL_US        500000
#define LOADING          503
#define IS_SUCCESS(code) ((code) >= 200 && (code) < 300)

InferProbeHealth
infer_probe_judge(const InferWire *wire)
{
	if (IS_SUCCESS(wire->status))
		return INFER_PROBE_READY;
	if (wire->status != 0)
		return wire->status == LOADING ? INFER_PROBE_BEHIND : INFER_PROBE_ANSWERS;
	return wire->end == INFER_WIRE_LOOKUP || wire->end == INFER_WIRE_CONNECT
			   ? INFER_PROBE_UNREACHABLE
			   : INFER_PROBE_SILENT;
}

int64_t
infer_probe_next_us(InferProbeHealth health, int64_t sent_us, int64_t interval_us, double draw)
{
	int64_t pause_us = interval_us;

	if (health == INFER_PROBE_UNREACHABLE && pause_us > REDIAL_US)
		pause_us = REDIAL_US;
	return sent_us + (int64_t) ((double) pause_us * (1 + JITTER * (2 * draw - 1)));
}
