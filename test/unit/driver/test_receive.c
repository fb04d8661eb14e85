/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* Receive: what a device may do and what it must not, and a pool that runs dry. */

#include <string.h>

#include <rte_malloc.h>

#include "rig.h"

static struct rig r;
static uint8_t sent[65535], got[65535];

#define HDR (uint32_t)sizeof(struct vq_net_hdr)
/* Where a packet begins behind the headroom, if there is room. */
#define ALIGN UINT32_C(32)

static const struct rig_config port_plain = {.args = "mrg_rxbuf=0"};
static const struct rig_config port_mergeable = {0};
static const struct rig_config port_scatter = {.scatter = true, .mtu = 9000};
static const struct rig_config port_cached = {.cache = 32};
static const struct rig_config port_any_order = {.cache = 32, .args = "in_order=0"};
static const struct rig_config port_short = {.scatter = true, .mtu = 9000, .ring = 8};

static uint16_t
burst(struct rte_mbuf **pkts, uint16_t n)
{
	return rte_eth_rx_burst(r.port, 0, pkts, n);
}

/* The next packet has these bytes; give its mbufs back. */
static void
assert_received(const uint8_t *frame, uint32_t len)
{
	struct rte_mbuf *m;

	assert_int_equal(burst(&m, 1), 1);
	assert_int_equal(m->pkt_len, len);
	assert_int_equal(rte_mbuf_check(m, 1, NULL), 0);
	assert_memory_equal(rte_pktmbuf_read(m, 0, len, got), frame, len);
	rte_pktmbuf_free(m);
}

static void
test_frames_arrive(void **state)
{
	uint32_t i, len;

	(void)state;
	/* Several laps. */
	for (i = 0; i < 5 * RIG_RING; i++) {
		len = 14 + i * 37 % 1505;
		rig_pattern(sent, len, i);
		assert_int_equal(rig_send(&r, sent, len, -1), 1);
		assert_received(sent, len);
	}
	assert_int_equal(rig_xstat(&r, "rx_q0_good_packets"), 5 * RIG_RING);
	assert_int_equal(rig_ring(&r, 0)->fault, VQ_DEVICE_OK);
}

static void
test_a_long_burst_is_bounded_by_the_ring(void **state)
{
	struct rte_mbuf *pkts[2 * RIG_RING];
	uint32_t i;

	(void)state;
	for (i = 0; i < RIG_RING; i++) {
		rig_pattern(sent, 60, i);
		rig_send(&r, sent, 60, -1);
	}
	assert_int_equal(burst(pkts, 2 * RIG_RING), RIG_RING);
	for (i = 0; i < RIG_RING; i++) {
		rig_pattern(sent, 60, i);
		assert_memory_equal(rte_pktmbuf_mtod(pkts[i], void *), sent, 60);
	}
	rte_pktmbuf_free_bulk(pkts, RIG_RING);
}

static void
assert_fresh(const struct rte_mbuf *m, uint32_t data_off, uint32_t nb_segs, uint64_t ol_flags)
{
	assert_int_equal(m->data_off, data_off);
	assert_int_equal(rte_mbuf_refcnt_read(m), 1);
	assert_int_equal(m->nb_segs, nb_segs);
	assert_int_equal(m->next != NULL, nb_segs > 1);
	assert_int_equal(m->port, r.port);
	assert_int_equal(m->ol_flags, ol_flags);
	assert_int_equal(m->packet_type, 0);
	assert_int_equal(m->vlan_tci, 0);
	assert_int_equal(m->vlan_tci_outer, 0);
	assert_int_equal(m->tx_offload, 0);
}

/* Packets of a length until each mbuf has had several, whatever was left in it by the application
 * or in the pool: the next packet in it starts fresh. */
static void
expect_fresh_packets(uint32_t len, void (*check)(const struct rte_mbuf *m))
{
	struct rte_mbuf *m;
	uint32_t i;

	for (i = 0; i < 3 * RIG_POOL; i++) {
		if (i % RIG_RING == 0)
			rig_scribble_pool(&r);
		rig_pattern(sent, len, i);
		rig_send(&r, sent, len, -1);
		assert_int_equal(burst(&m, 1), 1);
		assert_int_equal(m->pkt_len, len);
		check(m);
		rig_scribble(m);
		rte_pktmbuf_free(m);
	}
}

static void
check_single(const struct rte_mbuf *m)
{
	assert_fresh(m, RTE_PKTMBUF_HEADROOM + ALIGN, 1, 0);
	assert_int_equal(m->data_len, 100);
}

static void
test_mbufs_are_initialised(void **state)
{
	(void)state;
	expect_fresh_packets(100, check_single);
}

