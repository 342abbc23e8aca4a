/*
 * gateway/gateway.h - the gateway process: one background worker per instance, in no database.
 */
#ifndef INFER_GATEWAY_GATEWAY_H
#define INFER_GATEWAY_GATEWAY_H

/* From _PG_init when preloaded: has the postmaster start it, unless pg_inference.gateway is off. */
extern void infer_gateway_init(void);

#endif
