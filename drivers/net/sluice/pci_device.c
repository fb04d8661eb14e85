/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include <rte_errno.h>

#include "pci.h"
#include "pci_wire.h"
#include "sluice_control.h"
#include "sluice_ctrlq.h"

/* Entries of the control queue: there is one command at a time, of two descriptors. */
#define CTRL_SIZE 4

/*
 * ORDER_PLATFORM asks for barriers that hold against a device outside the CPUs. Those of
 * vq_order.h do on x86, where memory is coherent and ordered for devices too; elsewhere they are
 * for CPUs only.
 */
#ifdef RTE_ARCH_X86
#define ORDER VQ_FEATURE(ORDER_PLATFORM)
#else
#define ORDER 0
#endif

/* What we take of what a device offers, beside what device arguments ask for. */
#define TAKEN                                                                                      \
	(VQ_FEATURE(VERSION_1) | VQ_FEATURE(MAC) | VQ_FEATURE(STATUS) | VQ_FEATURE(MTU) |          \
		VQ_FEATURE(CTRL_VQ) | VQ_FEATURE(CTRL_RX) | VQ_FEATURE(CTRL_MAC_ADDR) |            \
		VQ_FEATURE(ACCESS_PLATFORM) | ORDER | VQ_FEATURE(NOTIFICATION_DATA) |              \
		VQ_FEATURE(RING_RESET))
/* Commands of the control queue. */
#define COMMANDS                                                                                   \
	(VQ_FEATURE(CTRL_RX) | VQ_FEATURE(CTRL_MAC_ADDR) | VQ_FEATURE(MQ) | SLUICE_COALESCE_BITS)

int
pci_device_leave(struct sluice_dev *dev)
{
	struct pci_device *p = pci_of(dev);
	int err;

	p->agreed = false;
	if (dev->ctrlq != NULL)
		dev->ctrlq->live = false;
	if (p->gone || pci_gone(&p->regs)) {
		/* It may only seem so, and is given up. */
		pci_bus_master(&p->regs, false);
		return -ENODEV;
	}
	if (p->left)
		return 0;
	p->left = true;
	err = pci_reset(&p->regs);
	if (err == 0)
		return 0;
	/* It must not write to memory that is given back. */
	pci_bus_master(&p->regs, false);
	SLUICE_LOG(ERR, dev->name, "its reset does not end: it is kept from memory");
	return err;
}

static int
begin(struct sluice_dev *dev, uint64_t *offered)
{
	struct pci_device *p = pci_of(dev);
	const struct pci_regs *regs = &p->regs;

	if (pci_reset(regs) != 0) {
		pci_bus_master(regs, false);
		p->left = true;
		return sluice_refuse(
			dev, -ETIMEDOUT, "its reset does not end: reset or replace it");
	}
	/* Not before: until then it goes on with rings whose memory may have been given back. */
	pci_bus_master(regs, true);
	p->left = false;
	pci_add_status(regs, VPCI_ACKNOWLEDGE);
	pci_add_status(regs, VPCI_DRIVER);
	*offered = pci_device_features(regs);
	if (!(*offered & VQ_FEATURE(VERSION_1)))
		return sluice_refuse(dev, -ENOTSUP,
			"it does not offer VERSION_1 (features 0x%" PRIx64
			"): a device of virtio 1.0 or newer is needed",
			*offered);
	if (rte_eal_iova_mode() == RTE_IOVA_VA && !(*offered & VQ_FEATURE(ACCESS_PLATFORM)))
		return sluice_refuse(dev, -ENOTSUP,
			"it does not go through an IOMMU (no ACCESS_PLATFORM) and DPDK's addresses "
			"are "
			"virtual: run with --iova-mode=pa");
	return 0;
}

