/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * What is always true of a struct vq_device between two calls, and what vq_device_peek() promises.
 * device.c proves that every operation keeps the one and that peek keeps the other; net.c builds on
 * that promise.
 */
#ifndef DEVICE_RULES_H
#define DEVICE_RULES_H

#include "model.h"
#include "vq_device.h"

/** Chains counted since the queue began, beside the library. */
struct count {
	uint64_t handed_out;
	uint64_t completed;
	uint64_t rewound;
	uint16_t avail_base; /* where the indices started */
	uint16_t used_base;
};

static inline bool
device_sound(const struct vq_device *q)
{
	uint32_t ahead = (uint16_t)(q->avail_seen - q->avail_idx);
	uint32_t unpublished = (uint16_t)(q->used_idx - q->published);

	if (!vq_size_ok(q->size) || q->mask != q->size - 1 || q->outstanding > q->size ||
		q->outstanding + unpublished > q->size)
		return false;
	if (q->fault == VQ_RING_INDEX)
		return true;
	/* What was seen of the driver's entries and what we have of them fit the ring. */
	return (q->fault == VQ_DEVICE_OK || q->fault == VQ_RING_HEAD) &&
	       ahead + q->outstanding + unpublished <= q->size;
}

/** The counts add up, and the indices are nothing but counts. */
static inline bool
device_counted(const struct vq_device *q, const struct count *c)
{
	return c->handed_out - c->completed - c->rewound == q->outstanding &&
	       (uint16_t)(c->avail_base + c->completed) == vq_device_base(q) &&
	       (uint16_t)(c->used_base + c->completed) == q->used_idx;
}

/** A chain that peek may hand out, with its segments at segs[seg..]. */
static inline bool
chain_sound(const struct vq_device *q, const struct vq_chain *c, const struct vq_seg *segs,
	uint32_t nsegs, uint32_t seg)
{
	uint64_t sum = 0;

	if (c->head > q->mask || c->fault > VQ_CHAIN_SEGMENTS || c->seg != seg || seg > nsegs ||
		c->nseg > nsegs - seg)
		return false;
	if (c->fault != VQ_DEVICE_OK)
		return c->nseg == 0 && c->len == 0;
	for (uint32_t i = 0; i < c->nseg; i++) {
		if (segs[seg + i].len == 0)
			return false;
		sum += segs[seg + i].len;
	}
	return sum == c->len;
}

/** Nothing but the counts of outstanding chains, the faults and the memory hint has changed. */
static inline bool
peek_changed_only_its_own(const struct vq_device *q, const struct vq_device *before, uint32_t n)
{
	return q->avail_idx == (uint16_t)(before->avail_idx + n) &&
	       q->outstanding == (uint16_t)(before->outstanding + n) &&
	       q->used_idx == before->used_idx && q->published == before->published &&
	       q->call_idx == before->call_idx && q->size == before->size &&
	       q->mask == before->mask && q->desc == before->desc && q->avail == before->avail &&
	       q->used == before->used && q->mem == before->mem &&
	       q->coalesce.pending == before->coalesce.pending;
}

#endif
