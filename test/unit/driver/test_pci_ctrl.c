/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* The control queue: what the device is told, when, and what becomes of a device that does not
 * answer as it should. */

#include <errno.h>
#include <string.h>

#include "pci_port.h"

#define CLASS_RX  0
#define PROMISC   0
#define ALLMULTI  1
#define CLASS_MAC 1
#define MAC_SET   1
#define CLASS_MQ  4
#define PAIRS_SET 0

static struct pci_port p;

static void
with_ring_reset(struct pci_mock *m)
{
	m->offered |= VQ_FEATURE(RING_RESET);
}

static void
four_pairs(struct pci_mock *m)
{
	pci_mock_pairs(m, 4);
}

static void
one_pair_with_mq(struct pci_mock *m)
{
	pci_mock_pairs(m, 1);
}

static void
shortest_queue(struct pci_mock *m)
{
	m->queues[2].max = 2;
	m->queues[2].size = 2;
}

static void
any_order_and_data(struct pci_mock *m)
{
	m->offered &= ~VQ_FEATURE(IN_ORDER);
	m->offered |= VQ_FEATURE(NOTIFICATION_DATA);
}

static void
without_modes(struct pci_mock *m)
{
	m->offered &= ~VQ_FEATURE(CTRL_RX);
}

static void
without_mac_command(struct pci_mock *m)
{
	m->offered &= ~VQ_FEATURE(CTRL_MAC_ADDR);
}

static void
without_control(struct pci_mock *m)
{
	m->offered &= ~VQ_FEATURE(CTRL_VQ);
	m->num_queues = 2;
}

static void
restart(void)
{
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	pci_mock_forget_commands(&p.m);
	assert_int_equal(rte_eth_dev_start(p.r.port), 0);
}

static int
told(uint8_t class, uint8_t command)
{
	return pci_mock_last_command(&p.m, class, command);
}

static int
set_mac(uint8_t last)
{
	struct rte_ether_addr mac = {.addr_bytes = {2, 0, 0, 0, 0, last}};

	return rte_eth_dev_default_mac_addr_set(p.r.port, &mac);
}

/* The address that the device was told last. */
static void
assert_told_mac(uint8_t last)
{
	const uint8_t mac[6] = {2, 0, 0, 0, 0, last};
	uint32_t i = PCI_MOCK_GET(&p.m, ncommands);

	while (i-- != 0) {
		if (p.m.commands[i].class == CLASS_MAC && p.m.commands[i].command == MAC_SET) {
			assert_int_equal(p.m.commands[i].len, sizeof(mac));
			assert_memory_equal(p.m.commands[i].data, mac, sizeof(mac));
			return;
		}
	}
	fail_msg("no address");
}

/* A frame through the second pair. */
static void
assert_second_pair_works(void)
{
	struct rte_mbuf *mbuf = pci_port_frame(&p);
	struct vq_device *q = rig_ring(&p.r, 3);
	struct vq_chain chain;
	struct vq_seg seg;
	uint32_t value;

	assert_int_equal(rte_eth_tx_burst(p.r.port, 1, &mbuf, 1), 1);
	assert_true(pci_mock_notified(&p.m, 3, &value));
	assert_int_equal(value, 3);
	assert_int_equal(vq_device_peek(q, false, &chain, 1, &seg, 1, 0), 1);
	assert_int_equal(seg.len, 60 + sizeof(struct vq_net_hdr));
	vq_device_complete_tx(q, &chain, 1);
	(void)vq_device_publish(q);
}

static void
test_number_of_pairs(void **state)
{
	(void)state;
	restart();
	assert_int_equal(told(CLASS_MQ, PAIRS_SET), 2);
	assert_int_equal(p.m.commands[0].class, CLASS_MQ);
	assert_int_equal(p.m.commands[0].len, 2);
	/* As many queues as are used, and the control queue behind all that there are. */
	assert_int_equal(p.m.queues[0].enable + p.m.queues[1].enable + p.m.queues[2].enable +
				 p.m.queues[3].enable,
		4);
	assert_int_equal(p.m.queues[4].enable + p.m.queues[5].enable + p.m.queues[6].enable +
				 p.m.queues[7].enable,
		0);
	assert_int_equal(p.m.queues[8].enable, 1);
	pci_port_assert_works(&p);
	assert_second_pair_works();
	/* The device sends to each pair in use: none may lack its receive queue. */
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	assert_int_equal(rig_configure(&p.r, &(struct rig_config){.rxq = 1, .txq = 2}), -EINVAL);
	assert_int_equal(rig_configure(&p.r, &(struct rig_config){.rxq = 2, .txq = 2}), 0);
	assert_int_equal(rte_eth_dev_start(p.r.port), 0);
	/* One more than before, one fewer. */
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	assert_int_equal(rig_configure(&p.r, &(struct rig_config){.rxq = 3, .txq = 1}), 0);
	assert_int_equal(rte_eth_dev_start(p.r.port), 0);
	assert_int_equal(told(CLASS_MQ, PAIRS_SET), 3);
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	assert_int_equal(rig_configure(&p.r, &(struct rig_config){.rxq = 1, .txq = 1}), 0);
	assert_int_equal(rte_eth_dev_start(p.r.port), 0);
	assert_int_equal(told(CLASS_MQ, PAIRS_SET), 1);
}

