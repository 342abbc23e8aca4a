/*
 * sim/test_probe.c - what a probe proves, and when the next one is due.
 */
#include "core/probe.h"
#include "tap.h"

static void
test_gw_7_what_a_probe_proves(void)
{
	static const struct
	{
		const char *name;
		InferWireEnd end;
		int status;
		InferProbeHealth health;
	} rows[] = {
		{"200", INFER_WIRE_OK, 200, INFER_PROBE_READY},
		{"204", INFER_WIRE_OK, 204, INFER_PROBE_READY},
		{"299", INFER_WIRE_OK, 299, INFER_PROBE_READY},
		{"a long list of models", INFER_WIRE_TOO_LARGE, 200, INFER_PROBE_READY},
		{"cut short", INFER_WIRE_PARTIAL, 200, INFER_PROBE_READY},
		{"503: loading", INFER_WIRE_OK, 503, INFER_PROBE_BEHIND},
		{"300", INFER_WIRE_OK, 300, INFER_PROBE_ANSWERS},
		{"400", INFER_WIRE_OK, 400, INFER_PROBE_ANSWERS},
		{"401", INFER_WIRE_OK, 401, INFER_PROBE_ANSWERS},
		{"403", INFER_WIRE_OK, 403, INFER_PROBE_ANSWERS},
		{"404", INFER_WIRE_OK, 404, INFER_PROBE_ANSWERS},
		{"429", INFER_WIRE_OK, 429, INFER_PROBE_ANSWERS},
		{"500", INFER_WIRE_OK, 500, INFER_PROBE_ANSWERS},
		{"504", INFER_WIRE_OK, 504, INFER_PROBE_ANSWERS},
		{"no such name", INFER_WIRE_LOOKUP, 0, INFER_PROBE_UNREACHABLE},
		{"refused", INFER_WIRE_CONNECT, 0, INFER_PROBE_UNREACHABLE},
		{"TLS", INFER_WIRE_TLS, 0, INFER_PROBE_SILENT},
		{"certificate", INFER_WIRE_CERTIFICATE, 0, INFER_PROBE_SILENT},
		{"address not allowed", INFER_WIRE_DENIED, 0, INFER_PROBE_SILENT},
		{"no answer in time", INFER_WIRE_TIMEOUT, 0, INFER_PROBE_SILENT},
		{"closed", INFER_WIRE_DISCONNECT, 0, INFER_PROBE_SILENT},
		{"no HTTP", INFER_WIRE_PROTOCOL, 0, INFER_PROBE_SILENT},
		{"cancelled", INFER_WIRE_CANCELLED, 0, INFER_PROBE_SILENT},
		{"no memory", INFER_WIRE_INTERNAL, 0, INFER_PROBE_SILENT},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		InferWire wire = {.end = rows[i].end, .status = rows[i].status};

		CHECK_ROW(infer_probe_judge(&wire) == rows[i].health, rows[i].name);
	}
}

static void
test_gw_7_when_the_next_one_is_due(void)
{
	const int64_t second = 1000000;

	for (int health = INFER_PROBE_READY; health < INFER_PROBE_UNREACHABLE; health++)
	{
		CHECK(infer_probe_next_us(health, 7 * second, 5 * second, 0.5) == 12 * second);
		CHECK(infer_probe_next_us(health, 0, 5 * second, 0) == 4500000);
		CHECK(infer_probe_next_us(health, 0, 5 * second, 0.999999) >= 5499000);
		CHECK(infer_probe_next_us(health, 0, 5 * second, 0.999999) <= 5500000);
	}
	CHECK(infer_probe_next_us(INFER_PROBE_UNREACHABLE, second, 5 * second, 0.5) == 1500000);
	CHECK(infer_probe_next_us(INFER_PROBE_UNREACHABLE, second, 5 * second, 0) == 1450000);
	CHECK(infer_probe_next_us(INFER_PROBE_UNREACHABLE, second, 100000, 0.5) == 1100000);
}

int
main(void)
{
	TEST(gw_7_what_a_probe_proves);
	TEST(gw_7_when_the_next_one_is_due);
	return tap_done();
}
