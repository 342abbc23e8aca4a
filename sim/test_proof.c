/*
 * sim/test_proof.c - what the end of a transfer proves: core/proof.
 *
 * fail_P*: the numbered statements on proofs.  That the wire is seen rightly is tested by the tests
 * of the HTTP engine and those with a server.
 */
#include "core/proof.h"
#include "tap.h"

#include <string.h>

#define NA INFER_NOT_ADMITTED
#define ME INFER_MAYBE_EXECUTED
#define EX INFER_EXECUTED

typedef struct ProofRow
{
	const char *name;
	InferWire wire;
	InferReason reason;
	InferExecution execution;
	InferVerdict verdict;
} ProofRow;

static void
check_proofs(const ProofRow *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
	{
		InferFinding found = infer_proof_classify(&rows[i].wire);

		CHECK_ROW(found.reason == rows[i].reason, rows[i].name);
		CHECK_ROW(found.execution == rows[i].execution, rows[i].name);
		CHECK_ROW(found.verdict == rows[i].verdict, rows[i].name);
	}
}

#define CHECK_PROOFS(rows) check_proofs(rows, sizeof(rows) / sizeof(rows[0]))

#define WIRE(...)                                                                                  \
	(InferWire)                                                                                    \
	{                                                                                              \
		__VA_ARGS__                                                                                \
	}
/* all of the request left */
#define SENT .left = true, .request_complete = true

/* rpc_G2: no memory is our own fault, nothing of the server's. */
static void
test_fail_P1_nothing_left(void)
{
	const ProofRow rows[] = {
		{"dns", WIRE(.end = INFER_WIRE_LOOKUP), INFER_REASON_LOOKUP_FAILED, NA,
		 INFER_VERDICT_IGNORE},
		{"refused", WIRE(.end = INFER_WIRE_CONNECT), INFER_REASON_CONNECT_FAILED, NA,
		 INFER_VERDICT_IGNORE},
		{"tls", WIRE(.end = INFER_WIRE_TLS), INFER_REASON_TLS_FAILED, NA, INFER_VERDICT_IGNORE},
		{"own certificate", WIRE(.end = INFER_WIRE_CERTIFICATE), INFER_REASON_CERTIFICATE_UNUSABLE,
		 NA, INFER_VERDICT_IGNORE},
		{"denied", WIRE(.end = INFER_WIRE_DENIED), INFER_REASON_EGRESS_DENIED, NA,
		 INFER_VERDICT_IGNORE},
		{"memory", WIRE(.end = INFER_WIRE_INTERNAL), INFER_REASON_INTERNAL, NA,
		 INFER_VERDICT_IGNORE},
	};

	CHECK_PROOFS(rows);
}

static void
test_fail_P2_timeout_before_leaving(void)
{
	const ProofRow rows[] = {{"queued", WIRE(.end = INFER_WIRE_TIMEOUT), INFER_REASON_TIMEOUT, NA,
							  INFER_VERDICT_IGNORE}};

	CHECK_PROOFS(rows);
}

static void
test_fail_P3_cancelled_before_leaving(void)
{
	const ProofRow rows[] = {
		{"waiting", WIRE(.end = INFER_WIRE_CANCELLED), INFER_REASON_CANCELLED, NA,
		 INFER_VERDICT_IGNORE},
		{"after leaving", WIRE(.end = INFER_WIRE_CANCELLED, SENT), INFER_REASON_CANCELLED, ME,
		 INFER_VERDICT_IGNORE},
		{"half of it left", WIRE(.end = INFER_WIRE_CANCELLED, .left = true), INFER_REASON_CANCELLED,
		 NA, INFER_VERDICT_IGNORE},
		{"while answering",
		 WIRE(.end = INFER_WIRE_CANCELLED, SENT, .status = 200, .has_body = true),
		 INFER_REASON_CANCELLED, EX, INFER_VERDICT_IGNORE},
		{"while refusing", WIRE(.end = INFER_WIRE_CANCELLED, SENT, .status = 429),
		 INFER_REASON_CANCELLED, NA, INFER_VERDICT_IGNORE},
	};

	CHECK_PROOFS(rows);
}

static void
test_fail_P4_P5_closed_without_a_byte(void)
{
	const ProofRow rows[] = {
		{"closed", WIRE(.end = INFER_WIRE_DISCONNECT, SENT), INFER_REASON_DISCONNECTED, ME,
		 INFER_VERDICT_ERROR},
		{"cut before a head", WIRE(.end = INFER_WIRE_PARTIAL, SENT), INFER_REASON_DISCONNECTED, ME,
		 INFER_VERDICT_ERROR},
	};

	CHECK_PROOFS(rows);
}

