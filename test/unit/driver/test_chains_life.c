/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* Receive chains when ports stop, backends go, and frames become longer. */

#include <errno.h>

#include "chains.h"

static const struct rig_config port_jumbo = {.args = "mrg_rxbuf=0", .scatter = true, .mtu = JUMBO};
static const struct rig_config port_short = {.args = "mrg_rxbuf=0"};
static const struct rig_config port_willing = {.scatter = true, .mtu = JUMBO};

/* Some chains in the ring, some half used: every mbuf comes back, and goes into the ring again. */
static void
test_stops_and_starts(void **state)
{
	uint32_t i, lap;

	(void)state;
	for (lap = 0; lap < 20; lap++) {
		for (i = 0; i < lap; i++)
			assert_passes(14 + i * 449, 2048, i);
		assert_int_equal(rte_eth_dev_stop(r.port), 0);
		assert_int_equal(rig_free(&r), RIG_POOL);
		assert_int_equal(rte_eth_dev_start(r.port), 0);
		rig_wait_link(&r, true);
		assert_int_equal(rig_free(&r), RIG_POOL - CHAINS * CHAIN);
	}
	/* Short chains, then longer ones. */
	for (i = 0; i < 4; i++) {
		static const uint16_t mtus[] = {1500, 65517, 4000, JUMBO};

		assert_int_equal(rte_eth_dev_stop(r.port), 0);
		assert_int_equal(rte_eth_dev_set_mtu(r.port, mtus[i]), 0);
		assert_int_equal(rte_eth_dev_start(r.port), 0);
		rig_wait_link(&r, true);
		assert_passes(mtus[i] + 18, 2048, i);
	}
}

static void
test_a_backend_that_comes_back(void **state)
{
	struct rte_mbuf *m;
	uint32_t i;

	(void)state;
	for (i = 0; i < 5; i++) {
		assert_passes(60, 2048, i);
		assert_passes(JUMBO, 2048, i);
		/* Received by nobody. */
		rig_send(&r, sent, JUMBO, -1);
		rig_backend_stop(&r);
		rig_wait_link(&r, false);
		assert_int_equal(burst(&m, 1), 0);
		rig_backend_restart(&r);
		rig_wait_link(&r, true);
		assert_passes(JUMBO, 2048, i);
	}
}

/* With each backend, chains or merged buffers: what is parked serves either. */
static void
test_backends_that_merge_or_not(void **state)
{
	struct rte_eth_burst_mode mode;
	struct rte_mbuf *m;
	uint32_t i;

	(void)state;
	for (i = 0; i < 6; i++) {
		rig_backend_stop(&r);
		rig_wait_link(&r, false);
		r.h.config.features ^= VQ_FEATURE(MRG_RXBUF);
		rig_backend_restart(&r);
		rig_wait_link(&r, true);
		assert_int_equal(rte_eth_rx_burst_mode_get(r.port, 0, &mode), 0);
		assert_int_equal(strstr(mode.info, "Chains") != NULL, i % 2 == 0);
		rig_pattern(sent, JUMBO, i);
		assert_int_equal(rig_send(&r, sent, JUMBO, -1), i % 2 == 0 ? 1 : CHAIN);
		assert_int_equal(burst(&m, 1), 1);
		assert_packet(m, sent, JUMBO, 2048);
		rte_pktmbuf_free(m);
	}
}

static void
test_an_mtu_while_it_runs(void **state)
{
	(void)state;
	/* Room for 5 * 2048 - 12 - 18. */
	assert_int_equal(rte_eth_dev_set_mtu(r.port, 10210), 0);
	assert_int_equal(rte_eth_dev_set_mtu(r.port, 10211), -EBUSY);
	assert_int_equal(rte_eth_dev_set_mtu(r.port, 1500), 0);
	assert_passes(1518, 2048, 1);
	assert_int_equal(rte_eth_dev_set_mtu(r.port, JUMBO), 0);
	assert_passes(JUMBO + 18, 2048, 1);
}

