/* serve.c - slots, queue, rejection, faults. */
#include "mockd.h"

static struct req *queue_head, *queue_tail;
static struct req *held_head, *held_tail; /* in service for longer than it takes, while hold=1 */

void reply_error(struct req *r, int status, const char *code, const char *message)
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

void executed(struct req *r)
{
    stats.last = now_ns();
    for (size_t i = 0; i < r->n_items; i++) {
        struct entry *e = table_get(&items, r->items[i].hash);
        if (!e->executed++) e->first_executed = stats.last;
        e->last_executed = stats.last;
    }
    stats.executed += r->n_items;
    stats.prompt_tokens += r->prompt_tokens;
    stats.completion_tokens += r->tokens * r->n_items;
    check_scheduled();
}

void start(struct req *r, bool at_once);

void queue_run(void)
{
    while (queue_head && (!set.slots || (double)stats.busy < set.slots)) {
        struct req *r = queue_head;
        queue_remove(r);
        stats.wait_ns += (double)(now_ns() - r->arrived);
        start(r, false);
    }
}

/* Keeps a request whose service would end now; false: nothing is held back. */
static bool hold_back(struct req *r, void (*end)(void *))
{
    if (set.hold != 1) return false;
    r->timer.fire = end;
    *(held_tail ? &held_tail->next : &held_head) = r;
    held_tail = r;
    return true;
}

/* Nothing is held back any more: all that was ends soon, in the order in which it would have. */
void held_release(void)
{
    if (set.hold) return;
    for (struct req *r; (r = held_head);) {
        held_head = r->next;
        r->next = NULL;
        timer_set(&r->timer, 0, r->timer.fire, r);
    }
    held_tail = NULL;
}

static void deliver(struct req *r)
{
    static const int status_of[FAULT_end] = {
        [FAULT_400] = 400, [FAULT_401] = 401, [FAULT_403] = 403, [FAULT_404] = 404, [FAULT_413] = 413, [FAULT_429] = 429, [FAULT_500] = 500, [FAULT_503] = 503,
        [FAULT_quota] = 429, [FAULT_nomodel] = 404, [FAULT_loading] = 503};
    static const struct { const char *code, *words; } says[FAULT_end] = {
        [FAULT_quota] = {"insufficient_quota", "injected fault"},
        [FAULT_nomodel] = {"model_not_found", "The model does not exist."},
        [FAULT_loading] = {"unavailable_error", "Loading model"}};
    if (r->fault == FAULT_die && !conn_is_reused(r)) r->fault = FAULT_none;
    int status = status_of[r->fault];
    if (r->fault) stats_fault(r->fault);
    if (r->fault == FAULT_redirect) { conn_reply(r, (int)set.redirect_status, "text/plain", -1); return; }
    if (r->fault == FAULT_drop) { conn_abort(r, false); return; }
    if (r->fault == FAULT_status) status = req_status(r, set.refusals);
    if (status && says[r->fault].code) { reply_error(r, status, says[r->fault].code, says[r->fault].words); return; }
    if (status) { reply_error(r, status, "injected", "injected fault"); return; }
    executed(r);
    switch (r->fault) {
    case FAULT_reset: conn_abort(r, false); return;
    case FAULT_die: case FAULT_lost: conn_die(r); return;
    case FAULT_hang: return; /* stays attached to its connection until the client gives up */
    case FAULT_donestatus: reply_error(r, req_status(r, set.failures), "injected", "failed after the work"); return;
    case FAULT_close: case FAULT_garbage: r->close = true; break;
    default: break;
    }
    if (r->fault != FAULT_empty) render_answer(r);
    stats.ok++;
    if (r->fault == FAULT_partial || r->fault == FAULT_cutchunk || r->fault == FAULT_cutclose) conn_abort(r, true);
    else conn_reply(r, 200, "application/json", -1);
}

static void stream_next(void *arg)
{
    struct req *r = arg;
    struct conn *c = r->conn;
    size_t n = reply_is_words() ? r->tokens : 1;
    bool cut = false;
    double gap_ms = r->fault == FAULT_slow ? set.slow_ms : set.token_ms;
    if (hold_back(r, stream_next)) return;
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
    if (r->fault) stats_fault(r->fault);
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
    if (hold_back(r, service_end)) return;
    slot_free(r);
    if (c) { deliver(r); conn_run(c); }
    else { executed(r); stats.abandoned++; req_free(r); }
    queue_run();
}

void start(struct req *r, bool at_once)
{
    if (r->streaming && r->fault >= FAULT_json && r->fault <= FAULT_dim) r->fault = FAULT_none; /* no such stream */
    bool trickle = r->streaming && (r->fault == FAULT_none || r->fault == FAULT_partial || r->fault == FAULT_slow || r->fault == FAULT_close);
    double ms = set.base_ms + set.item_ms * (double)r->n_items;
    if (!trickle) ms += set.token_ms * (double)(r->tokens * r->n_items);
    if (r->fault == FAULT_late) ms += set.late_ms;
    r->started = now_ns();
    r->in_service = true;
    stats.busy++;
    if (trickle) timer_set(&r->timer, ms * req_jitter(r) * MS, stream_next, r);
    else if (ms > 0 || !at_once) timer_set(&r->timer, ms * req_jitter(r) * MS, service_end, r);
    else if (!hold_back(r, service_end)) { slot_free(r); deliver(r); } /* no latency at all: answered on the spot */
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

void serve(struct req *r)
{
    r->arrived = now_ns();
    stats.requests++;
    if (!stats.first) stats.first = stats.capacity_since = r->arrived;
    const char *wrong = parse_request(r);
    if (wrong) { reply_error(r, 400, "invalid_request", wrong); return; }
    req_draw(r);
    if ((double)r->n_items > set.limit_items || (set.limit_tokens && (double)r->prompt_tokens > set.limit_tokens)) {
        reply_error(r, (int)set.limit_status, set.limit_words ? "request_too_large" : "bad_request",
                    set.limit_words ? "too many items or tokens in one request" : "no");
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
void req_orphan(struct req *r)
{
    r->conn = NULL;
    if (r->in_service) return;
    if (r->next || r->prev || queue_head == r) queue_remove(r);
    if (r->api) stats.abandoned++; /* it waited for a slot, or for an answer that never came */
    req_free(r);
}
