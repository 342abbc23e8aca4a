/*
 * registry/options.c - the options of servers and user mappings: names, limits, meaning.
 *
 * ALTER ... OPTIONS shows the validator the whole resulting list, on behalf of the role that
 * alters. So whoever may not name a key file cannot keep one in a mapping that he changes, either.
 * Errors about user mappings hide the statement from the log, and no value of a mapping is ever
 * repeated: a key may have been given under a wrong name.
 */
#include "postgres.h"

#include <limits.h>

#include "catalog/pg_authid.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "core/incarnation.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "pg/guc.h"
#include "provider/provider.h"
#include "registry/options.h"
#include "registry/url.h"
#include "shmem/admission.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"

#define INFER_DEFAULT_API "openai"
/* Common servers close an idle connection after 5 s (uvicorn, llama.cpp); we let go earlier. */
#define INFER_DEFAULT_KEEP_ALIVE_S 4
#define INFER_MAX_CONCURRENCY      100000
#define INFER_MAX_BATCH_SIZE       100000
#define INFER_MAX_NODE             63  /* bytes */
#define INFER_MAX_TEXT             127 /* bytes; the route table keeps them */

typedef struct InferServerOption
{
	const char *name;
	void (*apply)(const char *name, const char *value, InferServer *server);
} InferServerOption;

static void
infer_bad_value(const char *name, const char *value, const char *wanted)
{
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("invalid value for option \"%s\": \"%s\"", name, value),
					errdetail("The value must be %s.", wanted)));
}

/* An integer from min to max, with a unit if flags is one of GUC_UNIT. */
static int
infer_read_int(const char *name, const char *value, int flags, int min, int max, const char *wanted)
{
	int result;

	if (!parse_int(value, &result, flags, NULL) || result < min || result > max)
		infer_bad_value(name, value, wanted);
	return result;
}

static bool
infer_read_bool(const char *name, const char *value)
{
	bool result;

	if (!parse_bool(value, &result))
		infer_bad_value(name, value, "true or false");
	return result;
}

/* A word of at most max bytes. ASCII, for it is shown in databases of any encoding. */
static char *
infer_read_word(const char *name, const char *value, size_t max)
{
	size_t len = strlen(value);

	if (len == 0 || len > max)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("option \"%s\" must have from 1 to %zu bytes", name, max)));
	for (size_t i = 0; i < len; i++)
	{
		if ((unsigned char) value[i] < 0x20 || (unsigned char) value[i] >= 0x7f)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("option \"%s\" must have only printable ASCII characters", name)));
	}
	return pstrdup(value);
}

static void
infer_apply_admission_key(const char *name, const char *value, InferServer *server)
{
	server->admission_key = infer_read_word(name, value, INFER_ADMISSION_KEY_MAX - 1);
}

static void
infer_apply_allow_cleartext(const char *name, const char *value, InferServer *server)
{
	server->allow_cleartext = infer_read_bool(name, value);
}

static void
infer_apply_api(const char *name, const char *value, InferServer *server)
{
	if (infer_provider_find(value) == NULL)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("invalid value for option \"%s\": \"%s\"", name, value),
						errhint("Known values are: %s.", infer_provider_names())));
	server->api = pstrdup(value);
}

static void
infer_apply_ca_file(const char *name, const char *value, InferServer *server)
{
	if (!is_absolute_path(value))
		infer_bad_value(name, value, "an absolute path");
	server->ca_file = pstrdup(value);
}

static void
infer_apply_idempotency(const char *name, const char *value, InferServer *server)
{
	server->keys_honoured = strcmp(value, "honoured") == 0;
	if (!server->keys_honoured && strcmp(value, "ignored") != 0)
		infer_bad_value(name, value, "ignored or honoured");
}

static void
infer_apply_health_path(const char *name, const char *value, InferServer *server)
{
	server->health_path = infer_read_word(name, value, INFER_MAX_TEXT);
	if (value[0] != '/' || value[1] == '/' || strpbrk(value, " #\\") != NULL ||
		strstr(value, "..") != NULL)
		infer_bad_value(name, value,
						"a path that begins with one slash, without spaces, \"..\" and \"#\"");
}

