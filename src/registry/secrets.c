/*
 * registry/secrets.c - the key for one attempt, and the certificates of its connection.
 *
 * Read anew each time, so that a rotated file counts at once and no key outlives its request.  Keys
 * pass through the text that was read and the header that is returned; both, and whatever the
 * catalog code copied of an inline key, are wiped.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/reloptions.h"
#include "catalog/pg_user_mapping.h"
#include "nodes/pg_list.h"
#include "registry/files.h"
#include "registry/secrets.h"
#include "registry/url.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#define INFER_KEY_MAX    (16 * 1024) /* bytes of a key file */
#define INFER_KEY_HEADER "Authorization: Bearer "

/* The options of userid's mapping, else PUBLIC's, else NIL. (GetUserMapping would raise.) */
static List *
infer_mapping_options(Oid serverid, Oid userid)
{
	List *options = NIL;
	HeapTuple tuple;
	Datum value;
	bool isnull;

	tuple = SearchSysCache2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(userid),
							ObjectIdGetDatum(serverid));
	if (!HeapTupleIsValid(tuple))
		tuple = SearchSysCache2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(InvalidOid),
								ObjectIdGetDatum(serverid));
	if (!HeapTupleIsValid(tuple))
		return NIL;
	value = SysCacheGetAttr(USERMAPPINGUSERSERVER, tuple, Anum_pg_user_mapping_umoptions, &isnull);
	if (!isnull)
		options = untransformRelOptions(value);
	ReleaseSysCache(tuple);
	return options;
}

/* The text that should be the key, from where the mapping says, palloc'd; *source says where that
 * was.  NULL and *problem if there is none. */
static char *
infer_read_key(const InferCredential *credential, char **source, const char **problem)
{
	const char *value = credential->key;
	size_t len;

	if (credential->file != NULL)
	{
		*source = psprintf("Key file \"%s\"", credential->file);
		return infer_file_read(credential->file, INFER_KEY_MAX, &len, problem);
	}
	*source = pstrdup("Option \"api_key\" of the user mapping");
	*problem = NULL;
	if (credential->env != NULL)
	{
		*source = psprintf("Environment variable \"%s\"", credential->env);
		value = getenv(credential->env);
		if (value == NULL)
			*problem = "the database server's environment does not have it";
	}
	if (value != NULL && strlen(value) > INFER_KEY_MAX)
		*problem = "it has more than 16 kB";
	return *problem == NULL ? pstrdup(value) : NULL;
}

/* Cuts trailing white space off. Returns NULL or why this cannot be a key. */
static const char *
infer_check_key(char *key)
{
	size_t len = strlen(key);

	while (len > 0 && strchr(" \t\r\n", key[len - 1]) != NULL)
		key[--len] = '\0';
	if (len == 0)
		return "it is empty";
	for (size_t i = 0; i < len; i++)
	{
		if ((unsigned char) key[i] <= 0x20 || (unsigned char) key[i] >= 0x7f)
			return "it has characters that a key cannot have (a space, a second line, or other "
				   "than ASCII)";
	}
	return NULL;
}

static bool
infer_may_carry_key(const InferServer *server)
{
	return strcmp(server->scheme, "https") == 0 || server->allow_cleartext ||
		   infer_host_is_loopback(server->host);
}

/* The header with the key of the mapping, if it has one, in results. */
static InferReason
infer_find_key(const InferServer *server, const InferCredential *credential, MemoryContext results,
			   char **header, char **detail)
{
	const char *problem;
	char *source;
	char *key;

	if (credential->file == NULL && credential->env == NULL && credential->key == NULL)
		return INFER_REASON_NONE;
	if (!infer_may_carry_key(server))
	{
		*detail = MemoryContextStrdup(
			results, psprintf("The key would travel unencrypted to host \"%s\"", server->host));
		return INFER_REASON_CREDENTIAL_WITHHELD;
	}
	key = infer_read_key(credential, &source, &problem);
	if (key != NULL)
	{
		size_t read = strlen(key);

		problem = infer_check_key(key);
		if (problem == NULL)
		{
			size_t size = sizeof(INFER_KEY_HEADER) + strlen(key);

			*header = MemoryContextAlloc(results, size);
			snprintf(*header, size, "%s%s", INFER_KEY_HEADER, key);
		}
		explicit_bzero(key, read);
	}
	if (problem == NULL)
		return INFER_REASON_NONE;
	*detail = MemoryContextStrdup(results, psprintf("%s cannot be used: %s", source, problem));
	return INFER_REASON_CREDENTIAL_MISSING;
}

/* With everything but the results in a context of its own, which is emptied. */
static InferReason
infer_find_secrets(const InferServer *server, Oid userid, bool certificates, InferSecrets *secrets,
				   char **detail)
{
	static MemoryContext scratch = NULL;
	MemoryContext results = CurrentMemoryContext;
	InferCredential credential;
	InferReason reason;

	memset(secrets, 0, sizeof(*secrets));
	*detail = NULL;
	if (scratch == NULL)
		scratch =
			AllocSetContextCreate(TopMemoryContext, "pg_inference secrets", ALLOCSET_SMALL_SIZES);
	MemoryContextSwitchTo(scratch);
	credential = infer_options_read_credential(infer_mapping_options(server->oid, userid));
	reason = infer_find_key(server, &credential, results, &secrets->header, detail);
	if (reason == INFER_REASON_NONE && certificates)
		reason = infer_certificates_read(server, &credential, results, secrets, detail);
	if (credential.key != NULL)
		explicit_bzero(credential.key, strlen(credential.key));
	MemoryContextSwitchTo(results);
	MemoryContextReset(scratch);
	if (reason != INFER_REASON_NONE)
		infer_secrets_wipe(secrets);
	return reason;
}

InferReason
infer_registry_secrets(const InferServer *server, Oid userid, InferSecrets *secrets, char **detail)
{
	return infer_find_secrets(server, userid, true, secrets, detail);
}

InferReason
infer_registry_secret(const InferServer *server, Oid userid, char **header, char **detail)
{
	InferSecrets secrets;
	InferReason reason = infer_find_secrets(server, userid, false, &secrets, detail);

	*header = secrets.header;
	return reason;
}

static void
infer_wipe(char **text)
{
	if (*text == NULL)
		return;
	explicit_bzero(*text, strlen(*text));
	pfree(*text);
	*text = NULL;
}

void
infer_secrets_wipe(InferSecrets *secrets)
{
	infer_wipe(&secrets->header);
	infer_wipe(&secrets->authorities);
	infer_wipe(&secrets->identity);
}
