/*
 * gateway/resolver.c - which address a probe connects to.
 *
 * A server's name is looked up here, by a probe, and not by each process that calls it: so no
 * thread is started there, and all go to the same address.  It is kept for pg_inference.dns_ttl and
 * then looked up anew; sooner where a connection to it could not be made, be it this process's or
 * another's (whoever finds that out takes the address out of the route table).  A slow answer is no
 * reason.  Names of this very machine and addresses need nobody to look them up.
 *
 * The address told is one that a probe has connected to, which a look-up alone would not show.
 */
#include "gateway/internal.h"

#include <arpa/inet.h>

#include "pg/guc.h"

/* Does the name stand for what only a look-up can tell? */
static bool
needs_lookup(const char *host)
{
	unsigned char address[sizeof(struct in6_addr)];

	return inet_pton(AF_INET, host, address) != 1 && inet_pton(AF_INET6, host, address) != 1 &&
		   strcmp(host, "localhost") != 0;
}

static bool
is_fresh(const InferNameWatch *name, int64 now)
{
	return name->address[0] != '\0' && now - name->resolved_us < (int64) infer_guc_dns_ttl * 1000;
}

bool
infer_resolver_was_dropped(const InferNameWatch *name, const InferRouteEntry *entry)
{
	return name->address[0] != '\0' && entry->address[0] == '\0';
}

void
infer_resolver_prepare(InferNameWatch *name, const InferRouteEntry *entry, int64 now,
					   InferHttpRequest *request)
{
	name->asking = false;
	if (!needs_lookup(entry->identity.host))
		return;
	if (is_fresh(name, now) && !infer_resolver_was_dropped(name, entry))
	{
		request->address = name->address;
		return;
	}
	name->asking = true;
	request->fresh_lookup = true;
	/* the time to connect begins with the look-up, which may take what calls give it */
	request->connect_timeout_ms = Max(request->connect_timeout_ms, infer_guc_connect_timeout);
}

const char *
infer_resolver_note(InferNameWatch *name, const InferRouteEntry *entry,
					const InferHttpResult *result, int64 now)
{
	if (!needs_lookup(entry->identity.host))
		return NULL;
	if (result->address[0] == '\0')
	{
		/* nobody was there, or something else came in between: then what was known is still so */
		if (result->wire.end == INFER_WIRE_CONNECT || name->asking)
			name->address[0] = '\0';
		return name->address[0] != '\0' ? name->address : NULL;
	}
	if (name->asking)
	{
		strlcpy(name->address, result->address, sizeof(name->address));
		name->resolved_us = now;
	}
	return name->address;
}
