/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * Transmit: one template. The common packet, one segment that is ours alone, has its header written
 * into its headroom and takes one descriptor. Any other gets the shared header of zeros in front
 * and a descriptor a segment, through an indirect table where one is large enough.
 *
 * The common packet is also plain to free: nobody else can get a reference to what was given away,
 * so it goes back to its pool without another look, whether the application promised
 * MBUF_FAST_FREE or not. That holds for one pool at a time.
 *
 * Completions are taken back when free slots run low, when the application transmits nothing at
 * all, when it asks (tx_done_cleanup), and, for a queue that lies idle, by the control thread
 * through the gate; not from receive, which may run on another lcore.
 */

#include <rte_branch_prediction.h>

#include "sluice.h"
#include "sluice_gate.h"
#include "sluice_pool.h"

#define INDIRECT UINT32_C(1) /* chains may go through a table */

/* What became of a packet that is not of the common shape. */
enum outcome {
	ADDED,
	NO_ROOM, /* in the ring, now */
	TOO_LONG,
};

/* Cookies of packets that are not plain have this bit. */
#define ODD ((uintptr_t)1)

static inline void *
odd_cookie(struct rte_mbuf *m)
{
	return (void *)((uintptr_t)m | ODD);
}

/* The packet of a cookie; counts out those that are not plain. */
static inline struct rte_mbuf *
packet_of(struct sluice_txq *q, void *cookie)
{
	q->odd -= (uintptr_t)cookie & ODD;
	return (struct rte_mbuf *)((uintptr_t)cookie & ~ODD);
}

/* All in flight are plain, and go back as they are: into the lcore's cache at once if it has room.
 */
static inline uint32_t
reap_plain(struct sluice_txq *q, uint32_t want)
{
	struct rte_mempool_cache *cache = sluice_pool_cache(q->pool);
	void *mbufs[SLUICE_CHUNK];
	uint32_t n;

	if (likely(cache != NULL && cache->len + want <= cache->size)) {
		n = vq_driver_reap(&q->ring.vq, &cache->objs[cache->len], NULL, want);
		cache->len += n;
		return n;
	}
	n = vq_driver_reap(&q->ring.vq, mbufs, NULL, want);
	if (n != 0)
		rte_mempool_put_bulk(q->pool, mbufs, n);
	return n;
}

static __rte_noinline uint32_t
reap_mixed(struct sluice_txq *q, uint32_t want)
{
	void *mbufs[SLUICE_CHUNK];
	uint32_t n, i, plain = 0;

	n = vq_driver_reap(&q->ring.vq, mbufs, NULL, want);
	for (i = 0; i < n; i++) {
		if ((uintptr_t)mbufs[i] & ODD)
			rte_pktmbuf_free(packet_of(q, mbufs[i]));
		else
			mbufs[plain++] = mbufs[i];
	}
	if (plain != 0)
		rte_mempool_put_bulk(q->pool, mbufs, plain);
	return n;
}

uint32_t
sluice_tx_reap(struct sluice_txq *q, uint32_t most)
{
	uint32_t total = 0;

	most = RTE_MIN(most, vq_driver_inflight(&q->ring.vq));
	while (total < most) {
		uint32_t want = RTE_MIN(most - total, (uint32_t)SLUICE_CHUNK);
		uint32_t n = likely(q->odd == 0) ? reap_plain(q, want) : reap_mixed(q, want);

		total += n;
		if (n < want)
			break;
	}
	return total;
}

void
sluice_tx_park(struct sluice_txq *q)
{
	uint32_t i;

	q->nparked = vq_driver_reap(&q->ring.vq, (void **)q->parked, NULL, q->ring.vq.size);
	atomic_store_explicit(&q->reaped, q->ring.vq.used_idx, memory_order_relaxed);
	for (i = 0; i < q->nparked; i++)
		q->parked[i] = packet_of(q, q->parked[i]);
}

static void
park(void *cookie, void *arg)
{
	struct sluice_txq *q = arg;

	q->parked[q->nparked++] = packet_of(q, cookie);
}

void
sluice_tx_drain(struct sluice_txq *q)
{
	sluice_tx_park(q);
	q->stats.reset_drops += vq_driver_detach_all(&q->ring.vq, park, q);
}

/* May the header be written before the first segment's data? The application must not see it. */
static inline bool
may_push(const struct rte_mbuf *m, uint32_t hdr_len)
{
	return rte_mbuf_refcnt_read(m) == 1 && RTE_MBUF_DIRECT(m) && m->data_off >= hdr_len &&
	       (m->data_off & 1) == 0;
}

