/*
 * registry/certificates.c - whom a server's connections trust, and as whom they are made.
 *
 * Read at each attempt, like keys.  The content is what reaches the HTTP library, not the path: so
 * a file that was replaced counts at once, and a connection made with the old one is not used any
 * more.  What can be told without a TLS library is told here, before anything leaves; the rest
 * (damaged base64, a key of another certificate) shows when the handshake is prepared.
 */
#include "postgres.h"

#include "registry/files.h"
#include "registry/secrets.h"
#include "utils/memutils.h"

#define INFER_PEM_MAX (1024 * 1024) /* bytes of a file; a system's whole bundle has a quarter */

/* Returns NULL or what is wrong with a file that should hold such a block of PEM. */
static const char *
infer_check_pem(const char *text, const char *block, const char *missing)
{
	if (strstr(text, block) == NULL)
		return missing;
	/* nobody could be asked for the words */
	if (strstr(text, "ENCRYPTED") != NULL)
		return "its private key is protected by a pass phrase, which is not supported";
	return NULL;
}

/* A file in PEM, palloc'd; NULL and *detail (in results) if it is not that. */
static char *
infer_read_pem(const char *option, const char *path, const char *block, const char *missing,
			   MemoryContext results, char **detail)
{
	const char *problem;
	size_t len;
	char *text = infer_file_read(path, INFER_PEM_MAX, &len, &problem);

	if (text != NULL)
	{
		problem = infer_check_pem(text, block, missing);
		if (problem == NULL)
			return text;
		explicit_bzero(text, len);
		pfree(text);
	}
	*detail = MemoryContextStrdup(
		results, psprintf("File \"%s\" (%s) cannot be used: %s", path, option, problem));
	return NULL;
}

static char *
infer_read_certificates(const char *option, const char *path, MemoryContext results, char **detail)
{
	return infer_read_pem(option, path, "-----BEGIN CERTIFICATE-----",
						  "it holds no certificate in PEM", results, detail);
}

/*
 * The certificate and its key in one text: the HTTP library compares what it takes for the
 * certificate when it looks for a connection to use, and not the key.
 */
static char *
infer_join_identity(char *certificate, char *key, MemoryContext results)
{
	size_t certificate_len = strlen(certificate);
	size_t key_len = strlen(key);
	char *identity = MemoryContextAlloc(results, certificate_len + key_len + 2);

	snprintf(identity, certificate_len + key_len + 2, "%s\n%s", certificate, key);
	explicit_bzero(certificate, certificate_len);
	explicit_bzero(key, key_len);
	return identity;
}

static char *
infer_read_identity(const InferCredential *credential, MemoryContext results, char **detail)
{
	const char *key_option = "client_key_file";
	const char *key_file = credential->client_key_file;
	char *certificate =
		infer_read_certificates("client_cert_file", credential->client_cert_file, results, detail);
	char *key;

	if (certificate == NULL)
		return NULL;
	if (key_file == NULL)
	{
		key_option = "client_cert_file";
		key_file = credential->client_cert_file;
	}
	key = infer_read_pem(key_option, key_file, "PRIVATE KEY-----", "it holds no private key in PEM",
						 results, detail);
	if (key == NULL)
	{
		/* it may have one, too */
		explicit_bzero(certificate, strlen(certificate));
		return NULL;
	}
	return infer_join_identity(certificate, key, results);
}

InferReason
infer_certificates_read(const InferServer *server, const InferCredential *credential,
						MemoryContext results, InferSecrets *secrets, char **detail)
{
	if (credential->client_cert_file != NULL)
	{
		if (strcmp(server->scheme, "https") != 0)
		{
			*detail = MemoryContextStrdup(
				results, "The user mapping has a client certificate, and the server's url is not "
						 "https");
			return INFER_REASON_CERTIFICATE_UNUSABLE;
		}
		secrets->identity = infer_read_identity(credential, results, detail);
		if (secrets->identity == NULL)
			return INFER_REASON_CERTIFICATE_UNUSABLE;
	}
	if (server->ca_file != NULL)
	{
		char *authorities = infer_read_certificates("ca_file", server->ca_file, results, detail);

		if (authorities == NULL)
			return INFER_REASON_CERTIFICATE_UNUSABLE;
		secrets->authorities = MemoryContextStrdup(results, authorities);
	}
	return INFER_REASON_NONE;
}