static void
test_fail_P6_refused_stream(void)
{
	const ProofRow rows[] = {{"refused",
							  WIRE(.end = INFER_WIRE_DISCONNECT, SENT, .refused_stream = true),
							  INFER_REASON_DISCONNECTED, NA, INFER_VERDICT_ERROR}};

	CHECK_PROOFS(rows);
}

/* rpc_G1: every way of not answering in time is a timeout, and (P4, P12) no other end is one. */
static void
test_fail_P7_P8_timeout_after_leaving(void)
{
	const ProofRow rows[] = {
		{"accepted by the kernel", WIRE(.end = INFER_WIRE_TIMEOUT, SENT), INFER_REASON_TIMEOUT, ME,
		 INFER_VERDICT_OVERLOADED},
		{"stopped half-way", WIRE(.end = INFER_WIRE_TIMEOUT, .left = true), INFER_REASON_TIMEOUT,
		 NA, INFER_VERDICT_OVERLOADED},
		{"send error half-way", WIRE(.end = INFER_WIRE_DISCONNECT, .left = true),
		 INFER_REASON_DISCONNECTED, NA, INFER_VERDICT_ERROR},
		{"in the body", WIRE(.end = INFER_WIRE_TIMEOUT, SENT, .status = 200, .has_body = true),
		 INFER_REASON_TIMEOUT, EX, INFER_VERDICT_OVERLOADED},
		{"after the head", WIRE(.end = INFER_WIRE_TIMEOUT, SENT, .status = 200),
		 INFER_REASON_TIMEOUT, ME, INFER_VERDICT_OVERLOADED},
	};

	CHECK_PROOFS(rows);
}

static void
test_fail_P9_P10_overload(void)
{
	const ProofRow rows[] = {
		{"429", WIRE(SENT, .status = 429), INFER_REASON_OVERLOADED, NA, INFER_VERDICT_OVERLOADED},
		{"429 early, then reset", WIRE(.end = INFER_WIRE_DISCONNECT, .left = true, .status = 429),
		 INFER_REASON_OVERLOADED, NA, INFER_VERDICT_OVERLOADED},
		{"503", WIRE(SENT, .status = 503), INFER_REASON_OVERLOADED, ME, INFER_VERDICT_OVERLOADED},
		{"503 trusted", WIRE(SENT, .status = 503, .trust = INFER_TRUST_DIRECT),
		 INFER_REASON_OVERLOADED, NA, INFER_VERDICT_OVERLOADED},
		{"529", WIRE(SENT, .status = 529), INFER_REASON_OVERLOADED, ME, INFER_VERDICT_OVERLOADED},
		{"529 trusted", WIRE(SENT, .status = 529, .trust = INFER_TRUST_PROVIDER),
		 INFER_REASON_OVERLOADED, NA, INFER_VERDICT_OVERLOADED},
	};

	CHECK_PROOFS(rows);
}

typedef struct StatusRow
{
	int status;
	InferReason reason;
	InferExecution execution;
	InferExecution trusted; /* with the server's address trusted */
} StatusRow;

static const StatusRow status_rows[] = {
	{300, INFER_REASON_REDIRECTED, NA, NA},        {302, INFER_REASON_REDIRECTED, NA, NA},
	{400, INFER_REASON_BAD_REQUEST, NA, NA},       {401, INFER_REASON_UNAUTHENTICATED, NA, NA},
	{402, INFER_REASON_QUOTA_EXCEEDED, NA, NA},    {403, INFER_REASON_PERMISSION_DENIED, NA, NA},
	{404, INFER_REASON_NOT_FOUND, NA, NA},         {405, INFER_REASON_BAD_REQUEST, NA, NA},
	{406, INFER_REASON_BAD_REQUEST, NA, NA},       {408, INFER_REASON_TIMEOUT, ME, NA},
	{409, INFER_REASON_CONFLICT, ME, ME},          {411, INFER_REASON_BAD_REQUEST, NA, NA},
	{413, INFER_REASON_REQUEST_TOO_LARGE, NA, NA}, {414, INFER_REASON_BAD_REQUEST, NA, NA},
	{415, INFER_REASON_BAD_REQUEST, NA, NA},       {421, INFER_REASON_BAD_REQUEST, NA, NA},
	{422, INFER_REASON_BAD_REQUEST, NA, NA},       {424, INFER_REASON_BAD_REQUEST, ME, ME},
	{425, INFER_REASON_BAD_REQUEST, NA, NA},       {429, INFER_REASON_OVERLOADED, NA, NA},
	{431, INFER_REASON_BAD_REQUEST, NA, NA},       {444, INFER_REASON_BAD_REQUEST, ME, ME},
	{499, INFER_REASON_BAD_REQUEST, ME, ME},       {500, INFER_REASON_SERVER_ERROR, ME, ME},
	{501, INFER_REASON_BAD_REQUEST, NA, NA},       {502, INFER_REASON_SERVER_ERROR, ME, ME},
	{503, INFER_REASON_OVERLOADED, ME, NA},        {504, INFER_REASON_SERVER_ERROR, ME, ME},
	{505, INFER_REASON_BAD_REQUEST, NA, NA},       {520, INFER_REASON_SERVER_ERROR, ME, ME},
	{522, INFER_REASON_SERVER_ERROR, ME, ME},      {524, INFER_REASON_SERVER_ERROR, ME, ME},
	{529, INFER_REASON_OVERLOADED, ME, NA},        {599, INFER_REASON_SERVER_ERROR, ME, ME},
	{999, INFER_REASON_SERVER_ERROR, ME, ME},
};

