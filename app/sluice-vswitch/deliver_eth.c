/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * To and from ethdevs, the only place with mbufs: a frame from a guest is copied into one (or into
 * a chain), a frame from an ethdev goes on to others in the mbuf it came in.
 */

#include <rte_ethdev.h>

#include "vswitch.h"
#include "worker.h"

/* See a received mbuf as a frame; one in too many pieces, or too short, gets a status that drops
 * it.
 */
static uint32_t
view_mbuf(struct worker *w, uint32_t i, const struct rte_mbuf *m, uint32_t nsegs)
{
	struct vq_frame *f = &w->eth_frames[i];
	uint32_t len = m->pkt_len < VQ_NET_HEAD ? m->pkt_len : VQ_NET_HEAD;

	*f = (struct vq_frame){
		.head = w->eth_heads[i], .len = m->pkt_len, .segs = &w->eth_segs[nsegs]};
	if (m->pkt_len < VQ_NET_FRAME_MIN) {
		f->status = VQ_NET_RUNT;
		return nsegs;
	}
	if (m->nb_segs > BURST_SEGS / BURST) {
		f->status = VQ_NET_BAD_CHAIN;
		return nsegs;
	}
	f->head = rte_pktmbuf_read(m, 0, len, w->eth_heads[i]);
	for (; m != NULL; m = m->next) {
		if (m->data_len == 0)
			continue;
		w->eth_segs[nsegs].base = rte_pktmbuf_mtod(m, uint8_t *);
		w->eth_segs[nsegs].len = m->data_len;
		nsegs++;
		f->nseg++;
	}
	return nsegs;
}

uint32_t
take_eth(struct worker *w, const struct inlet *in)
{
	struct burst *b = &w->burst;
	uint32_t nsegs = 0, i;

	b->n = rte_eth_rx_burst(w->view->ports[in->port].dev, in->queue, b->mbufs, BURST);
	memset(b->eth_copies, 0, b->n);
	for (i = 0; i < b->n; i++)
		nsegs = view_mbuf(w, i, b->mbufs[i], nsegs);
	return b->n;
}

void
release_eth(struct worker *w)
{
	struct burst *b = &w->burst;
	struct rte_mbuf *unused[BURST];
	uint32_t n = 0, i;

	for (i = 0; i < b->n; i++)
		if (b->eth_copies[i] == 0)
			unused[n++] = b->mbufs[i];
	rte_pktmbuf_free_bulk(unused, n);
}

/* Fill the room of one mbuf with the frame from byte `off` on. */
static uint32_t
fill_mbuf(struct rte_mbuf *m, const struct vq_frame *f, uint32_t off)
{
	uint32_t room = rte_pktmbuf_tailroom(m);
	uint32_t len = f->len - off < room ? f->len - off : room;

	vq_frame_read(f, off, rte_pktmbuf_append(m, (uint16_t)len), len);
	return len;
}

/* Put n mbufs into w->eth, where a fault finds them; fewer from a pool that is empty. */
static void
take_mbufs(struct worker *w, uint32_t n)
{
	struct eth_delivery *e = &w->eth;

	e->n = 0;
	if (likely(rte_pktmbuf_alloc_bulk(w->sw->pool, e->mbufs, n) == 0)) {
		e->n = n;
		return;
	}
	while (e->n < n && (e->mbufs[e->n] = rte_pktmbuf_alloc(w->sw->pool)) != NULL)
		e->n++;
}

/*
 * Copy a frame out of guest memory into an mbuf, and into a chain where it does not fit. The chain
 * is whole at every step: a fault frees it.
 * @return DROPS, or why it was not done
 */
static enum drop
copy_to_mbuf(struct worker *w, struct rte_mbuf *first, const struct vq_frame *f, bool chains)
{
	uint32_t done;

	if (unlikely(f->len > rte_pktmbuf_tailroom(first) && !chains))
		return DROP_TOO_BIG;
	done = fill_mbuf(first, f, 0);
	while (unlikely(done < f->len)) {
		struct rte_mbuf *next = rte_pktmbuf_alloc(w->sw->pool);
		uint32_t len;

		if (next == NULL)
			return DROP_NO_MBUF;
		if (rte_pktmbuf_chain(first, next) != 0) {
			rte_pktmbuf_free(next);
			return DROP_TOO_BIG;
		}
		len = fill_mbuf(next, f, done);
		first->pkt_len += len;
		done += len;
	}
	return DROPS;
}

/*
 * The same for the common shape, which fits one mbuf and lies in one piece behind its head. What is
 * read back here was stored as it is read: else each frame waits for the copy of the last.
 */
