/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#ifndef ETH_PORT_H
#define ETH_PORT_H

#include <rte_mempool.h>

#include "config.h"

/**
 * The mbufs of all ethdev ports: what their rings and the workers can hold at once, 2 * 512 a queue
 * and 512 a worker, each with room for a frame of the largest MTU that was asked for.
 * @return NULL without memory
 */
struct rte_mempool *eth_port_pool(const struct switch_config *c, uint32_t nworkers);

#endif
