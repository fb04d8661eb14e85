/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <string.h>

#include "spells.h"

/* Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014: any seed will do.
 */
static uint64_t
random_next(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static uint64_t
pause_of(struct spells *s)
{
	return s->every / 2 + random_next(&s->random) % (s->every + 1);
}

void
spells_init(struct spells *s, uint64_t length, uint64_t every, uint64_t seed)
{
	memset(s, 0, sizeof(*s));
	s->change = UINT64_MAX;
	s->length = length;
	s->every = every;
	s->random = seed;
}

void
spells_start(struct spells *s, uint64_t now)
{
	if (s->length != 0)
		s->change = now + pause_of(s);
}

bool
spells_turn_slow(struct spells *s, uint64_t now)
{
	s->in = !s->in;
	if (s->in) {
		s->count++;
		s->began = now;
		s->change = now + s->length;
	} else {
		s->total += now - s->began;
		s->change = now + pause_of(s);
	}
	return s->in;
}

void
spells_end(struct spells *s, uint64_t now)
{
	if (s->in)
		s->total += now - s->began;
	s->in = false;
	s->change = UINT64_MAX;
}
