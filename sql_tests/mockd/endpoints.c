/* endpoints.c - paths to actions. */
#include "mockd.h"

/* Settings to apply once so many items have been executed: /control?after_items=N&... */
static struct scheduled { uint64_t at; char *query; struct scheduled *next; } *schedule;

/* Applies name=value&name=value; returns the first name that could not be, NULL if all could. */
const char *control_apply(char *query)
{
    char *save = NULL;
    for (char *pair = strtok_r(query, "&", &save); pair; pair = strtok_r(NULL, "&", &save)) {
        char *eq = strchr(pair, '=');
        if (eq) *eq = 0;
        if (!strcmp(pair, "defaults")) settings_default();
        else if (!eq || !setting_apply(pair, eq + 1)) return pair;
    }
    held_release();
    queue_run();
    return NULL;
}

void check_scheduled(void)
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

void schedule_clear(void)
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

/* What each text has been through since the last reset: a line each, fields separated by tabs; times as of CLOCK_MONOTONIC. */
static void handle_ledger(struct req *r)
{
    for (size_t i = 0; i < items.cap; i++) {
        struct entry *e = &items.e[i];
        if (!e->key) continue;
        buf_fmt(&r->out, "%u\t%u\t%.3f\t%.3f\t%.3f\t%.3f\t\"", e->seen, e->executed, (double)e->first_seen / MS,
                (double)e->last_seen / MS, (double)e->first_executed / MS, (double)e->last_executed / MS);
        buf_json(&r->out, e->text, strlen(e->text));
        buf_str(&r->out, "\"\n");
    }
    conn_reply(r, 200, "text/tab-separated-values", -1);
}

static void handle_faults(struct req *r)
{
    for (int f = 1; f < FAULT_end; f++) buf_fmt(&r->out, "%s\"%s\":%" PRIu64, f == 1 ? "{" : ",", fault_names[f], stats.of_fault[f]);
    buf_str(&r->out, "}\n");
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

static void handle_sizes(struct req *r)
{
    buf_str(&r->out, "[");
    for (size_t i = 0; i < sizes.n; i++)
        buf_fmt(&r->out, "%s\n{\"items\":%u,\"tokens\":%u,\"status\":%d}", i ? "," : "", sizes.s[i].items, sizes.s[i].tokens, sizes.s[i].status);
    buf_str(&r->out, "]\n");
    reply_ok(r);
}

/* good: the answer behind its opening brace. */
static void handle_probe(struct req *r, double status, const char *good)
{
    stats.probes_with_key += r->with_key;
    if (status == 0) return;
    if (status != 200) { reply_error(r, (int)status, "not_well", "as the settings say"); return; }
    render_open(&r->out);
    buf_str(&r->out, good);
    reply_ok(r);
}

/* What a scraper of Prometheus would see. */
static void handle_metrics(struct req *r)
{
    stats.metrics++;
    buf_str(&r->out, "# HELP mock_requests_total API calls that arrived.\n# TYPE mock_requests_total counter\n");
    buf_fmt(&r->out, "mock_requests_total %" PRIu64 "\n", stats.requests);
    if (set.incarnation[0]) buf_fmt(&r->out, "process_start_time_seconds{run=\"\"} %s\n", set.incarnation);
    reply_ok(r);
}

void handle(struct req *r)
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
    else if (!strcmp(r->path, "/stats/sizes")) handle_sizes(r);
    else if (!strcmp(r->path, "/stats/faults")) handle_faults(r);
    else if (!strcmp(r->path, "/stats/ledger")) handle_ledger(r);
    else if (!strcmp(r->path, "/control")) handle_control(r, query);
    else if (!strcmp(r->path, "/reset")) { stats_reset(); schedule_clear(); buf_str(&r->out, "{}\n"); reply_ok(r); }
    else if (!strcmp(r->path, "/health")) {
        stats.probes++;
        handle_probe(r, set.health_status, "\"status\":\"ok\"}\n");
    } else if (!strcmp(r->path, "/v1/models")) {
        stats.model_lists++;
        handle_probe(r, set.models_status,
                     "\"object\":\"list\",\"data\":[{\"id\":\"mock\",\"object\":\"model\",\"owned_by\":\"mockd\"}]}\n");
    } else if (!strcmp(r->path, "/metrics")) handle_metrics(r);
    else reply_error(r, 404, "not_found", "no such endpoint");
}
