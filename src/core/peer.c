/*
 * core/peer.c - does an address answer, when may it be dialled, which models has it not?  See
 * core/peer.h.
 */
#include "core/peer.h"

#include "core/monitor.h"

/* Failures that are further apart are no run: nobody knows what was between. */
#define RUN_GAP_US INT64_C(60000000)

#define FIRST_DELAY_US INT64_C(50000)
#define LONGEST_US     INT64_C(500000)
#define RESET_AFTER_US INT64_C(5000000)
#define GROWTH_PERCENT 120
#define JITTER         0.1
#define STEEPEST       0.99

/* --- The address --- */

static void
tell(InferPeer *p, bool failed)
{
	p->version += p->failed != failed;
	p->failed = failed;
}

void
infer_peer_hear_failure(InferPeer *p, int64_t sent_us, int64_t now_us)
{
	if (p->alive_us != 0 && sent_us <= p->alive_us)
		return;
	if (p->since_us == 0 || now_us - p->heard_us > RUN_GAP_US)
		p->since_us = now_us;
	p->heard_us = now_us;
	tell(p, p->heard_us - p->since_us >= INFER_PEER_DETECTION_US);
}

void
infer_peer_hear_answer(InferPeer *p, int64_t now_us)
{
	p->since_us = 0;
	p->alive_us = now_us;
	tell(p, false);
}

void
infer_peer_hear_disconnect(InferPeer *p)
{
	p->disconnects++;
}

static bool
is_fresh(const InferPeer *p, int64_t now_us)
{
	return p->since_us != 0 && now_us - p->heard_us <= RUN_GAP_US;
}

bool
infer_peer_failed(const InferPeer *p, int64_t now_us)
{
	return p->failed && is_fresh(p, now_us);
}

int64_t
infer_peer_failing_us(const InferPeer *p, int64_t now_us)
{
	return is_fresh(p, now_us) ? now_us - p->since_us : 0;
}

int64_t
infer_peer_patience_us(int64_t sustained_us, double slope, int64_t elapsed_us)
{
	double k = slope > 0 ? slope < STEEPEST ? slope : STEEPEST : 0; /* NAN: none */
	double patience =
		((double) sustained_us + k * (double) (elapsed_us > 0 ? elapsed_us : 0)) / (1 - k);

	return patience < (double) (INT64_MAX / 2) ? (int64_t) patience : INT64_MAX;
}

int64_t
infer_peer_patience_ends_us(const InferPeer *p, int64_t began_us, int64_t sustained_us,
							double slope, int64_t now_us)
{
	int64_t from_us = p->since_us > began_us ? p->since_us : began_us;
	int64_t patience_us;

	if (!is_fresh(p, now_us))
		return INT64_MAX;
	patience_us = infer_peer_patience_us(sustained_us, slope, p->since_us - began_us);
	return patience_us < INT64_MAX - from_us ? from_us + patience_us : INT64_MAX;
}

/* --- Loading --- */

bool
infer_loading_hear(InferLoading *l, bool loading, int64_t now_us)
{
	bool back = !loading && l->since_us != 0;

	if (!loading)
		*l = (InferLoading){0};
	else if (infer_loading_since_us(l, now_us) == 0)
		l->since_us = now_us;
	if (loading)
		l->heard_us = now_us;
	return back;
}

int64_t
infer_loading_since_us(const InferLoading *l, int64_t now_us)
{
	return now_us - l->heard_us <= INFER_LOADING_TTL_US ? l->since_us : 0;
}

/* --- Dialling --- */

int
infer_dial_room(const InferDial *d, int64_t now_us)
{
	if (!d->closed)
		return INT32_MAX;
	return now_us >= d->next_us ? 1 : 0;
}

int64_t
infer_dial_opens_us(const InferDial *d, int64_t now_us)
{
	return d->closed && d->next_us > now_us ? d->next_us : now_us;
}

/* The next dial does not wait for this one's end for longer than the longest delay: it may hang,
 * its process may be gone, or it is connected and its answer takes a while. */
InferDialMark
infer_dial_take(InferDial *d, int64_t now_us)
{
	InferDialMark mark = {.epoch = d->epoch, .dial = d->closed};

	if (mark.dial)
		d->next_us = now_us + LONGEST_US;
	d->last_us = now_us;
	return mark;
}

