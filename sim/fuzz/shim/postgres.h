/*
 * sim/fuzz/shim/postgres.h - the few words of PostgreSQL that registry/url.c uses.
 *
 * What is "palloc'd" is freed by shim_free_all(), as a memory context would.
 */
#ifndef INFER_SIM_FUZZ_SHIM_POSTGRES_H
#define INFER_SIM_FUZZ_SHIM_POSTGRES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define pg_strcasecmp  strcasecmp
#define pg_strncasecmp strncasecmp
#define pstrdup(s)     pnstrdup((s), strlen(s))
#define psprintf(...)  shim_psprintf(__VA_ARGS__)

extern char *pnstrdup(const char *s, size_t len);
extern char *shim_psprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern void shim_free_all(void);

static inline unsigned char
pg_ascii_tolower(unsigned char c)
{
	return c >= 'A' && c <= 'Z' ? (unsigned char) (c - 'A' + 'a') : c;
}

#endif
