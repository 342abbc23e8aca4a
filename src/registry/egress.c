/*
 * registry/egress.c - where requests may go.
 *
 * The host is judged as the server object names it, before anything is resolved; the address is
 * judged again when the connection is made, so that a name cannot be pointed at the machine's own
 * metadata service later.  Addresses are judged inside a callback of the HTTP library: nothing
 * there may raise or allocate.
 */
#include "postgres.h"

#include <arpa/inet.h>

#include "pg/guc.h"
#include "registry/registry.h"
#include "registry/url.h"

typedef struct InferNetwork
{
	unsigned char address[16]; /* in network order; of IPv4 the first four bytes */
	int bits;
} InferNetwork;

/*
 * Networks where cloud machines hand out credentials to whoever asks from inside, and addresses
 * that are no host's: "this host", which is another way to say loopback, multicast, reserved.
 */
static const InferNetwork metadata_v4[] = {
	{{169, 254}, 16},           /* link-local, with nearly all metadata services */
	{{100, 100, 100, 200}, 32}, /* Alibaba Cloud metadata */
	{{168, 63, 129, 16}, 32},   /* Azure's wire server */
	{{192, 0, 0, 192}, 32},     /* Oracle Cloud metadata */
};

static const InferNetwork nobody_v4[] = {
	{{0}, 8},   /* this host */
	{{224}, 4}, /* multicast */
	{{240}, 4}, /* reserved, broadcast */
};

static const InferNetwork denied_v6[] = {
	{{0}, 128},                     /* ::, this host */
	{{0xfe, 0x80}, 10},             /* link-local */
	{{0xfd, 0x00, 0x0e, 0xc2}, 32}, /* Amazon's metadata, credentials, names, time */
	{{0xfd, 0x20, 0x00, 0xce, [14] = 0x02, [15] = 0x54}, 128}, /* Google Cloud metadata */
	{{0x20, 0x01}, 32}, /* Teredo: some IPv4 address, in disguise */
	{{0xff}, 8},        /* multicast */
};

/* IPv6 networks whose addresses stand for an IPv4 address, and the places of its four bytes. */
typedef struct InferEmbedding
{
	InferNetwork network;
	unsigned char at[4];
	bool certain; /* else it may stand elsewhere, and these bytes may be any */
} InferEmbedding;

