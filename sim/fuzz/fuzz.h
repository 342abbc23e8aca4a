/*
 * sim/fuzz/fuzz.h - what the coverage-guided targets share.
 *
 * A target gets bytes that libFuzzer bred to reach new code.  The first ones choose the case (a
 * shape, a number of inputs, where to cut), the rest is the text under test, in a piece of memory
 * of exactly its size, so that the address sanitizer sees one byte too far on either side.  Bytes
 * that are missing are zero.
 *
 * What must hold is said with REQUIRE(); what it is compared with is written a second time, in the
 * plainest way, in model.c.
 */
#ifndef INFER_SIM_FUZZ_H
#define INFER_SIM_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct FuzzInput
{
	const uint8_t *p;
	size_t left;
} FuzzInput;

typedef struct FuzzText
{
	char *data; /* malloc'd, not NUL-terminated */
	size_t len;
} FuzzText;

/* libFuzzer calls these; each target has its own of the latter. */
extern int LLVMFuzzerInitialize(int *argc, char ***argv);
extern int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

extern unsigned fuzz_byte(FuzzInput *in);
/* The next n bytes, or as many as there are. */
extern FuzzText fuzz_take(FuzzInput *in, size_t n);
/*
 * All that is left.  With FUZZ_REPEAT=N in the environment, a part of it that N chooses is repeated
 * until the text has 128 kB, so that work which grows with the square of the length runs into
 * libFuzzer's time limit.
 */
extern FuzzText fuzz_rest(FuzzInput *in);
extern FuzzText fuzz_copy(const char *data, size_t len);
extern void fuzz_free(FuzzText *text);

extern void fuzz_fail(const char *file, int line, const char *what) __attribute__((noreturn));

#define REQUIRE(condition) ((condition) ? (void) 0 : fuzz_fail(__FILE__, __LINE__, #condition))

#endif
