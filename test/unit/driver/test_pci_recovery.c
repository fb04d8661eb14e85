/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* Devices that fail: what want or refuse a reset, and starts that fail. The port recovers by
 * itself, or is as it was before. */

#include <errno.h>
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

/* The device, or a ring, is to be reset: whatever the reason, the port does it by itself. */
static void
recovers_by_itself(void (*misbehave)(void), const char *reason)
{
	uint32_t i;

	for (i = 0; i < 3; i++) {
		const uint32_t told = atomic_load(&p.link_events);

		pci_port_log_clear();
		pci_port_transmit(&p);
		misbehave();
		pci_port_wait_events(&p, told + 2);
		rig_wait_link(&p.r, true);
		assert_int_equal(pci_port_log_lines(&p, reason), 1);
		assert_int_equal(pci_port_log_lines(&p, "link up"), 1);
		/* Told before the link goes, and after it has come. */
		assert_int_equal(atomic_load(&p.recovering_events), i + 1);
		pci_port_turn(&p);
		assert_int_equal(atomic_load(&p.recovered_events), i + 1);
		assert_int_equal(rig_xstat(&p.r, "tx_q0_reset_drops"), i + 1);
		/* All that was posted is, but what frames have taken since; and nothing else is
		 * out. */
		assert_int_equal(rig_free(&p.r), RIG_POOL - RIG_RING + i);
		pci_port_assert_works(&p);
	}
}

static void
wants_a_reset(void)
{
	pci_mock_set_status(&p.m, 0, VPCI_NEEDS_RESET);
}

static void
forgets_everything(void)
{
	pci_mock_set_status(&p.m, 0xff, 0);
}

static void
breaks_a_ring(void)
{
	struct vq_device *q = rig_ring(&p.r, 0);
	struct rte_mbuf *mbuf;

	vq_publish_index(&q->used->idx, 1000);
	assert_int_equal(rte_eth_rx_burst(p.r.port, 0, &mbuf, 1), 0);
}

static void
test_a_device_that_needs_a_reset(void **state)
{
	(void)state;
	recovers_by_itself(wants_a_reset, "needs a reset");
}

static void
test_a_device_that_was_reset(void **state)
{
	(void)state;
	recovers_by_itself(forgets_everything, "behind our back");
}

static void
test_a_device_that_breaks_a_ring(void **state)
{
	(void)state;
	recovers_by_itself(breaks_a_ring, "broke the rules of ring 0");
	assert_int_equal(rig_xstat(&p.r, "rx_q0_broken"), 3);
}

/* It is tried again and again, and said once. Nothing else waits for it for long. */
static void
test_a_device_that_heals_late(void **state)
{
	uint32_t i, told = atomic_load(&p.link_events);

	(void)state;
	PCI_MOCK_SET(&p.m, reset_stuck, true);
	wants_a_reset();
	pci_port_wait_events(&p, told + 1);
	for (i = 0; i < 10; i++) {
		pci_mock_pass_ms(2000);
		pci_port_turn(&p);
	}
	assert_int_equal(pci_port_log_lines(&p, "link down"), 2);
	assert_in_range(pci_port_log_lines(&p, ""), 2, 3);
	assert_false(pci_mock_masters(&p.m));
	PCI_MOCK_SET(&p.m, reset_stuck, false);
	pci_port_wait_events(&p, told + 2);
	pci_port_assert_works(&p);
}

static void
test_stopped_while_it_is_broken(void **state)
{
	uint32_t told = atomic_load(&p.link_events);
	uint32_t resets, i;

	(void)state;
	PCI_MOCK_SET(&p.m, refuses_features, true);
	wants_a_reset();
	pci_port_wait_events(&p, told + 1);
	/* However often the thread is woken, it lets a while pass before it tries again. */
	resets = PCI_MOCK_GET(&p.m, resets);
	for (i = 0; i < 50; i++)
		pci_port_turn(&p);
	assert_in_range(PCI_MOCK_GET(&p.m, resets) - resets, 0, 49);
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	assert_int_equal(rig_free(&p.r), RIG_POOL);
	assert_int_equal(rte_eth_dev_start(p.r.port), -EINVAL);
	PCI_MOCK_SET(&p.m, refuses_features, false);
	assert_int_equal(rte_eth_dev_start(p.r.port), 0);
	pci_port_assert_works(&p);
}

/* An lcore that is held up within a burst: the device is left alone until it comes out. */
static void
test_a_burst_that_does_not_end(void **state)
{
	struct sluice_ring *ring = sluice_dev_of(p.eth)->rings[1];
	const uint32_t resets = PCI_MOCK_GET(&p.m, resets);
	int i;

	(void)state;
	atomic_store(&ring->busy, 1);
	wants_a_reset();
	for (i = 0; i < 5000 && pci_port_log_lines(&p, "does not leave its burst") == 0; i++) {
		pci_mock_pass_ms(100);
		usleep(1000);
	}
	assert_int_equal(PCI_MOCK_GET(&p.m, resets), resets);
	assert_int_equal(PCI_MOCK_GET(&p.m, queues[1].enable), 1);
	assert_int_equal(atomic_load(&p.link_events), 0);
	atomic_store(&ring->busy, 0);
	pci_port_wait_events(&p, 2);
	pci_port_assert_works(&p);
}

