/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Every interleaving of two threads, as one program (Lal and Reps): time has rounds, in each of
 * which first the one thread runs, then the other. Each shared field has a value a round. The first
 * thread runs through all rounds on guessed starting values, then the second does; at the end the
 * guesses must be what the second left: only then may anything be asserted. A thread may go to a
 * later round at every access.
 *
 * A thread of n accesses can be cut into n + 1 pieces, so n + 1 rounds have every interleaving.
 */
#ifndef TURNS_H
#define TURNS_H

#include "model.h"

enum shared {
	AVAIL_FLAGS,
	AVAIL_IDX,
	USED_EVENT,
	USED_FLAGS,
	USED_IDX,
	AVAIL_EVENT,
	BELL,
	SHARED,
};

static uint16_t values[ROUNDS][SHARED];
static uint16_t guesses[ROUNDS][SHARED];
static uint32_t round_now;

/* The fields lie in two arrays, of one entry each: flags, index, the entry, the event. */
static uint16_t avail_ring[4];
static uint16_t used_ring[7];

static enum shared
field_of(const uint16_t *p)
{
	if (p == &avail_ring[0])
		return AVAIL_FLAGS;
	if (p == &avail_ring[1])
		return AVAIL_IDX;
	if (p == &avail_ring[3])
		return USED_EVENT;
	if (p == &used_ring[0])
		return USED_FLAGS;
	if (p == &used_ring[1])
		return USED_IDX;
	PROVE(p == &used_ring[6]);
	return AVAIL_EVENT;
}

static void
maybe_pause(void)
{
	uint32_t later = nondet_u32();

	ASSUME(later >= round_now && later < ROUNDS);
	round_now = later;
}

static uint16_t
look(enum shared field)
{
	maybe_pause();
	return values[round_now][field];
}

static void
put(enum shared field, uint16_t value)
{
	maybe_pause();
	values[round_now][field] = value;
}

unsigned short
model_load(const unsigned short *p)
{
	return look(field_of(p));
}

void
model_store(unsigned short *p, unsigned short value)
{
	put(field_of(p), value);
}

static void
begin(const uint16_t first[SHARED])
{
	for (uint32_t r = 0; r < ROUNDS; r++)
		for (uint32_t f = 0; f < SHARED; f++) {
			guesses[r][f] = r == 0 ? first[f] : nondet_u16();
			values[r][f] = guesses[r][f];
		}
	round_now = 0;
}

static void
other_thread(void)
{
	round_now = 0;
}

static void
end(void)
{
	for (uint32_t r = 0; r + 1 < ROUNDS; r++)
		for (uint32_t f = 0; f < SHARED; f++)
			ASSUME(values[r][f] == guesses[r + 1][f]);
}

#endif