/* Says where, then a name. */
static void
infer_apply_incarnation(const char *name, const char *value, InferServer *server)
{
	const char *where;
	InferIncarnationPlace place = infer_incarnation_place(value, &where);

	server->incarnation = infer_read_word(name, value, INFER_MAX_TEXT);
	if (place == INFER_INCARNATION_NOWHERE ||
		strpbrk(where, place == INFER_INCARNATION_FIELD ? " \"\\" : " \"\\:{}(),;") != NULL)
		infer_bad_value(name, value,
						"header:NAME, field:NAME or metric:NAME, such as header:x-boot-id");
}

static void
infer_apply_keep_alive(const char *name, const char *value, InferServer *server)
{
	server->keep_alive_s = infer_read_int(name, value, GUC_UNIT_S, 1, 86400,
										  "a time from 1s to 24h, in seconds without a unit");
}

static void
infer_apply_max_batch_bytes(const char *name, const char *value, InferServer *server)
{
	server->max_batch_bytes = infer_read_int(name, value, GUC_UNIT_BYTE, 1, 1024 * 1024 * 1024,
											 "a size from 1 to 1GB, in bytes without a unit");
}

static void
infer_apply_max_batch_size(const char *name, const char *value, InferServer *server)
{
	server->max_batch_size =
		infer_read_int(name, value, 0, 1, INFER_MAX_BATCH_SIZE, "a number from 1 to 100000");
}

static void
infer_apply_max_batch_tokens(const char *name, const char *value, InferServer *server)
{
	server->max_batch_tokens =
		infer_read_int(name, value, 0, 1, INT_MAX, "a number of tokens, at least 1");
}

static void
infer_apply_max_concurrency(const char *name, const char *value, InferServer *server)
{
	server->max_concurrency =
		infer_read_int(name, value, 0, 1, INFER_MAX_CONCURRENCY, "a number from 1 to 100000");
}

static void
infer_apply_node(const char *name, const char *value, InferServer *server)
{
	server->node = infer_read_word(name, value, INFER_MAX_NODE);
}

static void
infer_apply_request_timeout(const char *name, const char *value, InferServer *server)
{
	server->request_timeout_ms =
		infer_read_int(name, value, GUC_UNIT_MS, 1, INT_MAX,
					   "a time of 1ms or more, in milliseconds without a unit");
}

static void
infer_apply_rpm(const char *name, const char *value, InferServer *server)
{
	server->rpm = infer_read_int(name, value, 0, 1, INT_MAX, "a number of requests, at least 1");
}

static void
infer_apply_service_class(const char *name, const char *value, InferServer *server)
{
	server->service_class = infer_read_word(name, value, INFER_MAX_NODE);
}

static void
infer_apply_signals(const char *name, const char *value, InferServer *server)
{
	server->signals = infer_read_bool(name, value);
}

static void
infer_apply_tpm(const char *name, const char *value, InferServer *server)
{
	server->tpm = infer_read_int(name, value, 0, 1, INT_MAX, "a number of tokens, at least 1");
}

static void
infer_apply_trust(const char *name, const char *value, InferServer *server)
{
	static const char *const words[] = {
		[INFER_TRUST_UNKNOWN] = "unknown",
		[INFER_TRUST_DIRECT] = "direct",
		[INFER_TRUST_PROVIDER] = "provider",
		[INFER_TRUST_PROXY] = "proxy",
	};

	for (int i = 0; i < lengthof(words); i++)
		if (strcmp(value, words[i]) == 0)
		{
			server->trust = (InferTrust) i;
			return;
		}
	infer_bad_value(name, value, "direct, provider, proxy or unknown");
}