static void
test_frames_that_are_refused(void **state)
{
	struct rte_mbuf *held[RIG_POOL + 1];
	struct rig_config config = port_jumbo;
	uint32_t n;

	(void)state;
	/* It runs, and may be longer only in chains, which the application has to want. */
	assert_int_equal(rte_eth_dev_set_mtu(r.port, JUMBO), -EINVAL);
	assert_int_equal(rte_eth_dev_stop(r.port), 0);
	config.scatter = false;
	assert_int_equal(rig_configure(&r, &config), -EINVAL);
	config.scatter = true;
	config.ring = 4;
	assert_int_equal(rig_configure(&r, &config), -EINVAL);
	config.ring = 8;
	assert_int_equal(rig_configure(&r, &config), 0);
	assert_int_equal(rte_eth_dev_set_mtu(r.port, 65517), -EINVAL);
	/* No frame could come. */
	n = hold_all(held) - CHAIN + 1;
	rte_pktmbuf_free_bulk(held + n, CHAIN - 1);
	assert_int_equal(rte_eth_dev_start(r.port), -ENOMEM);
	assert_int_equal(rig_free(&r), CHAIN - 1);
	rte_pktmbuf_free(held[--n]);
	assert_int_equal(rte_eth_dev_start(r.port), 0);
	rig_wait_link(&r, true);
	assert_int_equal(posted(), CHAIN);
	assert_passes(JUMBO, 2048, 1);
	rte_pktmbuf_free_bulk(held, n);
}

/* Queues may stay when a port is configured anew: no mempool helps a ring that is too short then.
 */
static void
test_frames_too_long_for_a_ring_that_stays(void **state)
{
	struct rte_eth_conf conf = {.rxmode = {.offloads = RTE_ETH_RX_OFFLOAD_SCATTER}};
	struct rig_config config = port_jumbo;

	(void)state;
	config.ring = 8;
	rig_up(&r, &config);
	assert_int_equal(rte_eth_dev_stop(r.port), 0);
	conf.rxmode.mtu = 65517;
	assert_int_equal(rte_eth_dev_configure(r.port, 1, 1, &conf), 0);
	assert_int_equal(rte_eth_dev_start(r.port), -EINVAL);
	assert_int_equal(rig_free(&r), RIG_POOL);
	conf.rxmode.mtu = JUMBO;
	assert_int_equal(rte_eth_dev_configure(r.port, 1, 1, &conf), 0);
	assert_int_equal(rte_eth_dev_start(r.port), 0);
	rig_wait_link(&r, true);
	assert_passes(JUMBO, 2048, 1);
	rig_down(&r);
}

/* More than 256 descriptors are more than a backend takes, whatever the ring has. */
static void
test_chains_that_are_too_long(void **state)
{
	struct rig_config config = {
		.args = "mrg_rxbuf=0", .scatter = true, .room = 128, .ring = 1024};

	(void)state;
	rig_up(&r, &config);
	assert_int_equal(rte_eth_dev_stop(r.port), 0);
	config.mtu = 256 * 128 - 12 - 18 + 1;
	assert_int_equal(rig_configure(&r, &config), -EINVAL);
	config.mtu--;
	assert_int_equal(rig_configure(&r, &config), 0);
	/* As many as the pool has. */
	config.mtu -= 128;
	assert_int_equal(rig_configure(&r, &config), 0);
	assert_int_equal(rte_eth_dev_start(r.port), 0);
	rig_down(&r);
}

int
main(void)
{
#define WITH(how, test) RIG_TEST(&r, how, test)
	const struct CMUnitTest tests[] = {
		WITH(port_jumbo, test_stops_and_starts),
		WITH(port_jumbo, test_a_backend_that_comes_back),
		WITH(port_willing, test_backends_that_merge_or_not),
		WITH(port_jumbo, test_an_mtu_while_it_runs),
		WITH(port_short, test_frames_that_are_refused),
		cmocka_unit_test(test_frames_too_long_for_a_ring_that_stays),
		cmocka_unit_test(test_chains_that_are_too_long),
	};

	return rig_main(tests, COUNT_OF(tests));
}
