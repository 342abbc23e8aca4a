/* http1.c - connections and HTTP/1.1. */
#include "mockd.h"

int epoll_fd;
struct conn *conns, *graveyard; /* the latter: freed after the events at hand, which may still point to them */

void conn_close(struct conn *c)
{
    if (c->dead) return;
    struct linger hard = {1, 0};
    if (c->rst) setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(c->fd);
    if (c->tally && c->tally <= tallies.n && tallies.t[c->tally - 1].connection == c->number) tallies.t[c->tally - 1].open = false;
    if (!c->closing && c->out_at < c->out.len) stats.abandoned++; /* it left before the end of the answer */
    if (c->stalled) stats.abandoned++;
    timer_stop(&c->drip);
    stats.connections_now--;
    c->dead = true;
    if (c->h2) h2_free(c);
    else if (c->req) {
        c->req->owned = c->in; /* the request in service still reads its texts there */
        c->in = (struct buf){0};
        req_orphan(c->req);
    }
    c->req = NULL;
    *(c->prev ? &c->prev->next : &conns) = c->next;
    if (c->next) c->next->prev = c->prev;
    c->next = graveyard;
    graveyard = c;
}

static const char *status_text(int status)
{
    switch (status) {
    case 200: return "OK"; case 302: return "Found"; case 400: return "Bad Request"; case 401: return "Unauthorized";
    case 403: return "Forbidden"; case 404: return "Not Found"; case 405: return "Method Not Allowed"; case 413: return "Payload Too Large";
    case 429: return "Too Many Requests"; case 503: return "Service Unavailable"; default: return "Error";
    }
}

/* The request is answered as far as it is concerned; its connection may read the next one. */
void conn_detach(struct req *r)
{
    if (r->conn->h2) return; /* freed when nghttp2 closes the stream */
    r->conn->req = NULL;
    req_free(r);
}

/* Counts an API call for its connection. */
void conn_count(struct req *r)
{
    struct conn *c = r->conn;
    if (c->requests++) stats.reused++;
    if (c->requests > stats.of_a_connection_max) stats.of_a_connection_max = c->requests;
    if (!c->tally || c->tally > tallies.n || tallies.t[c->tally - 1].connection != c->number) { /* new, or forgotten */
        if (tallies.n == ARRAY_LEN(tallies.t)) return;
        tallies.t[tallies.n++] = (struct tally){.connection = c->number, .open = true};
        c->tally = tallies.n;
    }
    tallies.t[c->tally - 1].requests++;
}

bool conn_is_reused(struct req *r) { return r->conn->requests > 1; }

/* The connection ends in order, without a byte of an answer. */
void conn_die(struct req *r)
{
    struct conn *c = r->conn;
    if (c->h2) { h2_abort(r); return; }
    c->closing = true;
    conn_detach(r);
}

static uint32_t crc32_of(const unsigned char *p, size_t n)
{
    uint32_t c = ~0u;
    for (; n; n--) {
        c ^= *p++;
        for (int k = 0; k < 8; k++) c = c >> 1 ^ (0xedb88320u & -(c & 1));
    }
    return ~c;
}

