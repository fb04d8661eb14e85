/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* Life cycle: any order of calls, backends that are absent, go, and come back; what is refused. */

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <rte_bus_vdev.h>
#include <rte_cycles.h>
#include <rte_malloc.h>

#include "rig.h"

static struct rig r;
static uint8_t frame[2048];
static uint32_t fds;

static const struct rig_config port_usual = {0};
static const struct rig_config port_absent = {.absent = true};
static const struct rig_config port_pairs = {.args = "queues=2", .rxq = 2, .txq = 2};
static const struct rig_config port_only_receive = {.args = "queues=2", .rxq = 2, .txq = 1};
static const struct rig_config port_more_transmit = {.args = "queues=2", .rxq = 1, .txq = 2};

/* A frame each way. */
static void
assert_works(void)
{
	struct vq_net_hdr hdr;
	struct rte_mbuf *m;
	uint32_t nseg;

	rig_pattern(frame, 60, 3);
	rig_send(&r, frame, 60, -1);
	assert_int_equal(rte_eth_rx_burst(r.port, 0, &m, 1), 1);
	assert_memory_equal(rte_pktmbuf_mtod(m, void *), frame, 60);
	assert_int_equal(rte_eth_tx_burst(r.port, 0, &m, 1), 1);
	memset(frame, 0, sizeof(frame));
	assert_int_equal(rig_take(&r, frame, sizeof(frame), &hdr, &nseg), 60);
	rig_complete(&r);
}

static void
test_stop_and_start(void **state)
{
	struct rte_mbuf *m;
	uint32_t i;

	(void)state;
	for (i = 0; i < 200; i++) {
		assert_works();
		/* One transmitted frame that nobody takes, one received that nobody reads. */
		m = rte_pktmbuf_alloc(r.pool);
		assert_non_null(rte_pktmbuf_append(m, 60));
		assert_int_equal(rte_eth_tx_burst(r.port, 0, &m, 1), 1);
		rig_send(&r, frame, 60, -1);
		assert_int_equal(rte_eth_dev_stop(r.port), 0);
		assert_int_equal(rig_free(&r), RIG_POOL);
		assert_int_equal(rig_xstat(&r, "tx_q0_reset_drops"), i + 1);
		r.ntaken = 0;
		assert_int_equal(rte_eth_dev_start(r.port), 0);
		rig_wait_link(&r, true);
	}
}

static void
test_calls_in_any_order(void **state)
{
	struct rte_ether_addr mac = {.addr_bytes = {2, 0, 0, 0, 0, 9}};
	uint32_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		assert_int_equal(rte_eth_dev_stop(r.port), 0);
		assert_int_equal(rte_eth_dev_stop(r.port), 0);
		assert_int_equal(rte_eth_promiscuous_enable(r.port), 0);
		assert_int_equal(rte_eth_promiscuous_disable(r.port), 0);
		assert_int_equal(rte_eth_allmulticast_enable(r.port), 0);
		assert_int_equal(rte_eth_dev_default_mac_addr_set(r.port, &mac), 0);
		assert_int_equal(rte_eth_dev_mac_addr_add(r.port, &mac, 0), -ENOTSUP);
		assert_int_equal(rte_eth_dev_set_mtu(r.port, 1400), 0);
		assert_int_equal(rte_eth_stats_reset(r.port), 0);
		assert_int_equal(rte_eth_xstats_reset(r.port), 0);
		assert_int_equal(rig_configure(&r, &(struct rig_config){.rxq = 2, .txq = 2}), 0);
		assert_int_equal(rig_configure(&r, &(struct rig_config){.ring = 128}), 0);
		assert_int_equal(rte_eth_dev_start(r.port), 0);
		assert_int_equal(rte_eth_dev_start(r.port), 0);
		rig_wait_link(&r, true);
		assert_works();
	}
}

static void
test_it_works(void **state)
{
	(void)state;
	assert_works();
	assert_true(vu_backend_ring(r.h.b, 3)->ready);
}

