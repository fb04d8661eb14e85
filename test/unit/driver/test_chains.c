/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* Receive of frames longer than a buffer from a device that does not merge: chains of mbufs. */

#include <errno.h>

#include "chains.h"

static const struct rig_config port_jumbo = {.args = "mrg_rxbuf=0", .scatter = true, .mtu = JUMBO};
static const struct rig_config port_any_order = {
	.args = "mrg_rxbuf=0,in_order=0", .scatter = true, .mtu = JUMBO};
static const struct rig_config port_eager = {
	.args = "mrg_rxbuf=0,refill=eager", .scatter = true, .mtu = JUMBO};
static const struct rig_config port_half = {
	.args = "mrg_rxbuf=0,refill=half", .scatter = true, .mtu = JUMBO};
static const struct rig_config port_least = {
	.args = "mrg_rxbuf=0,refill_budget=1", .scatter = true, .mtu = JUMBO};
static const struct rig_config port_sleeps = {
	.args = "mrg_rxbuf=0", .scatter = true, .mtu = JUMBO, .interrupts = true};
static const struct rig_config port_longest = {
	.args = "mrg_rxbuf=0", .scatter = true, .mtu = 65506, .interrupts = true};

/* Every border between two segments, one byte before and behind it, over several laps. */
static void
pass_borders(uint32_t room, uint32_t longest)
{
	uint32_t lap, i, border;
	int off;

	for (lap = 0; lap < 3; lap++) {
		assert_passes(14, room, lap);
		for (i = 1; (border = i * room - (uint32_t)HDR) < longest; i++) {
			for (off = -1; off <= 1; off++)
				assert_passes(border + (uint32_t)off, room, i + lap);
		}
		assert_passes(longest, room, lap);
	}
	assert_int_equal(rig_ring(&r, 0)->fault, VQ_DEVICE_OK);
}

static void
test_borders_of_segments(void **state)
{
	static const struct {
		uint16_t room, mtu, ring;
	} shapes[] = {
		{2048, 2031, 2},     /* one byte more than a buffer */
		{2048, 4066, 2},     /* all that two entries hold: 4084 bytes and the header */
		{2048, 4066, 4},     /* two full buffers */
		{2048, 4067, 4},     /* three */
		{2048, 9000, 8},     /* one chain, and entries left */
		{2048, 9000, 256},   /* of which the pool fills a part */
		{2048, 65506, 32},   /* one chain is all */
		{2048, 65517, 1024}, /* many */
		{1024, 9000, 16},    /* short buffers */
		{64, 1500, 32},      /* the shortest */
		{300, 65517, 256},   /* one chain is nearly all */
	};
	uint32_t i, order;

	(void)state;
	for (i = 0; i < 2 * COUNT_OF(shapes); i++) {
		order = i / COUNT_OF(shapes);
		rig_up(&r, &(struct rig_config){.scatter = true,
				   .args = order ? "mrg_rxbuf=0" : "mrg_rxbuf=0,in_order=0",
				   .room = shapes[i % COUNT_OF(shapes)].room,
				   .mtu = shapes[i % COUNT_OF(shapes)].mtu,
				   .ring = shapes[i % COUNT_OF(shapes)].ring});
		pass_borders(
			shapes[i % COUNT_OF(shapes)].room, shapes[i % COUNT_OF(shapes)].mtu + 18U);
		rig_down(&r);
	}
}

/* Frames of all lengths, several at a time. */
static void
test_bursts(void **state)
{
	static uint32_t lens[CHAINS];
	struct rte_mbuf *pkts[RIG_RING];
	uint64_t bytes = 0;
	uint32_t i, lap, total = 0;

	(void)state;
	for (lap = 0; lap < 50; lap++) {
		uint32_t n = 1 + lap % (CHAINS / 2);

		for (i = 0; i < n; i++) {
			lens[i] = 14 + (lap * 1013 + i * 2749) % (JUMBO + 5);
			rig_pattern(sent, lens[i], i + lap);
			rig_send(&r, sent, lens[i], -1);
		}
		assert_int_equal(burst(pkts, RIG_RING), n);
		for (i = 0; i < n; i++) {
			rig_pattern(sent, lens[i], i + lap);
			assert_packet(pkts[i], sent, lens[i], 2048);
			bytes += lens[i];
		}
		rte_pktmbuf_free_bulk(pkts, n);
		total += n;
	}
	assert_int_equal(rig_xstat(&r, "rx_q0_good_packets"), total);
	assert_int_equal(rig_xstat(&r, "rx_q0_good_bytes"), bytes);
	assert_int_equal(rig_xstat(&r, "rx_q0_no_mbuf"), 0);
	/* What is neither in the ring nor the application's is in the pool, at most a chain less:
	 * free chains keep what was not used. */
	assert_in_range(rig_free(&r), RIG_POOL - CHAINS * CHAIN, RIG_POOL);
}

