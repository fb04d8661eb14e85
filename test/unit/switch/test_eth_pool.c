/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* How many mbufs the switch has, and how large: by what its ports are, not by their order. */

#include "unit.h"

#include "eth_port.h"
#include "feature_bits.h"
#include "vswitch.h"
#include "worker.h"

#define WORKERS 3

static unsigned int mbufs;
static uint16_t room;

struct rte_mempool *__wrap_rte_pktmbuf_pool_create(const char *name, unsigned int n,
	unsigned int cache, uint16_t priv, uint16_t data_room, int socket);

struct rte_mempool *
__wrap_rte_pktmbuf_pool_create(const char *name, unsigned int n, unsigned int cache, uint16_t priv,
	uint16_t data_room, int socket)
{
	(void)name;
	(void)cache;
	(void)priv;
	(void)socket;
	mbufs = n;
	room = data_room;
	return NULL;
}

static const struct port_config guest, by_mbufs = {.loopback = LOOPBACK_MBUF},
				       eth = {.dev = "net_a"}, wide = {.dev = "net_b", .queues = 8},
				       jumbo = {.dev = "net_c", .mtu = 9000},
				       longest = {.dev = "net_d", .mtu = PORT_MTU_MAX};

static void
size_pool(const struct port_config *const *ports, uint32_t n)
{
	static struct switch_config config;
	uint32_t i;

	config.nports = n;
	for (i = 0; i < n; i++)
		config.ports[i] = *ports[i];
	mbufs = 0;
	assert_null(eth_port_pool(&config, WORKERS));
}

static uint32_t
mbufs_for(const struct port_config *port)
{
	size_pool(&port, 1);
	return mbufs;
}

/* What each port wants comes to what workers have in hand in any case. */
static void
each_port_adds_its_own(void **state)
{
	const struct port_config *const all[] = {&guest, &by_mbufs, &eth, &wide, &jumbo};
	const uint32_t workers = mbufs_for(&guest);
	uint32_t sum = workers, i;

	(void)state;
	assert_true(workers >= WORKERS * BURST);
	for (i = 0; i < COUNT_OF(all); i++)
		sum += mbufs_for(all[i]) - workers;
	size_pool(all, COUNT_OF(all));
	assert_int_equal(mbufs, sum);
	/* A burst of the longest frames for each worker; queues in both directions. */
	assert_true(mbufs_for(&by_mbufs) - workers >= WORKERS * BURST_SEGS);
	assert_true(mbufs_for(&wide) > mbufs_for(&eth));
}

/* All 120 of them. */
static void
any_order_of_ports_is_the_same(void **state)
{
	const struct port_config *const all[] = {&guest, &by_mbufs, &eth, &wide, &jumbo};
	const struct port_config *order[COUNT_OF(all)];
	unsigned int first;
	uint32_t code, i, k;

	(void)state;
	size_pool(all, COUNT_OF(all));
	first = mbufs;
	for (code = 0; code < 120; code++) {
		uint32_t left = code;

		/* Each takes one of the places that those before it have left. */
		memcpy(order, all, sizeof(order));
		for (i = 0; i < COUNT_OF(all); i++) {
			const struct port_config *port = order[i];

			k = i + left % (COUNT_OF(all) - i);
			left /= COUNT_OF(all) - i;
			order[i] = order[k];
			order[k] = port;
		}
		size_pool(order, COUNT_OF(all));
		assert_int_equal(mbufs, first);
		assert_int_equal(room, RTE_PKTMBUF_HEADROOM + 9000 + MTU_OVERHEAD);
	}
}

static void
a_frame_has_room(void **state)
{
	const struct port_config *const some[] = {&jumbo, &longest, &by_mbufs};

	(void)state;
	(void)mbufs_for(&by_mbufs);
	assert_int_equal(room, RTE_MBUF_DEFAULT_BUF_SIZE);
	(void)mbufs_for(&eth);
	assert_int_equal(room, RTE_MBUF_DEFAULT_BUF_SIZE);
	(void)mbufs_for(&jumbo);
	assert_int_equal(room, RTE_PKTMBUF_HEADROOM + 9000 + MTU_OVERHEAD);
	/* As large as an mbuf can be. */
	size_pool(some, COUNT_OF(some));
	assert_int_equal(room, UINT16_MAX);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_port_adds_its_own),
		cmocka_unit_test(any_order_of_ports_is_the_same),
		cmocka_unit_test(a_frame_has_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
