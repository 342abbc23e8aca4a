/*
 * sim/badserver.h - an HTTP server that misbehaves as the path of the request says.
 *
 * Runs in threads of the test program, one a connection, and keeps a ledger.  See badserver.c for
 * the paths.
 */
#ifndef INFER_SIM_BADSERVER_H
#define INFER_SIM_BADSERVER_H

#include <stdatomic.h>

typedef struct BadServer
{
	int listen_fd;
	int port;
	atomic_int connections; /* accepted */
	atomic_int open;        /* not ended yet */
	atomic_int executed;    /* requests read in full */
	atomic_int waiting;     /* requests of /hang and /unread that have no answer yet */
	atomic_int abandoned;   /* of those: the client closed */
	atomic_int unread_over; /* set it to end the connections of /unread */
	atomic_int target;      /* requests of /target */
	atomic_long sent;       /* body bytes sent by /endless */
	char last_secret[64];   /* value of the last Authorization header for /secret */
	char last_head[1024];   /* of /head: all before its body, cut */
} BadServer;

extern int badserver_start(BadServer *server); /* 0 or -1 */
extern void badserver_stop(BadServer *server);

#endif
