/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * The memory that the two ends share: pieces of one arena with poisoned gaps between them, so that
 * one byte beyond a piece is a finding, and so that "is this shared?" is one comparison.
 */
#ifndef FUZZ_ARENA_H
#define FUZZ_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARENA_BYTES (4u << 20)

extern uint8_t arena[ARENA_BYTES];

/** Give everything back: all of the arena is poisoned again. Before every input. */
void arena_reset(void);

/** A piece of zeros, aligned to 64, with at least as many poisoned bytes on either side. */
void *arena_take(size_t bytes);

/** Would arena_take() serve so many bytes? */
bool arena_has(size_t bytes);

/** A piece that nobody may touch any more. */
void arena_drop(void *p, size_t bytes);

static inline bool
arena_holds(const void *p)
{
	return (uintptr_t)p - (uintptr_t)arena < ARENA_BYTES;
}

#endif