/* The same, and one segment: few instructions, since each packet is asked. */
static inline bool
is_plain(const struct rte_mbuf *m, uint32_t hdr_len)
{
	const uint32_t alone = 1 | UINT32_C(1) << 16;
	uint32_t references_segments;

	memcpy(&references_segments, (const char *)m + offsetof(struct rte_mbuf, refcnt),
		sizeof(references_segments));
	/* No more headroom than half of what there could be; then too little is a carry. */
	return references_segments == alone && RTE_MBUF_DIRECT(m) &&
	       ((m->data_off - hdr_len) & 0x8001) == 0;
}

_Static_assert(
	offsetof(struct rte_mbuf, nb_segs) == offsetof(struct rte_mbuf, refcnt) + sizeof(uint16_t),
	"beside each other");

/* All zeros: no offload, and num_buffers is 0 on transmit. Written only where it is not so yet. */
static inline void
clear_header(struct rte_mbuf *m, uint32_t hdr_len)
{
	char *hdr = rte_pktmbuf_mtod_offset(m, char *, -(int)hdr_len);
	struct {
		uint64_t head;
		uint32_t tail;
	} now;

	memcpy(&now.head, hdr, sizeof(now.head));
	if (unlikely(now.head != 0))
		memset(hdr, 0, sizeof(now.head));
	if (unlikely(hdr_len != sizeof(struct vq_net_hdr))) {
		memset(hdr + sizeof(now.head), 0, sizeof(uint16_t)); /* without num_buffers */
		return;
	}
	memcpy(&now.tail, hdr + sizeof(now.head), sizeof(now.tail));
	if (now.tail != 0)
		memset(hdr + sizeof(now.head), 0, sizeof(now.tail));
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
	q->odd++;
	if (table)
		vq_driver_add_indirect(vq, sg, n, 0, odd_cookie(m));
	else if (n == 1)
		vq_driver_add(vq, sg[0].addr, sg[0].len, 0, odd_cookie(m));
	else
		vq_driver_add_chain(vq, sg, n, 0, odd_cookie(m));
	return ADDED;
}

/* Add packets of the common shape, as many as come in a row and fit. */
static inline uint16_t
add_plain(struct sluice_txq *q, struct rte_mbuf **pkts, uint16_t n, uint64_t *bytes)
{
	struct vq_driver *vq = &q->ring.vq;
	const uint32_t hdr_len = q->ring.hdr_len;
	const uint32_t addr_at = q->ring.addr_at;
	const struct rte_mempool *pool = q->pool;
	uint32_t left = RTE_MIN((uint32_t)n, vq_driver_free(vq));
	uint32_t done = 0, odd = 0, i;
	uint64_t sum = 0;

	while (left != 0) {
		const struct vq_driver_run run = vq_driver_run(vq, left);
		struct rte_mbuf **from = pkts + done;

		for (i = 0; i < run.n; i++) {
			struct rte_mbuf *m = from[i];
			const uint32_t len = m->data_len;
			void *cookie = m;

			if (unlikely(!is_plain(m, hdr_len)))
				break;
			if (unlikely(m->pool != pool)) {
				cookie = odd_cookie(m);
				odd++;
			}
			clear_header(m, hdr_len);
			vq_driver_fill(
				&run, i, data_addr(m, addr_at) - hdr_len, hdr_len + len, 0, cookie);
			sum += len;
		}
		vq_driver_filled(vq, i, 0);
		done += i;
		left -= i;
		if (i < run.n)
			break;
	}
	q->odd += odd;
	*bytes += sum;
	return (uint16_t)done;
}

static __rte_always_inline uint16_t
transmit(struct sluice_txq *q, struct rte_mbuf **pkts, uint16_t n, const uint32_t flags)
{
	struct vq_driver *vq = &q->ring.vq;
	uint32_t free = vq_driver_free(vq);
	uint64_t bytes = 0;
	uint32_t dropped = 0, sent;
	uint16_t i = 0;

	vq_driver_prefetch(vq, RTE_MIN((uint32_t)n, free));
	if (n == 0 || free < q->free_thresh || free < n)
		(void)sluice_tx_reap(q, UINT32_MAX);
	/* Nothing plain is in flight: the next may be of any pool. */
	if (n != 0 && q->odd == vq_driver_inflight(vq))
		q->pool = pkts[0]->pool;
	while (i < n) {
		enum outcome outcome;
		struct rte_mbuf *m;
		uint32_t len;

		if (likely(q->push && is_plain(pkts[i], q->ring.hdr_len)))
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
	q->odd = 0;
	q->used = q->ring.vq.used;
	atomic_store(&q->reaped, 0);
}
