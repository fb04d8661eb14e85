/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * A device that is pulled out. From then on its registers are not touched: that would be a
 * violation, and so would be a doorbell.
 */

#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "pci_port.h"
#include "sluice_control.h"

static struct pci_port p;

static void
with_ring_reset(struct pci_mock *m)
{
	m->offered |= VQ_FEATURE(RING_RESET);
}

static void
wait_removed(void)
{
	int i;

	for (i = 0; i < 5000 && atomic_load(&p.removed_events) == 0; i++) {
		sluice_control_wake(sluice_dev_of(p.eth));
		usleep(1000);
	}
	assert_int_equal(atomic_load(&p.removed_events), 1);
}

static void
forget_notifications(void)
{
	uint32_t i;

	for (i = 0; i < 3; i++)
		(void)pci_mock_notified(&p.m, i, NULL);
}

static void
assert_no_notification(void)
{
	uint32_t i;

	for (i = 0; i < 3; i++)
		assert_false(pci_mock_notified(&p.m, i, NULL));
}

/* Whatever an application may still ask for. */
static void
ask_everything(void)
{
	struct rte_ether_addr mac = {.addr_bytes = {2, 0, 0, 0, 0, 9}};
	struct rte_eth_dev_info info;
	struct rte_eth_stats stats;

	(void)rte_eth_promiscuous_enable(p.r.port);
	(void)rte_eth_allmulticast_enable(p.r.port);
	(void)rte_eth_dev_default_mac_addr_set(p.r.port, &mac);
	(void)rte_eth_dev_set_mtu(p.r.port, 1400);
	assert_int_equal(rte_eth_dev_info_get(p.r.port, &info), 0);
	assert_int_equal(rte_eth_stats_get(p.r.port, &stats), 0);
}

static void
test_unplugged_at_work(void **state)
{
	struct rte_mbuf *mbuf, *got;

	(void)state;
	pci_port_assert_works(&p);
	mbuf = rte_pktmbuf_alloc(p.r.pool);
	assert_non_null(rte_pktmbuf_append(mbuf, 60));
	assert_int_equal(rte_eth_tx_burst(p.r.port, 0, &mbuf, 1), 1);
	forget_notifications();
	pci_port_unplug(&p);
	wait_removed();
	assert_int_equal(atomic_load(&p.link_events), 1);
	rig_wait_link(&p.r, false);
	assert_int_equal(atomic_load(&p.recovering_events), 0);
	/* What it had comes back. */
	assert_int_equal(rig_xstat(&p.r, "tx_q0_reset_drops"), 1);
	assert_int_equal(rte_eth_rx_burst(p.r.port, 0, &got, 1), 0);
	mbuf = rte_pktmbuf_alloc(p.r.pool);
	assert_non_null(mbuf);
	assert_int_equal(rte_eth_tx_burst(p.r.port, 0, &mbuf, 1), 0);
	rte_pktmbuf_free(mbuf);
	ask_everything();
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	assert_int_equal(rig_free(&p.r), RIG_POOL);
	ask_everything();
	assert_int_equal(rte_eth_dev_start(p.r.port), -ENODEV);
	assert_int_equal(rig_free(&p.r), RIG_POOL);
	pci_port_close(&p);
	assert_no_notification();
	assert_int_equal(p.m.accesses, 0);
	assert_int_equal(atomic_load(&p.removed_events), 1);
	assert_int_equal(atomic_load(&p.link_events), 1);
}

static void
test_unplugged_while_stopped(void **state)
{
	(void)state;
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	forget_notifications();
	pci_port_unplug(&p);
	wait_removed();
	ask_everything();
	assert_int_equal(rte_eth_dev_start(p.r.port), -ENODEV);
	pci_port_close(&p);
	assert_no_notification();
	assert_int_equal(p.m.accesses, 0);
	assert_int_equal(atomic_load(&p.removed_events), 1);
	assert_int_equal(atomic_load(&p.link_events), 0);
}

/* The application is quicker than the control thread. */
static void
test_stopped_before_it_is_noticed(void **state)
{
	(void)state;
	forget_notifications();
	pci_port_unplug(&p);
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	assert_int_equal(rte_eth_dev_start(p.r.port), -ENODEV);
	assert_int_equal(rig_free(&p.r), RIG_POOL);
	pci_port_close(&p);
	assert_no_notification();
	assert_int_equal(p.m.accesses, 0);
}

