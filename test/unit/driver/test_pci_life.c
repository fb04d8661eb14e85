/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* The life of a port over virtio-pci: frames and doorbells, stop and start, the link. */

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "pci_port.h"

static struct pci_port p;

static void
with_ring_reset(struct pci_mock *m)
{
	m->offered |= VQ_FEATURE(RING_RESET);
}

static void
with_data(struct pci_mock *m)
{
	m->offered |= VQ_FEATURE(NOTIFICATION_DATA);
}

static void
one_doorbell(struct pci_mock *m)
{
	pci_mock_put32(pci_mock_cap(m, VPCI_CAP_NOTIFY) + VPCI_CAP_MULTIPLIER, 0);
	m->offered &= ~VQ_FEATURE(CTRL_VQ);
}

static void
two_pairs(struct pci_mock *m)
{
	pci_mock_pairs(m, 2);
}

static void
test_frames_both_ways(void **state)
{
	uint32_t i;

	(void)state;
	for (i = 0; i < 3 * RIG_RING; i++)
		pci_port_assert_works(&p);
	/* No vectors without interrupts. */
	assert_int_equal(p.m.queues[0].vector, VPCI_NO_VECTOR);
	assert_int_equal(p.m.queues[1].vector, VPCI_NO_VECTOR);
	assert_int_equal(p.m.config_vector, VPCI_NO_VECTOR);
	assert_int_equal(PCI_MOCK_GET(&p.m, status),
		VPCI_ACKNOWLEDGE | VPCI_DRIVER | VPCI_FEATURES_OK | VPCI_DRIVER_OK);
	/* What nobody asked for. */
	assert_true(!(p.m.accepted & VQ_FEATURE(CSUM)));
}

static void
test_receive_queues_are_notified_at_start(void **state)
{
	uint32_t value;

	(void)state;
	assert_true(pci_mock_notified(&p.m, 0, &value));
	assert_int_equal(value, 0);
	assert_true(pci_mock_notified(&p.m, 2, &value));
	assert_int_equal(value, 2);
	assert_false(pci_mock_notified(&p.m, 1, NULL));
	assert_false(pci_mock_notified(&p.m, 3, NULL));
}

static void
test_a_doorbell_names_its_queue(void **state)
{
	const uint8_t *doorbells = p.m.memory + PCI_MOCK_NOTIFY;
	uint32_t value;

	(void)state;
	(void)pci_mock_notified(&p.m, 1, NULL);
	pci_port_transmit(&p);
	/* Two bytes, and none beside them. */
	assert_memory_equal(doorbells + 4, "\x01\x00\xff\xff", 4);
	assert_true(pci_mock_notified(&p.m, 1, &value));
	assert_int_equal(value, 1);
}

static void
test_all_queues_have_one_doorbell(void **state)
{
	uint32_t value;

	(void)state;
	(void)pci_mock_notified(&p.m, 0, NULL);
	pci_port_transmit(&p);
	assert_true(pci_mock_notified(&p.m, 0, &value));
	assert_int_equal(value, 1);
}

/* All 16 bits of the index, over their end. */
static void
test_a_doorbell_tells_how_far_the_ring_goes(void **state)
{
	struct vq_net_hdr hdr;
	uint8_t bytes[64];
	uint32_t value, nseg, i;

	(void)state;
	for (i = 1; i <= 66000; i++) {
		pci_port_transmit(&p);
		assert_true(pci_mock_notified(&p.m, 1, &value));
		assert_int_equal(value, (i & 0xffff) << 16 | 1);
		assert_int_equal(rig_take(&p.r, bytes, sizeof(bytes), &hdr, &nseg), 60);
		rig_complete(&p.r);
	}
}

static void
test_a_device_that_wants_no_notifications(void **state)
{
	uint64_t kicks, suppressed;

	(void)state;
	(void)pci_mock_notified(&p.m, 1, NULL);
	kicks = rig_xstat(&p.r, "tx_q0_kicks");
	suppressed = rig_xstat(&p.r, "tx_q0_kicks_suppressed");
	vq_device_disarm(rig_ring(&p.r, 1));
	pci_port_transmit(&p);
	assert_false(pci_mock_notified(&p.m, 1, NULL));
	assert_int_equal(rig_xstat(&p.r, "tx_q0_kicks_suppressed"), suppressed + 1);
	assert_true(vq_device_arm(rig_ring(&p.r, 1)));
	pci_port_transmit(&p);
	assert_true(pci_mock_notified(&p.m, 1, NULL));
	assert_int_equal(rig_xstat(&p.r, "tx_q0_kicks"), kicks + 1);
}

static atomic_bool echoes;
static atomic_uint echoed;

/* What is transmitted is received, as far as there is room. */
static void
echo_one(struct pci_mock *m)
{
	struct vq_device *rx = &m->queues[0].vq, *tx = &m->queues[1].vq;
	struct vq_chain in, out;
	struct vq_seg from[4], to;

	if (!m->queues[0].enable || !m->queues[1].enable || !pci_mock_masters(m))
		return;
	if (vq_device_peek(tx, false, &out, 1, from, COUNT_OF(from), 0) == 0)
		return;
	if (out.nseg == 1 && vq_device_peek(rx, true, &in, 1, &to, 1, 0) == 1) {
		memcpy(to.base, from[0].base, from[0].len);
		((struct vq_net_hdr *)(void *)to.base)->num_buffers = 1;
		vq_device_complete(rx, in.head, from[0].len);
		(void)vq_device_publish(rx);
	}
	vq_device_complete_tx(tx, &out, 1);
	(void)vq_device_publish(tx);
	atomic_fetch_add(&echoed, 1);
}

