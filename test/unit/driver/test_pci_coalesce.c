/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* Receive interrupts that a PCI device moderates: what it is told, when, and what becomes of
 * devices that offer it in part, refuse it, or say nothing. */

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "pci_port.h"

#define RX_SET 1
#define VQ_SET 2

#define STATIC "coalesce=static,coalesce_frames=24,coalesce_usecs=70"

static struct pci_port p;

static void
by_queue(struct pci_mock *m)
{
	pci_mock_pairs(m, 2);
	m->offered |= VQ_FEATURE(VQ_NOTF_COAL);
}

static void
all_at_once(struct pci_mock *m)
{
	pci_mock_pairs(m, 2);
	m->offered |= VQ_FEATURE(NOTF_COAL);
}

static void
both(struct pci_mock *m)
{
	by_queue(m);
	all_at_once(m);
}

static void
many_queues(struct pci_mock *m)
{
	pci_mock_pairs(m, 4);
	m->offered |= VQ_FEATURE(VQ_NOTF_COAL);
	/* Five MSI-X vectors. */
	pci_mock_put16(&m->config[m->config[VPCI_CAPS_FIRST] + VPCI_MSIX_CONTROL], 4);
}

static void
with_ring_reset(struct pci_mock *m)
{
	both(m);
	m->offered |= VQ_FEATURE(RING_RESET);
}

static void
neither(struct pci_mock *m)
{
	pci_mock_pairs(m, 2);
}

static void
without_control(struct pci_mock *m)
{
	both(m);
	m->offered &= ~(VQ_FEATURE(CTRL_VQ) | VQ_FEATURE(MQ));
	m->num_queues = 2;
}

static struct sluice_rxq *
rxq(uint16_t queue)
{
	return p.eth->data->rx_queues[queue];
}

/* Commands of the class since they were forgotten, of one kind or (-1) of all. */
static uint32_t
told(int command)
{
	uint32_t i, n = 0;

	pthread_mutex_lock(&p.m.lock);
	for (i = 0; i < p.m.ncommands; i++)
		n += p.m.commands[i].class == PCI_MOCK_CLASS_COALESCE &&
		     (command < 0 || p.m.commands[i].command == command);
	pthread_mutex_unlock(&p.m.lock);
	return n;
}

static void
assert_queue_has(uint16_t queue, uint32_t frames, uint32_t usecs)
{
	struct pci_mock_coalesce has = PCI_MOCK_GET(&p.m, queues[2 * queue].coalesce);

	assert_int_equal(has.max_packets, frames);
	assert_int_equal(has.max_usecs, usecs);
	/* Transmit queues are none of it. */
	has = PCI_MOCK_GET(&p.m, queues[2 * queue + 1].coalesce);
	assert_int_equal(has.max_packets, 0);
	assert_int_equal(has.max_usecs, 0);
}

static void
assert_queue_has_profile(uint16_t queue, uint8_t profile)
{
	const struct vq_adapt_profile *has = &vq_adapt_profiles[profile];

	assert_queue_has(queue, vq_adapt_frames(has, RIG_RING), has->usecs);
}

static void
send_to(uint16_t queue)
{
	struct vq_device *q = rig_ring(&p.r, 2 * (uint32_t)queue);
	struct vq_chain chain;
	struct vq_seg seg;

	assert_int_equal(vq_device_peek(q, true, &chain, 1, &seg, 1, 0), 1);
	memset(seg.base, 0, sizeof(struct vq_net_hdr));
	((struct vq_net_hdr *)(void *)seg.base)->num_buffers = 1;
	vq_device_complete(q, chain.head, sizeof(struct vq_net_hdr) + 60);
	(void)vq_device_publish(q);
}

static void
arm(uint16_t queue)
{
	assert_int_equal(rte_eth_dev_rx_intr_enable(p.r.port, queue), 0);
}

