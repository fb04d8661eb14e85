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
#include "vu_time.h"

/** Longest that control waits for bursts to end. */
#define SLUICE_GATE_MS 2000

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
	if (unlikely(ring->vq.fault != VQ_DRIVER_OK))
		atomic_store_explicit(&ring->fault, ring->vq.fault, memory_order_relaxed);
	atomic_store_explicit(&ring->busy, 0, memory_order_release);
}

/** From control: let bursts in. Everything written to the ring before is seen by them. */
static inline void
sluice_gate_open(struct sluice_ring *ring)
{
	atomic_store_explicit(&ring->open, 1, memory_order_seq_cst);
}

/** From control: keep bursts out from now on; one may still be inside. */
static inline void
sluice_gate_shut(struct sluice_ring *ring)
{
	atomic_store_explicit(&ring->open, 0, memory_order_seq_cst);
}

/**
 * From control, after shutting: wait for the burst inside. A burst is bounded work, so this is
 * microseconds; the limit is for an lcore that is held up by force.
 * @param end of the wait, as vu_now_ms()
 * @return false: it did not come out; the ring is still the burst's, whatever else happens
 */
static inline bool
sluice_gate_wait(const struct sluice_ring *ring, uint64_t end)
{
	const struct timespec step = {.tv_nsec = 20000};

	while (atomic_load_explicit(&ring->busy, memory_order_seq_cst)) {
		if (vu_now_ms() >= end)
			return false;
		nanosleep(&step, NULL);
	}
	return true;
}

#endif
