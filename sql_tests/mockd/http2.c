/* http2.c - HTTP/2 with prior knowledge, by nghttp2. */
#include "mockd.h"

#ifdef WITH_H2
#include <nghttp2/nghttp2.h>

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

void h2_reply(struct req *r, int status, const char *type, double retry_after)
{
    r->ended = status != 200 || r->fault != FAULT_halfhang;
    r->h2_out = r->out;
    r->out = (struct buf){0};
    r->h2_sent = HEADROOM;
    if (!r->ended) r->h2_out.len -= (r->h2_out.len - HEADROOM) / 2;
    h2_answer(r, status, type, retry_after);
}

void h2_stream(struct req *r, bool begin)
{
    if (begin) { h2_answer(r, 200, "text/event-stream", -1); return; }
    buf_add(&r->h2_out, r->out.p + HEADROOM, r->out.len - HEADROOM);
    nghttp2_session_resume_data(r->conn->h2, r->stream_id);
}

void h2_abort(struct req *r)
{
    nghttp2_submit_rst_stream(r->conn->h2, NGHTTP2_FLAG_NONE, r->stream_id, NGHTTP2_INTERNAL_ERROR);
}

void h2_free(struct conn *c)
{
    nghttp2_session_del(c->h2);
    for (struct req *r; (r = c->req);) {
        c->req = r->sibling;
        if (r->ended) req_free(r); else req_orphan(r);
    }
}

bool h2_input(struct conn *c)
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
bool h2_output(struct conn *c)
{
    const uint8_t *p;
    ssize_t n;
    while (c->out.len < 262144 && (n = nghttp2_session_mem_send(c->h2, &p)) > 0) buf_add(&c->out, p, (size_t)n);
    c->out_limit = c->out.len;
    if (!c->out.len && !nghttp2_session_want_read(c->h2) && !nghttp2_session_want_write(c->h2)) conn_close(c);
    return c->out.len > 0;
}

#else
void h2_free(struct conn *c) { (void)c; }
void h2_reply(struct req *r, int status, const char *type, double retry) { (void)r; (void)status; (void)type; (void)retry; }
void h2_stream(struct req *r, bool begin) { (void)r; (void)begin; }
void h2_abort(struct req *r) { (void)r; }
bool h2_input(struct conn *c) { conn_close(c); return false; }
bool h2_output(struct conn *c) { (void)c; return false; }
#endif
