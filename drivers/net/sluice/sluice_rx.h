/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Chains of receive buffers: how frames longer than a buffer arrive when the device does not merge
 * buffers. Every posted chain could hold the longest frame, and a frame takes a whole one, however
 * short it is. The mbufs that it leaves untouched are parked, for the next chain that is posted.
 *
 * A chain is q->chain places in a row; where they are is the cookie of its descriptors. While it is
 * posted they hold its mbufs; while it is free, the first holds the next free chain.
 */
#ifndef SLUICE_RX_H
#define SLUICE_RX_H

#include <rte_branch_prediction.h>

#include "sluice.h"
#include "sluice_pool.h"

/** Bytes of a frame that one buffer of the queue holds. */
static inline uint32_t
sluice_rx_room(const struct sluice_rxq *q)
{
	return rte_pktmbuf_data_room_size(q->pool) - RTE_PKTMBUF_HEADROOM;
}

_Static_assert(sizeof(struct sluice_fresh) == 16, "laid out as in an mbuf");
#define AS_IN_MBUF(field)                                                                          \
	(offsetof(struct rte_mbuf, field) - offsetof(struct rte_mbuf, data_off) ==                 \
		offsetof(struct sluice_fresh, field))
_Static_assert(
	AS_IN_MBUF(refcnt) && AS_IN_MBUF(nb_segs) && AS_IN_MBUF(port) && AS_IN_MBUF(ol_flags),
	"laid out as in an mbuf");
#undef AS_IN_MBUF

_Static_assert(
	offsetof(struct rte_mbuf, pkt_len) == offsetof(struct rte_mbuf, packet_type) + 4 &&
		offsetof(struct rte_mbuf, vlan_tci) == offsetof(struct rte_mbuf, data_len) + 2 &&
		offsetof(struct rte_mbuf, hash) == offsetof(struct rte_mbuf, data_len) + 4,
	"two stores");

/**
 * Make an mbuf that was posted a packet of `len` bytes in one segment, whatever it was before. The
 * pool promises one reference and no next segment, of which nothing is relied on; a few wide stores
 * set all of that as well.
 */
static inline void
sluice_rx_renew(struct rte_mbuf *m, const struct sluice_fresh *fresh, uint32_t len)
{
	const uint64_t type_len = (uint64_t)len << 32;
	const uint64_t data_len_vlan_rss = (uint16_t)len;

	memcpy((char *)m + offsetof(struct rte_mbuf, data_off), fresh, sizeof(*fresh));
	memcpy((char *)m + offsetof(struct rte_mbuf, packet_type), &type_len, sizeof(type_len));
	memcpy((char *)m + offsetof(struct rte_mbuf, data_len), &data_len_vlan_rss,
		sizeof(data_len_vlan_rss));
	m->vlan_tci_outer = 0;
	if (offsetof(struct rte_mbuf, next) + sizeof(m->next) ==
		offsetof(struct rte_mbuf, tx_offload)) {
		memset((char *)m + offsetof(struct rte_mbuf, next), 0,
			sizeof(m->next) + sizeof(m->tx_offload));
		return;
	}
	/* Apart, where DPDK has no IOVA in mbufs. */
	m->next = NULL;
	m->tx_offload = 0;
}

/** An mbuf behind a packet's first: no header lies in it. */
static inline void
sluice_rx_renew_next(const struct sluice_rxq *q, struct rte_mbuf *m, uint32_t len)
{
	sluice_rx_renew(m, &q->fresh, len);
	m->data_off = (uint16_t)q->post_at;
}

/** As many mbufs as the pool gives, at most n, into `mbufs`, as they are: sluice_rx_renew(). */
static inline uint32_t
sluice_rx_allocate(
	struct rte_mempool *pool, struct rte_mbuf **mbufs, uint32_t n, bool all_or_nothing)
{
	uint32_t got;

	if (likely(rte_mempool_get_bulk(pool, (void **)mbufs, n) == 0))
		return n;
	if (all_or_nothing)
		return 0;
	for (got = 0; got < n; got++) {
		if (rte_mempool_get(pool, (void **)&mbufs[got]) != 0)
			break;
	}
	return got;
}

/** A chain was completed: its first `used` mbufs are the application's. */
static inline void
sluice_chain_release(struct sluice_rxq *q, void **chain, uint32_t used)
{
	uint32_t i;

	/* The next chain begins where this one's frame ended. */
	for (i = q->chain; i > used; i--)
		q->parked[q->nparked++] = chain[i - 1];
	chain[0] = q->free_chains;
	q->free_chains = chain;
	q->nfree++;
}

/**
 * Spread a packet that is longer than the first buffer over the next ones. Its first mbuf has
 * pkt_len.
 * @return mbufs of the packet
 */
uint32_t sluice_chain_spread(const struct sluice_rxq *q, void *const *chain);

/** At the end of every receive call, of an empty one too, which took `consumed` chains. */
void sluice_chain_refill(struct sluice_rxq *q, uint32_t consumed);

/** Post what is parked, as far as it makes whole chains; the ring is empty. */
void sluice_chain_open(struct sluice_rxq *q);

/** Park what is posted: a cookie for vq_driver_detach_all(). @param arg the queue */
void sluice_chain_park(void *cookie, void *arg);

#endif