static void
infer_apply_url(const char *name, const char *value, InferServer *server)
{
	InferUrl url = {0};
	const char *problem = infer_url_parse(value, &url);

	/* a url may hold a password by mistake: do not repeat it */
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for option \"%s\"", name), errdetail("The url %s.", problem),
				 errhint("Write it like http://10.0.0.5:8000/v1."), errhidestmt(true)));
	server->url = url.text;
	server->scheme = url.scheme;
	server->host = url.host;
	server->port = url.port;
	if (server->admission_key == NULL)
		server->admission_key = infer_url_origin(&url);
}

/* Sorted, as they are listed in hints. */
static const InferServerOption infer_server_options[] = {
	{"admission_key", infer_apply_admission_key},
	{"allow_cleartext", infer_apply_allow_cleartext},
	{"api", infer_apply_api},
	{"ca_file", infer_apply_ca_file},
	{"health_path", infer_apply_health_path},
	{"idempotency", infer_apply_idempotency},
	{"incarnation", infer_apply_incarnation},
	{"keep_alive", infer_apply_keep_alive},
	{"max_batch_bytes", infer_apply_max_batch_bytes},
	{"max_batch_size", infer_apply_max_batch_size},
	{"max_batch_tokens", infer_apply_max_batch_tokens},
	{"max_concurrency", infer_apply_max_concurrency},
	{"node", infer_apply_node},
	{"request_timeout", infer_apply_request_timeout},
	{"rpm", infer_apply_rpm},
	{"service_class", infer_apply_service_class},
	{"signals", infer_apply_signals},
	{"tpm", infer_apply_tpm},
	{"trust", infer_apply_trust},
	{"url", infer_apply_url},
};

static const char *const infer_mapping_options[] = {"api_key", "api_key_env", "api_key_file",
													"client_cert_file", "client_key_file"};

static void
infer_reject_server_option(const char *name)
{
	StringInfoData known;

	initStringInfo(&known);
	for (int i = 0; i < lengthof(infer_server_options); i++)
		appendStringInfo(&known, "%s%s", i > 0 ? ", " : "", infer_server_options[i].name);
	ereport(ERROR, (errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
					errmsg("a pg_inference server has no option \"%s\"", name),
					errhint("Options of a server are: %s.", known.data)));
}

void
infer_options_read_server(List *options, InferServer *server)
{
	ListCell *cell;

	server->api = pstrdup(INFER_DEFAULT_API);
	server->keep_alive_s = INFER_DEFAULT_KEEP_ALIVE_S;
	foreach (cell, options)
	{
		DefElem *def = lfirst_node(DefElem, cell);
		int i;

		for (i = 0; i < lengthof(infer_server_options); i++)
		{
			if (strcmp(def->defname, infer_server_options[i].name) == 0)
				break;
		}
		if (i == lengthof(infer_server_options))
			infer_reject_server_option(def->defname);
		infer_server_options[i].apply(def->defname, defGetString(def), server);
	}
}

InferCredential
infer_options_read_credential(List *options)
{
	InferCredential credential = {0};
	ListCell *cell;

	foreach (cell, options)
	{
		DefElem *def = lfirst_node(DefElem, cell);

		if (def->arg == NULL || !IsA(def->arg, String))
			continue;
		if (strcmp(def->defname, "api_key_file") == 0)
			credential.file = strVal(def->arg);
		else if (strcmp(def->defname, "api_key_env") == 0)
			credential.env = strVal(def->arg);
		else if (strcmp(def->defname, "api_key") == 0)
			credential.key = strVal(def->arg);
		else if (strcmp(def->defname, "client_cert_file") == 0)
			credential.client_cert_file = strVal(def->arg);
		else if (strcmp(def->defname, "client_key_file") == 0)
			credential.client_key_file = strVal(def->arg);
	}
	return credential;
}

static void
infer_reject_mapping_option(const char *name)
{
	StringInfoData known;

	initStringInfo(&known);
	for (int i = 0; i < lengthof(infer_mapping_options); i++)
		appendStringInfo(&known, "%s%s", i > 0 ? ", " : "", infer_mapping_options[i]);
	ereport(ERROR, (errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
					errmsg("a user mapping of a pg_inference server has no option \"%s\"", name),
					errhint("Options of a user mapping are: %s.", known.data), errhidestmt(true)));
}

