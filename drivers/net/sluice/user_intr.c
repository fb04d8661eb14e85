/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * Receive interrupts in container mode: the eventfd that the backend calls a ring by is the one
 * that the application sleeps on. It is the ring's own: it stays when backends come and go.
 */

#include <errno.h>

#include <rte_interrupts.h>

#include "user.h"

int
user_rx_intr_start(struct sluice_dev *dev)
{
	struct rte_eth_dev *eth = &rte_eth_devices[dev->data->port_id];
	const uint16_t n = dev->data->nb_rx_queues;
	struct rte_intr_handle *handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	uint16_t i;
	int err;

	if (handle == NULL)
		return -ENOMEM;
	err = rte_intr_type_set(handle, RTE_INTR_HANDLE_VDEV);
	if (err == 0)
		err = rte_intr_fd_set(handle, -1);
	/* EAL does not read them after a wake: it waits for edges, and would spin where a backend
	 * has read one before. */
	if (err == 0)
		err = rte_intr_efd_counter_size_set(handle, 0);
	/* As many as there are eventfds: then nobody but us closes these. */
	if (err == 0)
		err = rte_intr_max_intr_set(handle, n);
	if (err == 0)
		err = rte_intr_nb_efd_set(handle, n);
	for (i = 0; i < n && err == 0; i++)
		err = rte_intr_efds_index_set(handle, i, dev->rings[2 * i]->call);
	if (err != 0) {
		rte_intr_instance_free(handle);
		return err;
	}
	eth->intr_handle = handle;
	return 0;
}

void
user_rx_intr_stop(struct sluice_dev *dev)
{
	struct rte_eth_dev *eth = &rte_eth_devices[dev->data->port_id];

	rte_intr_instance_free(eth->intr_handle);
	eth->intr_handle = NULL;
}