/* The delay is from dial to dial: what the dial itself took is a part of it.  Where one hung, and
 * another one has left meanwhile, it is from that one on; also of those that left before the first
 * failure was known. */
static void
on_failure(InferDial *d, int64_t now_us, double draw)
{
	int64_t wait_us;

	if (d->delay_us == 0 || (d->up_us != 0 && now_us - d->up_us > RESET_AFTER_US))
		d->delay_us = FIRST_DELAY_US;
	else
		d->delay_us = d->delay_us * GROWTH_PERCENT / 100;
	if (d->delay_us > LONGEST_US)
		d->delay_us = LONGEST_US;
	wait_us = d->last_us + d->delay_us - now_us;
	if (wait_us < 0)
		wait_us = 0;
	d->next_us = now_us + (int64_t) ((double) wait_us * (1 - JITTER + 2 * JITTER * draw));
	d->epoch++;
	d->closed = true;
	d->up_us = 0;
}

static void
on_connection(InferDial *d, int64_t now_us)
{
	if (d->up_us == 0)
		d->up_us = now_us;
	d->epoch += d->closed;
	d->closed = false;
}

/* What the end of a request says of connections. */
typedef enum Connection
{
	UNKNOWN,
	NONE,     /* could not be made */
	LOST,     /* was made, at some time */
	ANSWERED, /* somebody is there now */
} Connection;

static Connection
connection_of(InferReason reason, InferVerdict verdict)
{
	switch (reason)
	{
		case INFER_REASON_LOOKUP_FAILED:
		case INFER_REASON_CONNECT_FAILED:
		case INFER_REASON_TLS_FAILED:
			return NONE;
		case INFER_REASON_DISCONNECTED:
		case INFER_REASON_INCOMPLETE_REPLY:
		case INFER_REASON_MALFORMED_REPLY:
			return LOST;
		case INFER_REASON_SERVER_ERROR:
			return ANSWERED;
		default:
			return infer_monitor_health(reason, verdict) == INFER_HEALTH_ALIVE ? ANSWERED : UNKNOWN;
	}
}

void
infer_dial_hear(InferDial *d, const InferDialMark *mark, InferReason reason, InferVerdict verdict,
				int64_t now_us, double draw)
{
	bool is_news = mark->epoch == d->epoch;
	Connection connection = connection_of(reason, verdict);

	if (connection == NONE && is_news)
		on_failure(d, now_us, draw);
	else if (connection == ANSWERED || (connection == LOST && is_news))
		on_connection(d, now_us);
}

void
infer_dial_unsent(InferDial *d, const InferDialMark *mark, int64_t now_us)
{
	if (mark->dial && mark->epoch == d->epoch && d->closed)
		d->next_us = now_us;
}

/* --- Models that are not there --- */

static InferDeadModel *
find(InferDeadModels *t, uint64_t model)
{
	for (int i = 0; i < INFER_DEAD_MODELS; i++)
		if (t->entry[i].until_us != 0 && t->entry[i].model == model)
			return &t->entry[i];
	return NULL;
}

bool
infer_dead_hear(InferDeadModels *t, uint64_t model, int64_t version, InferReason reason,
				bool says_model, int64_t now_us)
{
	InferDeadModel *entry;

	if (reason != INFER_REASON_NOT_FOUND || !says_model)
		return false;
	entry = find(t, model);
	if (entry == NULL)
	{
		entry = &t->entry[t->next];
		t->next = (t->next + 1) % INFER_DEAD_MODELS;
	}
	*entry = (InferDeadModel){
		.model = model, .version = version, .until_us = now_us + INFER_DEAD_TTL_US};
	return true;
}

bool
infer_dead_is(const InferDeadModels *t, uint64_t model, int64_t version, int64_t now_us)
{
	for (int i = 0; i < INFER_DEAD_MODELS; i++)
		if (t->entry[i].model == model && t->entry[i].version == version &&
			now_us < t->entry[i].until_us)
			return true;
	return false;
}

void
infer_dead_clear(InferDeadModels *t, uint64_t model)
{
	InferDeadModel *entry = find(t, model);

	if (entry != NULL)
		*entry = (InferDeadModel){0};
}

void
infer_dead_clear_all(InferDeadModels *t)
{
	*t = (InferDeadModels){0};
}
