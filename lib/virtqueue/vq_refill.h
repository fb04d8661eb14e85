/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * When to post receive buffers, and how many: a pure function over counters. Driver side.
 *
 * The rule of the house is VQ_REFILL_BUDGET: once more than min(budget, size) / 2 slots are free,
 * or any after a call that consumed nothing, post at most max(budget, consumed) of them in this
 * call. A receiver that keeps up has time to spare after an empty call, and an absence is to meet a
 * full ring; one that does not keep up publishes in batches. So the ring keeps its level under
 * merged and jumbo traffic, never waits for half a ring of free slots, and no call does unbounded
 * work after a dry pool or a long absence. The other two are there to be measured against it.
 */
#ifndef VQ_REFILL_H
#define VQ_REFILL_H

#include <stdbool.h>
#include <stdint.h>

enum vq_refill_mode {
	VQ_REFILL_BUDGET, /**< as above; a partial fill is a success */
	VQ_REFILL_HALF,   /**< wait for half a ring, then fill all of it (virtio-net before 2019) */
	VQ_REFILL_EAGER,  /**< every call, everything or nothing (DPDK's net_virtio) */
};

#define VQ_REFILL_BUDGET_DEFAULT 64

struct vq_refill {
	enum vq_refill_mode mode;
	uint32_t size;   /**< entries of the ring, N */
	uint32_t budget; /**< buffers, 1..32768, B */
	/** Buffers of the largest frame, at most N: while fewer are posted nothing is waited for,
	 * since no frame might come that frees more. */
	uint32_t need;
};

/**
 * Buffers to post now. Call it after every receive call, an empty one too.
 * @param free slots that hold no buffer, 0..size
 * @param consumed slots that this receive call has emptied
 * @return 0..free
 */
static inline uint32_t
vq_refill_want(const struct vq_refill *r, uint32_t free, uint32_t consumed)
{
	const bool starved = r->size - free < r->need;
	uint32_t budget, most;

	switch (r->mode) {
	case VQ_REFILL_HALF:
		return free > r->size / 2 || starved ? free : 0;
	case VQ_REFILL_EAGER:
		return free;
	case VQ_REFILL_BUDGET:
		break;
	}
	budget = r->budget < r->size ? r->budget : r->size;
	if (consumed != 0 && free <= budget / 2 && !starved)
		return 0;
	most = r->budget > consumed ? r->budget : consumed;
	return free < most ? free : most;
}

/** Must a fill that the pool cannot serve in full post nothing? */
static inline int
vq_refill_all_or_nothing(const struct vq_refill *r)
{
	return r->mode == VQ_REFILL_EAGER;
}

#endif
