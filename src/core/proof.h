/*
 * core/proof.h - from what was seen on the wire to reason × execution × verdict.
 *
 * Pure.
 */
#ifndef INFER_CORE_PROOF_H
#define INFER_CORE_PROOF_H

#include "core/types.h"

/* How a transfer ended, in terms free of any HTTP library. */
typedef enum InferWireEnd
{
	INFER_WIRE_OK,          /* a whole answer (any status) */
	INFER_WIRE_LOOKUP,      /* name resolution failed */
	INFER_WIRE_CONNECT,     /* connect failed or timed out */
	INFER_WIRE_TLS,         /* handshake, or the certificate of the peer */
	INFER_WIRE_CERTIFICATE, /* our own certificates cannot be used */
	INFER_WIRE_DENIED,      /* our own address check refused the peer */
	INFER_WIRE_TIMEOUT,     /* the attempt's deadline */
	INFER_WIRE_DISCONNECT,  /* connection ended, or second transmission vetoed */
	INFER_WIRE_PARTIAL,     /* body cut short after an answer head */
	INFER_WIRE_TOO_LARGE,   /* body over the cap */
	INFER_WIRE_PROTOCOL,    /* garbage instead of HTTP */
	INFER_WIRE_CANCELLED,   /* removed by us */
	INFER_WIRE_INTERNAL     /* out of memory and the like */
} InferWireEnd;

typedef struct InferWire
{
	InferWireEnd end;
	bool left;             /* the latch: may any byte of the request have left? */
	bool request_complete; /* the whole body was handed to the socket */
	bool refused_stream;   /* HTTP/2 REFUSED_STREAM or GOAWAY proof of non-processing */
	int status;            /* final HTTP status, 0 = none */
	bool has_body;         /* at least one body byte of a 2xx was received */
	/* set by the caller, who knows the server and reads bodies */
	InferTrust trust; /* who may have written the status */
	bool quota;       /* the body says that money or quota is used up, not that it is busy */
} InferWire;

typedef struct InferFinding
{
	InferReason reason; /* NONE: a whole 2xx answer */
	InferExecution execution;
	InferVerdict verdict;
	bool lost; /* nobody answered: the connection ended */
} InferFinding;

/* Why the attempt failed (NONE: it has an answer to be read), what is proved of its execution, and
 * what the limiter is to make of it. */
extern InferFinding infer_proof_classify(const InferWire *wire);

/* Weakens NOT_ADMITTED to MAYBE_EXECUTED if an earlier attempt may have left. */
extern InferExecution infer_proof_floor(InferExecution execution, InferExecution earlier);

#endif
