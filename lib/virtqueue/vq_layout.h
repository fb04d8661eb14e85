/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Where the three areas of a split ring lie in one block of memory.
 *
 * The descriptor table is line-aligned. The two rings start 4 bytes before a cache line, so that
 * flags and index (which the other side polls) sit on one line and the entries begin on the next;
 * the specification asks only for 2 and 4 bytes of alignment there (2.7).
 */
#ifndef VQ_LAYOUT_H
#define VQ_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#define VQ_CACHE_LINE 64

/** Offsets from the start of the block, and its length; all in bytes. */
struct vq_layout {
	size_t desc;
	size_t avail;
	size_t used;
	size_t bytes;
};

/**
 * Lay out a ring.
 * @param size entries, a power of two, 1..VQ_SIZE_MAX
 * @return 0, or -EINVAL for a size that a split ring cannot have
 */
int vq_layout(uint32_t size, struct vq_layout *out);

#endif
