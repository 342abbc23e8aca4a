/*
 * call/refs.h - taking a service reference (core/ref.h): infer.ref().
 */
#ifndef INFER_CALL_REFS_H
#define INFER_CALL_REFS_H

#include "postgres.h"

/*
 * The text of a reference to the server that a call of the model by the current user would go to
 * now, or to the given one (NULL: that is not said).  Sends nothing.  Raises if there is none, if
 * no call has used the server yet, or if it is not known yet which incarnation of it is up.
 * palloc'd.
 */
extern char *infer_ref_take(const char *model, const char *server);

#endif
