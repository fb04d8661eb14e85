/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* The registers, function by function: what is written in which order, what is refused, and that
 * every wait has an end. */

#include <errno.h>
#include <string.h>

#include "pci_mock.h"
#include "pci_regs.h"
#include "vu_time.h"

#define FEATURES                                                                                   \
	(VQ_FEATURE(VERSION_1) | VQ_FEATURE(ACCESS_PLATFORM) | VQ_FEATURE(CTRL_VQ) |               \
		VQ_FEATURE(RING_RESET))

static struct pci_mock m;
static struct pci_regs r;
/* A ring for the device to look at. */
static _Alignas(64) uint8_t ring_memory[4096];

/* At the registers of what the shaped mock says it has. */
static void
attach(void)
{
	char why[256];

	r.access = pci_mock_access(&m);
	assert_int_equal(pci_caps_walk(&r.access, m.bars, &r.caps, why, sizeof(why)), 0);
}

static int
setup(void **state)
{
	(void)state;
	pci_mock_create(&m);
	m.offered |= VQ_FEATURE(RING_RESET);
	attach();
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	pci_mock_destroy(&m);
	return 0;
}

static struct pci_ring
ring(uint32_t size)
{
	struct pci_ring ring = {
		.size = size,
		.desc = (uintptr_t)ring_memory,
		.driver = (uintptr_t)ring_memory + 2048,
		.device = (uintptr_t)ring_memory + 3072,
		.vector = VPCI_NO_VECTOR,
	};

	return ring;
}

static void
agree(void)
{
	assert_int_equal(pci_reset(&r), 0);
	pci_bus_master(&r, true);
	pci_add_status(&r, VPCI_ACKNOWLEDGE);
	pci_add_status(&r, VPCI_DRIVER);
	assert_int_equal(pci_set_features(&r, FEATURES), 0);
}

static void
features_are_64_bits(void **state)
{
	(void)state;
	m.offered = UINT64_C(0x8765432112345678);
	assert_true(pci_device_features(&r) == m.offered);
	m.offered = UINT64_C(1) << 32 | 1;
	assert_true(pci_device_features(&r) == m.offered);
	assert_int_equal(pci_set_features(&r, UINT64_C(1) << 32 | 1), 0);
	assert_true(m.accepted == m.offered);
	assert_int_equal(pci_status(&r), VPCI_FEATURES_OK);
}

static void
features_may_be_refused(void **state)
{
	(void)state;
	m.refuses_features = true;
	assert_int_equal(pci_set_features(&r, VQ_FEATURE(VERSION_1)), -EINVAL);
}

static void
a_reset_that_takes_its_time(void **state)
{
	(void)state;
	agree();
	m.reset_looks = 5;
	assert_int_equal(pci_reset(&r), 0);
	assert_int_equal(m.resets, 2);
	assert_int_equal(pci_status(&r), 0);
}

static void
a_reset_that_never_ends(void **state)
{
	uint64_t before;

	(void)state;
	agree();
	m.reset_stuck = true;
	before = vu_now_ms();
	assert_int_equal(pci_reset(&r), -ETIMEDOUT);
	assert_in_range(vu_now_ms() - before, 3000, 4000);
	m.reset_stuck = false;
	assert_int_equal(pci_reset(&r), 0);
}

static void
bus_mastering_is_one_bit(void **state)
{
	(void)state;
	pci_mock_put16(&m.config[VPCI_COMMAND], 0x0403);
	pci_bus_master(&r, true);
	assert_memory_equal(&m.config[VPCI_COMMAND], "\x07\x04", 2);
	pci_bus_master(&r, false);
	assert_memory_equal(&m.config[VPCI_COMMAND], "\x03\x04", 2);
	m.unreadable = true;
	pci_bus_master(&r, true);
	m.unreadable = false;
	assert_false(pci_mock_masters(&m));
	/* One that is gone is not written to. */
	m.gone = true;
	pci_bus_master(&r, true);
	m.gone = false;
	assert_false(pci_mock_masters(&m));
}

static void
gone_or_not(void **state)
{
	uint32_t accesses;

	(void)state;
	assert_false(pci_gone(&r));
	accesses = m.accesses;
	m.unreadable = true;
	assert_true(pci_gone(&r));
	m.unreadable = false;
	m.gone = true;
	assert_true(pci_gone(&r));
	assert_int_equal(m.accesses, accesses);
}

