/*
 * mockd - a mock inference server for tests and benchmarks.
 *
 * It speaks the part of the OpenAI HTTP API that a database client needs (embeddings, chat and text
 * completions, SSE streaming), behaves like a real backend under load (slots, a queue, 429s), can
 * be told to misbehave in every way that a client must survive, and counts what it was asked to do,
 * so that a test can prove that no row was sent twice, lost or answered with another row's result.
 *
 * One thread, epoll, no dependency but libc and libm; with -DWITH_H2 and -lnghttp2 it also speaks
 * HTTP/2 with prior knowledge (h2c) on the same port. See README.md; mockd.h says what is where.
 *
 * Everything random is drawn from hash(seed, request content, how often it was seen before), never
 * from the order of arrival: a run with faults and jitter repeats exactly, however concurrent.
 */
#include "mockd.h"

static volatile sig_atomic_t stopping;

static void on_signal(int sig) { (void)sig; stopping = 1; }

void usage(FILE *f)
{
    fprintf(f, "usage: mockd [-a ADDRESS] [-p PORT] [SETTING=VALUE ...]\n"
               "A mock inference server on ADDRESS (default 127.0.0.1), PORT (default 8400; 0: any free one).\n"
               "Settings, with their defaults; POST /control?SETTING=VALUE&... changes them at run time:\n");
    for (size_t i = 0; i < number_settings_count; i++)
        fprintf(f, "  %-14s %8.15g  %s\n", number_settings[i].name, number_settings[i].def, number_settings[i].help);
    for (size_t i = 0; i < string_settings_count; i++)
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
    set.hold = 0;
    held_release();
    while (heap.n) req_free(heap.t[1]->arg); /* requests in service whose client has gone */
    bury_dead();
    schedule_clear();
    table_free(&items);
    table_free(&request_ids);
    free(heap.t);
    return 0;
}
