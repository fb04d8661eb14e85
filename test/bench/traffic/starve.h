/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * A pool that runs dry now and then: the receiver takes all mbufs that are left, keeps those that
 * arrive, and after a time gives them all back at once.
 */
#ifndef STARVE_H
#define STARVE_H

#include <rte_mbuf.h>

#include "spells.h"

struct starve {
	struct spells spells;
	struct rte_mempool *pool;
	struct rte_mbuf **held; /* NULL: it never starves */
	uint32_t n;
	bool now;
	/* Results. */
	uint64_t taken; /**< mbufs that were left when it began */
	uint64_t kept;  /**< frames that arrived meanwhile */
};

/** Nothing to free. */
void starve_init(struct starve *s);

/** @param room how many mbufs may arrive and be left in all @return -ENOMEM or 0 */
int starve_plan(struct starve *s, struct rte_mempool *pool, uint32_t room, uint64_t length,
	uint64_t every, uint64_t seed);

/** Give back what is held, free the rest. */
void starve_free(struct starve *s);

/** Keep frames instead of freeing them. */
void starve_keep(struct starve *s, struct rte_mbuf **mbufs, uint32_t n);

void starve_turn_slow(struct starve *s, bool now);

/** @return whether mbufs have come back in this moment */
static inline bool
starve_turn(struct starve *s, uint64_t now)
{
	bool so = spells_turn(&s->spells, now);

	if (__builtin_expect(so == s->now, 1))
		return false;
	starve_turn_slow(s, so);
	return !so;
}

#endif
