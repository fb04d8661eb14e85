/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * Receive: one template, an instance per combination of flags, chosen when the device comes up.
 *
 * A buffer is posted from the end of its headroom on, so that the virtio header and the first bytes
 * of the packet lie in one cache line, the only one that moves for an application which looks at
 * headers. Where there is room, the packet begins on a multiple of PACKET_ALIGN: who copies between
 * it and another mbuf, where packets begin on a line, has no vector that crosses lines. So a packet
 * has up to PACKET_ALIGN bytes more of headroom than others do.
 *
 * mbufs go to the ring as the pool gives them, and are made packets when they come back.
 */

#include <errno.h>

#include <rte_mempool.h>
#include <rte_prefetch.h>

#include "sluice_gate.h"
#include "sluice_rx.h"

#define MERGEABLE UINT32_C(1) /* packets may cover several buffers */
#define SCATTER   UINT32_C(2) /* and the application takes them as several segments */
#define CHAINS    UINT32_C(4) /* not mergeable: each buffer is a chain of mbufs */

/* Packets of other shapes that are prefetched ahead of the one at hand. */
#define AHEAD 4

/* The widest vector of the usual copies; header_at() takes so much of a buffer at most. */
#define PACKET_ALIGN 32

_Static_assert(RTE_PKTMBUF_HEADROOM >= VQ_NET_HDR_MAX, "the header has room in the headroom");
_Static_assert(PACKET_ALIGN >= VQ_NET_HDR_MAX, "the header lies behind the headroom");

/* Completed buffers, taken from the ring a few at a time. */
struct window {
	void *cookies[SLUICE_CHUNK];
	uint32_t lens[SLUICE_CHUNK];
	uint32_t n, next;
	uint32_t consumed; /* in this call */
	bool drained; /* there were fewer than asked for: not worth another look in this call */
};

/* Take up to n more; only when the window is empty. */
static inline uint32_t
window_fill(struct sluice_rxq *q, struct window *w, uint32_t n)
{
	n = RTE_MIN(n, (uint32_t)SLUICE_CHUNK);
	w->next = 0;
	w->n = vq_driver_reap(&q->ring.vq, w->cookies, w->lens, n);
	w->consumed += w->n;
	w->drained = w->n < n;
	return w->n;
}

/* The first mbuf of a buffer. */
static inline struct rte_mbuf *
head_of(void *cookie, const uint32_t flags)
{
	return flags & CHAINS ? *(void **)cookie : cookie;
}

/* A buffer that holds no packet. */
static inline void
drop(struct sluice_rxq *q, void *cookie, const uint32_t flags)
{
	q->stats.bad_length++;
	if (flags & CHAINS)
		sluice_chain_release(q, cookie, 0);
	else
		rte_mbuf_raw_free(cookie);
}

/* The mbuf, and the line of header and packet. */
static inline void
prefetch_packet(struct rte_mbuf *m, int32_t data_at)
{
	rte_prefetch0(m);
	rte_prefetch0((const char *)m + data_at);
}

static inline uint16_t
read_num_buffers(const struct rte_mbuf *m, uint32_t post_at)
{
	const volatile struct vq_net_hdr *hdr =
		(const volatile struct vq_net_hdr *)(const void *)((const char *)m->buf_addr +
								   post_at);

	return hdr->num_buffers;
}

/*
 * The packet that begins with `head` covers num_buffers > 1 buffers, or claims 0. All of them are
 * in the ring already (a device publishes packets whole); take them, whatever becomes of the
 * packet, so that the next one is found where it begins.
 * @return the packet, or NULL if it was dropped and counted
 */
static __rte_noinline struct rte_mbuf *
gather(struct sluice_rxq *q, struct window *w, struct rte_mbuf *head, uint32_t num_buffers,
	const uint32_t flags)
{
	struct rte_mbuf *tail = head;
	/* Nonsense, and no telling where the next packet begins: the next buffer is as good a guess
	 * as any. */
	bool bad = num_buffers == 0 || num_buffers > q->ring.vq.size;
	uint32_t left = bad ? 0 : num_buffers - 1;

	while (left != 0) {
		struct rte_mbuf *m;
		uint32_t len;

		if (w->next == w->n && window_fill(q, w, left) == 0) {
			bad = true;
			break;
		}
		m = w->cookies[w->next];
		len = w->lens[w->next++];
		bad |= len == 0;
		sluice_rx_renew_next(q, m, len);
		tail->next = m;
		tail = m;
		head->nb_segs++;
		head->pkt_len += len;
		left--;
	}
	if (likely(!bad && (flags & SCATTER)))
		return head;
	if (bad)
		q->stats.bad_merged++;
	else
		q->stats.no_scatter++;
	rte_pktmbuf_free(head);
	return NULL;
}

