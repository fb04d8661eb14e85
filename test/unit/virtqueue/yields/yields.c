/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * clang calls these before each load and each store of the code under test. Now and then one gives
 * the CPU away or waits a little, so that the other thread comes in between any two accesses.
 * The seed is printed, and taken from YIELDS_SEED; the interleaving depends on the machine as well.
 */

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "yields.h"

#define NO_HOOKS __attribute__((no_sanitize("coverage", "address", "undefined")))

static atomic_bool on;
static atomic_ulong seed;
static atomic_ulong given; /* times that a thread gave way */
static _Thread_local uint64_t state;

static void print_given(void);

NO_HOOKS static void
first_seed(void)
{
	const char *text = getenv("YIELDS_SEED");
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	atomic_store(&seed, text != NULL ? strtoul(text, NULL, 0) : (unsigned long)now.tv_nsec + 1);
	printf("YIELDS_SEED=%lu\n", atomic_load(&seed));
	fflush(stdout);
	atexit(print_given);
}

NO_HOOKS static void
print_given(void)
{
	printf("gave way %lu times\n", atomic_load(&given));
}

NO_HOOKS void
yields_on(bool value)
{
	if (atomic_load(&seed) == 0)
		first_seed();
	atomic_store(&on, value);
}

NO_HOOKS static void
maybe(void)
{
	uint32_t r;

	if (!atomic_load_explicit(&on, memory_order_relaxed))
		return;
	/* Each thread has a stream of its own, never 0. */
	if (state == 0)
		state = atomic_fetch_add(&seed, 0x9e3779b97f4a7c15u) | 1;
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	r = (uint32_t)((state * UINT64_C(0x2545f4914f6cdd1d)) >> 32);
	if (r % 512 == 0) {
		atomic_fetch_add_explicit(&given, 1, memory_order_relaxed);
		sched_yield();
	} else if (r % 32 == 1) {
		for (volatile uint32_t i = r >> 24; i != 0; i--)
			;
	}
}

#define HOOK(name)                                                                                 \
	void name(const void *at);                                                                 \
	NO_HOOKS void name(const void *at)                                                         \
	{                                                                                          \
		(void)at;                                                                          \
		maybe();                                                                           \
	}

HOOK(__sanitizer_cov_load1)
HOOK(__sanitizer_cov_load2)
HOOK(__sanitizer_cov_load4)
HOOK(__sanitizer_cov_load8)
HOOK(__sanitizer_cov_load16)
HOOK(__sanitizer_cov_store1)
HOOK(__sanitizer_cov_store2)
HOOK(__sanitizer_cov_store4)
HOOK(__sanitizer_cov_store8)
HOOK(__sanitizer_cov_store16)