/* The application was woken, takes a frame, and goes to sleep. */
static void
event(uint16_t queue)
{
	struct rte_mbuf *mbuf;

	send_to(queue);
	assert_int_equal(rte_eth_dev_rx_intr_disable(p.r.port, queue), 0);
	assert_int_equal(rte_eth_rx_burst(p.r.port, queue, &mbuf, 1), 1);
	rte_pktmbuf_free(mbuf);
	arm(queue);
}

/* The policy has come to a profile. */
static void
come_to(uint16_t queue, uint8_t profile)
{
	/* The first event ends a pause, which takes it to profile 0. */
	event(queue);
	rxq(queue)->coalesce.adapt.profile = profile;
	event(queue);
	pci_port_turn(&p);
}

static void
restart(void)
{
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	pci_mock_forget_commands(&p.m);
	pci_port_log_clear();
	assert_int_equal(rte_eth_dev_start(p.r.port), 0);
}

static int
setup(void **state)
{
	(void)pci_port_setup(state);
	/* Looks at idle queues come when a test lets time pass. */
	pci_mock_stop_clock(true);
	return 0;
}

static int
teardown(void **state)
{
	pci_mock_stop_clock(false);
	return pci_port_teardown(state);
}

static void
test_told_once(void **state)
{
	(void)state;
	restart();
	assert_int_equal(told(RX_SET), 1);
	assert_int_equal(told(-1), 1);
	assert_queue_has(0, 24, 70);
	assert_queue_has(1, 24, 70);
	event(0);
	event(0);
	pci_mock_pass_ms(1000);
	pci_port_turn(&p);
	pci_port_turn(&p);
	assert_int_equal(told(-1), 1);
	assert_int_equal(rig_xstat(&p.r, "rx_q0_coalesce_changes"), 0);
	pci_port_assert_works(&p);
}

static void
test_told_once_a_queue(void **state)
{
	(void)state;
	restart();
	assert_int_equal(told(VQ_SET), 2);
	assert_int_equal(told(-1), 2);
	assert_queue_has(0, 24, 70);
	assert_queue_has(1, 24, 70);
	pci_port_turn(&p);
	assert_int_equal(told(-1), 2);
}

/* Each queue for itself; and by nobody but the control thread. */
static void
test_a_queue_follows_its_load(void **state)
{
	struct sluice_dev *dev = sluice_dev_of(p.eth);
	int i;

	(void)state;
	restart();
	/* What it has by itself nobody knows. */
	assert_int_equal(told(VQ_SET), 2);
	assert_queue_has_profile(0, 0);
	assert_queue_has_profile(1, 0);
	pci_mock_forget_commands(&p.m);
	pthread_mutex_lock(&dev->lock);
	for (i = 0; i < 2 * VQ_ADAPT_EVENTS; i++) {
		pci_mock_pass_us(20);
		event(0);
	}
	assert_int_equal(told(-1), 0);
	pthread_mutex_unlock(&dev->lock);
	assert_int_equal(rig_xstat(&p.r, "rx_q0_intr_events"), i);
	assert_int_equal(rig_xstat(&p.r, "rx_q0_intr_held"), 0);
	assert_true(rig_xstat(&p.r, "rx_q0_coalesce_changes") >= 1);
	assert_int_not_equal(rig_xstat(&p.r, "rx_q0_coalesce_profile"), 0);
	pci_port_turn(&p);
	assert_int_equal(told(VQ_SET), 1);
	assert_int_equal(told(-1), 1);
	assert_queue_has_profile(0, (uint8_t)rig_xstat(&p.r, "rx_q0_coalesce_profile"));
	assert_queue_has_profile(1, 0);
	come_to(1, 3);
	assert_int_equal(told(-1), 2);
	assert_queue_has_profile(1, 3);
	assert_int_equal(rig_xstat(&p.r, "rx_q1_coalesce_profile"), 3);
	pci_port_turn(&p);
	assert_int_equal(told(-1), 2);
}