/* The buffers behind the first, too, which hold no header. */
static void
check_merged(const struct rte_mbuf *m)
{
	assert_fresh(m, RTE_PKTMBUF_HEADROOM + HDR, 2, 0);
	assert_int_equal(m->data_len, 2048 - HDR);
	assert_fresh(m->next, RTE_PKTMBUF_HEADROOM, 1, 0);
	assert_int_equal(m->next->data_len, 4000 + HDR - 2048);
}

static void
test_merged_mbufs_are_initialised(void **state)
{
	(void)state;
	expect_fresh_packets(4000, check_merged);
}

/* What an application reads of a short packet, and the header: one line goes from core to core. And
 * the packet begins where wide vectors do. */
static void
test_header_and_packet_share_a_line(void **state)
{
	struct rte_mbuf *m;
	uint32_t i;

	(void)state;
	for (i = 0; i < RIG_RING; i++) {
		rig_pattern(sent, 52, i);
		rig_send(&r, sent, 52, -1);
		assert_int_equal(burst(&m, 1), 1);
		assert_int_equal(rte_pktmbuf_mtod(m, uintptr_t) % RTE_CACHE_LINE_SIZE, ALIGN);
		rte_pktmbuf_free(m);
	}
}

/* The pool has fastened other memory to its mbufs, for good. */
static void
test_pinned_external_buffers(void **state)
{
	struct rte_mempool *usual = r.pool;
	struct rte_pktmbuf_extmem mem = {.elt_size = RIG_ROOM, .buf_len = RIG_POOL * RIG_ROOM};
	struct rte_mbuf *m;
	uint32_t i;

	(void)state;
	assert_int_equal(rte_eth_dev_stop(r.port), 0);
	mem.buf_ptr = rte_malloc("pinned", mem.buf_len, RTE_CACHE_LINE_SIZE);
	assert_non_null(mem.buf_ptr);
	mem.buf_iova = rte_malloc_virt2iova(mem.buf_ptr);
	r.pool = rte_pktmbuf_pool_create_extbuf(
		"pinned", RIG_POOL, 0, 0, RIG_ROOM, SOCKET_ID_ANY, &mem, 1);
	assert_non_null(r.pool);
	assert_int_equal(rig_configure(&r, &port_mergeable), 0);
	assert_int_equal(rte_eth_dev_start(r.port), 0);
	rig_wait_link(&r, true);
	for (i = 0; i < 3 * RIG_POOL; i++) {
		rig_pattern(sent, 100, i);
		rig_send(&r, sent, 100, -1);
		assert_int_equal(burst(&m, 1), 1);
		assert_fresh(m, RTE_PKTMBUF_HEADROOM + ALIGN, 1, RTE_MBUF_F_EXTERNAL);
		assert_memory_equal(rte_pktmbuf_mtod(m, void *), sent, 100);
		rte_pktmbuf_free(m);
	}
	assert_int_equal(rte_eth_dev_stop(r.port), 0);
	assert_int_equal(rig_free(&r), RIG_POOL);
	rte_mempool_free(r.pool);
	rte_free(mem.buf_ptr);
	r.pool = usual;
	assert_int_equal(rig_configure(&r, &port_mergeable), 0);
}

/* One segment up to the last byte of an mbuf: first the packet begins where it can, then the header
 * lies within the headroom. */
static void
test_frames_that_just_fit(void **state)
{
	static const struct {
		uint16_t mtu;
		uint32_t data_off;
	} cases[] = {
		{2048 - 18 - ALIGN, RTE_PKTMBUF_HEADROOM + ALIGN},
		{2048 - 18 - ALIGN + 1, RTE_PKTMBUF_HEADROOM + 12},
		{2048 - 18 - 12, RTE_PKTMBUF_HEADROOM + 12},
		{2048 - 18 - 11, RTE_PKTMBUF_HEADROOM},
		{2048 - 18, RTE_PKTMBUF_HEADROOM},
	};
	struct rig_config config = {0};
	struct rte_mbuf *m;
	uint32_t i, len, order;

	(void)state;
	for (i = 0; i < 2 * COUNT_OF(cases); i++) {
		order = i % COUNT_OF(cases);
		config.args = i < COUNT_OF(cases) ? "mrg_rxbuf=0" : "mrg_rxbuf=1";
		config.mtu = cases[order].mtu;
		rig_up(&r, &config);
		for (len = config.mtu; len <= config.mtu + 18U; len++) {
			rig_pattern(sent, len, len);
			assert_int_equal(rig_send(&r, sent, len, -1), 1);
			assert_int_equal(burst(&m, 1), 1);
			assert_fresh(m, cases[order].data_off, 1, 0);
			assert_int_equal(m->pkt_len, len);
			assert_memory_equal(rte_pktmbuf_mtod(m, void *), sent, len);
			rte_pktmbuf_free(m);
		}
		rig_down(&r);
	}
}