static inline bool
copy_whole(struct rte_mbuf *m, const struct vq_frame *f)
{
	uint8_t *to;

	if (f->head_len != VQ_NET_HEAD || f->nseg != 1 || f->len > rte_pktmbuf_tailroom(m))
		return false;
	to = rte_pktmbuf_mtod(m, uint8_t *);
	memcpy(to, f->head, VQ_NET_HEAD);
	if (f->len != VQ_NET_HEAD)
		memcpy(to + VQ_NET_HEAD, f->segs->base + f->skip + VQ_NET_HEAD,
			f->len - VQ_NET_HEAD);
	m->data_len = (uint16_t)f->len;
	m->pkt_len = f->len;
	return true;
}

/* Copy frames into mbufs, which are in w->eth then; those that are not are dropped. */
static void
copy_to_mbufs(
	struct worker *w, uint32_t to, const struct vq_frame *const *list, uint32_t n, bool chains)
{
	struct eth_delivery *e = &w->eth;
	uint64_t bytes = 0;
	uint32_t have, good = 0, i;

	take_mbufs(w, n);
	have = e->n;
	if (unlikely(have < n))
		drop_frame(w, DROP_NO_MBUF, to, n - have);
	for (i = 0; i < have; i++) {
		struct rte_mbuf *m = e->mbufs[i];
		enum drop why = DROPS;

		if (unlikely(!copy_whole(m, list[i])))
			why = copy_to_mbuf(w, m, list[i], chains);

		/* Each is there once, whenever a fault comes. */
		e->mbufs[i] = NULL;
		if (unlikely(why != DROPS)) {
			rte_pktmbuf_free(m);
			drop_frame(w, why, to, 1);
			continue;
		}
		e->mbufs[good++] = m;
		bytes += list[i]->len;
	}
	e->n = good;
	count(&w->counters[to], COUNT_BYTES_COPIED, bytes);
}

/* Hand on received mbufs, of each of which a reference is ours. */
static void
pass_mbufs(
	struct worker *w, uint32_t to, const struct vq_frame *const *list, uint32_t n, bool chains)
{
	struct burst *b = &w->burst;
	uint32_t i;

	w->eth.n = 0;
	for (i = 0; i < n; i++) {
		struct rte_mbuf *m = b->mbufs[list[i] - b->frames[0]];

		if (unlikely(m->nb_segs > 1 && !chains)) {
			rte_pktmbuf_free(m);
			drop_frame(w, DROP_TOO_BIG, to, 1);
			continue;
		}
		w->eth.mbufs[w->eth.n++] = m;
	}
}

static uint32_t
send_burst(const struct view_port *p, uint16_t queue, struct rte_mbuf **mbufs, uint32_t n)
{
	uint32_t sent = 0;

	if (p->tx_locks != NULL)
		rte_spinlock_lock(&p->tx_locks[queue]);
	while (sent < n) {
		uint16_t k = rte_eth_tx_burst(p->dev, queue, mbufs + sent, (uint16_t)(n - sent));

		if (k == 0)
			break;
		sent += k;
	}
	if (p->tx_locks != NULL)
		rte_spinlock_unlock(&p->tx_locks[queue]);
	return sent;
}

void
deliver_eth(struct worker *w, uint32_t to, const struct vq_frame *const *list, uint32_t n)
{
	const struct view_port *p = &w->view->ports[to];
	struct burst *b = &w->burst;
	struct rte_mbuf *mbufs[BURST];
	uint32_t lens[BURST];
	uint64_t bytes = 0;
	uint32_t sent, i;

	if (b->from_eth)
		pass_mbufs(w, to, list, n, p->multi_segs);
	else
		copy_to_mbufs(w, to, list, n, p->multi_segs);
	/* From here on nothing faults. */
	n = w->eth.n;
	w->eth.n = 0;
	memcpy(mbufs, w->eth.mbufs, n * sizeof(mbufs[0]));
	for (i = 0; i < n; i++)
		lens[i] = mbufs[i]->pkt_len;
	sent = send_burst(p, (uint16_t)(w->id % p->ntx), mbufs, n);
	for (i = 0; i < sent; i++)
		bytes += lens[i];
	delivered_frames(w, to, sent, bytes);
	if (!b->from_eth)
		count(&w->counters[to], COUNT_BYTES_DELIVERED, bytes);
	if (unlikely(sent < n)) {
		drop_frame(w, DROP_TX_FULL, to, n - sent);
		rte_pktmbuf_free_bulk(mbufs + sent, n - sent);
	}
}

void
deliver_by_mbufs(struct worker *w, uint32_t to, struct vring *ring,
	const struct vq_frame *const *list, uint32_t n)
{
	uint32_t nsegs = 0, i;

	copy_to_mbufs(w, to, list, n, true);
	for (i = 0; i < w->eth.n; i++)
		nsegs = view_mbuf(w, i, w->eth.mbufs[i], nsegs);
	if (w->eth.n != 0)
		deliver_ring(w, to, ring, w->eth_taken, w->eth.n);
	rte_pktmbuf_free_bulk(w->eth.mbufs, w->eth.n);
	w->eth.n = 0;
}
