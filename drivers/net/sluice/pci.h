/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Virtual machines: a virtio-pci device, modern or transitional, through its virtio 1.0
 * capabilities.
 *
 * The control thread looks after the device: it notices when the device wants a reset, breaks a
 * ring, changes its link, or is unplugged; the interrupt of configuration changes only wakes it.
 */
#ifndef SLUICE_PCI_H
#define SLUICE_PCI_H

#include "pci_regs.h"
#include "sluice.h"

struct pci_device {
	struct pci_regs regs;
	struct rte_intr_handle *intr; /* with MSI-X vectors to give; NULL: there are none */

	/* Under dev->lock. */
	bool gone;         /* unplugged */
	bool left;         /* reset since it was used last, or kept from memory */
	bool agreed;       /* features have been negotiated, and the device was not reset since */
	uint64_t features; /* the agreed ones */
	uint32_t pairs;    /* with them */
	bool recovering;   /* the application was told so */
	bool lost;         /* and that it cannot be: not tried again before the next start */
	uint32_t ctrl;     /* virtqueue number of the control queue */
	uint32_t ctrl_size;
	uint64_t idle_ms; /* time to look for idle queues again */
	uint64_t next_ms; /* time of the next attempt after a failure */
};

static inline struct pci_device *
pci_of(const struct sluice_dev *dev)
{
	return dev->transport_priv;
}

/* pci_device.c */
/**
 * Fill a port that probing has allocated, with dev->name, args and data: look at the device, and
 * leave it reset. Everything behind `access` and `bars` stays until close().
 * @param intr the device's interrupts if it has MSI-X vectors to give, else NULL
 * @return 0 or errno, with one line in the log
 */
int pci_device_create(struct rte_eth_dev *eth, const struct pci_access *access,
	const struct pci_bar bars[VPCI_BARS], struct rte_intr_handle *intr);
void pci_device_destroy(struct sluice_dev *dev);
/** Reset, and see what of `wanted` the device offers. @return 0, or errno with dev->why */
int pci_device_negotiate(struct sluice_dev *dev, uint64_t wanted, uint64_t *features);
/** Fix the features. @return 0, or errno with dev->why */
int pci_device_agree(struct sluice_dev *dev, uint64_t features);
/** What the device says of a queue that it must have. @return 0, or errno with dev->why */
int pci_device_queue(
	struct sluice_dev *dev, uint32_t index, uint64_t features, struct pci_queue *out);
/** Forget the device as it is: reset; if that does not end, keep it from memory. */
int pci_device_leave(struct sluice_dev *dev);

/* pci_transport.c */
extern const struct sluice_transport pci_transport;

/* pci_turn.c */
/** Under the lock: bring the device up. @return as sluice_up() */
int pci_start(struct sluice_dev *dev);
int pci_prepare_wait(struct sluice_dev *dev, struct pollfd *fd);
uint32_t pci_turn(struct sluice_dev *dev);

/* pci_intr.c: MSI-X. Vector 0 is for changes of the configuration, one each for receive queues. */
/** Enable them, if the device has any. */
void pci_intr_create(struct sluice_dev *dev);
void pci_intr_destroy(struct sluice_dev *dev);
int pci_rx_intr_check(struct sluice_dev *dev);
int pci_rx_intr_start(struct sluice_dev *dev);
void pci_rx_intr_stop(struct sluice_dev *dev);
/** The vector of a ring, VPCI_NO_VECTOR without. */
uint16_t pci_ring_vector(const struct sluice_ring *ring);

#endif
