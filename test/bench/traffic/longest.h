/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * The longest of a kind of event (stalls, gaps), with the moment of each, longest first.
 */
#ifndef LONGEST_H
#define LONGEST_H

#include <stdint.h>

#define LONGEST_KEPT 16

struct longest_entry {
	uint64_t value;
	uint64_t at;    /* TSC */
	uint32_t which; /* what the owner likes to remember, such as the flow */
};

struct longest {
	uint32_t n;
	struct longest_entry entry[LONGEST_KEPT];
};

void longest_insert(struct longest *l, uint64_t value, uint64_t at, uint32_t which);

/** Keep an event if it is one of the longest; of equals the earlier ones. */
static inline void
longest_add(struct longest *l, uint64_t value, uint64_t at, uint32_t which)
{
	if (l->n < LONGEST_KEPT || value > l->entry[LONGEST_KEPT - 1].value)
		longest_insert(l, value, at, which);
}

#endif