static inline void
post(struct sluice_rxq *q, void *const *mbufs, uint32_t n)
{
	struct vq_driver *vq = &q->ring.vq;
	const uint32_t before = q->post_at;
	const uint32_t len = q->post_len;
	const uint32_t addr_at = q->ring.addr_at;
	uint32_t i;

	for (; n != 0; mbufs += i, n -= i) {
		const struct vq_driver_run run = vq_driver_run(vq, n);

		for (i = 0; i < run.n; i++)
			vq_driver_fill(&run, i, sluice_buf_addr(mbufs[i], addr_at) + before, len,
				VQ_DESC_WRITE, mbufs[i]);
		vq_driver_filled(vq, i, len);
	}
}

/* Post `want` buffers, or as many as the pool gives. @return their number */
static inline uint32_t
post_from_pool(struct sluice_rxq *q, uint32_t want)
{
	struct rte_mempool_cache *cache = sluice_pool_cache(q->pool);
	uint32_t got;

	if (likely(cache != NULL && cache->len >= want)) {
		cache->len -= want;
		post(q, &cache->objs[cache->len], want);
		return want;
	}
	got = sluice_rx_allocate(q->pool, q->parked, want, vq_refill_all_or_nothing(&q->refill));
	post(q, (void **)q->parked, got);
	return got;
}

/* At the end of every call, of an empty one too: a pool that ran dry fills the ring again this way.
 */
static inline void
refill(struct sluice_rxq *q, uint32_t consumed)
{
	uint32_t free = vq_driver_free(&q->ring.vq);
	uint32_t want = vq_refill_want(&q->refill, free, consumed);
	uint32_t got;

	if (q->refill.size - free < q->stats.low_water)
		q->stats.low_water = q->refill.size - free;
	if (want == 0 || unlikely(q->ring.vq.fault != VQ_DRIVER_OK))
		return;
	got = post_from_pool(q, want);
	if (unlikely(got < want))
		q->stats.no_mbuf++;
	if (unlikely(got == 0))
		return;
	q->stats.refills++;
	q->stats.posted += got;
	vq_driver_publish(&q->ring.vq);
	sluice_ring_notify(&q->ring);
}

void
sluice_rx_top_up(struct sluice_rxq *q)
{
	uint64_t before;

	do {
		before = q->stats.posted;
		if (q->chain > 1)
			sluice_chain_refill(q, 0);
		else
			refill(q, 0);
	} while (q->stats.posted != before);
}

/*
 * Packets of the common shape, each in one buffer, as many as come in a row. Which buffers come
 * next is known before the used entries are read, so that all first lines are on their way at once;
 * for write, because whoever forwards a packet writes there. The same goes for the descriptors that
 * are filled again at the end, of which none is the device's any more.
 */
static __rte_always_inline uint32_t
receive_row(
	struct sluice_rxq *q, struct rte_mbuf **pkts, uint32_t n, uint64_t *bytes, uint32_t flags)
{
	const uint32_t hdr_len = q->ring.hdr_len;
	const uint32_t post_at = q->post_at;
	const int32_t data_at = q->data_at + (int32_t)post_at;
	const struct sluice_fresh fresh = q->fresh;
	uint32_t taken = 0, i;
	uint64_t sum = 0;

