/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * The control queue of a network device (virtio 1.3, section 5.1.6.5): one command at a time, under
 * dev->lock, waited for with a bound.
 */
#ifndef SLUICE_CTRLQ_H
#define SLUICE_CTRLQ_H

#include "sluice.h"

struct sluice_ctrlq {
	struct sluice_ring ring;
	bool live; /* the device takes commands */
	bool dead; /* a command was not answered: the device may still write to our memory */
};

/** Make the queue of the device; dev->ctrlq is set. @param index virtqueue number. 0 or errno */
int sluice_ctrlq_create(struct sluice_dev *dev, uint16_t index, uint32_t size);
void sluice_ctrlq_destroy(struct sluice_dev *dev);
/** The device was reset: begin anew. Commands do nothing until ctrl->live is set. */
void sluice_ctrlq_prepare(struct sluice_dev *dev, uint64_t features);

/**
 * Commands. Before the device is live they do nothing, since it is told everything when it comes
 * up.
 * @return 0; -ENOTSUP: the device has no such command; -EREMOTEIO: it refuses; -ETIMEDOUT: it does
 *   not answer, nor will it be asked again before it is reset
 */
int sluice_ctrlq_rx_mode(struct sluice_dev *dev, bool promiscuous, bool all_multicast);
int sluice_ctrlq_mac(struct sluice_dev *dev, const struct rte_ether_addr *mac);
int sluice_ctrlq_pairs(struct sluice_dev *dev, uint16_t pairs);
/** Moderate the interrupts of all receive queues. */
int sluice_ctrlq_coalesce_rx(struct sluice_dev *dev, uint32_t frames, uint32_t usecs);
/** Of the virtqueue of this number, which is enabled. */
int sluice_ctrlq_coalesce_vq(
	struct sluice_dev *dev, uint16_t index, uint32_t frames, uint32_t usecs);

#endif