int
pci_device_negotiate(struct sluice_dev *dev, uint64_t wanted, uint64_t *features)
{
	uint64_t offered = 0;
	int err = begin(dev, &offered);

	if (err != 0)
		return err;
	*features = wanted & offered;
	if (!(*features & VQ_FEATURE(CTRL_VQ)))
		*features &= ~COMMANDS;
	/* To take the device's MTU is to promise buffers for it, which may be merged ones only. */
	if (!(*features & VQ_FEATURE(MRG_RXBUF)))
		*features &= ~VQ_FEATURE(MTU);
	return 0;
}

int
pci_device_agree(struct sluice_dev *dev, uint64_t features)
{
	struct pci_device *p = pci_of(dev);

	if (pci_set_features(&p->regs, features) != 0)
		return sluice_refuse(dev, -EINVAL, "it refuses the features 0x%" PRIx64, features);
	p->features = features;
	p->agreed = true;
	return 0;
}

/* The values of fields that the device has with these features. */
static int
read_config(struct sluice_dev *dev, uint64_t features)
{
	const struct pci_regs *regs = &pci_of(dev)->regs;
	struct rte_ether_addr mac;
	uint16_t pairs = 1, mtu, status;
	int err = 0;

	dev->mtu_max = SLUICE_FRAME_MAX - SLUICE_FRAME_OVERHEAD;
	if (features & VQ_FEATURE(MAC)) {
		err = pci_net_config(regs, VPCI_NET_MAC, &mac, sizeof(mac));
		dev->args.has_mac = err == 0 && rte_is_valid_assigned_ether_addr(&mac);
		dev->args.mac = mac;
	}
	if (err == 0 && (features & VQ_FEATURE(STATUS)))
		err = pci_net_config(regs, VPCI_NET_STATUS, &status, sizeof(status));
	if (err == 0 && (features & VQ_FEATURE(MQ)))
		err = pci_net_config(regs, VPCI_NET_PAIRS_MAX, &pairs, sizeof(pairs));
	if (err == 0 && (features & VQ_FEATURE(MTU))) {
		err = pci_net_config(regs, VPCI_NET_MTU, &mtu, sizeof(mtu));
		if (err == 0 && mtu >= RTE_ETHER_MIN_MTU)
			dev->mtu_max = RTE_MIN(dev->mtu_max, (uint32_t)mtu);
	}
	if (err != 0)
		return sluice_refuse(dev, -EINVAL, "its configuration %s",
			err == -EAGAIN ? "keeps changing" : "is too short for what it offers");
	if (pairs == 0)
		return sluice_refuse(dev, -EINVAL, "it says that it has no queue pairs");
	dev->pairs_max = RTE_MIN((uint32_t)pairs, (uint32_t)SLUICE_PAIRS_MAX);
	pci_of(dev)->ctrl = 2 * (uint32_t)pairs;
	return 0;
}

int
pci_device_queue(struct sluice_dev *dev, uint32_t index, uint64_t features, struct pci_queue *out)
{
	const struct pci_regs *regs = &pci_of(dev)->regs;
	int err = -ENOENT;

	if (index < pci_num_queues(regs))
		err = pci_queue(regs, (uint16_t)index,
			features & VQ_FEATURE(NOTIFICATION_DATA) ? 4 : 2, out);
	if (err == -ENOENT || (err == 0 && out->size == 0))
		return sluice_refuse(dev, -EINVAL, "it has no queue %u", index);
	if (err == -EINVAL)
		return sluice_refuse(dev, err, "its queue %u has %u entries: not a power of two",
			index, out->size);
	if (err != 0)
		return sluice_refuse(dev, -EINVAL,
			"the doorbell of its queue %u lies outside the notification structure",
			index);
	return 0;
}

