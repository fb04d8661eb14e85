/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#ifndef TICKS_H
#define TICKS_H

#include <rte_cycles.h>

/** Microseconds in TSC ticks. */
static inline uint64_t
ticks_of_us(uint64_t us)
{
	return us / 1000000 * rte_get_tsc_hz() + us % 1000000 * rte_get_tsc_hz() / 1000000;
}

#endif
