/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * What is always true of the private state of a struct vq_driver between two calls: every id is
 * once in the ring of free ids or once in one chain in flight. driver.c proves that every operation
 * keeps it.
 */
#ifndef DRIVER_RULES_H
#define DRIVER_RULES_H

#include "model.h"
#include "vq_driver.h"

/** The next id of a chain: of its own links, or with IN_ORDER simply the next one. In step both are
 * the same. */
static inline uint16_t
link_of(const struct vq_driver *q, uint16_t id)
{
	return q->in_order ? (uint16_t)((id + 1) & q->mask) : q->slots[id].next;
}

static inline bool
driver_sound(const struct vq_driver *q)
{
	uint32_t nfree = vq_driver_free(q);
	uint32_t in_flight = vq_driver_inflight(q);
	uint32_t heads = 0, chains = 0, met = 0;

	if (q->size != SIZE || q->mask != SIZE - 1 || nfree > SIZE || in_flight > SIZE ||
		q->fault > VQ_DRIVER_BATCH)
		return false;
	if (q->fault != VQ_DRIVER_INDEX && (uint16_t)(q->used_seen - q->used_idx) > in_flight)
		return false;
	for (uint32_t i = 0; i < SIZE; i++) {
		uint16_t id = q->free_ids[(q->free_head + i) & (SIZE - 1)];

		/* Behind the free ids stand those that were taken, in some order. */
		if (id >= SIZE || (q->in_step && q->free_ids[i] != i))
			return false;
		if (i >= nfree)
			continue;
		if ((met & (1u << id)) != 0 || q->slots[id].ndesc != 0)
			return false;
		met |= 1u << id;
	}
	for (uint32_t head = 0; head < SIZE; head++) {
		uint16_t id = (uint16_t)head;
		uint16_t n = q->slots[head].ndesc;

		if (n == 0)
			continue;
		if (n > SIZE)
			return false;
		heads++;
		chains += n > 1;
		for (uint32_t k = 0; k < SIZE; k++) {
			if (k >= n)
				break;
			if (id >= SIZE || (met & (1u << id)) != 0)
				return false;
			met |= 1u << id;
			if (q->in_step && k + 1 < n && !q->in_order &&
				q->slots[id].next != ((id + 1) & (SIZE - 1)))
				return false;
			id = link_of(q, id);
		}
	}
	if (met != (1u << SIZE) - 1 || heads != in_flight || chains != q->chains)
		return false;
	if (q->fixed && (!q->in_step || ((q->avail_idx ^ q->free_head) & (SIZE - 1)) != 0))
		return false;
	/* The oldest chain begins where the next id comes back to; a batch ends with one in flight.
	 */
	if (q->in_step && in_flight != 0 && q->slots[q->free_tail & (SIZE - 1)].ndesc == 0)
		return false;
	if (!q->in_order)
		return !q->in_batch;
	return q->in_step &&
	       (!q->in_batch || (q->batch_id < SIZE && q->slots[q->batch_id].ndesc != 0));
}

#endif
