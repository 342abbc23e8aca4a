/*
 * core/queue_model.c - outstanding, latency, penalty, exclusion of one server.  See
 * core/queue_model.h.
 */
#include "core/queue_model.h"

#include <math.h>

#define FIRST_STEP_US   INT64_C(1000000)
#define LAST_STEP_US    INT64_C(8000000)
#define RETRY_AFTER_CAP INT64_C(3600000000)
#define JITTER          0.25
#define MOST_PENALTY    1000.0
#define WEIGHT          0.25 /* of a clean sample */

static void
forget(InferQueueModel *m)
{
	m->penalty = 1;
	for (int task = 0; task < INFER_TASK_COUNT; task++)
		m->latency[task] = (InferQueueLatency){0};
	m->step_us = 0;
	m->raise_us = 0;
	m->excluded_until_us = 0;
}

void
infer_queue_init(InferQueueModel *m)
{
	*m = (InferQueueModel){0};
	forget(m);
}

void
infer_queue_renew(InferQueueModel *m)
{
	m->epoch++;
	forget(m);
}

/* --- Reservations --- */

InferReservation
infer_queue_reserve(InferQueueModel *m, int64_t now_us)
{
	InferReservation reservation = {
		.held = true, .epoch = m->epoch, .weight = m->penalty, .sent_us = now_us};

	m->in_flight++;
	m->reserved++;
	m->outstanding += reservation.weight;
	return reservation;
}

/* Sums of doubles leave dust: nothing in flight is nothing outstanding. */
static void
take_back(InferQueueModel *m, int32_t n, double weight)
{
	m->in_flight -= n;
	m->outstanding -= weight;
	if (m->in_flight <= 0 || m->outstanding < 0)
		m->outstanding = 0;
}

void
infer_queue_drop(InferQueueModel *m, int32_t n, double weight)
{
	if (n <= 0)
		return;
	m->ended[INFER_QUEUE_DROPPED] += n;
	take_back(m, n, weight);
}

/* --- Latency --- */

static void
clean_sample(double *figure, double *worst, double sample, bool anew)
{
	*figure = *figure == 0 || anew ? sample : *figure + (sample - *figure) * WEIGHT;
	*worst = 0;
}

static void
worse_sample(double *worst, double sample)
{
	if (sample > *worst)
		*worst = sample;
}

static void
sample(InferQueueModel *m, const InferQueueReport *report, int64_t now_us)
{
	InferQueueLatency *l = &m->latency[report->task];
	double whole = (double) report->elapsed_us;
	double unit = report->units > 0 ? whole / (double) report->units : 0;
	bool anew = now_us - l->clean_us > INFER_QUEUE_OLD_US;

	if (report->elapsed_us <= 0)
		return;
	l->heard_us = now_us;
	if (report->end == INFER_QUEUE_CLEAN)
	{
		l->clean_us = now_us;
		clean_sample(&l->whole_us, &l->worst_whole_us, whole, anew);
		if (unit > 0)
			clean_sample(&l->unit_us, &l->worst_unit_us, unit, anew);
		return;
	}
	worse_sample(&l->worst_whole_us, whole);
	if (unit > 0)
		worse_sample(&l->worst_unit_us, unit);
}

int64_t
infer_queue_latency_us(const InferQueueModel *m, InferTask task, int64_t units)
{
	const InferQueueLatency *l = &m->latency[task];
	double unit = fmax(l->unit_us, l->worst_unit_us);
	double whole = fmax(l->whole_us, l->worst_whole_us);
	double expected = units > 0 && unit > 0 ? unit * (double) units : whole;

	if (expected <= 0)
		return INFER_QUEUE_LATENCY_US;
	return expected < 1e15 ? (int64_t) expected : (int64_t) 1e15;
}

int64_t
infer_queue_heard_us(const InferQueueModel *m, InferTask task)
{
	return m->latency[task].heard_us;
}

bool
infer_queue_doubted(const InferQueueModel *m, InferTask task)
{
	return m->latency[task].heard_us > m->latency[task].clean_us;
}

/* --- Penalty and exclusion --- */

