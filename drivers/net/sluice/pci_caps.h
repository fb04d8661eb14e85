/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Where a virtio-pci device keeps its structures: the walk over its capabilities (virtio 1.3,
 * section 4.1.4). The configuration space is the device's word, and nothing of it is trusted:
 * every structure that comes out of here lies within a mapped BAR, is long enough and aligned.
 *
 * The device is reached only through struct pci_access, so that tests can put one of their own
 * there. No DPDK.
 */
#ifndef PCI_CAPS_H
#define PCI_CAPS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define VPCI_BARS 6

/** How to reach a device. Control path only: a doorbell is written directly. */
struct pci_access {
	/** Read configuration space. @return bytes read, or negative */
	int (*read_config)(void *priv, void *to, size_t len, off_t at);
	/** Write it. @return bytes written, or negative */
	int (*write_config)(void *priv, const void *from, size_t len, off_t at);
	/** Read or write a register of 1, 2 or 4 bytes that lies in a BAR. */
	uint32_t (*load)(void *priv, const volatile void *at, uint32_t width);
	void (*store)(void *priv, volatile void *at, uint32_t width, uint32_t value);
	void *priv;
};

/** A memory BAR; addr is NULL where it is not mapped, an I/O BAR among others. */
struct pci_bar {
	uint8_t *addr;
	uint64_t len;
};

/** A structure in a BAR. */
struct pci_window {
	volatile uint8_t *base; /**< NULL: the device has none */
	uint32_t len;
};

struct pci_caps {
	struct pci_window common; /**< 4.1.4.3 */
	struct pci_window notify; /**< 4.1.4.4 */
	struct pci_window device; /**< 4.1.4.6 */
	uint32_t notify_multiplier;
	uint32_t msix_vectors; /**< entries of the MSI-X table; 0: the device has none */
};

/**
 * Walk the capabilities.
 * @param why one line without the device's name when it fails
 * @return 0; -ENOTSUP: a legacy device, without virtio capabilities; -EIO: configuration space
 *   cannot be read; -EINVAL: a capability that cannot be
 */
int pci_caps_walk(const struct pci_access *access, const struct pci_bar bars[VPCI_BARS],
	struct pci_caps *out, char *why, size_t len);

#endif