static const InferEmbedding embedding_v6[] = {
	{{{[10] = 0xff, [11] = 0xff}, 96}, {12, 13, 14, 15}, true}, /* mapped: ::ffff:0:0 */
	{{{0}, 96}, {12, 13, 14, 15}, true},                        /* compatible */
	{{{[8] = 0xff, [9] = 0xff}, 96}, {12, 13, 14, 15}, true},   /* translated: ::ffff:0:0:0 */
	{{{0x00, 0x64, 0xff, 0x9b}, 96}, {12, 13, 14, 15}, true},   /* NAT64: 64:ff9b:: */
	{{{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48},
	 {12, 13, 14, 15},
	 false}, /* ... of a site, prefix of 96 bits */
	{{{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48}, {9, 10, 11, 12}, false}, /* ... of 64 */
	{{{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48}, {7, 9, 10, 11}, false},  /* ... of 56 */
	{{{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48}, {6, 7, 9, 10}, false},   /* ... of 48 */
	{{{0x20, 0x02}, 16}, {2, 3, 4, 5}, true},                             /* 6to4 */
};

static bool
infer_prefix_matches(const unsigned char *address, const unsigned char *network, int bits)
{
	int bytes = bits / 8;
	int rest = bits % 8;

	if (memcmp(address, network, bytes) != 0)
		return false;
	return rest == 0 || (address[bytes] >> (8 - rest)) == (network[bytes] >> (8 - rest));
}

/* address: as many bytes as theirs have */
static bool
infer_in_networks(const unsigned char *address, const InferNetwork *networks, int n)
{
	for (int i = 0; i < n; i++)
		if (infer_prefix_matches(address, networks[i].address, networks[i].bits))
			return true;
	return false;
}

static bool
infer_is_metadata(const unsigned char *v4)
{
	return infer_in_networks(v4, metadata_v4, lengthof(metadata_v4));
}

static bool
infer_is_nobody(const unsigned char *v4)
{
	return infer_in_networks(v4, nobody_v4, lengthof(nobody_v4));
}

static bool
infer_denied_v6(const unsigned char *address)
{
	static const unsigned char loopback[16] = {[15] = 1}; /* looks like 0.0.0.1, compatible */

	if (memcmp(address, loopback, sizeof(loopback)) == 0)
		return false;
	if (infer_in_networks(address, denied_v6, lengthof(denied_v6)))
		return true;
	for (int i = 0; i < lengthof(embedding_v6); i++)
	{
		const InferEmbedding *embedding = &embedding_v6[i];
		unsigned char v4[4];

		if (!infer_in_networks(address, &embedding->network, 1))
			continue;
		for (int j = 0; j < 4; j++)
			v4[j] = address[embedding->at[j]];
		if (infer_is_metadata(v4) || (embedding->certain && infer_is_nobody(v4)))
			return true;
	}
	return false;
}

/* Is this text an IP address, and a denied one? *is_address says the first. */
static bool
infer_address_denied(const char *text, bool *is_address)
{
	char plain[INET6_ADDRSTRLEN + 1];
	size_t len = strcspn(text, "%"); /* without an IPv6 zone */
	unsigned char address[16];

	*is_address = false;
	if (len >= sizeof(plain))
		return true;
	memcpy(plain, text, len);
	plain[len] = '\0';
	if (inet_pton(AF_INET, plain, address) == 1)
	{
		*is_address = true;
		return infer_is_metadata(address) || infer_is_nobody(address);
	}
	if (inet_pton(AF_INET6, plain, address) == 1)
	{
		*is_address = true;
		return infer_denied_v6(address);
	}
	return true;
}

/* Does the host match the pattern, where * stands for any characters? Both without case. */
static bool
infer_host_matches(const char *pattern, size_t pattern_len, const char *host)
{
	const char *end = pattern + pattern_len;
	const char *star = NULL; /* behind the last star seen */
	const char *retry = NULL;

	while (*host)
	{
		if (pattern < end && *pattern == '*')
		{
			star = ++pattern;
			retry = host;
		}
		else if (pattern < end && pg_ascii_tolower((unsigned char) *pattern) ==
									  pg_ascii_tolower((unsigned char) *host))
		{
			pattern++;
			host++;
		}
		else if (star != NULL)
		{
			pattern = star;
			host = ++retry;
		}
		else
			return false;
	}
	while (pattern < end && *pattern == '*')
		pattern++;
	return pattern == end;
}

/* Does an element of allowed_hosts match? exact: stars do not count. *any: is there an element? */
static bool
infer_host_listed(const char *host, bool exact, bool *any)
{
	const char *p = infer_guc_allowed_hosts ? infer_guc_allowed_hosts : "";
	bool listed = false;

	*any = false;
	while (*p)
	{
		const char *pattern;
		size_t len;

		p += strspn(p, ", \t\r\n");
		pattern = p;
		len = strcspn(p, ", \t\r\n");
		p += len;
		if (len == 0)
			continue;
		*any = true;
		if (exact && memchr(pattern, '*', len) != NULL)
			continue;
		listed |= infer_host_matches(pattern, len, host);
	}
	return listed;
}

bool
infer_egress_host(const InferServer *server)
{
	bool any;
	bool listed = infer_host_listed(server->host, false, &any);

	return !any || listed || infer_host_is_loopback(server->host);
}

void
infer_egress_init(InferEgress *egress, const InferServer *server)
{
	bool any;
	bool is_address;
	bool denied = infer_address_denied(server->host, &is_address);

	/* Only for a server that names the very address: a name could be pointed anywhere. */
	egress->allow_denied = is_address && denied && infer_host_listed(server->host, true, &any);
}

bool
infer_egress_address(void *arg, const char *ip, int port)
{
	const InferEgress *egress = arg;
	bool is_address;

	return !infer_address_denied(ip, &is_address) || (is_address && egress->allow_denied);
}