static void
test_fail_P11_statuses(void)
{
	for (size_t i = 0; i < sizeof(status_rows) / sizeof(status_rows[0]); i++)
	{
		const StatusRow *row = &status_rows[i];
		InferWire wire = WIRE(SENT, .status = row->status);
		InferFinding found = infer_proof_classify(&wire);
		char name[16];

		snprintf(name, sizeof(name), "%d", row->status);
		CHECK_ROW(found.reason == row->reason, name);
		CHECK_ROW(found.execution == row->execution, name);
		wire.trust = INFER_TRUST_PROXY;
		CHECK_ROW(infer_proof_classify(&wire).execution == row->execution, name);
		wire.trust = INFER_TRUST_PROVIDER;
		CHECK_ROW(infer_proof_classify(&wire).execution == row->trusted, name);
		wire.trust = INFER_TRUST_DIRECT;
		CHECK_ROW(infer_proof_classify(&wire).execution == row->trusted, name);
		/* the status stands whatever happened to the rest of its body */
		wire.end = INFER_WIRE_PARTIAL;
		CHECK_ROW(infer_proof_classify(&wire).reason == row->reason, name);
	}
}

/* Used up is not busy: the controllers do not move, and no pause helps. */
static void
test_fail_P9_quota(void)
{
	const ProofRow rows[] = {
		{"402", WIRE(SENT, .status = 402), INFER_REASON_QUOTA_EXCEEDED, NA, INFER_VERDICT_ERROR},
		{"429", WIRE(SENT, .status = 429, .quota = true), INFER_REASON_QUOTA_EXCEEDED, NA,
		 INFER_VERDICT_ERROR},
		{"429 behind a proxy", WIRE(SENT, .status = 429, .quota = true, .trust = INFER_TRUST_PROXY),
		 INFER_REASON_QUOTA_EXCEEDED, NA, INFER_VERDICT_ERROR},
		{"given up meanwhile",
		 WIRE(.end = INFER_WIRE_CANCELLED, SENT, .status = 429, .quota = true),
		 INFER_REASON_CANCELLED, NA, INFER_VERDICT_IGNORE},
		{"408", WIRE(SENT, .status = 408, .trust = INFER_TRUST_DIRECT), INFER_REASON_TIMEOUT, NA,
		 INFER_VERDICT_ERROR},
		{"1xx only, then lost", WIRE(.end = INFER_WIRE_DISCONNECT, SENT, .status = 100),
		 INFER_REASON_DISCONNECTED, ME, INFER_VERDICT_ERROR},
	};

	CHECK_PROOFS(rows);
}

