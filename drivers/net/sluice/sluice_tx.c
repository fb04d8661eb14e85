/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * Transmit: one template. The common packet, one segment that is ours alone, has its header written
 * into its headroom and takes one descriptor. Any other gets the shared header of zeros in front
 * and a descriptor a segment, through an indirect table where one is large enough.
 *
 * Completions are taken back when free slots run low, when the application transmits nothing at
 * all, when it asks (tx_done_cleanup), and, for a queue that lies idle, by the control thread
 * through the gate; not from receive, which may run on another lcore.
 */

#include <rte_mempool.h>
#include <rte_prefetch.h>

#include "sluice.h"
#include "sluice_gate.h"

#define INDIRECT UINT32_C(1) /* chains may go through a table */

/* Packets whose mbufs are prefetched ahead of the one at hand. */
#define AHEAD 4

/* What became of a packet that is not of the common shape. */
enum outcome {
	ADDED,
	NO_ROOM, /* in the ring, now */
	TOO_LONG,
};

/* Some of n packets are chains: count them out. */
static void
count_out(struct sluice_txq *q, struct rte_mbuf **mbufs, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n && q->multi != 0; i++)
		q->multi -= mbufs[i]->nb_segs > 1;
}

static inline void
free_completed(struct sluice_txq *q, struct rte_mbuf **mbufs, uint32_t n)
{
	/* One segment each, of one pool, with no other owner: straight back, not even looked at. */
	if (q->fast_free && q->multi == 0) {
		rte_mempool_put_bulk(mbufs[0]->pool, (void **)mbufs, n);
		return;
	}
	count_out(q, mbufs, n);
	rte_pktmbuf_free_bulk(mbufs, n);
}

uint32_t
sluice_tx_reap(struct sluice_txq *q, uint32_t most)
{
	struct rte_mbuf *mbufs[SLUICE_CHUNK];
	uint32_t total = 0;

	while (total < most) {
		uint32_t want = RTE_MIN(most - total, (uint32_t)SLUICE_CHUNK);
		uint32_t n = vq_driver_reap(&q->ring.vq, (void **)mbufs, NULL, want);

		if (n != 0)
			free_completed(q, mbufs, n);
		total += n;
		if (n < want)
			break;
	}
	return total;
}

void
sluice_tx_park(struct sluice_txq *q)
{
	q->nparked = vq_driver_reap(&q->ring.vq, (void **)q->parked, NULL, q->ring.vq.size);
	atomic_store_explicit(&q->reaped, q->ring.vq.used_idx, memory_order_relaxed);
	count_out(q, q->parked, q->nparked);
}

static void
park(void *cookie, void *arg)
{
	struct sluice_txq *q = arg;

	q->parked[q->nparked++] = cookie;
}

void
sluice_tx_drain(struct sluice_txq *q)
{
	sluice_tx_park(q);
	q->stats.reset_drops += vq_driver_detach_all(&q->ring.vq, park, q);
	q->multi = 0;
}

/* May the header be written before the first segment's data? The application must not see it. */
static inline bool
may_push(const struct rte_mbuf *m, uint32_t hdr_len)
{
	return rte_mbuf_refcnt_read(m) == 1 && RTE_MBUF_DIRECT(m) && m->data_off >= hdr_len &&
	       (m->data_off & 1) == 0;
}

/* All zeros: no offload, and num_buffers is 0 on transmit. Written only where it is not so yet. */
static inline void
clear_header(struct rte_mbuf *m, uint32_t hdr_len)
{
	struct vq_net_hdr *hdr = rte_pktmbuf_mtod_offset(m, struct vq_net_hdr *, -(int)hdr_len);
	uint64_t head; /* all before csum_offset; aligned to 2 only */

	memcpy(&head, hdr, sizeof(head));
	if (head != 0)
		memset(hdr, 0, sizeof(head));
	if (hdr->csum_offset != 0)
		hdr->csum_offset = 0;
	if (hdr_len > offsetof(struct vq_net_hdr, num_buffers) && hdr->num_buffers != 0)
		hdr->num_buffers = 0;
}

static inline uint64_t
data_addr(const struct rte_mbuf *m, uint32_t addr_at)
{
	return sluice_buf_addr(m, addr_at) + m->data_off;
}

/*
 * The elements of a packet's chain, header first; empty segments have none.
 * @return their number, or 0 if they are more than SLUICE_TX_SEGS_MAX
 */
static uint32_t
chain_of(const struct sluice_txq *q, const struct rte_mbuf *head, bool push, struct vq_sg *sg)
{
	const uint32_t hdr_len = q->ring.hdr_len;
	const uint32_t addr_at = q->ring.addr_at;
	const struct rte_mbuf *m;
	uint32_t n = 1;

	if (push)
		sg[0] = (struct vq_sg){
			data_addr(head, addr_at) - hdr_len, hdr_len + head->data_len};
	else
		sg[0] = (struct vq_sg){q->zero_addr, hdr_len};
	for (m = push ? head->next : head; m != NULL; m = m->next) {
		if (m->data_len == 0)
			continue;
		if (n == SLUICE_TX_SEGS_MAX)
			return 0;
		sg[n++] = (struct vq_sg){data_addr(m, addr_at), m->data_len};
	}
	return n;
}

