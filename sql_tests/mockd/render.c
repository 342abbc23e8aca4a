/* render.c - answers as JSON, floats, base64 and SSE. */
#include "mockd.h"

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

bool reply_is_words(void) { return strcmp(set.reply, "echo") && strcmp(set.reply, "yesno") && strcmp(set.reply, "json"); }

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
    else for (size_t i = 0, n = r->fault == FAULT_cutoff ? (r->tokens + 1) / 2 : r->tokens; i < n; i++) render_word(b, it->hash, i);
}

/* The begin of an object that says which run of the server made it. */
void render_open(struct buf *b)
{
    buf_str(b, "{");
    if (!set.incarnation[0]) return;
    buf_str(b, "\"system_fingerprint\":\"");
    buf_json(b, set.incarnation, strlen(set.incarnation));
    buf_str(b, "\",");
}

static void render_head(struct req *r, struct buf *b, const char *object)
{
    render_open(b);
    buf_fmt(b, "\"id\":\"mock-%016" PRIx64 "\",\"object\":\"%s\",\"created\":1700000000,\"model\":\"", r->items[0].hash, object);
    buf_json(b, r->model, r->model_len);
    buf_str(b, "\",");
}

static void render_usage(struct req *r, struct buf *b)
{
    size_t completion = r->tokens * r->n_items;
    buf_fmt(b, "\"usage\":{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,\"total_tokens\":%zu}", r->prompt_tokens,
            completion, r->prompt_tokens + completion);
}

static const char *finish_reason(struct req *r)
{
    switch (r->fault) {
    case FAULT_cutoff: return "length";
    case FAULT_filtered: return "content_filter";
    case FAULT_toolcall: return "tool_calls";
    default: return r->tokens < (size_t)set.tokens ? "length" : "stop";
    }
}

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

void render_answer(struct req *r)
{
    struct buf *b = &r->out;
    size_t n = r->n_items - (r->fault == FAULT_count || r->fault == FAULT_noindexshort), shown = 0;
    if (r->fault == FAULT_binary) { render_binary(r); return; }
    if (r->api == API_EMBEDDINGS) {
        render_open(b);
        buf_str(b, "\"object\":\"list\",\"data\":[");
    }
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
            if (r->api == API_CHAT) buf_str(b, "\"message\":{\"role\":\"assistant\",");
            buf_str(b, r->api == API_CHAT ? "\"content\":" : "\"text\":");
            if (r->fault == FAULT_refusal) buf_str(b, "null,\"refusal\":\"I cannot help with that.\"");
            else if (r->fault == FAULT_toolcall) buf_str(b, "null,\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]");
            else {
                buf_str(b, "\"");
                render_text(r, b, &r->items[i]);
                buf_str(b, "\"");
            }
            buf_fmt(b, "%s,\"finish_reason\":\"%s\"}", r->api == API_CHAT ? "}" : "", finish_reason(r));
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
void render_event(struct req *r, struct buf *b, bool last)
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
