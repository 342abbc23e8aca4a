/*
 * sim/http_parts.h - the parts of test_http.
 */
#ifndef INFER_SIM_HTTP_PARTS_H
#define INFER_SIM_HTTP_PARTS_H

/* http_before.c */
extern void test_not_left(void);
extern void test_address_check(void);
extern void test_get(void);
extern void test_known_address(void);
extern void test_header_lines(void);
extern void test_head(void);

/* http_giving_up.c */
extern void test_timeout(void);
extern void test_cancel(void);
extern void test_fail_P3_P8_withdrawn(void);
extern void test_hanging_resolver(void);

/* http_tls.c: looks into a handle */
extern void test_tls_settings(void);

#endif