static void
test_all_chains_at_once(void **state)
{
	struct rte_mbuf *pkts[RIG_RING];
	uint32_t i;

	(void)state;
	assert_int_equal(rig_free(&r), RIG_POOL - CHAINS * CHAIN);
	for (i = 0; i < CHAINS; i++) {
		rig_pattern(sent, JUMBO, i);
		rig_send(&r, sent, JUMBO, -1);
	}
	assert_int_equal(rte_eth_rx_queue_count(r.port, 0), CHAINS * CHAIN);
	assert_int_equal(burst(pkts, RIG_RING), CHAINS);
	for (i = 0; i < CHAINS; i++) {
		rig_pattern(sent, JUMBO, i);
		assert_packet(pkts[i], sent, JUMBO, 2048);
	}
	assert_int_equal(rig_xstat(&r, "rx_q0_low_water"), 0);
	assert_int_equal(rig_xstat(&r, "rx_q0_posted"), CHAINS * CHAIN);
	assert_int_equal(rig_free(&r), RIG_POOL - 2 * CHAINS * CHAIN);
	rte_pktmbuf_free_bulk(pkts, CHAINS);
	assert_passes(60, 2048, 1);
}

/* A used length up to what the chain has is taken; one above it breaks the ring. */
static void
test_lengths_that_a_device_may_say(void **state)
{
	const uint32_t all = CHAIN * 2048;
	struct rte_mbuf *m;
	uint32_t len;
	int i;

	(void)state;
	for (len = 0; len <= HDR; len++) {
		rig_send_raw(&r, len);
		assert_int_equal(burst(&m, 1), 0);
	}
	assert_int_equal(rig_xstat(&r, "rx_q0_bad_length"), HDR + 1);
	assert_passes(60, 2048, 1);
	rig_send_raw(&r, all);
	assert_int_equal(burst(&m, 1), 1);
	assert_int_equal(rte_mbuf_check(m, 1, NULL), 0);
	assert_int_equal(m->pkt_len, all - HDR);
	assert_int_equal(m->nb_segs, CHAIN);
	rte_pktmbuf_free(m);
	rig_send_raw(&r, all + 1);
	assert_int_equal(burst(&m, 1), 0);
	for (i = 0; i < 500 && rig_xstat(&r, "rx_q0_broken") == 0; i++)
		rte_delay_us_sleep(10000);
	assert_int_equal(rig_xstat(&r, "rx_q0_broken"), 1);
	rig_wait_link(&r, true);
	assert_passes(JUMBO, 2048, 1);
}

/* Only empty polls bring it back, mbuf by mbuf, and a chain is posted when it is whole. */
static void
test_a_dry_pool_comes_back(void **state)
{
	struct rte_mbuf *held[RIG_POOL + 1], *pkts[RIG_RING], *m;
	uint32_t i, n, round;

	(void)state;
	for (round = 0; round < 3; round++) {
		n = hold_all(held);
		for (i = 0; i < CHAINS; i++) {
			rig_pattern(sent, JUMBO, i);
			rig_send(&r, sent, JUMBO, -1);
		}
		assert_int_equal(burst(pkts, RIG_RING), CHAINS);
		assert_int_equal(posted(), 0);
		assert_true(rig_xstat(&r, "rx_q0_no_mbuf") > round);
		for (i = 1; i < CHAIN; i++) {
			rte_pktmbuf_free(held[--n]);
			assert_int_equal(burst(&m, 1), 0);
			assert_int_equal(rig_free(&r), 0);
			assert_int_equal(posted(), 0);
		}
		rte_pktmbuf_free(held[--n]);
		assert_int_equal(burst(&m, 1), 0);
		assert_int_equal(posted(), CHAIN);
		assert_passes(JUMBO, 2048, round);
		rte_pktmbuf_free_bulk(pkts, CHAINS);
		rte_pktmbuf_free_bulk(held, n);
		assert_int_equal(burst(&m, 1), 0);
		assert_int_equal(posted(), CHAINS * CHAIN);
		assert_int_equal(rig_free(&r), RIG_POOL - CHAINS * CHAIN);
	}
}

