/*
 * core/ref.h - a service reference: one model on one run of one server, as plain data.
 *
 * It names a server, its slot in the route table with the slot's generation (which is another one
 * after each restart of PostgreSQL, and where the server's url changes), the incarnation that was
 * up, and the model.  Whoever has one can keep it, send it, and call by it; it never reaches
 * another incarnation, and nothing ever brings it up to date (failures.md section 6).
 *
 *   text    infer:ref:1:SERVER:SLOT.GENERATION:INCARNATION:MODEL, with all bytes but letters,
 * digits and - . _ ~ of a name as %XX; there is one text for a reference, and no other is read
 *   bytes   "IR", the format's number, slot and generation (32 bits), and the three names, each
 *           behind its length (16 bits); at the end the CRC-32 of all before it.  Big-endian.
 *
 * Names are UTF-8; whether they are valid is not looked at here.  Pure.
 */
#ifndef INFER_CORE_REF_H
#define INFER_CORE_REF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/incarnation.h"

#define INFER_REF_SERVER_MAX 257 /* bytes, with its NUL */
#define INFER_REF_MODEL_MAX  4097
/* Of any text, with its NUL, and of any bytes. */
#define INFER_REF_TEXT_MAX                                                                         \
	(64 + 3 * (INFER_REF_SERVER_MAX + INFER_INCARNATION_MAX + INFER_REF_MODEL_MAX))
#define INFER_REF_BYTES_MAX                                                                        \
	(32 + INFER_REF_SERVER_MAX + INFER_INCARNATION_MAX + INFER_REF_MODEL_MAX)

typedef struct InferRef
{
	char server[INFER_REF_SERVER_MAX];
	int32_t slot;
	uint32_t generation;
	char incarnation[INFER_INCARNATION_MAX]; /* "" = not known */
	char model[INFER_REF_MODEL_MAX];         /* as the server calls it; "" = the body names it */
} InferRef;

/* Is this text meant to be a reference? */
extern bool infer_ref_is(const char *text);
/* False: *problem says in words what is wrong with it ("it ends too early"), and ref is of no use.
 */
extern bool infer_ref_read(const char *text, size_t len, InferRef *ref, const char **problem);
/* The reference's text into a buffer of INFER_REF_TEXT_MAX; returns its length. */
extern size_t infer_ref_write(const InferRef *ref, char *text);
extern bool infer_ref_unpack(const unsigned char *bytes, size_t len, InferRef *ref,
							 const char **problem);
/* ... its bytes into one of INFER_REF_BYTES_MAX. */
extern size_t infer_ref_pack(const InferRef *ref, unsigned char *bytes);

#endif
