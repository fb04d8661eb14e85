/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * mbufs straight out of and into an lcore's cache of their mempool, without an array in between.
 * Only raw ones: with one reference, one segment and nothing attached.
 */
#ifndef SLUICE_POOL_H
#define SLUICE_POOL_H

#include <rte_lcore.h>
#include <rte_mempool.h>

/**
 * The calling lcore's cache: objs[0..len-1] are free objects, and up to `size` of them find room.
 * @return NULL: there is none, or DPDK was built to check or count what goes in and out
 */
static inline struct rte_mempool_cache *
sluice_pool_cache(struct rte_mempool *pool)
{
#if defined(RTE_LIBRTE_MEMPOOL_DEBUG) || defined(RTE_LIBRTE_MEMPOOL_STATS)
	(void)pool;
	return NULL;
#else
	return rte_mempool_default_cache(pool, rte_lcore_id());
#endif
}

#endif
