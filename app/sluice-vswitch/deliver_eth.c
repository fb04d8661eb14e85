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
view_mbuf(struct worker *w, uint32_t i, uint32_t nsegs)
{
	struct rte_mbuf *m = w->burst.mbufs[i];
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
		nsegs = view_mbuf(w, i, nsegs);
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
static inline uint32_t
fill_mbuf(struct rte_mbuf *m, const struct vq_frame *f, uint32_t off)
{
	uint32_t room = rte_pktmbuf_tailroom(m);
	uint32_t len = f->len - off < room ? f->len - off : room;

	vq_frame_read(f, off, rte_pktmbuf_append(m, (uint16_t)len), len);
	return len;
}

/* Copy what of a frame did not fit its first mbuf into more. @return DROPS, or why it cannot be */
static __rte_noinline enum drop
copy_rest(struct worker *w, const struct view_port *p, struct rte_mbuf *first,
	const struct vq_frame *f)
{
	uint32_t done = first->data_len;

	if (!p->multi_segs)
		return DROP_TOO_BIG;
	while (done < f->len) {
		struct rte_mbuf *next = rte_pktmbuf_alloc(w->sw->pool);
		uint32_t len;

		if (next == NULL)
			return DROP_NO_MBUF;
		/* The chain is whole at every step: a fault frees it. */
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

/* As many mbufs as the pool gives, at most n. */
static uint32_t
allocate(struct rte_mempool *pool, struct rte_mbuf **mbufs, uint32_t n)
{
	uint32_t got;

	if (likely(rte_pktmbuf_alloc_bulk(pool, mbufs, n) == 0))
		return n;
	for (got = 0; got < n; got++) {
		mbufs[got] = rte_pktmbuf_alloc(pool);
		if (mbufs[got] == NULL)
			break;
	}
	return got;
}

/*
 * Copy frames out of guest memory, each into a chain when it does not fit one mbuf. All mbufs are
 * in w->eth before the guest's memory is touched, so that a fault there loses none.
 * @param copied the mbufs that are whole
 * @return how many
 */
static uint32_t
copy_to_mbufs(struct worker *w, const struct view_port *p, uint32_t to,
	const struct vq_frame *const *list, uint32_t n, struct rte_mbuf **copied)
{
	struct rte_mbuf **mbufs = w->eth.mbufs;
	const uint32_t got = allocate(w->sw->pool, mbufs, n);
	enum drop why[BURST];
	uint64_t bytes = 0;
	uint32_t whole = 0;
	uint32_t i;

	w->eth.n = got;
	for (i = 0; i < got; i++) {
		const struct vq_frame *f = list[i];

		why[i] = DROPS;
		if (unlikely(fill_mbuf(mbufs[i], f, 0) < f->len))
			why[i] = copy_rest(w, p, mbufs[i], f);
	}
	/* From here on nothing faults. */
	w->eth.n = 0;
	for (i = 0; i < got; i++) {
		if (likely(why[i] == DROPS)) {
			bytes += mbufs[i]->pkt_len;
			copied[whole++] = mbufs[i];
			continue;
		}
		rte_pktmbuf_free(mbufs[i]);
		drop_frame(w, why[i], to, 1);
	}
	if (unlikely(got < n))
		drop_frame(w, DROP_NO_MBUF, to, n - got);
	count(&w->counters[to], COUNT_BYTES_COPIED, bytes);
	return whole;
}

/* Hand on received mbufs, of each of which a reference is ours. @return how many */
static uint32_t
pass_mbufs(struct worker *w, const struct view_port *p, uint32_t to,
	const struct vq_frame *const *list, uint32_t n, struct rte_mbuf **passed)
{
	const struct burst *b = &w->burst;
	uint32_t good = 0;
	uint32_t i;

	for (i = 0; i < n; i++) {
		struct rte_mbuf *m = b->mbufs[list[i] - b->frames[0]];

		if (unlikely(m->nb_segs > 1 && !p->multi_segs)) {
			rte_pktmbuf_free(m);
			drop_frame(w, DROP_TOO_BIG, to, 1);
			continue;
		}
		passed[good++] = m;
	}
	return good;
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

	n = b->from_eth ? pass_mbufs(w, p, to, list, n, mbufs)
			: copy_to_mbufs(w, p, to, list, n, mbufs);
	/* The ethdev may free them at once. */
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