void
infer_queue_penalty(InferQueueModel *m, double penalty)
{
	if (!isfinite(penalty) || penalty <= 0)
		return;
	m->penalty = fmin(fmax(penalty, 1), MOST_PENALTY);
}

void
infer_queue_exclude(InferQueueModel *m, int64_t retry_after_us, int64_t now_us, double draw)
{
	int64_t until_us;

	if (now_us >= m->raise_us)
	{
		m->step_us = m->step_us == 0 ? FIRST_STEP_US : m->step_us * 2;
		if (m->step_us > LAST_STEP_US)
			m->step_us = LAST_STEP_US;
		m->raise_us = now_us + m->step_us;
	}
	until_us = now_us + (int64_t) ((double) m->step_us * (1 - JITTER * draw));
	if (retry_after_us > RETRY_AFTER_CAP)
		retry_after_us = RETRY_AFTER_CAP;
	if (retry_after_us > 0 && now_us + retry_after_us > until_us)
		until_us = now_us + retry_after_us;
	if (until_us > m->excluded_until_us)
		m->excluded_until_us = until_us;
}

bool
infer_queue_excluded(const InferQueueModel *m, int64_t now_us)
{
	return now_us < m->excluded_until_us;
}

/* --- The end of a request --- */

bool
infer_queue_release(InferQueueModel *m, InferReservation *reservation,
					const InferQueueReport *report, int64_t now_us)
{
	if (!reservation->held)
		return false;
	reservation->held = false;
	m->ended[report->end]++;
	take_back(m, 1, reservation->weight);
	if (reservation->epoch != m->epoch || report->end == INFER_QUEUE_DROPPED)
		return true;
	sample(m, report, now_us);
	infer_queue_penalty(m, report->penalty);
	if (report->end == INFER_QUEUE_CLEAN)
		m->step_us = m->raise_us = 0;
	else if (report->end != INFER_QUEUE_FAILED)
		infer_queue_exclude(m, report->retry_after_us, now_us, report->draw);
	return true;
}

InferQueueEnd
infer_queue_end(InferReason reason, InferVerdict verdict, bool loading)
{
	switch (reason)
	{
		case INFER_REASON_NONE:
			return verdict == INFER_VERDICT_SUCCESS ? INFER_QUEUE_CLEAN : INFER_QUEUE_DROPPED;
		case INFER_REASON_OVERLOADED:
			return loading ? INFER_QUEUE_BEHIND : INFER_QUEUE_OVERLOADED;
		case INFER_REASON_STALE_INCARNATION:
		case INFER_REASON_TRUNCATED:
		case INFER_REASON_FILTERED:
		case INFER_REASON_REFUSED:
		case INFER_REASON_TOOL_CALL:
			/* a whole answer, that the caller does not like */
			return INFER_QUEUE_CLEAN;
		case INFER_REASON_TIMEOUT:
			/* unless the caller gave it no time */
			return verdict == INFER_VERDICT_IGNORE ? INFER_QUEUE_DROPPED : INFER_QUEUE_FAILED;
		case INFER_REASON_LOOKUP_FAILED:
		case INFER_REASON_CONNECT_FAILED:
		case INFER_REASON_TLS_FAILED:
		case INFER_REASON_DISCONNECTED:
		case INFER_REASON_QUOTA_EXCEEDED:
		case INFER_REASON_CONFLICT:
		case INFER_REASON_UNAUTHENTICATED:
		case INFER_REASON_PERMISSION_DENIED:
		case INFER_REASON_NOT_FOUND:
		case INFER_REASON_BAD_REQUEST:
		case INFER_REASON_REQUEST_TOO_LARGE:
		case INFER_REASON_SERVER_ERROR:
		case INFER_REASON_REDIRECTED:
		case INFER_REASON_MALFORMED_REPLY:
		case INFER_REASON_INCOMPLETE_REPLY:
		case INFER_REASON_REPLY_TOO_LARGE:
		case INFER_REASON_MISSING_RESULT:
		case INFER_REASON_MISALIGNED:
			return INFER_QUEUE_FAILED;
		default:
			/* ours: nobody was asked, or we did not wait */
			return INFER_QUEUE_DROPPED;
	}
}
