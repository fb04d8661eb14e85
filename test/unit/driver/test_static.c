/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * An application that has the driver's static archive in it: nothing is loaded by -d. DPDK itself
 * is shared, since that is what a distribution has.
 */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <rte_bus_vdev.h>
#include <rte_common.h>
#include <rte_eal.h>
#include <rte_ethdev.h>

#define DEVICE "net_sluice_user0"

/* A server of its own, so that nobody is needed at the other end. */
static void
test_it_is_registered(void **state)
{
	char directory[] = "/tmp/sluice-static-XXXXXX";
	char args[64], socket[48];
	struct rte_eth_dev_info info;
	uint16_t port;

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(socket, sizeof(socket), "%s/s", directory);
	snprintf(args, sizeof(args), "path=%s,server=1", socket);
	assert_int_equal(rte_vdev_init(DEVICE, args), 0);
	assert_int_equal(rte_eth_dev_get_port_by_name(DEVICE, &port), 0);
	assert_int_equal(rte_eth_dev_info_get(port, &info), 0);
	assert_string_equal(info.driver_name, "net_sluice_user");
	assert_int_equal(access(socket, F_OK), 0);
	assert_int_equal(rte_vdev_uninit(DEVICE), 0);
	assert_int_equal(rte_eth_dev_count_avail(), 0);
	assert_int_equal(rmdir(directory), 0);
}

static void
test_it_reads_its_arguments(void **state)
{
	(void)state;
	assert_int_equal(rte_vdev_init(DEVICE, "path=/tmp/s,colour=red"), -EINVAL);
	assert_int_equal(rte_vdev_init(DEVICE, "path=/tmp/s,queues=0"), -EINVAL);
	/* Nobody's. */
	assert_int_equal(rte_vdev_init("net_no_such_driver0", ""), -1);
	assert_int_equal(rte_eth_dev_count_avail(), 0);
}

int
main(void)
{
	char args[][32] = {"test", "--no-huge", "-m", "64", "--no-pci", "--no-shconf",
		"--no-telemetry", "-l", "0"};
	char *argv[RTE_DIM(args)];
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_it_is_registered),
		cmocka_unit_test(test_it_reads_its_arguments),
	};

	for (size_t i = 0; i < RTE_DIM(args); i++)
		argv[i] = args[i];
	if (rte_eal_init((int)RTE_DIM(args), argv) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
