/*
 * pg/health_weights.h - what a server counts for the health of its node, by its service class: the
 * setting pg_inference.health_weights.
 */
#ifndef INFER_PG_HEALTH_WEIGHTS_H
#define INFER_PG_HEALTH_WEIGHTS_H

#define INFER_HEALTH_WEIGHT 10 /* of classes that the setting does not name */

/* Of servers of that class; "" = they have none. */
extern double infer_health_weight(const char *service_class);
/* For infer_guc_define_route(). */
extern void infer_health_weights_define(void);

#endif