/* The change wakes the control thread, which does not look by itself. */
static void
test_told_at_once(void **state)
{
	int i;

	(void)state;
	atomic_store(&pci_port_only_events, true);
	pci_port_turn(&p);
	event(0);
	pci_mock_forget_commands(&p.m);
	rxq(0)->coalesce.adapt.profile = 2;
	event(0);
	for (i = 0; i < 5000 && told(VQ_SET) == 0; i++)
		usleep(1000);
	atomic_store(&pci_port_only_events, false);
	assert_int_equal(told(VQ_SET), 1);
}

/* With one setting for all, no queue has more than it wants. */
static void
test_the_least_of_all_queues(void **state)
{
	(void)state;
	restart();
	assert_int_equal(told(RX_SET), 1);
	assert_queue_has_profile(0, 0);
	come_to(0, 3);
	assert_int_equal(told(-1), 1);
	come_to(1, 2);
	assert_int_equal(told(-1), 2);
	assert_queue_has_profile(0, 2);
	assert_queue_has_profile(1, 2);
	come_to(1, 4);
	assert_int_equal(told(-1), 3);
	assert_queue_has_profile(0, 3);
	assert_queue_has_profile(1, 3);
	assert_int_equal(told(RX_SET), 3);
}

/* Looks at idle queues, which are further apart than this. */
static void
let_it_look(void)
{
	pci_mock_pass_ms(150);
	pci_port_turn(&p);
}

/* The first frame after a pause waits for nothing. */
static void
test_a_pause(void **state)
{
	int i;

	(void)state;
	restart();
	come_to(0, 4);
	assert_queue_has_profile(0, 4);
	let_it_look();
	let_it_look();
	assert_queue_has_profile(0, 0);
	pci_mock_forget_commands(&p.m);
	for (i = 0; i < 3; i++)
		let_it_look();
	assert_int_equal(told(-1), 0);
	/* It goes on from there. */
	come_to(0, 2);
	let_it_look();
	assert_queue_has_profile(0, 2);
	assert_queue_has_profile(1, 0);
}

/* A reset takes it away, a stop of the rings too: it is told again. */
static void
test_told_again(void **state)
{
	uint32_t i;

	(void)state;
	come_to(0, 4);
	come_to(1, 1);
	for (i = 0; i < 3; i++) {
		restart();
		assert_int_equal(told(VQ_SET), 2);
		assert_queue_has_profile(0, 4);
		assert_queue_has_profile(1, 1);
		event(0);
		event(1);
	}
	pci_mock_forget_commands(&p.m);
	pci_mock_set_status(&p.m, 0, VPCI_NEEDS_RESET);
	pci_mock_stop_clock(false);
	pci_port_wait_events(&p, 2);
	pci_port_wait_link(&p, true);
	assert_true(told(VQ_SET) >= 2);
	assert_int_equal(told(RX_SET), 0);
	pci_port_assert_works(&p);
}

/* Only ports with receive interrupts have to do with it. */
static void
test_without_interrupts(void **state)
{
	const struct rig_config with = {.rxq = 2, .txq = 2, .interrupts = true};
	const struct rig_config without = {.rxq = 2, .txq = 2};
	const uint64_t bits = PCI_MOCK_GET(&p.m, accepted) & SLUICE_COALESCE_BITS;

	(void)state;
	assert_int_equal(bits, p.m.offered & SLUICE_COALESCE_BITS);
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	assert_int_equal(rig_configure(&p.r, &without), 0);
	pci_mock_forget_commands(&p.m);
	assert_int_equal(rte_eth_dev_start(p.r.port), 0);
	assert_int_equal(PCI_MOCK_GET(&p.m, accepted) & SLUICE_COALESCE_BITS, 0);
	pci_port_turn(&p);
	assert_int_equal(told(-1), 0);
	pci_port_assert_works(&p);
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	assert_int_equal(rig_configure(&p.r, &with), 0);
	assert_int_equal(rte_eth_dev_start(p.r.port), 0);
	assert_int_equal(PCI_MOCK_GET(&p.m, accepted) & SLUICE_COALESCE_BITS, bits);
	assert_true(told(-1) != 0);
}

