/*
 * registry/secrets.h - what secrets.c and certificates.c share.
 */
#ifndef INFER_REGISTRY_SECRETS_H
#define INFER_REGISTRY_SECRETS_H

#include "registry/options.h"
#include "registry/registry.h"

/*
 * Sets authorities and identity of secrets, where server and mapping name files, in results; what
 * else it needs is in the current context, which the caller empties.  CERTIFICATE_UNUSABLE with
 * *detail (in results) if a file cannot be used.
 */
extern InferReason infer_certificates_read(const InferServer *server,
										   const InferCredential *credential, MemoryContext results,
										   InferSecrets *secrets, char **detail);

#endif
