/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Threads that give way at random between any two accesses to memory. Only in a build with clang's
 * hooks before each load and store (-DYIELDS, yields.c); nothing elsewhere.
 */
#ifndef YIELDS_H
#define YIELDS_H

#include <stdbool.h>

#ifdef YIELDS
void yields_on(bool on);
#else
static inline void
yields_on(bool on)
{
	(void)on;
}
#endif

#endif
