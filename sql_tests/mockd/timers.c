/* timers.c - a heap of timers. */
#include "mockd.h"

struct heap heap;

static void heap_put(size_t i, struct timer *t) { heap.t[i] = t; t->pos = i; }

static void heap_fix(size_t i)
{
    struct timer *t = heap.t[i];
    for (; i > 1 && heap.t[i / 2]->at > t->at; i /= 2) heap_put(i, heap.t[i / 2]);
    for (size_t c; (c = 2 * i) <= heap.n; i = c) {
        if (c < heap.n && heap.t[c + 1]->at < heap.t[c]->at) c++;
        if (heap.t[c]->at >= t->at) break;
        heap_put(i, heap.t[c]);
    }
    heap_put(i, t);
}

void timer_set(struct timer *t, double delay_ns, void (*fire)(void *), void *arg)
{
    t->at = now_ns() + (uint64_t)delay_ns;
    t->fire = fire;
    t->arg = arg;
    if (!t->pos) {
        if (heap.n + 2 > heap.cap) heap.t = xrealloc(heap.t, (heap.cap = heap.cap * 2 + 64) * sizeof *heap.t);
        heap_put(++heap.n, t);
    }
    heap_fix(t->pos);
}

void timer_stop(struct timer *t)
{
    if (!t->pos) return;
    size_t i = t->pos;
    struct timer *last = heap.t[heap.n--];
    t->pos = 0;
    if (last != t) { heap_put(i, last); heap_fix(i); }
}
