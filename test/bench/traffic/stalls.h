/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * When the program itself did not run: gaps between two turns of its loop.
 */
#ifndef STALLS_H
#define STALLS_H

#include "longest.h"

struct stalls {
	uint64_t threshold; /* ticks */
	uint64_t last;      /* when the last turn began */
	uint64_t count;     /* turns that came later than the threshold */
	uint64_t total;     /* their ticks */
	struct longest longest;
};

/** A turn begins. */
static inline void
stalls_turn(struct stalls *s, uint64_t now)
{
	uint64_t gap = now - s->last;

	if (__builtin_expect(gap > s->threshold, 0)) {
		s->count++;
		s->total += gap;
		longest_add(&s->longest, gap, s->last, 0);
	}
	s->last = now;
}

/** Ticks lost up to a moment, those of a stall included that no turn has ended yet. */
static inline uint64_t
stalls_until(const struct stalls *s, uint64_t now)
{
	uint64_t gap = now > s->last ? now - s->last : 0;

	return s->total + (gap > s->threshold ? gap : 0);
}

#endif
