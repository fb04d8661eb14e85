/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include <rte_io.h>

#include "pci.h"
#include "pci_wire.h"
#include "sluice_ctrlq.h"

static int
pci_negotiate(struct sluice_dev *dev, uint64_t wanted, uint32_t pairs, uint64_t *features)
{
	struct pci_device *p = pci_of(dev);
	uint64_t lost;
	int err;

	if (p->gone || pci_gone(&p->regs))
		return sluice_refuse(dev, -ENODEV, "the device has been unplugged");
	if (pairs > dev->pairs_max)
		return sluice_refuse(dev, -ENOSPC,
			"the device has %u queue pairs, %u are configured: configure fewer",
			dev->pairs_max, pairs);
	/* A start after a stop that has only reset the rings, unless the device has failed since.
	 */
	*features = p->features;
	if (!dev->rx_intr)
		wanted &= ~SLUICE_COALESCE_BITS;
	p->agreed = p->agreed && pairs <= p->pairs && (dev->ctrlq == NULL || !dev->ctrlq->dead) &&
		    ((p->features ^ wanted) & SLUICE_COALESCE_BITS) == 0 &&
		    (pci_status(&p->regs) & (VPCI_DRIVER_OK | VPCI_NEEDS_RESET)) == VPCI_DRIVER_OK;
	if (p->agreed)
		return 0;
	err = pci_device_negotiate(dev, wanted, features);
	if (err != 0)
		return err;
	/* The numbers of queues depend on these. */
	lost = wanted & ~*features & (VQ_FEATURE(CTRL_VQ) | VQ_FEATURE(MQ));
	if (lost != 0)
		return sluice_refuse(dev, -EINVAL,
			"it does not offer the features 0x%" PRIx64 " any more: probe it again",
			lost);
	return 0;
}

static int
start_queue(struct sluice_dev *dev, struct sluice_ring *ring, uint16_t vector)
{
	const struct pci_device *p = pci_of(dev);
	const struct pci_ring wanted = {
		.size = ring->vq.size,
		.desc = sluice_ring_addr(ring, ring->vq.desc),
		.driver = sluice_ring_addr(ring, ring->vq.avail),
		.device = sluice_ring_addr(ring, ring->vq.used),
		.vector = vector,
	};
	struct pci_queue queue;
	int err = pci_device_queue(dev, ring->index, p->features, &queue);

	if (err != 0)
		return err;
	if (ring->vq.size > queue.size)
		return sluice_refuse(dev, -EINVAL, "its queue %u has %u entries, %u are configured",
			ring->index, queue.size, ring->vq.size);
	ring->doorbell = queue.doorbell;
	err = pci_queue_start(&p->regs, ring->index, &wanted);
	if (err == 0)
		return 0;
	return sluice_refuse(dev, -EIO, "its queue %u does not start: %s", ring->index,
		err == -ERANGE  ? "it does not take the number of descriptors"
		: err == -EBUSY ? "it has no MSI-X vector left"
				: "it stays disabled");
}

static int
pci_set_up(struct sluice_dev *dev, uint64_t features)
{
	struct pci_device *p = pci_of(dev);
	int err;

	if (p->agreed)
		return 0;
	err = pci_device_agree(dev, features);
	if (err != 0)
		return err;
	p->pairs = dev->pairs;
	/* The control thread looks by itself, only less often. */
	if (p->intr != NULL && pci_config_vector(&p->regs, 0) != 0)
		SLUICE_LOG(WARNING, dev->name,
			"no MSI-X vector for its configuration: changes are seen later");
	if (dev->ctrlq == NULL)
		return 0;
	sluice_ctrlq_prepare(dev, features);
	return start_queue(dev, &dev->ctrlq->ring, VPCI_NO_VECTOR);
}

static int
pci_start_ring(struct sluice_dev *dev, struct sluice_ring *ring)
{
	return start_queue(dev, ring, pci_ring_vector(ring));
}

/* On PCI a ring is enabled by its start. */
static int
pci_enable_ring(struct sluice_dev *dev, struct sluice_ring *ring, bool enable)
{
	RTE_SET_USED(dev);
	RTE_SET_USED(ring);
	RTE_SET_USED(enable);
	return 0;
}

