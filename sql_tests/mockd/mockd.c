/*
 * mockd - a mock inference server for tests and benchmarks.
 *
 * It speaks the part of the OpenAI HTTP API that a database client needs (embeddings, chat and text
 * completions, SSE streaming), behaves like a real backend under load (slots, a queue, 429s), can
 * be told to misbehave in every way that a client must survive, and counts what it was asked to do,
 * so that a test can prove that no row was sent twice, lost or answered with another row's result.
 *
 * One file, one thread, epoll, no dependency but libc and libm; with -DWITH_H2 and -lnghttp2 it
 * also speaks HTTP/2 with prior knowledge (h2c) on the same port. See README.md beside this file.
 *
 * Everything random is drawn from hash(seed, request content, how often it was seen before), never
 * from the order of arrival: a run with faults and jitter repeats exactly, however concurrent.
 *
 * Contents:  1 memory and buffers    2 settings        3 JSON input      4 counters
 *            5 timers                6 requests        7 rendering       8 serving (slots, queue)
 *            9 endpoints            10 HTTP/1.1       11 HTTP/2         12 main loop
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_H2
#include <nghttp2/nghttp2.h>
#endif

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MS 1e6 /* nanoseconds in a millisecond */

/* ------------------------------------------------------------------ 1 memory and buffers */

struct buf { char *p; size_t len, cap; };

static void *xrealloc(void *p, size_t n)
{
    p = realloc(p, n ? n : 1);
    if (!p) { perror("mockd: realloc"); exit(1); }
    return p;
}

static void *xcalloc(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (!p) { perror("mockd: calloc"); exit(1); }
    return p;
}

/* Room for n more bytes; the caller writes them at the returned place and adds to b->len. */
static char *buf_room(struct buf *b, size_t n)
{
    if (b->cap - b->len < n) {
        size_t cap = b->cap * 2 > b->len + n ? b->cap * 2 : b->len + n;
        b->p = xrealloc(b->p, cap);
        b->cap = cap;
    }
    return b->p + b->len;
}

static void buf_add(struct buf *b, const void *p, size_t n)
{
    if (n) memcpy(buf_room(b, n), p, n);
    b->len += n;
}

static void buf_str(struct buf *b, const char *s) { buf_add(b, s, strlen(s)); }

__attribute__((format(printf, 2, 3))) static void buf_fmt(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    size_t room = 256;
    for (;;) {
        char *p = buf_room(b, room);
        va_start(ap, fmt);
        size_t n = (size_t)vsnprintf(p, room, fmt, ap);
        va_end(ap);
        if (n < room) { b->len += n; return; }
        room = n + 1;
    }
}

/* The bytes as the inside of a JSON string. */
static void buf_json(struct buf *b, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char ch = (unsigned char)s[i];
        if (ch == '"' || ch == '\\') buf_fmt(b, "\\%c", ch);
        else if (ch < 0x20) buf_fmt(b, "\\u%04x", ch);
        else buf_add(b, &s[i], 1);
    }
}

static void buf_free(struct buf *b)
{
    free(b->p);
    *b = (struct buf){0};
}

