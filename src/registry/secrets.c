/*
 * registry/secrets.c - the key for one attempt.
 *
 * Read anew each time, so that a rotated file counts at once and no key outlives its request.  Keys
 * pass through a stack buffer and the header that is returned; both the buffer and whatever the
 * catalog code copied of an inline key are wiped.  The file is opened by hand, not through fd.c,
 * for that would raise when descriptors run out; nothing between open and close can raise.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/htup_details.h"
#include "access/reloptions.h"
#include "catalog/pg_user_mapping.h"
#include "nodes/pg_list.h"
#include "registry/options.h"
#include "registry/registry.h"
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

/* Reads the file into buffer (INFER_KEY_MAX + 1 bytes). Returns NULL or what went wrong. */
static const char *
infer_read_key_file(const char *path, char *buffer)
{
	const char *problem = NULL;
	struct stat status;
	size_t len = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block us */

	if (fd < 0)
		return strerror(errno);
	if (fstat(fd, &status) != 0)
		problem = strerror(errno);
	else if (!S_ISREG(status.st_mode))
		problem = "it is not a regular file";
	while (problem == NULL && len <= INFER_KEY_MAX)
	{
		ssize_t got = read(fd, buffer + len, INFER_KEY_MAX + 1 - len);

		if (got == 0)
			break;
		if (got > 0)
			len += got;
		else if (errno != EINTR)
			problem = strerror(errno);
	}
	close(fd);
	if (problem == NULL && len > INFER_KEY_MAX)
		problem = "it has more than 16 kB";
	if (problem == NULL && memchr(buffer, '\0', len) != NULL)
		problem = "it holds binary data";
	if (problem == NULL)
		buffer[len] = '\0';
	return problem;
}

/* Copies the key from where the mapping says into buffer (INFER_KEY_MAX + 1 bytes); *source says
 * where that was.  Returns NULL or what went wrong. */
static const char *
infer_read_key(const InferCredential *credential, char *buffer, char **source)
{
	const char *value;

	if (credential->file != NULL)
	{
		*source = psprintf("Key file \"%s\"", credential->file);
		return infer_read_key_file(credential->file, buffer);
	}
	if (credential->env != NULL)
	{
		*source = psprintf("Environment variable \"%s\"", credential->env);
		value = getenv(credential->env);
		if (value == NULL)
			return "the database server's environment does not have it";
	}
	else
	{
		*source = pstrdup("Option \"api_key\" of the user mapping");
		value = credential->key;
	}
	if (strlen(value) > INFER_KEY_MAX)
		return "it has more than 16 kB";
	strcpy(buffer, value);
	return NULL;
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

/* infer_registry_secret(), with everything but the results in the current context, which the caller
 * empties. */
static InferReason
infer_find_secret(const InferServer *server, Oid userid, MemoryContext results, char **header,
				  char **detail)
{
	InferCredential credential =
		infer_options_read_credential(infer_mapping_options(server->oid, userid));
	InferReason reason = INFER_REASON_NONE;
	char key[INFER_KEY_MAX + 1];
	const char *problem;
	char *source;

	if (credential.file == NULL && credential.env == NULL && credential.key == NULL)
		return INFER_REASON_NONE;
	if (!infer_may_carry_key(server))
	{
		*detail = MemoryContextStrdup(
			results, psprintf("The key would travel unencrypted to host \"%s\"", server->host));
		reason = INFER_REASON_CREDENTIAL_WITHHELD;
	}
	else
	{
		problem = infer_read_key(&credential, key, &source);
		if (problem == NULL)
			problem = infer_check_key(key);
		if (problem == NULL)
		{
			size_t size = sizeof(INFER_KEY_HEADER) + strlen(key);

			*header = MemoryContextAlloc(results, size);
			snprintf(*header, size, "%s%s", INFER_KEY_HEADER, key);
		}
		else
		{
			*detail =
				MemoryContextStrdup(results, psprintf("%s cannot be used: %s", source, problem));
			reason = INFER_REASON_CREDENTIAL_MISSING;
		}
		explicit_bzero(key, sizeof(key));
	}
	if (credential.key != NULL)
		explicit_bzero(credential.key, strlen(credential.key));
	return reason;
}

InferReason
infer_registry_secret(const InferServer *server, Oid userid, char **header, char **detail)
{
	static MemoryContext scratch = NULL;
	MemoryContext caller;
	InferReason reason;

	*header = NULL;
	*detail = NULL;
	if (scratch == NULL)
		scratch =
			AllocSetContextCreate(TopMemoryContext, "pg_inference secrets", ALLOCSET_SMALL_SIZES);
	caller = MemoryContextSwitchTo(scratch);
	reason = infer_find_secret(server, userid, caller, header, detail);
	MemoryContextSwitchTo(caller);
	MemoryContextReset(scratch);
	return reason;
}