static void
assert_nothing_is_moderated(uint32_t lines)
{
	restart();
	assert_int_equal(PCI_MOCK_GET(&p.m, accepted) & SLUICE_COALESCE_BITS, 0);
	come_to(0, 3);
	assert_int_equal(told(-1), 0);
	assert_int_equal(rig_xstat(&p.r, "rx_q0_intr_held"), 0);
	assert_int_equal(rig_xstat(&p.r, "rx_q0_intr_events"), 2);
	assert_int_equal(rig_xstat(&p.r, "rx_q0_coalesce_profile"), 0);
	assert_int_equal(rig_xstat(&p.r, "rx_q0_coalesce_changes"), 0);
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	/* Said when the interrupts are set up, and then no more. */
	assert_int_equal(pci_port_log_lines(&p, "moderates no interrupts"), 0);
	assert_int_equal(rig_configure(&p.r, &(struct rig_config){.interrupts = true}), 0);
	assert_int_equal(rte_eth_dev_start(p.r.port), 0);
	assert_int_equal(pci_port_log_lines(&p, "moderates no interrupts"), lines);
	pci_port_assert_works(&p);
}

static void
test_not_offered(void **state)
{
	(void)state;
	assert_nothing_is_moderated(1);
}

static void
test_not_wanted(void **state)
{
	(void)state;
	assert_nothing_is_moderated(0);
}

/* It works on, says so once, and asks again when the device has been started anew. */
static void
test_refused(void **state)
{
	(void)state;
	PCI_MOCK_SET(&p.m, answer, PCI_MOCK_REFUSES_COALESCE);
	restart();
	assert_int_equal(told(-1), 1);
	come_to(0, 3);
	come_to(1, 3);
	assert_int_equal(told(-1), 1);
	assert_int_equal(pci_port_log_lines(&p, "refuses to moderate"), 1);
	pci_port_assert_works(&p);
	PCI_MOCK_SET(&p.m, answer, PCI_MOCK_ANSWERS);
	restart();
	assert_queue_has_profile(0, 3);
	assert_int_equal(pci_port_log_lines(&p, "refuses"), 0);
	/* And in the middle of it. */
	PCI_MOCK_SET(&p.m, answer, PCI_MOCK_REFUSES_COALESCE);
	come_to(0, 1);
	come_to(0, 2);
	assert_queue_has_profile(0, 3);
	assert_int_equal(pci_port_log_lines(&p, "refuses to moderate"), 1);
	assert_int_equal(rte_eth_promiscuous_enable(p.r.port), 0);
}

static void
test_never_answered(void **state)
{
	(void)state;
	come_to(0, 1);
	PCI_MOCK_SET(&p.m, answer, PCI_MOCK_SILENT_COALESCE);
	pci_mock_forget_commands(&p.m);
	come_to(0, 2);
	assert_int_equal(told(-1), 1);
	assert_int_equal(pci_port_log_lines(&p, "does not answer on its control queue"), 1);
	come_to(0, 3);
	pci_mock_pass_ms(1000);
	pci_port_turn(&p);
	assert_int_equal(told(-1), 1);
	assert_int_equal(pci_port_log_lines(&p, ""), 1);
	pci_port_assert_works(&p);
	/* It is no better, and such a device does not start. */
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	PCI_MOCK_SET(&p.m, answer, PCI_MOCK_SILENT_COALESCE);
	assert_int_equal(rte_eth_dev_start(p.r.port), -ETIMEDOUT);
	assert_int_equal(pci_port_log_lines(&p, "how to moderate its interrupts"), 1);
	PCI_MOCK_SET(&p.m, answer, PCI_MOCK_ANSWERS);
	assert_int_equal(rte_eth_dev_start(p.r.port), 0);
	pci_port_assert_works(&p);
}

