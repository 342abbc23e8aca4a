/*
 * pg/guc_route.h - the settings of guc.h that say where calls go and when they leave, defined in a
 * file of their own.
 */
#ifndef INFER_PG_GUC_ROUTE_H
#define INFER_PG_GUC_ROUTE_H

/* For infer_guc_init(). */
extern void infer_guc_define_route(void);

#endif
