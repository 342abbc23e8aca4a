/*
 * mockd.h - what the parts of mockd share. Who calls whom goes down this list:
 *
 *   mockd.c      main loop            http1.c, http2.c  connections       endpoints.c  paths to actions
 *   serve.c      slots, queue, faults render.c          answers           request.c    a request and its items
 *   timers.c     a heap of timers     counters.c        figures           json.c       reading JSON
 *   settings.c   all that can be told util.c            memory, buffers
 *
 * (a timer or a change of the number of slots calls back up).
 */
#ifndef MOCKD_H
#define MOCKD_H

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

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MS 1e6 /* nanoseconds in a millisecond */

/* util.c */
struct buf { char *p; size_t len, cap; };

void *xrealloc(void *p, size_t n);
void *xcalloc(size_t n, size_t size);
char *buf_room(struct buf *b, size_t n);
void buf_add(struct buf *b, const void *p, size_t n);
void buf_str(struct buf *b, const char *s);
__attribute__((format(printf, 2, 3))) void buf_fmt(struct buf *b, const char *fmt, ...);
void buf_json(struct buf *b, const char *s, size_t n);
void buf_free(struct buf *b);
uint64_t now_ns(void);
uint64_t hash64(const char *p, size_t n, uint64_t seed);
double draw(uint64_t *s);

static inline uint64_t mix64(uint64_t x) /* splitmix64's finaliser */
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* settings.c */

/* name, default, smallest, largest, meaning */
#define SETTINGS(X)                                                                                \
    X(base_ms, 0, 0, 1e7, "service time of a request")                                             \
    X(item_ms, 0, 0, 1e7, "... plus this for every item (input text, prompt, conversation)")       \
    X(token_ms, 0, 0, 1e7, "... plus this for every completion token (the gap of SSE chunks)")     \
    X(hold, 0, 0, 2, "1: no service ends before this is 0; 2: those that are held wait on, others end") \
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
    X(limit_words, 1, 0, 1, "0: such a refusal does not say why")                                  \
    X(limit_body_kb, 65536, 1, 1e6, "request body allowed, in KiB (413)")                          \
    X(slow_bytes, 64, 1, 1e9, "fault slow: bytes sent at a time")                                  \
    X(slow_ms, 100, 1, 1e7, "fault slow: gap between them")                                        \
    X(big_kb, 65536, 1, 1e8, "fault big: KiB of white space before the answer")                    \
    X(late_ms, 1000, 0, 1e7, "fault late: added to the service time")                              \
    X(fault_attempts, 0, 0, 1e6, "faults strike only the first so many requests with a text; 0: all")  \
    X(redirect_status, 302, 300, 399, "fault redirect: HTTP status")                               \
    X(no_base64, 0, 0, 1, "1: encoding_format=base64 is refused (400), as an older server would")  \
    X(chunked, 0, 0, 1, "1: answers come in chunks, without Content-Length (HTTP/1.1)")            \
    X(health_status, 200, 0, 599, "HTTP status of GET /health; 0: it is never answered")           \
    X(models_status, 200, 200, 599, "HTTP status of GET /v1/models")                               \
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
    X(lost, "work done, then closed without a byte, on any connection")                            \
    X(drop, "work not done, connection reset")                                                     \
    X(late, "the service time is late_ms longer")                                                  \
    X(garbage, "work done, then something that is no HTTP")                                        \
    X(empty, "work done, 200 without a body")                                                      \
    X(cutchunk, "work done, answer in chunks, closed in the midst")                                \
    X(cutclose, "work done, answer of no told length, closed in the midst")                        \
    X(big, "answer after big_kb KiB of white space")                                               \
    X(redirect, "HTTP redirect_status to redirect_to")                                             \
    X(close, "good answer, then connection closed (Connection: close)")                            \
    X(nul, "text answers hold an escaped U+0000")                                                  \
    X(latin1, "text answers hold a byte that is not UTF-8")                                        \
    X(binary, "the answer's body is binary rubbish")                                               \
    X(json, "answer cut inside the JSON, Content-Length matching")                                 \
    X(cutoff, "half of each text, finish_reason 'length'")                                         \
    X(filtered, "texts that a content filter broke off")                                           \
    X(refusal, "messages with a refusal in place of a text")                                       \
    X(toolcall, "messages that call a tool and hold no text")                                      \
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
    X(503, "HTTP 503")                                                                             \
    X(status, "one of the HTTP statuses in refusals, work not done")                               \
    X(donestatus, "work done, then one of the HTTP statuses in failures")                           \
    X(quota, "HTTP 429 with Retry-After, whose code says that the account's quota is used up")     \
    X(nomodel, "HTTP 404 that says that there is no such model")                                   \
    X(loading, "HTTP 503 that says that the model is being loaded")

enum fault {
    FAULT_none,
#define X(name, help) FAULT_##name,
    FAULTS(X)
#undef X
    FAULT_end
};

extern struct settings {
#define X(name, def, min, max, help) double name;
    SETTINGS(X)
#undef X
    double fault[FAULT_end];
    char reply[16], embed[16], redirect_to[128], api_key[128], incarnation[65], refusals[128], failures[128];
} set;

struct number_setting { const char *name; double *where, def, min, max; const char *help; };
struct string_setting { const char *name; char *where; size_t size; const char *def, *help; };
extern const struct number_setting number_settings[];
extern const struct string_setting string_settings[];
extern const size_t number_settings_count, string_settings_count;
extern const char *const fault_names[FAULT_end];

bool setting_apply(const char *name, const char *value);
void settings_default(void);
void settings_print(struct buf *b);

