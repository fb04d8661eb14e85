/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <stdlib.h>

#include <rte_cycles.h>

#include "fault.h"
#include "vswitch.h"
#include "worker.h"

/*
 * Chains of a receive queue that one delivery looks at, and their pieces. A frame of 64 KiB takes
 * 128 buffers of 512 bytes.
 */
#define PUT_CHAINS 256
#define PUT_SEGS   1024

struct worker *
worker_create(struct vswitch *sw, uint32_t id, uint32_t lcore)
{
	struct worker *w =
		aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(sizeof(*w), RTE_CACHE_LINE_SIZE));

	if (w == NULL)
		return NULL;
	memset(w, 0, sizeof(*w));
	w->sw = sw;
	w->id = id;
	w->lcore = lcore;
	w->counters = stats_of_thread(&sw->stats, STATS_WORKER(id));
	w->take = vq_net_burst_create(BURST, BURST_SEGS);
	w->put = vq_net_burst_create(PUT_CHAINS, PUT_SEGS);
	if (sleep_init(w) < 0 || w->take == NULL || w->put == NULL) {
		worker_free(w);
		return NULL;
	}
	return w;
}

void
worker_free(struct worker *w)
{
	if (w == NULL)
		return;
	vq_net_burst_destroy(w->take);
	vq_net_burst_destroy(w->put);
	sleep_end(w);
	free(w);
}

/* Note what was taken, and send it on its way. */
static void
begin_burst(struct worker *w, const struct inlet *in)
{
	struct port_counters *c = &w->counters[in->port];
	struct burst *b = &w->burst;
	uint64_t bytes = 0, snapshot = 0;
	uint32_t i;

	b->from = in->port;
	b->open = b->n;
	b->pending = 0;
	b->from_eth = in->ring == NULL;
	memset(b->eth_copies, 0, b->n);
	for (i = 0; i < b->n; i++) {
		bytes += b->frames[i]->len;
		snapshot += b->frames[i]->head_len;
	}
	count(c, COUNT_RX_PACKETS, b->n);
	count(c, COUNT_RX_BYTES, bytes);
	count(c, COUNT_BYTES_SNAPSHOT, snapshot);

	if (unlikely(in->discard))
		drop_burst(w, DROP_DISABLED);
	else if (w->view->ports[in->port].loopback)
		reflect_burst(w, in->queue);
	else
		forward_burst(w);
}

/* Give the guest its buffers back. */
static void
end_ring_burst(struct worker *w, const struct inlet *in)
{
	struct vring *ring = in->ring;
	uint32_t published = vq_net_release(ring->vq, w->take, w->burst.n);
	uint64_t bytes = 0;
	uint32_t i;

	if (ring->adaptive)
		for (i = 0; i < w->burst.n; i++)
			bytes += w->burst.frames[i]->len;
	call_ring(w, ring, decide_call(w, ring, published, bytes), published);
	w->inlet = NULL;
}

/* No more bytes than one queue may have in a turn: the rest stays in the ring. */
static uint32_t
bound_bytes(struct vq_device *q, const struct vq_net_burst *taken, uint32_t n)
{
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < n; i++) {
		bytes += taken->frames[i].len;
		/* One alone that is longer is too big for every port. */
		if (i != 0 && bytes > TURN_BYTES)
			break;
	}
	vq_device_rewind(q, n - i);
	return i;
}

static uint32_t
poll_ring(struct worker *w, const struct inlet *in)
{
	struct burst *b = &w->burst;
	uint32_t n, i;

	if (unlikely(atomic_load_explicit(&in->ring->dead, memory_order_relaxed)))
		return 0;
	b->n = 0;
	b->open = 0;
	w->inlet = in;
	n = vq_net_take(in->ring->vq, w->take, BURST, w->view->ports[in->port].hdr_len);
	if (n == 0) {
		w->inlet = NULL;
		return 0;
	}
	b->n = bound_bytes(in->ring->vq, w->take, n);
	for (i = 0; i < b->n; i++) {
		b->frames[i] = &w->take->frames[i];
		b->heads[i] = w->take->heads[i];
	}
	begin_burst(w, in);
	end_ring_burst(w, in);
	return b->n;
}

