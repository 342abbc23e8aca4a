/*
 * sim/http_tls.h - the part of test_http that looks into a handle.
 */
#ifndef INFER_SIM_HTTP_TLS_H
#define INFER_SIM_HTTP_TLS_H

extern void test_tls_settings(void);

#endif