static __rte_noinline enum outcome
add_any(struct sluice_txq *q, struct rte_mbuf *m, const uint32_t flags)
{
	struct vq_driver *vq = &q->ring.vq;
	struct vq_sg sg[SLUICE_TX_SEGS_MAX];
	bool push = q->push && may_push(m, q->ring.hdr_len);
	uint32_t n = chain_of(q, m, push, sg);
	bool table = (flags & INDIRECT) && n > 1 && n <= vq->table_len;
	uint32_t slots = table ? 1 : n;

	if (n == 0 || slots > vq->size)
		return TOO_LONG;
	if (vq_driver_free(vq) < slots) {
		(void)sluice_tx_reap(q, UINT32_MAX);
		if (vq_driver_free(vq) < slots)
			return NO_ROOM;
	}
	if (push)
		clear_header(m, q->ring.hdr_len);
	if (table)
		vq_driver_add_indirect(vq, sg, n, 0, m);
	else if (n == 1)
		vq_driver_add(vq, sg[0].addr, sg[0].len, 0, m);
	else
		vq_driver_add_chain(vq, sg, n, 0, m);
	if (q->fast_free)
		q->multi += m->nb_segs > 1;
	return ADDED;
}

/*
 * Add packets of the common shape, as many as come in a row and fit. The ring's state is worked on
 * in a copy: stores to headers and descriptors cannot change that, so it stays in registers.
 */
static inline uint16_t
add_plain(struct sluice_txq *q, struct rte_mbuf **pkts, uint16_t n, uint64_t *bytes)
{
	const uint32_t hdr_len = q->ring.hdr_len;
	const uint32_t addr_at = q->ring.addr_at;
	struct vq_driver vq = q->ring.vq;
	uint64_t sum = 0;
	uint16_t i, most;

	most = (uint16_t)RTE_MIN((uint32_t)n, vq_driver_free(&vq));
	for (i = 0; i < most; i++) {
		struct rte_mbuf *m = pkts[i];
		uint32_t len = m->data_len;

		if (i + AHEAD < most)
			rte_prefetch0(pkts[i + AHEAD]);
		if (unlikely(m->nb_segs != 1 || !may_push(m, hdr_len)))
			break;
		clear_header(m, hdr_len);
		vq_driver_add(&vq, data_addr(m, addr_at) - hdr_len, hdr_len + len, 0, m);
		sum += len;
	}
	q->ring.vq = vq;
	*bytes += sum;
	return i;
}

static __rte_always_inline uint16_t
transmit(struct sluice_txq *q, struct rte_mbuf **pkts, uint16_t n, const uint32_t flags)
{
	struct vq_driver *vq = &q->ring.vq;
	uint32_t free = vq_driver_free(vq);
	uint64_t bytes = 0;
	uint32_t dropped = 0, sent;
	uint16_t i = 0;

	if (n == 0 || free < q->free_thresh || free < n)
		(void)sluice_tx_reap(q, UINT32_MAX);
	while (i < n) {
		enum outcome outcome;
		struct rte_mbuf *m;
		uint32_t len;

		if (likely(q->push))
			i = (uint16_t)(i + add_plain(q, pkts + i, (uint16_t)(n - i), &bytes));
		if (i == n)
			break;
		m = pkts[i];
		len = m->pkt_len;
		outcome = add_any(q, m, flags);
		if (outcome == NO_ROOM)
			break;
		i++;
		if (likely(outcome == ADDED)) {
			bytes += len;
			continue;
		}
		dropped++;
		rte_pktmbuf_free(m);
	}
	sent = i - dropped;
	q->stats.too_many_segs += dropped;
	q->stats.packets += sent;
	q->stats.bytes += bytes;
	q->stats.ring_full += (uint64_t)(n - i);
	if (sent != 0) {
		vq_driver_publish(vq);
		sluice_ring_notify(&q->ring);
	}
	return i;
}

static uint16_t
transmit_direct(struct sluice_txq *q, struct rte_mbuf **pkts, uint16_t n)
{
	return transmit(q, pkts, n, 0);
}

static uint16_t
transmit_indirect(struct sluice_txq *q, struct rte_mbuf **pkts, uint16_t n)
{
	return transmit(q, pkts, n, INDIRECT);
}

/* One writer: a plain increment that others may read. */
static inline void
count_turn(struct sluice_ring *ring)
{
	uint32_t turns = atomic_load_explicit(&ring->turns, memory_order_relaxed);

	atomic_store_explicit(&ring->turns, turns + 1, memory_order_relaxed);
}

static inline void
leave(struct sluice_txq *q)
{
	atomic_store_explicit(&q->reaped, q->ring.vq.used_idx, memory_order_relaxed);
	sluice_gate_leave(&q->ring);
}

uint16_t
sluice_tx_burst(void *queue, struct rte_mbuf **pkts, uint16_t n)
{
	struct sluice_txq *q = queue;

	if (unlikely(!sluice_gate_enter(&q->ring))) {
		q->stats.link_down += n;
		return 0;
	}
	count_turn(&q->ring);
	n = q->burst(q, pkts, n);
	leave(q);
	return n;
}

int
sluice_tx_done_cleanup(void *queue, uint32_t n)
{
	struct sluice_txq *q = queue;
	uint32_t done;

	if (!sluice_gate_enter(&q->ring))
		return 0;
	done = sluice_tx_reap(q, n == 0 ? UINT32_MAX : n);
	leave(q);
	return (int)done;
}

void
sluice_tx_open(struct sluice_txq *q, uint64_t features)
{
	q->push = (features & (VQ_FEATURE(VERSION_1) | VQ_FEATURE(ANY_LAYOUT))) != 0;
	q->burst = q->ring.vq.indirect ? transmit_indirect : transmit_direct;
	q->multi = 0;
	q->used = q->ring.vq.used;
	atomic_store(&q->reaped, 0);
}
