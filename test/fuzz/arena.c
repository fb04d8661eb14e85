/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "input.h"

#define GAP 64

uint8_t arena[ARENA_BYTES] __attribute__((aligned(GAP)));

/* Bytes used, the gap in front included; the first time all of it counts as used. */
static size_t used = ARENA_BYTES;

void
arena_reset(void)
{
	ASAN_POISON_MEMORY_REGION(arena, used);
	used = GAP;
}

bool
arena_has(size_t bytes)
{
	return bytes + 2 * GAP <= ARENA_BYTES - used;
}

void
arena_drop(void *p, size_t bytes)
{
	ASAN_POISON_MEMORY_REGION(p, bytes);
}

void *
arena_take(size_t bytes)
{
	uint8_t *p = arena + used;

	MUST(arena_has(bytes));
	ASAN_UNPOISON_MEMORY_REGION(p, bytes);
	memset(p, 0, bytes);
	/* Up to the next multiple, and a whole gap. */
	used += ((bytes + GAP - 1) & ~(size_t)(GAP - 1)) + GAP;
	return p;
}

_Noreturn void
fuzz_failed(const char *condition, const char *file, int line)
{
	/* What libFuzzer takes for the reason. */
	fprintf(stderr, "SUMMARY: %s:%d: does not hold: %s\n", file, line, condition);
	abort();
}
