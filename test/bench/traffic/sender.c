/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <string.h>

#include <rte_cycles.h>

#include "segments.h"
#include "sender.h"
#include "ticks.h"

/* A closed loop that is silent for so long has lost what was in flight: longer than the other side
 * may be without its CPU, since too many in flight are lost indeed.
 */
#define PATIENCE_MS 1000

void
sender_init(struct sender *s, const struct options *o, const struct ports *ports,
	const struct frame_maker *maker, uint64_t duration_us, uint64_t count)
{
	uint32_t q;

	memset(s, 0, sizeof(*s));
	histogram_init(&s->lateness);
	s->options = o;
	s->port = ports->tx;
	s->pool = ports->tx_pool;
	s->segment = ports->tx_segment;
	s->maker = maker;
	s->late = ticks_of_us(o->late_us);
	s->patience = ticks_of_us(PATIENCE_MS * 1000);
	s->end = duration_us != 0 ? ticks_of_us(duration_us) : UINT64_MAX;
	s->count = count != 0 ? count : UINT64_MAX;
	for (q = 0; q < o->queues; q++) {
		s->queues[q].first = q;
		s->queues[q].flows = (o->flows - q + o->queues - 1) / o->queues;
	}
}

void
sender_start(struct sender *s, uint64_t now)
{
	const struct options *o = s->options;
	const struct pacer_shape shape = {
		.rate = o->rate, .group = o->group, .on_us = o->on_us, .off_us = o->off_us};

	s->start = s->seen_at = now;
	s->on = ticks_of_us(o->on_us);
	s->off = ticks_of_us(o->off_us);
	if (s->end != UINT64_MAX)
		s->end += now;
	if (o->rate != 0)
		pacer_init(&s->pacer, &shape, rte_get_tsc_hz(), now, s->end);
}

/* Place a queue at the frame that follows its first `sent`. */
static void
place(const struct sender *s, struct sender_queue *q, uint64_t sent)
{
	q->sent = sent;
	q->sequence = s->options->global ? sent : sent / q->flows;
	q->flow = (uint32_t)(sent % q->flows);
	q->size = (uint32_t)(sent % s->options->nsizes);
}

static inline void
step(const struct sender *s, struct sender_queue *q)
{
	const struct options *o = s->options;

	q->sent++;
	if (++q->size == o->nsizes)
		q->size = 0;
	if (++q->flow == q->flows)
		q->flow = 0;
	q->sequence += o->global || q->flow == 0;
}

/* Frames whose time has come, at most n. */
static inline uint32_t
due(struct sender *s, uint64_t now, uint32_t n)
{
	uint64_t late;
	uint32_t i;

	if (s->options->rate == 0) {
		if (now >= s->end || (s->off != 0 && (now - s->start) % (s->on + s->off) >= s->on))
			return 0;
		return n;
	}
	for (i = 0; i < n && pacer_due(&s->pacer, now); i++) {
		if (s->options->shift && now - s->pacer.next > s->late)
			pacer_shift(&s->pacer, now);
		late = pacer_take(&s->pacer, now);
		histogram_add(&s->lateness, late);
		s->late_frames += late > s->late;
	}
	return i;
}

/* How many the window lets go. What does not arrive for long is written off. */
static uint32_t
room(struct sender *s, uint64_t now)
{
	uint64_t arrived = atomic_load_explicit(s->arrived, memory_order_relaxed);
	uint64_t missing = s->sent > arrived ? s->sent - arrived : 0;

	if (s->written_off > missing)
		s->written_off = missing; /* some were late, not lost */
	s->in_flight = missing - s->written_off;
	if (arrived != s->seen_arrived || s->in_flight == 0) {
		s->seen_arrived = arrived;
		s->seen_at = now;
	} else if (now - s->seen_at > s->patience) {
		s->written_off += s->in_flight;
		s->window_resets++;
		s->seen_at = now;
		s->in_flight = 0;
	}
	if (s->in_flight >= s->options->window)
		return 0;
	return s->options->window - (uint32_t)s->in_flight;
}

static inline bool
open_loop(const struct sender *s)
{
	return s->options->rate != 0 && s->options->window == 0;
}

/* Write the next n frames of a queue into the held mbufs; the queue moves on. @return how many
 * frames there were mbufs for
 */
