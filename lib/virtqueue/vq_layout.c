/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>

#include "vq_layout.h"
#include "vq_wire.h"

/* The first offset at or after `from` at which a ring's entries start on a cache line. */
static size_t
ring_offset(size_t from)
{
	size_t entries = (from + 4 + VQ_CACHE_LINE - 1) & ~(size_t)(VQ_CACHE_LINE - 1);

	return entries - 4;
}

int
vq_layout(uint32_t size, struct vq_layout *out)
{
	if (!vq_size_ok(size))
		return -EINVAL;

	out->desc = 0;
	/* A whole line lies between descriptors and flags, so that no line has two writers. */
	out->avail = ring_offset(size * sizeof(struct vq_desc) + VQ_CACHE_LINE - 4);
	out->used = ring_offset(
		out->avail + 4 + size * sizeof(uint16_t) + sizeof(uint16_t) + VQ_CACHE_LINE - 4);
	out->bytes = out->used + 4 + size * sizeof(struct vq_used_elem) + sizeof(uint16_t);
	out->bytes = (out->bytes + VQ_CACHE_LINE - 1) & ~(size_t)(VQ_CACHE_LINE - 1);
	return 0;
}