/* Its rings alone were stopped, and then it failed: a start begins from the beginning. */
static void
test_a_device_that_fails_while_it_is_stopped(void **state)
{
	void (*const fails[])(void) = {wants_a_reset, forgets_everything};
	uint32_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(fails); i++) {
		assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
		fails[i]();
		assert_int_equal(rte_eth_dev_start(p.r.port), 0);
		assert_int_equal(PCI_MOCK_GET(&p.m, status),
			VPCI_ACKNOWLEDGE | VPCI_DRIVER | VPCI_FEATURES_OK | VPCI_DRIVER_OK);
		pci_port_assert_works(&p);
	}
}

/* It will not be what it was, whatever is tried: the application is told, once. */
static void
test_a_device_that_cannot_recover(void **state)
{
	const uint64_t offered = p.m.offered;
	uint32_t tries;
	int i;

	(void)state;
	PCI_MOCK_SET(&p.m, offered, offered & ~VQ_FEATURE(VERSION_1));
	wants_a_reset();
	for (i = 0; i < 5000 && atomic_load(&p.lost_events) == 0; i++) {
		pci_mock_pass_ms(100);
		usleep(1000);
	}
	assert_int_equal(atomic_load(&p.recovering_events), 1);
	tries = PCI_MOCK_GET(&p.m, resets);
	for (i = 0; i < 50; i++) {
		pci_mock_pass_ms(1000);
		pci_port_turn(&p);
	}
	assert_int_equal(atomic_load(&p.lost_events), 1);
	assert_int_equal(atomic_load(&p.recovered_events), 0);
	assert_int_equal(PCI_MOCK_GET(&p.m, resets), tries);
	/* It was replaced: a start begins from the beginning. */
	PCI_MOCK_SET(&p.m, offered, offered);
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	assert_int_equal(rte_eth_dev_start(p.r.port), 0);
	pci_port_assert_works(&p);
}

/* A device that goes on after its reset must not get at memory any more. */
static void
test_a_reset_that_never_ends_at_stop(void **state)
{
	(void)state;
	PCI_MOCK_SET(&p.m, reset_stuck, true);
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	assert_false(pci_mock_masters(&p.m));
	assert_int_equal(pci_port_log_lines(&p, ""), 1);
	assert_int_equal(pci_port_log_lines(&p, "kept from memory"), 1);
	assert_int_equal(rig_free(&p.r), RIG_POOL);
	/* Nor when it is tried again. */
	assert_int_equal(rte_eth_dev_start(p.r.port), -ETIMEDOUT);
	assert_false(pci_mock_masters(&p.m));
	assert_int_equal(rig_free(&p.r), RIG_POOL);
}

static void
test_closed_though_its_reset_never_ends(void **state)
{
	(void)state;
	PCI_MOCK_SET(&p.m, reset_stuck, true);
	pci_port_close(&p);
	assert_false(pci_mock_masters(&p.m));
	assert_int_equal(pci_port_log_lines(&p, ""), 1);
}

static void
test_healed_after_it_was_stopped(void **state)
{
	(void)state;
	PCI_MOCK_SET(&p.m, reset_stuck, true);
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	PCI_MOCK_SET(&p.m, reset_stuck, false);
	assert_int_equal(rte_eth_dev_start(p.r.port), 0);
	pci_port_assert_works(&p);
}

static void
test_a_ring_whose_reset_never_ends(void **state)
{
	const uint32_t resets = PCI_MOCK_GET(&p.m, resets);

	(void)state;
	PCI_MOCK_SET(&p.m, ring_reset_stuck, true);
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	/* The whole device then. */
	assert_int_equal(PCI_MOCK_GET(&p.m, resets), resets + 1);
	assert_int_equal(PCI_MOCK_GET(&p.m, status), 0);
	assert_int_equal(rte_eth_dev_start(p.r.port), 0);
	pci_port_assert_works(&p);
}

static void
start_resets_stuck(struct pci_mock *m)
{
	m->reset_stuck = true;
}

static void
start_dead(struct pci_mock *m)
{
	m->dead = true;
}

static void
start_refuses(struct pci_mock *m)
{
	m->refuses_features = true;
}

static void
start_needs_reset(struct pci_mock *m)
{
	m->needs_reset = true;
}

static void
start_size_fixed(struct pci_mock *m)
{
	m->size_fixed = true;
}

static void
start_disabled(struct pci_mock *m)
{
	m->never_enables = true;
}

static void
start_shrunk(struct pci_mock *m)
{
	m->queues[1].max = RIG_RING / 2;
	m->queues[1].size = RIG_RING / 2;
}

