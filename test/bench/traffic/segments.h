/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Frames of one mbuf or several: each of the others begins where a period of the prepared bytes
 * does.
 */
#ifndef SEGMENTS_H
#define SEGMENTS_H

#include <rte_mbuf.h>

#include "frame.h"

/** Mbufs of a frame, if each takes `room` bytes. */
static inline uint32_t
segments_of(uint32_t size, uint32_t room)
{
	return (size + room - 1) / room;
}

bool segments_shape_slow(
	struct rte_mbuf *m, struct rte_mempool *pool, uint32_t room, uint32_t size);

/**
 * Make a frame of `size` prepared bytes of an mbuf that is one already, or none yet.
 *
 * @return false if there are no mbufs for it
 */
static inline bool
segments_shape(struct rte_mbuf *m, struct rte_mempool *pool, uint32_t room, uint32_t size)
{
	if (unlikely(m->nb_segs != 1 || size > room))
		return segments_shape_slow(m, pool, room, size);
	m->data_len = (uint16_t)size;
	m->pkt_len = size;
	return true;
}

#endif