static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t mix64(uint64_t x) /* splitmix64's finaliser */
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t hash64(const char *p, size_t n, uint64_t seed)
{
    uint64_t h = mix64(seed ^ n), w;
    for (; n >= 8; p += 8, n -= 8) {
        memcpy(&w, p, 8);
        h = (h ^ w) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    w = 0;
    if (n) memcpy(&w, p, n);
    return mix64(h ^ w);
}

/* The next number in [0,1) of the generator whose state is *s. */
static double draw(uint64_t *s)
{
    *s += 0x9e3779b97f4a7c15u;
    return (double)(mix64(*s) >> 11) * 0x1p-53;
}

/* ------------------------------------------------------------------ 2 settings */

/* name, default, smallest, largest, meaning */
#define SETTINGS(X)                                                                                \
    X(base_ms, 0, 0, 1e7, "service time of a request")                                             \
    X(item_ms, 0, 0, 1e7, "... plus this for every item (input text, prompt, conversation)")       \
    X(token_ms, 0, 0, 1e7, "... plus this for every completion token (the gap of SSE chunks)")     \
    X(jitter, 0, 0, 5, "sigma of a lognormal factor of median 1 on the service time")              \
    X(seed, 1, 0, 1e15, "seed of jitter and faults")                                               \
    X(slots, 0, 0, 1e6, "requests in service at the same time; 0: no limit")                       \
    X(queue, 1024, 0, 1e6, "requests that may wait for a slot; one more is rejected")              \
    X(rate, 0, 0, 1e9, "requests accepted per second (token bucket); 0: no limit")                 \
    X(burst, 10, 1, 1e9, "size of that bucket")                                                    \
    X(reject_status, 429, 400, 599, "HTTP status of a rejected request")                           \
    X(retry_after, 1, -1, 3600, "seconds in a rejection's Retry-After; negative: no header")       \
    X(dim, 1536, 1, 65536, "embedding dimensions, unless the request names them")                  \
    X(decimals, 10, 1, 17, "decimals of a printed embedding value")                                \
    X(tokens, 16, 1, 100000, "words in a completion, capped by the request's max_tokens")          \
    X(yes_pct, 50, 0, 100, "share of 'yes' when reply=yesno")                                      \
    X(limit_items, 2048, 1, 1e9, "items allowed in one request")                                   \
    X(limit_tokens, 0, 0, 1e9, "tokens (bytes/4) allowed in one request; 0: no limit")             \
    X(limit_status, 413, 400, 599, "HTTP status of a request over one of these limits")            \
    X(limit_body_kb, 65536, 1, 1e6, "request body allowed, in KiB (413)")                          \
    X(slow_bytes, 64, 1, 1e9, "fault slow: bytes sent at a time")                                  \
    X(slow_ms, 100, 1, 1e7, "fault slow: gap between them")                                        \
    X(big_kb, 65536, 1, 1e8, "fault big: KiB of white space before the answer")                    \
    X(chunked, 0, 0, 1, "1: answers come in chunks, without Content-Length (HTTP/1.1)")            \
    X(gzip, 0, 0, 1, "1: answers are gzip'ed for clients that accept it (HTTP/1.1)")

/* name, meaning; each is a setting fault_NAME (per cent of requests) and a marker [[mock:NAME]] */
#define FAULTS(X)                                                                                  \
    X(reset, "work done, then connection reset before any answer")                                 \
    X(partial, "work done, then connection closed after half of the answer")                       \
    X(slow, "answer dripped (slow_bytes every slow_ms)")                                           \
    X(hang, "work done, answer never sent, connection kept open")                                  \
    X(halfhang, "half of the answer, then nothing more, connection kept open")                     \
    X(stall, "connection accepted, request never read")                                            \
    X(die, "on a reused connection: work done, then closed without a byte")                        \
    X(big, "answer after big_kb KiB of white space")                                               \
    X(redirect, "HTTP 302 to redirect_to")                                                         \
    X(close, "good answer, then connection closed (Connection: close)")                            \
    X(nul, "text answers hold an escaped U+0000")                                                  \
    X(latin1, "text answers hold a byte that is not UTF-8")                                        \
    X(binary, "the answer's body is binary rubbish")                                               \
    X(json, "answer cut inside the JSON, Content-Length matching")                                 \
    X(count, "one result missing")                                                                 \
    X(order, "results in reverse order ('index' is right)")                                        \
    X(dupindex, "the last result has the 'index' of the first")                                    \
    X(badindex, "the last result's 'index' is one too large")                                      \
    X(negindex, "the last result's 'index' is -1")                                                 \
    X(noindex, "results without 'index'")                                                          \
    X(someindex, "every second result without 'index'")                                            \
    X(noindexshort, "results without 'index', one missing")                                        \
    X(missing3, "the result with 'index' 3 is missing")                                            \
    X(dim, "last embedding one value short")                                                       \
    X(400, "HTTP 400")                                                                             \
    X(401, "HTTP 401")                                                                             \
    X(403, "HTTP 403")                                                                             \
    X(404, "HTTP 404")                                                                             \
    X(413, "HTTP 413")                                                                             \
    X(429, "HTTP 429 with Retry-After")                                                            \
    X(500, "HTTP 500")                                                                             \
    X(503, "HTTP 503")

enum fault {
    FAULT_none,
#define X(name, help) FAULT_##name,
    FAULTS(X)
#undef X
    FAULT_end
};

static struct {
#define X(name, def, min, max, help) double name;
    SETTINGS(X)
#undef X
    double fault[FAULT_end];
    char reply[16], embed[16], redirect_to[128], api_key[128];
} set;

static const struct number_setting { const char *name; double *where, def, min, max; const char *help; }
number_settings[] = {
#define X(name, def, min, max, help) {#name, &set.name, def, min, max, help},
    SETTINGS(X)
#undef X
#define X(name, help) {"fault_" #name, &set.fault[FAULT_##name], 0, 0, 100, "% of requests: " help},
    FAULTS(X)
#undef X
};
static const struct string_setting { const char *name; char *where; size_t size; const char *def, *help; }
string_settings[] = {
    {"reply", set.reply, sizeof set.reply, "words", "completion text: words, echo, yesno or json"},
    {"embed", set.embed, sizeof set.embed, "hash", "embeddings: hash (unrelated to the text) or ngram (similar texts are near)"},
    {"redirect_to", set.redirect_to, sizeof set.redirect_to, "http://127.0.0.1:5432/", "where fault redirect points"},
    {"api_key", set.api_key, sizeof set.api_key, "", "if not empty, 'Authorization: Bearer KEY' is required"},
};
static const char *const fault_names[] = {"none",
#define X(name, help) #name,
    FAULTS(X)
#undef X
};

static void on_slots_change(void);

static bool setting_apply(const char *name, const char *value)
{
    for (size_t i = 0; i < ARRAY_LEN(number_settings); i++) {
        const struct number_setting *s = &number_settings[i];
        char *end;
        if (strcmp(s->name, name)) continue;
        double v = strtod(value, &end);
        if (end == value || *end || !(v >= s->min && v <= s->max)) return false;
        if (s->where == &set.slots) on_slots_change();
        *s->where = v;
        return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(string_settings); i++) {
        const struct string_setting *s = &string_settings[i];
        if (strcmp(s->name, name)) continue;
        if (strlen(value) >= s->size) return false;
        memset(s->where, 0, s->size);
        memcpy(s->where, value, strlen(value));
        return true;
    }
    return false;
}

static void settings_default(void)
{
    for (size_t i = 0; i < ARRAY_LEN(number_settings); i++) *number_settings[i].where = number_settings[i].def;
    for (size_t i = 0; i < ARRAY_LEN(string_settings); i++) setting_apply(string_settings[i].name, string_settings[i].def);
}

static void settings_print(struct buf *b)
{
    buf_str(b, "{");
    for (size_t i = 0; i < ARRAY_LEN(number_settings); i++)
        buf_fmt(b, "\"%s\":%.15g,", number_settings[i].name, *number_settings[i].where);
    buf_fmt(b, "\"reply\":\"%s\",\"embed\":\"%s\",\"api_key_required\":%s}\n", set.reply, set.embed, set.api_key[0] ? "true" : "false");
}

/* ------------------------------------------------------------------ 3 JSON input */

/* A cursor over mutable text; strings are unescaped in place (they never grow). */
struct json { char *p, *end; bool bad; };

static char json_peek(struct json *j)
{
    while (j->p < j->end && (*j->p == ' ' || *j->p == '\n' || *j->p == '\r' || *j->p == '\t')) j->p++;
    return j->p < j->end ? *j->p : 0;
}

static bool json_take(struct json *j, char ch)
{
    if (json_peek(j) != ch) return false;
    j->p++;
    return true;
}

static unsigned json_hex4(struct json *j)
{
    unsigned v = 0;
    for (int i = 0; i < 4; i++, j->p++) {
        char ch = j->p < j->end ? *j->p : 0;
        if (ch >= '0' && ch <= '9') v = v * 16 + (unsigned)(ch - '0');
        else if ((ch | 32) >= 'a' && (ch | 32) <= 'f') v = v * 16 + (unsigned)((ch | 32) - 'a' + 10);
        else { j->bad = true; return 0; }
    }
    return v;
}

static char *utf8_put(char *o, unsigned c)
{
    if (c < 0x80) { *o++ = (char)c; return o; }
    if (c < 0x800) *o++ = (char)(0xc0 | c >> 6);
    else if (c < 0x10000) { *o++ = (char)(0xe0 | c >> 12); *o++ = (char)(0x80 | (c >> 6 & 0x3f)); }
    else { *o++ = (char)(0xf0 | c >> 18); *o++ = (char)(0x80 | (c >> 12 & 0x3f)); *o++ = (char)(0x80 | (c >> 6 & 0x3f)); }
    *o++ = (char)(0x80 | (c & 0x3f));
    return o;
}

static char *json_string(struct json *j, size_t *len)
{
    if (!json_take(j, '"')) { j->bad = true; *len = 0; return j->p; }
    char *start = j->p, *out = start;
    while (j->p < j->end && *j->p != '"' && !j->bad) {
        if ((unsigned char)*j->p < 0x20) { j->bad = true; break; }
        if (*j->p != '\\') { *out++ = *j->p++; continue; }
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        char esc = ++j->p < j->end ? *j->p++ : 0;
        const char *at = esc ? strchr(from, esc) : NULL;
        if (at) { *out++ = to[at - from]; continue; }
        if (esc != 'u') { j->bad = true; break; }
        unsigned c = json_hex4(j);
        if (c >= 0xd800 && c < 0xdc00 && j->end - j->p >= 6 && j->p[0] == '\\' && j->p[1] == 'u') {
            j->p += 2;
            c = 0x10000 + ((c - 0xd800) << 10) + (json_hex4(j) - 0xdc00);
            if (c > 0x10ffff) j->bad = true;
        }
        if (!j->bad) out = utf8_put(out, c);
    }
    if (j->p >= j->end) j->bad = true; else j->p++;
    *len = (size_t)(out - start);
    return start;
}

static void json_skip(struct json *j, int depth)
{
    size_t n;
    char ch = json_peek(j);
    if (depth > 64 || !ch) { j->bad = true; return; }
    if (ch == '"') { json_string(j, &n); return; }
    if (ch == '{' || ch == '[') {
        char close = ch == '{' ? '}' : ']';
        j->p++;
        if (json_take(j, close)) return;
        do {
            if (ch == '{') { json_string(j, &n); if (!json_take(j, ':')) j->bad = true; }
            if (!j->bad) json_skip(j, depth + 1);
        } while (!j->bad && json_take(j, ','));
        if (!json_take(j, close)) j->bad = true;
        return;
    }
    char *start = j->p;
    while (j->p < j->end && *j->p && strchr("+-.0123456789aeflnrstuE", *j->p)) j->p++;
    if (j->p == start) j->bad = true;
}

/* A number, true (1), false or null (0); anything else is an error. */
static double json_number(struct json *j)
{
    char ch = json_peek(j), tmp[32] = "";
    char *start = j->p;
    if (ch == '"' || ch == '{' || ch == '[') { j->bad = true; return 0; }
    json_skip(j, 0);
    size_t n = (size_t)(j->p - start);
    memcpy(tmp, start, n < sizeof tmp - 1 ? n : sizeof tmp - 1);
    return ch == 't' ? 1 : strtod(tmp, NULL);
}

/* ------------------------------------------------------------------ 4 counters */

/* One open-addressing table of 64-bit keys serves items and request ids. */
struct entry { uint64_t key; uint32_t seen, executed; char text[48]; };
struct table { struct entry *e; size_t used, cap; };

static struct table items, request_ids;
static struct {
    uint64_t requests, ok, rejected, failed, faults, abandoned;
    uint64_t executed, prompt_tokens, completion_tokens, duplicate_request_ids;
    uint64_t connections, connections_now, connections_max, bytes_in, bytes_out;
    uint64_t reused, of_a_connection_max, stalled;
    uint64_t in_flight, in_flight_max, queued, queued_max, busy;
    double busy_ns, wait_ns, capacity_ns;
    uint64_t first, last, capacity_since;
} stats;

/* One of each connection since the last reset that has carried an API call; the first so many are kept. */
struct tally { uint64_t connection; uint32_t requests, ok; bool open; };
static struct { struct tally t[10000]; size_t n; } tallies;

static struct entry *table_get(struct table *t, uint64_t key)
{
    key += key == 0; /* 0 marks a free place */
    if (t->used * 3 >= t->cap * 2) {
        struct table old = *t;
        t->cap = old.cap ? old.cap * 2 : 1024;
        t->e = xcalloc(t->cap, sizeof *t->e);
        for (size_t i = 0; i < old.cap; i++) {
            if (!old.e[i].key) continue;
            size_t k = old.e[i].key & (t->cap - 1);
            while (t->e[k].key) k = (k + 1) & (t->cap - 1);
            t->e[k] = old.e[i];
        }
        free(old.e);
    }
    size_t k = key & (t->cap - 1);
    while (t->e[k].key && t->e[k].key != key) k = (k + 1) & (t->cap - 1);
    if (!t->e[k].key) { t->e[k].key = key; t->used++; }
    return &t->e[k];
}

static void table_free(struct table *t)
{
    free(t->e);
    *t = (struct table){0};
}

static void on_slots_change(void)
{
    uint64_t now = now_ns();
    if (stats.capacity_since) stats.capacity_ns += set.slots * (double)(now - stats.capacity_since);
    if (stats.capacity_since) stats.capacity_since = now;
}

static void stats_reset(void)
{
    uint64_t conns = stats.connections_now, in_flight = stats.in_flight, queued = stats.queued, busy = stats.busy;
    memset(&stats, 0, sizeof stats);
    stats.connections_now = stats.connections_max = conns;
    stats.in_flight = stats.in_flight_max = in_flight;
    stats.queued = stats.queued_max = queued;
    stats.busy = busy;
    table_free(&items);
    table_free(&request_ids);
    tallies.n = 0;
}

static void stats_print(struct buf *b)
{
    struct rusage ru;
    uint64_t distinct = 0, duplicates = 0, most = 0;
    getrusage(RUSAGE_SELF, &ru);
    for (size_t i = 0; i < items.cap; i++) {
        distinct += items.e[i].executed > 0;
        if (items.e[i].executed > 1) duplicates += items.e[i].executed - 1;
        if (items.e[i].executed > most) most = items.e[i].executed;
    }
    /* slot time offered between the first request and the last answer, for the utilisation */
    double capacity = stats.capacity_ns;
    if (stats.last > stats.capacity_since) capacity += set.slots * (double)(stats.last - stats.capacity_since);
    double cpu = (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1e3 +
                 (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e3;
    buf_str(b, "{");
#define N(name, value) buf_fmt(b, "\"%s\":%" PRIu64 ",", name, (uint64_t)(value))
#define F(name, value) buf_fmt(b, "\"%s\":%.3f,", name, (double)(value))
    N("requests", stats.requests); N("ok", stats.ok); N("rejected", stats.rejected);
    N("failed", stats.failed); N("faults", stats.faults); N("abandoned", stats.abandoned);
    N("items", stats.executed); N("distinct_items", distinct); N("duplicate_items", duplicates);
    N("max_executions_of_an_item", most);
    N("request_ids", request_ids.used); N("duplicate_request_ids", stats.duplicate_request_ids);
    N("prompt_tokens", stats.prompt_tokens); N("completion_tokens", stats.completion_tokens);
    N("in_flight", stats.in_flight); N("max_in_flight", stats.in_flight_max);
    N("queued", stats.queued); N("max_queued", stats.queued_max);
    N("connections", stats.connections); N("open_connections", stats.connections_now);
    N("max_open_connections", stats.connections_max);
    N("requests_on_reused_connections", stats.reused); N("max_requests_of_a_connection", stats.of_a_connection_max);
    N("stalled_connections", stats.stalled);
    N("bytes_in", stats.bytes_in); N("bytes_out", stats.bytes_out);
    F("span_ms", stats.last > stats.first ? (double)(stats.last - stats.first) / MS : 0);
    F("busy_ms", stats.busy_ns / MS); F("wait_ms", stats.wait_ns / MS);
    F("utilisation", capacity > 0 ? stats.busy_ns / capacity : 0);
    F("cpu_ms", cpu); N("peak_rss_kb", ru.ru_maxrss);
#undef N
#undef F
    b->p[b->len - 1] = '}';
    buf_str(b, "\n");
}

/* ------------------------------------------------------------------ 5 timers */

struct timer { uint64_t at; void (*fire)(void *); void *arg; size_t pos; /* in the heap, from 1 */ };
static struct { struct timer **t; size_t n, cap; } heap = {0};

static void heap_put(size_t i, struct timer *t) { heap.t[i] = t; t->pos = i; }

static void heap_fix(size_t i)
{
    struct timer *t = heap.t[i];
    for (; i > 1 && heap.t[i / 2]->at > t->at; i /= 2) heap_put(i, heap.t[i / 2]);
    for (size_t c; (c = 2 * i) <= heap.n; i = c) {
        if (c < heap.n && heap.t[c + 1]->at < heap.t[c]->at) c++;
        if (heap.t[c]->at >= t->at) break;
        heap_put(i, heap.t[c]);
    }
    heap_put(i, t);
}

static void timer_set(struct timer *t, double delay_ns, void (*fire)(void *), void *arg)
{
    t->at = now_ns() + (uint64_t)delay_ns;
    t->fire = fire;
    t->arg = arg;
    if (!t->pos) {
        if (heap.n + 2 > heap.cap) heap.t = xrealloc(heap.t, (heap.cap = heap.cap * 2 + 64) * sizeof *heap.t);
        heap_put(++heap.n, t);
    }
    heap_fix(t->pos);
}

static void timer_stop(struct timer *t)
{
    if (!t->pos) return;
    size_t i = t->pos;
    struct timer *last = heap.t[heap.n--];
    t->pos = 0;
    if (last != t) { heap_put(i, last); heap_fix(i); }
}

/* ------------------------------------------------------------------ 6 requests */

enum api { API_NONE, API_EMBEDDINGS, API_CHAT, API_COMPLETIONS };
struct item { char *text; size_t len; uint64_t hash; };

struct conn;
struct req {
    struct conn *conn;           /* NULL once the client has gone */
    int32_t stream_id;           /* HTTP/2 */
    char method[8], path[1024];  /* the path with its query */
    char *body; size_t body_len; /* inside owned, or in the connection's input buffer (HTTP/1.1) */
    struct buf owned;
    bool authorized, close, accepts_gzip;
    uint64_t id_hash;            /* of X-Request-Id or Idempotency-Key, 0 if there is none */

    enum api api;
    struct item *items; size_t n_items, cap_items;
    char *model; size_t model_len;
    bool streaming, base64, overlong;
    size_t dim, prompt_tokens, tokens; /* tokens: words in each completion */
    uint64_t rng;
    enum fault fault;

    struct timer timer;
    bool in_flight, in_service;
    uint64_t arrived, started;
    struct req *next, *prev, *sibling; /* the queue; the connection's requests (HTTP/2) */

    struct buf out;                    /* the answer's body, after HEADROOM bytes for its head */
    struct buf h2_out; size_t h2_sent; /* HTTP/2: what the stream has to send, sent up to here */
    size_t words_sent; bool ended;     /* SSE; ended: all of the answer is in the buffers */
};
#define HEADROOM 512

static struct req *req_new(struct conn *c)
{
    struct req *r = xcalloc(1, sizeof *r);
    r->conn = c;
    buf_room(&r->out, 1024);
    r->out.len = HEADROOM;
    return r;
}

static void req_free(struct req *r)
{
    timer_stop(&r->timer);
    if (r->in_flight) stats.in_flight--;
    free(r->items);
    buf_free(&r->owned);
    buf_free(&r->out);
    buf_free(&r->h2_out);
    free(r);
}

static void item_add(struct req *r, char *text, size_t len)
{
    if (r->n_items == r->cap_items) {
        r->cap_items = r->cap_items * 2 + 4;
        r->items = xrealloc(r->items, r->cap_items * sizeof *r->items);
    }
    r->items[r->n_items++] = (struct item){text, len, 0};
}

/* A string, an array of strings, an array of tokens, or an array of arrays of tokens. */
static void parse_input(struct req *r, struct json *j)
{
    size_t n;
    char ch = json_peek(j), *start = j->p, *s;
    if (ch == '"') { s = json_string(j, &n); item_add(r, s, n); return; }
    if (!json_take(j, '[')) { j->bad = true; return; }
    if (json_take(j, ']')) return;
    bool tokens = json_peek(j) != '"' && json_peek(j) != '[';
    do {
        if (json_peek(j) == '"') { s = json_string(j, &n); item_add(r, s, n); }
        else {
            s = j->p;
            json_skip(j, 0);
            if (!tokens) item_add(r, s, (size_t)(j->p - s));
        }
    } while (!j->bad && json_take(j, ','));
    if (!json_take(j, ']')) j->bad = true;
    if (tokens) item_add(r, start, (size_t)(j->p - start));
}

/* A conversation is one item: all contents joined by a newline, gathered where the text stood. */
static void parse_messages(struct req *r, struct json *j)
{
    char *start = j->p, *out = start, *s, *key;
    size_t n, k;
    if (!json_take(j, '[')) { j->bad = true; return; }
    do {
        if (!json_take(j, '{')) { j->bad = true; return; }
        do {
            key = json_string(j, &k);
            if (!json_take(j, ':')) j->bad = true;
            if (j->bad) return;
            if (k == 7 && !memcmp(key, "content", 7) && json_peek(j) == '"') {
                s = json_string(j, &n);
                if (out != start) *out++ = '\n';
                memmove(out, s, n);
                out += n;
            } else if (k == 7 && !memcmp(key, "content", 7) && json_peek(j) == '[') {
                s = j->p; /* parts: kept as they are written */
                json_skip(j, 0);
                n = (size_t)(j->p - s);
                memmove(out, s, n);
                out += n;
            } else json_skip(j, 0);
        } while (!j->bad && json_take(j, ','));
        if (!json_take(j, '}')) j->bad = true;
    } while (!j->bad && json_take(j, ','));
    if (!json_take(j, ']')) j->bad = true;
    item_add(r, start, (size_t)(out - start));
}

/* Reads the request's JSON; the returned text says what is wrong with it, NULL if nothing. */
static const char *parse_request(struct req *r)
{
    struct json j = {r->body, r->body + r->body_len, false};
    double max_tokens = 0;
    size_t n;
    r->dim = (size_t)set.dim;
    if (!json_take(&j, '{')) return "the body is not a JSON object";
    if (!json_take(&j, '}')) {
        do {
            char *key = json_string(&j, &n), *s;
#define KEY(name) (n == sizeof name - 1 && !memcmp(key, name, n))
            if (!json_take(&j, ':')) j.bad = true;
            if (j.bad) break;
            json_peek(&j);
            if (KEY("input") || KEY("prompt")) parse_input(r, &j);
            else if (KEY("messages")) parse_messages(r, &j);
            else if (KEY("model")) r->model = json_string(&j, &r->model_len);
            else if (KEY("stream")) r->streaming = json_number(&j) != 0;
            else if (KEY("max_tokens") || KEY("max_completion_tokens")) max_tokens = json_number(&j);
            else if (KEY("dimensions")) {
                double d = json_number(&j);
                if (!(d >= 1 && d <= 65536)) return "dimensions is out of range";
                r->dim = (size_t)d;
            } else if (KEY("encoding_format") && json_peek(&j) == '"') {
                s = json_string(&j, &n);
                r->base64 = n == 6 && !memcmp(s, "base64", 6);
            } else json_skip(&j, 0);
        } while (!j.bad && json_take(&j, ','));
        if (!json_take(&j, '}')) j.bad = true;
    }
    if (j.bad || json_peek(&j)) return "the body is not valid JSON";
    if (!r->n_items) return r->api == API_CHAT ? "messages is missing or empty" : "input is missing or empty";
    if (r->api == API_EMBEDDINGS) r->streaming = false;
    else r->tokens = max_tokens >= 1 && max_tokens < set.tokens ? (size_t)max_tokens : (size_t)set.tokens;
    return NULL;
}

/* Counts the items and draws what will happen to the request. */
static void req_draw(struct req *r)
{
    uint64_t all = 0, attempt = 0;
    for (size_t i = 0; i < r->n_items; i++) {
        struct item *it = &r->items[i];
        it->hash = hash64(it->text, it->len, r->api);
        r->prompt_tokens += (it->len + 3) / 4;
        all = mix64(all ^ it->hash);
        struct entry *e = table_get(&items, it->hash);
        if (!e->seen) memcpy(e->text, it->text, it->len < sizeof e->text ? it->len : sizeof e->text - 1);
        if (!i) attempt = e->seen;
        e->seen++;
        char *mark = memmem(it->text, it->len, "[[mock:", 7);
        for (int f = 1; mark && f < FAULT_end; f++) {
            size_t n = strlen(fault_names[f]);
            if ((size_t)(it->text + it->len - mark) >= 9 + n && !memcmp(mark + 7, fault_names[f], n) &&
                !memcmp(mark + 7 + n, "]]", 2)) r->fault = (enum fault)f;
        }
    }
    r->rng = mix64((uint64_t)set.seed * 0x9e3779b97f4a7c15u ^ all) + attempt;
    double u = draw(&r->rng) * 100;
    for (int f = 1; f < FAULT_end && !r->fault; f++) {
        if (f == FAULT_stall) continue; /* a fault of connections */
        if (u < set.fault[f]) r->fault = (enum fault)f;
        u -= set.fault[f];
    }
    if (r->id_hash) {
        struct entry *e = table_get(&request_ids, r->id_hash);
        if (e->seen++) stats.duplicate_request_ids++;
    }
}

/* The lognormal factor: exp(sigma * a standard normal draw). */
static double req_jitter(struct req *r)
{
    if (set.jitter <= 0) return 1;
    double u = 1 - draw(&r->rng), v = draw(&r->rng);
    return exp(set.jitter * sqrt(-2 * log(u)) * cos(2 * M_PI * v));
}

/* ------------------------------------------------------------------ 7 rendering */

/*
 * The unit vector that belongs to a text; the same text always has the same one. The values come in units of the last
 * printed decimal (value = q / scale), so that JSON and base64 carry the same numbers.
 */
static const int64_t *embedding(uint64_t hash, size_t dim, double scale)
{
    static int64_t q[65536 + 1];
    double sum = 0;
    for (size_t i = 0; i < dim; i += 2) { /* two values from each hash */
        uint64_t bits = mix64(hash + i * 0x9e3779b97f4a7c15u);
        q[i] = (int32_t)bits;
        q[i + 1] = i + 1 < dim ? (int32_t)(bits >> 32) : 0;
        sum += (double)q[i] * (double)q[i] + (double)q[i + 1] * (double)q[i + 1];
    }
    double factor = scale / sqrt(sum);
    for (size_t i = 0; i < dim; i++) q[i] = (int64_t)((double)q[i] * factor);
    return q;
}

/*
 * A unit vector of the text's character n-grams (3 to 5 characters, lower case, blanks around the text), each hashed to
 * one place and one sign: texts that share words or parts of words point in similar directions. After Weinberger et al.,
 * "Feature hashing for large scale multitask learning", 2009.
 */
static const int64_t *ngram_embedding(const struct item *it, size_t dim, double scale)
{
    static int64_t q[65536];
    static double v[65536];
    struct buf t = {0};
    double sum = 0;
    buf_str(&t, " ");
    for (size_t i = 0; i < it->len; i++) {
        char ch = it->text[i];
        if (ch >= 'A' && ch <= 'Z') ch = (char)(ch + 32);
        buf_add(&t, &ch, 1);
    }
    buf_str(&t, " ");
    memset(v, 0, dim * sizeof *v);
    for (size_t n = 3; n <= 5; n++)
        for (size_t i = 0; i + n <= t.len; i++) {
            uint64_t h = hash64(t.p + i, n, n);
            v[(h >> 1) % dim] += h & 1 ? 1 : -1;
        }
    buf_free(&t);
    for (size_t i = 0; i < dim; i++) sum += v[i] * v[i];
    if (sum == 0) v[0] = sum = 1; /* a text too short, or grams that cancel out */
    for (size_t i = 0; i < dim; i++) q[i] = (int64_t)(v[i] * scale / sqrt(sum));
    return q;
}

/* q / 10^decimals, at most 1 in size: some 10 ns where printf takes 200. */
static char *put_fixed(char *o, int64_t q, int decimals, uint64_t scale)
{
    static char quad[10000][4]; /* "0000" to "9999" */
    if (!quad[0][0])
        for (int i = 0; i < 10000; i++)
            for (int k = 3, v = i; k >= 0; k--, v /= 10) quad[i][k] = (char)('0' + v % 10);
    *o = '-';
    o += q < 0;
    uint64_t n = (uint64_t)(q < 0 ? -q : q);
    *o++ = n >= scale ? '1' : '0';
    if (n >= scale) n -= scale;
    *o++ = '.';
    char *end = o + decimals, *p = end;
    for (; p - o >= 4; n /= 10000) memcpy(p -= 4, quad[n % 10000], 4);
    for (; p > o; n /= 10) *--p = (char)('0' + n % 10);
    return end;
}

static char *put_base64(char *o, const unsigned char *p, size_t n)
{
    static const char abc[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (; n >= 3; p += 3, n -= 3) {
        unsigned v = (unsigned)p[0] << 16 | (unsigned)p[1] << 8 | p[2];
        *o++ = abc[v >> 18]; *o++ = abc[v >> 12 & 63]; *o++ = abc[v >> 6 & 63]; *o++ = abc[v & 63];
    }
    if (n) {
        unsigned v = (unsigned)p[0] << 16 | (n == 2 ? (unsigned)p[1] << 8 : 0);
        *o++ = abc[v >> 18]; *o++ = abc[v >> 12 & 63]; *o++ = n == 2 ? abc[v >> 6 & 63] : '='; *o++ = '=';
    }
    return o;
}

static void render_embedding(struct req *r, struct buf *b, const struct item *it, size_t dim)
{
    double scale = pow(10, set.decimals);
    const int64_t *q = !strcmp(set.embed, "ngram") ? ngram_embedding(it, r->dim, scale) : embedding(it->hash, r->dim, scale);
    char *o;
    if (r->base64) {
        static float f[65536];
        for (size_t i = 0; i < dim; i++) f[i] = (float)((double)q[i] / scale);
        o = buf_room(b, dim * 6 + 8);
        *o++ = '"';
        o = put_base64(o, (const unsigned char *)f, dim * sizeof *f);
        *o++ = '"';
    } else {
        o = buf_room(b, dim * (size_t)(set.decimals + 4) + 2);
        *o++ = '[';
        for (size_t i = 0; i < dim; i++) {
            if (i) *o++ = ',';
            o = put_fixed(o, q[i], (int)set.decimals, (uint64_t)scale);
        }
        *o++ = ']';
    }
    b->len = (size_t)(o - b->p);
}

static const char *const words[] = {
    "amber", "river", "quiet", "stone", "maple", "cloud", "ember", "north", "glass", "field", "paper",
    "light", "cedar", "ocean", "brick", "honey", "winter", "velvet", "copper", "garden", "meadow",
    "signal", "harbor", "marble", "canyon", "willow", "silver", "orchid", "lantern", "thunder",
    "pebble", "summit"};

/* The number-th word of the completion that belongs to a text. */
static void render_word(struct buf *b, uint64_t hash, size_t number)
{
    if (number) buf_str(b, " ");
    buf_str(b, words[mix64(hash + number) % ARRAY_LEN(words)]);
}

static bool reply_is_words(void) { return strcmp(set.reply, "echo") && strcmp(set.reply, "yesno") && strcmp(set.reply, "json"); }

static void render_text(struct req *r, struct buf *b, const struct item *it)
{
    bool yes = (double)(mix64(it->hash ^ 1) % 10000) < set.yes_pct * 100;
    if (r->fault == FAULT_nul) buf_str(b, "a\\u0000b ");
    if (r->fault == FAULT_latin1) buf_str(b, "caf\xe9 ");
    if (!strcmp(set.reply, "echo")) buf_json(b, it->text, it->len);
    else if (!strcmp(set.reply, "yesno")) buf_str(b, yes ? "yes" : "no");
    else if (!strcmp(set.reply, "json"))
        buf_fmt(b, "{\\\"label\\\":\\\"%s\\\",\\\"match\\\":%s,\\\"score\\\":%.2f}", words[it->hash % ARRAY_LEN(words)],
                yes ? "true" : "false", (double)(it->hash >> 40 & 63) / 64);
    else for (size_t i = 0; i < r->tokens; i++) render_word(b, it->hash, i);
}

static void render_head(struct req *r, struct buf *b, const char *object)
{
    buf_fmt(b, "{\"id\":\"mock-%016" PRIx64 "\",\"object\":\"%s\",\"created\":1700000000,\"model\":\"", r->items[0].hash, object);
    buf_json(b, r->model, r->model_len);
    buf_str(b, "\",");
}

static void render_usage(struct req *r, struct buf *b)
{
    size_t completion = r->tokens * r->n_items;
    buf_fmt(b, "\"usage\":{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,\"total_tokens\":%zu}", r->prompt_tokens,
            completion, r->prompt_tokens + completion);
}

static const char *finish_reason(struct req *r) { return r->tokens < (size_t)set.tokens ? "length" : "stop"; }

/* The member "index" of the k-th of n results, which belongs to item i. */
static void render_index(struct req *r, struct buf *b, size_t k, size_t n, size_t i)
{
    bool last = k == n - 1;
    if (r->fault == FAULT_noindex || r->fault == FAULT_noindexshort || (r->fault == FAULT_someindex && k % 2)) return;
    if (r->fault == FAULT_negindex && last) { buf_str(b, "\"index\":-1,"); return; }
    if (r->fault == FAULT_badindex && last) i = n;
    if (r->fault == FAULT_dupindex && last) i = 0;
    buf_fmt(b, "\"index\":%zu,", i);
}

static void render_binary(struct req *r)
{
    for (int i = 0; i < 64; i++) {
        uint64_t w = mix64(r->rng + (uint64_t)i);
        buf_add(&r->out, &w, sizeof w);
    }
}

static void render_answer(struct req *r)
{
    struct buf *b = &r->out;
    size_t n = r->n_items - (r->fault == FAULT_count || r->fault == FAULT_noindexshort), shown = 0;
    if (r->fault == FAULT_binary) { render_binary(r); return; }
    if (r->api == API_EMBEDDINGS) buf_str(b, "{\"object\":\"list\",\"data\":[");
    else {
        render_head(r, b, r->api == API_CHAT ? "chat.completion" : "text_completion");
        buf_str(b, "\"choices\":[");
    }
    for (size_t k = 0; k < n; k++) {
        size_t i = r->fault == FAULT_order ? n - 1 - k : k;
        if (r->fault == FAULT_missing3 && i == 3) continue;
        if (shown++) buf_str(b, ",");
        if (r->api == API_EMBEDDINGS) {
            buf_str(b, "{\"object\":\"embedding\",");
            render_index(r, b, k, n, i);
            buf_str(b, "\"embedding\":");
            render_embedding(r, b, &r->items[i], r->dim - (r->fault == FAULT_dim && k == n - 1));
            buf_str(b, "}");
        } else {
            buf_str(b, "{");
            render_index(r, b, k, n, i);
            buf_fmt(b, "%s\"", r->api == API_CHAT ? "\"message\":{\"role\":\"assistant\",\"content\":" : "\"text\":");
            render_text(r, b, &r->items[i]);
            buf_fmt(b, "\"%s,\"finish_reason\":\"%s\"}", r->api == API_CHAT ? "}" : "", finish_reason(r));
        }
    }
    buf_str(b, "],");
    if (r->api == API_EMBEDDINGS) {
        buf_str(b, "\"model\":\"");
        buf_json(b, r->model, r->model_len);
        buf_str(b, "\",");
    }
    render_usage(r, b);
    buf_str(b, "}");
    if (r->fault == FAULT_json) b->len -= (b->len - HEADROOM) / 4;
}

/* One SSE event: a word, or with last set the end of the stream. */
static void render_event(struct req *r, struct buf *b, bool last)
{
    buf_str(b, "data: ");
    render_head(r, b, r->api == API_CHAT ? "chat.completion.chunk" : "text_completion");
    buf_str(b, r->api == API_CHAT ? "\"choices\":[{\"index\":0,\"delta\":{" : "\"choices\":[{\"index\":0,\"text\":");
    if (!r->words_sent && r->api == API_CHAT) buf_str(b, "\"role\":\"assistant\",");
    if (r->api == API_CHAT) buf_str(b, "\"content\":");
    buf_str(b, "\"");
    if (!last && reply_is_words()) render_word(b, r->items[0].hash, r->words_sent);
    else if (!last) render_text(r, b, &r->items[0]);
    buf_fmt(b, "\"%s,\"finish_reason\":", r->api == API_CHAT ? "}" : "");
    if (!last) buf_str(b, "null}]}\n\n");
    else {
        buf_fmt(b, "\"%s\"}],", finish_reason(r));
        render_usage(r, b);
        buf_str(b, "}\n\ndata: [DONE]\n\n");
    }
}

/* ------------------------------------------------------------------ 8 serving: slots, queue, faults */

/* What a connection can do with an answer; HTTP/1.1 and HTTP/2 each have their own. */
static void conn_reply(struct req *r, int status, const char *type, double retry_after);
static void conn_stream_begin(struct req *r);
static void conn_stream_data(struct req *r, bool end); /* takes what is in r->out */
static void conn_abort(struct req *r, bool after_half);
static void conn_die(struct req *r);
static bool conn_is_reused(struct req *r);
static void conn_run(struct conn *c);
static void conn_detach(struct req *r);

static struct req *queue_head, *queue_tail;
static void check_scheduled(void);

static void reply_error(struct req *r, int status, const char *code, const char *message)
{
    r->out.len = HEADROOM;
    buf_fmt(&r->out, "{\"error\":{\"message\":\"%s\",\"type\":\"%s\",\"param\":null,\"code\":\"%s\"}}", message,
            status >= 500 ? "server_error" : "invalid_request_error", code);
    conn_reply(r, status, "application/json", status == 429 || status == set.reject_status ? set.retry_after : -1);
}

static void queue_remove(struct req *r)
{
    *(r->prev ? &r->prev->next : &queue_head) = r->next;
    *(r->next ? &r->next->prev : &queue_tail) = r->prev;
    r->next = r->prev = NULL;
    stats.queued--;
}

static void slot_free(struct req *r)
{
    stats.busy--;
    stats.busy_ns += (double)(now_ns() - r->started);
    r->in_service = false;
}

static void executed(struct req *r)
{
    for (size_t i = 0; i < r->n_items; i++) table_get(&items, r->items[i].hash)->executed++;
    stats.executed += r->n_items;
    stats.prompt_tokens += r->prompt_tokens;
    stats.completion_tokens += r->tokens * r->n_items;
    stats.last = now_ns();
    check_scheduled();
}

static void start(struct req *r, bool at_once);

static void queue_run(void)
{
    while (queue_head && (!set.slots || (double)stats.busy < set.slots)) {
        struct req *r = queue_head;
        queue_remove(r);
        stats.wait_ns += (double)(now_ns() - r->arrived);
        start(r, false);
    }
}

static void deliver(struct req *r)
{
    static const int status_of[FAULT_end] = {
        [FAULT_400] = 400, [FAULT_401] = 401, [FAULT_403] = 403, [FAULT_404] = 404, [FAULT_413] = 413, [FAULT_429] = 429, [FAULT_500] = 500, [FAULT_503] = 503};
    if (r->fault == FAULT_die && !conn_is_reused(r)) r->fault = FAULT_none;
    if (r->fault) stats.faults++;
    if (r->fault == FAULT_redirect) { conn_reply(r, 302, "text/plain", -1); return; }
    if (status_of[r->fault]) {
        reply_error(r, status_of[r->fault], "injected", "injected fault");
        return;
    }
    executed(r);
    switch (r->fault) {
    case FAULT_reset: conn_abort(r, false); return;
    case FAULT_die: conn_die(r); return;
    case FAULT_hang: return; /* stays attached to its connection until the client gives up */
    case FAULT_close: r->close = true; break;
    default: break;
    }
    render_answer(r);
    stats.ok++;
    if (r->fault == FAULT_partial) conn_abort(r, true);
    else conn_reply(r, 200, "application/json", -1);
}

static void stream_next(void *arg)
{
    struct req *r = arg;
    struct conn *c = r->conn;
    size_t n = reply_is_words() ? r->tokens : 1;
    bool cut = false;
    double gap_ms = r->fault == FAULT_slow ? set.slow_ms : set.token_ms;
    if (r->fault == FAULT_close) r->close = true;
    if (c && !r->words_sent) conn_stream_begin(r);
    do {
        cut = r->fault == FAULT_partial && r->words_sent >= (n + 1) / 2;
        if (!c || cut) break;
        bool last = r->words_sent == n;
        r->out.len = HEADROOM;
        render_event(r, &r->out, last);
        r->ended = last;
        conn_stream_data(r, last);
        r->words_sent++;
    } while (!gap_ms && !r->ended);
    if (c && !cut && !r->ended) {
        timer_set(&r->timer, gap_ms * MS, stream_next, r);
        conn_run(c);
        return;
    }
    slot_free(r);
    executed(r);
    if (r->fault) stats.faults++;
    if (!c) { stats.abandoned++; req_free(r); }
    else if (r->ended) { stats.ok++; conn_detach(r); }
    else conn_abort(r, true);
    if (c) conn_run(c);
    queue_run();
}

/* The service time is over. */
static void service_end(void *arg)
{
    struct req *r = arg;
    struct conn *c = r->conn;
    slot_free(r);
    if (c) { deliver(r); conn_run(c); }
    else { executed(r); stats.abandoned++; req_free(r); }
    queue_run();
}

static void start(struct req *r, bool at_once)
{
    if (r->streaming && r->fault >= FAULT_json && r->fault <= FAULT_dim) r->fault = FAULT_none; /* no such stream */
    bool trickle = r->streaming && (r->fault == FAULT_none || r->fault == FAULT_partial || r->fault == FAULT_slow || r->fault == FAULT_close);
    double ms = set.base_ms + set.item_ms * (double)r->n_items;
    if (!trickle) ms += set.token_ms * (double)(r->tokens * r->n_items);
    r->started = now_ns();
    r->in_service = true;
    stats.busy++;
    if (trickle) timer_set(&r->timer, ms * req_jitter(r) * MS, stream_next, r);
    else if (ms > 0 || !at_once) timer_set(&r->timer, ms * req_jitter(r) * MS, service_end, r);
    else { slot_free(r); deliver(r); } /* no latency at all: answered on the spot */
}

static bool over_rate(void)
{
    static double level;
    static uint64_t filled;
    if (!set.rate) return false;
    uint64_t now = now_ns();
    level = fmin(set.burst, filled ? level + (double)(now - filled) * 1e-9 * set.rate : set.burst);
    filled = now;
    if (level < 1) return true;
    level -= 1;
    return false;
}

static void serve(struct req *r)
{
    r->arrived = now_ns();
    stats.requests++;
    if (!stats.first) stats.first = stats.capacity_since = r->arrived;
    const char *wrong = parse_request(r);
    if (wrong) { reply_error(r, 400, "invalid_request", wrong); return; }
    req_draw(r);
    if ((double)r->n_items > set.limit_items || (set.limit_tokens && (double)r->prompt_tokens > set.limit_tokens)) {
        reply_error(r, (int)set.limit_status, "request_too_large", "too many items or tokens in one request");
        return;
    }
    bool full = set.slots && (double)stats.busy >= set.slots;
    if (over_rate() || (full && (double)stats.queued >= set.queue)) {
        stats.rejected++;
        reply_error(r, (int)set.reject_status, "rate_limit_exceeded", "too many requests, slow down");
        return;
    }
    r->in_flight = true;
    if (++stats.in_flight > stats.in_flight_max) stats.in_flight_max = stats.in_flight;
    if (!full) { start(r, true); return; }
    r->prev = queue_tail;
    *(queue_tail ? &queue_tail->next : &queue_head) = r;
    queue_tail = r;
    if (++stats.queued > stats.queued_max) stats.queued_max = stats.queued;
}

/* The client went away: a waiting request is dropped, one in service still does its work. */
static void req_orphan(struct req *r)
{
    r->conn = NULL;
    if (r->in_service) return;
    if (r->next || r->prev || queue_head == r) queue_remove(r);
    if (r->api) stats.abandoned++; /* it waited for a slot, or for an answer that never came */
    req_free(r);
}

/* ------------------------------------------------------------------ 9 endpoints */

/* Settings to apply once so many items have been executed: /control?after_items=N&... */
static struct scheduled { uint64_t at; char *query; struct scheduled *next; } *schedule;

/* Applies name=value&name=value; returns the first name that could not be, NULL if all could. */
static const char *control_apply(char *query)
{
    char *save = NULL;
    for (char *pair = strtok_r(query, "&", &save); pair; pair = strtok_r(NULL, "&", &save)) {
        char *eq = strchr(pair, '=');
        if (eq) *eq = 0;
        if (!strcmp(pair, "defaults")) settings_default();
        else if (!eq || !setting_apply(pair, eq + 1)) return pair;
    }
    queue_run();
    return NULL;
}

static void check_scheduled(void)
{
    for (struct scheduled **s = &schedule; *s;) {
        struct scheduled *due = *s;
        if (stats.executed < due->at) { s = &due->next; continue; }
        *s = due->next;
        control_apply(due->query);
        free(due->query);
        free(due);
    }
}

static void schedule_clear(void)
{
    for (struct scheduled *s; (s = schedule); free(s->query), free(s)) schedule = s->next;
}

static void reply_ok(struct req *r) { conn_reply(r, 200, "application/json", -1); }

static void handle_control(struct req *r, char *query)
{
    unsigned long long after;
    int used = 0;
    if (query && sscanf(query, "after_items=%llu&%n", &after, &used) == 1 && used) {
        struct scheduled *s = xcalloc(1, sizeof *s);
        s->at = stats.executed + after;
        s->query = strdup(query + used);
        s->next = schedule;
        schedule = s;
        check_scheduled();
    } else if (query) {
        const char *bad = control_apply(query);
        char message[400];
        snprintf(message, sizeof message, "no such setting, or value out of range: %.300s", bad ? bad : "");
        for (char *p = message; *p; p++) if (*p == '"' || *p == '\\' || *p < ' ') *p = '?';
        if (bad) { reply_error(r, 400, "invalid_setting", message); return; }
    }
    settings_print(&r->out);
    reply_ok(r);
}

static void handle_items(struct req *r, const char *query)
{
    unsigned min = 1, shown = 0;
    if (query) sscanf(query, "min=%u", &min);
    buf_str(&r->out, "[");
    for (size_t i = 0; i < items.cap && shown < 10000; i++) {
        struct entry *e = &items.e[i];
        if (!e->key || e->executed < min) continue;
        buf_fmt(&r->out, "%s\n{\"executed\":%u,\"seen\":%u,\"text\":\"", shown++ ? "," : "", e->executed, e->seen);
        buf_json(&r->out, e->text, strlen(e->text));
        buf_str(&r->out, "\"}");
    }
    buf_str(&r->out, "]\n");
    reply_ok(r);
}

static void handle_connections(struct req *r)
{
    buf_str(&r->out, "[");
    for (size_t i = 0; i < tallies.n; i++)
        buf_fmt(&r->out, "%s\n{\"connection\":%" PRIu64 ",\"requests\":%u,\"ok\":%u,\"open\":%s}", i ? "," : "",
                tallies.t[i].connection, tallies.t[i].requests, tallies.t[i].ok, tallies.t[i].open ? "true" : "false");
    buf_str(&r->out, "]\n");
    reply_ok(r);
}

static void conn_count(struct req *r);

static void handle(struct req *r)
{
    char *query = strchr(r->path, '?');
    bool post = !strcmp(r->method, "POST");
    if (query) *query++ = 0;
    if (!strcmp(r->path, "/v1/embeddings")) r->api = API_EMBEDDINGS;
    else if (!strcmp(r->path, "/v1/chat/completions")) r->api = API_CHAT;
    else if (!strcmp(r->path, "/v1/completions")) r->api = API_COMPLETIONS;
    if (r->api) conn_count(r);
    if (r->overlong) reply_error(r, 413, "request_too_large", "the body is too large");
    else if (r->api && !post) reply_error(r, 405, "method_not_allowed", "use POST");
    else if (r->api && set.api_key[0] && !r->authorized) reply_error(r, 401, "invalid_api_key", "wrong or missing API key");
    else if (r->api) serve(r);
    else if (!strcmp(r->path, "/stats")) { stats_print(&r->out); reply_ok(r); }
    else if (!strcmp(r->path, "/stats/items")) handle_items(r, query);
    else if (!strcmp(r->path, "/stats/connections")) handle_connections(r);
    else if (!strcmp(r->path, "/control")) handle_control(r, query);
    else if (!strcmp(r->path, "/reset")) { stats_reset(); schedule_clear(); buf_str(&r->out, "{}\n"); reply_ok(r); }
    else if (!strcmp(r->path, "/health")) { buf_str(&r->out, "{\"status\":\"ok\"}\n"); reply_ok(r); }
    else if (!strcmp(r->path, "/v1/models")) {
        buf_str(&r->out, "{\"object\":\"list\",\"data\":[{\"id\":\"mock\",\"object\":\"model\",\"owned_by\":\"mockd\"}]}\n");
        reply_ok(r);
    } else reply_error(r, 404, "not_found", "no such endpoint");
}

/* ------------------------------------------------------------------ 10 connections and HTTP/1.1 */

struct conn {
    int fd;
    bool readable, dead, stalled;
    uint64_t number, requests;     /* the how many-th connection; API calls it has carried */
    size_t tally;                  /* 1 + its place in tallies, 0 if it has none */
    bool closing, rst, discard;    /* close once all is sent; with a reset; after reading what still comes */
    struct buf in, out;
    size_t in_at;                  /* where the next request begins in in */
    size_t out_at, out_limit;      /* sent up to here; may be sent up to here (faults slow, partial) */
    size_t head_len, body_len;     /* of the request being read; head_len is 0 before its head is whole */
    bool chunked;
    size_t filler;                 /* fault big: white space still to send, and the answer after it */
    struct buf after_filler;
    struct req *req;               /* the request being read or served; with HTTP/2 the list of them */
    struct timer drip;
    struct conn *next, *prev;      /* all connections; next alone: the graveyard */
    void *h2;                      /* the nghttp2 session */
};

static int epoll_fd;
static struct conn *conns, *graveyard; /* the latter: freed after the events at hand, which may still point to them */

static void h2_free(struct conn *c);
static void h2_reply(struct req *r, int status, const char *type, double retry_after);
static void h2_stream(struct req *r, bool begin);
static void h2_abort(struct req *r);
static bool h2_input(struct conn *c);
static bool h2_output(struct conn *c);

static void conn_close(struct conn *c)
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
static void conn_detach(struct req *r)
{
    if (r->conn->h2) return; /* freed when nghttp2 closes the stream */
    r->conn->req = NULL;
    req_free(r);
}

/* Counts an API call for its connection. */
static void conn_count(struct req *r)
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

static bool conn_is_reused(struct req *r) { return r->conn->requests > 1; }

/* The connection ends in order, without a byte of an answer. */
static void conn_die(struct req *r)
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

static void conn_reply(struct req *r, int status, const char *type, double retry_after)
{
    struct conn *c = r->conn;
    char head[HEADROOM], retry[64] = "", length[64], location[sizeof set.redirect_to + 16] = "";
    bool zip = false, big = status == 200 && r->fault == FAULT_big && r->api;
    if (status != 200) stats.failed += r->api != API_NONE;
    else if (r->api && c->tally && c->tally <= tallies.n && tallies.t[c->tally - 1].connection == c->number) tallies.t[c->tally - 1].ok++;
    if (c->h2) { h2_reply(r, status, type, retry_after); return; }
    if (retry_after >= 0) snprintf(retry, sizeof retry, "Retry-After: %.15g\r\n", retry_after);
    if (status == 302) snprintf(location, sizeof location, "Location: %s\r\n", set.redirect_to);
    if (r->api && set.gzip && r->accepts_gzip && !big) { zip = true; gzip_stored(&r->out); }
    if (r->api && set.chunked && !big) {
        snprintf(length, sizeof length, "Transfer-Encoding: chunked");
        chunk_body(&r->out);
    } else snprintf(length, sizeof length, "Content-Length: %zu", r->out.len - HEADROOM + (big ? (size_t)set.big_kb * 1024 : 0));
    size_t n = (size_t)snprintf(head, sizeof head, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\n%s\r\n%s%s%s%s\r\n",
        status, status_text(status), type, length, zip ? "Content-Encoding: gzip\r\n" : "", retry, location,
        r->close ? "Connection: close\r\n" : "");
    memcpy(r->out.p + HEADROOM - n, head, n);
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

static void conn_stream_begin(struct req *r)
{
    struct conn *c = r->conn;
    if (c->h2) { h2_stream(r, true); return; }
    buf_fmt(&c->out, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
            "Transfer-Encoding: chunked\r\n%s\r\n", r->close ? "Connection: close\r\n" : "");
    c->out_limit = c->out.len;
}

static void conn_stream_data(struct req *r, bool end)
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
static void conn_abort(struct req *r, bool after_half)
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
        stats.faults++;
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

static void head_field(struct req *r, const char *name, size_t n, const char *value, size_t len)
{
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
static void conn_run(struct conn *c)
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

/* ------------------------------------------------------------------ 11 HTTP/2 */
#ifdef WITH_H2

static int h2_begin(nghttp2_session *s, const nghttp2_frame *f, void *arg)
{
    struct conn *c = arg;
    if (f->hd.type != NGHTTP2_HEADERS || f->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    struct req *r = req_new(c);
    r->stream_id = f->hd.stream_id;
    r->sibling = c->req;
    c->req = r;
    return nghttp2_session_set_stream_user_data(s, f->hd.stream_id, r);
}

static int h2_field(nghttp2_session *s, const nghttp2_frame *f, const uint8_t *name, size_t n, const uint8_t *value,
                    size_t len, uint8_t flags, void *arg)
{
    struct req *r = nghttp2_session_get_stream_user_data(s, f->hd.stream_id);
    (void)flags; (void)arg;
    if (!r) return 0;
    if (n == 7 && !memcmp(name, ":method", 7)) snprintf(r->method, sizeof r->method, "%.*s", (int)len, (const char *)value);
    else if (n == 5 && !memcmp(name, ":path", 5)) snprintf(r->path, sizeof r->path, "%.*s", (int)len, (const char *)value);
    else head_field(r, (const char *)name, n, (const char *)value, len);
    return 0;
}

static int h2_data(nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *data, size_t len, void *arg)
{
    struct req *r = nghttp2_session_get_stream_user_data(s, id);
    (void)flags; (void)arg;
    if (r && !r->overlong) buf_add(&r->owned, data, len);
    if (r && (double)r->owned.len > set.limit_body_kb * 1024) r->overlong = true;
    return 0;
}

static int h2_frame(nghttp2_session *s, const nghttp2_frame *f, void *arg)
{
    struct req *r = nghttp2_session_get_stream_user_data(s, f->hd.stream_id);
    (void)arg;
    if (!r || !(f->hd.flags & NGHTTP2_FLAG_END_STREAM)) return 0;
    if (f->hd.type != NGHTTP2_HEADERS && f->hd.type != NGHTTP2_DATA) return 0;
    r->body = r->owned.p;
    r->body_len = r->owned.len;
    handle(r);
    return 0;
}

static int h2_stream_closed(nghttp2_session *s, int32_t id, uint32_t code, void *arg)
{
    struct conn *c = arg;
    struct req *r = nghttp2_session_get_stream_user_data(s, id), **at = &c->req;
    (void)code;
    if (!r) return 0;
    while (*at != r) at = &(*at)->sibling;
    *at = r->sibling;
    if (r->ended) req_free(r); else req_orphan(r);
    return 0;
}

static ssize_t h2_body(nghttp2_session *s, int32_t id, uint8_t *dst, size_t room, uint32_t *flags,
                       nghttp2_data_source *src, void *arg)
{
    struct req *r = src->ptr;
    size_t n = r->h2_out.len - r->h2_sent;
    (void)s; (void)id; (void)arg;
    if (!n && !r->ended) return NGHTTP2_ERR_DEFERRED;
    if (n > room) n = room;
    memcpy(dst, r->h2_out.p + r->h2_sent, n);
    r->h2_sent += n;
    if (r->ended && r->h2_sent == r->h2_out.len) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static void h2_answer(struct req *r, int status, const char *type, double retry_after)
{
    char code[8], retry[32];
    nghttp2_nv nv[3] = {{(uint8_t *)":status", (uint8_t *)code, 7, (size_t)snprintf(code, sizeof code, "%d", status), 0},
                        {(uint8_t *)"content-type", (uint8_t *)type, 12, strlen(type), 0}};
    if (retry_after >= 0)
        nv[2] = (nghttp2_nv){(uint8_t *)"retry-after", (uint8_t *)retry, 11,
                             (size_t)snprintf(retry, sizeof retry, "%.15g", retry_after), 0};
    nghttp2_data_provider body = {{.ptr = r}, h2_body};
    nghttp2_submit_response(r->conn->h2, r->stream_id, nv, retry_after >= 0 ? 3 : 2, &body);
}

static void h2_reply(struct req *r, int status, const char *type, double retry_after)
{
    r->ended = status != 200 || r->fault != FAULT_halfhang;
    r->h2_out = r->out;
    r->out = (struct buf){0};
    r->h2_sent = HEADROOM;
    if (!r->ended) r->h2_out.len -= (r->h2_out.len - HEADROOM) / 2;
    h2_answer(r, status, type, retry_after);
}

static void h2_stream(struct req *r, bool begin)
{
    if (begin) { h2_answer(r, 200, "text/event-stream", -1); return; }
    buf_add(&r->h2_out, r->out.p + HEADROOM, r->out.len - HEADROOM);
    nghttp2_session_resume_data(r->conn->h2, r->stream_id);
}

static void h2_abort(struct req *r)
{
    nghttp2_submit_rst_stream(r->conn->h2, NGHTTP2_FLAG_NONE, r->stream_id, NGHTTP2_INTERNAL_ERROR);
}

static void h2_free(struct conn *c)
{
    nghttp2_session_del(c->h2);
    for (struct req *r; (r = c->req);) {
        c->req = r->sibling;
        if (r->ended) req_free(r); else req_orphan(r);
    }
}

static bool h2_input(struct conn *c)
{
    if (!c->h2) {
        nghttp2_session_callbacks *cb;
        nghttp2_session *s;
        nghttp2_session_callbacks_new(&cb);
        nghttp2_session_callbacks_set_on_begin_headers_callback(cb, h2_begin);
        nghttp2_session_callbacks_set_on_header_callback(cb, h2_field);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, h2_data);
        nghttp2_session_callbacks_set_on_frame_recv_callback(cb, h2_frame);
        nghttp2_session_callbacks_set_on_stream_close_callback(cb, h2_stream_closed);
        nghttp2_session_server_new(&s, cb, c);
        nghttp2_session_callbacks_del(cb);
        nghttp2_settings_entry iv[] = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1024}, {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 20}};
        nghttp2_submit_settings(s, NGHTTP2_FLAG_NONE, iv, ARRAY_LEN(iv));
        nghttp2_session_set_local_window_size(s, NGHTTP2_FLAG_NONE, 0, 1 << 24);
        c->h2 = s;
    }
    ssize_t n = nghttp2_session_mem_recv(c->h2, (uint8_t *)c->in.p + c->in_at, c->in.len - c->in_at);
    c->in.len = c->in_at = 0;
    if (n < 0) { conn_close(c); return false; }
    return true;
}

/* Collects frames to send; false: there are none. */
static bool h2_output(struct conn *c)
{
    const uint8_t *p;
    ssize_t n;
    while (c->out.len < 262144 && (n = nghttp2_session_mem_send(c->h2, &p)) > 0) buf_add(&c->out, p, (size_t)n);
    c->out_limit = c->out.len;
    if (!c->out.len && !nghttp2_session_want_read(c->h2) && !nghttp2_session_want_write(c->h2)) conn_close(c);
    return c->out.len > 0;
}

#else
static void h2_free(struct conn *c) { (void)c; }
static void h2_reply(struct req *r, int status, const char *type, double retry) { (void)r; (void)status; (void)type; (void)retry; }
static void h2_stream(struct req *r, bool begin) { (void)r; (void)begin; }
static void h2_abort(struct req *r) { (void)r; }
static bool h2_input(struct conn *c) { conn_close(c); return false; }
static bool h2_output(struct conn *c) { (void)c; return false; }
#endif

/* ------------------------------------------------------------------ 12 main loop */

static volatile sig_atomic_t stopping;

static void on_signal(int sig) { (void)sig; stopping = 1; }

static void usage(FILE *f)
{
    fprintf(f, "usage: mockd [-a ADDRESS] [-p PORT] [SETTING=VALUE ...]\n"
               "A mock inference server on ADDRESS (default 127.0.0.1), PORT (default 8400; 0: any free one).\n"
               "Settings, with their defaults; POST /control?SETTING=VALUE&... changes them at run time:\n");
    for (size_t i = 0; i < ARRAY_LEN(number_settings); i++)
        fprintf(f, "  %-14s %8.15g  %s\n", number_settings[i].name, number_settings[i].def, number_settings[i].help);
    for (size_t i = 0; i < ARRAY_LEN(string_settings); i++)
        fprintf(f, "  %-14s %8s  %s\n", string_settings[i].name, string_settings[i].def, string_settings[i].help);
}

static int listen_on(const char *address, int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t len = sizeof sa;
    if (inet_pton(AF_INET, address, &sa.sin_addr) != 1) { fprintf(stderr, "mockd: not an IPv4 address: %s\n", address); exit(2); }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof sa) || listen(fd, 4096)) { perror("mockd: listen"); exit(1); }
    getsockname(fd, (struct sockaddr *)&sa, &len);
    printf("mockd: listening on http://%s:%d\n", address, ntohs(sa.sin_port));
    fflush(stdout);
    return fd;
}

static void accept_all(int listener)
{
    static uint64_t accepted;
    int fd, on = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct conn *c = xcalloc(1, sizeof *c);
        c->fd = fd;
        c->next = conns;
        if (conns) conns->prev = c;
        conns = c;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct epoll_event ev = {EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, {.ptr = c}};
        c->number = ++accepted;
        stats.connections++;
        if (++stats.connections_now > stats.connections_max) stats.connections_max = stats.connections_now;
        if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev)) conn_close(c);
    }
}

