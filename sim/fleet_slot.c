/*
 * sim/fleet_slot.c - what the processes share of a server: what shmem/route and shmem/admission do.
 */
#include "fleet.h"

#include <math.h>

#define PATIENCE_US       INT64_C(5000000)
#define PROBE_INTERVAL_US INT64_C(5000000)
#define WAKE_US           50
#define MODEL             UINT64_C(7)

static void
wake_line(Fleet *f, int machine)
{
	Slot *s = &f->slots[machine];
	int32_t who[8];
	int n;

	do
	{
		n = infer_admission_wake(&s->admission, s->nodes, f->now, who, 8);
		for (int i = 0; i < n; i++)
			client_schedule(f, who[i], f->now + WAKE_US);
	} while (n == 8);
}

/* A permit for one request; as infer_admission_take(). */
int
slot_take(Fleet *f, int machine, int client, bool waits, InferPermit *permit)
{
	Slot *s = &f->slots[machine];
	InferAsk ask = {.want = 1,
					.priority =
						infer_stages_priority(&f->clients[client].stages, INFER_PRIORITY_NORMAL),
					.lasts_us = f->timeout_us,
					.patience_us = PATIENCE_US,
					.wait = waits};
	int64_t stamp;
	int granted =
		infer_admission_take(&s->admission, s->nodes, client, &ask, f->now, permit, &stamp);

	if (granted <= 0)
	{
		f->seen[SOMETIMES_COOLDOWN] += infer_monitor_cools(&s->admission.monitor);
		f->seen[SOMETIMES_DIAL_WAITS] += infer_dial_room(&s->admission.dial, f->now) == 0;
	}
	wake_line(f, machine);
	return granted;
}

void
slot_leave(Fleet *f, int machine, int client)
{
	Slot *s = &f->slots[machine];

	if (s->nodes[client].want == 0)
		return;
	infer_admission_leave(&s->admission, s->nodes, client);
	wake_line(f, machine);
}

/* When a client must look by itself. */
int64_t
slot_alarm(Fleet *f, int client)
{
	int64_t at = INT64_MAX;

	for (int i = 0; i < f->nmachines; i++)
	{
		Slot *s = &f->slots[i];
		int64_t alarm;

		if (s->nodes[client].want == 0)
			continue;
		alarm = infer_admission_alarm_us(&s->admission, s->nodes, client, f->now);
		at = alarm < at ? alarm : at;
	}
	return at;
}

void
slot_send(Fleet *f, int which, const InferPermit *permit)
{
	Attempt *a = &f->attempts[which];
	Slot *s = &f->slots[a->machine];

	a->permit = *permit;
	a->reservation = infer_queue_reserve(&s->queue, f->now);
	a->sent_us = f->now;
	a->held = true;
	s->live++;
	s->started++;
	fleet_at(f, f->now + f->machines[a->machine].net_us, FLEET_ARRIVE, which);
	fleet_at(f, f->now + f->timeout_us, FLEET_TIMEOUT, which);
}

/* Of another incarnation nothing is known. */
static void
note_incarnation(Fleet *f, Slot *s, int incarnation)
{
	if (incarnation == 0 || incarnation == s->incarnation)
		return;
	if (s->incarnation != 0)
	{
		s->renewals++;
		f->seen[SOMETIMES_RENEWAL]++;
		if (f->mutation != FLEET_LEARNS_NOTHING)
			infer_queue_renew(&s->queue);
		infer_dead_clear_all(&s->dead);
	}
	s->incarnation = incarnation;
}

static void
note_behind(Fleet *f, Slot *s, bool behind)
{
	infer_loading_hear(&s->loading, behind, f->now);
	f->seen[SOMETIMES_BEHIND] += behind;
}

static void
give(Fleet *f, int which, const InferOutcome *outcome)
{
	Attempt *a = &f->attempts[which];
	Slot *s = &f->slots[a->machine];

	infer_admission_give(&s->admission, s->nodes, a->client, &a->permit, 1, outcome, f->now);
	a->held = false;
	s->live--;
	s->ended++;
}

InferFinding
slot_landed(Fleet *f, int which)
{
	Attempt *a = &f->attempts[which];
	Slot *s = &f->slots[a->machine];
	InferFinding finding = infer_proof_classify(&a->wire);
	uint64_t version = s->peer.version;
	InferOutcome outcome = {.verdict = finding.verdict,
							.reason = finding.reason,
							.draw = random_unit(&f->random),
							.rtt_us = f->now - a->sent_us,
							.units = 1,
							.retry_after_us = a->retry_after_us > 0 ? a->retry_after_us : -1,
							.left = -1};
	InferQueueReport report = {.end = infer_queue_end(finding.reason, finding.verdict, a->loading),
							   .task = INFER_TASK_CHAT,
							   .elapsed_us = f->now - a->sent_us,
							   .retry_after_us = a->retry_after_us,
							   .penalty = NAN,
							   .draw = random_unit(&f->random)};

	give(f, which, &outcome);
	if (a->wire.status > 0)
		note_incarnation(f, s, a->incarnation);
	infer_queue_release(&s->queue, &a->reservation, &report, f->now);
	if (a->wire.status > 0)
		infer_peer_hear_answer(&s->peer, f->now);
	else if (finding.reason == INFER_REASON_CONNECT_FAILED)
		infer_peer_hear_failure(&s->peer, a->sent_us, f->now);
	else if (finding.reason == INFER_REASON_DISCONNECTED)
		infer_peer_hear_disconnect(&s->peer);
	if (finding.reason == INFER_REASON_NONE)
		infer_dead_clear(&s->dead, MODEL);
	else
		infer_dead_hear(&s->dead, MODEL, a->set_version, finding.reason, true, f->now);
	if (report.end == INFER_QUEUE_CLEAN || report.end == INFER_QUEUE_BEHIND)
		note_behind(f, s, report.end == INFER_QUEUE_BEHIND);
	wake_line(f, a->machine);
	if (version != s->peer.version)
		clients_hear_change(f);
	return finding;
}

