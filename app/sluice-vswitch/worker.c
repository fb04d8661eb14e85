/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
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

static void
list_all(frame_list list, const struct vq_frame *frames)
{
	uint32_t i;

	for (i = 0; i < BURST; i++)
		list[i] = &frames[i];
}

struct worker *
worker_create(struct vswitch *sw, uint32_t id, uint32_t lcore)
{
	struct worker *w =
		aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(sizeof(*w), RTE_CACHE_LINE_SIZE));
	uint32_t i;
	int ret;

	if (w == NULL)
		return NULL;
	memset(w, 0, sizeof(*w));
	w->sw = sw;
	w->id = id;
	w->lcore = lcore;
	w->counters = stats_of_thread(&sw->stats, STATS_WORKER(id));
	w->take = vq_net_burst_create(BURST, BURST_SEGS);
	w->put = vq_net_burst_create(PUT_CHAINS, PUT_SEGS);
	ret = sleep_init(w);
	if (ret < 0 || w->take == NULL || w->put == NULL) {
		worker_free(w);
		errno = ret < 0 ? -ret : ENOMEM;
		return NULL;
	}
	/* There is something to look at, whatever the status of a frame. */
	for (i = 0; i < BURST; i++)
		w->take->frames[i].head = w->take->heads[i];
	list_all(w->taken, w->take->frames);
	list_all(w->eth_taken, w->eth_frames);
	w->quiet = rte_get_tsc_hz() / 1000000 * QUIET_US;
	forward_init(w);
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

/* The two addresses of a frame: 8 bytes and 4. */
static inline uint64_t
addresses_differ(const uint8_t *head, const uint8_t *other)
{
	uint64_t a, b;
	uint32_t c, d;

	memcpy(&a, head, 8);
	memcpy(&b, other, 8);
	memcpy(&c, head + 8, 4);
	memcpy(&d, other + 8, 4);
	return (a ^ b) | (c ^ d);
}

/* One look at each frame says what the rest goes by. @return bytes that were copied to look at */
static inline uint64_t
measure_burst(struct burst *b)
{
	const struct vq_frame *f = b->frames[0];
	uint64_t differ = 0, bytes = 0, heads = 0;
	uint32_t bad = 0, longest = 0;
	uint32_t i;

	for (i = 0; i < b->n; i++) {
		differ |= addresses_differ(f[i].head, f[0].head);
		bad |= f[i].status;
		bytes += f[i].len;
		heads += f[i].head_len;
		longest = RTE_MAX(longest, f[i].len);
	}
	b->bytes = bytes;
	b->longest = longest;
	b->good = bad == VQ_NET_OK;
	b->same = b->good && differ == 0;
	return heads;
}

/* No more bytes than one queue may have in a turn: the rest stays in the ring. */
static void
bound_bytes(struct burst *b, struct vq_device *q)
{
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < b->n; i++) {
		bytes += b->frames[i]->len;
		/* One alone that is longer is too big for every port. */
		if (i != 0 && bytes > TURN_BYTES)
			break;
	}
	vq_device_rewind(q, b->n - i);
	b->n = i;
}

/* Measure what was taken, and send it on its way. */
static void
begin_burst(struct worker *w, const struct inlet *in)
{
	struct port_counters *c = &w->counters[in->port];
	struct burst *b = &w->burst;
	uint64_t snapshot = measure_burst(b);

	if (unlikely(b->bytes > TURN_BYTES) && in->ring != NULL) {
		bound_bytes(b, in->ring->vq);
		snapshot = measure_burst(b);
	}
	b->from = in->port;
	b->open = b->n;
	b->pending = 0;
	count(c, COUNT_RX_PACKETS, b->n);
	count(c, COUNT_RX_BYTES, b->bytes);
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

	call_ring(w, ring, decide_call(w, ring, published, w->burst.bytes), published);
	w->inlet = NULL;
}