/* A short frame takes one mbuf of its chain; with a dry pool the remains make chains again. */
static void
test_remains_make_chains(void **state)
{
	struct rte_mbuf *held[RIG_POOL + 1], *pkts[RIG_RING];
	uint32_t i, n, left = CHAINS * CHAIN;

	(void)state;
	n = hold_all(held);
	while (left >= CHAIN) {
		uint32_t frames = left / CHAIN;

		for (i = 0; i < frames; i++) {
			rig_pattern(sent, 60, i);
			rig_send(&r, sent, 60, -1);
		}
		assert_int_equal(burst(pkts, RIG_RING), frames);
		for (i = 0; i < frames; i++) {
			rig_pattern(sent, 60, i);
			assert_packet(pkts[i], sent, 60, 2048);
			held[n++] = pkts[i];
		}
		left -= frames;
		assert_int_equal(posted(), left / CHAIN * CHAIN);
	}
	assert_int_equal(n, RIG_POOL - left);
	rte_pktmbuf_free_bulk(held, n);
}

/* Everything or nothing: what the pool cannot serve in full stays in the pool. */
static void
test_an_eager_refill(void **state)
{
	struct rte_mbuf *held[RIG_POOL + 1], *pkts[2], *m;
	uint32_t n;

	(void)state;
	assert_passes(JUMBO, 2048, 1);
	assert_int_equal(posted(), CHAINS * CHAIN);
	n = hold_all(held);
	rig_send(&r, sent, JUMBO, -1);
	rig_send(&r, sent, JUMBO, -1);
	assert_int_equal(burst(pkts, 2), 2);
	rte_pktmbuf_free_bulk(held + n - (2 * CHAIN - 1), 2 * CHAIN - 1);
	n -= 2 * CHAIN - 1;
	assert_int_equal(burst(&m, 1), 0);
	assert_int_equal(rig_free(&r), 2 * CHAIN - 1);
	assert_int_equal(posted(), (CHAINS - 2) * CHAIN);
	rte_pktmbuf_free(held[--n]);
	assert_int_equal(burst(&m, 1), 0);
	assert_int_equal(rig_free(&r), 0);
	assert_int_equal(posted(), CHAINS * CHAIN);
	rte_pktmbuf_free_bulk(held, n);
	rte_pktmbuf_free_bulk(pkts, 2);
}

/* Half of the 60 entries in use: the seventh chain taken makes it more. */
static void
test_a_refill_by_half(void **state)
{
	uint32_t i;

	(void)state;
	for (i = 1; i <= CHAINS / 2; i++) {
		assert_passes(60, 2048, i);
		assert_int_equal(posted(), (CHAINS - i) * CHAIN);
	}
	assert_passes(60, 2048, i);
	assert_int_equal(posted(), CHAINS * CHAIN);
	assert_int_equal(rig_xstat(&r, "rx_q0_low_water"), (CHAINS - 7) * CHAIN);
	assert_int_equal(rig_xstat(&r, "rx_q0_refills"), 1);
	/* Seven mbufs were new. */
	assert_int_equal(rig_xstat(&r, "rx_q0_posted"), 7 * CHAIN);
}

/* A budget below a chain posts one chain a call, not none. */
static void
test_the_smallest_budget(void **state)
{
	struct rte_mbuf *held[RIG_POOL + 1], *pkts[RIG_RING], *m;
	uint32_t i, n;

	(void)state;
	n = hold_all(held);
	for (i = 0; i < CHAINS; i++)
		rig_send(&r, sent, JUMBO, -1);
	assert_int_equal(burst(pkts, RIG_RING), CHAINS);
	rte_pktmbuf_free_bulk(held, n);
	for (i = 1; i <= CHAINS; i++) {
		assert_int_equal(burst(&m, 1), 0);
		assert_int_equal(posted(), i * CHAIN);
	}
	rte_pktmbuf_free_bulk(pkts, CHAINS);
}

