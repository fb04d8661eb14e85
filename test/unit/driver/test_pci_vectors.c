/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* Interrupts over virtio-pci: which vector is whose, and ports and devices without. */

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <rte_interrupts.h>

#include "pci_port.h"

static struct pci_port p;

static const struct rig_config pairs = {.rxq = 2, .txq = 2, .interrupts = true};

static void
two_pairs(struct pci_mock *m)
{
	pci_mock_pairs(m, 2);
}

static void
set_vectors(struct pci_mock *m, uint16_t vectors)
{
	pci_mock_put16(&m->config[m->config[VPCI_CAPS_FIRST] + VPCI_MSIX_CONTROL],
		(uint16_t)(vectors - 1));
}

static void
too_few_vectors(struct pci_mock *m)
{
	pci_mock_pairs(m, 2);
	set_vectors(m, 2);
}

static void
no_capability(struct pci_mock *m)
{
	m->config[VPCI_CAPS_FIRST] = m->config[m->config[VPCI_CAPS_FIRST] + 1];
}

static void
assert_vectors(void)
{
	assert_true(pci_port_vectors_on);
	assert_int_equal(p.m.config_vector, 0);
	assert_int_equal(p.m.queues[0].vector, 1);
	assert_int_equal(p.m.queues[1].vector, VPCI_NO_VECTOR);
	assert_int_equal(p.m.queues[2].vector, 2);
	assert_int_equal(p.m.queues[3].vector, VPCI_NO_VECTOR);
	/* Its answers are waited for. */
	assert_int_equal(p.m.queues[4].vector, VPCI_NO_VECTOR);
}

static void
test_which_vector_is_whose(void **state)
{
	(void)state;
	assert_vectors();
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	assert_int_equal(rte_eth_dev_start(p.r.port), 0);
	assert_vectors();
	PCI_MOCK_SET(&p.m, config_vector, 77);
	pci_mock_set_status(&p.m, 0, VPCI_NEEDS_RESET);
	pci_port_wait_events(&p, 2);
	assert_vectors();
	pci_port_assert_works(&p);
}

/* Would a sleep end? */
static bool
woken(int epfd)
{
	struct rte_epoll_event event;

	return rte_epoll_wait(epfd, &event, 1, 0) == 1;
}

static void
call(uint16_t queue)
{
	const uint64_t one = 1;

	assert_int_equal(vq_device_call(rig_ring(&p.r, 2 * (uint32_t)queue), 1, 0), VQ_CALL_MAKE);
	assert_int_equal(
		write(rte_intr_efds_index_get(p.intr, queue), &one, sizeof(one)), sizeof(one));
}

static void
test_woken_by_a_vector(void **state)
{
	const int epfd = epoll_create1(EPOLL_CLOEXEC);
	const uint8_t frame[60] = {0};
	struct rte_mbuf *mbuf;
	uint32_t i;

	(void)state;
	assert_int_equal(rte_eth_dev_rx_intr_ctl_q(p.r.port, 0, epfd, RTE_INTR_EVENT_ADD, NULL), 0);
	for (i = 0; i < 100; i++) {
		assert_int_equal(rte_eth_dev_rx_intr_enable(p.r.port, 0), 0);
		assert_false(woken(epfd));
		rig_send(&p.r, frame, sizeof(frame), -1);
		call(0);
		assert_true(woken(epfd));
		assert_int_equal(rte_eth_dev_rx_intr_disable(p.r.port, 0), 0);
		assert_int_equal(rte_eth_rx_burst(p.r.port, 0, &mbuf, 1), 1);
		rte_pktmbuf_free(mbuf);
	}
	assert_int_equal(rte_eth_dev_rx_intr_ctl_q(p.r.port, 0, epfd, RTE_INTR_EVENT_DEL, NULL), 0);
	close(epfd);
}

static void
not_supported(pci_port_shape shape, bool vectors, const char *why)
{
	const struct rig_config interrupts = {.rxq = 2, .txq = 2, .interrupts = true};
	const struct rig_config without = {.rxq = 2, .txq = 2};

	pci_port_create(&p, shape);
	if (vectors)
		pci_port_give_vectors(&p);
	assert_int_equal(pci_port_probe(&p, NULL), 0);
	assert_int_equal(rig_configure(&p.r, &interrupts), -ENOTSUP);
	assert_int_equal(pci_port_log_lines(&p, ""), 1);
	assert_int_equal(pci_port_log_lines(&p, why), 1);
	assert_int_equal(rig_configure(&p.r, &without), 0);
	assert_int_equal(rte_eth_dev_start(p.r.port), 0);
	assert_int_equal(rte_eth_dev_rx_intr_enable(p.r.port, 0), -ENOTSUP);
	assert_int_equal(p.m.queues[0].vector, VPCI_NO_VECTOR);
	pci_port_assert_works(&p);
	pci_port_down(&p);
}

