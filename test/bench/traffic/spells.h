/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Spells: now and then something is so for a time, then not. The pauses between them are uniform in
 * [0.5, 1.5] of a given time and come from a seeded generator, so that a run can be repeated and
 * the spells keep no step with any ring. Times are TSC ticks; the clock is the caller's.
 */
#ifndef SPELLS_H
#define SPELLS_H

#include <stdbool.h>
#include <stdint.h>

struct spells {
	uint64_t change; /* when the spell or the pause ends; UINT64_MAX: never */
	bool in;
	uint64_t length, every; /* of a spell, of a pause in the mean; length 0: there are none */
	uint64_t random;
	uint64_t began;
	uint64_t count; /**< spells that began */
	uint64_t total; /**< ticks in spells, as they were and not as they were planned */
};

void spells_init(struct spells *s, uint64_t length, uint64_t every, uint64_t seed);

/** The first pause begins. */
void spells_start(struct spells *s, uint64_t now);

/** No spell will begin any more; one that goes on ends. */
void spells_end(struct spells *s, uint64_t now);

bool spells_turn_slow(struct spells *s, uint64_t now);

/** Is this a moment of a spell? */
static inline bool
spells_turn(struct spells *s, uint64_t now)
{
	if (__builtin_expect(now < s->change, 1))
		return s->in;
	return spells_turn_slow(s, now);
}

#endif
