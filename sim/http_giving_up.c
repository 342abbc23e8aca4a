/*
 * sim/http_giving_up.c - the part of test_http about transfers that are given up: timeouts,
 * cancels, and a resolver that hangs.
 */
#define _GNU_SOURCE
#include "http_hooks.h"
#include "http_kit.h"
#include "http_parts.h"

void
test_timeout(void)
{
	InferHttpRequest r = request(bad_url("/hang"));
	InferTransfer *transfer;
	const InferHttpResult *result;
	int abandoned = atomic_load(&bad.abandoned);

	r.timeout_ms = 150;
	transfer = run(&r);
	result = infer_transfer_result(transfer);
	ok(result->wire.end == INFER_WIRE_TIMEOUT && result->wire.left &&
		   result->wire.request_complete && result->elapsed_us >= 150000 &&
		   result->elapsed_us < 400000,
	   "fail_P7 no answer in time, but it left");
	give_back(transfer);
	ok(reaches(&bad.abandoned, abandoned + 1), "... and its connection is closed");
}

void
test_cancel(void)
{
	InferTransfer *transfers[50];
	InferHttpRequest r = request(bad_url("/hang"));
	int abandoned = atomic_load(&bad.abandoned);
	int64_t start;
	int left = 0;

	r.timeout_ms = 60000;
	for (int i = 0; i < 50; i++)
		transfers[i] = infer_transport_submit(transport, &r);
	ok(infer_transport_running(transport) == 50, "running counts what was submitted");
	while (atomic_load(&bad.waiting) < 50)
		turn(10);
	start = now_us();
	for (int i = 0; i < 50; i++)
	{
		left += infer_transfer_left(transfers[i]);
		give_back(transfers[i]);
	}
	ok(left == 50 && infer_transport_running(transport) == 0, "cancelled in flight: left");
	ok(reaches(&bad.abandoned, abandoned + 50) && now_us() - start < 500000,
	   "fault_F7 the server sees every connection closed within 500 ms");
	ok(infer_transport_next_done(transport) == NULL, "what was cancelled is never done");

	/* cancelled before it was started, and finished but never looked at */
	transfers[0] = infer_transport_submit(transport, &r);
	ok(!infer_transfer_left(transfers[0]), "submit alone sends nothing");
	give_back(transfers[0]);
	r.url = bad_url("/ok");
	transfers[0] = infer_transport_submit(transport, &r);
	while (infer_transport_running(transport) > 0)
		turn(100);
	give_back(transfers[0]);
	ok(infer_transport_next_done(transport) == NULL, "released before it was handed out");
}

/* What is known of a request that is given up: the evidence of a proof that no error carries. */
void
test_fail_P3_P8_withdrawn(void)
{
	InferHttpRequest r = request(bad_url("/hang"));
	InferTransfer *transfer = infer_transport_submit(transport, &r);
	InferWire wire = infer_transfer_withdraw(transport, transfer);
	int abandoned = atomic_load(&bad.abandoned);

	ok(wire.end == INFER_WIRE_CANCELLED && !wire.left && !wire.request_complete,
	   "fail_P3 withdrawn before it was started: not left");
	ok(infer_transport_running(transport) == 0, "it runs no more");
	give_back(transfer);

	transfer = infer_transport_submit(transport, &r);
	while (atomic_load(&bad.waiting) == 0)
		turn(10);
	wire = infer_transfer_withdraw(transport, transfer);
	ok(wire.end == INFER_WIRE_CANCELLED && wire.left && wire.request_complete && wire.status == 0,
	   "withdrawn while the server works: left in full");
	ok(reaches(&bad.abandoned, abandoned + 1), "the server sees it at once");
	ok(infer_transport_next_done(transport) == NULL, "it is never done");
	give_back(transfer);

	r.url = bad_url("/endless");
	r.max_response_size = (size_t) 1 << 30;
	transfer = infer_transport_submit(transport, &r);
	while (infer_transfer_result(transfer)->body->len == 0)
		turn(10);
	wire = infer_transfer_withdraw(transport, transfer);
	ok(wire.end == INFER_WIRE_CANCELLED && wire.status == 200 && wire.has_body,
	   "withdrawn while it answers: a body had come");
	give_back(transfer);

	r.url = bad_url("/ok");
	transfer = infer_transport_submit(transport, &r);
	while (infer_transport_running(transport) > 0)
		turn(100);
	wire = infer_transfer_withdraw(transport, transfer);
	ok(wire.end == INFER_WIRE_OK && wire.status == 200 && wire.has_body,
	   "withdrawn after its end: that is how it ended");
	give_back(transfer);
	ok(infer_transport_next_done(transport) == NULL, "and it is not handed out");
}

void
test_hanging_resolver(void)
{
	InferHttpRequest r = request("http://hang.invalid/v1");
	InferTransport *kept = transport;
	InferTransfer *transfer;
	int64_t start;

	atomic_store(&hook_resolver_hangs, 1);
	transfer = infer_transport_submit(transport, &r);
	while (atomic_load(&hook_resolvers_busy) == 0)
		turn(10);
	start = now_us();
	ok(!infer_transfer_left(transfer), "cancelled while resolving: not left");
	give_back(transfer);
	ok(now_us() - start < 50000, "release does not wait for the resolver");

	r.connect_timeout_ms = 100;
	expect_not_left(&r, INFER_WIRE_LOOKUP, 400, "a resolver that hangs is timed out");

	transport = infer_transport_create(4);
	infer_transport_submit(transport, &r);
	while (atomic_load(&hook_resolvers_busy) < 3)
		turn(10);
	start = now_us();
	infer_transport_destroy(transport);
	ok(now_us() - start < 50000, "destroy does not wait for the resolver");
	transport = kept;

	atomic_store(&hook_resolver_hangs, 0);
	ok(reaches(&hook_resolvers_busy, 0), "the threads end when the resolver answers");
	ok(atomic_load(&hook_resolver_exposed) == 0, "no signal is open in the resolver's thread");
	sleep_ms(50);
}