	while (taken < n) {
		const uint32_t most = RTE_MIN(n - taken, (uint32_t)SLUICE_CHUNK);
		const struct vq_driver_done done = vq_driver_done(&q->ring.vq, most);
		struct rte_mbuf **to = pkts + taken;

		if (done.n == 0)
			break;
		vq_driver_prefetch(
			&q->ring.vq, RTE_MIN(most, vq_driver_free(&q->ring.vq) + done.n));
		for (i = 0; i < done.n; i++)
			vq_prefetch_write((uintptr_t)done.cookies[i] + (uintptr_t)data_at);
		for (i = 0; i < done.n; i++) {
			struct rte_mbuf *m = done.cookies[i];
			uint32_t len;

			if (!vq_driver_done_at(&done, i, &len))
				break;
			if (unlikely(len <= hdr_len))
				break;
			if ((flags & MERGEABLE) && unlikely(read_num_buffers(m, post_at) != 1))
				break;
			len -= hdr_len;
			sluice_rx_renew(m, &fresh, len);
			sum += len;
			to[i] = m;
		}
		vq_driver_done_take(&q->ring.vq, i);
		taken += i;
		if (i < done.n)
			break;
	}
	*bytes += sum;
	return taken;
}

static __rte_always_inline uint16_t
receive(struct sluice_rxq *q, struct rte_mbuf **pkts, uint16_t n, const uint32_t flags)
{
	const uint32_t hdr_len = q->ring.hdr_len;
	const uint32_t post_at = q->post_at;
	const int32_t data_at = q->data_at + (int32_t)post_at;
	const struct sluice_fresh fresh = q->fresh;
	struct window w;
	uint64_t bytes = 0;
	uint16_t done = 0;

	w.n = 0;
	w.next = 0;
	w.consumed = 0;
	w.drained = false;
	while (done < n) {
		struct rte_mbuf *m;
		void *cookie;
		uint32_t len;

		if (w.next == w.n) {
			uint32_t i;

			if (!(flags & CHAINS) && vq_driver_in_row(&q->ring.vq)) {
				i = receive_row(
					q, pkts + done, (uint32_t)(n - done), &bytes, flags);
				done = (uint16_t)(done + i);
				w.consumed += i;
				if (done == n || vq_driver_all_taken(&q->ring.vq))
					break;
			}
			/* No more buffers than packets that still fit: each yields at most one. */
			if (w.drained || window_fill(q, &w, (uint32_t)(n - done)) == 0)
				break;
			for (i = 0; i < RTE_MIN(w.n, (uint32_t)AHEAD); i++)
				prefetch_packet(head_of(w.cookies[i], flags), data_at);
		}
		if (w.next + AHEAD < w.n)
			prefetch_packet(head_of(w.cookies[w.next + AHEAD], flags), data_at);
		cookie = w.cookies[w.next];
		len = w.lens[w.next++];
		if (unlikely(len <= hdr_len)) {
			drop(q, cookie, flags);
			continue;
		}
		m = head_of(cookie, flags);
		sluice_rx_renew(m, &fresh, len - hdr_len);
		if (flags & CHAINS) {
			uint32_t used = 1;

			if (len > q->post_len)
				used = sluice_chain_spread(q, cookie);
			sluice_chain_release(q, cookie, used);
		}
		if (flags & MERGEABLE) {
			uint16_t num_buffers = read_num_buffers(m, post_at);

			if (unlikely(num_buffers != 1)) {
				m = gather(q, &w, m, num_buffers, flags);
				if (m == NULL)
					continue;
			}
		}
		bytes += m->pkt_len;
		pkts[done++] = m;
	}
	q->stats.packets += done;
	q->stats.bytes += bytes;
	if (flags & CHAINS)
		sluice_chain_refill(q, w.consumed);
	else
		refill(q, w.consumed);
	return done;
}

static uint16_t
receive_plain(struct sluice_rxq *q, struct rte_mbuf **pkts, uint16_t n)
{
	return receive(q, pkts, n, 0);
}

static uint16_t
receive_mergeable(struct sluice_rxq *q, struct rte_mbuf **pkts, uint16_t n)
{
	return receive(q, pkts, n, MERGEABLE);
}

static uint16_t
receive_mergeable_scatter(struct sluice_rxq *q, struct rte_mbuf **pkts, uint16_t n)
{
	return receive(q, pkts, n, MERGEABLE | SCATTER);
}

static uint16_t
receive_chains(struct sluice_rxq *q, struct rte_mbuf **pkts, uint16_t n)
{
	return receive(q, pkts, n, CHAINS);
}

