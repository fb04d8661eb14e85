/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * A switch of one worker on a board: its ports are rings of this process, without sockets, and its
 * turns are taken by whoever calls. What the worker runs is what it runs in the switch.
 */
#ifndef TURN_BOARD_H
#define TURN_BOARD_H

#include "vswitch.h"
#include "worker.h"

/** What a port is to be in the next view. */
struct board_port {
	struct vq_device *rx; /**< the guest's receive queue; NULL: the port is down */
	struct vq_device *tx;
	const struct vq_mem *mem;
	uint64_t features;
};

struct board {
	struct vswitch sw;
	struct worker *workers[1];
	struct board_port ports[PORTS_MAX]; /**< the caller's; see board_publish() */
	struct vring rings[PORTS_MAX][2];   /* receive, transmit */
};

/** EAL with `mb` megabytes, without anything else of the machine. @return 0 or -1 */
int board_eal(const char *name, uint32_t mb);

/**
 * A switch without ports; the calling thread is its worker from now on.
 * @param config with as many ports as there will be
 * @return 0 or -ENOMEM
 */
int board_init(struct board *b, const struct switch_config *config);
void board_free(struct board *b);

/** Mbufs for ports that take some; the pool is b->sw.pool. @return 0 or -ENOMEM */
int board_pool(struct board *b, uint32_t mbufs);

/** Show the worker the ports as they are now. @return 0 or -ENOMEM */
int board_publish(struct board *b);

/** The same with a view of the caller's, which is the board's then. */
void board_show(struct board *b, struct view *v);

/** A turn of the worker. @return frames taken */
static inline uint32_t
board_turn(struct board *b)
{
	return worker_turn(b->workers[0]);
}

/** What is known of an address. */
static inline int
board_learn(struct board *b, uint64_t mac, uint32_t port)
{
	return fdb_learn(b->sw.fdb, mac, (uint8_t)port, b->workers[0]->second);
}

#endif
