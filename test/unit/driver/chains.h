/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * What the tests of receive chains share: a port, and packets that are looked at mbuf by mbuf. The
 * functions are inline, for a test need not use all of them.
 */
#ifndef CHAINS_H
#define CHAINS_H

#include <string.h>

#include "rig.h"

#define HDR sizeof(struct vq_net_hdr)

static struct rig r;
static uint8_t sent[RIG_POOL * 2060], got[sizeof(sent)];

/* Chains of 5 mbufs: 12 of them in the ring, and 4 entries that no chain uses. */
#define JUMBO  9000
#define CHAIN  5
#define CHAINS (RIG_RING / CHAIN)

static inline uint16_t
burst(struct rte_mbuf **pkts, uint16_t n)
{
	return rte_eth_rx_burst(r.port, 0, pkts, n);
}

/* A packet in as few segments as hold it, each of them as it must be. */
static inline void
assert_packet(struct rte_mbuf *pkt, const uint8_t *frame, uint32_t len, uint32_t room)
{
	/* A packet begins 32 bytes behind the headroom if each fitted one buffer so when it was
	 * posted.
	 */
	const uint32_t skipped = (uint32_t)(pkt->data_off - (RTE_PKTMBUF_HEADROOM + HDR));
	uint32_t left = len, i = 0, nsegs;
	struct rte_mbuf *m;

	assert_true(skipped == 0 || skipped == 32 - HDR);
	room -= skipped;
	nsegs = (uint32_t)(len + HDR + room - 1) / room;
	assert_int_equal(rte_mbuf_check(pkt, 1, NULL), 0);
	assert_int_equal(pkt->nb_segs, nsegs);
	assert_int_equal(pkt->pkt_len, len);
	assert_int_equal(pkt->packet_type, 0);
	assert_int_equal(pkt->vlan_tci, 0);
	assert_int_equal(pkt->tx_offload, 0);
	for (m = pkt; m != NULL; m = m->next, i++) {
		uint32_t before = i == 0 ? HDR : 0;

		assert_int_equal(m->data_off, RTE_PKTMBUF_HEADROOM + skipped + before);
		assert_int_equal(m->data_len, RTE_MIN(left, room - before));
		assert_int_equal(m->port, r.port);
		assert_int_equal(m->ol_flags, 0);
		assert_int_equal(rte_mbuf_refcnt_read(m), 1);
		left -= m->data_len;
	}
	assert_int_equal(left, 0);
	assert_memory_equal(rte_pktmbuf_read(pkt, 0, len, got), frame, len);
}

static inline void
assert_passes(uint32_t len, uint32_t room, uint32_t seed)
{
	struct rte_mbuf *m;

	rig_pattern(sent, len, seed);
	assert_int_equal(rig_send(&r, sent, len, -1), 1);
	assert_int_equal(burst(&m, 1), 1);
	assert_packet(m, sent, len, room);
	rig_scribble(m);
	rte_pktmbuf_free(m);
	/* The pool may have had too few for another chain before. */
	assert_int_equal(burst(&m, 1), 0);
}

static inline uint32_t
hold_all(struct rte_mbuf **held)
{
	uint32_t n = 0;

	while ((held[n] = rte_pktmbuf_alloc(r.pool)) != NULL)
		n++;
	return n;
}

/* Buffers that the device has, by the driver's books. */
static inline uint32_t
posted(void)
{
	uint32_t n = 0;

	while (rte_eth_rx_descriptor_status(r.port, 0, (uint16_t)n) == RTE_ETH_RX_DESC_AVAIL)
		n++;
	return n;
}

#endif