static int
look_at_queues(struct sluice_dev *dev, uint64_t features)
{
	struct pci_device *p = pci_of(dev);
	struct pci_queue queue;
	uint32_t i;
	int err = 0;

	dev->ring_max[0] = dev->ring_max[1] = VQ_SIZE_MAX;
	for (i = 0; i < 2 * dev->pairs_max && err == 0; i++) {
		err = pci_device_queue(dev, i, features, &queue);
		if (err == 0)
			dev->ring_max[i % 2] = RTE_MIN(dev->ring_max[i % 2], queue.size);
	}
	if (err == 0 && (features & VQ_FEATURE(CTRL_VQ))) {
		err = pci_device_queue(dev, p->ctrl, features, &queue);
		if (err == 0 && queue.size < 2)
			err = sluice_refuse(dev, -EINVAL,
				"its control queue has one entry, and a command takes two");
		p->ctrl_size = RTE_MIN(queue.size, (uint32_t)CTRL_SIZE);
	}
	return err;
}

/* Everything that is known of the device before the application configures it. */
static int
look_at(struct sluice_dev *dev)
{
	uint64_t features;
	int err;

	/* More than one pair, if it has them. */
	dev->pairs_max = SLUICE_PAIRS_MAX;
	dev->wanted = (sluice_wanted_features(dev) | TAKEN) & ~VQ_FEATURE(ANY_LAYOUT);
	if (dev->args.coalesce != SLUICE_COALESCE_OFF)
		dev->wanted |= SLUICE_COALESCE_BITS;
	err = pci_device_negotiate(dev, dev->wanted, &features);
	if (err == 0)
		err = read_config(dev, features);
	if (err == 0 && dev->pairs_max == 1) {
		features &= ~VQ_FEATURE(MQ);
		pci_of(dev)->ctrl = 2;
	}
	if (err == 0)
		err = pci_device_agree(dev, features);
	if (err == 0)
		err = look_at_queues(dev, features);
	/* Later the same are taken, whatever the device offers then. */
	dev->wanted = features;
	return err;
}

static int
create(struct rte_eth_dev *eth)
{
	struct sluice_dev *dev = sluice_dev_of(eth);
	struct pci_device *p = pci_of(dev);
	int err = look_at(dev);

	if (err != 0) {
		SLUICE_LOG(ERR, dev->name, "%s", dev->why);
		(void)pci_device_leave(dev);
		return err;
	}
	err = pci_device_leave(dev);
	if (err == 0)
		err = sluice_ethdev_init(eth);
	if (err == 0 && (dev->wanted & VQ_FEATURE(CTRL_VQ)))
		err = sluice_ctrlq_create(dev, (uint16_t)p->ctrl, p->ctrl_size);
	if (err == 0)
		err = sluice_control_start(dev);
	return err;
}

int
pci_device_create(struct rte_eth_dev *eth, const struct pci_access *access,
	const struct pci_bar bars[VPCI_BARS], struct rte_intr_handle *intr)
{
	struct sluice_dev *dev = sluice_dev_of(eth);
	struct pci_device *p = calloc(1, sizeof(*p));
	int err;

	if (p == NULL)
		return -ENOMEM;
	p->regs.access = *access;
	dev->transport = &pci_transport;
	dev->transport_priv = p;
	err = pci_caps_walk(access, bars, &p->regs.caps, dev->why, sizeof(dev->why));
	if (err != 0)
		SLUICE_LOG(ERR, dev->name, "%s", dev->why);
	if (err == 0)
		err = create(eth);
	if (err != 0) {
		pci_device_destroy(dev);
		return err;
	}
	if (p->regs.caps.msix_vectors != 0)
		p->intr = intr;
	pci_intr_create(dev);
	return 0;
}

void
pci_device_destroy(struct sluice_dev *dev)
{
	struct pci_device *p = pci_of(dev);

	if (p == NULL)
		return;
	pci_intr_destroy(dev);
	sluice_control_stop(dev);
	if (p->regs.caps.common.base != NULL)
		(void)pci_device_leave(dev);
	sluice_ctrlq_destroy(dev);
	dev->transport_priv = NULL;
	free(p);
}