static void
test_one_pair_needs_no_command(void **state)
{
	(void)state;
	restart();
	assert_int_equal(told(CLASS_MQ, PAIRS_SET), -1);
	assert_true(!(p.m.accepted & VQ_FEATURE(MQ)));
	assert_int_equal(p.m.queues[2].enable, 1);
}

static void
test_modes_and_address(void **state)
{
	struct rte_ether_addr mac;

	(void)state;
	assert_int_equal(rte_eth_promiscuous_enable(p.r.port), 0);
	assert_int_equal(told(CLASS_RX, PROMISC), 1);
	assert_int_equal(rte_eth_promiscuous_disable(p.r.port), 0);
	assert_int_equal(told(CLASS_RX, PROMISC), 0);
	assert_int_equal(rte_eth_allmulticast_enable(p.r.port), 0);
	assert_int_equal(told(CLASS_RX, PROMISC), 0);
	assert_int_equal(told(CLASS_RX, ALLMULTI), 1);
	assert_int_equal(rte_eth_allmulticast_disable(p.r.port), 0);
	assert_int_equal(told(CLASS_RX, ALLMULTI), 0);
	assert_int_equal(set_mac(7), 0);
	assert_told_mac(7);
	assert_int_equal(rte_eth_macaddr_get(p.r.port, &mac), 0);
	assert_int_equal(mac.addr_bytes[5], 7);
}

/* The device forgets all with a reset. */
static void
test_told_again_after_a_start(void **state)
{
	(void)state;
	assert_int_equal(rte_eth_promiscuous_enable(p.r.port), 0);
	assert_int_equal(set_mac(8), 0);
	restart();
	assert_int_equal(told(CLASS_RX, PROMISC), 1);
	assert_int_equal(told(CLASS_RX, ALLMULTI), 0);
	assert_told_mac(8);
	/* And what is set meanwhile. */
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	assert_int_equal(rte_eth_promiscuous_disable(p.r.port), 0);
	assert_int_equal(rte_eth_allmulticast_enable(p.r.port), 0);
	assert_int_equal(set_mac(9), 0);
	pci_mock_forget_commands(&p.m);
	assert_int_equal(rte_eth_dev_start(p.r.port), 0);
	assert_int_equal(told(CLASS_RX, PROMISC), 0);
	assert_int_equal(told(CLASS_RX, ALLMULTI), 1);
	assert_told_mac(9);
}

static void
test_told_again_after_a_recovery(void **state)
{
	(void)state;
	assert_int_equal(rte_eth_promiscuous_enable(p.r.port), 0);
	assert_int_equal(set_mac(8), 0);
	pci_mock_forget_commands(&p.m);
	pci_mock_set_status(&p.m, 0, VPCI_NEEDS_RESET);
	pci_port_wait_events(&p, 2);
	pci_port_wait_link(&p, true);
	assert_int_equal(told(CLASS_RX, PROMISC), 1);
	assert_told_mac(8);
	pci_port_assert_works(&p);
}

static void
test_without_the_feature(void **state)
{
	const uint64_t accepted = PCI_MOCK_GET(&p.m, accepted);

	(void)state;
	restart();
	if (!(accepted & VQ_FEATURE(CTRL_RX))) {
		assert_int_equal(rte_eth_promiscuous_enable(p.r.port), -ENOTSUP);
		assert_int_equal(rte_eth_allmulticast_enable(p.r.port), -ENOTSUP);
		assert_int_equal(rte_eth_promiscuous_get(p.r.port), 0);
		assert_int_equal(told(CLASS_RX, PROMISC), -1);
	} else {
		assert_int_equal(rte_eth_promiscuous_enable(p.r.port), 0);
	}
	if (!(accepted & VQ_FEATURE(CTRL_MAC_ADDR))) {
		assert_int_equal(set_mac(7), -ENOTSUP);
		assert_int_equal(told(CLASS_MAC, MAC_SET), -1);
	} else {
		assert_int_equal(set_mac(7), 0);
	}
	pci_port_assert_works(&p);
}

static void
test_refused(void **state)
{
	struct rte_ether_addr before, after;

	(void)state;
	assert_int_equal(rte_eth_macaddr_get(p.r.port, &before), 0);
	PCI_MOCK_SET(&p.m, answer, PCI_MOCK_REFUSES);
	assert_int_equal(rte_eth_promiscuous_enable(p.r.port), -EREMOTEIO);
	assert_int_equal(rte_eth_promiscuous_get(p.r.port), 0);
	assert_int_equal(set_mac(7), -EREMOTEIO);
	/* Something has been completed, nothing has been said. */
	PCI_MOCK_SET(&p.m, answer, PCI_MOCK_WRITES_NOTHING);
	assert_int_equal(set_mac(7), -EREMOTEIO);
	assert_int_equal(rte_eth_macaddr_get(p.r.port, &after), 0);
	assert_memory_equal(&before, &after, sizeof(before));
	PCI_MOCK_SET(&p.m, answer, PCI_MOCK_ANSWERS);
	assert_int_equal(set_mac(7), 0);
	assert_int_equal(rte_eth_promiscuous_enable(p.r.port), 0);
	assert_int_equal(pci_port_log_lines(&p, "not answer"), 0);
}