void
slot_given_up(Fleet *f, int which)
{
	static const InferOutcome given_up = {
		.verdict = INFER_VERDICT_IGNORE, .reason = INFER_REASON_CANCELLED, .retry_after_us = -1};
	static const InferQueueReport dropped = {.end = INFER_QUEUE_DROPPED};
	Attempt *a = &f->attempts[which];
	Slot *s = &f->slots[a->machine];

	give(f, which, &given_up);
	if (f->mutation != FLEET_DROPS_KEPT)
		infer_queue_release(&s->queue, &a->reservation, &dropped, f->now);
	wake_line(f, a->machine);
}

/* All that a process had, at its exit. */
void
slot_process_gone(Fleet *f, int client)
{
	for (int i = 0; i < f->nmachines; i++)
	{
		Slot *s = &f->slots[i];
		int32_t n = 0;
		double weight = 0;

		for (int k = 0; k < f->nattempts; k++)
		{
			Attempt *a = &f->attempts[k];

			if (!a->held || a->client != client || a->machine != i)
				continue;
			a->held = false;
			a->heard = true;
			n++;
			weight += a->reservation.weight;
		}
		s->live -= n;
		s->ended += n;
		infer_queue_drop(&s->queue, n, weight);
		infer_admission_reclaim(&s->admission, s->nodes, client);
		wake_line(f, i);
	}
}

/* What a decision sees of the call's places. */
void
slot_describe(Fleet *f, const Client *c, InferRoutePlace *places)
{
	for (int i = 0; i < c->nplaces; i++)
	{
		static const char *const names[] = {"s0", "s1", "s2", "s3", "s4", "s5"};
		const Slot *s = &f->slots[c->places[i]];
		bool failed = infer_peer_failed(&s->peer, f->now);
		bool dead = infer_dead_is(&s->dead, MODEL, c->set_version, f->now);
		bool loading = infer_loading_since_us(&s->loading, f->now) > 0;

		places[i] = (InferRoutePlace){
			.server = names[c->places[i]],
			.node = fleet_nodes[f->machines[c->places[i]].node],
			.service_class = "",
			.weight = 1,
			.permitted = true,
			.state = dead      ? INFER_PLACE_DEAD
					 : failed  ? INFER_PLACE_FAILED
					 : loading ? INFER_PLACE_BEHIND
							   : INFER_PLACE_UP,
			.excluded = infer_queue_excluded(&s->queue, f->now),
			.outstanding = s->queue.outstanding,
			.penalty = s->queue.penalty,
			.latency_us = (double) infer_queue_latency_us(&s->queue, INFER_TASK_CHAT, 0),
			.heard_us = infer_queue_heard_us(&s->queue, INFER_TASK_CHAT),
			.doubted = infer_queue_doubted(&s->queue, INFER_TASK_CHAT),
			.in_flight = s->queue.in_flight,
			.limit = infer_limiter_limit(&s->admission.limiter),
			.health_weight = 10,
		};
		f->seen[SOMETIMES_FAILED_ADDRESS] += failed;
		f->seen[SOMETIMES_EXCLUDED] += places[i].excluded;
		f->seen[SOMETIMES_DEAD] += dead;
	}
}

/* --- Probes --- */

void
slot_probe(Fleet *f, int machine)
{
	fleet_at(f, f->now + f->machines[machine].net_us * 2, FLEET_PROBED, machine);
	if (f->now < f->stop_us)
		fleet_at(f, f->now + PROBE_INTERVAL_US - random_below(&f->random, 1000) * MS, FLEET_PROBE,
				 machine);
}

/* Its end. A server that swallows everything is heard of a bit sooner than by its timeout. */
void
slot_probed(Fleet *f, int machine)
{
	const Machine *m = &f->machines[machine];
	Slot *s = &f->slots[machine];
	uint64_t version = s->peer.version;
	bool behind = m->gloomy || f->now < m->loading_until_us;

	if (!m->up || m->silent)
		infer_peer_hear_failure(&s->peer, f->now, f->now);
	else
	{
		f->seen[SOMETIMES_LIE] += m->broken && !behind;
		f->seen[SOMETIMES_GLOOM] += m->gloomy;
		infer_peer_hear_answer(&s->peer, f->now);
		note_incarnation(f, s, m->incarnation);
		note_behind(f, s, behind);
		if (behind)
			infer_queue_exclude(&s->queue, 0, f->now, random_unit(&f->random));
	}
	if (version != s->peer.version)
		clients_hear_change(f);
}