/* The body after HEADROOM bytes becomes a gzip member of stored blocks: right, if not small. */
static void gzip_stored(struct buf *b)
{
    static const unsigned char magic[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
    struct buf z = {0};
    size_t n = b->len - HEADROOM, at = 0;
    buf_add(&z, b->p, HEADROOM);
    buf_add(&z, magic, sizeof magic);
    do {
        size_t k = n - at < 65535 ? n - at : 65535;
        unsigned char head[5] = {at + k == n, (unsigned char)k, (unsigned char)(k >> 8), (unsigned char)~k, (unsigned char)(~k >> 8)};
        buf_add(&z, head, sizeof head);
        buf_add(&z, b->p + HEADROOM + at, k);
        at += k;
    } while (at < n);
    uint32_t tail[2] = {crc32_of((unsigned char *)b->p + HEADROOM, n), (uint32_t)n}; /* little-endian machines only */
    buf_add(&z, tail, sizeof tail);
    buf_free(b);
    *b = z;
}

/* The body after HEADROOM bytes is cut into chunks of some 1,000 bytes. */
static void chunk_body(struct buf *b)
{
    struct buf z = {0};
    buf_add(&z, b->p, HEADROOM);
    for (size_t at = HEADROOM; at < b->len;) {
        size_t k = b->len - at < 1021 ? b->len - at : 1021;
        buf_fmt(&z, "%zx\r\n", k);
        buf_add(&z, b->p + at, k);
        buf_str(&z, "\r\n");
        at += k;
    }
    buf_str(&z, "0\r\n\r\n");
    buf_free(b);
    *b = z;
}

/* Takes up a connection's answer after its head where fault big wants filler in between. */
static void filler_begin(struct conn *c, size_t head_end)
{
    c->filler = (size_t)set.big_kb * 1024;
    c->after_filler = (struct buf){0};
    buf_add(&c->after_filler, c->out.p + head_end, c->out.len - head_end);
    c->out.len = head_end;
}

/* The next piece of white space, or the answer after it; false: there is nothing more. */
static bool filler_next(struct conn *c)
{
    if (!c->after_filler.p) return false;
    c->out.len = c->out_at = 0;
    if (c->filler) {
        size_t n = c->filler < 65536 ? c->filler : 65536;
        memset(buf_room(&c->out, n), ' ', n);
        c->out.len = n;
        c->filler -= n;
    } else {
        buf_free(&c->out);
        c->out = c->after_filler;
        c->after_filler = (struct buf){0};
    }
    c->out_limit = c->out.len;
    return true;
}

static void drip_more(void *arg)
{
    struct conn *c = arg;
    c->out_limit += (size_t)set.slow_bytes;
    if (c->out_limit > c->out.len) c->out_limit = c->out.len;
    else timer_set(&c->drip, set.slow_ms * MS, drip_more, c);
    conn_run(c);
}

void conn_reply(struct req *r, int status, const char *type, double retry_after)
{
    struct conn *c = r->conn;
    char head[HEADROOM], retry[64] = "", length[64], incarnation[sizeof set.incarnation + 32] = "", location[sizeof set.redirect_to + 16] = "";
    bool zip = false, big = status == 200 && r->fault == FAULT_big && r->api;
    if (r->api && sizes.n < ARRAY_LEN(sizes.s))
        sizes.s[sizes.n++] = (struct size){(uint32_t)r->n_items, (uint32_t)r->prompt_tokens, status};
    if (status != 200) stats.failed += r->api != API_NONE;
    else if (r->api && c->tally && c->tally <= tallies.n && tallies.t[c->tally - 1].connection == c->number) tallies.t[c->tally - 1].ok++;
    if (c->h2) { h2_reply(r, status, type, retry_after); return; }
    if (retry_after >= 0) snprintf(retry, sizeof retry, "Retry-After: %.15g\r\n", retry_after);
    if (set.incarnation[0]) snprintf(incarnation, sizeof incarnation, "X-Incarnation: %s\r\n", set.incarnation);
    if (r->fault == FAULT_redirect) snprintf(location, sizeof location, "Location: %s\r\n", set.redirect_to);
    if (r->api && set.gzip && r->accepts_gzip && !big) { zip = true; gzip_stored(&r->out); }
    if (r->api && (set.chunked || r->fault == FAULT_cutchunk) && !big && r->fault != FAULT_cutclose) {
        snprintf(length, sizeof length, "Transfer-Encoding: chunked");
        chunk_body(&r->out);
    } else if (r->fault == FAULT_cutclose) snprintf(length, sizeof length, "Connection: close");
    else snprintf(length, sizeof length, "Content-Length: %zu", r->out.len - HEADROOM + (big ? (size_t)set.big_kb * 1024 : 0));
    size_t n = (size_t)snprintf(head, sizeof head, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\n%s\r\n%s%s%s%s%s\r\n",
        status, status_text(status), type, length, zip ? "Content-Encoding: gzip\r\n" : "", retry, location, incarnation,
        r->close ? "Connection: close\r\n" : "");
    memcpy(r->out.p + HEADROOM - n, head, n);
    if (status == 200 && r->fault == FAULT_garbage) r->out.p[HEADROOM - n] = '\1';
    buf_free(&c->out);
    c->out = r->out;
    c->out_at = HEADROOM - n;
    c->out_limit = c->out.len;
    c->closing |= r->close;
    r->out = (struct buf){0};
    if (big) { filler_begin(c, HEADROOM); c->out_limit = c->out.len; }
    if (status == 200 && r->fault == FAULT_halfhang) c->out_limit = c->out_at + (c->out.len - c->out_at) / 2;
    if (status == 200 && r->fault == FAULT_slow) {
        c->out_limit = c->out_at;
        timer_set(&c->drip, 0, drip_more, c);
    }
    conn_detach(r);
}

void conn_stream_begin(struct req *r)
{
    struct conn *c = r->conn;
    if (c->h2) { h2_stream(r, true); return; }
    buf_fmt(&c->out, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
            "Transfer-Encoding: chunked\r\n%s\r\n", r->close ? "Connection: close\r\n" : "");
    c->out_limit = c->out.len;
}

void conn_stream_data(struct req *r, bool end)
{
    struct conn *c = r->conn;
    if (c->h2) { h2_stream(r, false); return; }
    buf_fmt(&c->out, "%zx\r\n", r->out.len - HEADROOM);
    buf_add(&c->out, r->out.p + HEADROOM, r->out.len - HEADROOM);
    buf_str(&c->out, end ? "\r\n0\r\n\r\n" : "\r\n");
    c->out_limit = c->out.len;
    if (end) c->closing |= r->close;
}

/* Breaks the connection: with a TCP reset, or in order after half of the answer (of a stream: after what it has sent). */
void conn_abort(struct req *r, bool after_half)
{
    struct conn *c = r->conn;
    if (c->h2) { h2_abort(r); return; }
    c->closing = true;
    c->rst = !after_half;
    if (!after_half || r->words_sent) { conn_detach(r); return; }
    conn_reply(r, 200, "application/json", -1);
    c->out_limit = c->out_at + (c->out.len - c->out_at) / 2;
}

/* Sends what may be sent; false: not all of it is out yet, or the connection is gone. */
static bool conn_flush(struct conn *c)
{
    while (c->out_at < c->out_limit || (c->out_at == c->out.len && filler_next(c))) {
        ssize_t n = send(c->fd, c->out.p + c->out_at, c->out_limit - c->out_at, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) return false;
        if (n < 0) { conn_close(c); return false; }
        c->out_at += (size_t)n;
        stats.bytes_out += (uint64_t)n;
    }
    if (c->out_limit < c->out.len && !c->closing) return false; /* dripping */
    if (c->out.cap > 65536) buf_free(&c->out);
    c->out.len = c->out_at = c->out_limit = 0;
    return true;
}

/*
 * Fault stall: is the request that begins here never to be read? Looks without taking, so that the client's bytes stay in
 * the kernel; what is not HTTP (a TLS greeting) counts as a request. The mock's own endpoints always answer. Drawn from
 * the number of the connection, for nothing of the request is known yet.
 */
static bool conn_stalls(struct conn *c)
{
    char head[9] = "";
    uint64_t rng = mix64((uint64_t)set.seed ^ c->number << 20) + c->requests;
    if (!set.fault[FAULT_stall] || c->in.len > c->in_at || c->head_len || c->h2) return false;
    if (recv(c->fd, head, sizeof head - 1, MSG_PEEK) <= 0) return false;
    if (!strncmp(head, "GET ", 4) || (!strncmp(head, "POST /", 6) && strncmp(head, "POST /v1", 8))) return false;
    return draw(&rng) * 100 < set.fault[FAULT_stall];
}

/* Reads once; false: nothing there. */
static bool conn_fill(struct conn *c)
{
    if (!c->readable || c->stalled) return false;
    if (conn_stalls(c)) {
        c->stalled = true;
        stats.stalled++;
        stats_fault(FAULT_stall);
        return false;
    }
    if (c->in_at && !c->req) { /* no request has texts in there */
        memmove(c->in.p, c->in.p + c->in_at, c->in.len - c->in_at + 1);
        c->in.len -= c->in_at;
        c->in_at = 0;
    }
    size_t want = 16384, need = c->head_len + (c->chunked ? 0 : c->body_len), have = c->in.len - c->in_at;
    if (c->head_len && need > have + want) want = need - have;
    ssize_t n = recv(c->fd, buf_room(&c->in, want + 1), want, 0); /* one more byte for the 0 */
    if (n < 0 && errno == EAGAIN) { c->readable = false; return false; }
    if (n <= 0) { conn_close(c); return false; }
    if ((size_t)n < want) c->readable = false; /* drained: the next edge says when there is more */
    c->in.len += (size_t)n;
    c->in.p[c->in.len] = 0;
    stats.bytes_in += (uint64_t)n;
    return true;
}

static void http_error(struct conn *c, int status, const char *message)
{
    if (!c->req) c->req = req_new(c);
    c->req->close = true;
    reply_error(c->req, status, "bad_request", message);
}

void head_field(struct req *r, const char *name, size_t n, const char *value, size_t len)
{
    if (n == 13 && !strncasecmp(name, "authorization", 13)) r->with_key = true;
    if (n == 13 && !strncasecmp(name, "authorization", 13))
        r->authorized = len > 7 && !strncasecmp(value, "Bearer ", 7) && len - 7 == strlen(set.api_key) &&
                        !memcmp(value + 7, set.api_key, len - 7);
    else if ((n == 12 && !strncasecmp(name, "x-request-id", 12)) || (n == 15 && !strncasecmp(name, "idempotency-key", 15)))
        r->id_hash = hash64(value, len, 7) | 1;
    else if (n == 15 && !strncasecmp(name, "accept-encoding", 15)) r->accepts_gzip = memmem(value, len, "gzip", 4) != NULL;
}

/* Reads the head of a request: false if it is not whole yet, or was answered with an error. */
static bool h1_head(struct conn *c)
{
    char *p = c->in.p + c->in_at, *end = memmem(p, c->in.len - c->in_at, "\r\n\r\n", 4), *eol;
    bool expect = false;
    if (!end) {
        if (c->in.len - c->in_at > 65536) http_error(c, 400, "the request's head is too long");
        return false;
    }
    struct req *r = c->req = req_new(c);
    char version[16];
    if (sscanf(p, "%7s %1023s %15s", r->method, r->path, version) != 3 || strncmp(version, "HTTP/1.", 7)) {
        http_error(c, 400, "not an HTTP/1.1 request");
        return false;
    }
    r->close = version[7] == '0';
    c->head_len = (size_t)(end + 4 - p);
    c->body_len = 0;
    c->chunked = false;
    for (p = memmem(p, c->head_len, "\r\n", 2) + 2; p < end; p = eol + 2) {
        eol = memmem(p, (size_t)(end + 2 - p), "\r\n", 2);
        char *colon = memchr(p, ':', (size_t)(eol - p)), *value = colon ? colon + 1 : eol;
        while (value < eol && *value == ' ') value++;
        size_t n = colon ? (size_t)(colon - p) : 0, len = (size_t)(eol - value);
        if (n == 14 && !strncasecmp(p, "content-length", 14)) c->body_len = strtoull(value, NULL, 10);
        else if (n == 17 && !strncasecmp(p, "transfer-encoding", 17)) c->chunked = len == 7 && !strncasecmp(value, "chunked", 7);
        else if (n == 6 && !strncasecmp(p, "expect", 6)) expect = true;
        else if (n == 10 && !strncasecmp(p, "connection", 10)) {
            if (len == 5 && !strncasecmp(value, "close", 5)) r->close = true;
            if (len == 10 && !strncasecmp(value, "keep-alive", 10)) r->close = false;
        } else head_field(r, p, n, value, len);
    }
    if ((double)c->body_len > set.limit_body_kb * 1024) {
        r->overlong = r->close = c->discard = true; /* answered without reading the body */
        c->body_len = 0;
    } else if (expect && c->in.len - c->in_at == c->head_len) {
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
        if (send(c->fd, go_on, sizeof go_on - 1, MSG_NOSIGNAL) < 0) c->closing = true;
    }
    return true;
}

/* A chunked body: true once it is whole; then it is made contiguous and the lengths are set. */
static bool h1_dechunk(struct conn *c, size_t *used)
{
    for (int pass = 0; pass < 2; pass++) { /* first look whether the end is there, then move */
        char *body = c->in.p + c->in_at + c->head_len, *p = body, *end = c->in.p + c->in.len, *out = body, *eol;
        for (;;) {
            char *stop;
            if (!(eol = memmem(p, (size_t)(end - p), "\r\n", 2))) return false;
            size_t n = strtoull(p, &stop, 16);
            if (stop == p || (double)n + (double)(p - body) > set.limit_body_kb * 1024) {
                http_error(c, 400, "a malformed or too large chunked body");
                return false;
            }
            p = eol + 2;
            if ((size_t)(end - p) < n + 2) return false;
            if (pass) memmove(out, p, n);
            out += n;
            p += n + 2;
            if (n) continue;
            *used = (size_t)(p - body);
            c->body_len = (size_t)(out - body);
            break;
        }
    }
    return true;
}

/* Takes the next request out of the input and handles it; false: it is not whole yet. */
static bool h1_input(struct conn *c)
{
    size_t used;
    if (c->in_at == c->in.len && !c->head_len) return false;
    if (!c->head_len && !h1_head(c)) return c->closing;
    size_t have = c->in.len - c->in_at - c->head_len;
    if (c->chunked) {
        if (!h1_dechunk(c, &used)) return c->closing;
    } else if (have < c->body_len) return false;
    else used = c->body_len;
    struct req *r = c->req;
    r->body = c->in.p + c->in_at + c->head_len;
    r->body_len = c->body_len;
    c->in_at += c->head_len + used;
    c->head_len = 0;
    handle(r);
    return true;
}

/* Makes whatever progress is possible: sends, closes, handles the next request, reads. */
void conn_run(struct conn *c)
{
    while (!c->dead) {
        if (c->out.len && !conn_flush(c)) return;
        if (c->h2) {
            if (h2_output(c)) continue;
        } else if (c->closing && !c->discard) { conn_close(c); return; }
        else if (c->closing) { /* closing with input unread would reset the connection, and lose the answer */
            shutdown(c->fd, SHUT_WR);
            while (conn_fill(c)) c->in.len = c->in_at = 0;
            return;
        }
        else if (c->req && !c->head_len) return; /* in service */
        else if (h1_input(c)) continue;
        if (c->dead || !conn_fill(c)) return;
        if (c->h2 || (!c->head_len && c->in_at == 0 && c->in.len >= 24 && !memcmp(c->in.p, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24)))
            if (!h2_input(c)) return;
    }
}
