/*
 * registry/url.c - taking apart and judging the url of a server.
 *
 * Stricter than RFC 3986 on purpose: what we accept must mean the same to us, who check the host,
 * and to the HTTP library, who connects to it.  So: no user information, no query, no fragment, no
 * backslash, no percent sign or other than ASCII in the host, no address written as 0x7f.1 or
 * 2130706433, which resolvers read, and no dot at the end, which would be another spelling of the
 * same name.
 */
#include "postgres.h"

#include <arpa/inet.h>
#include <ctype.h>

#include "registry/url.h"

#define INFER_HOST_MAX 253 /* bytes, DNS's limit */
#define INFER_URL_MAX  2048

/* Lower-cases the scheme into url, sets *rest behind "://". */
static const char *
infer_url_scheme(const char *text, InferUrl *url, const char **rest)
{
	if (pg_strncasecmp(text, "http://", 7) == 0)
	{
		url->scheme = pstrdup("http");
		url->port = 80;
		*rest = text + 7;
	}
	else if (pg_strncasecmp(text, "https://", 8) == 0)
	{
		url->scheme = pstrdup("https");
		url->port = 443;
		*rest = text + 8;
	}
	else
		return "must begin with http:// or https://";
	return NULL;
}

/* Would a resolver take this label for a number? In decimal, octal or hex. */
static bool
infer_label_is_number(const char *label)
{
	if (label[0] == '0' && (label[1] == 'x' || label[1] == 'X'))
		return label[2 + strspn(label + 2, "0123456789abcdefABCDEF")] == '\0';
	return label[strspn(label, "0123456789")] == '\0';
}

/* A name or an IPv4 address; NULL or what is wrong with it. */
static const char *
infer_url_check_name(const char *host)
{
	const char *last = strrchr(host, '.');
	struct in_addr address;

	for (const char *p = host; *p; p++)
	{
		if (!isalnum((unsigned char) *p) && *p != '-' && *p != '.' && *p != '_')
			return "may have only letters, digits, dots, hyphens and underscores in the host";
	}
	if (host[0] == '.' || host[strlen(host) - 1] == '.' || strstr(host, "..") != NULL)
		return "names a host with a dot at its beginning or end, or two in a row";
	if (infer_label_is_number(last != NULL ? last + 1 : host) &&
		inet_pton(AF_INET, host, &address) != 1)
		return "has a host that ends in a number; an IPv4 address is four decimal numbers";
	return NULL;
}

/* Splits the host off an authority; *port_text is what follows it. */
static const char *
infer_url_host(const char *authority, InferUrl *url, const char **port_text)
{
	const char *problem;
	size_t len;

	if (authority[0] == '[')
	{
		struct in6_addr address;
		const char *end = strchr(authority, ']');

		if (end == NULL)
			return "has an IPv6 address without its closing bracket";
		url->host = pnstrdup(authority + 1, end - authority - 1);
		if (inet_pton(AF_INET6, url->host, &address) != 1)
			return "has brackets around something that is not an IPv6 address";
		*port_text = end + 1;
		len = strlen(url->host);
	}
	else
	{
		len = strcspn(authority, ":");
		if (len == 0)
			return "names no host";
		if (len > INFER_HOST_MAX)
			return "names a host of more than 253 bytes";
		url->host = pnstrdup(authority, len);
		problem = infer_url_check_name(url->host);
		if (problem != NULL)
			return problem;
		*port_text = authority + len;
	}
	for (size_t i = 0; i < len; i++)
		url->host[i] = pg_ascii_tolower((unsigned char) url->host[i]);
	return NULL;
}

static const char *
infer_url_port(const char *text, InferUrl *url)
{
	int port = 0;

	if (text[0] == '\0')
		return NULL;
	if (text[0] != ':' || text[1] == '\0' || strlen(text) > 6)
		return "has a port that is not a number from 1 to 65535";
	for (const char *p = text + 1; *p; p++)
	{
		if (*p < '0' || *p > '9')
			return "has a port that is not a number from 1 to 65535";
		port = port * 10 + (*p - '0');
	}
	if (port < 1 || port > 65535)
		return "has a port that is not a number from 1 to 65535";
	url->port = port;
	return NULL;
}

const char *
infer_url_parse(const char *text, InferUrl *url)
{
	const char *rest;
	const char *port_text;
	const char *problem;
	char *authority;
	size_t len = strlen(text);

	if (len > INFER_URL_MAX)
		return "is longer than 2048 bytes";
	for (size_t i = 0; i < len; i++)
	{
		unsigned char c = text[i];

		if (c <= 0x20 || c >= 0x7f || c == '\\')
			return "may have only printable ASCII characters, no spaces and no backslashes";
	}
	problem = infer_url_scheme(text, url, &rest);
	if (problem != NULL)
		return problem;
	if (strpbrk(rest, "?#") != NULL)
		return "must have no query and no fragment";
	authority = pnstrdup(rest, strcspn(rest, "/"));
	if (strchr(authority, '@') != NULL)
		return "must have no user name or password; keys belong into a user mapping";
	problem = infer_url_host(authority, url, &port_text);
	if (problem == NULL)
		problem = infer_url_port(port_text, url);
	if (problem != NULL)
		return problem;

	while (len > 0 && text[len - 1] == '/')
		len--;
	url->text = pnstrdup(text, len);
	return NULL;
}

char *
infer_url_origin(const InferUrl *url)
{
	bool ipv6 = strchr(url->host, ':') != NULL;

	return psprintf("%s://%s%s%s:%d", url->scheme, ipv6 ? "[" : "", url->host, ipv6 ? "]" : "",
					url->port);
}

bool
infer_host_is_loopback(const char *host)
{
	struct in_addr v4;
	struct in6_addr v6;

	if (pg_strcasecmp(host, "localhost") == 0)
		return true;
	if (inet_pton(AF_INET, host, &v4) == 1)
		return (ntohl(v4.s_addr) >> 24) == 127;
	if (inet_pton(AF_INET6, host, &v6) == 1)
		return IN6_IS_ADDR_LOOPBACK(&v6);
	return false;
}