static bool
infer_is_variable_name(const char *name)
{
	if (*name == '\0' || (*name >= '0' && *name <= '9'))
		return false;
	return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") ==
		   strlen(name);
}

/*
 * A role that could name any file or variable of the server could have it sent to a host of its
 * choice, so naming one takes what reading it directly would take.
 */
static void
infer_require_file_reader(const char *name, const char *object)
{
	if (!has_privs_of_role(GetUserId(), ROLE_PG_READ_SERVER_FILES))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to set option \"%s\"", name),
				 errdetail("Only superusers and members of the role pg_read_server_files may name "
						   "a file or an environment variable of the database server."),
				 errhint("Ask one of them to create the %s.", object), errhidestmt(true)));
}

/* A file of the database server that a user mapping names. */
static void
infer_validate_mapping_file(const char *name, const char *path)
{
	if (path == NULL)
		return;
	infer_require_file_reader(name, "user mapping");
	if (!is_absolute_path(path))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("option \"%s\" must be an absolute path", name), errhidestmt(true)));
}

static void
infer_validate_mapping(List *options)
{
	InferCredential credential = infer_options_read_credential(options);
	ListCell *cell;

	foreach (cell, options)
	{
		const char *name = lfirst_node(DefElem, cell)->defname;
		bool known = false;

		for (int i = 0; i < lengthof(infer_mapping_options); i++)
			known |= strcmp(name, infer_mapping_options[i]) == 0;
		if (!known)
			infer_reject_mapping_option(name);
	}
	if ((credential.file != NULL) + (credential.env != NULL) + (credential.key != NULL) > 1)
		ereport(ERROR, (errcode(ERRCODE_SYNTAX_ERROR),
						errmsg("a user mapping takes only one of the options api_key, api_key_env "
							   "and api_key_file"),
						errhidestmt(true)));
	if (credential.client_key_file != NULL && credential.client_cert_file == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("option \"client_key_file\" needs option \"client_cert_file\""),
				 errhint("Name the certificate that the key belongs to."), errhidestmt(true)));
	infer_validate_mapping_file("api_key_file", credential.file);
	infer_validate_mapping_file("client_cert_file", credential.client_cert_file);
	infer_validate_mapping_file("client_key_file", credential.client_key_file);
	if (credential.env != NULL)
	{
		infer_require_file_reader("api_key_env", "user mapping");
		if (!infer_is_variable_name(credential.env))
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("option \"api_key_env\" must be the name of a variable: "
								   "letters, digits and underscores"),
							errhidestmt(true)));
	}
	if (credential.key != NULL && !infer_guc_allow_inline_keys)
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						errmsg("keys are not taken from SQL text"),
						errdetail("They would be seen in logs, statistics and dumps."),
						errhint("Put the key into a file that only the database server can read, "
								"and name it with the option api_key_file."),
						errhidestmt(true)));
}

static void
infer_validate_server(List *options)
{
	InferServer server = {0};

	infer_options_read_server(options, &server);
	if (server.ca_file == NULL)
		return;
	infer_require_file_reader("ca_file", "server");
	/* its url is perhaps to come; what there is must not be a mistake that goes unnoticed */
	if (server.scheme != NULL && strcmp(server.scheme, "https") != 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("option \"ca_file\" needs an https url"),
						errhint("Change the url to https, or leave ca_file out.")));
}

void
infer_options_validate(List *options, Oid catalog)
{
	if (catalog == ForeignServerRelationId)
		infer_validate_server(options);
	else if (catalog == UserMappingRelationId)
		infer_validate_mapping(options);
	else if (options != NIL)
		ereport(ERROR, (errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
						errmsg("pg_inference takes no option \"%s\" here",
							   linitial_node(DefElem, options)->defname),
						errhint("Options belong to servers and user mappings.")));
}