static void
a_queue_starts(void **state)
{
	struct pci_ring wanted = ring(32);
	struct pci_queue queue;

	(void)state;
	agree();
	assert_int_equal(pci_num_queues(&r), 3);
	assert_int_equal(pci_queue(&r, 1, 2, &queue), 0);
	assert_int_equal(queue.size, PCI_MOCK_SIZE);
	assert_ptr_equal(queue.doorbell, m.memory + PCI_MOCK_NOTIFY + 4);
	wanted.vector = 2;
	assert_int_equal(pci_queue_start(&r, 1, &wanted), 0);
	assert_int_equal(m.queues[1].enable, 1);
	assert_int_equal(m.queues[1].size, 32);
	assert_int_equal(m.queues[1].vector, 2);
	assert_true(m.queues[1].desc == wanted.desc && m.queues[1].driver == wanted.driver &&
		    m.queues[1].device == wanted.device);
	assert_int_equal(m.queues[0].enable + m.queues[2].enable, 0);
}

/* Addresses have two halves, each of them written. */
static void
addresses_are_64_bits(void **state)
{
	struct pci_ring wanted = ring(32);

	(void)state;
	agree();
	m.size_fixed = true;
	m.queues[0].desc = UINT64_MAX;
	m.queues[0].driver = UINT64_MAX;
	m.queues[0].device = UINT64_MAX;
	wanted.size = PCI_MOCK_SIZE;
	assert_int_equal(pci_queue_start(&r, 0, &wanted), 0);
	assert_true(m.queues[0].desc == wanted.desc && m.queues[0].driver == wanted.driver &&
		    m.queues[0].device == wanted.device);
}

static void
sizes_that_no_ring_can_have(void **state)
{
	static const uint16_t sizes[] = {3, 100, 32769, 65535};
	struct pci_queue queue;
	uint32_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(sizes); i++) {
		m.queues[0].size = sizes[i];
		assert_int_equal(pci_queue(&r, 0, 2, &queue), -EINVAL);
		assert_int_equal(queue.size, sizes[i]);
	}
	m.queues[0].size = 32768;
	assert_int_equal(pci_queue(&r, 0, 2, &queue), 0);
	m.queues[0].size = 1;
	assert_int_equal(pci_queue(&r, 0, 2, &queue), 0);
	/* There is none. */
	m.queues[0].size = 0;
	assert_int_equal(pci_queue(&r, 0, 2, &queue), 0);
	assert_int_equal(queue.size, 0);
}

static void
place_of_the_doorbell(void **state)
{
	static const struct {
		uint16_t notify_off;
		uint32_t multiplier;
		uint32_t window;
		uint32_t len; /* of a notification */
		int err;
		uint32_t at; /* in the window */
	} cases[] = {
		{0, 0, 2, 2, 0, 0},
		{65535, 0, 2, 2, 0, 0},
		{0, 0, 2, 4, -ERANGE, 0},
		{0, 0, 4, 4, 0, 0},
		{15, 4, 64, 4, 0, 60},
		{16, 4, 64, 2, -ERANGE, 0},
		{31, 2, 64, 2, 0, 62},
		{31, 2, 64, 4, -ERANGE, 0},
		{3, 2, 64, 2, 0, 6},
		/* Not aligned for what is written there. */
		{3, 2, 64, 4, -ERANGE, 0},
		{1, 1, 64, 2, -ERANGE, 0},
		{2, 1, 64, 2, 0, 2},
		{5, 3, 64, 2, -ERANGE, 0},
		/* The product does not fit 32 bits: 2^32, and 2^32 + 4. */
		{0x8000, 0x20000, 64, 2, -ERANGE, 0},
		{4, 0x40000001, 64, 2, -ERANGE, 0},
		{65535, UINT32_MAX, 64, 2, -ERANGE, 0},
	};
	struct pci_queue queue;
	uint32_t i;
	int err;

	(void)state;
	for (i = 0; i < COUNT_OF(cases); i++) {
		uint8_t *cap = pci_mock_cap(&m, VPCI_CAP_NOTIFY);

		pci_mock_put32(cap + VPCI_CAP_MULTIPLIER, cases[i].multiplier);
		pci_mock_put32(cap + VPCI_CAP_LENGTH, cases[i].window);
		m.queues[0].notify_off = cases[i].notify_off;
		attach();
		err = pci_queue(&r, 0, cases[i].len, &queue);
		if (err != cases[i].err)
			fail_msg("case %u: %d", i, err);
		if (err == 0)
			assert_ptr_equal(queue.doorbell, m.memory + PCI_MOCK_NOTIFY + cases[i].at);
	}
}