uint16_t
sluice_rx_burst(void *queue, struct rte_mbuf **pkts, uint16_t n)
{
	struct sluice_rxq *q = queue;

	if (unlikely(!sluice_gate_enter(&q->ring)))
		return 0;
	n = q->burst(q, pkts, n);
	sluice_gate_leave(&q->ring);
	return n;
}

void
sluice_rx_free_parked(struct sluice_rxq *q)
{
	if (q->nparked != 0)
		rte_mempool_put_bulk(q->pool, (void **)q->parked, q->nparked);
	q->nparked = 0;
}

uint32_t
sluice_rx_buffers(const struct sluice_rxq *q, uint32_t hdr_len, uint16_t mtu)
{
	const uint32_t frame = mtu + SLUICE_FRAME_OVERHEAD;

	/* To the last byte: then the header goes into the headroom, sluice_rx_choose(). */
	return frame <= sluice_rx_room(q)
		       ? 1
		       : (hdr_len + frame + sluice_rx_room(q) - 1) / sluice_rx_room(q);
}

/* Where in a buffer the header lies; a frame that fits into the room of one stays in one. */
static uint32_t
header_at(uint32_t room, uint32_t frame, uint32_t hdr_len)
{
	if (PACKET_ALIGN + frame <= room)
		return RTE_PKTMBUF_HEADROOM + PACKET_ALIGN - hdr_len;
	if (hdr_len + frame <= room || frame > room)
		return RTE_PKTMBUF_HEADROOM;
	return RTE_PKTMBUF_HEADROOM - hdr_len;
}

void
sluice_rx_choose(struct sluice_rxq *q, bool mergeable, uint32_t hdr_len)
{
	const uint16_t mtu = q->ring.dev->data->mtu;

	q->chain = mergeable ? 1 : sluice_rx_buffers(q, hdr_len, mtu);
	q->post_at = header_at(sluice_rx_room(q), mtu + SLUICE_FRAME_OVERHEAD, hdr_len);
	q->post_len = rte_pktmbuf_data_room_size(q->pool) - q->post_at;
	q->fresh.data_off = (uint16_t)(q->post_at + hdr_len);
}

int
sluice_rx_fill(struct sluice_rxq *q)
{
	sluice_rx_choose(q, q->ring.dev->args.mrg_rxbuf, sizeof(struct vq_net_hdr));
	q->nparked = sluice_rx_allocate(
		q->pool, q->parked, q->ring.vq.size / q->chain * q->chain, false);
	if (q->nparked >= q->chain)
		return 0;
	sluice_rx_free_parked(q);
	return -ENOMEM;
}

void
sluice_rx_set_need(struct sluice_rxq *q, uint16_t mtu)
{
	const uint32_t bytes = q->ring.hdr_len + mtu + SLUICE_FRAME_OVERHEAD;

	q->refill.need = q->chain > 1 ? q->chain : (bytes + q->post_len - 1) / q->post_len;
	q->refill.need = RTE_MIN(q->refill.need, q->refill.size);
}

void
sluice_rx_open(struct sluice_rxq *q, uint64_t features)
{
	bool mergeable = (features & VQ_FEATURE(MRG_RXBUF)) != 0;

	sluice_rx_choose(q, mergeable, q->ring.hdr_len);
	q->refill.size = q->ring.vq.size / q->chain * q->chain;
	sluice_rx_set_need(q, q->ring.dev->data->mtu);
	if (mergeable)
		q->burst = q->ring.dev->scatter ? receive_mergeable_scatter : receive_mergeable;
	else
		q->burst = q->chain > 1 ? receive_chains : receive_plain;
	if (q->chain > 1) {
		sluice_chain_open(q);
	} else {
		post(q, (void **)q->parked, q->nparked);
		q->nparked = 0;
	}
	vq_driver_publish(&q->ring.vq);
}

static void
park(void *cookie, void *arg)
{
	struct sluice_rxq *q = arg;

	q->parked[q->nparked++] = cookie;
}

void
sluice_rx_park(struct sluice_rxq *q)
{
	(void)vq_driver_detach_all(&q->ring.vq, q->chain > 1 ? sluice_chain_park : park, q);
}
