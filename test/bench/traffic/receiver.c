/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_mempool.h>
#include <rte_prefetch.h>

#include "receiver.h"
#include "ticks.h"

#define AHEAD 4

int
receiver_init(struct receiver *r, const struct options *o, const struct ports *ports,
	const struct frame_maker *maker, const struct stalls *stalls)
{
	uint32_t i;

	memset(r, 0, sizeof(*r));
	histogram_init(&r->latency);
	r->options = o;
	r->port = ports->rx;
	r->maker = maker;
	r->stalls = stalls;
	spells_init(&r->away, 0, 0, 0);
	starve_init(&r->starve);
	calls_init(&r->timed);
	r->sequences = malloc(receiver_sequences(r) * sizeof(*r->sequences));
	r->flow_received = malloc(o->flows * sizeof(*r->flow_received));
	if (r->sequences == NULL || r->flow_received == NULL) {
		receiver_free(r);
		return -ENOMEM;
	}
	/* Written now, so that no page is new when the first frame comes. */
	for (i = 0; i < receiver_sequences(r); i++)
		sequence_init(&r->sequences[i]);
	for (i = 0; i < o->flows; i++)
		r->flow_received[i] = 0;
	return 0;
}

void
receiver_free(struct receiver *r)
{
	starve_free(&r->starve);
	free(r->sequences);
	free(r->flow_received);
	r->sequences = NULL;
	r->flow_received = NULL;
}

int
receiver_disturb(struct receiver *r, const struct ports *ports)
{
	const struct options *o = r->options;

	spells_init(&r->away, ticks_of_us(o->away_us), ticks_of_us(o->away_every_us), o->seed);
	if (o->starve_us == 0)
		return 0;
	/* Some ports hand over the mbufs of the sender. */
	return starve_plan(&r->starve, ports->rx_pool,
		ports->rx_pool->size + (ports->tx_pool != NULL ? ports->tx_pool->size : 0),
		ticks_of_us(o->starve_us), ticks_of_us(o->starve_every_us), ~o->seed);
}

void
receiver_starve(struct receiver *r, uint64_t now)
{
	if (unlikely(starve_turn(&r->starve, now)))
		calls_after_dry(&r->timed);
}

void
receiver_calm(struct receiver *r, uint64_t now)
{
	spells_end(&r->away, now);
	spells_end(&r->starve.spells, now);
}

void
receiver_start(struct receiver *r, uint64_t now)
{
	r->start = r->last_arrival = now;
	spells_start(&r->away, now);
	spells_start(&r->starve.spells, now);
}

static void
silence_ends(struct receiver *r, uint64_t now)
{
	uint64_t silence = now - r->last_arrival;
	uint64_t stalled = stalls_until(r->stalls, now);

	if (silence > r->silence) {
		r->silence = silence;
		r->silence_at = r->last_arrival;
		/* A stall may have begun before the silence. */
		r->silence_stalled = RTE_MIN(stalled - r->stalled_before, silence);
	}
	r->last_arrival = now;
	r->stalled_before = stalled;
}

static void
take_good(struct receiver *r, const struct frame_info *info, uint32_t size, uint64_t now)
{
	struct sequence *s = &r->sequences[r->options->global ? 0 : info->flow];
	uint64_t next = s->next;

	if (sequence_take(s, info->sequence) != SEQUENCE_NEW)
		return;
	if (unlikely(s->next > next + 1))
		longest_add(&r->gaps, s->next - next - 1, now, info->flow);
	r->flow_received[info->flow]++;
	r->received_bytes += size;
	if (unlikely(now < info->sent)) {
		r->before_sent++;
		histogram_add(&r->latency, 0);
	} else {
		histogram_add(&r->latency, now - info->sent);
	}
}

static void
take_burst(struct receiver *r, uint32_t n, uint64_t now)
{
	uint64_t good = r->kinds[FRAME_GOOD];
	struct frame_info info;
	uint32_t i;

	for (i = 0; i < n && i < AHEAD; i++)
		rte_prefetch0(rte_pktmbuf_mtod(r->mbufs[i], void *));
	for (i = 0; i < n; i++) {
		const struct rte_mbuf *m = r->mbufs[i];
		enum frame_kind kind;

		if (i + AHEAD < n)
			rte_prefetch0(rte_pktmbuf_mtod(r->mbufs[i + AHEAD], void *));
		kind = frame_read(r->maker, m, r->options->flows, &info);
		r->kinds[kind]++;
		if (likely(kind == FRAME_GOOD))
			take_good(r, &info, rte_pktmbuf_pkt_len(m), now);
	}
	if (r->kinds[FRAME_GOOD] == good)
		return;
	if (r->first_arrival == 0)
		r->first_arrival = now;
	silence_ends(r, now);

	/* Read by the sender, maybe on another lcore. */
	atomic_store_explicit(&r->arrived, r->latency.count, memory_order_relaxed);
}

static uint32_t
timed_burst(struct receiver *r, uint16_t queue)
{
	uint64_t begin = rte_rdtsc();
	uint32_t n = rte_eth_rx_burst(r->port->id, queue, r->mbufs, (uint16_t)r->options->burst);

	calls_note(&r->timed, begin, rte_rdtsc() - begin, n);
	return n;
}

static inline uint32_t
burst(struct receiver *r, uint16_t queue)
{
	if (unlikely(r->options->time_calls))
		return timed_burst(r, queue);
	return rte_eth_rx_burst(r->port->id, queue, r->mbufs, (uint16_t)r->options->burst);
}

uint32_t
receiver_turn(struct receiver *r)
{
	uint32_t total = 0;
	uint16_t q;

	for (q = 0; q < r->port->rx_queues; q++) {
		uint32_t n = burst(r, q);

		if (n == 0)
			continue;
		r->calls++;
		r->frames += n;
		total += n;
		take_burst(r, n, rte_rdtsc());
		if (unlikely(r->starve.now))
			starve_keep(&r->starve, r->mbufs, n);
		else
			rte_pktmbuf_free_bulk(r->mbufs, n);
	}
	return total;
}

void
receiver_finish(struct receiver *r, uint64_t sending_ended)
{
	uint64_t last = r->last_arrival;

	if (sending_ended > last) {
		silence_ends(r, sending_ended);
		r->last_arrival = last;
	}
}
