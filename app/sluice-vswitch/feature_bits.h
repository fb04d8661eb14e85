/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Virtio features that a port offers, and their names. No DPDK.
 */
#ifndef FEATURE_BITS_H
#define FEATURE_BITS_H

#include <stddef.h>
#include <stdint.h>

#include "port_config.h"

/** What a frame may be longer than the MTU: an Ethernet header and one VLAN tag. */
#define MTU_OVERHEAD 18

/**
 * The longest frame for an MTU; 0: not known. Never more than the largest MTU that can be
 * configured has: a guest's descriptors may add up to 4 GiB.
 */
static inline uint32_t
longest_frame(uint32_t mtu)
{
	return (mtu != 0 && mtu < PORT_MTU_MAX ? mtu : PORT_MTU_MAX) + MTU_OVERHEAD;
}

/** Only what the data path honours, and what the frontend does by itself once it is offered. */
uint64_t offered_features(const struct port_config *c);

/** The names of the bits set, with spaces between; bits without a name as BIT_n. */
void feature_names(uint64_t features, char *out, size_t len);

#endif