static void
a_queue_that_does_not_start(void **state)
{
	struct pci_ring wanted = ring(32);

	(void)state;
	agree();
	m.size_fixed = true;
	assert_int_equal(pci_queue_start(&r, 0, &wanted), -ERANGE);
	assert_int_equal(m.queues[0].enable, 0);
	m.size_fixed = false;
	m.no_vectors = true;
	wanted.vector = 1;
	assert_int_equal(pci_queue_start(&r, 0, &wanted), -EBUSY);
	assert_int_equal(m.queues[0].enable, 0);
	m.no_vectors = false;
	m.never_enables = true;
	assert_int_equal(pci_queue_start(&r, 0, &wanted), -EIO);
}

/* Without MSI-X the register may hold anything, and need not take a number. */
static void
a_queue_without_vectors(void **state)
{
	struct pci_ring wanted = ring(32);

	(void)state;
	agree();
	m.vectors_read_0 = true;
	assert_int_equal(pci_queue_start(&r, 0, &wanted), 0);
	wanted.vector = 1;
	assert_int_equal(pci_queue_start(&r, 1, &wanted), -EBUSY);
}

static void
a_queue_is_reset(void **state)
{
	struct pci_ring wanted = ring(32);

	(void)state;
	agree();
	assert_int_equal(pci_queue_start(&r, 0, &wanted), 0);
	assert_int_equal(pci_queue_start(&r, 1, &wanted), 0);
	assert_int_equal(pci_queue_reset(&r, 1), 0);
	assert_int_equal(m.queues[0].enable, 1);
	assert_int_equal(m.queues[1].enable, 0);
	m.ring_reset_stuck = true;
	assert_int_equal(pci_queue_reset(&r, 0), -ETIMEDOUT);
	/* An older device, whose structure ends before that register. */
	pci_mock_put32(
		pci_mock_cap(&m, VPCI_CAP_COMMON) + VPCI_CAP_LENGTH, VPCI_COMMON_LEN_RESET - 1);
	attach();
	assert_int_equal(pci_queue_reset(&r, 0), -ENOTSUP);
}

static void
vector_of_the_configuration(void **state)
{
	(void)state;
	assert_int_equal(pci_config_vector(&r, 2), 0);
	assert_int_equal(m.config_vector, 2);
	assert_int_equal(pci_config_vector(&r, VPCI_NO_VECTOR), 0);
	m.no_vectors = true;
	assert_int_equal(pci_config_vector(&r, 2), -EBUSY);
}

static void
fields_of_the_device(void **state)
{
	uint8_t mac[6];
	uint16_t value;

	(void)state;
	assert_int_equal(pci_net_config(&r, VPCI_NET_MAC, mac, sizeof(mac)), 0);
	assert_memory_equal(mac, m.net, sizeof(mac));
	pci_mock_put16(&m.net[VPCI_NET_MTU], 0x1234);
	assert_int_equal(pci_net_config(&r, VPCI_NET_MTU, &value, sizeof(value)), 0);
	assert_int_equal(value, 0x1234);
	/* The structure ends there. */
	assert_int_equal(pci_net_config(&r, 12, &value, sizeof(value)), -ERANGE);
	assert_int_equal(pci_net_config(&r, 11, &value, sizeof(value)), -ERANGE);
}

static void
a_configuration_that_changes(void **state)
{
	uint8_t mac[6];

	(void)state;
	m.generations = 7;
	assert_int_equal(pci_net_config(&r, VPCI_NET_MAC, mac, sizeof(mac)), 0);
	assert_int_equal(m.generations, 0);
	m.generations = -1;
	assert_int_equal(pci_net_config(&r, VPCI_NET_MAC, mac, sizeof(mac)), -EAGAIN);
}

/* All registers read as ones: nothing hangs, nothing is taken for good. */
static void
a_dead_device(void **state)
{
	struct pci_ring wanted = ring(32);
	struct pci_queue queue;

	(void)state;
	m.dead = true;
	assert_int_equal(pci_reset(&r), -ETIMEDOUT);
	assert_int_equal(pci_queue(&r, 0, 2, &queue), -EINVAL);
	assert_int_equal(pci_queue_start(&r, 0, &wanted), -ERANGE);
	assert_int_equal(pci_queue_reset(&r, 0), -ETIMEDOUT);
}

int
main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		WITH(features_are_64_bits),
		WITH(features_may_be_refused),
		WITH(a_reset_that_takes_its_time),
		WITH(a_reset_that_never_ends),
		WITH(bus_mastering_is_one_bit),
		WITH(gone_or_not),
		WITH(a_queue_starts),
		WITH(addresses_are_64_bits),
		WITH(sizes_that_no_ring_can_have),
		WITH(place_of_the_doorbell),
		WITH(a_queue_that_does_not_start),
		WITH(a_queue_without_vectors),
		WITH(a_queue_is_reset),
		WITH(vector_of_the_configuration),
		WITH(fields_of_the_device),
		WITH(a_configuration_that_changes),
		WITH(a_dead_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
