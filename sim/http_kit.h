/*
 * sim/http_kit.h - what the tests of the HTTP engine are written with.
 *
 * One transport, one misbehaving server in this process, one mock inference server beside it.
 */
#ifndef INFER_SIM_HTTP_KIT_H
#define INFER_SIM_HTTP_KIT_H

#include "badserver.h"

#include "http/transport.h"

#include <stdatomic.h>
#include <sys/types.h>

#define TEXT "{\"text\":\"good morning\"}" /* what the misbehaving server answers at best */
#define MB   ((size_t) 1024 * 1024)

extern InferTransport *transport;
extern BadServer bad;
extern int mock_port;
extern int passed, failed;

extern void ok(bool good, const char *name);
extern int64_t now_us(void);
extern int64_t cpu_us(void);
extern void sleep_ms(int ms);
/* Waits until the counter has the value; false after two seconds. */
extern bool reaches(atomic_int *counter, int value);

/* One turn of the owner's loop: sleep at most so long, then step. */
extern void turn(int max_ms);
/* A small request with sensible limits. */
extern InferHttpRequest request(const char *url);
/* A url of the misbehaving server; good until the fourth call after this one. */
extern const char *bad_url(const char *path);
/* From submit to done; the program ends if that cannot be. */
extern InferTransfer *run(const InferHttpRequest *r);
extern InferTransfer *run_bad(const char *path);
extern void give_back(InferTransfer *transfer);
extern bool body_is(const InferTransfer *transfer, const char *text);

/* Runs a path of the misbehaving server and compares how it ended. */
extern void expect(const char *path, InferWireEnd end, int status, bool left, const char *name);
/* Runs a request of which nothing may leave. */
extern void expect_not_left(const InferHttpRequest *r, InferWireEnd end, int64_t max_ms,
							const char *name);

/* Starts the mock on a free port; -1 if it cannot. */
extern pid_t start_mock(const char *program);
/* Asks the mock; the number called name in its answer, 0 if there is none. */
extern long mock_say(const char *method, const char *path, const char *name);

#endif