static void
test_packets_of_several_buffers(void **state)
{
	static const uint32_t lens[] = {2048, 2049, 4096 + 12, 4096 + 13, 8999, 9018};
	uint32_t i, lap;

	(void)state;
	for (lap = 0; lap < 20; lap++) {
		for (i = 0; i < COUNT_OF(lens); i++) {
			rig_pattern(sent, lens[i], i + lap);
			rig_send(&r, sent, lens[i], -1);
			assert_received(sent, lens[i]);
		}
	}
}

/* Short frames took half of a short ring, too few to fill it up again: a long one must fit. */
static void
test_a_long_frame_after_short_ones(void **state)
{
	uint32_t i, lap;

	(void)state;
	for (lap = 0; lap < 20; lap++) {
		for (i = 0; i < 4; i++) {
			rig_pattern(sent, 60, i + lap);
			rig_send(&r, sent, 60, -1);
			assert_received(sent, 60);
		}
		rig_pattern(sent, 9018, lap);
		assert_int_equal(rig_send(&r, sent, 9018, -1), 5);
		assert_received(sent, 9018);
	}
}

/* Every buffer of the ring is needed. */
static void
test_packet_of_all_buffers(void **state)
{
	const uint32_t len = RIG_RING * 2048 - HDR;
	static uint8_t large[RIG_RING * 2048];
	struct rte_mbuf *m;

	(void)state;
	rig_pattern(large, len, 1);
	assert_int_equal(rig_send(&r, large, len, -1), RIG_RING);
	assert_int_equal(burst(&m, 1), 1);
	assert_int_equal(m->nb_segs, RIG_RING);
	assert_int_equal(m->pkt_len, len);
	assert_memory_equal(rte_pktmbuf_read(m, len - 60, 60, got), large + len - 60, 60);
	rte_pktmbuf_free(m);
	rig_pattern(sent, 60, 2);
	rig_send(&r, sent, 60, -1);
	assert_received(sent, 60);
}

static void
test_wrong_num_buffers(void **state)
{
	static const int claims[] = {0, 2, 3, RIG_RING, RIG_RING + 1, 65535};
	struct rte_mbuf *m;
	uint32_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(claims); i++) {
		rig_pattern(sent, 60, i);
		rig_send(&r, sent, 60, claims[i]);
		assert_int_equal(burst(&m, 1), 0);
		assert_int_equal(rig_xstat(&r, "rx_q0_bad_merged"), i + 1);
		/* In step: the next packet is whole. */
		rig_send(&r, sent, 60, -1);
		assert_received(sent, 60);
	}
}

/* A merged packet for an application that takes one segment only. */
static void
test_no_scatter(void **state)
{
	struct rte_mbuf *m;

	(void)state;
	rig_pattern(sent, 4000, 1);
	assert_int_equal(rig_send(&r, sent, 4000, -1), 2);
	assert_int_equal(burst(&m, 1), 0);
	assert_int_equal(rig_xstat(&r, "rx_q0_no_scatter"), 1);
	rig_send(&r, sent, 60, -1);
	assert_received(sent, 60);
}

static void
test_lengths_below_the_header(void **state)
{
	struct rte_eth_stats stats;
	struct rte_mbuf *m;
	uint32_t len;

	(void)state;
	for (len = 0; len <= 12; len++) {
		rig_send_raw(&r, len);
		assert_int_equal(burst(&m, 1), 0);
	}
	assert_int_equal(rig_xstat(&r, "rx_q0_bad_length"), 13);
	assert_int_equal(rte_eth_stats_get(r.port, &stats), 0);
	assert_int_equal(stats.ierrors, 13);
	rig_pattern(sent, 60, 1);
	rig_send(&r, sent, 60, -1);
	assert_received(sent, 60);
}

/* A length above what was posted breaks the ring; the driver takes the link down and up again. */
static void
test_a_broken_ring_is_left_and_begun_again(void **state)
{
	struct rte_mbuf *m;
	int i;

	(void)state;
	rig_send_raw(&r, 65536);
	assert_int_equal(burst(&m, 1), 0);
	for (i = 0; i < 500 && rig_xstat(&r, "rx_q0_broken") == 0; i++)
		rte_delay_us_sleep(10000);
	assert_int_equal(rig_xstat(&r, "rx_q0_broken"), 1);
	rig_wait_link(&r, true);
	rig_pattern(sent, 60, 1);
	rig_send(&r, sent, 60, -1);
	assert_received(sent, 60);
}

