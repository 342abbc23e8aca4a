/* counters.c - what has been counted, and texts already seen. */
#include "mockd.h"

struct table items, request_ids;
struct stats stats;
struct tallies tallies;
struct sizes sizes;

struct entry *table_get(struct table *t, uint64_t key)
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

void table_free(struct table *t)
{
    free(t->e);
    *t = (struct table){0};
}

void stats_fault(enum fault f)
{
    stats.faults++;
    stats.of_fault[f]++;
}

void on_slots_change(void)
{
    uint64_t now = now_ns();
    if (stats.capacity_since) stats.capacity_ns += set.slots * (double)(now - stats.capacity_since);
    if (stats.capacity_since) stats.capacity_since = now;
}

void stats_reset(void)
{
    uint64_t open = stats.connections_now, in_flight = stats.in_flight, queued = stats.queued, busy = stats.busy;
    memset(&stats, 0, sizeof stats);
    stats.connections_now = stats.connections_max = open;
    stats.in_flight = stats.in_flight_max = in_flight;
    stats.queued = stats.queued_max = queued;
    stats.busy = busy;
    table_free(&items);
    table_free(&request_ids);
    tallies.n = 0;
    sizes.n = 0;
}

void stats_print(struct buf *b)
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
    N("probes", stats.probes); N("model_lists", stats.model_lists); N("metrics", stats.metrics); N("probes_with_key", stats.probes_with_key);
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