/* What the device forgot with its reset, and how many of its queues are in use. */
static int
tell_device(struct sluice_dev *dev)
{
	int err = 0;

	if (dev->features & VQ_FEATURE(MQ))
		err = sluice_ctrlq_pairs(dev, (uint16_t)dev->pairs);
	if (err != 0)
		return sluice_refuse(dev, err, "it does not take %u queue pairs", dev->pairs);
	err = sluice_ctrlq_rx_mode(dev, dev->promiscuous, dev->all_multicast);
	/* Its own it knows, and may allow no other. */
	if ((err == 0 || err == -ENOTSUP) &&
		!(dev->args.has_mac && rte_is_same_ether_addr(&dev->mac, &dev->args.mac)))
		err = sluice_ctrlq_mac(dev, &dev->mac);
	if (err != 0 && err != -ENOTSUP)
		return sluice_refuse(dev, err, "it does not take what frames to receive");
	err = sluice_coalesce_begin(dev);
	if (err != 0)
		return sluice_refuse(dev, err, "it does not take how to moderate its interrupts");
	return 0;
}

static int
pci_driver_ok(struct sluice_dev *dev)
{
	const struct pci_regs *regs = &pci_of(dev)->regs;
	uint32_t i;
	uint8_t status;
	int err = 0;

	pci_add_status(regs, VPCI_DRIVER_OK);
	status = pci_status(regs);
	if (!(status & VPCI_DRIVER_OK) || (status & VPCI_NEEDS_RESET))
		return sluice_refuse(dev, -EIO, "it does not start: status 0x%x", status);
	if (dev->ctrlq != NULL) {
		dev->ctrlq->live = true;
		err = tell_device(dev);
	}
	/* Buffers were posted before the device looked. */
	for (i = 0; i < 2 * dev->pairs && err == 0; i += 2)
		dev->transport->notify(dev->rings[i]);
	return err;
}

static int
pci_stop_rings(struct sluice_dev *dev)
{
	const struct pci_device *p = pci_of(dev);
	uint32_t i;
	int err = p->features & VQ_FEATURE(RING_RESET) ? 0 : -ENOTSUP;

	/* With the rings alone a control queue that failed would not begin anew. */
	if (pci_gone(&p->regs) || (dev->ctrlq != NULL && dev->ctrlq->dead))
		err = -ENOTSUP;
	for (i = 0; i < 2 * dev->pairs && err == 0; i++)
		err = pci_queue_reset(&p->regs, (uint16_t)i);
	return err == 0 ? 0 : pci_device_leave(dev);
}

/* The device has no say in it beyond its largest, which is known since probing. */
static int
pci_set_mtu(struct sluice_dev *dev, uint16_t mtu)
{
	RTE_SET_USED(dev);
	RTE_SET_USED(mtu);
	return 0;
}

static void
pci_reset_device(struct sluice_dev *dev)
{
	(void)pci_device_leave(dev);
}

/* 4.1.5.2; with NOTIFICATION_DATA the device learns how far the ring goes, too. */
static void
pci_notify(struct sluice_ring *ring)
{
	if (ring->dev->features & VQ_FEATURE(NOTIFICATION_DATA))
		rte_write32((uint32_t)ring->vq.avail_idx << 16 | ring->index, ring->doorbell);
	else
		rte_write16(ring->index, ring->doorbell);
}

static void
pci_describe(struct sluice_dev *dev, char *text, size_t len)
{
	snprintf(text, len, ", %s", pci_of(dev)->intr != NULL ? "MSI-X" : "no interrupts");
}

const struct sluice_transport pci_transport = {
	.iova = true,
	.filters = true,
	.steers = true,
	.error_mode = RTE_ETH_ERROR_HANDLE_MODE_PROACTIVE,
	.connect = pci_start,
	.negotiate = pci_negotiate,
	.set_features = pci_set_up,
	.start_ring = pci_start_ring,
	.enable_ring = pci_enable_ring,
	.driver_ok = pci_driver_ok,
	.stop_rings = pci_stop_rings,
	.set_mtu = pci_set_mtu,
	.reset = pci_reset_device,
	.notify = pci_notify,
	.describe = pci_describe,
	.rx_intr_check = pci_rx_intr_check,
	.rx_intr_start = pci_rx_intr_start,
	.rx_intr_stop = pci_rx_intr_stop,
	.prepare_wait = pci_prepare_wait,
	.turn = pci_turn,
	.close = pci_device_destroy,
};