static void
test_backend_that_comes_later(void **state)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(r.pool);

	(void)state;
	rig_wait_link(&r, false);
	assert_int_equal(rte_eth_rx_burst(r.port, 0, &m, 1), 0);
	assert_int_equal(rte_eth_tx_burst(r.port, 0, &m, 1), 0);
	assert_int_equal(rig_xstat(&r, "tx_q0_link_down"), 1);
	rte_pktmbuf_free(m);
	/* Its receive buffers are the port's already. */
	assert_int_equal(rig_free(&r), RIG_POOL - RIG_RING);
	rig_backend_restart(&r);
	rig_wait_link(&r, true);
	assert_works();
}

static atomic_bool polls;
static uint64_t accepted;

static void *
poll_port(void *arg)
{
	struct rte_mbuf *m;

	while (atomic_load(&polls)) {
		if (rte_eth_rx_burst(r.port, 0, &m, 1) == 1)
			rte_pktmbuf_free(m);
		m = rte_pktmbuf_alloc(r.pool);
		if (m == NULL)
			continue;
		(void)rte_pktmbuf_append(m, 60);
		if (rte_eth_tx_burst(r.port, 0, &m, 1) == 1)
			accepted++;
		else
			rte_pktmbuf_free(m);
	}
	return arg;
}

/* Nobody takes what it sends: each accepted packet comes back when the backend goes, or we stop. */
static void
test_disconnects_while_polled(void **state)
{
	pthread_t thread;
	uint32_t i;

	(void)state;
	accepted = 0;
	atomic_store(&polls, true);
	assert_int_equal(pthread_create(&thread, NULL, poll_port, NULL), 0);
	for (i = 0; i < 8; i++) {
		host_thread_stop(&r.h);
		vu_backend_disconnect(r.h.b, "test");
		rig_wait_link(&r, false);
		host_thread_start(&r.h);
		rig_wait_link(&r, true);
	}
	atomic_store(&polls, false);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(rte_eth_dev_stop(r.port), 0);
	assert_int_equal(rig_xstat(&r, "tx_q0_good_packets"), accepted);
	assert_int_equal(rig_xstat(&r, "tx_q0_reset_drops"), accepted);
	assert_int_equal(rig_free(&r), RIG_POOL);
}

static void
test_backend_that_goes_and_comes(void **state)
{
	struct rte_mbuf *m;
	uint32_t i, wait, stops = 0;

	(void)state;
	for (i = 0; i < 6; i++) {
		assert_works();
		m = rte_pktmbuf_alloc(r.pool);
		assert_non_null(rte_pktmbuf_append(m, 60));
		assert_int_equal(rte_eth_tx_burst(r.port, 0, &m, 1), 1);
		host_thread_stop(&r.h);
		vu_backend_disconnect(r.h.b, "test");
		rig_wait_link(&r, false);
		/* What was in flight comes back; receive buffers stay with the port. */
		for (wait = 0; wait < 500 && rig_free(&r) < RIG_POOL - RIG_RING; wait++)
			rte_delay_us_sleep(10000);
		assert_true(rig_free(&r) >= RIG_POOL - RIG_RING);
		assert_int_equal(rig_xstat(&r, "tx_q0_reset_drops"), ++stops);
		r.ntaken = 0;
		host_thread_start(&r.h);
		rig_wait_link(&r, true);
	}
	assert_works();
}

static atomic_bool closed;

static int
close_port(uint16_t port, enum rte_eth_event_type event, void *arg, void *ret)
{
	(void)event;
	(void)arg;
	(void)ret;
	assert_int_equal(rte_eth_dev_stop(port), 0);
	assert_int_equal(rte_eth_dev_close(port), 0);
	atomic_store(&closed, true);
	return 0;
}