/* Has the guest published nothing that was not taken? Costs less than to try. */
static inline bool
is_empty(const struct vq_device *q)
{
	return q->avail_seen == q->avail_idx && vq_load_index(&q->avail->idx) == q->avail_idx;
}

static uint32_t
poll_ring(struct worker *w, const struct inlet *in)
{
	struct burst *b = &w->burst;

	if (unlikely(atomic_load_explicit(&in->ring->dead, memory_order_relaxed)) ||
		is_empty(in->ring->vq))
		return 0;
	b->n = 0;
	b->open = 0;
	w->inlet = in;
	b->n = vq_net_take(in->ring->vq, w->take, BURST, w->view->ports[in->port].hdr_len);
	if (b->n == 0) {
		w->inlet = NULL;
		return 0;
	}
	b->frames = w->taken;
	b->from_eth = false;
	begin_burst(w, in);
	end_ring_burst(w, in);
	return b->n;
}

uint32_t
poll_eth(struct worker *w, const struct inlet *in)
{
	w->inlet = in;
	w->burst.frames = w->eth_taken;
	w->burst.from_eth = true;
	if (take_eth(w, in) != 0) {
		begin_burst(w, in);
		release_eth(w);
	}
	w->inlet = NULL;
	return w->burst.n;
}

/* Take from one queue, and note whether it is busy. @return frames taken */
static inline uint32_t
poll_inlet(struct worker *w, const struct view_worker *mine, uint32_t i)
{
	const struct inlet *in = &mine->inlets[i];
	const uint64_t bit = UINT64_C(1) << i % 64;
	uint32_t n;

	if (unlikely(in->ring == NULL))
		return poll_eth(w, in);
	n = poll_ring(w, in);
	/* A queue that stays busy, or quiet, costs no store. */
	if (n != 0) {
		if (mine->empty[i] != 0) {
			mine->empty[i] = 0;
			mine->busy[i / 64] |= bit;
		}
	} else if (mine->empty[i] != QUIET_LOOKS && ++mine->empty[i] == QUIET_LOOKS) {
		mine->busy[i / 64] &= ~bit;
	}
	return n;
}

/* The queues to look at, of those whose bits are in one word. */
static inline uint64_t
to_look_at(const struct worker *w, const struct view_worker *mine, uint32_t word, bool whole)
{
	const uint64_t share = UINT64_MAX / ((1 << QUIET_TURNS) - 1) << w->share;
	const uint32_t left = mine->ninlets - 64 * word;
	uint64_t all = left < 64 ? (UINT64_C(1) << left) - 1 : UINT64_MAX;

	return whole ? all : (mine->busy[word] | share) & all;
}

uint32_t
worker_turn(struct worker *w)
{
	const struct view_worker *mine;
	uint32_t packets = 0;
	uint32_t i;
	bool whole;

	w->now = rte_rdtsc();
	if (unlikely(w->now >= w->next_second)) {
		w->second = (uint32_t)(w->now / rte_get_tsc_hz());
		w->next_second = ((uint64_t)w->second + 1) * rte_get_tsc_hz();
	}
	w->view = view_current(&w->sw->views);
	mine = &w->view->workers[w->id];
	/* Turns are long where somebody floods: then the time counts. */
	whole = !w->found || w->now - w->full >= w->quiet;
	if (whole)
		w->full = w->now;
	for (i = 0; i < view_words(mine); i++) {
		uint64_t look = to_look_at(w, mine, i, whole);

		for (; look != 0; look &= look - 1)
			packets += poll_inlet(w, mine, 64 * i + (uint32_t)__builtin_ctzll(look));
	}
	w->share = (w->share + 1) % QUIET_TURNS;
	w->found = packets != 0;
	if (unlikely(w->deferred != 0))
		serve_deferred(w, false);
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
 * A guest's memory faulted somewhere below worker_turn(). Its port gets no more turns; what other
 * ports have in hand is finished. May fault again, for another port, and comes here again.
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
		uint32_t packets = worker_turn(w);

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
