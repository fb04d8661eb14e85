/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * The whole switch. Made once; ports stay until the end.
 */
#ifndef VSWITCH_H
#define VSWITCH_H

#include <stdatomic.h>

#include <rte_mempool.h>

#include "config.h"
#include "fdb.h"
#include "learn.h"
#include "port.h"
#include "stats.h"
#include "view.h"

struct worker;

/** Counters of the control thread come before those of worker 0. */
#define STATS_CONTROL   0
#define STATS_WORKER(n) ((n) + 1)

struct vswitch {
	struct switch_config config;
	struct port ports[PORTS_MAX]; /**< config.nports of them */
	struct view_domain views;
	struct fdb *fdb;
	struct stats stats;
	struct rte_mempool *pool; /**< of the ethdev ports; NULL without */
	struct learning learning;
	struct worker **workers;
	uint32_t nworkers;
	_Atomic(bool) stop;
};

/**
 * Build a view of all ports as they are now, publish it, and wait until no worker uses the one
 * before. Control thread.
 */
void vswitch_update_view(struct vswitch *sw);

/**
 * The worker for a queue: turn by turn, among those on the NUMA node if there are any.
 * @param node -1: unknown
 */
uint32_t vswitch_worker_for(const struct vswitch *sw, uint32_t port, uint32_t queue, int node);

#endif