static void
two_pairs_no_capability(struct pci_mock *m)
{
	two_pairs(m);
	no_capability(m);
}

static void
test_not_supported(void **state)
{
	(void)state;
	/* uio_pci_generic, a device without, one with too few. */
	not_supported(two_pairs, false, "without MSI-X: bind the device to vfio-pci");
	not_supported(two_pairs_no_capability, true, "MSI-X");
	not_supported(too_few_vectors, true, "take 3 MSI-X vectors");
}

/* A start that runs out of descriptors gives back those that it had made. */
static void
test_too_few_descriptors(void **state)
{
	struct rlimit before, few;
	uint32_t fds, lap;
	int next;

	(void)state;
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	assert_int_equal(rig_configure(&p.r, &pairs), 0);
	fds = count_fds();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	for (lap = 0; lap < 5; lap++) {
		next = dup(STDIN_FILENO);
		close(next);
		/* For the first of two. */
		few.rlim_cur = (rlim_t)next + 1;
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		assert_int_not_equal(rte_eth_dev_start(p.r.port), 0);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
		assert_int_equal(count_fds(), fds);
	}
	assert_int_equal(rte_eth_dev_start(p.r.port), 0);
	pci_port_assert_works(&p);
}

static void
test_vectors_that_cannot_be_enabled(void **state)
{
	(void)state;
	pci_port_create(&p, NULL);
	pci_port_give_vectors(&p);
	pci_port_vectors_fail = true;
	assert_int_equal(pci_port_probe(&p, NULL), 0);
	assert_int_equal(pci_port_log_lines(&p, "cannot be enabled: none are used"), 1);
	assert_int_equal(rig_configure(&p.r, &(struct rig_config){.interrupts = true}), -ENOTSUP);
	assert_int_equal(rig_configure(&p.r, &(struct rig_config){0}), 0);
	assert_int_equal(rte_eth_dev_start(p.r.port), 0);
	assert_int_equal(p.m.config_vector, VPCI_NO_VECTOR);
	pci_port_assert_works(&p);
	pci_port_down(&p);
}

/* The device has them in its table, and gives none. */
static void
test_vectors_that_the_device_refuses(void **state)
{
	(void)state;
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	PCI_MOCK_SET(&p.m, no_vectors, true);
	pci_port_log_clear();
	assert_int_equal(rte_eth_dev_start(p.r.port), -EIO);
	/* For its configuration, where it may be missing, and for its queues, where not. */
	assert_in_range(pci_port_log_lines(&p, "no MSI-X vector"), 1, 2);
	assert_int_equal(pci_port_log_lines(&p, ""), pci_port_log_lines(&p, "no MSI-X vector"));
	assert_int_equal(rig_free(&p.r), RIG_POOL);
	PCI_MOCK_SET(&p.m, no_vectors, false);
	assert_int_equal(rte_eth_dev_start(p.r.port), 0);
	assert_vectors();
	pci_port_assert_works(&p);
}

static void
refuses_features(struct pci_mock *m)
{
	m->refuses_features = true;
}

static void
test_a_device_that_is_refused_keeps_its_vectors(void **state)
{
	(void)state;
	pci_port_create(&p, refuses_features);
	pci_port_give_vectors(&p);
	assert_int_equal(pci_port_probe(&p, NULL), -EINVAL);
	assert_int_equal(pci_port_vectors_changes, 0);
	pci_port_down(&p);
}

/* The device tells of changes; the thread that looks after it does not look by itself. */
static void
test_a_change_of_the_configuration(void **state)
{
	const uint64_t one = 1;
	uint32_t before;
	int i;

	(void)state;
	atomic_store(&pci_port_only_events, true);
	pci_port_turn(&p);
	before = PCI_MOCK_GET(&p.m, looks);
	/* More looks than the turns before can have left over. */
	for (i = 0; i < 5000 && PCI_MOCK_GET(&p.m, looks) - before < 3; i++) {
		assert_int_equal(write(rte_intr_fd_get(p.intr), &one, sizeof(one)), sizeof(one));
		usleep(1000);
	}
	atomic_store(&pci_port_only_events, false);
	assert_true(i < 5000);
}

int
main(void)
{
#define WITH(shape, config, test) PCI_PORT_TEST(&p, shape, config, test)
	const struct CMUnitTest tests[] = {
		WITH(two_pairs, pairs, test_which_vector_is_whose),
		WITH(two_pairs, pairs, test_woken_by_a_vector),
		WITH(two_pairs, pairs, test_vectors_that_the_device_refuses),
		WITH(two_pairs, pairs, test_too_few_descriptors),
		WITH(two_pairs, pairs, test_a_change_of_the_configuration),
		cmocka_unit_test(test_not_supported),
		cmocka_unit_test(test_vectors_that_cannot_be_enabled),
		cmocka_unit_test(test_a_device_that_is_refused_keeps_its_vectors),
	};

	return pci_port_main(tests, COUNT_OF(tests));
}