static void
test_started_before_it_is_noticed(void **state)
{
	(void)state;
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	pci_port_unplug(&p);
	pci_port_log_clear();
	assert_int_equal(rte_eth_dev_start(p.r.port), -ENODEV);
	assert_int_equal(pci_port_log_lines(&p, "has been unplugged"), 1);
	wait_removed();
}

/* One that only seems to be gone, and is given up: it must not get at memory any more. */
static void
test_a_device_that_hides(void **state)
{
	(void)state;
	PCI_MOCK_SET(&p.m, hides, true);
	wait_removed();
	assert_false(pci_mock_masters(&p.m));
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	assert_int_equal(rte_eth_dev_start(p.r.port), -ENODEV);
	PCI_MOCK_SET(&p.m, hides, false);
	assert_int_equal(rte_eth_dev_start(p.r.port), -ENODEV);
	assert_false(pci_mock_masters(&p.m));
}

static atomic_bool closed;
static atomic_uint later;

static int
close_port(uint16_t port, enum rte_eth_event_type event, void *arg, void *ret)
{
	(void)event;
	(void)arg;
	(void)ret;
	if (rte_eth_dev_stop(port) == 0 && rte_eth_dev_close(port) == 0)
		atomic_store(&closed, true);
	return 0;
}

static int
count_later(uint16_t port, enum rte_eth_event_type event, void *arg, void *ret)
{
	(void)port;
	(void)event;
	(void)arg;
	(void)ret;
	atomic_fetch_add(&later, 1);
	return 0;
}

/* Most applications do. The thread that calls back is the one that the port has to get rid of. */
static void
closed_from_the_callback(enum rte_eth_event_type event, enum rte_eth_event_type other)
{
	const uint16_t port = p.r.port;
	int i;

	atomic_store(&closed, false);
	atomic_store(&later, 0);
	pci_port_ignore_events(&p);
	assert_int_equal(rte_eth_dev_callback_register(port, event, close_port, NULL), 0);
	assert_int_equal(rte_eth_dev_callback_register(port, other, count_later, NULL), 0);
	pci_port_unplug(&p);
	sluice_control_wake(sluice_dev_of(p.eth));
	for (i = 0; i < 5000 && !atomic_load(&closed); i++)
		usleep(1000);
	assert_true(atomic_load(&closed));
	p.eth = NULL;
	assert_false(rte_eth_dev_is_valid_port(port));
	/* Of a port that is no more, only so. */
	(void)rte_eth_dev_callback_unregister(RTE_ETH_ALL, event, close_port, NULL);
	(void)rte_eth_dev_callback_unregister(RTE_ETH_ALL, other, count_later, NULL);
}

static void
test_closed_when_the_link_goes(void **state)
{
	(void)state;
	closed_from_the_callback(RTE_ETH_EVENT_INTR_LSC, RTE_ETH_EVENT_INTR_RMV);
	/* There is no port that has been removed. */
	assert_int_equal(atomic_load(&later), 0);
}

static void
test_closed_when_it_is_removed(void **state)
{
	(void)state;
	closed_from_the_callback(RTE_ETH_EVENT_INTR_RMV, RTE_ETH_EVENT_INTR_LSC);
	assert_int_equal(atomic_load(&later), 1);
}

int
main(void)
{
	static const struct rig_config usual = {0};
#define WITH(shape, test) PCI_PORT_TEST(&p, shape, usual, test)
	const struct CMUnitTest tests[] = {
		WITH(NULL, test_unplugged_at_work),
		WITH(with_ring_reset, test_unplugged_at_work),
		WITH(NULL, test_unplugged_while_stopped),
		WITH(with_ring_reset, test_unplugged_while_stopped),
		WITH(NULL, test_stopped_before_it_is_noticed),
		WITH(with_ring_reset, test_stopped_before_it_is_noticed),
		WITH(NULL, test_started_before_it_is_noticed),
		WITH(with_ring_reset, test_started_before_it_is_noticed),
		WITH(NULL, test_a_device_that_hides),
		WITH(with_ring_reset, test_a_device_that_hides),
		WITH(NULL, test_closed_when_the_link_goes),
		WITH(NULL, test_closed_when_it_is_removed),
	};

	return pci_port_main(tests, COUNT_OF(tests));
}
