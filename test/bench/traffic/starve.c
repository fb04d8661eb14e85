/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_mempool.h>

#include "starve.h"

#define AT_ONCE 32

void
starve_init(struct starve *s)
{
	memset(s, 0, sizeof(*s));
	spells_init(&s->spells, 0, 0, 0);
}

int
starve_plan(struct starve *s, struct rte_mempool *pool, uint32_t room, uint64_t length,
	uint64_t every, uint64_t seed)
{
	s->pool = pool;
	s->held = malloc(room * sizeof(s->held[0]));
	if (s->held == NULL)
		return -ENOMEM;
	/* Written now, so that no page is new when it starves. */
	memset(s->held, 0, room * sizeof(s->held[0]));
	spells_init(&s->spells, length, every, seed);
	return 0;
}

static void
give_back(struct starve *s)
{
	if (s->n != 0)
		rte_pktmbuf_free_bulk(s->held, s->n);
	s->n = 0;
}

static void
take_all(struct starve *s)
{
	struct rte_mbuf *m;

	while (rte_pktmbuf_alloc_bulk(s->pool, s->held + s->n, AT_ONCE) == 0)
		s->n += AT_ONCE;
	while ((m = rte_pktmbuf_alloc(s->pool)) != NULL)
		s->held[s->n++] = m;
	s->taken += s->n;
}

void
starve_turn_slow(struct starve *s, bool now)
{
	s->now = now;
	if (now)
		take_all(s);
	else
		give_back(s);
}

void
starve_keep(struct starve *s, struct rte_mbuf **mbufs, uint32_t n)
{
	memcpy(s->held + s->n, mbufs, n * sizeof(s->held[0]));
	s->n += n;
	s->kept += n;
}

void
starve_free(struct starve *s)
{
	give_back(s);
	free(s->held);
	s->held = NULL;
}
