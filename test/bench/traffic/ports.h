/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * The ethdevs that frames leave by and come back to, and their mbufs.
 */
#ifndef PORTS_H
#define PORTS_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_ethdev.h>
#include <rte_mempool.h>

#include "options.h"

struct port {
	bool used;
	bool sends, receives;
	uint16_t id;
	char name[RTE_ETH_NAME_MAX_LEN];
	const char *driver;
	uint16_t rx_queues, tx_queues;
	uint16_t rx_descs, tx_descs;
	uint16_t mtu;
	bool scatter; /* a frame may take several receive mbufs */
	struct rte_ether_addr mac;
	struct rte_eth_stats before; /* when the measurement began */
	bool cleared;                /* then the driver's other counters began anew */
};

struct ports {
	struct port port[2];         /* the sender's, and the receiver's if it is another */
	struct port *tx, *rx;        /* NULL: not this direction */
	struct rte_mempool *tx_pool; /* prepared frames */
	uint32_t tx_segment;         /* bytes of a frame that each of these takes */
	struct rte_mempool *rx_pool;
	uint32_t rx_room; /* bytes that each of these takes */
};

/** Find the ports that are named. @return 0 or -EINVAL */
int ports_find(struct ports *p, const struct options *o, struct problem *problem);

/** Configure and start them, and wait for their links. @return 0 or -EINVAL */
int ports_open(struct ports *p, const struct options *o, struct problem *problem);

void ports_close(struct ports *p);

/** Remember the drivers' own counters, and clear those that cannot be remembered. */
void ports_mark(struct ports *p);

/** One broadcast frame from the port that receives. @return 0 or -EINVAL */
int ports_announce(struct ports *p, const uint8_t mac[6], struct problem *problem);

#endif
