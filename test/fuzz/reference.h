/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * A chain walked once more by a plain reading of the specification (virtio 1.3, 2.7.5): no good
 * chain is refused, no bad one handed out, and a good one is these bytes in this order.
 */
#ifndef FUZZ_REFERENCE_H
#define FUZZ_REFERENCE_H

#include "hostile_driver.h"

/** Must be what the ring says now, or too much for the caller's `nsegs` segments. */
void reference_check(const struct hostile_ring *r, uint64_t features, bool write,
	const struct vq_chain *c, const struct vq_seg *segs, uint32_t nsegs);

/** Bytes of a chain without a table; false for any other, and for a bad one. */
bool reference_direct(const struct hostile_ring *r, bool write, uint32_t head, uint64_t *len);

#endif
