/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * The gate between a queue's data path and the control thread: all that the hot path pays for rings
 * that can be taken away and given back while the application polls.
 *
 * The burst says "busy", then looks whether the gate is open; control shuts the gate, then looks
 * whether the burst is busy. Both are sequentially consistent, so one of them sees the other.
 */
#ifndef SLUICE_GATE_H
#define SLUICE_GATE_H

#include <time.h>

#include <rte_branch_prediction.h>

#include "sluice.h"

/** From a burst function. False: the ring is not ours now; touch nothing. */
static inline bool
sluice_gate_enter(struct sluice_ring *ring)
{
	atomic_store_explicit(&ring->busy, 1, memory_order_seq_cst);
	if (likely(atomic_load_explicit(&ring->open, memory_order_seq_cst)))
		return true;
	atomic_store_explicit(&ring->busy, 0, memory_order_release);
	return false;
}

static inline void
sluice_gate_leave(struct sluice_ring *ring)
{
	atomic_store_explicit(&ring->busy, 0, memory_order_release);
}

/** From control: let bursts in. Everything written to the ring before is seen by them. */
static inline void
sluice_gate_open(struct sluice_ring *ring)
{
	atomic_store_explicit(&ring->open, 1, memory_order_seq_cst);
}

/**
 * From control: keep bursts out and wait for the one inside. A burst is bounded work, so this is
 * microseconds; the limit of two seconds is for an lcore that is held up by force.
 * @return false: it did not come out; the ring is still the burst's, whatever else happens
 */
static inline bool
sluice_gate_close(struct sluice_ring *ring)
{
	const struct timespec step = {.tv_nsec = 20000};
	int i;

	atomic_store_explicit(&ring->open, 0, memory_order_seq_cst);
	for (i = 0; i < 100000; i++) {
		if (!atomic_load_explicit(&ring->busy, memory_order_seq_cst))
			return true;
		nanosleep(&step, NULL);
	}
	return false;
}

#endif
