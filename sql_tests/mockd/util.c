/* util.c - memory, growing buffers, clock, hashes. */
#include "mockd.h"

void *xrealloc(void *p, size_t n)
{
    p = realloc(p, n ? n : 1);
    if (!p) { perror("mockd: realloc"); exit(1); }
    return p;
}

void *xcalloc(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (!p) { perror("mockd: calloc"); exit(1); }
    return p;
}

/* Room for n more bytes; the caller writes them at the returned place and adds to b->len. */
char *buf_room(struct buf *b, size_t n)
{
    if (b->cap - b->len < n) {
        size_t cap = b->cap * 2 > b->len + n ? b->cap * 2 : b->len + n;
        b->p = xrealloc(b->p, cap);
        b->cap = cap;
    }
    return b->p + b->len;
}

void buf_add(struct buf *b, const void *p, size_t n)
{
    if (n) memcpy(buf_room(b, n), p, n);
    b->len += n;
}

void buf_str(struct buf *b, const char *s) { buf_add(b, s, strlen(s)); }

void buf_fmt(struct buf *b, const char *fmt, ...)
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
void buf_json(struct buf *b, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char ch = (unsigned char)s[i];
        if (ch == '"' || ch == '\\') buf_fmt(b, "\\%c", ch);
        else if (ch < 0x20) buf_fmt(b, "\\u%04x", ch);
        else buf_add(b, &s[i], 1);
    }
}

void buf_free(struct buf *b)
{
    free(b->p);
    *b = (struct buf){0};
}

uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t hash64(const char *p, size_t n, uint64_t seed)
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
double draw(uint64_t *s)
{
    *s += 0x9e3779b97f4a7c15u;
    return (double)(mix64(*s) >> 11) * 0x1p-53;
}
