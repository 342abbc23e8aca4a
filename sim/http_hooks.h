/*
 * sim/http_hooks.h - libc functions that test_http makes fail or hang on demand.
 *
 * They are defined in the test program, where the dynamic linker finds them before libc's, so that
 * libcurl calls them as well.  Names that end in ".invalid" do not resolve; "hang.invalid" keeps
 * its resolver busy until it is let go.
 */
#ifndef INFER_SIM_HTTP_HOOKS_H
#define INFER_SIM_HTTP_HOOKS_H

#include <stdatomic.h>

extern atomic_int hook_fail_sends;       /* so many sends fail with EPIPE */
extern atomic_int hook_fail_watches;     /* so many epoll_ctl(ADD) fail with ENOMEM */
extern atomic_int hook_resolver_hangs;   /* while set, "hang.invalid" is being looked up */
extern atomic_int hook_resolvers_busy;   /* threads inside that look-up */
extern atomic_int hook_resolver_exposed; /* look-ups that ran with a signal unblocked */
extern atomic_int hook_wiped;            /* explicit_bzero() of something with hook_secret in it */
extern const char *hook_secret;

#endif