static void conn_event(struct conn *c, uint32_t events)
{
    if (c->dead) return;
    if (events & (EPOLLERR | EPOLLHUP)) { conn_close(c); return; }
    if (events & (EPOLLIN | EPOLLRDHUP)) c->readable = true;
    conn_run(c);
    if (events & EPOLLRDHUP) conn_close(c); /* no client of an HTTP API half-closes: this one has gone */
}

static void bury_dead(void)
{
    for (struct conn *c; (c = graveyard);) {
        graveyard = c->next;
        buf_free(&c->in);
        buf_free(&c->out);
        buf_free(&c->after_filler);
        free(c);
    }
}

int main(int argc, char **argv)
{
    const char *address = "127.0.0.1";
    int port = 8400, opt;
    settings_default();
    while ((opt = getopt(argc, argv, "+a:p:h")) != -1) {
        if (opt == 'a') address = optarg;
        else if (opt == 'p') port = atoi(optarg);
        else { usage(opt == 'h' ? stdout : stderr); return opt == 'h' ? 0 : 2; }
    }
    for (; optind < argc; optind++) {
        char *arg = strdup(argv[optind]);
        const char *bad = control_apply(arg);
        if (bad) { fprintf(stderr, "mockd: no such setting, or value out of range: %s\n", bad); return 2; }
        free(arg);
    }
    signal(SIGPIPE, SIG_IGN);
    struct sigaction sa = {.sa_handler = on_signal};
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGINT, &sa, NULL);
    prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    int listener = listen_on(address, port);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event ev = {EPOLLIN, {.ptr = NULL}}, events[256];
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &ev);

    while (!stopping) {
        struct timespec ts, *timeout = NULL;
        if (heap.n) {
            uint64_t now = now_ns(), wait = heap.t[1]->at > now ? heap.t[1]->at - now : 0;
            ts = (struct timespec){(time_t)(wait / 1000000000u), (long)(wait % 1000000000u)};
            timeout = &ts;
        }
        int n = epoll_pwait2(epoll_fd, events, ARRAY_LEN(events), timeout, NULL);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr) conn_event(events[i].data.ptr, events[i].events);
            else accept_all(listener);
        }
        for (uint64_t now = now_ns(); heap.n && heap.t[1]->at <= now;) {
            struct timer *t = heap.t[1];
            timer_stop(t);
            t->fire(t->arg);
        }
        bury_dead();
    }
    while (conns) conn_close(conns);
    while (heap.n) req_free(heap.t[1]->arg); /* requests in service whose client has gone */
    bury_dead();
    schedule_clear();
    table_free(&items);
    table_free(&request_ids);
    free(heap.t);
    return 0;
}