/* The thread that calls back is the one that the port has to get rid of. */
static void
test_closed_from_a_link_callback(void **state)
{
	int i;

	(void)state;
	atomic_store(&closed, false);
	assert_int_equal(
		rte_eth_dev_callback_register(r.port, RTE_ETH_EVENT_INTR_LSC, close_port, NULL), 0);
	assert_works();
	rig_backend_stop(&r);
	for (i = 0; i < 500 && !atomic_load(&closed); i++)
		rte_delay_us_sleep(10000);
	assert_true(atomic_load(&closed));
	assert_false(rte_eth_dev_is_valid_port(r.port));
	assert_int_equal(rig_free(&r), RIG_POOL);
}

static void
test_counters_are_cleared(void **state)
{
	struct rte_eth_stats stats;

	(void)state;
	assert_works();
	assert_int_equal(rte_eth_stats_get(r.port, &stats), 0);
	assert_int_equal(stats.ipackets, 1);
	assert_int_equal(stats.ibytes, 60);
	assert_int_equal(stats.opackets, 1);
	assert_int_equal(stats.obytes, 60);
	assert_int_equal(rte_eth_stats_reset(r.port), 0);
	assert_int_equal(rte_eth_stats_get(r.port, &stats), 0);
	assert_int_equal(stats.ipackets + stats.ibytes + stats.opackets + stats.obytes, 0);
	assert_works();
	assert_int_equal(rig_xstat(&r, "rx_q0_good_packets"), 1);
	assert_int_equal(rig_xstat(&r, "tx_q0_good_packets"), 1);
}

static void
test_frames_too_large_are_refused(void **state)
{
	(void)state;
	/* Running, and without SCATTER. */
	assert_int_equal(rte_eth_dev_set_mtu(r.port, 9000), -EINVAL);
	assert_int_equal(rte_eth_dev_set_mtu(r.port, 2048 - 17), -EINVAL);
	/* Packets begin 32 bytes behind the headroom in the buffers that are posted. */
	assert_int_equal(rte_eth_dev_set_mtu(r.port, 2048 - 18 - 32), 0);
	assert_int_equal(rte_eth_dev_set_mtu(r.port, 2048 - 18 - 31), -EBUSY);
	assert_int_equal(rte_eth_dev_stop(r.port), 0);
	assert_int_equal(rte_eth_dev_set_mtu(r.port, 2048 - 18), 0);
	assert_int_equal(rig_configure(&r, &(struct rig_config){.mtu = 9000}), -EINVAL);
	assert_int_equal(
		rig_configure(&r, &(struct rig_config){.mtu = 9000, .scatter = true, .ring = 4}),
		-EINVAL);
	assert_int_equal(
		rig_configure(&r, &(struct rig_config){.mtu = 9000, .scatter = true, .ring = 8}),
		0);
	assert_int_equal(rte_eth_dev_start(r.port), 0);
	rig_wait_link(&r, true);
	assert_works();
}

static void
test_queues_that_are_refused(void **state)
{
	(void)state;
	assert_int_equal(rte_eth_dev_stop(r.port), 0);
	assert_int_equal(rig_configure(&r, &(struct rig_config){.ring = 100}), -EINVAL);
	assert_int_equal(rig_configure(&r, &(struct rig_config){.ring = 1}), 0);
	assert_int_equal(rig_configure(&r, &(struct rig_config){.ring = 32768}), 0);
	assert_int_equal(rte_eth_dev_start(r.port), 0);
	/* The pool holds fewer: as many as there are have been posted. */
	rig_wait_link(&r, true);
	assert_int_equal(rig_free(&r), 0);
	assert_int_equal(rte_eth_dev_stop(r.port), 0);
	assert_int_equal(rig_free(&r), RIG_POOL);
}