/* What is not an answer, and that it is not asked for twice. */
static void
test_never_answered(void **state)
{
	static const enum pci_mock_answer answers[] = {
		PCI_MOCK_SILENT, PCI_MOCK_WRONG_ID, PCI_MOCK_TOO_LONG};
	struct timespec before, after;
	uint32_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(answers); i++) {
		pci_mock_forget_commands(&p.m);
		pci_port_log_clear();
		PCI_MOCK_SET(&p.m, answer, answers[i]);
		pci_mock_stop_clock(true);
		clock_gettime(CLOCK_MONOTONIC, &before);
		assert_int_equal(set_mac(7), -ETIMEDOUT);
		clock_gettime(CLOCK_MONOTONIC, &after);
		pci_mock_stop_clock(false);
		assert_in_range(after.tv_sec - before.tv_sec, 0, 2);
		assert_int_equal(pci_port_log_lines(&p, "not answer"), 1);
		PCI_MOCK_SET(&p.m, ncommands, 0);
		PCI_MOCK_SET(&p.m, answer, PCI_MOCK_ANSWERS);
		assert_false(pci_mock_notified(&p.m, 2, NULL));
		assert_int_equal(set_mac(7), -ETIMEDOUT);
		assert_int_equal(rte_eth_promiscuous_enable(p.r.port), -ETIMEDOUT);
		assert_false(pci_mock_notified(&p.m, 2, NULL));
		assert_int_equal(pci_port_log_lines(&p, ""), 1);
		/* Frames go on, and a start makes it good. */
		pci_port_assert_works(&p);
		restart();
		pci_port_assert_works(&p);
		assert_int_equal(set_mac(7), 0);
		assert_told_mac(7);
	}
}

static void
test_closed_without_an_answer(void **state)
{
	(void)state;
	PCI_MOCK_SET(&p.m, answer, PCI_MOCK_SILENT);
	assert_int_equal(set_mac(7), -ETIMEDOUT);
	pci_port_close(&p);
	assert_int_equal(p.m.status, 0);
}

/* Up to the end of the ring and over, many times. */
static void
test_many_commands(void **state)
{
	uint32_t i;

	(void)state;
	for (i = 0; i < 500; i++) {
		pci_mock_forget_commands(&p.m);
		assert_int_equal(set_mac((uint8_t)i), 0);
		assert_told_mac((uint8_t)i);
		if (i % 2 == 0)
			assert_int_equal(rte_eth_allmulticast_enable(p.r.port), 0);
		else
			assert_int_equal(rte_eth_allmulticast_disable(p.r.port), 0);
		assert_int_equal(told(CLASS_RX, ALLMULTI), i % 2 == 0);
	}
}

/* With its rings stopped alone the device is still there: it is told at once. */
static void
test_while_only_the_rings_are_stopped(void **state)
{
	(void)state;
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	assert_int_equal(rte_eth_promiscuous_enable(p.r.port), 0);
	assert_int_equal(told(CLASS_RX, PROMISC), 1);
	assert_int_equal(rte_eth_dev_start(p.r.port), 0);
	pci_port_assert_works(&p);
}

int
main(void)
{
	static const struct rig_config usual = {0};
	static const struct rig_config pairs = {.rxq = 2, .txq = 2};
	static const struct rig_config event_idx = {.args = "event_idx=1"};
#define WITH(shape, config, test) PCI_PORT_TEST(&p, shape, config, test)
	const struct CMUnitTest tests[] = {
		WITH(four_pairs, pairs, test_number_of_pairs),
		WITH(NULL, usual, test_one_pair_needs_no_command),
		WITH(one_pair_with_mq, usual, test_one_pair_needs_no_command),
		WITH(NULL, usual, test_modes_and_address),
		WITH(NULL, usual, test_told_again_after_a_start),
		WITH(with_ring_reset, usual, test_told_again_after_a_start),
		WITH(NULL, usual, test_told_again_after_a_recovery),
		WITH(without_modes, usual, test_without_the_feature),
		WITH(without_mac_command, usual, test_without_the_feature),
		WITH(without_control, usual, test_without_the_feature),
		WITH(NULL, usual, test_refused),
		WITH(NULL, usual, test_never_answered),
		WITH(with_ring_reset, usual, test_never_answered),
		WITH(NULL, usual, test_closed_without_an_answer),
		WITH(NULL, usual, test_many_commands),
		WITH(shortest_queue, usual, test_many_commands),
		WITH(any_order_and_data, usual, test_many_commands),
		WITH(NULL, event_idx, test_many_commands),
		WITH(with_ring_reset, usual, test_while_only_the_rings_are_stopped),
	};

	return pci_port_main(tests, COUNT_OF(tests));
}
