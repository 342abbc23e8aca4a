/*
 * pg/guc_gateway.h - the settings of guc.h that are about the gateway process, defined in a file of
 * their own.
 */
#ifndef INFER_PG_GUC_GATEWAY_H
#define INFER_PG_GUC_GATEWAY_H

/* For infer_guc_init(). */
extern void infer_guc_define_gateway(void);

#endif
