/* json.c - reading JSON, in place. */
#include "mockd.h"

char json_peek(struct json *j)
{
    while (j->p < j->end && (*j->p == ' ' || *j->p == '\n' || *j->p == '\r' || *j->p == '\t')) j->p++;
    return j->p < j->end ? *j->p : 0;
}

bool json_take(struct json *j, char ch)
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

char *json_string(struct json *j, size_t *len)
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

void json_skip(struct json *j, int depth)
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
double json_number(struct json *j)
{
    char ch = json_peek(j), tmp[32] = "";
    char *start = j->p;
    if (ch == '"' || ch == '{' || ch == '[') { j->bad = true; return 0; }
    json_skip(j, 0);
    size_t n = (size_t)(j->p - start);
    memcpy(tmp, start, n < sizeof tmp - 1 ? n : sizeof tmp - 1);
    return ch == 't' ? 1 : strtod(tmp, NULL);
}
