/* request.c - from a request's body to its items, and its fate. */
#include "mockd.h"

struct req *req_new(struct conn *c)
{
    struct req *r = xcalloc(1, sizeof *r);
    r->conn = c;
    buf_room(&r->out, 1024);
    r->out.len = HEADROOM;
    return r;
}

void req_free(struct req *r)
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
const char *parse_request(struct req *r)
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
                if (r->base64 && set.no_base64) return "unknown value of encoding_format";
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
void req_draw(struct req *r)
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
        if (!e->seen++) e->first_seen = r->arrived;
        e->last_seen = r->arrived;
        char *mark = memmem(it->text, it->len, "[[mock:", 7);
        for (int f = 1; mark && f < FAULT_end; f++) {
            size_t n = strlen(fault_names[f]);
            if ((size_t)(it->text + it->len - mark) < 9 + n || memcmp(mark + 7, fault_names[f], n)) continue;
            if (!memcmp(mark + 7 + n, "]]", 2)) r->fault = (enum fault)f;
            else if (mark[7 + n] == ' ' && (f == FAULT_status || f == FAULT_donestatus)) {
                r->fault = (enum fault)f;
                r->status = atoi(mark + 7 + n);
            }
        }
    }
    r->rng = mix64((uint64_t)set.seed * 0x9e3779b97f4a7c15u ^ all) + attempt;
    double u = draw(&r->rng) * 100;
    for (int f = 1; f < FAULT_end && !r->fault; f++) {
        if (f == FAULT_stall) continue; /* a fault of connections */
        if (u < set.fault[f]) r->fault = (enum fault)f;
        u -= set.fault[f];
    }
    if (set.fault_attempts && (double)attempt >= set.fault_attempts) r->fault = FAULT_none;
    if (r->id_hash) {
        struct entry *e = table_get(&request_ids, r->id_hash);
        if (e->seen++) stats.duplicate_request_ids++;
    }
}

/* The status of a request with fault status or donestatus: that of its marker, else drawn. */
int req_status(struct req *r, const char *among)
{
    unsigned n = 1;
    if (r->status >= 300 && r->status <= 999) return r->status;
    for (const char *p = among; *p; p++) n += *p == ',';
    for (n = (unsigned)(draw(&r->rng) * n); n; n--) among = strchr(among, ',') + 1;
    int status = atoi(among);
    return status >= 300 && status <= 999 ? status : 500;
}

/* The lognormal factor: exp(sigma * a standard normal draw). */
double req_jitter(struct req *r)
{
    if (set.jitter <= 0) return 1;
    uint64_t rng = mix64(r->rng ^ 0x6a6974746572u); /* its own, so that the faults are those of a run without jitter */
    double u = 1 - draw(&rng), v = draw(&rng);
    return exp(set.jitter * sqrt(-2 * log(u)) * cos(2 * M_PI * v));
}
