/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>

#include <rte_eal.h>
#include <rte_errno.h>

#include "user.h"

static int
user_probe(struct rte_vdev_device *vdev)
{
	const char *name = rte_vdev_device_name(vdev);
	struct sluice_devargs args;
	struct rte_eth_dev *eth;
	struct sluice_dev *dev;
	int err;

	err = sluice_check_process(name);
	if (err == 0)
		err = sluice_devargs_parse(
			name, rte_vdev_device_args(vdev), SLUICE_ARGS_USER, &args);
	if (err != 0)
		return err;
	eth = rte_eth_vdev_allocate(vdev, sizeof(*dev));
	dev = sluice_port_begin(eth, name, &args);
	if (dev == NULL)
		return -ENOMEM;
	dev->transport = &user_transport;
	dev->pairs_max = args.queues;
	dev->ring_max[0] = dev->ring_max[1] = VQ_SIZE_MAX;
	dev->mtu_max = SLUICE_FRAME_MAX - SLUICE_FRAME_OVERHEAD;
	dev->wanted = sluice_wanted_features(dev);
	err = sluice_ethdev_init(eth);
	if (err == 0)
		err = user_conn_create(dev);
	return sluice_port_end(eth, err);
}

static int
user_remove(struct rte_vdev_device *vdev)
{
	return sluice_remove(rte_vdev_device_name(vdev));
}

static struct rte_vdev_driver user_driver = {
	.probe = user_probe,
	.remove = user_remove,
};

RTE_PMD_REGISTER_VDEV(net_sluice_user, user_driver);
RTE_PMD_REGISTER_PARAM_STRING(net_sluice_user, SLUICE_USER_PARAMS);

/* What DPDK's build generates for its own drivers, for dpdk-pmdinfo.py to find in the plugin. */
static const char pmd_info[] __rte_used =
	"PMD_INFO_STRING= {\"name\": \"net_sluice_user\", \"params\": \"" SLUICE_USER_PARAMS
	"\", \"pci_ids\": []}";