static void
test_what_an_application_may_ask(void **state)
{
	struct rte_eth_burst_mode mode;
	struct rte_eth_rxq_info info;
	struct rte_mbuf *m;

	(void)state;
	assert_int_equal(rte_eth_rx_burst_mode_get(r.port, 0, &mode), 0);
	assert_string_equal(mode.info, "Split In-Order Non-Mergeable Chains Refill Budget");
	assert_int_equal(rte_eth_rx_queue_info_get(r.port, 0, &info), 0);
	assert_int_equal(info.nb_desc, RIG_RING);
	assert_int_equal(info.rx_buf_size, 2048);
	assert_int_equal(info.scattered_rx, 1);
	assert_int_equal(rte_eth_rx_queue_count(r.port, 0), 0);
	assert_int_equal(posted(), CHAINS * CHAIN);
	rig_send(&r, sent, 60, -1);
	assert_int_equal(rte_eth_rx_queue_count(r.port, 0), CHAIN);
	assert_int_equal(rte_eth_rx_descriptor_status(r.port, 0, CHAIN - 1), RTE_ETH_RX_DESC_DONE);
	assert_int_equal(rte_eth_rx_descriptor_status(r.port, 0, CHAIN), RTE_ETH_RX_DESC_AVAIL);
	assert_int_equal(burst(&m, 1), 1);
	rte_pktmbuf_free(m);
	assert_int_equal(rte_eth_rx_descriptor_status(r.port, 0, (CHAINS - 1) * CHAIN),
		RTE_ETH_RX_DESC_UNAVAIL);
	assert_int_equal(rte_eth_rx_descriptor_status(r.port, 0, RIG_RING), -EINVAL);
}

/* A full ring lets the application sleep; one without a chain does not. */
static void
test_sleep(void **state)
{
	struct rte_mbuf *held[RIG_POOL + 1], *pkts[RIG_RING];
	uint32_t i, n;

	(void)state;
	assert_int_equal(rte_eth_dev_rx_intr_enable(r.port, 0), 0);
	assert_int_equal(rig_xstat(&r, "rx_q0_intr_armed"), 1);
	assert_int_equal(rig_xstat(&r, "rx_q0_intr_at_once"), 0);
	n = hold_all(held);
	for (i = 0; i < CHAINS; i++)
		rig_send(&r, sent, JUMBO, -1);
	assert_int_equal(burst(pkts, RIG_RING), CHAINS);
	assert_int_equal(rte_eth_dev_rx_intr_enable(r.port, 0), 0);
	assert_int_equal(rig_xstat(&r, "rx_q0_intr_at_once"), 1);
	rte_pktmbuf_free_bulk(held, n);
	rte_pktmbuf_free_bulk(pkts, CHAINS);
	/* Arming fills the ring. */
	assert_int_equal(rte_eth_dev_rx_intr_enable(r.port, 0), 0);
	assert_int_equal(rig_xstat(&r, "rx_q0_intr_at_once"), 1);
	assert_int_equal(posted(), CHAINS * CHAIN);
}

/* Two chains are buffers for two of the largest frames, though their number is below that of the
 * buffers that one takes. */
static void
test_sleep_with_few_chains(void **state)
{
	(void)state;
	assert_int_equal(posted(), RIG_RING);
	assert_int_equal(rte_eth_dev_rx_intr_enable(r.port, 0), 0);
	assert_int_equal(rig_xstat(&r, "rx_q0_intr_armed"), 1);
	assert_int_equal(rig_xstat(&r, "rx_q0_intr_at_once"), 0);
}

int
main(void)
{
#define WITH(how, test) RIG_TEST(&r, how, test)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_borders_of_segments),
		WITH(port_jumbo, test_bursts),
		WITH(port_any_order, test_bursts),
		WITH(port_eager, test_bursts),
		WITH(port_half, test_bursts),
		WITH(port_least, test_bursts),
		WITH(port_jumbo, test_all_chains_at_once),
		WITH(port_jumbo, test_lengths_that_a_device_may_say),
		WITH(port_any_order, test_lengths_that_a_device_may_say),
		WITH(port_jumbo, test_a_dry_pool_comes_back),
		WITH(port_jumbo, test_remains_make_chains),
		WITH(port_eager, test_an_eager_refill),
		WITH(port_half, test_a_refill_by_half),
		WITH(port_least, test_the_smallest_budget),
		WITH(port_jumbo, test_what_an_application_may_ask),
		WITH(port_sleeps, test_sleep),
		WITH(port_longest, test_sleep_with_few_chains),
	};

	return rig_main(tests, COUNT_OF(tests));
}