static void
start_with_one_queue(struct pci_mock *m)
{
	m->num_queues = 1;
}

static void
start_legacy(struct pci_mock *m)
{
	m->offered &= ~VQ_FEATURE(VERSION_1);
}

static void
start_without_iommu(struct pci_mock *m)
{
	m->offered &= ~VQ_FEATURE(ACCESS_PLATFORM);
}

static void
start_without_control(struct pci_mock *m)
{
	m->offered &= ~VQ_FEATURE(CTRL_VQ);
}

static void
start_refusing_commands(struct pci_mock *m)
{
	m->answer = PCI_MOCK_REFUSES;
}

static const struct {
	const char *name;
	pci_port_shape shape;
	int err;
	const char *why;
} starts[] = {
#define CASE(shape) #shape, shape
	{CASE(start_resets_stuck), -ETIMEDOUT, "reset does not end"},
	{CASE(start_dead), -ETIMEDOUT, "reset does not end"},
	{CASE(start_refuses), -EINVAL, "refuses the features"},
	{CASE(start_needs_reset), -EIO, "does not start: status 0x4f"},
	{CASE(start_size_fixed), -EIO, "does not take the number of descriptors"},
	{CASE(start_disabled), -EIO, "stays disabled"},
	{CASE(start_shrunk), -EINVAL, "queue 1 has 32 entries, 64 are configured"},
	{CASE(start_with_one_queue), -EINVAL, "no queue 2"},
	{CASE(start_legacy), -ENOTSUP, "VERSION_1"},
	{CASE(start_without_iommu), -ENOTSUP, "--iova-mode=pa"},
	{CASE(start_without_control), -EINVAL, "not offer the features 0x20000"},
	{CASE(start_refusing_commands), -EREMOTEIO, "what frames to receive"},
#undef CASE
};

/* Whatever has become of the device since it was probed; and then it is as it was. */
static void
test_starts_that_fail(void **state)
{
	const struct rig_config jumbo = {.mtu = 9000, .scatter = true};
	struct pci_mock good;
	uint32_t i;
	int err;

	(void)state;
	assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	assert_int_equal(rig_configure(&p.r, &jumbo), 0);
	for (i = 0; i < COUNT_OF(starts); i++) {
		pthread_mutex_lock(&p.m.lock);
		good = p.m;
		starts[i].shape(&p.m);
		pthread_mutex_unlock(&p.m.lock);
		pci_port_log_clear();
		err = rte_eth_dev_start(p.r.port);
		if (err != starts[i].err || pci_port_log_lines(&p, starts[i].why) != 1 ||
			pci_port_log_lines(&p, "") != 1)
			fail_msg("%s: %d, %u lines", starts[i].name, err,
				pci_port_log_lines(&p, ""));
		assert_int_equal(rig_free(&p.r), RIG_POOL);
		assert_true(PCI_MOCK_GET(&p.m, status) == 0 || !pci_mock_masters(&p.m));
		pthread_mutex_lock(&p.m.lock);
		p.m.reset_stuck = false;
		p.m.dead = false;
		p.m.refuses_features = false;
		p.m.needs_reset = false;
		p.m.size_fixed = false;
		p.m.never_enables = false;
		p.m.answer = PCI_MOCK_ANSWERS;
		p.m.num_queues = good.num_queues;
		p.m.offered = good.offered;
		memcpy(p.m.queues, good.queues, sizeof(good.queues));
		pthread_mutex_unlock(&p.m.lock);
		assert_int_equal(rte_eth_dev_start(p.r.port), 0);
		pci_port_assert_works(&p);
		assert_int_equal(rte_eth_dev_stop(p.r.port), 0);
	}
}

int
main(void)
{
	static const struct rig_config usual = {0};
#define WITH(shape, config, test) PCI_PORT_TEST(&p, shape, config, test)
	const struct CMUnitTest tests[] = {
		WITH(NULL, usual, test_a_device_that_needs_a_reset),
		WITH(with_ring_reset, usual, test_a_device_that_needs_a_reset),
		WITH(NULL, usual, test_a_device_that_was_reset),
		WITH(NULL, usual, test_a_device_that_breaks_a_ring),
		WITH(NULL, usual, test_a_device_that_heals_late),
		WITH(NULL, usual, test_stopped_while_it_is_broken),
		WITH(NULL, usual, test_a_burst_that_does_not_end),
		WITH(with_ring_reset, usual, test_a_device_that_fails_while_it_is_stopped),
		WITH(NULL, usual, test_a_device_that_cannot_recover),
		WITH(NULL, usual, test_a_reset_that_never_ends_at_stop),
		WITH(NULL, usual, test_closed_though_its_reset_never_ends),
		WITH(NULL, usual, test_healed_after_it_was_stopped),
		WITH(with_ring_reset, usual, test_a_ring_whose_reset_never_ends),
		WITH(NULL, usual, test_starts_that_fail),
	};

	return pci_port_main(tests, COUNT_OF(tests));
}