static void
test_a_pool_without_mbufs(void **state)
{
	struct rte_mbuf *held[RIG_POOL + 1];
	uint32_t n;

	(void)state;
	assert_int_equal(rte_eth_dev_stop(r.port), 0);
	for (n = 0; (held[n] = rte_pktmbuf_alloc(r.pool)) != NULL; n++)
		;
	assert_int_equal(n, RIG_POOL);
	assert_int_equal(rte_eth_dev_start(r.port), -ENOMEM);
	rte_pktmbuf_free(held[--n]);
	assert_int_equal(rte_eth_dev_start(r.port), 0);
	rte_pktmbuf_free_bulk(held, n);
	rig_wait_link(&r, true);
	assert_works();
}

/* Memory that DPDK has not allocated has no file that a backend could map. */
static void
test_a_pool_in_foreign_memory(void **state)
{
	struct rte_mempool *pool;

	(void)state;
	pool = rte_mempool_create_empty("foreign", 63, sizeof(struct rte_mbuf) + RIG_ROOM, 0,
		sizeof(struct rte_pktmbuf_pool_private), SOCKET_ID_ANY, 0);
	assert_non_null(pool);
	rte_pktmbuf_pool_init(pool, NULL);
	assert_true(rte_mempool_populate_anon(pool) > 0);
	assert_int_equal(rte_eth_dev_stop(r.port), 0);
	assert_int_equal(
		rte_eth_rx_queue_setup(r.port, 0, RIG_RING, SOCKET_ID_ANY, NULL, pool), -EINVAL);
	rte_mempool_free(pool);
	assert_int_equal(rig_configure(&r, &(struct rig_config){0}), 0);
	assert_int_equal(rte_eth_dev_start(r.port), 0);
	rig_wait_link(&r, true);
}

/* The backend has two pairs. */
static void
test_more_pairs_than_the_backend_has(void **state)
{
	const struct rig_config config = {.args = "queues=4", .rxq = 3, .txq = 3};

	(void)state;
	memset(&r, 0, sizeof(r));
	r.pool = rte_pktmbuf_pool_create("rig", RIG_POOL, 0, 0, RIG_ROOM, SOCKET_ID_ANY);
	rig_backend_start(&r);
	assert_int_equal(rig_probe(&r, &config), 0);
	assert_int_equal(rig_configure(&r, &config), 0);
	assert_int_equal(rte_eth_dev_start(r.port), -ENOSPC);
	assert_int_equal(rig_free(&r), RIG_POOL);
	assert_int_equal(rig_configure(&r, &(struct rig_config){.rxq = 2, .txq = 2}), 0);
	assert_int_equal(rte_eth_dev_start(r.port), 0);
	rig_wait_link(&r, true);
	assert_works();
	rig_down(&r);
}

/* Ports come and go. */
static void
test_nothing_is_left(void **state)
{
	uint32_t i;

	(void)state;
	for (i = 0; i < 30; i++) {
		rig_up(&r, &(struct rig_config){0});
		assert_works();
		rig_down(&r);
		if (i == 0)
			fds = count_fds();
	}
	assert_int_equal(count_fds(), fds);
}

int
main(void)
{
#define WITH(how, test) RIG_TEST(&r, how, test)
	const struct CMUnitTest tests[] = {
		WITH(port_usual, test_stop_and_start),
		WITH(port_pairs, test_calls_in_any_order),
		WITH(port_pairs, test_it_works),
		WITH(port_only_receive, test_it_works),
		WITH(port_more_transmit, test_it_works),
		WITH(port_absent, test_backend_that_comes_later),
		WITH(port_usual, test_backend_that_goes_and_comes),
		WITH(port_usual, test_disconnects_while_polled),
		WITH(port_usual, test_closed_from_a_link_callback),
		WITH(port_usual, test_counters_are_cleared),
		WITH(port_usual, test_frames_too_large_are_refused),
		WITH(port_usual, test_queues_that_are_refused),
		WITH(port_usual, test_a_pool_without_mbufs),
		WITH(port_usual, test_a_pool_in_foreign_memory),
		cmocka_unit_test(test_more_pairs_than_the_backend_has),
		cmocka_unit_test(test_nothing_is_left),
	};

	return rig_main(tests, COUNT_OF(tests));
}