/* json.c */

/* A cursor over mutable text; strings are unescaped in place (they never grow). */
struct json { char *p, *end; bool bad; };

char json_peek(struct json *j);
bool json_take(struct json *j, char ch);
char *json_string(struct json *j, size_t *len);
void json_skip(struct json *j, int depth);
double json_number(struct json *j);

/* counters.c */

/* One open-addressing table of 64-bit keys serves items and request ids. */
struct entry {
    uint64_t key;
    uint32_t seen, executed;
    uint64_t first_seen, last_seen, first_executed, last_executed; /* ns */
    char text[48];
};
struct table { struct entry *e; size_t used, cap; };

extern struct table items, request_ids;
extern struct stats {
    uint64_t requests, ok, rejected, failed, faults, abandoned;
    uint64_t executed, prompt_tokens, completion_tokens, duplicate_request_ids;
    uint64_t connections, connections_now, connections_max, bytes_in, bytes_out;
    uint64_t probes, model_lists, metrics, probes_with_key;
    uint64_t reused, of_a_connection_max, stalled, of_fault[FAULT_end];
    uint64_t in_flight, in_flight_max, queued, queued_max, busy;
    double busy_ns, wait_ns, capacity_ns;
    uint64_t first, last, capacity_since;
} stats;

/* One of each connection since the last reset that has carried an API call; the first so many are kept. */
struct tally { uint64_t connection; uint32_t requests, ok; bool open; };
extern struct tallies { struct tally t[10000]; size_t n; } tallies;

/* One of each answered API call since the last reset, in the order they were answered; the first so many are kept. */
struct size { uint32_t items, tokens; int status; };
extern struct sizes { struct size s[10000]; size_t n; } sizes;

struct entry *table_get(struct table *t, uint64_t key);
void table_free(struct table *t);
void on_slots_change(void);
void stats_reset(void);
void stats_print(struct buf *b);
void stats_fault(enum fault f);

/* timers.c */

struct timer { uint64_t at; void (*fire)(void *); void *arg; size_t pos; /* in the heap, from 1 */ };
extern struct heap { struct timer **t; size_t n, cap; } heap;

void timer_set(struct timer *t, double delay_ns, void (*fire)(void *), void *arg);
void timer_stop(struct timer *t);

/* request.c */

enum api { API_NONE, API_EMBEDDINGS, API_CHAT, API_COMPLETIONS };
struct item { char *text; size_t len; uint64_t hash; };

struct conn;
struct req {
    struct conn *conn;           /* NULL once the client has gone */
    int32_t stream_id;           /* HTTP/2 */
    char method[8], path[1024];  /* the path with its query */
    char *body; size_t body_len; /* inside owned, or in the connection's input buffer (HTTP/1.1) */
    struct buf owned;
    bool authorized, with_key, close, accepts_gzip;
    uint64_t id_hash;            /* of X-Request-Id or Idempotency-Key, 0 if there is none */

    enum api api;
    struct item *items; size_t n_items, cap_items;
    char *model; size_t model_len;
    bool streaming, base64, overlong;
    size_t dim, prompt_tokens, tokens; /* tokens: words in each completion */
    uint64_t rng;
    enum fault fault;
    int status;                  /* what fault status or donestatus answers; 0: to be drawn */

    struct timer timer;
    bool in_flight, in_service;
    uint64_t arrived, started;
    struct req *next, *prev, *sibling; /* the queue; the connection's requests (HTTP/2) */

    struct buf out;                    /* the answer's body, after HEADROOM bytes for its head */
    struct buf h2_out; size_t h2_sent; /* HTTP/2: what the stream has to send, sent up to here */
    size_t words_sent; bool ended;     /* SSE; ended: all of the answer is in the buffers */
};
#define HEADROOM 512

struct req *req_new(struct conn *c);
void req_free(struct req *r);
const char *parse_request(struct req *r);
void req_draw(struct req *r);
int req_status(struct req *r, const char *among);
double req_jitter(struct req *r);

/* render.c */

bool reply_is_words(void);
void render_open(struct buf *b);
void render_answer(struct req *r);
void render_event(struct req *r, struct buf *b, bool last);

/* serve.c */

void reply_error(struct req *r, int status, const char *code, const char *message);
void executed(struct req *r);
void queue_run(void);
void held_release(void);
void start(struct req *r, bool at_once);
void serve(struct req *r);
void req_orphan(struct req *r);

/* endpoints.c */

const char *control_apply(char *query);
void check_scheduled(void);
void schedule_clear(void);
void handle(struct req *r);

/* http1.c */

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

extern int epoll_fd;
extern struct conn *conns, *graveyard; /* the latter: freed after the events at hand, which may still point to them */

void conn_close(struct conn *c);
void conn_detach(struct req *r);
void conn_count(struct req *r);
bool conn_is_reused(struct req *r);
void conn_die(struct req *r);
/* what a connection can do with an answer; both protocols have their own way */
void conn_reply(struct req *r, int status, const char *type, double retry_after);
void conn_stream_begin(struct req *r);
void conn_stream_data(struct req *r, bool end); /* takes what is in r->out */
void conn_abort(struct req *r, bool after_half);
void head_field(struct req *r, const char *name, size_t n, const char *value, size_t len);
void conn_run(struct conn *c);

/* http2.c; without WITH_H2 they do nothing */

void h2_reply(struct req *r, int status, const char *type, double retry);
void h2_stream(struct req *r, bool begin);
void h2_abort(struct req *r);
void h2_free(struct conn *c);
bool h2_input(struct conn *c);
bool h2_output(struct conn *c);

#endif
