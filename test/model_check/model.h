/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * What proofs are written with.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Any value: CBMC gives functions without a body every result they can have. */
bool nondet_bool(void);
uint8_t nondet_u8(void);
uint16_t nondet_u16(void);
uint32_t nondet_u32(void);
uint64_t nondet_u64(void);

#define ASSUME(condition) __CPROVER_assume(condition)
#define PROVE(condition)  __CPROVER_assert(condition, #condition)

/**
 * A place that some execution must come to: the runner demands that this assertion *fails*, so that
 * no proof holds because its assumptions contradict each other.
 */
#define REACH(what) __CPROVER_assert(0, "reach: " what)
#define REACH_IF(condition, what)                                                                  \
	do {                                                                                       \
		if (condition)                                                                     \
			REACH(what);                                                               \
	} while (0)

/** Ring size: fixed by the proof, or any that a ring may have. */
#ifdef SIZE
#define ANY_SIZE() ((uint32_t)(SIZE))
#else
static inline uint32_t
any_size(void)
{
	uint32_t shift = nondet_u32();

	ASSUME(shift <= 15);
	return UINT32_C(1) << shift;
}
#define ANY_SIZE() any_size()
#endif

/** Uninitialised memory: arbitrary contents. */
static inline void *
any_bytes(size_t n)
{
	void *p = malloc(n);

	ASSUME(p != NULL);
	return p;
}

static inline uint32_t
any_upto(uint32_t most)
{
	uint32_t n = nondet_u32();

	ASSUME(n <= most);
	return n;
}

#endif
