/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * What the driver does with the registers of a virtio-pci device (virtio 1.3, sections 3.1 and
 * 4.1.5): status, features, queues, the configuration of a network device. One thread at a time.
 * Every wait has an end.
 */
#ifndef PCI_REGS_H
#define PCI_REGS_H

#include <stdbool.h>
#include <stdint.h>

#include "pci_caps.h"

struct pci_regs {
	struct pci_access access;
	struct pci_caps caps;
};

/** What the device says of a queue. */
struct pci_queue {
	uint32_t size;           /**< entries at most; 0: there is no such queue */
	volatile void *doorbell; /**< where notifications are written */
};

/** Where a ring lies, as the device addresses it, and what it is to raise. */
struct pci_ring {
	uint32_t size;
	uint64_t desc, driver, device;
	uint16_t vector; /**< MSI-X, or VPCI_NO_VECTOR */
};

/** Is the device not there any more? Reads configuration space only, which is safe then. */
bool pci_gone(const struct pci_regs *r);

uint8_t pci_status(const struct pci_regs *r);
/** Add bits to the status. */
void pci_add_status(const struct pci_regs *r, uint8_t bits);

/** May the device reach memory at all? With false it cannot, whatever it is up to. */
void pci_bus_master(const struct pci_regs *r, bool on);

/** Reset, and wait until it is done. @return 0, or -ETIMEDOUT */
int pci_reset(const struct pci_regs *r);

uint64_t pci_device_features(const struct pci_regs *r);
/** Write the features of the driver and set FEATURES_OK. @return 0; -EINVAL: the device refuses */
int pci_set_features(const struct pci_regs *r, uint64_t features);

uint16_t pci_num_queues(const struct pci_regs *r);
/**
 * @param doorbell_len bytes of a notification: 2, or 4 with NOTIFICATION_DATA
 * @return 0; -EINVAL: the size is none that a split ring can have; -ERANGE: the place of its
 *   notifications lies outside the notification structure
 */
int pci_queue(
	const struct pci_regs *r, uint16_t queue, uint32_t doorbell_len, struct pci_queue *out);
/** Start a queue that is not enabled. @return 0; -ERANGE: the device does not
 * take the size; -EBUSY: no vector for it; -EIO: not enabled */
int pci_queue_start(const struct pci_regs *r, uint16_t queue, const struct pci_ring *ring);
/** Reset one queue (RING_RESET, 4.1.4.3.1). @return 0, -ETIMEDOUT, or -ENOTSUP: no such register */
int pci_queue_reset(const struct pci_regs *r, uint16_t queue);

/** Vector of configuration changes; VPCI_NO_VECTOR: none. @return 0, or -EBUSY */
int pci_config_vector(const struct pci_regs *r, uint16_t vector);

/**
 * Read a field or an array of bytes of the device configuration, all of it of one generation.
 * @return 0; -ERANGE: it is not that long; -EAGAIN: it kept changing
 */
int pci_net_config(const struct pci_regs *r, uint32_t at, void *to, uint32_t len);

#endif