static void *
echo(void *arg)
{
	struct pci_mock *m = arg;

	while (atomic_load(&echoes)) {
		pthread_mutex_lock(&m->lock);
		echo_one(m);
		pthread_mutex_unlock(&m->lock);
		sched_yield();
	}
	return arg;
}

static void
test_stop_and_start_under_traffic(void **state)
{
	const uint32_t resets = PCI_MOCK_GET(&p.m, resets);
	const bool rings_only = (p.m.accepted & VQ_FEATURE(RING_RESET)) != 0;
	struct rte_mbuf *pkts[32];
	uint32_t i, burst, n, sent, before;
	pthread_t thread;

	(void)state;
	atomic_store(&echoed, 0);
	atomic_store(&echoes, true);
	assert_int_equal(pthread_create(&thread, NULL, echo, &p.m), 0);
	for (i = 0; i < 200; i++) {
		pci_port_assert_rings_are_whole(&p);
		before = atomic_load(&echoed);
		for (burst = 0; burst < 1 + i % 7; burst++) {
			for (n = 0; n < COUNT_OF(pkts) / 2; n++)
				pkts[n] = pci_port_frame(&p);
			sent = rte_eth_tx_burst(p.r.port, 0, pkts, (uint16_t)n);
			rte_pktmbuf_free_bulk(pkts + sent, n - sent);
			n = rte_eth_rx_burst(p.r.port, 0, pkts, COUNT_OF(pkts));
			rte_pktmbuf_free_bulk(pkts, n);
			sched_yield();
		}
		/* Else at any moment. */
		while (i % 4 == 0 && atomic_load(&echoed) == before)
			sched_yield();
		assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
		assert_int_equal(rig_free(&p.r), RIG_POOL);
		assert_int_equal(PCI_MOCK_GET(&p.m, queues[0].enable), 0);
		assert_int_equal(PCI_MOCK_GET(&p.m, queues[1].enable), 0);
		assert_int_equal(rte_eth_dev_start(p.r.port), 0);
	}
	atomic_store(&echoes, false);
	assert_int_equal(pthread_join(thread, NULL), 0);
	pci_port_assert_works(&p);
	/* Each frame was taken by the device, or is counted as lost. */
	assert_int_equal(rig_xstat(&p.r, "tx_q0_good_packets"),
		atomic_load(&echoed) + rig_xstat(&p.r, "tx_q0_reset_drops") + 1);
	assert_true(atomic_load(&echoed) >= 50);
	if (rings_only) {
		assert_int_equal(p.m.resets, resets);
		assert_int_equal(p.m.ring_resets, 400);
	} else {
		/* When it is left, and before it is used again. */
		assert_int_equal(p.m.resets, resets + 400);
	}
}

static void
test_the_link_is_the_devices(void **state)
{
	uint32_t i;

	(void)state;
	for (i = 0; i < 5; i++) {
		pci_mock_set_link(&p.m, false);
		pci_port_wait_events(&p, 2 * i + 1);
		rig_wait_link(&p.r, false);
		/* Rings go on: what was sent before the cable went still comes. */
		pci_port_assert_works(&p);
		pci_mock_set_link(&p.m, true);
		pci_port_wait_events(&p, 2 * i + 2);
		rig_wait_link(&p.r, true);
	}
	/* Told when it changes, and not else. */
	for (i = 0; i < 3; i++)
		pci_port_turn(&p);
	assert_int_equal(atomic_load(&p.link_events), 10);
	/* Down already when it is started. */
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	pci_mock_set_link(&p.m, false);
	assert_int_equal(rte_eth_dev_start(p.r.port), 0);
	rig_wait_link(&p.r, false);
}

int
main(void)
{
	static const struct rig_config usual = {0};
	static const struct rig_config pairs = {.rxq = 2, .txq = 2};
#define WITH(shape, config, test) PCI_PORT_TEST(&p, shape, config, test)
	const struct CMUnitTest tests[] = {
		WITH(NULL, usual, test_frames_both_ways),
		WITH(two_pairs, pairs, test_receive_queues_are_notified_at_start),
		WITH(NULL, usual, test_a_doorbell_names_its_queue),
		WITH(one_doorbell, usual, test_all_queues_have_one_doorbell),
		WITH(with_data, usual, test_a_doorbell_tells_how_far_the_ring_goes),
		WITH(NULL, usual, test_a_device_that_wants_no_notifications),
		WITH(NULL, usual, test_stop_and_start_under_traffic),
		WITH(with_ring_reset, usual, test_stop_and_start_under_traffic),
		WITH(NULL, usual, test_the_link_is_the_devices),
	};

	return pci_port_main(tests, COUNT_OF(tests));
}
