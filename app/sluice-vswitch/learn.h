/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Addresses on their way from the workers that hear them to the control thread, which alone writes
 * the forwarding table. Each port has a share of what may wait, and all shares have room at once:
 * whatever others invent, and however long the control thread is busy, an address of a port that
 * keeps within its share arrives. For the workers' end see worker.h.
 */
#ifndef LEARN_H
#define LEARN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_common.h>
#include <rte_ring.h>

#include "config.h"
#include "fdb.h"

struct learning {
	struct rte_ring *ring;
	int event;      /**< written when there are some */
	uint32_t share; /**< messages of one port that wait at most */
	_Atomic(uint64_t) lost;
	_Atomic(uint32_t) waiting[PORTS_MAX]; /**< messages, by port */
} __rte_cache_aligned;

/** @return 0, -ENOMEM, or why there is no eventfd */
int learning_init(struct learning *l, const struct switch_config *config);
/** Also one that is all zero, or half made. */
void learning_end(struct learning *l);

/** Write the next ones into the table, not too many. Control thread. @return are there more? */
bool learning_take(struct learning *l, struct fdb *f, uint32_t second);

#endif