/* One that takes its time for each queue holds up nobody for all of them together. */
static void
test_answered_late(void **state)
{
	struct sluice_dev *dev = sluice_dev_of(p.eth);
	uint32_t at_once;
	uint16_t i;
	int err;

	(void)state;
	PCI_MOCK_SET(&p.m, answer, PCI_MOCK_SLOW_COALESCE);
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	pci_mock_forget_commands(&p.m);
	/* The control thread has no turn. */
	pthread_mutex_lock(&dev->turn);
	err = rte_eth_dev_start(p.r.port);
	at_once = told(VQ_SET);
	pthread_mutex_unlock(&dev->turn);
	assert_int_equal(err, 0);
	assert_int_equal(at_once, 2);
	for (i = 0; i < 4 && told(VQ_SET) < 4; i++)
		pci_port_turn(&p);
	assert_int_equal(told(VQ_SET), 4);
	for (i = 0; i < 4; i++)
		assert_queue_has(i, 24, 70);
	pci_port_turn(&p);
	assert_int_equal(told(-1), 4);
	assert_int_equal(pci_port_log_lines(&p, "answer"), 0);
}

/* Nothing is said to a device that is gone. */
static void
test_unplugged(void **state)
{
	(void)state;
	come_to(0, 3);
	pci_mock_forget_commands(&p.m);
	pci_port_unplug(&p);
	/* Which the control thread hears of first. */
	rxq(0)->coalesce.adapt.profile = 1;
	arm(0);
	assert_int_equal(rig_xstat(&p.r, "rx_q0_coalesce_profile"), 1);
	pci_mock_stop_clock(false);
	pci_port_wait_link(&p, false);
	assert_int_equal(told(-1), 0);
}

int
main(void)
{
	static const struct rig_config off = {.rxq = 2, .txq = 2, .interrupts = true};
	static const struct rig_config fixed = {
		.args = STATIC, .rxq = 2, .txq = 2, .interrupts = true};
	static const struct rig_config adaptive = {
		.args = "coalesce=adaptive", .rxq = 2, .txq = 2, .interrupts = true};
	static const struct rig_config four = {
		.args = STATIC, .rxq = 4, .txq = 4, .interrupts = true};
	static const struct rig_config one = {.args = "coalesce=adaptive", .interrupts = true};
#define WITH(how, conf, test)                                                                      \
	cmocka_unit_test_prestate_setup_teardown(test, setup, teardown,                            \
		&((struct pci_port_case){.p = &p, .shape = (how), .config = conf}))
	const struct CMUnitTest tests[] = {
		WITH(both, fixed, test_told_once),
		WITH(all_at_once, fixed, test_told_once),
		WITH(by_queue, fixed, test_told_once_a_queue),
		WITH(by_queue, adaptive, test_a_queue_follows_its_load),
		WITH(both, adaptive, test_a_queue_follows_its_load),
		WITH(by_queue, adaptive, test_told_at_once),
		WITH(all_at_once, adaptive, test_the_least_of_all_queues),
		WITH(both, adaptive, test_a_pause),
		WITH(both, adaptive, test_told_again),
		WITH(with_ring_reset, adaptive, test_told_again),
		WITH(both, adaptive, test_without_interrupts),
		WITH(by_queue, fixed, test_without_interrupts),
		WITH(with_ring_reset, fixed, test_without_interrupts),
		WITH(neither, adaptive, test_not_offered),
		WITH(neither, fixed, test_not_offered),
		WITH(without_control, one, test_not_offered),
		WITH(both, off, test_not_wanted),
		WITH(both, adaptive, test_refused),
		WITH(both, adaptive, test_never_answered),
		WITH(many_queues, four, test_answered_late),
		WITH(both, adaptive, test_unplugged),
	};

	return pci_port_main(tests, COUNT_OF(tests));
}
