/*
 * registry/url.h - taking apart and judging the url of a server.
 */
#ifndef INFER_REGISTRY_URL_H
#define INFER_REGISTRY_URL_H

#include "postgres.h"

typedef struct InferUrl
{
	char *text;   /* as given, without trailing slashes */
	char *scheme; /* "http" or "https" */
	char *host;   /* lower case; an IPv6 address without its brackets */
	int port;     /* the scheme's if none was given */
} InferUrl;

/* Fills url with palloc'd strings and returns NULL, or returns what is wrong with it, as the end of
 * a sentence that begins with "The url". */
extern const char *infer_url_parse(const char *text, InferUrl *url);
/* scheme://host:port */
extern char *infer_url_origin(const InferUrl *url);
/* Is this host, as written, this very machine: localhost, 127/8 or ::1? */
extern bool infer_host_is_loopback(const char *host);

#endif
