/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#ifndef ETH_PORT_H
#define ETH_PORT_H

#include <rte_mempool.h>

#include "config.h"

/** Does a port take mbufs? Those of ethdevs do, and those that measure with them. */
bool eth_port_needs_mbufs(const struct port_config *p);

/**
 * The mbufs of all such ports: what their rings and the workers can hold at once, 2 * 512 a queue
 * of an ethdev, 512 a worker, and 2048 more for loopback=mbuf; each with room for a frame of the
 * largest MTU that was asked for of an ethdev.
 * @return NULL without memory
 */
struct rte_mempool *eth_port_pool(const struct switch_config *c, uint32_t nworkers);

#endif