/* Only empty polls bring it back. */
static void
test_a_dry_pool_comes_back(void **state)
{
	struct rte_mbuf *held[RIG_POOL], *pkts[RIG_RING], *m;
	uint32_t i, n = 0, round;

	(void)state;
	for (round = 0; round < 3; round++) {
		for (n = 0; (held[n] = rte_pktmbuf_alloc(r.pool)) != NULL; n++)
			;
		for (i = 0; i < RIG_RING; i++) {
			rig_pattern(sent, 60, i);
			rig_send(&r, sent, 60, -1);
		}
		assert_int_equal(burst(pkts, RIG_RING), RIG_RING);
		assert_int_equal(burst(&m, 1), 0);
		assert_true(rig_xstat(&r, "rx_q0_no_mbuf") >= round + 1);
		assert_int_equal(rig_xstat(&r, "rx_q0_low_water"), 0);
		/* A few come back, and are posted, though not enough for all: partial fill. */
		rte_pktmbuf_free_bulk(pkts, 5);
		assert_int_equal(burst(&m, 1), 0);
		assert_int_equal(rig_free(&r), 0);
		rig_pattern(sent, 60, 1);
		rig_send(&r, sent, 60, -1);
		assert_received(sent, 60);
		rte_pktmbuf_free_bulk(pkts + 5, RIG_RING - 5);
		rte_pktmbuf_free_bulk(held, n);
		assert_int_equal(burst(&m, 1), 0);
		assert_int_equal(rig_free(&r), RIG_POOL - RIG_RING);
	}
}

static void
test_status_of_descriptors(void **state)
{
	struct rte_mbuf *m;

	(void)state;
	assert_int_equal(rte_eth_rx_queue_count(r.port, 0), 0);
	assert_int_equal(rte_eth_rx_descriptor_status(r.port, 0, 0), RTE_ETH_RX_DESC_AVAIL);
	rig_pattern(sent, 60, 1);
	rig_send(&r, sent, 60, -1);
	assert_int_equal(rte_eth_rx_queue_count(r.port, 0), 1);
	assert_int_equal(rte_eth_rx_descriptor_status(r.port, 0, 0), RTE_ETH_RX_DESC_DONE);
	assert_int_equal(rte_eth_rx_descriptor_status(r.port, 0, 1), RTE_ETH_RX_DESC_AVAIL);
	assert_int_equal(burst(&m, 1), 1);
	rte_pktmbuf_free(m);
	/* One slot is free, which is too few for a refill to be worth it. */
	assert_int_equal(
		rte_eth_rx_descriptor_status(r.port, 0, RIG_RING - 1), RTE_ETH_RX_DESC_UNAVAIL);
	assert_int_equal(rte_eth_rx_descriptor_status(r.port, 0, RIG_RING), -EINVAL);
}

int
main(void)
{
#define WITH(how, test) RIG_TEST(&r, how, test)
	const struct CMUnitTest tests[] = {
		WITH(port_plain, test_frames_arrive),
		WITH(port_mergeable, test_frames_arrive),
		WITH(port_scatter, test_frames_arrive),
		WITH(port_cached, test_frames_arrive),
		WITH(port_any_order, test_frames_arrive),
		WITH(port_cached, test_a_long_burst_is_bounded_by_the_ring),
		WITH(port_cached, test_mbufs_are_initialised),
		WITH(port_plain, test_a_long_burst_is_bounded_by_the_ring),
		WITH(port_mergeable, test_a_long_burst_is_bounded_by_the_ring),
		WITH(port_mergeable, test_mbufs_are_initialised),
		WITH(port_plain, test_mbufs_are_initialised),
		WITH(port_scatter, test_merged_mbufs_are_initialised),
		WITH(port_mergeable, test_header_and_packet_share_a_line),
		WITH(port_plain, test_header_and_packet_share_a_line),
		WITH(port_mergeable, test_pinned_external_buffers),
		cmocka_unit_test(test_frames_that_just_fit),
		WITH(port_scatter, test_packets_of_several_buffers),
		WITH(port_scatter, test_packet_of_all_buffers),
		WITH(port_short, test_a_long_frame_after_short_ones),
		WITH(port_scatter, test_wrong_num_buffers),
		WITH(port_mergeable, test_wrong_num_buffers),
		WITH(port_mergeable, test_no_scatter),
		WITH(port_plain, test_lengths_below_the_header),
		WITH(port_mergeable, test_lengths_below_the_header),
		WITH(port_mergeable, test_a_broken_ring_is_left_and_begun_again),
		WITH(port_mergeable, test_a_dry_pool_comes_back),
		WITH(port_plain, test_a_dry_pool_comes_back),
		WITH(port_cached, test_a_dry_pool_comes_back),
		WITH(port_mergeable, test_status_of_descriptors),
	};

	return rig_main(tests, COUNT_OF(tests));
}
