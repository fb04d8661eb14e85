/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <unistd.h>

#include <rte_interrupts.h>

#include "pci.h"
#include "pci_wire.h"
#include "sluice_control.h"

/* From DPDK's interrupt thread. */
static void
config_changed(void *arg)
{
	sluice_control_wake(arg);
}

void
pci_intr_create(struct sluice_dev *dev)
{
	struct pci_device *p = pci_of(dev);

	if (p->intr == NULL)
		return;
	if (rte_intr_callback_register(p->intr, config_changed, dev) == 0) {
		if (rte_intr_enable(p->intr) == 0)
			return;
		(void)rte_intr_callback_unregister_sync(p->intr, config_changed, dev);
	}
	/* All else works without. */
	SLUICE_LOG(WARNING, dev->name, "its MSI-X vectors cannot be enabled: none are used");
	p->intr = NULL;
}

void
pci_intr_destroy(struct sluice_dev *dev)
{
	struct pci_device *p = pci_of(dev);

	if (p->intr == NULL)
		return;
	(void)rte_intr_disable(p->intr);
	(void)rte_intr_callback_unregister_sync(p->intr, config_changed, dev);
}

int
pci_rx_intr_check(struct sluice_dev *dev)
{
	const struct pci_device *p = pci_of(dev);
	uint32_t need = RTE_INTR_VEC_RXTX_OFFSET + dev->data->nb_rx_queues;

	if (p->regs.caps.msix_vectors == 0)
		return sluice_refuse(dev, -ENOTSUP,
			"receive interrupts: the device has no MSI-X vectors: give it some "
			"(vectors=)");
	if (p->intr == NULL)
		return sluice_refuse(dev, -ENOTSUP,
			"receive interrupts without MSI-X: bind the device to vfio-pci");
	if (p->regs.caps.msix_vectors < need)
		return sluice_refuse(dev, -ENOTSUP,
			"receive interrupts: %u queues take %u MSI-X vectors, not %u (vectors=)",
			dev->data->nb_rx_queues, need, p->regs.caps.msix_vectors);
	return 0;
}

/* EAL keeps what it had made when it ran out of descriptors, and forgets it. */
static int
make_eventfds(struct rte_intr_handle *intr, uint16_t n)
{
	int err, fd;
	uint16_t i;

	for (i = 0; i < n; i++)
		(void)rte_intr_efds_index_set(intr, i, -1);
	err = rte_intr_efd_enable(intr, n);
	for (i = 0; i < n && err != 0; i++) {
		fd = rte_intr_efds_index_get(intr, i);
		if (fd >= 0)
			close(fd);
		(void)rte_intr_efds_index_set(intr, i, -1);
	}
	return err;
}

/* The set of vectors is told to the kernel as a whole. */
int
pci_rx_intr_start(struct sluice_dev *dev)
{
	struct pci_device *p = pci_of(dev);
	int err;

	if (dev->args.coalesce != SLUICE_COALESCE_OFF && !(dev->wanted & SLUICE_COALESCE_BITS))
		SLUICE_LOG(WARNING, dev->name,
			"coalesce=: the device moderates no interrupts (VQ_NOTF_COAL, NOTF_COAL): "
			"one for each wake, as without");
	(void)rte_intr_disable(p->intr);
	err = make_eventfds(p->intr, dev->data->nb_rx_queues);
	if (err == 0 && rte_intr_enable(p->intr) != 0) {
		rte_intr_efd_disable(p->intr);
		err = -EIO;
	}
	/* Without them as before. */
	if (err != 0)
		(void)rte_intr_enable(p->intr);
	return err < 0 ? err : 0;
}

void
pci_rx_intr_stop(struct sluice_dev *dev)
{
	struct rte_intr_handle *intr = rte_eth_devices[dev->data->port_id].intr_handle;
	const struct pci_device *p = pci_of(dev);

	/* A device that is closed has been disabled. */
	if (p != NULL)
		(void)rte_intr_disable(intr);
	rte_intr_efd_disable(intr);
	if (p != NULL)
		(void)rte_intr_enable(intr);
}

uint16_t
pci_ring_vector(const struct sluice_ring *ring)
{
	uint16_t queue = ring->index / 2;

	if (!ring->dev->rx_intr || ring->index % 2 != 0 || queue >= ring->dev->data->nb_rx_queues)
		return VPCI_NO_VECTOR;
	return (uint16_t)(RTE_INTR_VEC_RXTX_OFFSET + queue);
}
