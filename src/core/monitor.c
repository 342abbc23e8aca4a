/*
 * core/monitor.c - does the server of an admission key fail?  See core/monitor.h.
 */
#include "core/monitor.h"

#define STEPS  8 /* the longest cooldown is so many times the first */
#define JITTER 0.25
/* Failures that are further apart are no run: nobody knows what was between. */
#define RUN_GAP_US INT64_C(60000000)

bool
infer_monitor_cools(const InferMonitor *m)
{
	return m->step_us > 0;
}

static void
stop_cooling(InferMonitor *m)
{
	m->step_us = 0;
	m->raise_us = 0;
	m->until_us = 0;
	m->probe_us = 0;
}

void
infer_monitor_configure(InferMonitor *m, const InferMonitorConfig *config)
{
	m->config = *config;
	if (m->config.threshold <= 0)
		stop_cooling(m);
}

int
infer_monitor_room(const InferMonitor *m, int64_t now_us)
{
	if (!infer_monitor_cools(m))
		return INT32_MAX;
	return now_us >= m->until_us ? 1 : 0;
}

int64_t
infer_monitor_opens_us(const InferMonitor *m, int64_t now_us)
{
	return infer_monitor_cools(m) && m->until_us > now_us ? m->until_us : now_us;
}

/* The next probe does not wait for this one's end: it may hang, or its process may be gone. */
InferMonitorMark
infer_monitor_take(InferMonitor *m, int64_t now_us)
{
	InferMonitorMark mark = {.epoch = m->epoch, .probe = infer_monitor_cools(m)};

	if (mark.probe)
	{
		m->probe_us = now_us;
		m->until_us = now_us + m->step_us;
	}
	return mark;
}

InferHealth
infer_monitor_health(InferReason reason, InferVerdict verdict)
{
	switch (reason)
	{
		case INFER_REASON_NONE:
			return verdict == INFER_VERDICT_SUCCESS ? INFER_HEALTH_ALIVE : INFER_HEALTH_UNKNOWN;
		case INFER_REASON_LOOKUP_FAILED:
		case INFER_REASON_CONNECT_FAILED:
		case INFER_REASON_TLS_FAILED:
		case INFER_REASON_DISCONNECTED:
		case INFER_REASON_SERVER_ERROR:
		case INFER_REASON_INCOMPLETE_REPLY:
			return INFER_HEALTH_FAILING;
		case INFER_REASON_OVERLOADED:
		case INFER_REASON_QUOTA_EXCEEDED:
		case INFER_REASON_CONFLICT:
		case INFER_REASON_UNAUTHENTICATED:
		case INFER_REASON_PERMISSION_DENIED:
		case INFER_REASON_NOT_FOUND:
		case INFER_REASON_BAD_REQUEST:
		case INFER_REASON_REQUEST_TOO_LARGE:
		case INFER_REASON_REDIRECTED:
		case INFER_REASON_REPLY_TOO_LARGE:
		case INFER_REASON_MISSING_RESULT:
		case INFER_REASON_TRUNCATED:
		case INFER_REASON_FILTERED:
		case INFER_REASON_REFUSED:
		case INFER_REASON_TOOL_CALL:
		case INFER_REASON_MISALIGNED:
			return INFER_HEALTH_ALIVE;
		default:
			/* ours; or a timeout; or rubbish, which may come from anybody */
			return INFER_HEALTH_UNKNOWN;
	}
}

static void
on_alive(InferMonitor *m)
{
	m->epoch++;
	m->failures = 0;
	m->since_us = 0;
	stop_cooling(m);
}

static bool
is_stale(const InferMonitor *m, int64_t now_us)
{
	return !infer_monitor_cools(m) && now_us - m->heard_us > RUN_GAP_US;
}

static void
on_failure(InferMonitor *m, InferReason reason, int64_t now_us, double draw)
{
	if (is_stale(m, now_us))
		m->failures = 0;
	if (m->failures++ == 0)
		m->since_us = now_us;
	m->heard_us = now_us;
	m->reason = reason;
	if (m->config.threshold <= 0 || (m->failures < m->config.threshold && !infer_monitor_cools(m)))
		return;
	if (now_us >= m->raise_us)
	{
		int64_t longest = m->config.cooldown_us * STEPS;

		m->step_us = m->step_us == 0 ? m->config.cooldown_us : m->step_us * 2;
		if (m->step_us > longest)
			m->step_us = longest;
		m->raise_us = now_us + m->step_us;
	}
	m->until_us = now_us + (int64_t) ((double) m->step_us * (1 - JITTER * draw));
}

void
infer_monitor_hear(InferMonitor *m, const InferMonitorMark *mark, InferReason reason,
				   InferVerdict verdict, int64_t now_us, double draw)
{
	InferHealth health = infer_monitor_health(reason, verdict);

	if (mark->probe && reason == INFER_REASON_TIMEOUT)
		health = INFER_HEALTH_FAILING;
	if (health == INFER_HEALTH_ALIVE)
		on_alive(m);
	else if (health == INFER_HEALTH_FAILING && mark->epoch == m->epoch)
		on_failure(m, reason, now_us, draw);
}

void
infer_monitor_unsent(InferMonitor *m, const InferMonitorMark *mark, int64_t now_us)
{
	if (!mark->probe || mark->epoch != m->epoch || !infer_monitor_cools(m))
		return;
	m->until_us = now_us;
	m->probe_us = 0;
}

bool
infer_monitor_gives_up(const InferMonitor *m, int64_t patience_us, int64_t now_us)
{
	return infer_monitor_cools(m) && now_us < m->until_us && m->probe_us <= m->heard_us &&
		   now_us - m->since_us >= patience_us;
}

int64_t
infer_monitor_gives_up_us(const InferMonitor *m, int64_t patience_us, int64_t now_us)
{
	if (!infer_monitor_cools(m) || patience_us > INT64_MAX - m->since_us ||
		m->since_us + patience_us <= now_us)
		return INT64_MAX;
	return m->since_us + patience_us;
}

int64_t
infer_monitor_failing_us(const InferMonitor *m, int64_t now_us)
{
	return m->failures > 0 && !is_stale(m, now_us) ? now_us - m->since_us : 0;
}