static inline uint32_t
write_frames(struct sender *s, struct sender_queue *q, uint32_t n)
{
	const struct options *o = s->options;
	uint64_t tsc = rte_rdtsc();
	uint32_t i;

	for (i = 0; i < n; i++) {
		struct rte_mbuf *m = s->held[i];
		uint32_t size = o->sizes[q->size];

		if (unlikely(!segments_shape(m, s->pool, s->segment, size)))
			break;
		frame_write(
			s->maker, m, q->first + q->flow * o->queues, (uint32_t)q->sequence, tsc);
		s->sizes[i] = size;
		step(s, q);
	}
	return i;
}

static bool
have_mbufs(struct sender *s, uint32_t n)
{
	if (s->nheld >= n)
		return true;
	if (rte_pktmbuf_alloc_bulk(s->pool, s->held + s->nheld, n - s->nheld) != 0)
		return false;
	s->nheld = n;
	return true;
}

/* What was not accepted of n frames. */
static void
not_accepted(struct sender *s, uint32_t n)
{
	if (open_loop(s)) {
		s->refused += n;
		s->owed -= n;
	} else {
		s->retries += n;
	}
}

static void
send_frames(struct sender *s, uint64_t now, uint32_t n)
{
	struct sender_queue *q = &s->queues[s->queue];
	uint64_t before = q->sent;
	uint32_t ready = have_mbufs(s, n) ? write_frames(s, q, n) : 0;
	uint32_t taken, i;

	if (unlikely(ready < n)) {
		s->no_mbuf += n - ready;
		not_accepted(s, n - ready);
		n = ready;
		if (n == 0)
			return;
	}
	taken = rte_eth_tx_burst(s->port->id, (uint16_t)s->queue, s->held, (uint16_t)n);
	s->calls++;
	if (++s->queue == s->options->queues)
		s->queue = 0;
	for (i = 0; i < taken; i++)
		s->sent_bytes += s->sizes[i];
	s->sent += taken;
	s->in_flight += taken;
	s->owed -= taken;
	if (taken != 0) {
		if (s->sent == taken)
			s->first_sent = now;
		s->last_sent = now;
	}
	s->nheld -= taken;
	if (unlikely(taken < n)) {
		s->short_calls++;
		memmove(s->held, s->held + taken, s->nheld * sizeof(s->held[0]));
		place(s, q, before + taken);
		not_accepted(s, n - taken);
	} else if (unlikely(s->nheld != 0)) {
		memmove(s->held, s->held + taken, s->nheld * sizeof(s->held[0]));
	}
}

/* Will no frame be due any more? */
static bool
over(const struct sender *s, uint64_t now)
{
	if (s->offered == s->count)
		return true;
	return s->options->rate != 0 ? pacer_over(&s->pacer) : now >= s->end;
}

/* The frames that were offered and will not be sent: a paced one was refused by the window, one
 * without a schedule was never due.
 */
static bool
finish(struct sender *s, uint64_t now)
{
	if (s->options->rate != 0)
		s->refused += s->owed;
	else
		s->offered -= s->owed;
	s->owed = 0;
	s->done = now;
	return false;
}

bool
sender_turn(struct sender *s, uint64_t now, bool stop)
{
	uint32_t want = s->options->burst, n;

	if (unlikely(stop))
		return finish(s, now);
	if (s->owed < want) {
		uint64_t left = s->count - s->offered;

		n = due(s, now, left < want - s->owed ? (uint32_t)left : want - s->owed);
		s->offered += n;
		s->owed += n;
	}
	n = s->owed;
	if (s->options->window != 0)
		n = RTE_MIN(n, room(s, now));
	if (n != 0)
		send_frames(s, now, n);
	if (unlikely(over(s, now)) && (s->owed == 0 || now >= s->end))
		return finish(s, now);
	return true;
}

uint64_t
sender_next(const struct sender *s, uint64_t now)
{
	if (s->owed == 0)
		return s->options->rate != 0 ? s->pacer.next : now;
	if (s->options->window == 0 || s->in_flight < s->options->window)
		return now;
	return RTE_MIN(s->seen_at + s->patience + 1, s->end);
}

void
sender_end(struct sender *s)
{
	rte_pktmbuf_free_bulk(s->held, s->nheld);
	s->nheld = 0;
}

uint64_t
sender_flow_sent(const struct sender *s, uint32_t flow)
{
	const struct sender_queue *q = &s->queues[flow % s->options->queues];

	return q->sent / q->flows + (flow / s->options->queues < q->sent % q->flows);
}

uint64_t
sender_sequence_sent(const struct sender *s, uint32_t sequence)
{
	return s->options->global ? s->sent : sender_flow_sent(s, sequence);
}
