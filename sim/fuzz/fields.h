/*
 * sim/fuzz/fields.h - parts of the target `values`: short texts that are no JSON.
 */
#ifndef INFER_SIM_FUZZ_FIELDS_H
#define INFER_SIM_FUZZ_FIELDS_H

#include "fuzz.h"

/* Counts, times and pauses in a header. */
extern void fuzz_try_header(const FuzzText *text);
/* A date, made of these bytes, as a pause. */
extern void fuzz_try_date(const FuzzText *text);
/* The url of a server. */
extern void fuzz_try_url(const FuzzText *text);

#endif