static void
test_fail_P12_P13_P15_broken_success(void)
{
	const ProofRow rows[] = {
		{"whole", WIRE(SENT, .status = 200, .has_body = true), INFER_REASON_NONE, EX,
		 INFER_VERDICT_SUCCESS},
		{"201", WIRE(SENT, .status = 201, .has_body = true), INFER_REASON_NONE, EX,
		 INFER_VERDICT_SUCCESS},
		{"empty", WIRE(SENT, .status = 200), INFER_REASON_INCOMPLETE_REPLY, ME,
		 INFER_VERDICT_ERROR},
		{"cut", WIRE(.end = INFER_WIRE_PARTIAL, SENT, .status = 200, .has_body = true),
		 INFER_REASON_INCOMPLETE_REPLY, EX, INFER_VERDICT_ERROR},
		{"reset", WIRE(.end = INFER_WIRE_DISCONNECT, SENT, .status = 200, .has_body = true),
		 INFER_REASON_INCOMPLETE_REPLY, EX, INFER_VERDICT_ERROR},
		{"cut before its body", WIRE(.end = INFER_WIRE_PARTIAL, SENT, .status = 200),
		 INFER_REASON_INCOMPLETE_REPLY, ME, INFER_VERDICT_ERROR},
		{"too large", WIRE(.end = INFER_WIRE_TOO_LARGE, SENT, .status = 200, .has_body = true),
		 INFER_REASON_REPLY_TOO_LARGE, EX, INFER_VERDICT_ERROR},
		{"bad encoding", WIRE(.end = INFER_WIRE_PROTOCOL, SENT, .status = 200, .has_body = true),
		 INFER_REASON_MALFORMED_REPLY, EX, INFER_VERDICT_ERROR},
	};

	CHECK_PROOFS(rows);
}

static void
test_fail_P16_garbage_status_line(void)
{
	const ProofRow rows[] = {
		{"garbage", WIRE(.end = INFER_WIRE_PROTOCOL, SENT), INFER_REASON_MALFORMED_REPLY, ME,
		 INFER_VERDICT_ERROR},
		{"whole, without a status", WIRE(SENT), INFER_REASON_MALFORMED_REPLY, ME,
		 INFER_VERDICT_ERROR},
	};

	CHECK_PROOFS(rows);
}

static void
test_fail_P17_P18_floor(void)
{
	CHECK(infer_proof_floor(NA, NA) == NA);
	CHECK(infer_proof_floor(NA, ME) == ME);
	CHECK(infer_proof_floor(NA, EX) == ME);
	CHECK(infer_proof_floor(ME, NA) == ME);
	CHECK(infer_proof_floor(ME, EX) == ME);
	CHECK(infer_proof_floor(EX, NA) == EX);
	CHECK(infer_proof_floor(EX, ME) == EX);
}

/* Not left is always NOT_ADMITTED; success and EXECUTED need a 2xx, for every wire there is. */
static void
test_fail_P19_every_wire(void)
{
	static const int statuses[] = {0, 100, 200, 204, 302, 400, 404, 408, 429, 500, 502, 503, 504};

	for (int bits = 0; bits < 32; bits++)
	{
		for (int end = INFER_WIRE_OK; end <= INFER_WIRE_INTERNAL; end++)
		{
			for (size_t s = 0; s < sizeof(statuses) / sizeof(statuses[0]); s++)
			{
				InferWire wire = {.end = (InferWireEnd) end,
								  .left = bits & 1,
								  .request_complete = bits & 2,
								  .refused_stream = bits & 4,
								  .has_body = bits & 8,
								  .trust = bits & 16 ? INFER_TRUST_DIRECT : INFER_TRUST_UNKNOWN,
								  .status = statuses[s]};
				bool success = wire.status >= 200 && wire.status < 300;
				InferFinding found = infer_proof_classify(&wire);

				if (!wire.left)
					CHECK(found.execution == NA && found.verdict == INFER_VERDICT_IGNORE);
				if (found.execution == EX)
					CHECK(success);
				if (found.reason == INFER_REASON_NONE)
					CHECK(success && wire.left && wire.has_body && wire.end == INFER_WIRE_OK);
				CHECK((found.reason == INFER_REASON_NONE) ==
					  (found.verdict == INFER_VERDICT_SUCCESS));
				if (wire.left && success)
					CHECK(found.execution != NA);
				CHECK((unsigned) found.reason < INFER_REASON_COUNT);
			}
		}
	}
}

int
main(void)
{
	TEST(fail_P1_nothing_left);
	TEST(fail_P2_timeout_before_leaving);
	TEST(fail_P3_cancelled_before_leaving);
	TEST(fail_P4_P5_closed_without_a_byte);
	TEST(fail_P6_refused_stream);
	TEST(fail_P7_P8_timeout_after_leaving);
	TEST(fail_P9_P10_overload);
	TEST(fail_P11_statuses);
	TEST(fail_P9_quota);
	TEST(fail_P12_P13_P15_broken_success);
	TEST(fail_P16_garbage_status_line);
	TEST(fail_P17_P18_floor);
	TEST(fail_P19_every_wire);
	return tap_done();
}