uint32_t
poll_eth(struct worker *w, const struct inlet *in)
{
	w->inlet = in;
	if (take_eth(w, in) != 0) {
		begin_burst(w, in);
		release_eth(w);
	}
	w->inlet = NULL;
	return w->burst.n;
}

/* @return frames taken */
static uint32_t
turn(struct worker *w)
{
	const struct view_worker *mine;
	uint32_t packets = 0;
	uint32_t i;

	w->now = rte_rdtsc();
	if (unlikely(w->now >= w->next_second)) {
		w->second = (uint32_t)(w->now / rte_get_tsc_hz());
		w->next_second = ((uint64_t)w->second + 1) * rte_get_tsc_hz();
	}
	w->view = view_current(&w->sw->views);
	mine = &w->view->workers[w->id];
	for (i = 0; i < mine->ninlets; i++) {
		const struct inlet *in = &mine->inlets[i];

		packets += in->ring != NULL ? poll_ring(w, in) : poll_eth(w, in);
	}
	for (i = 0; i < mine->nrings; i++)
		serve_deferred(w, mine->rings[i], false);
	learn_announce(w);
	rte_rcu_qsbr_quiescent(w->sw->views.readers, w->id);

	add_own(&w->turns, 1);
	if (packets != 0) {
		add_own(&w->busy_turns, 1);
		add_own(&w->packets, packets);
	}
	return packets;
}

/* The burst cannot be finished: its source is gone. What was not delivered is lost. */
static void
abandon_burst(struct worker *w)
{
	struct burst *b = &w->burst;

	for (; b->pending != 0; b->pending &= b->pending - 1)
		b->count[__builtin_ctzll(b->pending)] = 0;
	drop_frame(w, DROP_BROKEN, PORTS_MAX, b->open);
	w->inlet = NULL;
}

static uint32_t
copies_pending(const struct burst *b)
{
	uint64_t pending = b->pending;
	uint32_t copies = 0;

	for (; pending != 0; pending &= pending - 1)
		copies += b->count[__builtin_ctzll(pending)];
	return copies;
}

/*
 * A guest's memory faulted somewhere below turn(). Its port gets no more turns; what other ports
 * have in hand is finished. May fault again, for another port, and comes here again.
 */
static void
recover(struct worker *w)
{
	const struct inlet *in = w->inlet;

	add_own(&w->faults, 1);
	fault_mark_port(w, w->fault_port, PORT_FAULT_MEMORY);
	rte_pktmbuf_free_bulk(w->eth.mbufs, w->eth.n);
	w->eth.n = 0;
	if (w->delivery.ring != NULL)
		deliver_ring_recover(w);
	if (in == NULL)
		return;
	if (in->port == w->fault_port) {
		abandon_burst(w);
		return;
	}
	/* What was still to be spread over other queues of the port that is gone. */
	drop_frame(w, DROP_BROKEN, w->fault_port, w->burst.open - copies_pending(&w->burst));
	deliver_burst(w);
	if (in->ring != NULL) {
		end_ring_burst(w, in);
	} else {
		release_eth(w);
		w->inlet = NULL;
	}
}

int
worker_main(void *arg)
{
	struct worker *w = arg;
	struct rte_rcu_qsbr *readers = w->sw->views.readers;

	rte_rcu_qsbr_thread_register(readers, w->id);
	rte_rcu_qsbr_thread_online(readers, w->id);
	w->thread = pthread_self();
	atomic_store_explicit(&w->started, true, memory_order_release);
	fault_set_worker(w);
	if (sigsetjmp(w->env, 0) != 0) {
		recover(w);
		sleep_recover(w);
	}
	while (likely(!atomic_load_explicit(&w->sw->stop, memory_order_relaxed))) {
		uint32_t packets = turn(w);

		if (unlikely(w->sleeper.asks))
			sleep_ask(w);
		if (packets == 0 && w->sleeper.on)
			sleep_if_idle(w);
	}
	fault_set_worker(NULL);
	w->view = NULL;
	rte_rcu_qsbr_thread_offline(readers, w->id);
	rte_rcu_qsbr_thread_unregister(readers, w->id);
	return 0;
}
