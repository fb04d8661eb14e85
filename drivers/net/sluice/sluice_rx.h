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

/** As many mbufs as the pool gives, at most n, into `mbufs`. */
static inline uint32_t
sluice_rx_allocate(
	struct rte_mempool *pool, struct rte_mbuf **mbufs, uint32_t n, bool all_or_nothing)
{
	uint32_t got;

	if (likely(rte_pktmbuf_alloc_bulk(pool, mbufs, n) == 0))
		return n;
	if (all_or_nothing)
		return 0;
	for (got = 0; got < n; got++) {
		mbufs[got] = rte_pktmbuf_alloc(pool);
		if (mbufs[got] == NULL)
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
