/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/** @file The clock behind timeouts and back-off of both ends. */
#ifndef VU_TIME_H
#define VU_TIME_H

#include <stdint.h>
#include <time.h>

/** Milliseconds of the monotonic clock. Any thread. */
static inline uint64_t
vu_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

#endif
