/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include "segments.h"

#define SEGMENTS_MOST (SIZE_MOST / FRAME_PERIOD + 1)

/* The n-th mbuf of a frame, from 1. */
static struct rte_mbuf *
segment(struct rte_mbuf *m, uint32_t n)
{
	while (--n > 0)
		m = m->next;
	return m;
}

static bool
lengthen(struct rte_mbuf *m, struct rte_mempool *pool, uint32_t by)
{
	struct rte_mbuf *more[SEGMENTS_MOST], *last = segment(m, m->nb_segs);
	uint32_t i;

	if (rte_pktmbuf_alloc_bulk(pool, more, by) != 0)
		return false;
	for (i = 0; i < by; i++) {
		frame_prepare_segment(rte_pktmbuf_mtod(more[i], uint8_t *));
		last->next = more[i];
		last = more[i];
	}
	return true;
}

bool
segments_shape_slow(struct rte_mbuf *m, struct rte_mempool *pool, uint32_t room, uint32_t size)
{
	uint32_t need = segments_of(size, room);
	struct rte_mbuf *at;

	if (need > m->nb_segs && !lengthen(m, pool, need - m->nb_segs))
		return false;
	if (need < m->nb_segs) {
		at = segment(m, need);
		rte_pktmbuf_free(at->next);
		at->next = NULL;
	}
	m->nb_segs = (uint16_t)need;
	m->pkt_len = size;
	for (at = m; at != NULL; at = at->next) {
		at->data_len = (uint16_t)RTE_MIN(size, room);
		size -= at->data_len;
	}
	return true;
}
